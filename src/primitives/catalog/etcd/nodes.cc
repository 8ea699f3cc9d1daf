#include "primitives/catalog/etcd/nodes.h"

#include <random>

namespace warren::etcd {

namespace {

// We choose the id, so that asking twice creates one lease.
std::int64_t new_lease_id() {
  std::random_device random;
  return std::uniform_int_distribution<std::int64_t>(1)(random);
}

std::unexpected<Error> ended(const NodeSession& session) {
  return fail(Errc::lease_lost, "the lease of node {} has ended", session);
}

Result<NodeRecord> node_record(const pb::KeyValue& kv) {
  NodeRecord record;
  if (!record.ParseFromString(kv.value()))
    return fail(Errc::protocol, "node {} in etcd is not one of ours", kv.key());
  return record;
}

}  // namespace

Async<NodeSession> Nodes::join(std::string name, std::string info, std::chrono::milliseconds ttl,
                               Clock::time_point deadline) {
  auto checked = check_node(name, info, ttl);
  if (!checked) co_return std::unexpected(checked.error());
  for (;;) {
    auto lease = new_lease_id();
    auto seconds = std::chrono::ceil<std::chrono::seconds>(ttl).count();
    auto granted = co_await store_.client.grant(lease, seconds, deadline);
    // It exists: an attempt whose answer was lost had created it.
    if (!granted && granted.error().code != Errc::refused)
      co_return std::unexpected(granted.error());
    NodeRecord record;
    record.set_info(info);
    record.set_ttl_s(granted ? granted->ttl() : seconds);
    auto session = session_of(name, lease);
    auto entered = co_await enter(session, lease, std::move(record), deadline);
    if (!entered) co_return std::unexpected(entered.error());
    if (*entered) co_return session;
  }
}

Async<bool> Nodes::enter(NodeSession session, std::int64_t lease, NodeRecord record,
                         Clock::time_point deadline) {
  auto& keys = store_.keys;
  Txn txn;
  txn.if_absent(keys.node(session));
  txn.put(keys.node(session), record.SerializeAsString(), lease).put(keys.life(session));
  auto answer = co_await store_.client.txn(std::move(txn.request), deadline);
  if (answer) co_return true;
  if (answer.error().code == Errc::not_found) co_return false;
  co_return std::unexpected(answer.error());
}

Async<> Nodes::beat(NodeSession session, std::string info, Clock::time_point deadline) {
  auto checked = check_text("what a node says of itself", info);
  if (!checked) co_return checked;
  auto lease = lease_of(session);
  if (!lease) co_return ended(session);
  auto kept = co_await store_.client.keep_alive(*lease, deadline);
  if (!kept) co_return std::unexpected(kept.error());
  if (!*kept) co_return ended(session);
  pb::RangeRequest request;
  request.set_key(store_.keys.node(session));
  auto now = co_await store_.client.range(std::move(request), deadline);
  if (!now) co_return std::unexpected(now.error());
  if (now->kvs().empty()) co_return ended(session);
  auto record = node_record(now->kvs(0));
  if (!record) co_return std::unexpected(record.error());
  if (record->info() == info) co_return ok;
  record->set_info(info);
  Txn txn;
  txn.if_exists(store_.keys.node(session));
  txn.put(store_.keys.node(session), record->SerializeAsString(), *lease);
  auto told = co_await store_.client.txn(std::move(txn.request), deadline);
  if (!told && told.error().code != Errc::not_found) co_return std::unexpected(told.error());
  if (!told || !told->succeeded()) co_return ended(session);
  co_return ok;
}

Async<> Nodes::leave(NodeSession session, Clock::time_point deadline) {
  auto lease = lease_of(session);
  if (!lease) co_return ok;
  co_return co_await store_.client.revoke(*lease, deadline);
}

Async<std::vector<Node>> Nodes::list(Clock::time_point deadline) {
  auto listing = co_await etcd::list(store_.client, store_.keys.nodes(), Only::all, deadline);
  if (!listing) co_return std::unexpected(listing.error());
  std::vector<std::int64_t> leases;
  for (auto& kv : listing->kvs) leases.push_back(kv.lease());
  auto left = co_await store_.client.left(std::move(leases), deadline);
  if (!left) co_return std::unexpected(left.error());
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < listing->kvs.size(); ++i) {
    if (!(*left)[i]) continue;
    auto record = node_record(listing->kvs[i]);
    if (!record) co_return std::unexpected(record.error());
    Node node{.session = listing->kvs[i].key().substr(store_.keys.nodes().size()),
              .info = record->info(),
              .ttl = std::chrono::seconds(record->ttl_s()),
              .left = *(*left)[i]};
    nodes.push_back(std::move(node));
  }
  co_return std::move(nodes);
}

}  // namespace warren::etcd
