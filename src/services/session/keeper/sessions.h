#pragma once
// Exactly one sandbox per session, from any number of replicas.
//
//   POST /start ──▶ is it there, and reachable? ──▶ attached, and nobody else is asked
//                        │ no
//                        ▼
//        Once: who creates? ──▶ another replica: wait for what comes of it, and look
//                        │ we
//                        ▼
//        look at the driver ──▶ it lives: adopt it   paused or ended: start it on its files
//                        │ absent                    (a start based on a look that is too old
//                        ▼                            is refused by the driver)
//        start it ──▶ reachable ──▶ "created", for all who wait
//
// The driver is the truth. Records in Redis choose who works and wake who waits; they may vanish at any
// moment, and are made again from what the driver has. Work goes on when the client who asked for it
// leaves.
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "net/http/pool.h"
#include "primitives/once/once.h"
#include "services/session/drivers/driver.h"
#include "services/session/keeper/view.h"
#include "services/session/record/telling.h"

namespace warren::session {

struct SessionTerms {
  std::string name_space = "default";
  int attempts = 3;                           // rounds of a start whose record is behind the truth
  std::chrono::milliseconds lock_wait = 30s;  // of a start, beyond ready_time, for another creator
  std::chrono::milliseconds touch_every = 10s;  // how often a use is written down
  std::chrono::milliseconds ready_time = 300s;  // in which a sandbox has to listen
  std::chrono::milliseconds start_wait =
      30s;                                   // of a start, for a sandbox that is not reachable yet
  std::chrono::milliseconds end_time = 60s;  // of a pause and of a stop
  bool needs_redis = false;  // nothing is started, paused or stopped while Redis does not answer
};

// The bytes of a record about this sandbox.
std::string bytes_of(const Sandbox& sandbox);

// What the records are like: keys and times as OpenHands has them.
OnceTerms once_terms(const Actor& actor, std::chrono::milliseconds lock_ttl, bool needs_redis);

class Sessions {
 public:
  // Without `once` replicas do not coordinate: the driver alone keeps two sandboxes of one session
  // apart. All of them outlive it.
  Sessions(const asio::any_io_executor& executor, Driver& driver, Once* once, SessionTerms terms,
           Telling& telling);

  // Follows the driver, and does what was asked for, until it is cancelled.
  awaitable<void> run();
  bool is_ready() const { return tasks_ != nullptr && driver_.is_settled(); }

  // The session's sandbox, made if there is none; starting, when it takes longer than start_wait.
  // Errors: held_elsewhere (it runs or starts with another image or command), refused (why it does not
  // start), invalid, overloaded, timeout, unavailable.
  Async<View> start(SandboxSpec spec, Clock::time_point deadline);
  // One that is paused, or has ended by itself, with the files it has. Errc::not_found. One that lives
  // is left as it is.
  Async<View> resume(std::string name, Clock::time_point deadline);
  Async<> pause(std::string name, Clock::time_point deadline) {
    return pause_if(std::move(name), nullptr, deadline);
  }
  Async<> stop(std::string name, Clock::time_point deadline) {
    return stop_if(std::move(name), nullptr, deadline);
  }
  // `still_due` is asked within the step, just before the sandbox is ended. If it says no, nothing is done,
  // and that is no error.
  using StillDue = std::function<Async<bool>(Sandbox)>;
  Async<> pause_if(std::string name, StillDue still_due, Clock::time_point deadline);
  Async<> stop_if(std::string name, StillDue still_due, Clock::time_point deadline);

  // What is known; none of these waits.
  std::optional<View> view_of_runtime(const std::string& runtime_id) const;
  std::optional<View> view_of_session(const std::string& session_id) const;
  std::vector<View> all() const;
  const Sandbox* sandbox_of_runtime(const std::string& runtime_id) const;
  bool is_reachable(const Sandbox& sandbox) const;

  // For a pool: sends nothing to whatever else listens at this address by now.
  HttpPeer peer(const Sandbox& sandbox, const Endpoint& at);
  // A request found it unreachable: it is probed again.
  void doubt(const Sandbox& sandbox);
  // Notes that it is used; written down every touch_every at most.
  void touch(const Sandbox& sandbox);
  // A use that lasts, such as a request or a WebSocket: the sandbox counts as used for as long as this
  // lives, even when nothing is sent.
  class Use {
   public:
    Use(Sessions& sessions, std::string name);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Sessions& sessions_;
    std::string name_;
  };
  bool is_in_use(const std::string& name) const { return uses_.contains(name); }

  // Ends whatever step is under way for this session, at whichever replica, and records what exists.
  // Returns what the record says then; empty: there is none. Errc::not_found: there was none.
  Async<std::string> force_release(std::string name, Clock::time_point deadline);
  // While Redis does not answer, changes are refused if SessionTerms::needs_redis.
  void set_coordinated(bool is_so) { is_coordinated_ = is_so; }

  // Compares one session's record with what exists, and corrects it. A step whose replica died is
  // finished. Returns whether the record was right.
  Async<bool> put_right(std::string name, Clock::time_point deadline);
  // Sessions whose step has been under way for longer than a dead replica counts as alive; each of them
  // again after as long.
  std::vector<std::string> steps_to_look_at();

  Driver& driver() { return driver_; }
  const SessionTerms& terms() const { return terms_; }
  std::string resource(const std::string& name) const;

 private:
  enum class Bring { start, resume };
  // One start that is under way here; whoever wants the same joins it.
  struct Errand {
    SandboxSpec spec;
    std::optional<Result<>> result = {};
  };
  // Errc::held_elsewhere: another start of the session is under way, with another image or command.
  Result<std::shared_ptr<Errand>> errand_for(SandboxSpec spec, Bring bring);
  awaitable<void> run_errand(std::shared_ptr<Errand> errand, Bring bring,
                             Clock::time_point deadline);
  // With the hash of what was asked for, which may not be that of the errand; empty: any will do.
  Async<View> wait_for(std::shared_ptr<Errand> errand, std::string hash,
                       Clock::time_point deadline);
  // What is to be there, and on which look that is based: a stop since then ends the wish.
  struct Wish {
    SandboxSpec spec;
    Bring bring;
    std::string basis = {};
    Clock::time_point asked_at = Clock::now();
  };
  Async<> bring_up(Wish wish, Clock::time_point deadline);
  Async<bool> bring_up_once(Wish wish, Clock::time_point deadline);
  Async<bool> follow_record(Wish wish, OnceRecord record, Clock::time_point deadline);
  OnceWork spawning(Wish wish);
  Async<OnceLeft> spawn(Wish wish, OnceClaim* claim);
  Async<Sandbox> make(Wish wish, Clock::time_point deadline);
  Async<> until_reachable(std::string name, std::string incarnation, Clock::time_point deadline);
  Async<OnceLeft> adopt(std::string name);
  Async<OnceRecord> change(std::string name, OnceStep step, OnceWork work,
                           Clock::time_point deadline);
  Async<OnceLeft> end_for_pause(std::string name, StillDue still_due);
  Async<OnceLeft> end_for_good(std::string name, StillDue still_due);
  // What a step left behind whose replica died.
  Async<> finish_step(OnceRecord orphan, std::string name, Clock::time_point deadline);
  Async<> make_record(std::string name, Clock::time_point deadline);
  Result<> may_change() const;

  awaitable<void> follow();
  void on_driver_changed();
  awaitable<void> probe(std::string name, std::string incarnation, Endpoint at, HttpPeer peer);
  void on_record(const OnceRecord& record);
  Clock::time_point next_look() const;  // at a step that is under way now
  awaitable<void> write_touch(std::string name);
  awaitable<void> touch_what_is_in_use();

  asio::any_io_executor executor_;
  Driver& driver_;
  Once* once_;
  SessionTerms terms_;
  Telling& telling_;
  HttpPool pool_;
  TaskGroup* tasks_ = nullptr;  // while it runs
  Event news_;                  // of the driver, and of what can be reached
  std::map<std::string, std::shared_ptr<Errand>> errands_ = {};  // owners: this, and who waits
  std::map<std::string, std::string> reachable_ = {};            // the incarnation, by name
  std::set<std::string> probed_ = {};                      // incarnations that are being asked
  mutable std::map<std::string, std::string> names_ = {};  // by runtime id, as far as looked up
  struct Heard {
    OnceRecord record;
    Clock::time_point at;
    Clock::time_point look_at;  // the next time, if it is still busy by then
  };
  std::map<std::string, Heard> heard_ = {};  // busy or failed, by resource
  std::map<std::string, Clock::time_point> touched_ = {};
  std::map<std::string, std::size_t> uses_ = {};  // that last, by name
  std::shared_ptr<void> hearing_;
  bool is_coordinated_ = true;
};

}  // namespace warren::session
