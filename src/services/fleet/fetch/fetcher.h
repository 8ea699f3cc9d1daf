#pragma once
// How a node brings repositories to itself: slots, credentials and mirrors, put together.
//
//   auto fetcher = Fetcher::open(executor, settings);
//   FetchOrder order{remote->url};
//   auto fetched = co_await (*fetcher)->fetch(std::move(order));
//   // fetched->folder is a bare repository with fetched->resolved.commits, for as long as the hold
//
// The io thread only waits: children, locks and files belong to the threads of a pool, one per slot.
// Who is cancelled, or whose deadline passes, has its child killed, and leaves when that is done.
#include <boost/asio/thread_pool.hpp>

#include "services/fleet/fetch/mirrors.h"
#include "services/fleet/fetch/slots.h"

namespace warren::fleet {

struct FetcherSettings {
  MirrorSettings mirrors;
  CredentialSources credentials = {};
  SlotLimits slots = {};
  // Of a look at the refs, from when it has its slot. A host that hangs costs the slots that those who
  // have lost a node wait for: polls must not keep them for as long as a clone may take.
  std::chrono::milliseconds resolve_time = 30s;
};

struct FetchOrder {
  RemoteUrl url;
  std::vector<std::string> refs = {"HEAD"};
  unsigned depth = 1;
  std::optional<Credential> credential = {};              // that came with the URL; none: looked up
  Clock::time_point deadline = Clock::time_point::max();  // waiting for a slot included
};

class Fetcher {
 public:
  static Result<std::unique_ptr<Fetcher>> open(asio::any_io_executor executor,
                                               FetcherSettings settings);
  ~Fetcher();  // nobody waits for it any more
  Fetcher(const Fetcher&) = delete;
  Fetcher& operator=(const Fetcher&) = delete;

  // One slot for several steps about the same repository. A step that is given no slot takes its own.
  Async<Slot> wait_for_slot(RemoteUrl url, Clock::time_point deadline);
  // What the refs are at the remote now: for polling.
  Async<Resolved> resolve(FetchOrder order, const Slot* slot = nullptr);
  Async<Fetched> fetch(FetchOrder order, const Slot* slot = nullptr);
  // What is here already, without the remote and without a slot.
  Async<Fetched> find(RemoteUrl url, std::string commit, Clock::time_point deadline);

  // Removes the mirror of a repository that has left, unless somebody reads it.
  awaitable<void> forget(RemoteUrl url);

  const Mirrors& mirrors() const { return mirrors_; }
  const FetchSlots& slots() const { return slots_; }

 private:
  Fetcher(asio::any_io_executor executor, Mirrors mirrors, FetcherSettings settings);

  Mirrors mirrors_;
  Credentials credentials_;
  FetchSlots slots_;
  std::chrono::milliseconds resolve_time_;
  asio::thread_pool pool_;
};

}  // namespace warren::fleet
