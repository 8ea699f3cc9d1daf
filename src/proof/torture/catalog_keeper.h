#pragma once
// What one node of a tortured catalog owns, what it knows of the rest, and what it records of that.
// Both the worker of a real round and the node of a simulated schedule drive this.
//
//   keeper.on_lease(now, session, deadline);              // often
//   keeper.begin(key);                                    // a call about this row is under way
//   keeper.on_claimed(now, since, key, answer);
//   for (auto& stray : keeper.strays()) …                 // rows that we own without knowing it
//
// A stray is one of these: a claim whose answer never came, or that arrived twice, the second time
// after the row was given back; a row that was handed to us; or one that we had before servers lost
// what happened since. It may be kept only if it is newer than everything we ever had; otherwise it
// is given back.
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "primitives/catalog/catalog.h"
#include "proof/history/catalog_history.h"

namespace warren::torture {

// Rows that always exist, and rows that come and go and never have an owner.
std::string wanted_row(history::RowId row);
std::string passing_row(history::RowId row);
history::RowId row_id(const std::string& key);
bool is_wanted(const std::string& key);
// A digest of everything that a catalog keeps of these rows, in any order.
std::uint64_t digest_of(const std::vector<Row>& rows);

class CatalogKeeper {
 public:
  // The history must outlive the keeper.
  CatalogKeeper(history::CatalogHistory& history, history::ProcessId process)
      : history_(history), process_(process) {}

  // The lease as its machine has it now. An empty session: there is none.
  void on_lease(Clock::time_point now, const NodeSession& session, Clock::time_point deadline);
  // Acts as the owner of all rows that it believes in.
  void serve(Clock::time_point now);
  // A planted mistake: does so without checking its deadline.
  void serve_regardless(Clock::time_point now);

  // True if no call about the row is under way.
  bool is_idle(const std::string& key) const { return !asked_.contains(key); }
  bool holds(const std::string& key) const { return held_.contains(key); }
  // From the changes.
  bool knows(const std::string& key) const { return told_.contains(key); }
  std::size_t held() const { return held_.size(); }
  // The claims about which no call is under way.
  std::vector<Claim> idle_claims() const;
  // Claims that are over: writes under them must be refused.
  const std::deque<Claim>& over() const { return over_; }
  void begin(const std::string& key) { asked_.insert(key); }
  void done(const std::string& key) { asked_.erase(key); }
  void on_claimed(Clock::time_point now, Clock::time_point since, const std::string& key,
                  const Result<Claim>& answer);
  // Stops believing in it, before it is given back or handed over. Also for strays.
  void let_go(Clock::time_point now, const Claim& claim);
  void on_released(Clock::time_point now, Clock::time_point since, const Claim& claim,
                   const Result<>& answer);
  // Errc::not_found: the row may still be ours, and is then a stray. The same if the outcome is
  // unknown.
  std::uint64_t next_note() { return process_ * 1'000'000ULL + ++notes_; }
  void on_written(Clock::time_point now, Clock::time_point since, const Claim& claim,
                  std::uint64_t note, const Result<>& answer);
  void on_offered(Clock::time_point now, Clock::time_point since, const std::vector<Row>& rows);
  void on_changes(Clock::time_point now, Clock::time_point since, const Changes& changes);

  struct Stray {
    Claim claim;
    bool may_be_kept;
    Clock::time_point since;  // when we asked, and were told that it is ours
  };
  std::vector<Stray> strays() const;
  void keep(Clock::time_point now, const Stray& stray);

  // A digest of what the changes reported.
  std::uint64_t digest() const;
  void note_contents(Clock::time_point now, std::uint64_t catalog);
  const NodeSession& session() const { return session_; }

 private:
  using Kind = history::CatalogEvent::Kind;
  struct Told {
    Row row;
    Clock::time_point since, at;
  };
  history::CatalogEvent event(Clock::time_point now, Kind kind) const;
  void note(Clock::time_point now, Kind kind, const Claim& claim, Clock::time_point since = {},
            std::uint64_t number = 0);
  void hold(Clock::time_point now, Clock::time_point since, const Claim& claim);
  void drop(Clock::time_point now, const std::string& key);
  void end(const Claim& claim);
  void on_row(Clock::time_point now, Clock::time_point since, const Row& row);
  void on_gone(Clock::time_point now, const std::string& key);

  history::CatalogHistory& history_;
  history::ProcessId process_;
  history::LifeId life_ = 0;
  NodeSession session_;
  Clock::time_point deadline_{};
  struct Held {
    Claim claim;
    Clock::time_point at;
  };
  std::map<std::string, Held> held_;
  std::set<std::string> asked_;
  std::map<std::string, Told> told_;
  std::map<std::string, FencingToken> highest_;  // of the rows that were ever ours
  struct GivenBack {
    FencingToken epoch;
    Clock::time_point at;  // since when the catalog says so
  };
  std::map<std::string, GivenBack> given_back_;
  std::deque<Claim> over_;
  std::uint64_t notes_ = 0;
};

}  // namespace warren::torture
