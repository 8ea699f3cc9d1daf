#include "net/kube/lease.h"

namespace warren::kube {

namespace {

// With six fractional digits, as API servers require.
std::string micro_time() {
  auto stamp = iso8601(WallClock::now());
  stamp.pop_back();
  return stamp + "000Z";
}

LeaseRecord record_of(const Object& lease) {
  return {.holder = std::string(text_at(lease, "/spec/holderIdentity")),
          .duration = std::chrono::seconds(number_at(lease, "/spec/leaseDurationSeconds", 0)),
          .epoch = number_at(lease, "/spec/leaseTransitions", 0),
          .version = std::string(version_of(lease))};
}

bool was_quicker(const Failure& why) {
  return why.reason == Reason::conflict || why.reason == Reason::already_exists;
}

}  // namespace

LeaseMachine::LeaseMachine(std::string self, LeaseTimes times)
    : self_(std::move(self)), times_(times) {
  ensure(times_.renew_within < times_.duration, "a holder stops believing before others take over");
}

LeaseMachine::Step LeaseMachine::next(Clock::time_point now, const LeaseRecord* read) {
  if (!read) return Step::create;
  if (read->version != seen_version_) {
    seen_version_ = read->version;
    seen_at_ = now;
  }
  if (read->holder == self_) return Step::renew;
  if (read->holder.empty()) return Step::take;
  return now - seen_at_ > read->duration ? Step::take : Step::wait;
}

void LeaseMachine::on_written(Clock::time_point sent, std::int64_t epoch) {
  held_until_ = sent + times_.renew_within;
  epoch_ = epoch;
}

void LeaseMachine::on_released() { held_until_ = Clock::time_point::min(); }

LeaseKeeper::LeaseKeeper(Client& client, Place place, std::string holder, LeaseTimes times)
    : client_(client), place_(std::move(place)), machine_(std::move(holder), times) {}

Asked<bool> LeaseKeeper::look(Clock::time_point deadline) {
  auto place = place_;
  auto read = co_await client_.get(std::move(place), deadline);
  bool is_there = read.has_value();
  if (!is_there && read.error().reason != Reason::not_found)
    co_return std::unexpected(read.error());
  auto record = is_there ? record_of(*read) : LeaseRecord{};
  auto now = Clock::now();
  auto step = machine_.next(now, is_there ? &record : nullptr);
  if (step == LeaseMachine::Step::wait) co_return false;
  auto epoch = record.epoch + (step == LeaseMachine::Step::renew ? 0 : 1);
  Object lease = is_there ? *std::move(read)
                          : json::object{{"apiVersion", "coordination.k8s.io/v1"},
                                         {"kind", "Lease"},
                                         {"metadata", json::object{{"name", place_.name}}}};
  auto& spec = lease.as_object()["spec"];
  if (!spec.is_object()) spec.emplace_object();
  auto& said = spec.get_object();
  said["holderIdentity"] = machine_.self();
  said["leaseDurationSeconds"] = machine_.times().duration.count();
  said["leaseTransitions"] = epoch;
  said["renewTime"] = micro_time();
  if (step != LeaseMachine::Step::renew) said["acquireTime"] = said["renewTime"];
  auto to = place_;
  Answer<Object> written = Object();
  if (is_there)
    written = co_await client_.replace(std::move(to), std::move(lease), deadline);
  else
    written = co_await client_.create(std::move(to), std::move(lease), deadline);
  if (written) {
    machine_.on_written(now, epoch);
    co_return true;
  }
  if (was_quicker(written.error())) co_return false;
  co_return std::unexpected(written.error());
}

Asked<bool> LeaseKeeper::release(Clock::time_point deadline) {
  machine_.on_released();
  auto place = place_;
  auto read = co_await client_.get(std::move(place), deadline);
  if (!read && read.error().reason == Reason::not_found) co_return true;
  if (!read) co_return std::unexpected(read.error());
  if (record_of(*read).holder != machine_.self()) co_return true;
  read->as_object()["spec"].as_object()["holderIdentity"] = "";
  auto to = place_;
  auto written = co_await client_.replace(std::move(to), *std::move(read), deadline);
  if (!written && !was_quicker(written.error())) co_return std::unexpected(written.error());
  co_return true;
}

}  // namespace warren::kube
