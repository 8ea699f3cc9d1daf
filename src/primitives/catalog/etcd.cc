#include "primitives/catalog/etcd.h"

#include "primitives/catalog/etcd/feed.h"
#include "primitives/catalog/etcd/nodes.h"
#include "primitives/catalog/etcd/offers.h"

namespace warren {

namespace {

// Empty parts are left out.
std::string etcd_root(const std::string& outer, std::string inner) {
  while (inner.ends_with('/')) inner.pop_back();
  std::string root;
  for (const auto& part : {outer, inner})
    if (!part.empty()) root.append(part).append("/");
  return root;
}

}  // namespace

struct EtcdCatalog::Parts {
  Parts(std::unique_ptr<etcd::Client> connected, std::string root)
      : client(std::move(connected)), store{*client, {std::move(root)}} {}

  std::unique_ptr<etcd::Client> client;
  etcd::Store store;
  etcd::Nodes nodes{store};
  etcd::Rows rows{store};
  etcd::Offers offers{store, rows};
  etcd::Feed feed{store};
};

Async<std::unique_ptr<Catalog>> EtcdCatalog::open(asio::any_io_executor /*executor*/,
                                                  std::string url, std::string prefix,
                                                  Clock::time_point deadline) {
  auto settings = etcd::parse_url(url);
  if (!settings) co_return std::unexpected(settings.error());
  auto client = etcd::Client::create(*settings);
  if (!client) co_return std::unexpected(client.error());
  auto parts =
      std::make_unique<Parts>(std::move(*client), etcd_root(settings->prefix, std::move(prefix)));
  // A caller that opens a catalog wants to know whether it is there.
  etcd::pb::RangeRequest request;
  request.set_key(parts->store.keys.last());
  auto answer = co_await parts->client->range(std::move(request), deadline);
  if (!answer) co_return std::unexpected(answer.error());
  co_return std::unique_ptr<Catalog>(new EtcdCatalog(std::move(parts)));
}

EtcdCatalog::EtcdCatalog(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
EtcdCatalog::~EtcdCatalog() = default;

Async<NodeSession> EtcdCatalog::join(std::string name, std::string info,
                                     std::chrono::milliseconds ttl, Clock::time_point deadline) {
  return parts_->nodes.join(std::move(name), std::move(info), ttl, deadline);
}

Async<> EtcdCatalog::beat(NodeSession session, std::string info, Clock::time_point deadline) {
  return parts_->nodes.beat(std::move(session), std::move(info), deadline);
}

Async<> EtcdCatalog::leave(NodeSession session, Clock::time_point deadline) {
  auto left = co_await parts_->nodes.leave(session, deadline);
  if (!left) co_return left;
  co_return co_await parts_->offers.free_rows_of(std::move(session), deadline);
}

Async<std::vector<Node>> EtcdCatalog::nodes(Clock::time_point deadline) {
  return parts_->nodes.list(deadline);
}

Async<std::size_t> EtcdCatalog::add(std::vector<Row> rows, Clock::time_point deadline) {
  return parts_->rows.add(std::move(rows), deadline);
}

Async<std::size_t> EtcdCatalog::remove(std::vector<std::string> keys, Clock::time_point deadline) {
  return parts_->rows.remove(std::move(keys), deadline);
}

Async<> EtcdCatalog::change(std::string key, RowChange change, Clock::time_point deadline) {
  return parts_->rows.change(std::move(key), std::move(change), deadline);
}

Async<std::vector<Row>> EtcdCatalog::claimable(std::size_t most, Clock::time_point deadline) {
  return parts_->offers.claimable(most, deadline);
}

Async<Claim> EtcdCatalog::claim(NodeSession session, std::string key, Clock::time_point deadline) {
  return parts_->rows.claim(std::move(session), std::move(key), deadline);
}

Async<> EtcdCatalog::write(Claim claim, RowState state, std::optional<std::string> note,
                           Clock::time_point deadline) {
  return parts_->rows.write(std::move(claim), state, std::move(note), deadline);
}

Async<> EtcdCatalog::release(Claim claim, Release how, Clock::time_point deadline) {
  return parts_->rows.release(std::move(claim), std::move(how), deadline);
}

Async<Claim> EtcdCatalog::hand_over(Claim claim, NodeSession to, Clock::time_point deadline) {
  return parts_->rows.hand_over(std::move(claim), std::move(to), deadline);
}

Async<Changes> EtcdCatalog::changes(std::string position, Clock::time_point wait_until,
                                    Clock::time_point deadline) {
  return parts_->feed.changes(std::move(position), wait_until, deadline);
}

}  // namespace warren
