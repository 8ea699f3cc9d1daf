#pragma once
// What waits to be written, and the one batch that is under way.
//
// One batch is under way at a time: whatever is put meanwhile goes into a later one. So batches run
// in the order of their numbers, and if Redis has seen a number, that batch is done. A batch that
// is sent again because its answer was lost does nothing the second time; neither does one that a
// paused server finds late in a dead socket.
// Rejected: several batches under way, because a script that must be sent again by its source would
// run after later ones; and versions per entity, because they would double the keys.
//
// Each attempt has a stamp of its own, "7", "7.2", "7.3". A batch that was written, lost in a
// failover and written again stands after other entries than before, so it is a different entry.
//
// While Redis is away, a put is dropped once newer puts have replaced all of it. So the number of
// entities bounds what waits, and every put is still written as a whole.
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "primitives/mirror/entry.h"
#include "primitives/mirror/terms.h"

namespace warren::mirror {

// The outcome of a put; shared by the waiting caller and the outbox.
struct Receipt {
  std::optional<Result<Version>> result;
  std::function<void()> tell = {};  // wakes the waiting caller, if there is one
};

class Outbox {
 public:
  // `writer` is unique to this process, and never used again.
  Outbox(const MirrorTerms& terms, std::string writer)
      : terms_(terms), writer_(std::move(writer)) {}

  static constexpr std::size_t batch_changes = 2000;
  static constexpr std::size_t batch_bytes = 4u << 20;
  static constexpr std::size_t worth_preparing = 100;  // changes

  // Returns Errc::invalid for an unknown type or for more than one batch holds. Returns
  // Errc::overloaded if the queue is full; nothing was taken then.
  Result<std::shared_ptr<Receipt>> put(Batch batch);

  // The arguments of write.lua.
  struct Write {
    std::vector<std::string> keys;
    std::vector<std::string> args;
  };
  // Returns the next batch, or nullopt if nothing waits or a batch is under way.
  std::optional<Write> next(std::uint64_t epoch);
  // While a batch is under way: prepares the next one if it is large, so that the server need not
  // wait for that.
  void prepare();
  // The batch may or may not have been written, or could not be written now: it becomes the next
  // one again. (Reordered: after a batch that is ready, a mistake that tests plant.)
  void on_failed(Write write, bool is_reordered = false);
  // This attempt is in the log. Returns the entry for readers of the log. `before` is empty if an
  // earlier attempt had written it, since the answer then does not say what it follows.
  std::optional<Entry> on_written(Version version, std::string before, std::string_view attempt);
  // The batch will never be written.
  void on_refused(const Error& error);
  // Nothing will be written any more.
  void abandon(const Error& error);

  // The number of puts. A batch that is ready or under way counts as one.
  std::size_t waiting() const { return waiting_.size() + (flight_ ? 1 : 0) + (loaded_ ? 1 : 0); }
  std::size_t changes() const { return changes_; }  // that wait and are in no batch yet

 private:
  // A change in the form that the script and the log need, made while the previous batch is under
  // way.
  struct Item {
    std::string key;  // without the prefix
    std::optional<std::string> value;
    std::string notification;
  };
  struct Put {
    std::vector<Item> items;
    std::size_t bytes = 0;
    std::size_t newest = 0;  // the number of entities of which it has the newest value
    std::vector<std::shared_ptr<Receipt>> receipts;
  };
  using Place = std::list<Put>::iterator;
  struct Flight {
    std::uint64_t number;
    int attempts;
    std::string packed;
    std::optional<Write> write;  // while it is not under way
    std::vector<std::shared_ptr<Receipt>> receipts;
  };
  Result<std::size_t> check(const Batch& batch) const;
  void forget(Place put);
  std::vector<Item> take_items(Flight& flight);
  Flight load();
  static void resolve(std::vector<std::shared_ptr<Receipt>> receipts,
                      const Result<Version>& result);

  const MirrorTerms& terms_;
  std::string writer_;
  std::list<Put> waiting_;
  std::unordered_map<std::string, Place> newest_;  // by key
  std::size_t changes_ = 0;
  std::size_t bytes_ = 0;
  std::uint64_t number_ = 0;
  std::optional<Flight> flight_;
  std::optional<Flight> loaded_;  // the next batch, if it is ready
};

}  // namespace warren::mirror
