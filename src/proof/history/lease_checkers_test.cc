#include <doctest/doctest.h>

#include <deque>
#include <functional>
#include <map>
#include <random>

#include "proof/history/checkers.h"

using namespace warren;
using namespace warren::history;

namespace {

using Kind = LeaseEvent::Kind;
using Events = std::vector<LeaseEvent>;

Clock::time_point at(Clock::duration time) { return Clock::time_point(1h + time); }

const LeaseBounds bounds{.ttl = 100ms, .wake = 20ms, .slack = 5ms};

std::string broken(const LeaseHistory& history, const LeaseBounds& allowed = bounds) {
  auto violation = LeaseJudge(history, allowed).first_violation();
  return violation ? violation->invariant : "";
}

LeaseHistory history_of(const Events& events) {
  std::multimap<Clock::time_point, LeaseEvent> sorted;
  for (auto& e : events) sorted.emplace(e.at, e);
  LeaseHistory history;
  std::vector<AttemptId> attempts(events.size());
  for (auto& [time, e] : sorted) {
    auto attempt = attempts[e.attempt];
    switch (e.kind) {
      case Kind::begun:
        attempts[e.attempt] = history.begun(e.at, e.process, e.lock, e.deadline);
        break;
      case Kind::enqueued:
        history.enqueued(e.at, attempt, e.token);
        break;
      case Kind::granted:
        history.granted(e.at, attempt,
                        {.token = e.token, .since = e.since, .deadline = e.deadline});
        break;
      case Kind::renewed:
        history.renewed(e.at, attempt, e.deadline);
        break;
      case Kind::raised:
        history.raised(e.at, attempt, e.token, e.since);
        break;
      case Kind::lost:
        history.lost(e.at, attempt);
        break;
      case Kind::released:
        history.released(e.at, attempt);
        break;
      case Kind::ended:
        history.ended(e.at, attempt);
        break;
      case Kind::accepted:
        history.accepted(e.at, attempt, e.token, e.since);
        break;
      case Kind::rejected:
        history.rejected(e.at, attempt, e.token, e.since);
        break;
      case Kind::killed:
        history.killed(e.at, e.process);
        break;
      case Kind::paused:
        history.paused(e.at, e.process);
        break;
      case Kind::resumed:
        history.resumed(e.at, e.process);
        break;
    }
  }
  return history;
}

// A small world that does everything right: several processes wait for each of a few locks in a
// queue, hold it, renew it, write under it, and let go, lose it, sleep or die (the last two not for
// odd seeds).
class GoodWorld {
 public:
  explicit GoodWorld(unsigned seed, int grants = 12) : random_(seed), is_calm_(seed % 2 == 1) {
    for (LockId lock = 0; lock < 2; ++lock) {
      now_ = at(0ms);
      for (int i = 0; i < grants; ++i) turn(lock);
      for (auto& waiter : waiting_) history_.ended(now_, waiter.attempt);
      waiting_.clear();
    }
    history_.sort();
  }
  const LeaseHistory& history() const { return history_; }

 private:
  std::int64_t upto(std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(0, most)(random_);
  }
  Clock::duration some_ms(std::int64_t least, std::int64_t most) {
    return std::chrono::milliseconds(least + upto(most - least));
  }

  void turn(LockId lock) {
    for (auto more = upto(2); waiting_.empty() || more > 0; --more) {
      auto attempt = history_.begun(now_, ++process_, lock, now_ + 100s);
      history_.enqueued(now_ + 1ms, attempt, {1, ++place_});
      waiting_.push_back({attempt, process_});
      now_ += 2ms;
    }
    auto [attempt, process] = waiting_.front();
    waiting_.pop_front();
    if (upto(9) == 0) return history_.ended(now_, attempt);  // the process no longer wants it
    auto asked = now_;
    now_ += some_ms(1, 3);
    auto deadline = asked + 90ms;
    Token token{1 + lock, ++counter_};
    history_.granted(now_, attempt, {.token = token, .since = asked, .deadline = deadline});
    for (auto renewals = upto(3); renewals > 0; --renewals) {
      now_ += some_ms(20, 40);
      deadline = now_ + 80ms;
      history_.renewed(now_, attempt, deadline);
      history_.accepted(now_ + 2ms, attempt, token, now_ + 1ms);
      now_ += 3ms;
    }
    leave(attempt, process, deadline);
  }

  void leave(AttemptId attempt, ProcessId process, Clock::time_point deadline) {
    auto way = upto(3);
    switch (is_calm_ ? way / 2 * 3 : way) {
      case 0:
        history_.lost(deadline, attempt);
        now_ = deadline + 30ms;
        break;
      case 1:
        history_.killed(now_, process);
        now_ += 101ms;
        break;
      case 2:  // sleeps past the deadline, and learns of it when it wakes
        history_.paused(now_, process);
        history_.resumed(deadline + 50ms, process);
        history_.lost(deadline + 52ms, attempt);
        now_ = deadline + 60ms;
        break;
      default:
        now_ += 5ms;
        history_.released(now_, attempt);
    }
  }

  struct Waiter {
    AttemptId attempt;
    ProcessId process;
  };
  std::mt19937 random_;
  bool is_calm_;
  LeaseHistory history_;
  Clock::time_point now_;
  std::deque<Waiter> waiting_;
  ProcessId process_ = 0;
  std::uint64_t place_ = 0, counter_ = 0;
};

// Changes one event of the kind: `random` picks it among those that `fits` accepts.
bool change_one(Events& events, Kind kind, unsigned random,
                const std::function<bool(const LeaseEvent&)>& fits,
                const std::function<void(LeaseEvent&)>& change) {
  std::vector<LeaseEvent*> found;
  for (auto& event : events)
    if (event.kind == kind && fits(event)) found.push_back(&event);
  if (found.empty()) return false;
  change(*found[random % found.size()]);
  return true;
}

const LeaseEvent* find(const Events& events, AttemptId attempt, Kind kind) {
  for (auto& event : events)
    if (event.attempt == attempt && event.kind == kind) return &event;
  return nullptr;
}

// The previous grant of the same lock.
const LeaseEvent* grant_before(const Events& events, const LeaseEvent& grant) {
  const LeaseEvent* before = nullptr;
  for (auto& event : events) {
    if (event.at >= grant.at) break;
    if (event.kind == Kind::granted && event.lock == grant.lock) before = &event;
  }
  return before;
}

// Plants one mistake in many good histories; each must be found, under the right name.
void plant(const std::string& invariant, const std::function<bool(Events&, unsigned)>& mistake) {
  int planted = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    auto events = GoodWorld(seed).history().events();
    if (!mistake(events, seed * 7919)) continue;
    ++planted;
    CAPTURE(seed);
    CHECK(broken(history_of(events)) == invariant);
  }
  CHECK(planted > 20);
}

struct TwoOwners {
  LeaseHistory history;
  AttemptId alice = history.begun(at(0ms), 1, 0);
  AttemptId bob = history.begun(at(1ms), 2, 0);
};

}  // namespace

TEST_CASE("histories of a world that does everything right pass") {
  for (unsigned seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    GoodWorld world(seed);
    auto violation = LeaseJudge(world.history(), bounds).first_violation();
    CHECK_MESSAGE(!violation, violation->text());
    CHECK(history_of(world.history().events()).events().size() == world.history().events().size());
  }
}

TEST_CASE("I1: a write under an older token after a newer one is found") {
  plant("I1", [](Events& events, unsigned random) {
    const LeaseEvent* first = nullptr;
    for (auto& event : events)
      if (!first && event.kind == Kind::accepted && event.lock == 1) first = &event;
    if (!first) return false;
    auto stale = *first;
    return change_one(
               events, Kind::accepted, random,
               [&](auto& e) { return e.lock == stale.lock && e.attempt != stale.attempt; },
               [&](auto& e) {
                 stale.since = e.at;
                 stale.at = e.at + 1us;
               }) &&
           (events.push_back(stale), true);
  });
}

TEST_CASE("I1: one token from two owners is found, in whatever order they wrote") {
  TwoOwners two;
  two.history.accepted(at(5ms), two.alice, {1, 1}, at(2ms));
  two.history.accepted(at(6ms), two.bob, {1, 1}, at(2ms));
  CHECK(broken(two.history) == "I1");
}

TEST_CASE("I1: of two writes under way at the same time either may have come first") {
  TwoOwners two;
  two.history.accepted(at(5ms), two.bob, {1, 2}, at(2ms));
  two.history.accepted(at(6ms), two.alice, {1, 1}, at(4ms));
  CHECK(broken(two.history) == "");
  two.history.accepted(at(7ms), two.alice, {1, 1}, at(5ms));
  CHECK(broken(two.history) == "I1");
}

TEST_CASE("I1: a rejected write breaks nothing, and resources are independent") {
  TwoOwners two;
  two.history.accepted(at(5ms), two.bob, {1, 2}, at(5ms));
  two.history.rejected(at(6ms), two.alice, {1, 1}, at(6ms));
  auto elsewhere = two.history.begun(at(6ms), 1, 1);
  two.history.accepted(at(7ms), elsewhere, {1, 1}, at(7ms));
  CHECK(broken(two.history) == "");
}

TEST_CASE("I1: stamps of the resource itself give the exact order, also within one moment") {
  TwoOwners two;
  two.history.accepted(at(5ms), two.bob, {1, 2}, at(5ms));
  two.history.accepted(at(5ms), two.alice, {1, 1}, at(5ms));
  CHECK(broken(two.history) == "I1");
}

TEST_CASE("I2: a counter that goes back is found") {
  plant("I2", [](Events& events, unsigned random) {
    for (auto& e : events)
      if (e.kind == Kind::accepted) e.kind = Kind::rejected;
    return change_one(
        events, Kind::granted, random, [&](auto& e) { return grant_before(events, e); },
        [&](auto& e) { e.token.counter = grant_before(events, e)->token.counter - 1; });
  });
}

TEST_CASE("I2: a token that is handed out twice is found") {
  plant("I2", [](Events& events, unsigned random) {
    for (auto& e : events)
      if (e.kind == Kind::accepted) e.kind = Kind::rejected;
    return change_one(
        events, Kind::granted, random, [&](auto& e) { return grant_before(events, e); },
        [&](auto& e) { e.token = grant_before(events, e)->token; });
  });
}

TEST_CASE("I2: the epoch counts before the counter") {
  TwoOwners two;
  two.history.granted(at(5ms), two.alice,
                      {.token = {1, 9}, .since = at(2ms), .deadline = at(50ms)});
  two.history.released(at(6ms), two.alice);
  auto later = two.history;
  two.history.granted(at(9ms), two.bob, {.token = {2, 1}, .since = at(7ms), .deadline = at(50ms)});
  CHECK(broken(two.history) == "");
  later.granted(at(9ms), two.bob, {.token = {0, 20}, .since = at(7ms), .deadline = at(50ms)});
  CHECK(broken(later) == "I2");
}

TEST_CASE("I2: an answer that was under way while another was granted may be the older one") {
  TwoOwners two;
  two.history.granted(at(5ms), two.bob, {.token = {2, 1}, .since = at(4ms), .deadline = at(6ms)});
  two.history.lost(at(6ms), two.bob);
  two.history.granted(at(7ms), two.alice,
                      {.token = {1, 9}, .since = at(3ms), .deadline = at(50ms)});
  CHECK(broken(two.history) == "");
}

TEST_CASE("I2: a token that grew while the lease was held counts like a new one") {
  auto next = [](Token token) {
    TwoOwners two;
    two.history.granted(at(5ms), two.alice,
                        {.token = {1, 1}, .since = at(2ms), .deadline = at(50ms)});
    two.history.raised(at(6ms), two.alice, {2, 1}, at(5ms));
    two.history.released(at(7ms), two.alice);
    two.history.granted(at(9ms), two.bob, {.token = token, .since = at(8ms), .deadline = at(50ms)});
    return broken(two.history);
  };
  CHECK(next({2, 2}) == "");
  CHECK(next({2, 1}) == "I2");
  CHECK(next({1, 2}) == "I2");
}

TEST_CASE("I3: an owner that believes too long is found") {
  plant("I3", [](Events& events, unsigned random) {
    return change_one(
        events, Kind::granted, random, [&](auto& e) { return grant_before(events, e); },
        [&](auto& e) {
          auto attempt = grant_before(events, e)->attempt;
          auto process = grant_before(events, e)->process;
          std::erase_if(events, [&](auto& other) {
            return (other.attempt == attempt &&
                    (other.kind == Kind::released || other.kind == Kind::lost)) ||
                   (other.process == process && other.kind >= Kind::killed);
          });
          for (auto& other : events)
            if (other.attempt == attempt &&
                (other.kind == Kind::granted || other.kind == Kind::renewed))
              other.deadline += 1h;
        });
  });
}

TEST_CASE("I3: an overlap up to the bound passes, and what of it is in lossy times") {
  TwoOwners two;
  two.history.granted(at(5ms), two.alice,
                      {.token = {1, 1}, .since = at(2ms), .deadline = at(50ms)});
  two.history.granted(at(40ms), two.bob,
                      {.token = {1, 2}, .since = at(39ms), .deadline = at(90ms)});
  two.history.lost(at(50ms), two.alice);
  CHECK(broken(two.history) == "I3");
  auto with = bounds;
  with.overlap = 10ms;
  CHECK(broken(two.history, with) == "");
  with.overlap = 9ms;
  CHECK(broken(two.history, with) == "I3");
  with.overlap = 0ms;
  with.lossy = {{at(35ms), at(45ms)}, {at(44ms), at(50ms)}};
  CHECK(broken(two.history, with) == "");
  CHECK(LeaseJudge(two.history, with).lossy_overlaps() == 1);
  with.lossy = {{at(35ms), at(45ms)}};  // it is over before the overlap is
  CHECK(broken(two.history, with) == "I3");
  with.lossy = {{at(41ms), at(60ms)}};  // it came later
  CHECK(broken(two.history, with) == "I3");
}

TEST_CASE("I3: belief past the own deadline is an overlap, unless the owner slept") {
  TwoOwners two;
  two.history.granted(at(5ms), two.alice,
                      {.token = {1, 1}, .since = at(2ms), .deadline = at(50ms)});
  auto asleep = two.history;
  two.history.granted(at(60ms), two.bob,
                      {.token = {1, 2}, .since = at(59ms), .deadline = at(90ms)});
  two.history.lost(at(70ms), two.alice);
  CHECK(LeaseJudge(two.history, bounds).owners_exclude_each_other()->invariant == "I3");
  asleep.paused(at(45ms), 1);
  asleep.granted(at(60ms), two.bob, {.token = {1, 2}, .since = at(59ms), .deadline = at(90ms)});
  asleep.resumed(at(69ms), 1);
  asleep.lost(at(70ms), two.alice);
  CHECK(broken(asleep) == "");
}

TEST_CASE("I3: of the time in which locks are held, what lies in lossy times is counted") {
  TwoOwners two;
  two.history.granted(at(10ms), two.alice,
                      {.token = {1, 1}, .since = at(2ms), .deadline = at(90ms)});
  two.history.released(at(30ms), two.alice);
  two.history.granted(at(40ms), two.bob,
                      {.token = {1, 2}, .since = at(39ms), .deadline = at(90ms)});
  two.history.released(at(70ms), two.bob);
  auto with = bounds;
  CHECK(LeaseJudge(two.history, with).hold_time().all == 50ms);
  CHECK(LeaseJudge(two.history, with).hold_time().excused == 0ms);
  with.lossy = {{at(0ms), at(15ms)}, {at(25ms), at(45ms)}, {at(44ms), at(50ms)}};
  CHECK(LeaseJudge(two.history, with).hold_time().all == 50ms);
  CHECK(LeaseJudge(two.history, with).hold_time().excused == 20ms);
}

TEST_CASE("I6: who waits in good times is counted as judged") {
  TwoOwners two;
  two.history.ended(at(20ms), two.alice);
  two.history.ended(at(150ms), two.bob);
  auto with = bounds;
  with.excused = {{at(0ms), at(10ms)}};  // and one ttl longer
  auto share = LeaseJudge(two.history, with).judged_waiters();
  CHECK(share.all == 2);
  CHECK(share.judged == 1);
}

TEST_CASE("I3: what an owner no longer believes does not overlap") {
  for (auto end : {Kind::lost, Kind::released, Kind::killed}) {
    TwoOwners two;
    two.history.granted(at(5ms), two.alice,
                        {.token = {1, 1}, .since = at(2ms), .deadline = at(50ms)});
    if (end == Kind::lost) two.history.lost(at(20ms), two.alice);
    if (end == Kind::released) two.history.released(at(20ms), two.alice);
    if (end == Kind::killed) two.history.killed(at(20ms), 1);
    two.history.granted(at(20ms), two.bob,
                        {.token = {1, 2}, .since = at(19ms), .deadline = at(90ms)});
    CHECK(broken(two.history) == "");
  }
}

TEST_CASE("I3: a short grant within a long one is found, and so is one behind it") {
  TwoOwners two;
  auto carol = two.history.begun(at(1ms), 3, 0);
  two.history.granted(at(5ms), two.alice,
                      {.token = {1, 1}, .since = at(2ms), .deadline = at(90ms)});
  auto inside = two.history;
  inside.granted(at(10ms), two.bob, {.token = {1, 2}, .since = at(9ms), .deadline = at(15ms)});
  inside.lost(at(15ms), two.bob);
  CHECK(broken(inside) == "I3");
  auto with = bounds;
  with.overlap = 5ms;
  CHECK(broken(inside, with) == "");
  inside.granted(at(30ms), carol, {.token = {1, 3}, .since = at(29ms), .deadline = at(40ms)});
  inside.lost(at(40ms), carol);
  CHECK(broken(inside, with) == "I3");
}

TEST_CASE("I4: a loss that is told late is found") {
  plant("I4", [](Events& events, unsigned random) {
    return change_one(
        events, Kind::lost, random, [](auto&) { return true; }, [](auto& e) { e.at += 9ms; });
  });
}

TEST_CASE("I4: a loss that is never told is found") {
  plant("I4", [](Events& events, unsigned random) {
    return change_one(
        events, Kind::lost, random, [&](auto& e) { return e.at + 60ms < events.back().at; },
        [&](auto& e) { e.kind = Kind::rejected; });
  });
}

TEST_CASE("I4: a lease that was lost is not renewed, nor one that was released") {
  for (auto end : {Kind::lost, Kind::released}) {
    TwoOwners two;
    two.history.granted(at(5ms), two.alice,
                        {.token = {1, 1}, .since = at(2ms), .deadline = at(50ms)});
    if (end == Kind::lost) two.history.lost(at(20ms), two.alice);
    if (end == Kind::released) two.history.released(at(20ms), two.alice);
    two.history.renewed(at(21ms), two.alice, at(80ms));
    CHECK(broken(two.history) == "I4");
  }
}

TEST_CASE("I4: a renewal behind the deadline is one too late") {
  TwoOwners two;
  two.history.granted(at(5ms), two.alice,
                      {.token = {1, 1}, .since = at(2ms), .deadline = at(50ms)});
  auto late = two.history;
  two.history.renewed(at(55ms), two.alice, at(80ms));
  CHECK(broken(two.history) == "");
  late.renewed(at(56ms), two.alice, at(80ms));
  CHECK(broken(late) == "I4");
}

TEST_CASE("I4: only time in which the owner is awake counts") {
  TwoOwners two;
  two.history.granted(at(5ms), two.alice,
                      {.token = {1, 1}, .since = at(2ms), .deadline = at(50ms)});
  two.history.paused(at(53ms), 1);
  two.history.resumed(at(70ms), 1);
  two.history.paused(at(71ms), 1);
  two.history.resumed(at(90ms), 1);
  auto late = two.history;
  two.history.lost(at(95ms), two.alice);
  CHECK(broken(two.history) == "");
  late.lost(at(96ms), two.alice);
  CHECK(broken(late) == "I4");
}

TEST_CASE("I6: a lock that stays free while somebody waits is found") {
  plant("I6", [](Events& events, unsigned random) {
    std::vector<LeaseEvent> releases;
    for (auto& e : events)
      if (e.kind == Kind::released && e.at + 30ms < events.back().at) releases.push_back(e);
    if (releases.empty()) return false;
    auto free = releases[random % releases.size()];
    // An earlier waiter that never hears of it, and nothing else for a while.
    for (auto& e : events) {
      if (e.at > free.at) e.at += 400ms;
      if (e.at > free.at && e.since > free.at) e.since += 400ms;
      if (e.deadline > free.at) e.deadline += 400ms;
    }
    LeaseEvent waiter{.at = free.at - 1us,
                      .deadline = Clock::time_point::max(),
                      .attempt = static_cast<AttemptId>(events.size()),
                      .lock = free.lock,
                      .process = 999,
                      .kind = Kind::begun};
    // No weather near it: neither deaths nor pauses.
    for (auto& e : events)
      if (e.kind >= Kind::killed && e.at < free.at && e.at + 300ms > free.at) return false;
    events.push_back(waiter);
    return true;
  });
}

TEST_CASE("I6: an attempt that outlives its time is found") {
  LeaseHistory history;
  auto attempt = history.begun(at(0ms), 1, 0, at(10ms));
  auto late = history;
  history.ended(at(15ms), attempt);
  CHECK(broken(history) == "");
  late.ended(at(16ms), attempt);
  CHECK(broken(late) == "I6");
}

TEST_CASE("I6: without weather a waiter gets a free lock within the bound") {
  auto wait = [](Clock::duration granted, const LeaseBounds& allowed, bool pause = false) {
    TwoOwners two;
    two.history.granted(at(5ms), two.alice,
                        {.token = {1, 1}, .since = at(2ms), .deadline = at(90ms)});
    two.history.released(at(20ms), two.alice);
    if (pause) two.history.paused(at(21ms), 1);
    if (pause) two.history.resumed(at(22ms), 1);
    two.history.granted(at(granted), two.bob,
                        {.token = {1, 2}, .since = at(granted), .deadline = at(900ms)});
    return broken(two.history, allowed);
  };
  CHECK(wait(40ms, bounds) == "");
  CHECK(wait(41ms, bounds) == "I6");
  // For one ttl after it the lock may belong to any disturbed process.
  auto with = bounds;
  with.excused = {{at(25ms), at(30ms)}};
  CHECK(wait(150ms, with) == "");
  CHECK(wait(151ms, with) == "I6");
  CHECK(wait(142ms, bounds, true) == "");
  CHECK(wait(143ms, bounds, true) == "I6");
  with.excused = {{at(41ms), at(50ms)}};
  CHECK(wait(151ms, with) == "I6");
  // Within that time it may be handed to a process that is gone.
  with.excused = {{at(25ms), at(30ms)}};
  with.handed = {{0, at(110ms)}};
  CHECK(wait(230ms, with) == "");
  CHECK(wait(231ms, with) == "I6");
  with.handed = {{0, at(131ms)}};
  CHECK(wait(151ms, with) == "I6");
}

TEST_CASE("I6: a lock is not free while a server has it for somebody who does not believe it yet") {
  auto wait = [](Clock::duration granted, LockId taken) {
    TwoOwners two;
    two.history.granted(at(5ms), two.alice,
                        {.token = {1, 1}, .since = at(2ms), .deadline = at(90ms)});
    two.history.released(at(20ms), two.alice);
    two.history.granted(at(granted), two.bob,
                        {.token = {1, 2}, .since = at(granted), .deadline = at(900ms)});
    auto with = bounds;
    with.taken = {{taken, {at(30ms), at(60ms)}}};
    return broken(two.history, with);
  };
  CHECK(wait(80ms, 0) == "");
  CHECK(wait(81ms, 0) == "I6");
  CHECK(wait(41ms, 1) == "I6");  // another lock
}

TEST_CASE("I6: a lock that was not released is free one ttl after its owner stopped believing") {
  auto wait = [](Clock::duration granted) {
    TwoOwners two;
    two.history.granted(at(5ms), two.alice,
                        {.token = {1, 1}, .since = at(2ms), .deadline = at(90ms)});
    two.history.lost(at(90ms), two.alice);
    two.history.granted(at(granted), two.bob,
                        {.token = {1, 2}, .since = at(granted), .deadline = at(900ms)});
    return broken(two.history);
  };
  CHECK(wait(210ms) == "");
  CHECK(wait(211ms) == "I6");
}

TEST_CASE("I6: a waiter that is still there at the end is judged as far as the history goes") {
  TwoOwners two;
  two.history.killed(at(20ms), 3);
  CHECK(broken(two.history) == "");
  two.history.killed(at(300ms), 3);
  CHECK(broken(two.history) == "I6");
}

TEST_CASE("I7: a grant out of turn is found") {
  plant("I7", [](Events& events, unsigned random) {
    // Swaps the places of two processes that waited at the same time, unless one of them was
    // paused.
    for (std::size_t i = 0; i < events.size(); ++i) {
      auto& first = events[(i + random) % events.size()];
      if (first.kind != Kind::enqueued) continue;
      auto* granted = find(events, first.attempt, Kind::granted);
      for (auto& second : events) {
        if (second.kind != Kind::enqueued || second.lock != first.lock || !granted) continue;
        auto* next = find(events, second.attempt, Kind::granted);
        if (second.at <= first.at || second.at >= granted->at || !next) continue;
        std::swap(first.token, second.token);
        return true;
      }
    }
    return false;
  });
}

TEST_CASE("I7: who was paused, excused, dead, gone or enqueued anew has no place to lose") {
  auto overtaken = [](std::function<void(LeaseHistory&, AttemptId)> meanwhile,
                      const LeaseBounds& allowed = bounds) {
    TwoOwners two;
    two.history.enqueued(at(2ms), two.alice, {1, 1});
    two.history.enqueued(at(2ms), two.bob, {1, 2});
    meanwhile(two.history, two.alice);
    two.history.granted(at(20ms), two.bob,
                        {.token = {1, 2}, .since = at(10ms), .deadline = at(90ms)});
    two.history.killed(at(30ms), 9);
    return broken(two.history, allowed);
  };
  CHECK(overtaken([](LeaseHistory&, AttemptId) {}) == "I7");
  CHECK(overtaken([](LeaseHistory& h, AttemptId) { h.killed(at(9ms), 1); }) == "");
  CHECK(overtaken([](LeaseHistory& h, AttemptId a) { h.ended(at(9ms), a); }) == "");
  CHECK(overtaken([](LeaseHistory& h, AttemptId a) { h.enqueued(at(9ms), a, {1, 3}); }) == "");
  CHECK(overtaken([](LeaseHistory& h, AttemptId a) { h.enqueued(at(9ms), a, {2, 1}); }) == "");
  CHECK(overtaken([](LeaseHistory& h, AttemptId) {
          h.paused(at(8ms), 1);
          h.resumed(at(9ms), 1);
        }) == "");
  auto with = bounds;
  with.excused = {{at(5ms), at(6ms)}};
  CHECK(overtaken([](LeaseHistory&, AttemptId) {}, with) == "");
}

TEST_CASE("an attempt whose events contradict each other is no history at all") {
  auto contradicts = [](std::function<void(LeaseHistory&, AttemptId)> events) {
    TwoOwners two;
    events(two.history, two.alice);
    return broken(two.history) == "the order of an attempt";
  };
  LeaseHistory::Grant grant{.token = {1, 1}, .since = at(1ms), .deadline = at(90ms)};
  CHECK(contradicts([](LeaseHistory& h, AttemptId a) { h.renewed(at(2ms), a, at(3ms)); }));
  CHECK(contradicts([](LeaseHistory& h, AttemptId a) { h.lost(at(2ms), a); }));
  CHECK(contradicts([&](LeaseHistory& h, AttemptId a) {
    h.ended(at(2ms), a);
    h.granted(at(3ms), a, grant);
  }));
  CHECK(contradicts([&](LeaseHistory& h, AttemptId a) {
    h.granted(at(2ms), a, grant);
    h.granted(at(3ms), a, grant);
  }));
  CHECK(!contradicts([&](LeaseHistory& h, AttemptId a) {
    h.granted(at(2ms), a, grant);
    h.lost(at(3ms), a);
    h.released(at(4ms), a);
  }));
}

TEST_CASE("a violation tells the invariant and its events in order, one line each") {
  TwoOwners two;
  two.history.accepted(at(5ms), two.bob, {1, 2}, at(5ms));
  two.history.accepted(at(6ms), two.alice, {1, 1}, at(6ms));
  auto violation = LeaseJudge(two.history, bounds).first_violation();
  REQUIRE(violation);
  CHECK(violation->text() ==
        "I1 is violated: token 1.1 came after 1.2\n"
        "       +5.000 ms  process 2  lock 0  attempt 1  accepted token 1.2, asked at +5.000 ms\n"
        "       +6.000 ms  process 1  lock 0  attempt 0  accepted token 1.1, asked at +6.000 ms");
}

TEST_CASE("two hundred events are judged two thousand times a second with time to spare") {
  GoodWorld world(1, 16);
  CHECK(world.history().events().size() > 150);
  auto best = Clock::duration::max();  // of several runs, since others use this machine too
  for (int i = 0; i < 200; ++i) {
    auto begin = Clock::now();
    if (LeaseJudge(world.history(), bounds).first_violation()) FAIL("a good history");
    best = std::min(best, Clock::now() - begin);
  }
  MESSAGE("one history of " << world.history().events().size() << " events takes "
                            << best.count() / 1000 << " us");
  CHECK(best < 250us);  // about 10 us without a sanitizer
}
