#pragma once
// A folder of bare mirrors that all nodes of a machine share, so that a repository is fetched once.
//
//   FOLDER/github.com+owner+name.git     the mirror; it has no remote, so no URL is written down
//          github.com+owner+name.lock    held by the one who fetches it, over all processes
//          github.com+owner+name.use     held together by those who read it; its time is the last use
//
//   node A            node B            The locks are the kernel's (flock): a process that dies lets
//     |-- lock -------->|               go. Who waits finds, once it is its turn, that the refs are
//     |   fetch         | waits         where they should be, and fetches nothing.
//     |-- unlock ------>|
//     |   reads (use)   | nothing new   A mirror that somebody reads is neither evicted nor repacked:
//                                       what a commit needs stays for as long as its Hold.
//
// What is in it is named by id, not by URL: a repository whose URL changed, but not its id, is
// followed. Everything belongs to this user and to nobody else; no link in it is followed. A fetch
// that was killed leaves files that the next one removes; a mirror that git cannot use is made anew.
#include "services/fleet/fetch/remote_git.h"

namespace warren::fleet {

// A mirror is read while this lives.
class Hold {
 public:
  Hold() = default;
  explicit Hold(int lock) : lock_(lock) {}
  Hold(Hold&& other) noexcept : lock_(std::exchange(other.lock_, -1)) {}
  Hold& operator=(Hold&& other) noexcept;
  ~Hold();

 private:
  int lock_ = -1;
};

struct Resolved {
  RemoteUrl url;  // where the repository is now
  // By the names that were asked for. One that the remote has not is missing: of an empty
  // repository, all.
  std::map<std::string, std::string> commits;
  std::string head;       // the branch that HEAD is, if HEAD was asked for; empty: none
  bool is_moved = false;  // to that URL, for good, as its host says
};

struct Fetched {
  Resolved resolved;
  std::filesystem::path folder;  // the mirror, for readers of git
  Hold hold;
  bool is_transferred = false;  // false: everything was here already
};

struct FetchRequest {
  RemoteRequest remote;
  std::vector<std::string> refs = {"HEAD"};  // as check_ref() allows; at least one
  unsigned depth = 1;                        // of history; 0: all of it
};

struct MirrorSettings {
  std::filesystem::path folder;
  std::uint64_t most_bytes = 20ull << 30;  // on disk. The ones that were not read for longest go
  std::size_t most_packs = 16;             // of one mirror, before they become one
  RemoteSettings remote = {};
};

class Mirrors {
 public:
  // Makes the folder if it is not there. Errc::denied: it is somebody else's, or others may look
  // into it.
  static Result<Mirrors> open(MirrorSettings settings);

  // These block, for a thread of a pool; several threads may be in them.
  //
  // Asks the remote only. Errors as trouble.h types them.
  Result<Resolved> resolve(const FetchRequest& request) const;
  // Asks the remote, and brings what is not here. Then evicts others, down to most_bytes.
  Result<Fetched> fetch(const FetchRequest& request) const;
  // What was fetched earlier, without the remote: for who claims a commit again. Errc::not_found.
  Result<Fetched> find(const RemoteUrl& url, const std::string& commit,
                       Clock::time_point deadline) const;
  // Removes the mirror of a repository that is gone, or that a reader found broken. False: somebody
  // fetches or reads it.
  bool forget(const RemoteUrl& url) const { return remove(file_name(url.repo_id())); }

  // There is one, of whatever age. Does not block.
  bool has(const RemoteUrl& url) const;

  std::uint64_t bytes() const;  // on disk

 private:
  explicit Mirrors(MirrorSettings settings) : settings_(std::move(settings)) {}

  std::filesystem::path path(const std::string& name, std::string_view ending) const {
    return settings_.folder / (name + std::string(ending));
  }
  Result<> prepare(const FetchRequest& request, const std::string& name,
                   std::size_t hash_digits) const;
  Result<> transfer(const FetchRequest& request, const RemoteUrl& url, const std::string& name,
                    const std::vector<std::string>& names) const;
  Result<> remake(const FetchRequest& request, const std::string& name,
                  std::size_t hash_digits) const;
  bool is_broken(const FetchRequest& request, const std::string& name) const;
  void trim() const;
  bool remove(const std::string& name) const;

  MirrorSettings settings_;
};

}  // namespace warren::fleet
