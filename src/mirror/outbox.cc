#include "mirror/outbox.h"

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

namespace warren::mirror {

namespace {

// The last member is for us, who hear of it through the log.
std::string notification(const EntityType& type, const std::string& id) {
  return fmt::format(R"({{"type":{},"id":{},"via":"log"}})",
                     boost::json::serialize(boost::json::value(type.name)),
                     boost::json::serialize(boost::json::value(id)));
}

}  // namespace

Result<std::size_t> Outbox::check(const Batch& batch) const {
  std::size_t bytes = 0;
  for (const auto& change : batch) {
    if (change.type >= terms_.types.size())
      return fail(Errc::invalid, "there is no entity type {}", change.type);
    bytes += change.id.size() + (change.value ? change.value->size() : 0) + 64;
  }
  if (batch.empty() || batch.size() > batch_changes || bytes > batch_bytes)
    return fail(Errc::invalid, "{} changes of {} bytes are not 1 to {} of at most {} in all",
                batch.size(), bytes, batch_changes, batch_bytes);
  return bytes;
}

Result<std::shared_ptr<Receipt>> Outbox::put(Batch batch) {
  auto bytes = check(batch);
  if (!bytes) return std::unexpected(bytes.error());
  if (changes_ + batch.size() > terms_.queued_changes || bytes_ + *bytes > terms_.queued_bytes)
    return fail(Errc::overloaded, "{} changes wait for Redis already", changes_);
  auto receipt = std::make_shared<Receipt>();
  changes_ += batch.size();
  bytes_ += *bytes;
  waiting_.push_back({std::move(batch), *bytes, 0, {receipt}});
  auto self = std::prev(waiting_.end());
  for (const auto& change : self->batch) {
    auto [at, is_new] = newest_.try_emplace(key_of(change), self);
    if (!is_new && at->second == self) continue;
    ++self->newest;
    if (is_new) continue;
    auto older = std::exchange(at->second, self);
    if (--older->newest > 0) continue;
    self->receipts.insert(self->receipts.end(), older->receipts.begin(), older->receipts.end());
    forget(older);
  }
  return receipt;
}

void Outbox::forget(Place put) {
  changes_ -= put->batch.size();
  bytes_ -= put->bytes;
  waiting_.erase(put);
}

std::optional<Outbox::Write> Outbox::next(std::uint64_t epoch) {
  if (!flight_ && waiting_.empty()) return {};
  if (!flight_) flight_ = load();
  flight_->write.args[0] = std::to_string(epoch);
  return flight_->write;
}

// Whole puts, as many as one batch holds; of an entity that several of them change, the last value.
Outbox::Flight Outbox::load() {
  Flight flight{++number_, {}, {}, {}};
  std::vector<Change> changes;
  std::unordered_map<std::string, std::size_t> places;
  std::size_t count = 0, bytes = 0;
  while (!waiting_.empty() && count + waiting_.front().batch.size() <= batch_changes &&
         bytes + waiting_.front().bytes <= batch_bytes) {
    auto put = waiting_.begin();
    count += put->batch.size();
    bytes += put->bytes;
    flight.receipts.insert(flight.receipts.end(), put->receipts.begin(), put->receipts.end());
    for (auto& change : put->batch) {
      auto key = key_of(change);
      auto newest = newest_.find(key);
      if (newest != newest_.end() && newest->second == put) newest_.erase(newest);
      auto [at, is_new] = places.try_emplace(std::move(key), changes.size());
      if (is_new)
        changes.push_back(std::move(change));
      else
        changes[at->second] = std::move(change);
    }
    forget(put);
  }
  auto& [keys, args] = flight.write;
  keys = {terms_.log_key(), terms_.head_key()};
  args = {"",
          std::to_string(terms_.log_entries),
          writer_,
          std::to_string(flight.number),
          "",
          terms_.log_channel(),
          terms_.channel};
  keys.reserve(keys.size() + changes.size());
  args.reserve(args.size() + 3 * changes.size());
  Packer packer;
  for (const auto& change : changes) {
    auto key = key_of(change);
    auto place = packer.add({key, change.value});
    keys.push_back(terms_.prefix + key);
    args.push_back(place ? std::to_string(place->first) : "");
    args.push_back(place ? std::to_string(place->last) : "");
    args.push_back(notification(terms_.types[change.type], change.id));
  }
  flight.packed = packer.take();
  args[4] = flight.packed;
  return flight;
}

std::optional<Entry> Outbox::on_written(Version version, std::optional<std::string> before) {
  if (!flight_) return {};
  std::optional<Entry> entry;
  if (before)
    entry = Entry{{version, fmt::format("{}:{}", writer_, flight_->number)},
                  *std::move(before),
                  std::move(flight_->packed)};
  finish(version);
  return entry;
}

void Outbox::on_refused(const Error& error) { finish(std::unexpected(error)); }

void Outbox::finish(const Result<Version>& result) {
  if (!flight_) return;
  for (const auto& receipt : flight_->receipts) receipt->result = result;
  flight_.reset();
}

}  // namespace warren::mirror
