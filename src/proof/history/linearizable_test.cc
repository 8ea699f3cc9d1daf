#include "proof/history/linearizable.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace warren;
using namespace warren::history;

namespace {

using Kind = Operation::Kind;
using Answer = Linearizability::Answer;
using Operations = std::vector<Operation>;

Clock::time_point at(int ms) { return Clock::time_point(1h + std::chrono::milliseconds(ms)); }

Operation read(int called, int returned, Value result) {
  return {.kind = Kind::read, .result = result, .called = at(called), .returned = at(returned)};
}
Operation write(int called, int returned, Value argument) {
  return {
      .kind = Kind::write, .argument = argument, .called = at(called), .returned = at(returned)};
}
Operation replace(int called, int returned, Value expected, Value argument, bool done) {
  return {.kind = Kind::replace,
          .expected = expected,
          .argument = argument,
          .result = done ? Value(1) : Value(0),
          .called = at(called),
          .returned = at(returned)};
}
Operation create(int called, int returned, Value argument, Value result) {
  return {.kind = Kind::create,
          .argument = argument,
          .result = result,
          .called = at(called),
          .returned = at(returned)};
}
Operation without_answer(Operation operation) {
  operation.returned = Operation::unknown;
  operation.result = absent;
  return operation;
}
Answer judged(const Operations& operations) { return check_linearizable(operations).answer; }

// Tries every order of every choice of the operations that may have happened.
bool some_order_works(const Operations& all, unsigned done, Value state) {
  bool is_complete = true;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (done >> i & 1) continue;
    if (all[i].returned != Operation::unknown) is_complete = false;
    // No operation may follow one that was called after it had returned.
    bool may_be_next = true;
    for (std::size_t j = 0; j < all.size(); ++j)
      if (!(done >> j & 1) && j != i && all[j].returned < all[i].called) may_be_next = false;
    auto after = may_be_next ? apply(all[i], state) : std::nullopt;
    if (after && some_order_works(all, done | 1U << i, *after)) return true;
  }
  return is_complete;
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int upto(int most) { return std::uniform_int_distribution<int>(0, most)(engine_); }

 private:
  std::mt19937 engine_;
};

Operation some_operation(Random& random, std::uint32_t keys = 1) {
  Operation operation{.key = static_cast<std::uint32_t>(random.upto(static_cast<int>(keys) - 1)),
                      .called = {}};
  operation.kind = static_cast<Kind>(random.upto(3));
  operation.argument = static_cast<Value>(random.upto(2)) + 1;
  operation.expected = static_cast<Value>(random.upto(3));
  return operation;
}

// What callers of real registers see: each operation takes effect at a moment of its own, and its
// call and return lie somewhere around that.
Operations real_execution(unsigned seed, int count, std::uint32_t keys) {
  Random random(seed);
  std::vector<Value> state(keys);
  Operations operations;
  for (int i = 0; i < count; ++i) {
    auto operation = some_operation(random, keys);
    auto& value = state[operation.key];
    auto before = value;
    bool answers = random.upto(9) > 0;
    operation.returned = Operation::unknown;  // so that apply() does not judge the result
    if (answers || random.upto(1) == 0) value = *apply(operation, before);
    operation.result =
        operation.kind == Kind::replace ? Value(before == operation.expected ? 1 : 0) : value;
    if (operation.kind == Kind::write) operation.result = absent;
    operation.called = at(10 * i - random.upto(25));
    if (answers) operation.returned = at(10 * i + random.upto(25));
    operations.push_back(operation);
  }
  return operations;
}

}  // namespace

TEST_CASE("a read may see a write that is under way, or not yet") {
  CHECK(judged({}) == Answer::ok);
  CHECK(judged({write(0, 10, 1), read(5, 6, 1)}) == Answer::ok);
  CHECK(judged({write(0, 10, 1), read(5, 6, absent)}) == Answer::ok);
  CHECK(judged({write(0, 10, 1), read(11, 12, absent)}) == Answer::illegal);
  CHECK(judged({write(0, 10, 1), read(2, 3, 1), read(5, 6, absent)}) == Answer::illegal);
}

TEST_CASE("a stale read is illegal") {
  CHECK(judged({write(0, 1, 1), write(2, 3, 2), read(4, 5, 2)}) == Answer::ok);
  CHECK(judged({write(0, 1, 1), write(2, 3, 2), read(4, 5, 1)}) == Answer::illegal);
}

TEST_CASE("a value is replaced once, by one of those who expect it") {
  CHECK(judged({replace(0, 9, absent, 1, true), replace(0, 9, absent, 2, false),
                read(10, 11, 1)}) == Answer::ok);
  CHECK(judged({replace(0, 9, absent, 1, true), replace(0, 9, absent, 2, true)}) ==
        Answer::illegal);
  CHECK(judged({replace(0, 9, absent, 1, false)}) == Answer::illegal);
}

TEST_CASE("what is created once is the same for all") {
  CHECK(judged({create(0, 9, 1, 2), create(0, 9, 2, 2), create(20, 29, 3, 2)}) == Answer::ok);
  CHECK(judged({create(0, 9, 1, 1), create(0, 9, 2, 2)}) == Answer::illegal);
  CHECK(judged({create(0, 9, 1, 1), create(20, 29, 2, 2)}) == Answer::illegal);
  CHECK(judged({create(0, 9, 1, 7)}) == Answer::illegal);  // a value that was never written
}

TEST_CASE("what has no answer may happen late, or never, but not before it was called") {
  auto lost = without_answer(write(0, 1, 7));
  CHECK(judged({lost, read(10, 11, absent), read(20, 21, 7)}) == Answer::ok);
  CHECK(judged({lost, read(10, 11, absent)}) == Answer::ok);
  CHECK(judged({lost, read(10, 11, 7), read(20, 21, absent)}) == Answer::illegal);
  CHECK(judged({read(0, 1, 7), without_answer(write(5, 6, 7))}) == Answer::illegal);
  CHECK(judged({without_answer(read(0, 1, 9)), without_answer(create(0, 1, 3, 0)),
                read(5, 6, 3)}) == Answer::ok);
}

TEST_CASE("keys are judged one by one") {
  auto other = write(0, 1, 5);
  other.key = 2;
  CHECK(judged({other, read(2, 3, absent)}) == Answer::ok);
  other = read(2, 3, 5);
  other.key = 2;
  CHECK(judged({write(0, 1, 5), other}) == Answer::illegal);
}

TEST_CASE("an illegal history is told with the longest order and the operation that is stuck") {
  Operations operations{write(0, 1, 1), write(2, 3, 2), read(4, 5, 1)};
  auto result = check_linearizable(operations);
  REQUIRE(result.answer == Answer::illegal);
  CHECK(result.prefix == std::vector<std::size_t>{0, 1});
  CHECK(result.blocked == 2);
  CHECK(result.text(operations) ==
        "not linearizable: after 2 operations in this order\n"
        "        +0.000 to       +1.000 ms  process 0  key 0  write 1\n"
        "        +2.000 to       +3.000 ms  process 0  key 0  write 2\n"
        "this one cannot be\n"
        "        +4.000 to       +5.000 ms  process 0  key 0  read 1");
}

TEST_CASE("a search that would take too long says so, and says nothing else") {
  Operations operations;
  for (int i = 0; i < 12; ++i) operations.push_back(write(0, 100, static_cast<Value>(i) + 1));
  operations.push_back(read(200, 201, 99));
  operations.push_back(replace(300, 301, 50, 51, false));  // which may have seen any of them
  CHECK(check_linearizable(operations, 1000).answer == Answer::out_of_budget);
  CHECK(check_linearizable(operations).answer == Answer::illegal);
  CHECK(check_linearizable(std::span(operations).first(12), 1000).answer == Answer::ok);
}

TEST_CASE("what callers of real registers see is accepted, a thousand operations at a time") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    CHECK(judged(real_execution(seed, 60, 3)) == Answer::ok);
  }
  CHECK(judged(real_execution(1, 1000, 4)) == Answer::ok);
}

TEST_CASE("a result that nobody can have got is found in any history") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    auto operations = real_execution(seed, 60, 3);
    auto read = std::ranges::find_if(operations, [](auto& o) {
      return o.kind == Kind::read && o.returned != Operation::unknown;
    });
    REQUIRE(read != operations.end());
    read->result = 99;
    CHECK(judged(operations) == Answer::illegal);
  }
}

TEST_CASE("many writes at once that nobody sees, or without an answer, take no time") {
  auto search = [](auto value_of, bool is_answered, Value last_read) {
    Operations operations{write(0, 1, 1)};
    for (int i = 0; i < 30; ++i) {
      auto write_of_many = write(2, 20, value_of(i));
      operations.push_back(is_answered ? write_of_many : without_answer(write_of_many));
    }
    for (int i = 0; i < 3; ++i) operations.push_back(write(4, 10, static_cast<Value>(i) + 2));
    operations.push_back(read(21, 22, last_read));
    return check_linearizable(operations, 1000).answer;
  };
  auto all_different = [](int i) { return static_cast<Value>(i) + 100; };
  auto deletions = [](int) { return absent; };
  for (bool is_answered : {true, false}) {
    CHECK(search(all_different, is_answered, 2) == Answer::ok);
    CHECK(search(all_different, is_answered, 100) == Answer::ok);
    CHECK(search(all_different, is_answered, 1) == Answer::illegal);
    CHECK(search(all_different, is_answered, 99) == Answer::illegal);
  }
  CHECK(search(deletions, false, absent) == Answer::ok);
  CHECK(search(deletions, false, 1) == Answer::illegal);
}

TEST_CASE("the search and trying every order agree on small histories") {
  int legal = 0, illegal = 0;
  for (unsigned seed = 0; seed < 40'000; ++seed) {
    Random random(seed);
    Operations operations;
    for (int i = 2 + random.upto(4); i > 0; --i) {
      auto operation = some_operation(random);
      // Half of them have only reads and writes, of which the search knows more.
      if (seed % 2 == 0) operation.kind = static_cast<Kind>(random.upto(1));
      if (seed % 4 == 0 && operation.kind == Kind::write) operation.argument %= 3;
      operation.result =
          static_cast<Value>(operation.kind == Kind::replace ? random.upto(1) : random.upto(3));
      auto called = 3 * random.upto(10);
      operation.called = at(called);
      if (random.upto(5) > 0) operation.returned = at(called + 1 + 3 * random.upto(5));
      operations.push_back(operation);
    }
    bool expected = some_order_works(operations, 0, absent);
    ++(expected ? legal : illegal);
    CAPTURE(seed);
    CHECK((judged(operations) == Answer::ok) == expected);
  }
  CHECK(legal > 1000);
  CHECK(illegal > 1000);
}
