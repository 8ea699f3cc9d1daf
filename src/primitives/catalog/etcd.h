#pragma once
// The catalog in etcd, over its v3 API. Keys and their meaning are in etcd/keys.h.
//
// All time is etcd's: a node is a key that hangs on an etcd lease, and a row that is to wait has a
// key beside it that hangs on another. A node that is idle writes nothing at all. An epoch is the
// revision of the claim: etcd gives none twice, over a failover neither.
//
// etcd counts in seconds. A ttl and a wait are rounded up: to whole seconds, a wait of 100 s and more
// to two digits, and both to what etcd allows (two seconds with its default election timeout). When
// etcd restarts or chooses another leader, leases begin anew: a node or a wait may last one ttl longer.
#include <memory>
#include <string>

#include "primitives/catalog/catalog.h"

namespace warren {

class EtcdCatalog final : public Catalog {
 public:
  // etcd://host:port[,host:port…][/prefix], or etcds://…?ca=file[&cert=file&key=file] with TLS. All keys
  // begin with the prefix of the URL, if it has one, and the one that is given. Errc::invalid: the URL.
  // The executor runs on one thread. Whoever destroys a catalog awaits none of its calls any more.
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
