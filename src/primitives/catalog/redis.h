#pragma once
// The catalog's engine on Redis: a few keys in one slot, changed by scripts.
//
// Every key begins with the prefix as a hash tag, {fleet}:rows. So scripts declare all keys that
// they touch, and an ACL can limit a user to {fleet}:*. Time is the server's. An epoch is that of
// the topology with a counter that is never behind the server's clock, as with leases: so it also
// grows over a failover that lost writes.
#include <memory>
#include <string>
#include <vector>

#include "primitives/catalog/catalog.h"
#include "primitives/catalog/write_order.h"
#include "redis/client.h"
#include "redis/subscriber.h"

namespace warren {

class RedisCatalog final : public Catalog {
 public:
  // Creates a client of its own. Errc::invalid: the settings.
  static Result<std::unique_ptr<Catalog>> open(const asio::any_io_executor& executor,
                                               redis::Settings settings, const std::string& prefix);
  // The client must outlive the catalog. Sends nothing: missing keys are created by the first
  // write.
  RedisCatalog(redis::Client& client, const std::string& prefix);
  ~RedisCatalog() override;

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
  awaitable<void> close() override;

 private:
  Async<redis::Reply> run(const redis::Script& script, const char* what,
                          std::vector<std::string> words, Clock::time_point deadline,
                          redis::Lane lane = redis::Lane::data);
  // Runs a script that gives epochs.
  Async<redis::Reply> run_granting(const redis::Script& script, const char* what,
                                   std::vector<std::string> words, Clock::time_point deadline);
  Async<std::size_t> run_on_rows(const char* what, std::vector<std::string> words,
                                 std::size_t words_per_row, Clock::time_point deadline);
  Async<redis::Reply> run_as_owner(const char* what, const Claim& claim,
                                   std::vector<std::string> words, Clock::time_point deadline,
                                   bool is_granting = false);
  Async<Changes> look(std::string position, Clock::time_point deadline);
  Async<Changes> everything(std::string position, std::int64_t now_ms, Clock::time_point deadline);
  std::string listened_since() const;
  void listen();
  awaitable<void> hear();

  std::unique_ptr<redis::Client> own_client_;  // null: another owner's client is used
  redis::Client& client_;
  std::vector<std::string> keys_;
  std::string id_;  // of this object
  WriteOrder order_;
  redis::Subscriber subscriber_;
  Event news_;
  std::uint64_t news_count_ = 0, gaps_ = 0;
  bool listens_ = false, is_closed_ = false;
  TaskGroup tasks_;
};

}  // namespace warren
