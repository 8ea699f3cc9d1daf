#pragma once
// Whether operations on registers, as their callers saw them, could have happened one after the
// other, each at some moment between its call and its return.
//
//   alice   |---- write 1 ----|
//   bob          |-- read 1 --|                allowed: the write took effect before the read
//   carol                       |- read 0 -|   not allowed: it came after both, and went back
//
// The search of Wing and Gong with the memory of Lowe: linearize an operation that may be the next
// one, continue, and backtrack when stuck. A set of operations that has led to a state once need
// not be tried again. Keys are independent and judged separately.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "proof/history/history.h"

namespace warren::history {

using Value = std::uint64_t;
inline constexpr Value absent = 0;

struct Operation {
  enum class Kind : std::uint8_t {
    read,     // result: the value
    write,    // argument
    replace,  // expected -> argument; result: 1 if the value was the expected one, else 0
    create,   // argument, unless a value exists; result: the value afterwards
  };
  static constexpr auto unknown = Clock::time_point::max();

  std::uint32_t key = 0;
  ProcessId process = 0;
  Kind kind{};
  Value expected = absent, argument = absent, result = absent;
  Clock::time_point called, returned = unknown;  // unknown: it may happen later, or never
};

struct Linearizability {
  enum class Answer { ok, illegal, out_of_budget };
  Answer answer = Answer::ok;
  // For an illegal history: indexes of one longest possible order, and an operation that cannot
  // follow it although it returned before any other was called.
  std::vector<std::size_t> prefix = {};
  std::size_t blocked = 0;

  std::string text(std::span<const Operation> operations) const;
};

// Every register is `absent` at first. The budget is the number of search steps, over all keys.
Linearizability check_linearizable(std::span<const Operation> operations,
                                   std::size_t budget = 1'000'000);

// The sequential meaning of one operation. Returns nullopt if its result is impossible in this
// state.
std::optional<Value> apply(const Operation& operation, Value state);

std::string describe(const Operation& operation, Clock::time_point origin);

}  // namespace warren::history
