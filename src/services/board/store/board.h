#pragma once
// A board: what the agents of one instance have made, and who may work on what.
//
//   agent                        Redis                     orchestrator     Each arrow to Redis is
//     |-- create_artefact ------->| artefact, thread, index    |            one script: all of it
//     |                           |--- artefact event -------->|            happens or nothing, and
//     |                           |<-- create_claim -----------|            what is told is told
//     |<-- claim event -----------| one claim per artefact     |            after it can be read.
//     |-- set_bid --------------->|--- bid_submitted --------->|
//     |                           |<-- update_claim, grant ----|
//     |<-- grant -----------------| only if it is as read      |
//
//   auto board = Board::open(client, "holt", "demo");
//   Artefact goal;
//   goal.type = "GoalDefined", goal.payload = "a web page", goal.produced_by_role = "user";
//   auto created = co_await board->create_artefact(goal);
//   Claim wanted;
//   wanted.artefact_id = created->id;
//   auto claim = co_await board->create_claim(wanted);      // or the one that is there already
//   auto granted = claim->claim;
//   granted.granted_exclusive_agent = "coder", granted.status = ClaimStatus::pending_exclusive;
//   auto updated = co_await board->update_claim(claim->claim, granted);
//
// Keys, events and hashes are those of the Go program that had boards first, so that it can share
// them; our own keys are where it does not look. Every call may be repeated when its answer was
// lost: it does nothing twice. How, and what Redis cannot promise: docs/protocols/board.md.
#include <optional>
#include <string>
#include <vector>

#include "base/task.h"
#include "primitives/lease/token.h"
#include "redis/client.h"
#include "services/board/store/events.h"
#include "services/board/store/keys.h"
#include "services/board/store/types.h"

namespace warren {

namespace board {

// Under which lease something is written. The key shares the board's hash tag.
struct Fence {
  std::string key;
  FencingToken token;
};

// What goes along with a write, in the same step.
class WriteTerms {
 public:
  WriteTerms() = default;  // no aggregate, so that it may be left out where a call is awaited
  // Errc::lease_lost when somebody was granted the lease since: then nothing was written.
  std::optional<Fence> fence;
  // Told when, and only when, this call changes something.
  std::vector<Announcement> announcements;
};

struct ClaimCreation {
  Claim claim;
  bool is_new = false;  // not so if the first answer was lost, and this is that of a repetition
};

struct DatedClaim {
  Claim claim;
  UnixTime created_at{};  // of one that the Go program made: when we first saw it
};

struct ThreadEntry {
  std::string artefact_id;
  std::int64_t version = 0;
};

// What came of an artefact.
struct Children {
  std::vector<Artefact> items;    // as they were heard of, the first first
  std::int64_t last_place = 0;    // of the newest; places only grow
  std::vector<Error> unreadable;  // what is listed and cannot be read
};

// Where a page ended.
struct Cursor {
  std::int64_t at_ms = 0;
  std::string id;
};

enum class Order { newest_first, oldest_first };

struct Listing {
  std::string type;  // for artefacts(): only these; empty: of every type
  UnixTime since = UnixTime::min(), until = UnixTime::max();  // both included
  Order order = Order::newest_first;
  std::size_t limit = 100;  // at most 1000
  std::optional<Cursor> after;
};

template <class T>
struct Page {
  std::vector<T> items;
  std::optional<Cursor> next;     // there may be more behind it
  std::vector<Error> unreadable;  // what is listed and cannot be read
};

struct Counts {
  std::size_t artefacts = 0, open_claims = 0;
};

struct Reindexed {
  std::size_t artefacts = 0, claims = 0;  // that were found
  std::size_t removed = 0;                // from the indexes, because they are no more
  std::vector<Error> unreadable;          // the first hundred
};

}  // namespace board

class Board {
 public:
  // Errc::invalid: a prefix or an instance that cannot stand in a key. The client outlives it.
  static Result<Board> open(redis::Client& client, std::string_view prefix,
                            std::string_view instance);
  const board::BoardKeys& keys() const { return keys_; }
  redis::Client& client() const { return *client_; }

  // Without an id it gets a new one; without a logical id, its own. What is returned has the time
  // of creation. Creating the same again gives what was created before. Errc::refused: the id, or
  // this version of the thread, is taken by something else.
  Async<board::Artefact> create_artefact(board::Artefact artefact, board::WriteTerms terms = {});
  // The same with the next version of its thread, which is at least artefact.version.
  Async<board::Artefact> create_next_version(board::Artefact artefact,
                                             board::WriteTerms terms = {});
  // Errc::not_found; Errc::protocol when it is there and cannot be read.
  Async<board::Artefact> artefact(std::string id) const;
  Async<board::Artefact> latest(std::string logical_id) const;
  // The oldest first. Goals and failures that the Go program made are in no thread.
  Async<std::vector<board::ThreadEntry>> versions(std::string logical_id) const;

  // The artefacts that name this one as a source, from behind this place on.
  Async<board::Children> children(std::string id, std::int64_t after_place = 0) const;

  // The claim on the artefact, made now if there was none. A feedback claim (pending_assignment) is
  // made in any case, and from then on it is the claim on the artefact.
  Async<board::ClaimCreation> create_claim(board::Claim claim, board::WriteTerms terms = {});
  Async<board::Claim> claim(std::string id) const;
  Async<board::Claim> claim_on(std::string artefact_id) const;
  // Writes the fields in which `changed` differs from `read`, and moves the claim in or out of a
  // grant queue as its grant_queue says. Returns it with its new revision. Errc::held_elsewhere:
  // somebody changed it since it was read, so read it again.
  Async<board::Claim> update_claim(board::Claim read, board::Claim changed,
                                   board::WriteTerms terms = {});
  // The same, and in one step with it a feedback claim on the same artefact: never one without the
  // other, and never two. The feedback claim is returned.
  Async<board::Claim> replace_claim(board::Claim read, board::Claim changed, board::Claim feedback,
                                    board::WriteTerms terms = {});

  // Tells bid_submitted, unless that was the bid already.
  Async<> set_bid(std::string claim_id, std::string role, board::BidType bid);
  Async<board::Bids> bids(std::string claim_id) const;

  // At least once: whoever hears it looks at the claim itself.
  Async<> announce(board::Announcement announcement) const;

  // From indexes: the cost is that of the page, whatever else is on the server. What the Go program
  // wrote is listed from the next adopt or reindex on.
  Async<board::Page<board::Artefact>> artefacts(board::Listing listing) const;
  // Those that need a claim and have none: for whoever was away.
  Async<board::Page<board::Artefact>> unclaimed(board::Listing listing) const;
  Async<board::Page<board::Claim>> claims(board::ClaimStatus status, board::Listing listing) const;
  // Of every status.
  Async<board::Page<board::DatedClaim>> all_claims(board::Listing listing) const;
  Async<std::vector<std::string>> types() const;
  Async<board::Counts> counts() const;
  // The one id that begins so, of at least 4 characters. Errc::not_found; Errc::invalid lists those
  // that begin so when there are several.
  Async<std::string> find_artefact(std::string id_begin) const;
  Async<std::string> find_claim(std::string id_begin) const;

  // Indexes an artefact that the Go program wrote: for whoever hears of it.
  Async<> adopt(board::Artefact artefact) const;
  // Makes the indexes true, from the data. Looks at every key of the server that has the board, so
  // it is for the start of an instance and for repairs.
  Async<board::Reindexed> reindex() const;

 private:
  Board(redis::Client& client, board::BoardKeys keys) : client_(&client), keys_(std::move(keys)) {}

  Async<redis::Reply> write(const redis::Script& script, board::Words keys, board::Words args,
                            board::WriteTerms terms) const;
  Async<redis::Reply> read(redis::Command command) const;
  Async<board::Artefact> create(board::Artefact artefact, bool is_next, board::WriteTerms terms);
  // Nothing when the claim was made; otherwise the one that was there before.
  Async<std::optional<std::string>> place(const board::Claim& claim, std::string replaces,
                                          board::WriteTerms terms) const;
  Async<board::Claim> change(board::Claim read, board::Claim changed,
                             std::optional<board::Claim> successor, board::WriteTerms terms) const;
  Async<board::Page<board::Artefact>> list(std::string index, board::Listing listing) const;

  redis::Client* client_;
  board::BoardKeys keys_;
};

}  // namespace warren
