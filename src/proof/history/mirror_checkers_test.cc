#include <doctest/doctest.h>

#include <functional>
#include <random>

#include "proof/history/checkers.h"

using namespace warren;
using namespace warren::history;

namespace {

Clock::time_point at(Clock::duration time) { return Clock::time_point(1h + time); }

std::string broken(const MirrorHistory& history, const MirrorBounds& bounds = {}) {
  auto violation = MirrorJudge(history, bounds).first_violation();
  return violation ? violation->invariant : "";
}

// Three writes in two epochs, and a reader that does everything right. `change` may replace any
// step with a mistake.
struct Story {
  MirrorHistory h;
  Story() {
    h.resynced(at(0ms), 1, {1, 4});
    h.acknowledged(at(1ms), 1, {1, 5});
    h.applied(at(2ms), 1, {1, 5});
    h.session_read(at(3ms), 1, {1, 5}, 0ms);
  }
};

// Many writers and readers, with occasional failovers that lose nothing or the last write.
MirrorHistory good_history(unsigned seed) {
  std::mt19937 random(seed);
  auto upto = [&](unsigned most) {
    return std::uniform_int_distribution<unsigned>(0, most)(random);
  };
  MirrorHistory history;
  std::vector<Token> log;
  std::vector<std::size_t> applied(3);
  auto now = at(0ms);
  Token next{1, 0};
  for (ProcessId reader = 0; reader < 3; ++reader) history.resynced(now, reader + 1, {0, 0});
  for (int i = 0; i < 100; ++i) {
    now += 1ms;
    auto reader = upto(2);
    if (upto(20) == 0) {
      next = {next.epoch + 1, 0};
      if (log.size() > 1 && upto(1) == 0 &&
          std::ranges::all_of(applied, [&](auto count) { return count < log.size(); })) {
        history.data_lost(now);
        log.pop_back();
      }
    } else if (upto(2) == 0) {
      log.push_back(next);
      ++next.counter;
      history.acknowledged(now, 10 + upto(2), log.back());
    } else if (applied[reader] < log.size()) {
      history.applied(now, reader + 1, log[applied[reader]++]);
    } else {
      history.read(now, reader + 1, log.empty() ? Token{} : log.back(), 0ms);
    }
  }
  for (ProcessId reader = 0; reader < 3; ++reader)
    while (applied[reader] < log.size()) {
      history.applied(now, reader + 1, log[applied[reader]++]);
    }
  for (ProcessId reader = 0; reader < 3; ++reader) history.contents(now, reader + 1, 77);
  history.server_contents(now, 77);
  for (auto id : log) history.logged(now, id);
  return history;
}

MirrorHistory history_of(const std::vector<MirrorEvent>& events) {
  using Kind = MirrorEvent::Kind;
  MirrorHistory history;
  for (auto& e : events) {
    if (e.kind == Kind::acknowledged) history.acknowledged(e.at, e.process, e.id);
    if (e.kind == Kind::applied) history.applied(e.at, e.process, e.id);
    if (e.kind == Kind::resynced) history.resynced(e.at, e.process, e.id);
    if (e.kind == Kind::read) history.read(e.at, e.process, e.id, e.age);
    if (e.kind == Kind::logged) history.logged(e.at, e.id);
    if (e.kind == Kind::contents) history.contents(e.at, e.process, e.digest);
    if (e.kind == Kind::server_contents) history.server_contents(e.at, e.digest);
    if (e.kind == Kind::data_lost) history.data_lost(e.at);
  }
  return history;
}

const MirrorBounds lossy{.lost_before = 200ms, .lost_after = 200ms};

// Plants one mistake at an event of the kind in many good histories.
void plant(const std::string& invariant, MirrorEvent::Kind kind,
           const std::function<bool(std::vector<MirrorEvent>&, std::size_t)>& mistake) {
  int planted = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    auto events = good_history(seed).events();
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < events.size(); ++i)
      if (events[i].kind == kind) found.push_back(i);
    if (found.empty() || !mistake(events, found[seed % found.size()])) continue;
    ++planted;
    CAPTURE(seed);
    CHECK(broken(history_of(events), lossy) == invariant);
  }
  CHECK(planted > 20);
}

}  // namespace

TEST_CASE("mirrors that follow the log pass") {
  CHECK(broken(history_of(Story().h.events())) == "I5");  // a log that was never read is empty
  for (unsigned seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    auto history = good_history(seed);
    auto violation = MirrorJudge(history, lossy).first_violation();
    CHECK_MESSAGE(!violation, violation->text());
  }
}

TEST_CASE("I5: an acknowledged write that is missing is found") {
  plant("I5", MirrorEvent::Kind::acknowledged, [](auto& events, std::size_t i) {
    auto id = events[i].id;
    std::size_t logged = 0;
    bool is_first = true;
    for (auto& e : events)
      if (e.kind == MirrorEvent::Kind::logged) {
        if (e.id < id) is_first = false;
        logged += e.id == id;
      }
    if (logged == 0 || is_first) return false;  // lost or trimmed already
    std::erase_if(events, [&](auto& e) {
      return e.kind == MirrorEvent::Kind::data_lost ||
             (e.kind == MirrorEvent::Kind::logged && e.id == id);
    });
    // Without an excuse; writes that the good history lost are removed altogether.
    std::erase_if(events,
                  [&](auto& e) { return e.kind == MirrorEvent::Kind::acknowledged && e.id != id; });
    return true;
  });
}

TEST_CASE("I5: only writes near a fault that loses data may be missing") {
  auto lost = [](Clock::duration fault) {
    MirrorHistory history;
    if (fault < 10ms) history.data_lost(at(fault));
    history.acknowledged(at(10ms), 1, {1, 5});
    if (fault >= 10ms) history.data_lost(at(fault));
    history.logged(at(99ms), {1, 4});
    MirrorBounds bounds{.lost_before = 5ms, .lost_after = 3ms};
    auto violation = MirrorJudge(history, bounds).acknowledged_writes_survive();
    CHECK(MirrorJudge(history, bounds).lost_writes() == 1);
    return violation.has_value();
  };
  CHECK(!lost(15ms));
  CHECK(lost(16ms));
  CHECK(!lost(7ms));
  CHECK(lost(6ms));
}

TEST_CASE("I5: what is older than the log was trimmed, not lost") {
  MirrorHistory history;
  history.acknowledged(at(1ms), 1, {1, 3});
  history.logged(at(9ms), {1, 4});
  CHECK(broken(history) == "");
}

TEST_CASE("I10: an entry that is left out is found") {
  plant("I10", MirrorEvent::Kind::applied, [](auto& events, std::size_t i) {
    events.erase(events.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
  });
}

TEST_CASE("I10: an entry that is applied twice is found") {
  plant("I10", MirrorEvent::Kind::applied, [](auto& events, std::size_t i) {
    auto again = events[i];
    events.insert(events.begin() + static_cast<std::ptrdiff_t>(i), again);
    return true;
  });
}

TEST_CASE("I10: two entries that are exchanged are found") {
  plant("I10", MirrorEvent::Kind::applied, [](auto& events, std::size_t i) {
    for (auto j = i + 1; j < events.size(); ++j)
      if (events[j].kind == MirrorEvent::Kind::applied && events[j].process == events[i].process) {
        std::swap(events[i].id, events[j].id);
        return true;
      }
    return false;
  });
}

TEST_CASE("I10: the last entry of an epoch that ended is known from the log") {
  MirrorHistory history;
  history.resynced(at(0ms), 1, {1, 4});
  history.applied(at(1ms), 1, {2, 0});
  CHECK(broken(history) == "");
  auto complete = history;
  complete.logged(at(9ms), {1, 4});
  complete.logged(at(9ms), {2, 0});
  CHECK(broken(complete) == "");
  history.logged(at(9ms), {1, 4});
  history.logged(at(9ms), {1, 5});
  history.logged(at(9ms), {2, 0});
  CHECK(broken(history) == "I10");
}

TEST_CASE("I10: an epoch begins with its first id, and does not come back") {
  auto step = [](Token from, Token to) {
    MirrorHistory history;
    history.resynced(at(0ms), 1, from);
    history.applied(at(1ms), 1, to);
    return broken(history);
  };
  CHECK(step({1, 4}, {1, 5}) == "");
  CHECK(step({1, 4}, {1, 6}) == "I10");
  CHECK(step({1, 4}, {3, 0}) == "");
  CHECK(step({1, 4}, {3, 1}) == "I10");
  CHECK(step({2, 0}, {1, 1}) == "I10");
}

TEST_CASE("I10: a reader begins with a snapshot, and goes back only when it says so") {
  MirrorHistory history;
  history.applied(at(0ms), 1, {1, 1});
  CHECK(broken(history) == "I10");
  history.clear();
  history.resynced(at(0ms), 1, {1, 9});
  auto silent = history;
  silent.resynced(at(1ms), 1, {1, 7});
  CHECK(broken(silent) == "I10");
  history.history_rewritten(at(1ms), 1, {1, 8});
  history.resynced(at(2ms), 1, {1, 7});
  CHECK(broken(history) == "");
}

TEST_CASE("I10: a reader that differs from the server in the end is found") {
  plant("I10", MirrorEvent::Kind::contents, [](auto& events, std::size_t i) {
    events[i].digest = 78;
    return true;
  });
  MirrorHistory alone;
  alone.contents(at(0ms), 1, 77);
  CHECK(broken(alone) == "I10");
}

TEST_CASE(
    "I10: a reader that did not reach the end of the log is found, whatever its digest says") {
  MirrorHistory history;
  history.resynced(at(0ms), 1, {1, 4});
  history.contents(at(9ms), 1, 77);
  history.server_contents(at(9ms), 77);
  history.logged(at(9ms), {1, 4});
  CHECK(broken(history) == "");
  history.logged(at(9ms), {1, 5});
  CHECK(broken(history) == "I10");
}

TEST_CASE("I10: an age that is understated is found") {
  auto read = [](Clock::duration age, Clock::duration slack) {
    MirrorHistory history;
    history.acknowledged(at(10ms), 2, {1, 5});
    history.read(at(30ms), 1, {1, 4}, age);
    MirrorBounds bounds{.slack = slack};
    return MirrorJudge(history, bounds).ages_are_true().has_value();
  };
  CHECK(read(0ms, 0ms));
  CHECK(read(19ms, 0ms));
  CHECK(!read(20ms, 0ms));
  CHECK(!read(15ms, 5ms));
}

TEST_CASE("I10: what a failover took back makes nobody old") {
  MirrorHistory history;
  history.acknowledged(at(10ms), 2, {1, 5});
  history.data_lost(at(11ms));
  history.read(at(30ms), 1, {1, 4}, 0ms);
  history.logged(at(40ms), {1, 4});
  CHECK(!MirrorJudge(history, {}).ages_are_true());
  history.logged(at(40ms), {1, 5});  // by another writer, later
  CHECK(MirrorJudge(history, {}).ages_are_true());
  CHECK(!MirrorJudge(history, {.lost_before = 1ms}).ages_are_true());
}

TEST_CASE("I11: reads that go back are found, unless the reader was told") {
  MirrorHistory history;
  history.read(at(1ms), 1, {1, 5}, 0ms);
  history.read(at(1ms), 2, {1, 3}, 0ms);  // another reader
  CHECK(broken(history) == "");
  auto told = history;
  history.read(at(2ms), 1, {1, 4}, 0ms);
  CHECK(broken(history) == "I11");
  told.history_rewritten(at(2ms), 1, {1, 5});
  told.read(at(2ms), 1, {1, 5}, 0ms);  // until it has loaded the new state
  told.read(at(2ms), 1, {1, 4}, 0ms);
  CHECK(broken(told) == "");
  told.read(at(3ms), 1, {1, 3}, 0ms);
  CHECK(broken(told) == "I11");
}

TEST_CASE("I11: a rewriting that begins later does not excuse what came before") {
  MirrorHistory history;
  history.read(at(1ms), 1, {1, 5}, 0ms);
  history.history_rewritten(at(2ms), 1, {1, 6});
  history.read(at(3ms), 1, {1, 4}, 0ms);
  CHECK(broken(history) == "I11");
}

TEST_CASE("I11: a session sees its own writes, unless it was told that they are gone") {
  auto see = [](bool is_session, bool told, ProcessId reader) {
    MirrorHistory history;
    history.acknowledged(at(1ms), 1, {1, 5});
    if (told) history.history_rewritten(at(2ms), 1, {1, 5});
    if (is_session)
      history.session_read(at(3ms), reader, {1, 4}, 1h);
    else
      history.read(at(3ms), reader, {1, 4}, 1h);
    return MirrorJudge(history, {}).reads_are_monotonic().has_value();
  };
  CHECK(see(true, false, 1));
  CHECK(!see(true, true, 1));
  CHECK(!see(false, false, 1));
  CHECK(!see(true, false, 2));
}

TEST_CASE("I12: what was not given back is found") {
  std::vector<Level> levels{{"connections", 3, 3}, {"keys", 10, 9}};
  CHECK(!nothing_leaked(levels));
  levels.push_back({"timers", 4, 6});
  CHECK(!nothing_leaked(levels, 2));
  auto violation = nothing_leaked(levels, 1);
  REQUIRE(violation);
  CHECK(violation->text() == "I12 is violated: timers: 4 before, 6 after");
}

TEST_CASE("whatever a reader has is what the log says up to there") {
  auto judged = [](const std::function<void(MirrorHistory&)>& then, std::uint64_t digest) {
    MirrorHistory history;
    history.read(at(1ms), 1, {1, 5}, 0ms, digest);
    then(history);
    history.logged(at(9ms), {1, 4}, 44);
    history.logged(at(9ms), {1, 5}, 55);
    return MirrorJudge(history, {}).snapshots_are_the_log().has_value();
  };
  auto nothing = [](MirrorHistory&) {};
  CHECK(!judged(nothing, 55));
  CHECK(judged(nothing, 44));
  CHECK(!judged(nothing, 0));  // it gave no digest
  // In another history, as it learned later; but not if it had been told before.
  CHECK(!judged([](auto& h) { h.history_rewritten(at(2ms), 1, {1, 3}); }, 44));
  CHECK(judged([](auto& h) { h.history_rewritten(at(2ms), 2, {1, 3}); }, 44));
  // It keeps showing what it had, and only that, until everything is loaded.
  auto told_before = [](Token shown) {
    MirrorHistory history;
    history.read(at(1ms), 1, {1, 5}, 0ms, 44);
    history.history_rewritten(at(2ms), 1, {1, 3});
    history.read(at(3ms), 1, {1, 5}, 0ms, 44);
    history.read(at(4ms), 1, shown, 0ms, 44);
    history.read(at(5ms), 1, {1, 6}, 0ms, 66);
    history.logged(at(9ms), {1, 4}, 99);
    history.logged(at(9ms), {1, 5}, 55);
    history.logged(at(9ms), {1, 6}, 66);
    return MirrorJudge(history, {}).snapshots_are_the_log().has_value();
  };
  CHECK(!told_before({1, 5}));
  CHECK(told_before({1, 4}));
  // If data was lost, nothing is known of a reader that died before it was told.
  CHECK(!judged([](auto& h) { h.data_lost(at(2ms)); }, 44));
  CHECK(judged(
      [](auto& h) {
        h.data_lost(at(2ms));
        h.contents(at(3ms), 1, 55);
      },
      44));
}
