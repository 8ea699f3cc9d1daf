#include "proof/history/linearizable.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace warren::history {

namespace {

// Which operations are linearized already, and the state that this has led to.
using Memory = std::vector<std::uint64_t>;
struct MemoryHash {
  std::size_t operator()(const Memory& memory) const {
    std::uint64_t hash = 0;
    for (auto word : memory) hash = (hash ^ word) * 0x9e3779b97f4a7c15, hash ^= hash >> 32;
    return hash;
  }
};

// Calls and returns of one key in order of time, as a list from which linearized calls are removed
// together with their returns.
//
// Most writes that are under way at the same time are never read, and trying all their orders takes
// forever. So, if there are only reads and writes, such a write is not tried at all. When its
// return is next, it happened just before some write that was linearized while it was under way, or
// else just now. A write without a return is left out. Likewise, a read that may be next, and fits,
// is next.
class Search {
 public:
  Search(std::span<const Operation> all, std::span<const std::size_t> indexes);
  // Returns false when the budget is used up.
  bool run(std::size_t& budget, Linearizability& result);

 private:
  struct Entry {
    std::size_t operation;
    bool is_call;
    std::size_t other = none;  // the return of a call, or the call of a return
    std::size_t previous = none, next = none;
  };
  struct Step {
    std::size_t entry;
    Value state_before;
    std::size_t hides_before;
    bool is_forced;  // nothing else need be tried in its place
  };
  static constexpr std::size_t none = SIZE_MAX;

  const Operation& operation_of(const Entry& entry) const {
    return all_[indexes_[entry.operation]];
  }
  void find_unseen();
  std::size_t first_return() const;
  bool is_twin_done(std::size_t operation) const;
  void take(std::size_t entry, Value after, bool is_forced);
  bool hide(std::size_t returned);
  void unlink(std::size_t entry);
  void relink(std::size_t entry);
  void flip(std::size_t operation) { done_[operation / 64] ^= std::uint64_t(1) << operation % 64; }
  bool try_next(std::size_t entry);
  std::size_t undo();
  void remember_longest(std::size_t blocked, Linearizability& result) const;

  std::span<const Operation> all_;
  std::span<const std::size_t> indexes_;
  std::vector<Entry> entries_;  // the first is a head that is never removed
  std::size_t open_ = 0;        // operations with a known return that are not yet linearized
  Value state_ = absent;
  std::size_t hides_ = 0;          // calls before this entry were under way at the last write
  std::vector<bool> is_unseen_;    // by operation: a write that is never read
  std::vector<std::size_t> twin_;  // for a write without a return: an equal one, called before it
  Memory done_;                    // one bit per operation, then hides_ and the state
  std::unordered_set<Memory, MemoryHash> seen_;
  std::vector<Step> steps_;
};

Search::Search(std::span<const Operation> all, std::span<const std::size_t> indexes)
    : all_(all),
      indexes_(indexes),
      is_unseen_(indexes.size()),
      twin_(indexes.size(), none),
      done_(indexes.size() / 64 + 3) {
  struct Moment {
    Clock::time_point at;
    bool is_return;  // last among entries of the same moment: then the two may overlap
    std::size_t operation;
    auto operator<=>(const Moment&) const = default;
  };
  std::vector<Moment> moments;
  for (std::size_t i = 0; i < indexes.size(); ++i) {
    auto& operation = all[indexes[i]];
    moments.push_back({operation.called, false, i});
    if (operation.returned == Operation::unknown) continue;
    moments.push_back({operation.returned, true, i});
    ++open_;
  }
  std::ranges::sort(moments);
  entries_.push_back({.operation = 0, .is_call = false});
  std::vector<std::size_t> call_of(indexes.size());
  for (auto& moment : moments) {
    auto entry = entries_.size();
    entries_.push_back({.operation = moment.operation, .is_call = !moment.is_return});
    entries_[entry].previous = entry - 1;
    entries_[entry - 1].next = entry;
    if (moment.is_return) {
      entries_[call_of[moment.operation]].other = entry;
      entries_[entry].other = call_of[moment.operation];
    } else {
      call_of[moment.operation] = entry;
    }
  }
  find_unseen();
}

void Search::find_unseen() {
  std::unordered_set<Value> seen;
  bool is_plain = true;  // other operations see more than reads do
  for (auto index : indexes_) {
    auto& operation = all_[index];
    if (operation.kind > Operation::Kind::write) is_plain = false;
    bool is_read = operation.kind == Operation::Kind::read;
    if (is_read && operation.returned != Operation::unknown) seen.insert(operation.result);
  }
  std::unordered_map<Value, std::size_t> last;
  for (auto& entry : entries_) {
    if (!entry.is_call || operation_of(entry).kind != Operation::Kind::write) continue;
    auto value = operation_of(entry).argument;
    is_unseen_[entry.operation] = is_plain && !seen.contains(value);
    if (entry.other != none) continue;
    auto [before, is_first] = last.try_emplace(value, entry.operation);
    if (!is_first) twin_[entry.operation] = std::exchange(before->second, entry.operation);
  }
}

std::size_t Search::first_return() const {
  auto entry = entries_[0].next;
  while (entries_[entry].is_call) entry = entries_[entry].next;
  return entry;
}

// Of two equal operations that may happen at any time, the first can take the other's place.
bool Search::is_twin_done(std::size_t operation) const {
  auto twin = twin_[operation];
  return twin == none || (done_[twin / 64] >> twin % 64 & 1) != 0;
}

void Search::take(std::size_t entry, Value after, bool is_forced) {
  steps_.push_back({entry, state_, hides_, is_forced});
  state_ = after;
  unlink(entry);
  if (entries_[entry].other == none) return;
  unlink(entries_[entry].other);
  --open_;
}

// Hides the write that returns here, if no read saw it.
bool Search::hide(std::size_t returned) {
  auto operation = entries_[returned].operation;
  if (!is_unseen_[operation]) return false;
  auto call = entries_[returned].other;
  bool is_overwritten = call < hides_;
  flip(operation);
  take(call, is_overwritten ? state_ : all_[indexes_[operation]].argument, true);
  if (!is_overwritten) hides_ = returned;
  return true;
}

void Search::unlink(std::size_t entry) {
  auto& [operation, is_call, other, previous, next] = entries_[entry];
  entries_[previous].next = next;
  if (next != none) entries_[next].previous = previous;
}

void Search::relink(std::size_t entry) {
  auto& [operation, is_call, other, previous, next] = entries_[entry];
  entries_[previous].next = entry;
  if (next != none) entries_[next].previous = entry;
}

bool Search::try_next(std::size_t entry) {
  auto operation = entries_[entry].operation;
  if (is_unseen_[operation] || !is_twin_done(operation)) return false;
  auto after = apply(operation_of(entries_[entry]), state_);
  // An operation that may be left out is worth trying only if it changes something.
  if (!after || (entries_[entry].other == none && *after == state_)) return false;
  flip(operation);
  bool is_read = operation_of(entries_[entry]).kind == Operation::Kind::read;
  auto hides = is_read ? hides_ : first_return();
  done_.back() = *after;
  done_[done_.size() - 2] = hides;
  if (!is_read && !seen_.insert(done_).second) {
    flip(operation);
    return false;
  }
  take(entry, *after, is_read);
  hides_ = hides;
  return true;
}

// Takes back the last step that has an alternative, and returns its entry, or none if there is no
// such step.
std::size_t Search::undo() {
  while (!steps_.empty()) {
    auto [entry, state_before, hides_before, is_forced] = steps_.back();
    steps_.pop_back();
    state_ = state_before;
    hides_ = hides_before;
    flip(entries_[entry].operation);
    if (entries_[entry].other != none) {
      relink(entries_[entry].other);
      ++open_;
    }
    relink(entry);
    if (!is_forced) return entry;
  }
  return none;
}

void Search::remember_longest(std::size_t blocked, Linearizability& result) const {
  if (steps_.size() < result.prefix.size()) return;
  result.prefix.clear();
  for (auto& step : steps_) result.prefix.push_back(indexes_[entries_[step.entry].operation]);
  result.blocked = indexes_[entries_[blocked].operation];
}

bool Search::run(std::size_t& budget, Linearizability& result) {
  for (auto entry = entries_[0].next; open_ > 0;) {
    if (budget == 0) return false;
    --budget;
    bool is_call = entries_[entry].is_call;
    if (is_call ? try_next(entry) : hide(entry)) {
      entry = entries_[0].next;
    } else if (is_call) {
      entry = entries_[entry].next;
    } else {
      // It returned, and no operation called before that can be next.
      remember_longest(entry, result);
      auto last = undo();
      if (last == none) {
        result.answer = Linearizability::Answer::illegal;
        return true;
      }
      entry = entries_[last].next;
    }
  }
  return true;
}

}  // namespace

std::optional<Value> apply(const Operation& operation, Value state) {
  bool is_known = operation.returned != Operation::unknown;
  auto with_result = [&](Value result, Value after) -> std::optional<Value> {
    if (is_known && result != operation.result) return std::nullopt;
    return after;
  };
  switch (operation.kind) {
    case Operation::Kind::read:
      return with_result(state, state);
    case Operation::Kind::write:
      return operation.argument;
    case Operation::Kind::replace: {
      bool fits = state == operation.expected;
      return with_result(fits ? 1 : 0, fits ? operation.argument : state);
    }
    case Operation::Kind::create: {
      auto after = state == absent ? operation.argument : state;
      return with_result(after, after);
    }
  }
  std::abort();
}

Linearizability check_linearizable(std::span<const Operation> operations, std::size_t budget) {
  std::vector<std::size_t> indexes(operations.size());
  for (std::size_t i = 0; i < indexes.size(); ++i) indexes[i] = i;
  std::ranges::sort(indexes, {}, [&](std::size_t i) { return std::pair(operations[i].key, i); });
  bool was_cut_short = false;
  for (std::span<const std::size_t> rest = indexes; !rest.empty();) {
    auto key = operations[rest.front()].key;
    auto end = std::ranges::find_if(rest, [&](auto i) { return operations[i].key != key; });
    std::span<const std::size_t> group{rest.begin(), end};
    rest = rest.subspan(group.size());
    Linearizability result;
    if (!Search(operations, group).run(budget, result)) was_cut_short = true;
    if (result.answer == Linearizability::Answer::illegal) return result;
  }
  return {was_cut_short ? Linearizability::Answer::out_of_budget : Linearizability::Answer::ok};
}

std::string describe(const Operation& operation, Clock::time_point origin) {
  auto ms = [&](Clock::time_point time) {
    if (time == Operation::unknown) return std::string("?");
    return fmt::format("{:+.3f}", std::chrono::duration<double, std::milli>(time - origin).count());
  };
  auto line = fmt::format("{:>12} to {:>12} ms  process {}  key {}  ", ms(operation.called),
                          ms(operation.returned), operation.process, operation.key);
  auto& [key, process, kind, expected, argument, result, called, returned] = operation;
  bool is_known = returned != Operation::unknown;
  switch (kind) {
    case Operation::Kind::read:
      return line + (is_known ? fmt::format("read {}", result) : "read");
    case Operation::Kind::write:
      return line + fmt::format("write {}", argument);
    case Operation::Kind::replace:
      return line + fmt::format("replace {} by {}{}", expected, argument,
                                !is_known     ? ""
                                : result == 1 ? ": done"
                                              : ": refused");
    case Operation::Kind::create:
      return line + fmt::format("create {}", argument) +
             (is_known ? fmt::format(": there is {}", result) : "");
  }
  std::abort();
}

std::string Linearizability::text(std::span<const Operation> operations) const {
  if (answer == Answer::ok) return "linearizable";
  if (answer == Answer::out_of_budget) return "not decided within the budget";
  auto origin = std::ranges::min(operations, {}, &Operation::called).called;
  std::string text =
      fmt::format("not linearizable: after {} operations in this order", prefix.size());
  for (auto i : prefix) text += "\n  " + describe(operations[i], origin);
  return text + "\nthis one cannot be\n  " + describe(operations[blocked], origin);
}

}  // namespace warren::history
