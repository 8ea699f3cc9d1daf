#pragma once
// What changed here and is not in Redis yet.
//
//   mark ──> dirty ── taken, serialised ──> on its way ── in the log, and read back ──> settled
//              ^                                       │
//              └── marked again, or a failover lost it ┘
//
// One batch at a time, of the newest value of each entity: however often an entity changes while
// Redis is slow or away, it is written once. What is dirty or on its way is newer than anything
// that comes in, so nothing that comes in may undo it.
#include <compare>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "primitives/mirror/mirror.h"

namespace warren::foghorn {

// In the order of the mirror's entity types.
enum class Kind : std::uint8_t { node, stream, instance, artifact, mode, penalty };

struct EntityKey {
  Kind kind;
  std::string first;
  std::string second = {};  // the node of an instance
  auto operator<=>(const EntityKey&) const = default;
  // As it stands in Redis. Never taken apart again: names may have colons.
  std::string id() const { return second.empty() ? first : first + ':' + second; }
};

class Journal {
 public:
  struct Owner {
    // The newest value; none when it is to be deleted.
    std::function<std::optional<std::string>(const EntityKey&)> value;
    // What the mirror shows is taken note of, while all of the batch is still on its way.
    std::function<awaitable<void>()> catch_up;
    // It was written as `sent`, or refused for good: from here on the log has the last word.
    std::function<void(const EntityKey&, const std::optional<std::string>& sent)> settled;
  };

  Journal(asio::any_io_executor executor, Owner owner)
      : owner_(std::move(owner)), work_(executor), done_(executor) {}

  void mark(EntityKey key);
  bool is_settled(const EntityKey& key) const {
    return !dirty_.contains(key) && !sent_.contains(key);
  }
  // Whether this is what is on its way, coming back.
  bool is_own(const EntityKey& key, std::string_view value) const;
  std::size_t waiting() const { return dirty_.size() + sent_.size(); }

  // Writes until it is cancelled.
  awaitable<void> write(Mirror& mirror);
  // Waits until all is written, or until the deadline.
  awaitable<void> flushed(Clock::time_point deadline);
  // Waits until all that was marked so far is written. Errc::timeout: not by the deadline. What
  // Redis said, when it refused something meanwhile.
  Async<> written(Clock::time_point deadline);

 private:
  using Dirty = std::map<EntityKey, std::uint64_t>;
  struct Sent {
    std::optional<std::string> value;
    std::uint64_t mark;
  };

  Dirty::iterator first();
  Batch take();
  awaitable<void> settle(bool is_lost);

  Owner owner_;
  Dirty dirty_;  // by the first mark since it was taken
  std::map<EntityKey, Sent> sent_;
  std::uint64_t last_mark_ = 0;
  std::set<std::uint64_t> open_;  // marks that are not written yet
  std::optional<Error> refusal_;  // the last one
  std::uint64_t refusals_ = 0;
  Event work_, done_;
};

}  // namespace warren::foghorn
