#pragma once
// A catalog: rows that want an owner. A node claims a row by compare-and-set and owns it while the
// node's own lease lasts.
//
//   free ──claim──> claimed ──write──> ready ──write──> draining
//    ^                 │                 │                 │
//    ├──── release, or the node's lease ends ──────────────┤
//    └──<─ wait is over ── failed <── release with an error ┘     hand_over: the next owner at once
//
// One lease per node, however many rows it owns: an idle node changes one row per heartbeat. Each
// change of owner has a new epoch, which never repeats. Every write of an owner carries its epoch,
// and a write under an older one is refused (Errc::lease_lost). All times are by the catalog's own
// clock, so a node's clock may be wrong by any amount.
//
//   auto session = co_await catalog.join("n1", info, 30s, deadline);    // then beat(), in time
//   auto offered = co_await catalog.claimable(10, deadline);
//   auto claim = co_await catalog.claim(*session, offered->front().key, deadline);
//   co_await catalog.write(*claim, RowState::ready, note, deadline);
//   co_await catalog.close();
//
// Three engines keep this promise: Redis, PostgreSQL and etcd (docs/protocols/catalog.md). Every
// call may be made twice, so an engine repeats a call whose answer was lost, until the deadline.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/task.h"
#include "primitives/lease/token.h"

namespace warren {

// A time to live must leave room to miss two heartbeats on a bad link.
inline constexpr std::chrono::milliseconds least_node_ttl = 1s;
inline constexpr std::size_t most_row_key = 512;         // bytes
inline constexpr std::size_t most_row_text = 64u << 10;  // bytes of a spec, a note or a node's info

// One life of a node: its name, and something that differs from every earlier life: "n1/8f3a…".
using NodeSession = std::string;
// Returns the name before the slash.
std::string_view node_name(std::string_view session);

enum class RowState : std::uint8_t { free, claimed, ready, draining, failed };
std::string_view name(RowState state);
std::optional<RowState> parse_row_state(std::string_view text);

struct Row {
  std::string key;        // printable, without spaces
  std::string spec = {};  // what is wanted, as set by the program that added it
  std::string note = {};  // what its last owner said
  std::int64_t rank = 0;  // claimable rows with a higher rank come first; ±10^15
  RowState state = RowState::free;
  NodeSession owner = {};      // empty: none
  FencingToken epoch = {};     // of the last change of owner; {0, 0}: it never had one
  std::uint32_t attempts = 0;  // releases with an error since it was last ready
  std::string error = {};      // of the last such release
  // How much longer the row is not offered, counted from the read. The catalog keeps the moment.
  std::chrono::milliseconds wait = {};
};

struct Node {
  NodeSession session;
  std::string info;  // what the node said with its last heartbeat
  std::chrono::milliseconds ttl = {};
  std::chrono::milliseconds left = {};  // until its lease ends
};

// The right to a row, which later writes carry.
struct Claim {
  NodeSession session;
  std::string key;
  FencingToken epoch;
};

// Why an owner gives a row back.
struct Release {
  std::string error = {};               // not empty: the row has failed once more
  std::chrono::milliseconds wait = {};  // how long the row is not offered
  std::optional<std::string> note = {};
};

// What others change in a row. A field that is not set stays unchanged.
struct RowChange {
  std::optional<std::string> spec = {};
  std::optional<std::int64_t> rank = {};
  bool ends_wait = false;  // and resets the count of attempts
};

// Changed rows as they are now, and removed ones. A row may be reported twice.
struct Changes {
  std::vector<Row> rows;
  std::vector<std::string> removed;
  std::string position;  // to pass to the next call; opaque
  // True: these are all the rows, and any other is gone. That is so at the first call, and if the
  // catalog no longer knows what changed since that position, or has another history.
  bool is_everything = false;
};

class Catalog {
 public:
  virtual ~Catalog() = default;

  // Begins a new life of a node. The returned session is unique, even if other nodes have the same
  // name. Returns Errc::invalid for the name, the info or the ttl.
  virtual Async<NodeSession> join(std::string name, std::string info, std::chrono::milliseconds ttl,
                                  Clock::time_point deadline) = 0;
  // Makes the lease last one ttl from now on. Errc::lease_lost is final: join again.
  virtual Async<> beat(NodeSession session, std::string info, Clock::time_point deadline) = 0;
  // Ends a life: all its rows become free. Does nothing if it is already over.
  virtual Async<> leave(NodeSession session, Clock::time_point deadline) = 0;
  // The nodes whose lease has not ended, by session.
  virtual Async<std::vector<Node>> nodes(Clock::time_point deadline) = 0;

  // Adds free rows with their key, spec and rank. Existing rows stay as they are. Returns how many
  // were new. Errc::invalid: nothing was added.
  virtual Async<std::size_t> add(std::vector<Row> rows, Clock::time_point deadline) = 0;
  // Removes rows, whichever node owns them. Returns how many existed.
  virtual Async<std::size_t> remove(std::vector<std::string> keys, Clock::time_point deadline) = 0;
  // Changes a row, whichever node owns it. Returns Errc::not_found if there is no such row.
  virtual Async<> change(std::string key, RowChange change, Clock::time_point deadline) = 0;

  // The rows that any node may claim now, by rank, then by key. O(log n) in the number of other
  // rows. Also frees rows of nodes whose lease has ended, some at a time.
  virtual Async<std::vector<Row>> claimable(std::size_t most, Clock::time_point deadline) = 0;
  // Errc::held_elsewhere: the row has an owner whose lease lasts, or has to wait. Errc::not_found:
  // there is no such row. Errc::lease_lost: the session's own lease has ended. If this session
  // already owns the row, returns the same epoch.
  virtual Async<Claim> claim(NodeSession session, std::string key, Clock::time_point deadline) = 0;
  // Errc::lease_lost: another epoch, another owner, no such row, or the session has ended.
  virtual Async<> write(Claim claim, RowState state, std::optional<std::string> note,
                        Clock::time_point deadline) = 0;
  virtual Async<> release(Claim claim, Release how, Clock::time_point deadline) = 0;
  // Makes another node the owner, in one step and under a new epoch, with the state ready.
  // Errc::lease_lost: as for write(). Errc::not_found: the other node's lease has ended.
  virtual Async<Claim> hand_over(Claim claim, NodeSession to, Clock::time_point deadline) = 0;

  // What changed since that position; if that is empty: everything. Waits for a change until
  // `wait_until`, and may then return none. Heartbeats are not changes.
  virtual Async<Changes> changes(std::string position, Clock::time_point wait_until,
                                 Clock::time_point deadline) = 0;

  // Ends its connections; call before destruction. Waiting calls get Errc::cancelled.
  virtual awaitable<void> close() { co_return; }
};

// The checks that all engines share, so that none accepts what another would refuse.
Result<> check_node(std::string_view name, std::string_view info, std::chrono::milliseconds ttl);
Result<> check_rank(std::int64_t rank);
Result<> check_row(const Row& row);
Result<> check_change(const RowChange& change);
// An owner writes claimed, ready or draining: the other states belong to rows without an owner.
Result<> check_write(RowState state, const std::optional<std::string>& note);
Result<> check_release(const Release& how);
Result<> check_text(std::string_view what, std::string_view text);

}  // namespace warren
