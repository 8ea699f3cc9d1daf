#include "primitives/lease/machine.h"

#include <doctest/doctest.h>

#include "primitives/lease/causes.h"
#include "redis/causes.h"
#include "redis/resp/refusal.h"

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

Reply values(std::size_t count, const std::string& text) {
  Reply reply;
  reply.kind = Reply::Kind::array;
  reply.items.resize(count);
  for (auto& item : reply.items) {
    item.kind = Reply::Kind::string;
    item.text = text;
  }
  return reply;
}

// A machine, the requests it sends, and the time.
struct Holder {
  explicit Holder(SessionTerms terms = {"h", 9s}) : machine(std::move(terms)) {}

  LeaseMachine machine;
  Clock::time_point now = start;

  // Returns the next request. The test fails if there is none.
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
  // Also answers for the session that some leases need.
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
  static std::string grant(LeaseId id, std::uint64_t counter, Clock::duration later,
                           const std::string& session = "-") {
    auto us = std::chrono::duration_cast<std::chrono::microseconds>(later).count();
    return fmt::format("h/{} 0 {} {}@{}", id, counter, server_start_us + us, session);
  }
};

bool has(const std::vector<LeaseId>& some, LeaseId id) {
  return std::ranges::find(some, id) != some.end();
}

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

TEST_CASE("a waiter whose grant is over by the time it hears of it leaves the line") {
  Holder alice;
  auto id = alice.wait_in_line(by_session);
  // The server has granted the lease, forgotten that, and put this question in line.
  alice.machine.on_gap(alice.now);
  auto question = alice.sent();
  alice.machine.on_grant(Holder::grant(id, 42, 1ms, "warren:session:h/1"), alice.now);
  REQUIRE(alice.machine.state(id) == LeaseState::held);
  alice.answer(question, refused(3s, 1));
  auto renewal = alice.sent();
  CHECK(renewal.args[0] == "renew");
  alice.answer(renewal, refused(0s));
  REQUIRE(alice.machine.state(id) == LeaseState::ended);
  alice.machine.leave(id, alice.now);
  CHECK(alice.sent().args[0] == "release");
}

TEST_CASE("a thousand leases of one session cost two commands in a third of its ttl") {
  Holder alice;
  for (int i = 0; i < 1000; ++i) alice.hold({"job" + std::to_string(i), "alice"});
  int renewals = 0, looks = 0;
  for (int third = 0; third < 10; ++third) {
    alice.pass(3s);
    while (auto request = alice.machine.next_request()) {
      CHECK(request->keys.empty());
      ++(request->args[0] == "PEXPIRE" ? renewals : looks);
      alice.answer(*request, request->args[0] == "PEXPIRE"
                                 ? number(1)
                                 : values(request->args.size() - 1, "alice"));
    }
  }
  CHECK(renewals == 10);
  CHECK(looks == 10);
}

TEST_CASE("of what a session keeps, what others deleted or overwrote is asked about") {
  Holder alice;
  auto first = alice.hold({"a", "alice"});
  auto second = alice.hold({"b", "alice"});
  auto third = alice.hold({"c", "alice"});
  alice.pass(3s);
  alice.answer(alice.sent(), number(1));
  auto look = alice.sent();
  CHECK(look.args == std::vector<std::string>{"MGET", "a", "b", "c"});
  auto seen = values(3, "alice");
  seen.items[1].text = "bob";
  seen.items[2] = Reply();
  alice.answer(look, seen);
  for (auto* key : {"b", "c"}) {
    auto renewal = alice.sent();
    CHECK(renewal.args[0] == "renew");
    CHECK(renewal.keys[0] == key);
    alice.answer(renewal, refused(3s));
  }
  CHECK(alice.is_silent());
  CHECK(alice.machine.state(first) == LeaseState::held);
  CHECK(alice.machine.state(second) == LeaseState::ended);
  CHECK(alice.machine.state(third) == LeaseState::ended);
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
  renewal = alice.sent();  // retried soon
  alice.pass(2001ms);
  CHECK(alice.machine.state(id) == LeaseState::uncertain);
  alice.answer(renewal, number(1));
  CHECK(alice.machine.state(id) == LeaseState::held);
  alice.pass(9s);
  CHECK(alice.machine.state(id) == LeaseState::ended);
}

TEST_CASE(
    "the deadline of a session counts from before its renewal left, and is kept to the moment") {
  Holder alice;
  auto id = alice.hold(by_session);
  alice.pass(3s);
  auto renewal = alice.sent();
  auto left = alice.now;
  alice.pass(1s);
  alice.answer(renewal, number(1));
  auto deadline = alice.machine.deadline(id);
  CHECK(deadline == left + LeaseMachine::trusted(9s));
  while (auto request = alice.machine.next_request()) {  // none is answered
  }
  alice.pass(deadline - alice.now - 1ms);
  CHECK(alice.machine.state(id) == LeaseState::uncertain);
  CHECK(!alice.machine.is_past_deadline(id, alice.now));
  alice.pass(1ms);
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

TEST_CASE("a grant that another session keeps is asked about, not believed") {
  Holder alice;
  auto asked = [&alice] {
    auto request = alice.sent();
    while (request.keys.empty()) request = alice.sent();
    return request;
  };
  auto id = alice.wait_in_line(by_session);
  alice.machine.on_connected(0, alice.now);  // the session takes a new name
  alice.answer(alice.sent(), Reply());
  auto request = asked();
  CHECK(request.args[4] == "warren:session:h/2");
  CHECK(request.args[9] == "warren:session:h/1");
  // Another connection before that is answered: by then it is in line under the second name.
  alice.machine.on_connected(0, alice.now);
  alice.answer(alice.sent(), Reply());
  alice.answer(request, refused(3s));
  request = asked();
  CHECK(request.args[4] == "warren:session:h/3");
  CHECK(request.args[9] == "warren:session:h/2");
  alice.answer(request, refused(3s));
  CHECK(alice.machine.state(id) == LeaseState::waiting);
  while (alice.machine.next_request()) {
  }
  // The entry left behind was granted the lease.
  alice.machine.on_grant(Holder::grant(id, 42, 1ms, "warren:session:h/1"), alice.now);
  CHECK(alice.machine.state(id) == LeaseState::waiting);
  CHECK(asked().args[0] == "acquire");

  Holder bob;
  id = bob.wait_in_line(by_session);
  bob.machine.on_grant(Holder::grant(id, 42, 1ms, "warren:session:h/1"), bob.now);
  CHECK(bob.machine.state(id) == LeaseState::held);
}

TEST_CASE("a token of a newer epoch is the higher one, whatever its counter") {
  CHECK(FencingToken{2, 500} > FencingToken{1, 900});
  CHECK(FencingToken{2, 500} > FencingToken{2, 499});
  CHECK(FencingToken{2, 500} == FencingToken{2, 500});
  Holder alice;
  auto id = alice.hold(by_ttl, 1, 900);
  alice.pass(1001ms);
  alice.answer(alice.sent(), granted(2, 500));  // the clock of the new primary is behind
  CHECK(alice.machine.state(id) == LeaseState::held);
  CHECK(alice.machine.token(id) == FencingToken{2, 500});
}

TEST_CASE("a token that is refused because our own renewal has just raised it ends nothing") {
  Holder alice;
  auto id = alice.hold(by_ttl, 7, 41);
  auto shown = alice.machine.token(id);
  alice.pass(1s);
  auto renewal = alice.sent();
  alice.machine.on_fenced(id, shown);  // the server has renewed it, and the answer is on its way
  CHECK(alice.machine.state(id) == LeaseState::held);
  alice.machine.take_changes();
  alice.answer(renewal, granted(8, 42));
  CHECK(alice.machine.state(id) == LeaseState::held);
  CHECK(alice.machine.token(id) > shown);
  CHECK(has(alice.machine.take_changes(), id));
  alice.machine.on_fenced(id, shown);  // shown before the answer came
  CHECK(alice.machine.state(id) == LeaseState::held);

  // The lease belongs to another process if the answer brings no newer token, or if no request is
  // under way.
  alice.pass(1s);
  renewal = alice.sent();
  alice.machine.on_fenced(id, alice.machine.token(id));
  alice.answer(renewal, granted(8, 42));
  CHECK(alice.machine.state(id) == LeaseState::ended);
  auto other = alice.hold({"other", "alice", 3s}, 8, 43);
  alice.machine.on_fenced(other, alice.machine.token(other));
  CHECK(alice.machine.state(other) == LeaseState::ended);
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
  // The lease was granted and lost while we slept, or the server's clock was set back.
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
  alice.answer(renewal, granted(3, 50));  // an answer of the old primary
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

TEST_CASE("a release without an answer is given twice the time, so that a slow link can carry it") {
  Holder alice;
  LeaseTerms terms{"job", "alice", 100s};
  auto id = alice.hold(terms);
  auto left = alice.now;
  alice.machine.leave(id, alice.now);
  for (auto expected : {1s, 2s, 4s, 8s, 16s, 32s}) {
    auto release = alice.sent();
    CHECK(release.args[0] == "release");
    CHECK(release.deadline == alice.now + expected);
    alice.now = release.deadline;
    alice.answer(release, fail(Errc::unknown_outcome, "late"));
    alice.pass(50ms);
  }
  // But no longer than there is something to release.
  CHECK(alice.sent().deadline == left + 100s);
}

TEST_CASE("a release that is refused for a time is asked for again, and why is known") {
  Holder alice;
  auto id = alice.hold(by_session);
  alice.machine.leave(id, alice.now);
  alice.answer(alice.sent(), fail(Errc::unavailable, "MISCONF the disk is full"));
  REQUIRE(alice.machine.knows(id));
  CHECK(alice.machine.why_ended(id).what == "MISCONF the disk is full");
  alice.pass(51ms);
  auto release = alice.sent();
  CHECK(release.args[0] == "release");
  alice.answer(release, granted(0, 41));
  CHECK(!alice.machine.knows(id));
  CHECK(alice.machine.take_refusals().empty());
}

TEST_CASE("a release that is forbidden is told, and no session goes on keeping the lease") {
  Holder alice;
  auto id = alice.hold(by_session);
  auto other = alice.hold({"other", "alice"});
  alice.machine.leave(id, alice.now);
  alice.answer(alice.sent(), fail(Errc::denied, "NOPERM"));
  CHECK(!alice.machine.knows(id));
  auto refusals = alice.machine.take_refusals();
  REQUIRE(refusals.size() == 1);
  CHECK(refusals[0].first == id);
  CHECK(refusals[0].second.what == "NOPERM");

  auto session = alice.sent();
  CHECK(session.args[1] == "warren:session:h/2");
  alice.answer(session, Reply());
  auto move = alice.sent();
  CHECK(move.keys[0] == "other");
  CHECK(move.args[4] == "warren:session:h/2");
  alice.answer(move, granted(0, 42));
  CHECK(alice.machine.state(other) == LeaseState::held);
  auto deletion = alice.sent();
  CHECK(deletion.args == std::vector<std::string>{"DEL", "warren:session:h/1"});
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
  CHECK(alice.machine.why_ended(id).cause == lease::causes::not_replicated);
  alice.machine.leave(id, alice.now);
  CHECK(alice.sent().args[0] == "release");
}

TEST_CASE("a replicated lease that is handed over counts when all replicas have it") {
  Holder alice;
  auto id = alice.wait_in_line({"job", "alice", 3s, true});
  alice.pass(100ms);
  alice.machine.on_grant(Holder::grant(id, 42, 50ms), alice.now);
  CHECK(alice.machine.state(id) == LeaseState::waiting);
  auto request = alice.sent();
  CHECK(request.args[0] == "acquire");
  CHECK(request.replicated);
  alice.answer(request, granted(0, 42));
  CHECK(alice.machine.state(id) == LeaseState::held);
}

TEST_CASE("who is refused late looks when the lease ends, and not so much later") {
  Holder alice({"h", 60s});  // which has nothing to renew meanwhile
  auto id = alice.begin({"job", "alice", 9s, true}, true);
  alice.answer(alice.sent(), Reply());
  auto request = alice.sent();
  alice.pass(2s);  // waits for the replicas
  alice.answer(request, refused(3s));
  CHECK(alice.machine.state(id) == LeaseState::waiting);
  alice.pass(1s);
  CHECK(alice.is_silent());
  alice.pass(10ms);
  CHECK(alice.sent().args[0] == "acquire");
}

TEST_CASE("in a cluster a lease is asked for again when the last one of ours has ended") {
  Holder alice({.holder = "h", .ttl = 9s, .is_cluster = true});
  auto first = alice.hold(by_ttl);
  alice.machine.leave(first, alice.now);
  auto release = alice.sent();
  CHECK(release.args[0] == "release");
  auto second = alice.begin(by_ttl);
  alice.begin({"other", "alice", 3s});
  CHECK(alice.sent().keys[0] == "other");
  CHECK(alice.is_silent());
  SUBCASE("because it was given back") { alice.answer(release, granted(0, 41)); }
  SUBCASE("by itself") {
    alice.answer(release, fail(Errc::timeout, "no answer"));
    alice.pass(3s);
    release = alice.sent();
    CHECK(release.args[0] == "release");
    CHECK(alice.is_silent());
    alice.answer(release, fail(Errc::timeout, "no answer"));
  }
  auto request = alice.sent();
  CHECK(request.args[0] == "acquire");
  CHECK(request.args[1] == "h/2");
  alice.answer(request, granted(0, 42));
  CHECK(alice.machine.state(second) == LeaseState::held);
}

TEST_CASE("a lease whose keys went to another server while its script ran is asked for again") {
  Holder alice({.holder = "h", .ttl = 9s, .is_cluster = true});
  auto moved = [] {
    return fail(Errc::refused, redis::causes::foreign_key, "", "a key is at another server");
  };
  auto id = alice.begin({"job", "alice", 3s, true});
  alice.answer(alice.sent(), moved());
  CHECK(alice.machine.state(id) == LeaseState::asking);
  alice.pass(50ms);
  alice.answer(alice.sent(), granted(0, 41));
  CHECK(alice.machine.state(id) == LeaseState::held);
  alice.machine.leave(id, alice.now);
  alice.answer(alice.sent(), moved());
  CHECK(alice.machine.take_refusals().empty());
  alice.pass(50ms);
  CHECK(alice.sent().args[0] == "release");
}

TEST_CASE("a replicated lease has a ttl of its own: one that arrives after its release ends") {
  Holder alice;
  alice.begin({"job", "alice", {}, true});
  auto request = alice.sent();
  CHECK(request.args[0] == "acquire");
  CHECK(request.args[3] == "9000");
}

TEST_CASE("the release of a replicated lease does not overtake an acquisition without an answer") {
  Holder alice;
  auto id = alice.begin({"job", "alice", 3s, true});
  alice.answer(alice.sent(), fail(Errc::unknown_outcome, "no answer"));
  alice.machine.leave(id, alice.now);
  auto release = alice.sent();
  CHECK(release.args[0] == "release");
  CHECK(release.replicated);  // the same connection
  alice.answer(release, array({0, 0, 0, server_start_us}));

  auto other = alice.begin({"job", "alice", 3s, true});
  alice.answer(alice.sent(), granted(0, 41));
  alice.machine.leave(other, alice.now);
  CHECK(!alice.sent().replicated);  // no request is under way, so there are no replicas to wait for
}

TEST_CASE("a session that was replaced lasts until who waits has moved its place") {
  Holder alice;
  alice.wait_in_line(by_session);
  alice.machine.on_connected(0, alice.now);
  auto session = alice.sent();
  CHECK(session.args[1] == "warren:session:h/2");
  alice.answer(session, Reply());
  auto acquire = alice.sent();
  CHECK(acquire.args[0] == "acquire");
  CHECK(acquire.args[9] == "warren:session:h/1");
  CHECK(alice.is_silent());
  alice.answer(acquire, refused(3s));
  auto deleted = alice.sent();
  CHECK(deleted.args[0] == "DEL");
  CHECK(deleted.args[1] == "warren:session:h/1");
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
  redis::Reply taken{redis::Reply::Kind::error, 0, "WORKSPACE x", {}};
  alice.answer(alice.sent(), std::unexpected(redis::error_of(taken)));
  CHECK(redis::said(alice.machine.why_ended(refused), "WORKSPACE") == "x");
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
    auto request = alice.sent();
    if (is_cluster)
      CHECK(request.args[4] == "{c}:@9000");
    else
      CHECK(request.args[1] == "{c}:warren:session:h/1");
    CHECK(alice.machine.grant_channels() == std::set<std::string>{"foghorn:{c}:warren:grants:h"});
  }
}

TEST_CASE("a line that is full is told") {
  Holder alice;
  auto id = alice.begin(by_ttl, true);
  alice.answer(alice.sent(), Reply());
  alice.answer(alice.sent(), refused(3s, -1));
  CHECK(alice.machine.state(id) == LeaseState::ended);
  CHECK(alice.machine.why_ended(id).code == Errc::overloaded);
}

TEST_CASE("an epoch that goes back, as that of sentinels made anew, is not used") {
  Holder alice;
  alice.machine.on_connected(7, alice.now);
  alice.hold(by_ttl, 7);
  alice.machine.on_connected(1, alice.now);
  auto renewal = alice.sent();
  CHECK(renewal.args[5] == "7");
  alice.answer(renewal, granted(7, 42));
  auto id = alice.begin({"other", "alice", 3s});
  auto request = alice.sent();
  CHECK(request.args[5] == "7");
  alice.answer(request, granted(1, 99));  // from a process that knows no better
  CHECK(alice.machine.state(id) == LeaseState::asking);
}

TEST_CASE("in a cluster each lease is renewed by itself, and needs no key but its own") {
  Holder alice({"h", 9s, true});
  auto id = alice.hold({"{a}:job", "alice"});
  CHECK(alice.machine.deadline(id) > start + 8s);
  CHECK(!alice.machine.live_session());
  alice.pass(3001ms);
  auto renewal = alice.sent();
  CHECK(renewal.keys[0] == "{a}:job");
  CHECK(renewal.args[3] == "9000");
  CHECK(renewal.args[4] == "-");
  CHECK(alice.machine.grant_channels().empty());
}

TEST_CASE("in a cluster who waits in line says for how long, and asks again before that") {
  Holder alice({"h", 9s, true});
  auto id = alice.begin({"{a}:job", "alice"}, true);
  auto request = alice.sent();
  CHECK(request.args[4] == "{a}:@9000");
  CHECK(request.args[7] == "{a}:warren:grants:h");
  CHECK(request.args[9] == "-");
  alice.answer(request, refused(60s));
  CHECK(alice.machine.state(id) == LeaseState::waiting);
  alice.pass(6100ms);
  request = alice.sent();
  CHECK(request.args[4] == "{a}:@9000");
  CHECK(request.args[9] == fmt::format("{{a}}:@{}", server_start_us / 1000 + 9000));
}

TEST_CASE("with a room nothing of a session lies elsewhere") {
  SessionTerms terms{"h", 9s};
  terms.room = LeaseRoom{"holt:demo:x:", "holt:demo:x:"};
  Holder holder(terms);
  holder.begin({"holt:demo:x:work", "me"}, true);
  auto session = holder.sent();
  CHECK(session.args.at(1).starts_with("holt:demo:x:"));
  holder.answer(session, Reply{});
  auto request = holder.sent();
  CHECK(request.keys == std::vector<std::string>{"holt:demo:x:work", "holt:demo:x:work:fence",
                                                 "holt:demo:x:work:queue"});
  CHECK(request.args.at(4).starts_with("holt:demo:x:"));
  CHECK(request.args.at(7).starts_with("holt:demo:x:"));
  for (const auto& channel : holder.machine.grant_channels())
    CHECK(channel.starts_with("holt:demo:x:"));
  // In a cluster the key must be in the slot of the room.
  terms.is_cluster = true;
  LeaseMachine machine(terms);
  auto refused = machine.begin({"holt:demo:x:work", "me"}, false, start + 1s, start);
  REQUIRE(!refused);
  CHECK(refused.error().code == Errc::invalid);
}
