#pragma once
// What waits to be written, and the one batch that is on its way.
//
// One batch at a time: whatever is put meanwhile goes with the ones after it. So batches run in the
// order of their numbers, and a number that Redis has seen says that a batch is done: one that is
// sent again because its answer was lost, or that a paused server finds late in a dead socket,
// does nothing the second time. Rejected: many batches in flight, since a script that must be sent
// again by its source runs after its later siblings; and versions per entity, since they would
// double the keys.
//
// Each attempt has a stamp of its own, "7", "7.2", "7.3": a batch that was written, lost in a
// failover and written again stands behind other entries than before, so it is another entry.
//
// While Redis is away a put is dropped once newer ones have replaced all of it: what waits is
// bounded by the number of entities, and every put is still written whole.
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

// What became of a put; shared by whoever waits and by the outbox.
struct Receipt {
  std::optional<Result<Version>> result;
  std::function<void()> tell = {};  // wakes whoever waits, if anybody does
};

class Outbox {
 public:
  // The writer is this process and no other, ever.
  Outbox(const MirrorTerms& terms, std::string writer)
      : terms_(terms), writer_(std::move(writer)) {}

  static constexpr std::size_t batch_changes = 2000;
  static constexpr std::size_t batch_bytes = 4u << 20;
  static constexpr std::size_t worth_preparing = 100;  // changes

  // Errc::invalid: an unknown type, or more than one batch holds. Errc::overloaded: the queue is
  // full, and nothing was taken.
  Result<std::shared_ptr<Receipt>> put(Batch batch);

  // The arguments of write.lua.
  struct Write {
    std::vector<std::string> keys;
    std::vector<std::string> args;
  };
  // The next batch; none when nothing waits, or one is on its way.
  std::optional<Write> next(std::uint64_t epoch);
  // While one is on its way: makes the next one ready when it is large, so that the server need not
  // wait for that.
  void prepare();
  // It may or may not have been written, or could not be now: it is the next one again. (Behind a
  // batch that is ready: a mistake that a test makes on purpose.)
  void on_failed(Write write, bool is_reordered = false);
  // It is in the log, by this attempt. Returns the entry for the log's readers; `before` is empty
  // when it was written earlier, and the answer does not say what it follows.
  std::optional<Entry> on_written(Version version, std::string before, std::string_view attempt);
  // It will not be written.
  void on_refused(const Error& error);
  // Nothing will be written any more.
  void abandon(const Error& error);

  // Puts, of which each batch that is ready or on its way counts as one.
  std::size_t waiting() const { return waiting_.size() + (flight_ ? 1 : 0) + (loaded_ ? 1 : 0); }
  std::size_t changes() const { return changes_; }  // that wait, and are in no batch yet

 private:
  // A change as the script and the log want it, made while the batch before is on its way.
  struct Item {
    std::string key;  // without the prefix
    std::optional<std::string> value;
    std::string notification;
  };
  struct Put {
    std::vector<Item> items;
    std::size_t bytes = 0;
    std::size_t newest = 0;  // of how many entities it has the newest value
    std::vector<std::shared_ptr<Receipt>> receipts;
  };
  using Place = std::list<Put>::iterator;
  struct Flight {
    std::uint64_t number;
    int attempts;
    std::string packed;
    std::optional<Write> write;  // while it is here
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
  std::optional<Flight> loaded_;  // the next one
};

}  // namespace warren::mirror
