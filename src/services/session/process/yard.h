#pragma once
// The folder of all sandboxes of a machine that are processes: what is written down about each, and the
// locks that decide. Replicas and shims share it; it needs no Redis.
//
//   locks/<name>            held by the shim while the sandbox lives, or by who changes what is below;
//                           holds the generation, which grows with every stop
//   sandboxes/<name>/       spec.json, work/ (the files of the sandbox), log, log.1, and active, whose
//                           time is that of its last use
//   states/<name>.json      what the shim last said, replaced as a whole
//   control/<name>          a pipe: what the shim is told
//   ports/<number>          held by the shim that was given the port; it contains the incarnation
//
//   creator A       the lock       B stops it      The lock is the kernel's, so it is gone with its
//    |-- generation 7 --|              |           holder, however that ends; nobody trusts a process
//    |  (stalls)        |<--- held ----|           number. A start that was overtaken by a stop finds
//    |                  |  generation 8, files go  another generation and leaves, so it needs no clock
//    |-- shim: held, and not 7: leaves |           and no Redis to be harmless.
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "services/session/drivers/driver.h"

namespace warren::session {

// A lock of the kernel's on an open file: gone when the last copy of the descriptor is closed.
class FileLock {
 public:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  ~FileLock();
  FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileLock& operator=(FileLock&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

// What a shim says of its sandbox.
struct ShimState {
  std::string incarnation = {};
  Phase phase = Phase::starting;
  std::string reason = {};
  std::optional<int> exit_code = {};
  bool was_asked = false;  // to end
  int restarts = 0;
  int pid = 0;              // of the shim, with
  std::uint64_t began = 0;  // when that process began: a number is given to others later
  int main_pid = 0;         // of the first process of the sandbox, likewise
  std::uint64_t main_began = 0;
  std::map<Door, Endpoint> endpoints = {};
  WallClock::time_point created_at = {}, started_at = {};
};
std::string to_json(const ShimState& state);
Result<ShimState> state_from(std::string_view json);

class Yard {
 public:
  // Makes the folders that are missing, for their owner alone. Errc::denied, refused.
  static Result<Yard> open(const std::filesystem::path& root);

  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path states() const { return root_ / "states"; }
  std::filesystem::path sandbox(const std::string& name) const {
    return root_ / "sandboxes" / name;
  }
  std::filesystem::path log(const std::string& name) const { return sandbox(name) / "log"; }
  std::filesystem::path control(const std::string& name) const { return root_ / "control" / name; }

  // Errc::held_elsewhere: a sandbox of this name lives, or somebody changes it right now.
  Result<FileLock> lock(const std::string& name) const;
  bool is_locked(const std::string& name) const;
  // Writes the incarnation into the lock, for port_owner().
  Result<FileLock> lock_port(unsigned short port, std::string_view incarnation = "") const;
  // The incarnation that holds the port; empty until its shim has written it. Errc::not_found: it is free.
  Result<std::string> port_owner(unsigned short port) const;
  // Of a lock that is held, or of a name; 0 before the first stop.
  static std::uint64_t generation(const FileLock& lock);
  std::uint64_t generation(const std::string& name) const;
  static Result<> set_generation(const FileLock& lock, std::uint64_t generation);
  // Removes the lock's file when it is of no use any more; the caller holds the lock.
  void forget(const std::string& name, FileLock lock) const;

  // Errc::not_found.
  Result<ShimState> state(const std::string& name) const;
  Result<> put_state(const std::string& name, const ShimState& state) const;
  Result<SandboxSpec> spec(const std::string& name) const;
  Result<> put_spec(const SandboxSpec& spec) const;
  // All that have a state or a folder.
  std::vector<std::string> names() const;
  // When its lock was last written to.
  std::optional<WallClock::time_point> stopped_at(const std::string& name) const;
  std::vector<std::string> locked_names() const;  // every name that has a file for its lock
  // Somebody used it just now; and when that was.
  void touch(const std::string& name) const;
  std::optional<WallClock::time_point> touched_at(const std::string& name) const;
  // All but the lock. Under the lock.
  Result<> remove(const std::string& name) const;
  // Sandboxes whose removal began and did not end; and the end of it, under the lock.
  std::vector<std::string> half_removed() const;
  Result<> finish_removal(const std::string& name) const;
  // The end of the log, at most so long.
  std::string log_tail(const std::string& name, std::size_t bytes) const;

  // Says a line to the shim. False: there is none.
  bool tell(const std::string& name, std::string_view line) const;

 private:
  explicit Yard(std::filesystem::path root) : root_(std::move(root)) {}
  std::filesystem::path going_folder(const std::string& name) const {
    return root_ / "sandboxes" / ("." + name + ".going");
  }
  std::filesystem::path root_;
};

}  // namespace warren::session
