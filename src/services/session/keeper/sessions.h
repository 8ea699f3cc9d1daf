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
  int attempts = 3;  // rounds of a start whose record is behind the truth
  std::chrono::milliseconds ready_time = 300s;  // in which a sandbox has to listen
  std::chrono::milliseconds start_wait =
      30s;                                   // of a start, for a sandbox that is not reachable yet
  std::chrono::milliseconds end_time = 60s;  // of a pause and of a stop
};

// What the records are like: keys and times as OpenHands has them.
OnceTerms once_terms(const Actor& actor, std::chrono::milliseconds lock_ttl);

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
  // Errors: held_elsewhere (it is there, and of another image or command), refused (why it does not
  // start), invalid, overloaded, timeout, unavailable.
  Async<View> start(SandboxSpec spec, Clock::time_point deadline);
  // One that is paused, or has ended by itself, with the files it has. Errc::not_found. One that lives
  // is left as it is.
  Async<View> resume(std::string name, Clock::time_point deadline);
  Async<> pause(std::string name, Clock::time_point deadline);
  Async<> stop(std::string name, Clock::time_point deadline);

  // What is known; none of these waits.
  std::optional<View> view_of_runtime(const std::string& runtime_id) const;
  std::optional<View> view_of_session(const std::string& session_id) const;
  std::vector<View> all() const;
  const Sandbox* sandbox_of_runtime(const std::string& runtime_id) const;
  bool is_reachable(const Sandbox& sandbox) const;

  // Somebody found it unreachable; it is asked again.
  void doubt(const Sandbox& sandbox);
  // Somebody uses it. Written down now and then.
  void touch(const Sandbox& sandbox);

  // Looks at one session's record, and makes it say what is there. False: it did not.
  Async<bool> put_right(std::string name, Clock::time_point deadline);

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
  std::shared_ptr<Errand> errand_for(SandboxSpec spec, Bring bring, Clock::time_point deadline);
  awaitable<void> run_errand(std::shared_ptr<Errand> errand, Bring bring,
                             Clock::time_point deadline);
  Async<View> wait_for(std::shared_ptr<Errand> errand, Clock::time_point deadline);
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
  Async<> change(std::string name, OnceStep step, OnceWork work, Clock::time_point deadline);
  Async<OnceLeft> end_for_pause(std::string name);
  Async<OnceLeft> end_for_good(std::string name);

  awaitable<void> follow();
  void on_driver_changed();
  awaitable<void> probe(std::string name, std::string incarnation, Endpoint at);
  void on_record(const OnceRecord& record);
  std::optional<View> view_of(const std::string& name, const std::string& session_id,
                              const std::string& runtime_id) const;
  awaitable<void> write_touch(std::string name);

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
  };
  std::map<std::string, Heard> heard_ = {};  // busy or failed, by resource
  std::map<std::string, Clock::time_point> touched_ = {};
  std::shared_ptr<void> hearing_;
};

}  // namespace warren::session
