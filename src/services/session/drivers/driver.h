#pragma once
// What makes sandboxes: pods of a cluster, or processes of this machine. It knows nothing of Redis,
// and is the truth about what exists: records in Redis are rebuilt from it.
//
//   absent ── start ──> starting ──> running ── pause ──> paused ── start ──> starting …
//                          │            │
//                          └──> ended <─┘   by itself, with a reason; start replaces it
//   anything ── stop ──> absent             its files go, and what was begun before never appears
//
// A sandbox has one name for ever, and a new incarnation each time it starts (the UID of a pod, the
// life of a process group). The resource itself, not who asks, decides between two that start the same
// name: one is told that it exists already. Whoever starts says what the start is based on (`basis`,
// from look()); when the session was stopped since, the start is refused, however late it arrives.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/task.h"

namespace warren::session {

// What was asked for. `key` is what the sandbox wants to see of whoever talks to it.
struct SandboxSpec {
  std::string session_id = {}, name = {}, runtime_id = {};
  std::string image = {};
  std::vector<std::string> command = {};
  bool is_shell = false;  // the command is one line for a shell
  std::string working_dir = {};
  std::map<std::string, std::string> environment = {};
  int resource_factor = 1;
  std::string runtime_class = {};
  std::string image_pull_policy = {};  // Always, IfNotPresent or Never; empty: the driver's
  std::optional<int> run_as_user = {}, run_as_group = {}, fs_group = {};
  std::string key = {};
  std::string hash = {};  // of what was asked for, whatever its image makes of it
};
// Of what makes another sandbox of it; the environment does not.
std::string hash_of(const SandboxSpec& spec);

enum class Phase { starting, running, ending, paused, ended };
std::string_view name(Phase phase);

// The four things that a sandbox may listen for, as paths call them.
enum class Door { runtime, vscode, work_1, work_2 };
inline constexpr std::array all_doors{Door::runtime, Door::vscode, Door::work_1, Door::work_2};
std::string_view name(Door door);
std::optional<Door> door_called(std::string_view name);
// What a program finds there that was written for a pod.
int usual_port(Door door);

struct Endpoint {
  std::string host = {};
  unsigned short port = 0;

  bool operator==(const Endpoint&) const = default;
};

// As Kubernetes reports it of a pod's containers.
struct ContainerState {
  std::string name = {};
  enum class Is { waiting, running, terminated } is = Is::waiting;
  std::string reason = {}, message = {};
  int exit_code = 0;  // of one that terminated
  int restarts = 0;
  bool is_ready = false;
};

struct SandboxEvent {
  std::string type = {}, reason = {}, message = {};
  int count = 1;
  std::string last_at = {};  // RFC 3339, as it was reported
};

struct Sandbox {
  SandboxSpec spec = {};
  std::string incarnation = {};
  Phase phase = Phase::starting;
  std::string reason = {};  // why it ended, or what it waits for
  std::optional<int> exit_code = {};
  bool was_asked = false;  // to end, rather than ended by itself
  int restarts = 0;        // lives that ended by themselves
  std::map<Door, Endpoint> endpoints = {};
  std::vector<ContainerState> containers = {};
  WallClock::time_point created_at = {}, started_at = {};

  bool lives() const { return phase == Phase::starting || phase == Phase::running; }
};

struct Sight {
  std::optional<Sandbox> sandbox = {};
  std::string basis = {};  // for start()
};

class Driver {
 public:
  virtual ~Driver() = default;
  virtual std::string_view kind() const = 0;  // "process", "kubernetes"

  // Follows what happens to all sandboxes, until it is cancelled. Before it knows them all,
  // is_settled() is false.
  virtual awaitable<void> run() = 0;
  virtual bool is_settled() const = 0;
  // As of the last thing that was heard of it; nothing here waits. Pointers are good until the next
  // co_await.
  virtual const Sandbox* seen(const std::string& name) const = 0;
  virtual std::vector<const Sandbox*> all_seen() const = 0;
  // Returns when something changed since `changes()` had this value; at the deadline; when cancelled.
  virtual std::uint64_t changes() const = 0;
  virtual awaitable<void> changed(std::uint64_t since, Clock::time_point deadline) = 0;
  // Checks that an address still belongs to this incarnation. An address is given to other sandboxes when
  // its owner ends, so the caller asks after it has connected and before it sends anything.
  // Errc::unavailable: it may belong to another sandbox by now; the driver looks at this one again.
  virtual Result<> confirm(const std::string& name, const std::string& incarnation,
                           const Endpoint& at) = 0;

  // The truth, asked now.
  virtual Async<Sight> look(std::string name, Clock::time_point deadline) = 0;
  // Returns when it starts: it may not be running for a while. With the spec's key empty the sandbox
  // keeps the one it has, or gets one. Errors: held_elsewhere (it exists and lives; look at it),
  // lease_lost (it was stopped since `basis`), invalid (never like this), overloaded, unavailable,
  // unknown_outcome (look at it).
  virtual Async<Sandbox> start(SandboxSpec spec, std::string basis, Clock::time_point deadline) = 0;
  // Ends this incarnation and keeps its files. Errc::lease_lost: another one lives by now.
  virtual Async<> pause(std::string name, std::string incarnation, Clock::time_point deadline) = 0;
  // Ends it and removes its files. An empty incarnation: whichever it is. Nothing there is no error.
  virtual Async<> stop(std::string name, std::string incarnation, Clock::time_point deadline) = 0;
  // Somebody uses it: written down where it outlives every replica, for idle times.
  virtual Async<> touch(std::string name) = 0;
  // When that was last; when it began to live, at the earliest. Does not wait.
  virtual WallClock::time_point active_at(const Sandbox& sandbox) const = 0;
  // The end of what it wrote; empty if it wrote nothing or is not there. May wait for a server.
  virtual Async<std::string> log_tail(std::string name, std::size_t bytes) = 0;
  // What was reported about it, the latest last. May wait for a server.
  virtual Async<std::vector<SandboxEvent>> events(std::string name) = 0;
  // Whether a sandbox can be made of this image.
  virtual bool has_image(std::string_view image) const = 0;
};

}  // namespace warren::session
