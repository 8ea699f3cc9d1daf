#pragma once
// One simulated process that creates things once: does what Once and its caller do, without
// coroutines.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "primitives/once/machine.h"
#include "proof/sim/servers.h"
#include "proof/torture/schedules/once_sim.h"
#include "redis/script.h"

namespace warren::torture {

inline constexpr auto once_alive = 400ms;
inline constexpr auto longest_post = 300ms;  // until the resource has received it
inline constexpr history::ThingId simulated_things = 2;

std::string thing_name(history::ThingId thing);

// The thing itself, outside Redis. It has one name, so at most one exists. It remembers the newest
// token that it was shown, and refuses an older one.
struct SimulatedThing {
  std::uint64_t uid = 0;  // 0: there is none
  FencingToken newest{};
  std::uint64_t last_uid = 0;

  // Returns the uid of the existing one, or nullopt if the token is too old. Without a token only
  // the name protects it.
  std::optional<std::uint64_t> make(FencingToken token);
  bool remove(FencingToken token);
};

// What the processes of a schedule share.
struct OnceWorld {
  sim::World& world;
  history::OnceHistory& history;
  OnceMistake mistake;
  OnceTerms terms;
  bool is_cluster;
  const redis::Script& script;
  SimulatedThing things[simulated_things]{};
  std::function<void(const char* invariant, std::string what)> found;
  std::size_t takeovers = 0, alone = 0, refused = 0, adopted = 0;
};

class OnceUser {
 public:
  OnceUser(OnceWorld& all, sim::Connection& connection, history::ProcessId id);
  void begin_life();
  void die();
  void sleep(Clock::duration time);
  void miss_messages() { connection_.break_link(sim::Socket::messages); }
  bool is_dead() const { return connection_.is_closed(); }
  Clock::time_point awake_at() const { return awake_at_; }
  // From now on it wants nothing by itself.
  void retire() { is_retired_ = true; }
  bool is_idle() const { return machine_.flights() == 0; }
  // Asks for each thing, with enough time.
  void ask_for_all();
  // Like a reaper: makes record and resource of this thing agree, then calls `done`.
  void reconcile(history::ThingId thing, std::function<void()> done);
  // With the last version that it saw.
  void refresh_what_it_knew();

 private:
  using Id = OnceMachine::Id;
  enum class Wish : std::uint8_t { make, remove, change };
  struct Call {
    history::ThingId thing = 0;
    Wish wish{};
    std::uint32_t number = 0;
    Clock::time_point asked{}, deadline{}, left{};
    OnceStep step{};
    bool is_answered = false;
    std::uint32_t claim = 0;  // number of the work under way; 0: none
    bool is_noted = false;    // the claim is recorded in the history
    Clock::time_point noted_deadline{};
    std::uint64_t work = 0;  // grows when work begins or ends: what belongs to earlier work is void
    std::function<void()> done{};
  };
  Clock::time_point now() const { return all_.world.now(); }
  void note(history::OnceEvent::Kind kind, history::ThingId thing, std::uint32_t call,
            FencingToken token = {}, std::uint64_t value = 0, Clock::time_point since = {},
            Clock::time_point deadline = {});

  void act();
  Call& begin(history::ThingId thing, Wish wish, OnceStep step, Clock::duration patience,
              std::function<void()> done = {});
  void pump();
  void look(Id id);
  void look_at_work(Id id, Call& call);
  void look_at_deadline(Id id, Call& call);
  void conclude(Id id, Call& call);
  void give_up(Id id);
  void set_timer();
  void send(OnceMachine::Request request, std::function<void(const Result<redis::Reply>&)> answer);

  void begin_work(Id id, Call& call);
  void end_work(Call& call);
  void post(Id id, std::uint64_t work);
  void finish(Id id, std::uint64_t work, std::optional<std::uint64_t> uid);

  OnceWorld& all_;
  history::ProcessId id_;
  sim::Connection& connection_;
  OnceMachine machine_;
  std::map<Id, Call> calls_;
  std::map<history::ThingId, OnceRecord> known_;
  std::uint32_t numbers_ = 0;
  std::uint64_t works_ = 0;
  Clock::time_point wakes_at_ = Clock::time_point::max(), awake_at_{};
  bool is_retired_ = false;
};

}  // namespace warren::torture
