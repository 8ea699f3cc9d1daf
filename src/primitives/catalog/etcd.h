#pragma once
// The catalog in etcd, over its v3 API. etcd/keys.h describes the keys.
//
// All time is etcd's: a node is a key attached to an etcd lease, and a row that has to wait has a
// second key attached to another lease. An idle node writes nothing at all. An epoch is the
// revision of the claim: etcd never gives the same one twice, not even over a failover.
//
// etcd counts in seconds. A ttl and a wait are rounded up: to whole seconds, a wait of 100 s or
// more to two digits, and both to what etcd allows (two seconds with its default election timeout).
// When etcd restarts or elects another leader, leases start again: a node or a wait may last one
// ttl longer.
#include <memory>
#include <string>

#include "primitives/catalog/catalog.h"

namespace warren {

class EtcdCatalog final : public Catalog {
 public:
  // Takes etcd://host:port[,host:port…][/prefix], or etcds://…?ca=file[&cert=file&key=file] with
  // TLS. All keys begin with the URL's prefix, if it has one, followed by `prefix`. Errc::invalid:
  // the URL. The executor runs on one thread. No call may be under way when the catalog is
  // destroyed.
  static Async<std::unique_ptr<Catalog>> open(asio::any_io_executor executor, std::string url,
                                              std::string prefix, Clock::time_point deadline);
  ~EtcdCatalog() override;

  Async<NodeSession> join(std::string name, std::string info, std::chrono::milliseconds ttl,
                          Clock::time_point deadline) override;
  Async<> beat(NodeSession session, std::string info, Clock::time_point deadline) override;
  Async<> leave(NodeSession session, Clock::time_point deadline) override;
  Async<std::vector<Node>> nodes(Clock::time_point deadline) override;

  Async<std::size_t> add(std::vector<Row> rows, Clock::time_point deadline) override;
  Async<std::size_t> remove(std::vector<std::string> keys, Clock::time_point deadline) override;
  Async<> change(std::string key, RowChange change, Clock::time_point deadline) override;

  Async<std::vector<Row>> claimable(std::size_t most, Clock::time_point deadline) override;
  Async<Claim> claim(NodeSession session, std::string key, Clock::time_point deadline) override;
  Async<> write(Claim claim, RowState state, std::optional<std::string> note,
                Clock::time_point deadline) override;
  Async<> release(Claim claim, Release how, Clock::time_point deadline) override;
  Async<Claim> hand_over(Claim claim, NodeSession to, Clock::time_point deadline) override;

  Async<Changes> changes(std::string position, Clock::time_point wait_until,
                         Clock::time_point deadline) override;

 private:
  struct Parts;
  explicit EtcdCatalog(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace warren
