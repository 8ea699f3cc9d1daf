#pragma once
// git that talks to a remote: the second way in which Warren runs it, for exactly two commands.
//
// The first (base/host/git.h) allows no transport. This one allows one: that of the URL. Everything else
// is as there: nobody's settings but ours, no hooks, no prompts, no lazy fetches, no submodules, no
// maintenance behind our back. What a server may do to us is bounded:
//
//   it hangs, or trickles         the deadline; the whole process group is killed
//   it sends without end          the size of any file that git writes, and its memory
//   it complains without end      the first 64 KB of it
//   it sends a broken pack        every object is checked before it counts (transfer.fsckObjects)
//   it redirects                  git follows nowhere. We look where to, and go there only when it is
//                                   the same host, by the same protocol or https, at most five times;
//                                   who asks is told where the repository is now
//   it wants a password           from the descriptor of Credentials, for this host only
//
// These block, for a thread of a pool. `stop`, once readable, ends them with Errc::cancelled.
#include <map>

#include "base/host/child.h"
#include "services/fleet/fetch/credentials.h"

namespace warren::fleet {

struct SshSettings {
  std::filesystem::path identity = {};     // a key; empty: those of the user and of his agent
  std::filesystem::path known_hosts = {};  // empty: those of the user
  std::filesystem::path config = {};       // empty: none, not even the user's
  bool accepts_new_hosts = false;          // a host that is in no list is believed the first time
};

struct FetchLimits {
  std::chrono::seconds time{600};           // of one command, if its deadline is later
  std::size_t file_bytes = 4ull << 30;      // of a pack as it is received
  std::size_t memory_bytes = 4ull << 30;    // of each process, as address space
  std::size_t listing_bytes = 16ull << 20;  // of what a remote lists
};

struct RemoteSettings {
  UrlRules rules = {};
  SshSettings ssh = {};
  std::filesystem::path certificates = {};  // of authorities, besides those of the system: a file
  std::string proxy = {};                   // for the web; without a password
  FetchLimits limits = {};
};

struct RemoteRequest {
  RemoteUrl url;
  std::optional<Credential> credential = {};
  Clock::time_point deadline = Clock::time_point::max();
  int stop = -1;
};

struct Listing {
  RemoteUrl url;                               // where the repository is now
  std::map<std::string, std::string> commits;  // by full name; of a tag, what it is on
  std::string head;                            // the branch that HEAD is; empty: none
  bool is_moved = false;                       // to that URL, for good, as its host says
};

// What the remote has of these full names. One that it has not is not there.
Result<Listing> list_remote(const RemoteSettings& settings, RemoteRequest request,
                            const std::vector<std::string>& names);

// Brings what these full names are at the remote into a bare repository, as refs/warren/<file name>.
// Depth 0: with all of their history.
Result<> fetch_remote(const RemoteSettings& settings, const RemoteRequest& request,
                      const std::filesystem::path& repository,
                      const std::vector<std::string>& names, unsigned depth);
std::string local_ref(std::string_view name);

// Of a repository of ours: init, repack, prune. No transport at all.
Result<> run_local(const FetchLimits& limits, const std::filesystem::path& repository,
                   std::vector<std::string> words, Clock::time_point deadline, int stop);

// Runs a helper that the operator configured, in his environment, and gives its answer's lines.
// Empty: it knows nothing.
Result<Secret> ask_helper(const std::string& helper, const RemoteUrl& url,
                          Clock::time_point deadline, int stop);

// One end that is raised once, for the threads that watch its descriptor.
class Stop {
 public:
  static Result<Stop> create();
  Stop(Stop&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Stop& operator=(Stop&&) = delete;
  ~Stop();
  void raise() const;
  int descriptor() const { return descriptor_; }

 private:
  explicit Stop(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace warren::fleet
