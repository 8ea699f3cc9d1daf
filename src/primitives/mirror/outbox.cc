#include "primitives/mirror/outbox.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

namespace warren::mirror {

namespace {

std::string in_json(const std::string& text) {
  bool is_plain = std::ranges::all_of(
      text, [](char c) { return c >= ' ' && c < 0x7f && c != '"' && c != '\\'; });
  return is_plain ? '"' + text + '"' : boost::json::serialize(boost::json::value(text));
}

// The last member is for our own instances, which learn of it through the log.
std::string notification(const EntityType& type, const std::string& id) {
  return R"({"type":)" + in_json(type.name) + R"(,"id":)" + in_json(id) + R"(,"via":"log"})";
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
  Put& put = waiting_.emplace_back();
  put.bytes = *bytes;
  put.receipts = {receipt};
  auto self = std::prev(waiting_.end());
  for (auto& change : batch) {
    const auto& type = terms_.types[change.type];
    put.items.push_back(
        {type.folder + change.id, std::move(change.value), notification(type, change.id)});
    auto [at, is_new] = newest_.try_emplace(put.items.back().key, self);
    if (!is_new && at->second == self) continue;
    ++put.newest;
    if (is_new) continue;
    auto older = std::exchange(at->second, self);
    if (--older->newest > 0) continue;
    put.receipts.insert(put.receipts.end(), older->receipts.begin(), older->receipts.end());
    forget(older);
  }
  return receipt;
}

void Outbox::forget(Place put) {
  changes_ -= put->items.size();
  bytes_ -= put->bytes;
  waiting_.erase(put);
}

std::optional<Outbox::Write> Outbox::next(std::uint64_t epoch) {
  if (!flight_ && !loaded_ && waiting_.empty()) return {};
  if (!flight_) flight_ = loaded_ ? std::exchange(loaded_, {}) : load();
  if (flight_->write) {
    auto& args = flight_->write->args;
    args[0] = std::to_string(epoch);
    if (++flight_->attempts > 1) args[3] = fmt::format("{}.{}", flight_->number, flight_->attempts);
  }
  return std::exchange(flight_->write, {});
}

void Outbox::prepare() {
  if (!loaded_ && changes_ >= worth_preparing) loaded_ = load();
}

void Outbox::on_failed(Write write, bool is_reordered) {
  if (flight_) flight_->write = std::move(write);
  if (is_reordered && loaded_) std::swap(flight_, loaded_);
}

// Takes whole puts, as many as one batch holds. If several change an entity, the last value counts.
std::vector<Outbox::Item> Outbox::take_items(Flight& flight) {
  std::vector<Item> items;
  std::unordered_map<std::string, std::size_t> places;
  std::size_t bytes = 0;
  std::size_t count = 0;
  bool has_doubles = false;
  while (!waiting_.empty() && count + waiting_.front().items.size() <= batch_changes &&
         bytes + waiting_.front().bytes <= batch_bytes) {
    auto put = waiting_.begin();
    count += put->items.size();
    bytes += put->bytes;
    has_doubles = has_doubles || put->newest < put->items.size();
    flight.receipts.insert(flight.receipts.end(), put->receipts.begin(), put->receipts.end());
    for (auto& item : put->items) {
      auto newest = newest_.find(item.key);
      if (newest != newest_.end() && newest->second == put) newest_.erase(newest);
      items.push_back(std::move(item));
    }
    forget(put);
  }
  if (!has_doubles) return items;
  std::vector<Item> single;
  for (auto& item : items) {
    auto [at, is_new] = places.try_emplace(item.key, single.size());
    if (is_new)
      single.push_back(std::move(item));
    else
      single[at->second] = std::move(item);
  }
  return single;
}

Outbox::Flight Outbox::load() {
  Flight flight{++number_, 0, {}, Write{}, {}};
  auto items = take_items(flight);
  auto& [keys, args] = *flight.write;
  keys = {terms_.log_key(), terms_.head_key()};
  args = {"",
          std::to_string(terms_.log_entries),
          writer_,
          std::to_string(flight.number),
          "",
          terms_.log_channel(),
          terms_.channel};
  keys.reserve(keys.size() + items.size());
  args.reserve(args.size() + 3 * items.size());
  Packer packer;
  for (auto& item : items) {
    auto place = packer.add({item.key, item.value});
    keys.push_back(terms_.prefix + item.key);
    args.push_back(place ? std::to_string(place->first) : "");
    args.push_back(place ? std::to_string(place->last) : "");
    args.push_back(std::move(item.notification));
  }
  flight.packed = packer.take();
  args[4] = flight.packed;
  return flight;
}

std::optional<Entry> Outbox::on_written(Version version, std::string before,
                                        std::string_view attempt) {
  if (!flight_) return {};
  Entry entry{{version, fmt::format("{}:{}", writer_, attempt)},
              std::move(before),
              std::move(flight_->packed)};
  auto receipts = std::move(flight_->receipts);
  flight_.reset();
  resolve(std::move(receipts), version);
  return entry;
}

void Outbox::on_refused(const Error& error) {
  if (!flight_) return;
  auto receipts = std::move(flight_->receipts);
  flight_.reset();
  resolve(std::move(receipts), std::unexpected(error));
}

void Outbox::abandon(const Error& error) {
  on_refused(error);
  if (auto loaded = std::exchange(loaded_, {}))
    resolve(std::move(loaded->receipts), std::unexpected(error));
  newest_.clear();
  changes_ = bytes_ = 0;
  for (auto& put : std::exchange(waiting_, {}))
    resolve(std::move(put.receipts), std::unexpected(error));
}

void Outbox::resolve(std::vector<std::shared_ptr<Receipt>> receipts,
                     const Result<Version>& result) {
  for (const auto& receipt : receipts) {
    receipt->result = result;
    if (receipt->tell) receipt->tell();
  }
}

}  // namespace warren::mirror
