#pragma once
// A catalog in virtual time: what primitives/catalog/catalog.h promises, with latency, stalls and restarts.
//
// Leases are by its own clock. What arrives while it stalls is done when it goes on, even if whoever
// asked has given up by then; while it is away requests fail at once.
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "services/fleet/plan/placement.h"
#include "services/fleet/plan/records.h"
#include "services/fleet/simulate/agenda.h"
#include "services/fleet/simulate/chance.h"
#include "services/fleet/simulate/simulate.h"

namespace warren::fleet_sim {

inline constexpr int nobody = -1;

struct Repo {
  std::string name;
  double bytes = 0;  // of text
  int host = 0;
  fleet::RepoSpec spec = {};
};

struct ModelRow {
  std::string key;
  int repo = 0;
  std::int64_t rank = 0;
  RowState state = RowState::free;
  int owner = nobody;  // a session
  std::uint64_t epoch = 0;
  std::uint32_t attempts = 0;
  std::string error = {};
  fleet::RepoNote note = {};
  Time offered{};   // since then, or from then on, anybody may claim it
  Time unserved{};  // since then nobody has it
  // As routers know it.
  struct View {
    RowState state = RowState::free;
    int owner = nobody;
    std::uint64_t epoch = 0;
  } view = {};
};

struct Session {
  int node = 0;
  NodeSession name = {};
  Time expires{};
  bool is_over = false;
  fleet::NodeInfo info = {};
  std::set<int> rows = {};
};

class ModelCatalog {
 public:
  ModelCatalog(Agenda& agenda, const Terms& terms, Chance chance)
      : agenda_(agenda), terms_(terms), chance_(chance) {}

  int add(ModelRow row);
  const std::vector<ModelRow>& rows() const { return rows_; }
  const Session& session(int id) const { return sessions_.at(static_cast<std::size_t>(id)); }
  bool lives(int session) const { return session != nobody && !this->session(session).is_over; }

  // Does the work when the request arrives, and hands the answer over when it has come back.
  template <class T>
  void call(Clock::duration patience, std::function<Result<T>()> work,
            std::function<void(Result<T>)> answer);

  // The work: called at the catalog.
  Result<int> join(int node, fleet::NodeInfo info);
  Result<> beat(int session, fleet::NodeInfo info);
  void leave(int session);
  std::vector<fleet::NodeInfo> infos() const;        // of those that live
  std::vector<fleet::Candidate> candidates() const;  // those that do not drain
  std::vector<int> claimable(std::size_t most);
  Result<std::uint64_t> claim(int session, int row);
  Result<> write(int session, int row, std::uint64_t epoch, RowState state, fleet::RepoNote note);
  struct ModelRelease {
    std::string error = {};
    Clock::duration wait = {};
    std::optional<fleet::RepoNote> note = {};
  };
  Result<> release(int session, int row, std::uint64_t epoch, ModelRelease how);
  Result<std::uint64_t> hand_over(int session, int row, std::uint64_t epoch, int to);
  void change(int row, std::int64_t rank);

  void stall(Clock::duration time) { stalled_until_ = agenda_.now() + time; }
  void restart(Clock::duration away) { down_until_ = agenda_.now() + away; }

  // Somebody follows the changes: a moment after each of them.
  std::function<void(int row)> on_change = [](int) {};
  // At the very moment, for those who judge.
  std::function<void(int row)> on_ready = [](int) {}, on_claimed = [](int) {};
  std::function<void(std::string)> on_violation = [](const std::string&) {};

  struct Counters {
    std::uint64_t claims = 0, in_vain = 0, reads = 0, writes = 0, beats = 0;
  };
  const Counters& counters() const { return counters_; }
  std::size_t ready() const { return ready_; }

 private:
  ModelRow& at(int row) { return rows_.at(static_cast<std::size_t>(row)); }
  Session& session_at(int id) { return sessions_.at(static_cast<std::size_t>(id)); }
  void set_state(ModelRow& row, RowState state);
  void own(int row, int session);
  void disown(int row);  // it is offered from `offered` on
  void offer(int row);
  void watch(int session);
  void end(Session& session);
  void tell(int row);
  bool holds(int session, int row, std::uint64_t epoch) const;
  Clock::duration leg() { return seconds(chance_.log_normal(terms_.world.catalog_ms / 2000, 0.5)); }
  Time up_at() const { return std::max(stalled_until_, down_until_); }

  Agenda& agenda_;
  const Terms& terms_;
  Chance chance_;
  std::vector<ModelRow> rows_;
  std::vector<Session> sessions_;
  std::set<int> living_;
  std::set<std::pair<std::int64_t, int>> offered_;  // the highest rank first
  std::uint64_t last_epoch_ = 0;
  std::size_t ready_ = 0;
  Time stalled_until_{}, down_until_{};
  Counters counters_;
};

template <class T>
void ModelCatalog::call(Clock::duration patience, std::function<Result<T>()> work,
                        std::function<void(Result<T>)> answer) {
  auto deadline = agenda_.now() + patience;
  agenda_.after(leg(), [this, deadline, work = std::move(work), answer = std::move(answer)] {
    auto back = leg();
    auto now = agenda_.now();
    if (now < down_until_) {
      agenda_.after(back, [answer] { answer(fail(Errc::unavailable, "the catalog is away")); });
      return;
    }
    if (now >= stalled_until_) {
      auto result = work();
      agenda_.after(back, [answer, result = std::move(result)] { answer(result); });
      return;
    }
    bool is_late = stalled_until_ + back > deadline;
    agenda_.at(stalled_until_, [this, work, answer, back, is_late] {
      auto result = work();
      if (!is_late) agenda_.after(back, [answer, result] { answer(result); });
    });
    if (is_late)
      agenda_.at(deadline, [answer] { answer(fail(Errc::timeout, "the catalog is slow")); });
  });
}

}  // namespace warren::fleet_sim
