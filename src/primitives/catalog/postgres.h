#pragma once
// The catalog in PostgreSQL (14 or newer), in tables that it creates itself; see pg_statements.h.
//
//   auto catalog = co_await PostgresCatalog::open(executor, "postgres://warren@db/fleet", "fleet",
//                                                 deadline);
//   fleet=> SELECT key, owner_id, lease_expires, ready FROM fleet_rows;
//
// Every decision is one statement, by the clock of the server. Heartbeats have a connection of
// their own, so that they never wait behind a claim; everything else shares a few connections.
//
// An epoch is (timeline, counter). The server's timeline grows when a standby is promoted, and the
// counter is never behind the server's clock in microseconds. So no epoch repeats, even if a
// failover lost what was committed.
#include "primitives/catalog/catalog.h"
#include "primitives/catalog/pg_pool.h"
#include "primitives/catalog/pg_server.h"
#include "primitives/catalog/pg_statements.h"
#include "primitives/catalog/write_order.h"

namespace warren {

class PostgresCatalog : public Catalog {
 public:
  static constexpr std::size_t usual_connections = 4;  // at most, besides the one for heartbeats

  // Creates the tables <prefix>_… if they do not exist. Errc::invalid: the URL or the prefix.
  // Errc::refused: a newer version created the tables, or the server is too old. Errc::denied: the
  // role may not log in, or create tables. Errc::unavailable: the server was not reached by the
  // deadline.
  static Async<std::unique_ptr<Catalog>> open(asio::any_io_executor executor, std::string url,
                                              std::string prefix, Clock::time_point deadline,
                                              std::size_t connections = usual_connections);

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

  // Checks every 50 to 500 ms. Rejected: LISTEN and NOTIFY, because a transaction that notifies
  // holds one lock of the whole cluster while it commits, so all claims would commit one by one.
  Async<Changes> changes(std::string position, Clock::time_point wait_until,
                         Clock::time_point deadline) override;

 private:
  struct Look;

  PostgresCatalog(asio::any_io_executor executor, pg::Server server, pg::Statements statements,
                  std::size_t connections);

  Async<> make_tables(Clock::time_point deadline);
  Async<std::vector<Row>> offered(std::size_t most, bool& is_behind, Clock::time_point deadline);
  Async<> sweep(std::size_t most, Clock::time_point deadline);
  Async<Look> look(std::string key, NodeSession session, NodeSession other,
                   Clock::time_point deadline);
  Async<Changes> read_changes(std::string position, Clock::time_point deadline);

  pg::Server server_;
  pg::Statements statements_;
  pg::Pool pool_;
  pg::Pool heartbeats_;
  WriteOrder order_;
  Clock::time_point swept_, purged_;
  bool has_more_to_sweep_ = false;
};

}  // namespace warren
