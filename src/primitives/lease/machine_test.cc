#include "primitives/lease/machine.h"

#include <doctest/doctest.h>

using namespace warren;
using redis::Reply;

namespace {

constexpr auto start = Clock::time_point(1000s);
constexpr std::int64_t server_start_us = 1'700'000'000'000'000;

Reply number(std::int64_t value) {
  Reply reply;
  reply.kind = Reply::Kind::integer;
  reply.number = value;
  return reply;
}

Reply array(std::initializer_list<std::int64_t> numbers) {
  Reply reply;
  reply.kind = Reply::Kind::array;
  for (auto value : numbers) reply.items.push_back(number(value));
  return reply;
}

Reply granted(std::uint64_t epoch, std::uint64_t counter) {
  return array({1, std::int64_t(epoch), std::int64_t(counter), server_start_us});
}

Reply refused(std::chrono::milliseconds rest, int place = 0, std::int64_t now = server_start_us) {
  auto reply = array({0, rest.count(), place, now});
  reply.items.emplace_back();
  reply.items.back().text = "bob";
  return reply;
}

// A machine, what it sends, and the time.
struct Holder {
  explicit Holder(SessionTerms terms = {"h", 9s}) : machine(std::move(terms)) {}

  LeaseMachine machine;
  Clock::time_point now = start;

  // The next request; the test fails when there is none.
  LeaseMachine::Request sent() {
    auto request = machine.next_request();
    REQUIRE(request);
    return *request;
  }
  bool is_silent() { return !machine.next_request(); }
  void answer(const LeaseMachine::Request& request, Result<Reply> reply, bool everywhere = true) {
    machine.on_reply(request.id, std::move(reply), everywhere, now);
  }
  void pass(Clock::duration time) {
    for (auto end = now + time; now < end;) {
      now = std::min(end, std::max(machine.wake_at(), now + 1ns));
      machine.on_time(now);
    }
  }
  LeaseId begin(LeaseTerms terms, bool waits = false, Clock::duration patience = 60s) {
    auto id = machine.begin(std::move(terms), waits, now + patience, now);
    REQUIRE(id);
    return *id;
  }
  // With the session that some leases need.
  LeaseId hold(LeaseTerms terms, std::uint64_t epoch = 0, std::uint64_t counter = 41) {
    auto id = begin(std::move(terms));
    auto request = sent();
    if (request.keys.empty()) {
      answer(request, Reply());
      request = sent();
    }
    answer(request, granted(epoch, counter));
    REQUIRE(machine.state(id) == LeaseState::held);
    return id;
  }
  LeaseId wait_in_line(LeaseTerms terms) {
    auto id = begin(std::move(terms), true);
    auto request = sent();
    if (request.keys.empty()) {
      answer(request, Reply());
      request = sent();
    }
    CHECK(request.args[7] == "warren:grants:h");
    answer(request, refused(3s));
    REQUIRE(machine.state(id) == LeaseState::waiting);
    return id;
  }
  static std::string grant(LeaseId id, std::uint64_t counter, Clock::duration later) {
    auto us = std::chrono::duration_cast<std::chrono::microseconds>(later).count();
    return fmt::format("h/{} 0 {} {}", id, counter, server_start_us + us);
  }
};

const LeaseTerms by_session{"job", "alice"};
const LeaseTerms by_ttl{"job", "alice", 3s};

}  // namespace

TEST_CASE("the deadline counts from before the request left") {
  Holder alice;
  auto id = alice.begin(by_ttl);
  auto request = alice.sent();
  CHECK(request.args[0] == "acquire");
  alice.pass(1s);
  alice.answer(request, granted(0, 41));
  CHECK(alice.machine.state(id) == LeaseState::held);
  CHECK(alice.machine.deadline(id) <= start + 3s - 30ms);
  CHECK(alice.machine.deadline(id) > start + 2900ms);
  CHECK(alice.machine.token(id) == FencingToken{0, 41});
}

TEST_CASE("a grant that arrives after its own deadline is asked for again") {
  Holder alice;
  auto id = alice.begin(by_ttl);
  auto request = alice.sent();
  alice.now += 3s;
  alice.answer(request, granted(0, 41));
  CHECK(alice.machine.state(id) == LeaseState::asking);
  request = alice.sent();
  alice.answer(request, granted(0, 41));
  CHECK(alice.machine.state(id) == LeaseState::held);
}

TEST_CASE("a lease of its own ttl is renewed after a third of it, and lost at the deadline") {
  Holder alice;
  auto id = alice.hold(by_ttl);
  alice.pass(999ms);
  CHECK(alice.is_silent());
  alice.pass(2ms);
  auto renewal = alice.sent();
  CHECK(renewal.args[0] == "renew");
  CHECK(renewal.is_renewal);
  alice.answer(renewal, granted(0, 41));
  CHECK(alice.machine.deadline(id) > start + 3900ms);

  alice.pass(1001ms);
  renewal = alice.sent();
  CHECK(alice.machine.state(id) == LeaseState::held);
  alice.pass(1s);
  CHECK(alice.machine.state(id) == LeaseState::uncertain);
  alice.pass(1s);
  CHECK(alice.machine.state(id) == LeaseState::ended);
  CHECK(alice.machine.why_ended(id).code == Errc::lease_lost);
  CHECK(alice.now < start + 5s);
  alice.answer(renewal, granted(0, 41));  // too late
  CHECK(alice.machine.state(id) == LeaseState::ended);
}

TEST_CASE("a renewal that the server denies ends the lease at once") {
  Holder alice;
  auto id = alice.hold(by_ttl);
  alice.pass(1001ms);
  auto renewal = alice.sent();
  alice.answer(renewal, refused(3s));
  CHECK(alice.machine.state(id) == LeaseState::ended);
  CHECK(alice.machine.why_ended(id).code == Errc::lease_lost);
  CHECK(alice.machine.counters().lost == 1);
}

TEST_CASE("a thousand leases of one session cost one command in a third of its ttl") {
  Holder alice;
  for (int i = 0; i < 1000; ++i) alice.hold({"job" + std::to_string(i), "alice"});
  int commands = 0;
  for (int third = 0; third < 10; ++third) {
    alice.pass(3s);
    while (auto request = alice.machine.next_request()) {
      ++commands;
      CHECK(request->args[0] == "PEXPIRE");
      alice.answer(*request, number(1));
    }
  }
  CHECK(commands == 10);
}

TEST_CASE("with the session all its leases are lost, and its name is never used again") {
  Holder alice;
  auto first = alice.hold(by_session);
  auto second = alice.hold({"other", "alice"});
  auto own = alice.hold({"third", "alice", 30s});
  alice.pass(3s);
  auto renewal = alice.sent();
  alice.answer(renewal, number(0));
  CHECK(alice.machine.state(first) == LeaseState::ended);
  CHECK(alice.machine.state(second) == LeaseState::ended);
  CHECK(alice.machine.state(own) == LeaseState::held);
  auto fresh = alice.sent();
  CHECK(fresh.args[0] == "SET");
  CHECK(fresh.args[1] != renewal.args[1]);
}

TEST_CASE("a session that cannot be renewed is uncertain, then lost, without a word from Redis") {
  Holder alice;
  auto id = alice.hold(by_session);
  alice.pass(3s);
  auto renewal = alice.sent();
  alice.answer(renewal, fail(Errc::unavailable, "away"));
  alice.pass(1s);
  renewal = alice.sent();  // tried again soon
  alice.pass(2001ms);
  CHECK(alice.machine.state(id) == LeaseState::uncertain);
  alice.answer(renewal, number(1));
  CHECK(alice.machine.state(id) == LeaseState::held);
  alice.pass(9s);
  CHECK(alice.machine.state(id) == LeaseState::ended);
}

TEST_CASE("a grant by hand-over is held at once, for as long as the server's clock allows") {
  Holder alice;
  auto id = alice.wait_in_line(by_ttl);
  alice.pass(2s);
  alice.machine.on_grant(Holder::grant(id, 42, 2s), alice.now);
  CHECK(alice.machine.state(id) == LeaseState::held);
  CHECK(alice.machine.token(id) == FencingToken{0, 42});
  CHECK(alice.machine.deadline(id) <= start + 2s + 3s);
  CHECK(alice.machine.deadline(id) > start + 2s + 2800ms);
  auto renewal = alice.sent();
  CHECK(renewal.args[0] == "renew");
}

TEST_CASE("a grant that was on its way for longer than the ttl is not believed") {
  Holder bob;
  auto id = bob.wait_in_line(by_ttl);
  bob.now += 3s;
  bob.machine.on_grant(Holder::grant(id, 42, 0s), bob.now);
  CHECK(bob.machine.state(id) != LeaseState::held);
  CHECK(bob.sent().args[0] == "acquire");
}

TEST_CASE("a grant from before the server's last answer is asked about, not believed") {
  Holder alice;
  auto id = alice.wait_in_line(by_ttl);
  alice.pass(100ms);
  // It was handed over and lost while we slept, or the server's clock was set back.
  alice.machine.on_grant(Holder::grant(id, 42, -1ms), alice.now);
  CHECK(alice.machine.state(id) == LeaseState::waiting);
  CHECK(alice.sent().args[0] == "acquire");
}

TEST_CASE("the first in line looks right after the holder's end, whether told or not") {
  Holder alice;
  alice.wait_in_line(by_session);
  alice.pass(2990ms);
  while (auto request = alice.machine.next_request()) CHECK(request->keys.empty());
  alice.pass(20ms);
  auto request = alice.machine.next_request();
  while (request && request->keys.empty()) request = alice.machine.next_request();
  REQUIRE(request);
  CHECK(request->args[0] == "acquire");
}

TEST_CASE("after a gap in the news every waiter asks again") {
  Holder alice;
  alice.wait_in_line(by_session);
  alice.machine.on_gap(alice.now);
  CHECK(alice.sent().args[0] == "acquire");
}

TEST_CASE("a new primary is asked about everything, and until then nothing is certain") {
  Holder alice;
  auto id = alice.hold(by_session, 3);
  alice.machine.on_connected(4, alice.now);
  CHECK(alice.machine.state(id) == LeaseState::uncertain);
  auto session = alice.sent();
  alice.answer(session, number(1));
  CHECK(alice.machine.state(id) == LeaseState::uncertain);
  auto renewal = alice.sent();
  CHECK(renewal.args[5] == "4");
  alice.answer(renewal, granted(3, 50));  // an answer of the old one
  CHECK(alice.machine.state(id) == LeaseState::uncertain);
  renewal = alice.sent();
  alice.answer(renewal, granted(4, 51));
  CHECK(alice.machine.state(id) == LeaseState::held);
  CHECK(alice.machine.token(id) == FencingToken{4, 51});
}

TEST_CASE("a token of a replaced primary is not used") {
  Holder alice;
  auto id = alice.begin(by_ttl);
  auto request = alice.sent();
  alice.machine.on_connected(7, alice.now);
  alice.answer(request, granted(6, 41));
  CHECK(alice.machine.state(id) == LeaseState::asking);
  request = alice.sent();
  CHECK(request.args[5] == "7");
  alice.answer(request, granted(7, 42));
  CHECK(alice.machine.state(id) == LeaseState::held);
}

TEST_CASE("what is left is released, twice when a request without answer may still arrive") {
  Holder alice;
  auto id = alice.begin(by_ttl);
  auto request = alice.sent();
  alice.answer(request, fail(Errc::unknown_outcome, "cut"));
  alice.machine.leave(id, alice.now);
  auto release = alice.sent();
  CHECK(release.args[0] == "release");
  alice.answer(release, refused(0ms));
  CHECK(alice.machine.knows(id));
  alice.pass(100ms);
  release = alice.sent();
  alice.answer(release, refused(0ms));
  CHECK(!alice.machine.knows(id));
  CHECK(alice.is_silent());
}

TEST_CASE("an answer to what was asked before we left is no answer to the release") {
  Holder alice;
  auto id = alice.hold(by_ttl);
  alice.pass(1s);
  auto renewal = alice.sent();
  CHECK(renewal.args[0] == "renew");
  alice.machine.leave(id, alice.now);
  CHECK(alice.is_silent());  // one question at a time
  alice.answer(renewal, granted(0, 41));
  auto release = alice.sent();
  CHECK(release.args[0] == "release");
  alice.answer(release, granted(0, 41));
  CHECK(!alice.machine.knows(id));

  auto other = alice.begin(by_ttl);
  auto request = alice.sent();
  alice.machine.leave(other, alice.now);
  alice.answer(request, granted(0, 42));
  CHECK(alice.sent().args[0] == "release");
}

TEST_CASE(
    "a release without an answer is waited for, and given up when the lease has ended anyway") {
  Holder alice;
  auto id = alice.hold(by_ttl);
  alice.machine.leave(id, alice.now);
  auto release = alice.sent();
  alice.pass(10s);
  CHECK(alice.machine.knows(id));
  alice.answer(release, fail(Errc::timeout, "late"));
  CHECK(!alice.machine.knows(id));
}

TEST_CASE("a lease whose question was never sent is just forgotten") {
  Holder alice;
  auto id = alice.begin(by_session);
  CHECK(alice.sent().args[0] == "SET");
  alice.machine.leave(id, alice.now);
  CHECK(!alice.machine.knows(id));
}

TEST_CASE("who does not wait is told who has it; who waits is told when patience ends") {
  Holder alice;
  auto id = alice.begin(by_ttl);
  alice.answer(alice.sent(), refused(3s));
  CHECK(alice.machine.state(id) == LeaseState::ended);
  CHECK(alice.machine.why_ended(id).code == Errc::held_elsewhere);
  CHECK(alice.machine.why_ended(id).what.contains("bob"));
  auto waiting = alice.wait_in_line(by_session);
  alice.pass(61s);
  CHECK(alice.machine.state(waiting) == LeaseState::ended);
  CHECK(alice.machine.why_ended(waiting).code == Errc::timeout);
}

TEST_CASE("a grant that not all replicas have does not count where that was asked for") {
  Holder alice;
  auto id = alice.begin({"job", "alice", 3s, true});
  auto request = alice.sent();
  CHECK(request.replicated);
  alice.answer(request, granted(0, 41), false);
  CHECK(alice.machine.state(id) == LeaseState::ended);
  CHECK(alice.machine.why_ended(id).code == Errc::unavailable);
  alice.machine.leave(id, alice.now);
  CHECK(alice.sent().args[0] == "release");
}

TEST_CASE("a lease may be renewed more often than its ttl needs, not more rarely") {
  Holder alice;
  auto often = by_ttl, rarely = by_ttl;
  often.renew_every = 200ms;
  rarely.renew_every = 2s;
  rarely.key = "other";
  alice.hold(often);
  alice.hold(rarely);
  alice.pass(199ms);
  CHECK(alice.is_silent());
  alice.pass(2ms);
  auto renewal = alice.sent();
  CHECK(renewal.keys[0] == "job");
  alice.answer(renewal, granted(0, 41));
  alice.pass(198ms);
  CHECK(alice.is_silent());
}

TEST_CASE("a condition decides with the acquisition, and has no part in what follows") {
  Holder alice;
  redis::Script script("condition", "return lease(KEYS, ARGV)");
  auto terms = by_ttl;
  terms.condition = {&script, {"list"}, {"name", "path"}};
  auto id = alice.begin(terms);
  auto request = alice.sent();
  CHECK(request.script == &script);
  CHECK(request.keys.size() == 4);
  CHECK(request.keys[3] == "list");
  CHECK(request.args.size() == 12);
  CHECK(request.args[10] == "name");
  alice.answer(request, granted(0, 41));
  alice.pass(1001ms);
  auto renewal = alice.sent();
  CHECK(renewal.script == nullptr);
  CHECK(renewal.keys.size() == 3);
  alice.answer(renewal, granted(0, 41));
  alice.machine.leave(id, alice.now);
  CHECK(alice.sent().script == nullptr);

  auto refused = alice.begin(terms);
  alice.answer(alice.sent(), fail(Errc::refused, "WORKSPACE x"));
  CHECK(alice.machine.why_ended(refused).what == "WORKSPACE x");
  CHECK(alice.machine.begin(terms, true, alice.now + 1s, alice.now).error().code == Errc::invalid);
}

TEST_CASE("a new value is shown by the next renewal, and no third one before that is confirmed") {
  Holder alice;
  auto id = alice.hold(by_ttl);
  alice.machine.show(id, "second");
  alice.pass(1001ms);
  auto renewal = alice.sent();
  CHECK(renewal.args[2] == "second");
  CHECK(renewal.args[8] == "alice");
  alice.machine.show(id, "third");
  alice.answer(renewal, fail(Errc::unknown_outcome, "cut"));
  alice.pass(51ms);
  renewal = alice.sent();
  CHECK(renewal.args[2] == "second");
  CHECK(renewal.args[8] == "alice");
  alice.answer(renewal, granted(0, 41));
  alice.pass(1001ms);
  CHECK(alice.sent().args[2] == "third");
}

TEST_CASE("names that cannot be leases are refused") {
  Holder alice;
  for (auto name : {"", "two words", "line\nbreak", "}{x"}) {
    CAPTURE(name);
    auto id = alice.machine.begin({name, "v"}, false, alice.now + 1s, alice.now);
    REQUIRE(!id);
    CHECK(id.error().code == Errc::invalid);
  }
  auto hasty = alice.machine.begin({"job", "v", 99ms}, false, alice.now + 1s, alice.now);
  REQUIRE(!hasty);
  CHECK(hasty.error().code == Errc::invalid);
}

TEST_CASE("a session may have its key and channel where its user may write") {
  for (bool is_cluster : {false, true}) {
    Holder alice({"h", 9s, is_cluster, LeaseRoom{"{c}:", "foghorn:{c}:"}});
    alice.begin({"{c}:job", "alice"}, true);
    CHECK(alice.sent().args[1] == "{c}:warren:session:h/1");
    CHECK(alice.machine.grant_channels() == std::set<std::string>{"foghorn:{c}:warren:grants:h"});
  }
}

TEST_CASE("in a cluster each hash tag has a session of its own, in its own slot") {
  Holder alice({"h", 9s, true});
  alice.begin({"{a}:job", "alice"});
  CHECK(alice.sent().args[1] == "{a}:warren:session:h/1");
  alice.begin({"{a}:other", "alice"}, true);
  CHECK(alice.is_silent());  // the same session
  alice.begin({"job", "alice"});
  CHECK(alice.sent().args[1] == "{job}:warren:session:h/1");
  CHECK(alice.machine.grant_channels() == std::set<std::string>{"{a}:warren:grants:h"});
}
