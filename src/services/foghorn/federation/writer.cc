#include "services/foghorn/federation/writer.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "base/log.h"
#include "primitives/lease/fence.h"
#include "services/foghorn/federation/scripts.h"

namespace warren::federation {

namespace json = boost::json;

namespace {

constexpr std::size_t batch_records = 200, batch_bytes = 1u << 20;
constexpr auto write_patience = 2s;

std::optional<Kind> kind_named(std::string_view name) {
  for (auto kind : all_kinds)
    if (folder(kind) == name) return kind;
  return {};
}

}  // namespace

std::string to_json(const Bulletin& bulletin) {
  json::array records, kept;
  for (const auto& record : bulletin.records)
    records.push_back(json::array{folder(record.kind), record.id, record.value});
  for (const auto& peer : bulletin.kept) kept.emplace_back(peer);
  json::object object{{"from", bulletin.from}, {"records", std::move(records)}};
  if (!kept.empty()) object["kept"] = std::move(kept);
  return json::serialize(object);
}

Result<Bulletin> parse_bulletin(std::string_view text) {
  boost::system::error_code error;
  auto value = json::parse(json::string_view(text.data(), text.size()), error);
  if (error || !value.is_object()) return fail(Errc::invalid, "a bulletin is not JSON");
  const auto& object = value.get_object();
  const auto *from = object.if_contains("from"), *records = object.if_contains("records"),
             *kept = object.if_contains("kept");
  if (!from || !from->is_string() || !records || !records->is_array())
    return fail(Errc::invalid, "a bulletin without from and records");
  Bulletin bulletin{std::string(from->get_string())};
  for (const auto& each : records->get_array()) {
    const auto* parts = each.if_array();
    if (!parts || parts->size() != 3) continue;
    const auto *name = (*parts)[0].if_string(), *id = (*parts)[1].if_string(),
               *text_of = (*parts)[2].if_string();
    if (!name || !id || !text_of) continue;
    // One that a newer instance knows is nothing to us.
    if (auto kind = kind_named(std::string_view(*name)))
      bulletin.records.push_back({*kind, std::string(*id), std::string(*text_of)});
  }
  if (kept && kept->is_array())
    for (const auto& peer : kept->get_array())
      if (peer.is_string()) bulletin.kept.emplace_back(peer.get_string());
  return bulletin;
}

Writer::Writer(redis::Client& client, std::string cluster, std::string instance)
    : client_(client),
      cluster_(std::move(cluster)),
      instance_(std::move(instance)),
      arrived_(client.executor()) {}

void Writer::put(Record record) {
  auto key = key_of(cluster_, record);
  waiting_.insert_or_assign(std::move(key), Waiting{std::move(record), false});
  arrived_.notify();
}

void Writer::keep(Record record) {
  auto key = key_of(cluster_, record);
  waiting_.try_emplace(std::move(key), Waiting{std::move(record), true});
  arrived_.notify();
}

void Writer::announce_kept(std::string peer) {
  kept_.insert(std::move(peer));
  arrived_.notify();
}

void Writer::drop() {
  waiting_.clear();
  kept_.clear();
}

std::vector<Writer::Waiting> Writer::take() {
  std::vector<Waiting> batch;
  for (std::size_t bytes = 0;
       !waiting_.empty() && batch.size() < batch_records && bytes < batch_bytes;) {
    batch.push_back(std::move(waiting_.extract(waiting_.begin()).mapped()));
    bytes += batch.back().record.value.size();
  }
  return batch;
}

void Writer::give_back(std::vector<Waiting> batch) {
  for (auto& each : batch) {
    auto key = key_of(cluster_, each.record);
    waiting_.try_emplace(std::move(key), std::move(each));  // unless there is a newer one
  }
}

awaitable<void> Writer::run(Lease& lease) {
  for (;;) {
    while (waiting_.empty() && kept_.empty()) co_await arrived_.wait();
    auto batch = take();
    std::vector<std::string> kept(kept_.begin(), kept_.end());
    kept_.clear();
    auto missing = co_await send(batch, kept, &lease);
    if (missing) {
      for (auto place : *missing) {
        batch.at(place).is_kept = false;
        give_back({batch[place]});
      }
      continue;
    }
    if (missing.error().code == Errc::lease_lost) {
      // So that whoever waits for the end of the lease learns of it now.
      auto lost = co_await lease.guarded(redis::Command("EXISTS", leader_key(cluster_)));
      if (!lost) co_return;
      continue;  // a token of its own again
    }
    give_back(std::move(batch));
    kept_.insert(kept.begin(), kept.end());
    log::debug("federation.write_delayed", "why", missing.error().what);
    co_await sleep_for(200ms);
  }
}

Async<> Writer::write(std::vector<Record> records, const Lease* lease) {
  std::vector<Waiting> batch;
  for (auto& record : records) batch.push_back({std::move(record), false});
  auto written = co_await send(batch, {}, lease);
  if (!written) co_return std::unexpected(written.error());
  co_return ok;
}

Async<std::vector<std::size_t>> Writer::send(const std::vector<Waiting>& batch,
                                             std::vector<std::string> kept_peers,
                                             const Lease* lease) {
  auto lease_key = lease ? lease->terms().key : leader_key(cluster_);
  std::vector<std::string> keys{LeaseMachine::fence_key(lease_key)};
  std::vector<std::string> args;
  if (lease) {
    auto token = lease->token();
    args = {std::to_string(token.epoch), std::to_string(token.counter),
            std::to_string(fence_retention.count())};
  } else {
    args = {"", "", ""};
  }
  Bulletin bulletin{instance_, {}, std::move(kept_peers)};
  for (const auto& each : batch)
    if (!each.is_kept) bulletin.records.push_back(each.record);
  args.push_back(federation_channel(cluster_));
  args.push_back(to_json(bulletin));
  for (const auto& each : batch) {
    keys.push_back(key_of(cluster_, each.record));
    bool is_hash = each.record.kind == Kind::peer_addresses;
    args.emplace_back(each.is_kept                ? "keep"
                      : each.record.value.empty() ? "del"
                      : is_hash                   ? "hash"
                                                  : "set");
    args.push_back(std::to_string(ttl_of(each.record.kind).count()));
    args.push_back(each.is_kept ? "" : each.record.value);
  }
  auto options = redis::CallOptions().within(write_patience).idempotent();
  static const auto script = behind_fence(scripts::write_records);
  auto reply = co_await client_.run(script, std::move(keys), std::move(args), options);
  if (!reply) co_return std::unexpected(behind_fence(std::move(reply.error())));
  written_ += batch.size();
  std::vector<std::size_t> missing;
  for (const auto& place : reply->items) missing.push_back(std::size_t(place.number));
  co_return missing;
}

}  // namespace warren::federation
