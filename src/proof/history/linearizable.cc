#include "proof/history/linearizable.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

namespace warren::history {

namespace {

// Which operations are linearized already, and the state that this led to.
using Memory = std::vector<std::uint64_t>;
struct MemoryHash {
  std::size_t operator()(const Memory& memory) const {
    std::uint64_t hash = 0;
    for (auto word : memory) hash = (hash ^ word) * 0x9e3779b97f4a7c15, hash ^= hash >> 32;
    return hash;
  }
};

// Calls and returns of one key in the order of time, as a list from which the calls that are
// linearized are taken out, with their returns.
class Search {
 public:
  Search(std::span<const Operation> all, std::span<const std::size_t> indexes);
  // False: the budget is used up.
  bool run(std::size_t& budget, Linearizability& result);

 private:
  struct Entry {
    std::size_t operation;
    bool is_call;
    std::size_t other = none;  // the return of a call
    std::size_t previous = none, next = none;
  };
  struct Step {
    std::size_t entry;
    Value state_before;
  };
  static constexpr std::size_t none = SIZE_MAX;

  const Operation& operation_of(std::size_t entry) const {
    return all_[indexes_[entries_[entry].operation]];
  }
  void unlink(std::size_t entry);
  void relink(std::size_t entry);
  void flip(std::size_t operation) { done_[operation / 64] ^= std::uint64_t(1) << operation % 64; }
  bool try_next(std::size_t entry);
  std::size_t undo();
  void remember_longest(std::size_t blocked, Linearizability& result) const;

  std::span<const Operation> all_;
  std::span<const std::size_t> indexes_;
  std::vector<Entry> entries_;  // the first is a head that is never taken out
  std::size_t open_ = 0;        // operations with a known return, not yet linearized
  Value state_ = absent;
  Memory done_;  // one bit per operation, then the state
  std::unordered_set<Memory, MemoryHash> seen_;
  std::vector<Step> steps_;
};

Search::Search(std::span<const Operation> all, std::span<const std::size_t> indexes)
    : all_(all), indexes_(indexes), done_(indexes.size() / 64 + 2) {
  struct Moment {
    Clock::time_point at;
    bool is_return;  // last at the same moment: then the two may overlap
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
    if (moment.is_return)
      entries_[call_of[moment.operation]].other = entry;
    else
      call_of[moment.operation] = entry;
  }
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
  auto& operation = operation_of(entry);
  auto after = apply(operation, state_);
  bool is_unknown = operation.returned == Operation::unknown;
  // What may be left out is worth trying only if it changes something.
  if (!after || (is_unknown && *after == state_)) return false;
  flip(entries_[entry].operation);
  done_.back() = *after;
  if (!seen_.insert(done_).second) {
    flip(entries_[entry].operation);
    return false;
  }
  steps_.push_back({entry, state_});
  state_ = *after;
  unlink(entry);
  if (is_unknown) return true;
  unlink(entries_[entry].other);
  --open_;
  return true;
}

// Takes the last step back and returns its entry.
std::size_t Search::undo() {
  auto [entry, state_before] = steps_.back();
  steps_.pop_back();
  state_ = state_before;
  flip(entries_[entry].operation);
  if (entries_[entry].other != none) {
    relink(entries_[entry].other);
    ++open_;
  }
  relink(entry);
  return entry;
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
    if (!entries_[entry].is_call) {
      // It returned, and none of those that were called before it can be next.
      remember_longest(entry, result);
      if (steps_.empty()) {
        result.answer = Linearizability::Answer::illegal;
        return true;
      }
      entry = entries_[undo()].next;
    } else {
      entry = try_next(entry) ? entries_[0].next : entries_[entry].next;
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
