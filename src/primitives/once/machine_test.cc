#include "primitives/once/machine.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>

using namespace warren;
using redis::Reply;
using State = OnceMachine::State;

namespace {

constexpr auto start = Clock::time_point(1000s);
constexpr std::int64_t server_ms = 1'700'000'000'000;

// An answer of the server, in the format of once.lua.
struct Said {
  bool done = false;
  std::uint64_t epoch = 0, counter = 41;
  std::string phase = "busy", status = "creating", owner = "other/1";
  std::int64_t alive_for_ms = 9000;
  std::string was = {}, record = {}, error = {}, left = {}, note = {};
  std::int64_t retry_ms = 0;
  std::optional<std::string> foreign = {}, foreign_lock = {};

  std::vector<std::string> fields() const {
    return {done ? "1" : "0",
            std::to_string(server_ms),
            std::to_string(epoch),
            std::to_string(counter),
            phase,
            status,
            owner,
            std::to_string(server_ms + alive_for_ms),
            was,
            record,
            "",
            error,
            std::to_string(server_ms + retry_ms),
            left,
            note};
  }
  Reply reply() const {
    Reply reply;
    reply.kind = Reply::Kind::array;
    auto texts = fields();
    if (foreign || foreign_lock) {
      texts.push_back(foreign.value_or(""));
      texts.push_back(foreign_lock.value_or(""));
    }
    for (auto& text : texts) {
      reply.items.emplace_back();
      reply.items.back().kind = Reply::Kind::string;
      reply.items.back().text = text;
    }
    reply.items[0].number = done ? 1 : 0;
    return reply;
  }
  std::string message(const std::string& name) const {
    auto texts = fields();
    texts[0] = name;
    std::string message;
    for (auto& text : texts) message += fmt::format("{}:{}", text.size(), text);
    return message + "+";
  }
};

// A machine, the requests it sends, and the time.
struct Process {
  explicit Process(OnceTerms terms = {.prefix = "p:"}, OnceFlaws flaws = {})
      : machine(std::move(terms), "h", false, flaws) {}
  OnceMachine machine;
  Clock::time_point now = start;

  OnceMachine::Request sent(const std::string& what) {
    auto request = machine.next(now);
    REQUIRE(request);
    CHECK(request->args[0] == what);
    return *request;
  }
  bool is_silent() { return !machine.next(now); }
  void answer(const OnceMachine::Request& request, const Said& said) {
    machine.on_reply(now, request.id, said.reply());
  }
  void pass(Clock::duration time) { now += time; }
  OnceMachine::Id begin(std::optional<OnceStep> step = {}) {
    auto id = machine.begin(now, "x", std::move(step));
    REQUIRE(id);
    return *id;
  }
  static Said granted(std::uint64_t counter = 41) {
    return {.done = true, .counter = counter, .owner = "h/1"};
  }
  OnceMachine::Id claim(std::optional<OnceStep> step = {}) {
    auto id = begin(std::move(step));
    answer(sent("take"), granted());
    REQUIRE(machine.state(id) == State::working);
    return id;
  }
  OnceMachine::Id wait(const Said& said = {}) {
    auto id = begin();
    answer(sent("take"), said);
    REQUIRE(machine.state(id) == State::waiting);
    return id;
  }
  const Result<OnceOutcome>& outcome(OnceMachine::Id id) {
    REQUIRE(machine.outcome(id));
    return *machine.outcome(id);
  }
};

Said created(const std::string& record, std::uint64_t counter = 41) {
  return {.counter = counter, .phase = "left", .status = "created", .record = record};
}

}  // namespace

TEST_CASE("who is granted it works, and its result is recorded under its token") {
  Process process;
  auto id = process.claim();
  CHECK(process.machine.token(id) == FencingToken{0, 41});
  process.machine.on_left(process.now, id, {.bytes = "pod 1"});
  auto settle = process.sent("settle");
  CHECK(settle.args[6] == "41");
  CHECK(settle.args[12] == "pod 1");
  CHECK(!process.machine.outcome(id));
  process.answer(settle, {.done = true, .phase = "left", .status = "created"});
  const auto& outcome = process.outcome(id);
  REQUIRE(outcome);
  CHECK(outcome->how == OnceHow::done);
  CHECK(outcome->record.bytes == "pod 1");
}

TEST_CASE("what is there is attached to, whatever its status") {
  Process process;
  auto id = process.begin();
  auto said = created("pod 1");
  said.status = "paused";
  process.answer(process.sent("take"), said);
  const auto& outcome = process.outcome(id);
  REQUIRE(outcome);
  CHECK(outcome->how == OnceHow::attached);
  CHECK(outcome->record.status == "paused");
  CHECK(outcome->record.bytes == "pod 1");
}

TEST_CASE("who waits is told the result by a message, without asking again") {
  Process process;
  auto id = process.wait();
  CHECK(process.is_silent());
  process.machine.on_message(process.now, created("pod 1").message("x"));
  REQUIRE(process.outcome(id));
  CHECK(process.outcome(id)->record.bytes == "pod 1");
  CHECK(process.is_silent());
}

TEST_CASE("who waits asks again when the creator counts as dead, and not before") {
  Process process;
  process.wait({.alive_for_ms = 3000});
  process.pass(2900ms);
  CHECK(process.is_silent());
  process.pass(200ms);
  process.sent("take");
}

TEST_CASE("a claim of somebody who died says what he may have left") {
  Process process;
  auto id = process.begin();
  auto said = Process::granted();
  said.left = "creating 0-40";
  said.note = "uid 7";
  process.answer(process.sent("take"), said);
  REQUIRE(process.machine.earlier(id));
  CHECK(process.machine.earlier(id)->status == "creating");
  CHECK(process.machine.earlier(id)->token == FencingToken{0, 40});
  CHECK(process.machine.earlier(id)->note == "uid 7");
}

TEST_CASE("a result that comes too late is refused, and the winner's is what is returned") {
  Process process;
  auto id = process.claim();
  process.machine.on_left(process.now, id, {.bytes = "mine"});
  process.answer(process.sent("settle"), {.counter = 42});
  CHECK(!process.machine.outcome(id));
  CHECK(process.machine.counters().refused == 1);
  process.answer(process.sent("take"), created("his", 42));
  REQUIRE(process.outcome(id));
  CHECK(process.outcome(id)->how == OnceHow::attached);
  CHECK(process.outcome(id)->record.bytes == "his");
}

TEST_CASE("work stops when its claim cannot be renewed, no later than its deadline") {
  Process process;
  auto id = process.claim();
  auto deadline = process.machine.deadline(id);
  CHECK(deadline < start + 9s);
  process.pass(3s);
  auto renewal = process.sent("renew");
  CHECK(renewal.is_renewal);
  process.now = deadline;
  CHECK(process.is_silent());
  CHECK(process.machine.state(id) == State::stopping);
  SUBCASE("also when it ends just then") {
    process.machine.on_left(process.now, id, {.bytes = "late"});
  }
  SUBCASE("and when it was cancelled") { process.machine.on_stopped(process.now, id); }
  process.sent("take");  // again, under another attempt
  CHECK(process.machine.state(id) == State::asking);
}

TEST_CASE("a deadline counts from before the request left") {
  Process process;
  auto id = process.begin();
  auto request = process.sent("take");
  process.pass(2s);
  process.answer(request, Process::granted());
  CHECK(process.machine.deadline(id) < start + 9s);
}

TEST_CASE("a grant that comes so late that it says nothing is asked for again") {
  Process process;
  auto id = process.begin();
  auto request = process.sent("take");
  process.pass(9s);
  process.answer(request, Process::granted());
  CHECK(process.machine.state(id) == State::asking);
  CHECK(process.sent("take").args[3] == request.args[3]);
}

TEST_CASE("a grant of an epoch that is over is asked for again") {
  Process process;
  auto id = process.begin();
  auto request = process.sent("take");
  process.machine.on_connected(process.now, 7);
  process.answer(request, Process::granted());
  CHECK(process.machine.state(id) == State::asking);
  auto again = process.sent("take");
  CHECK(again.args[4] == "7");
}

TEST_CASE("work stops at once when a renewal finds somebody else") {
  Process process;
  auto id = process.claim();
  process.pass(3s);
  process.answer(process.sent("renew"), {.counter = 42});
  CHECK(process.machine.state(id) == State::stopping);
  CHECK(process.machine.why_stopped(id) == "lost");
}

TEST_CASE("an error of the work is told at once, and recorded for the others") {
  Process process;
  auto id = process.claim();
  process.machine.on_failed(process.now, id, {Errc::refused, "no image"}, 30s);
  REQUIRE(!process.outcome(id));
  CHECK(process.outcome(id).error().code == Errc::refused);
  auto settle = process.sent("settle");
  CHECK(settle.args[10] == "failed");
  CHECK(settle.args[13] == "refused no image");
  CHECK(settle.args[14] == "30000");
}

TEST_CASE("who waits for a creation that fails gets its error, with its code") {
  Process process;
  auto id = process.wait();
  Said failed{.phase = "failed", .status = "", .error = "denied no quota", .retry_ms = 5000};
  process.machine.on_message(process.now, failed.message("x"));
  REQUIRE(!process.outcome(id));
  CHECK(process.outcome(id).error().code == Errc::denied);
  CHECK(process.outcome(id).error().what == "no quota");
}

TEST_CASE("messages that are none are ignored") {
  Process process;
  auto id = process.wait();
  auto good = created("pod 1").message("x");
  for (const auto& bad :
       {std::string(), std::string("x"), good.substr(0, good.size() / 2), std::string("99999999:x"),
        std::string(":::"), "9" + good, std::string("-1:") + good, created("pod 1").message("y")})
    process.machine.on_message(process.now, bad);
  CHECK(process.machine.state(id) == State::waiting);
}

TEST_CASE("after a gap in the messages who waits asks") {
  Process process;
  process.wait();
  process.machine.on_gap(process.now);
  process.sent("take");
}

TEST_CASE("a message while the question is on its way makes it ask once more") {
  Process process;
  process.begin();
  auto request = process.sent("take");
  process.machine.on_message(process.now, created("pod 1", 40).message("x"));
  process.answer(request, {});
  process.sent("take");
}

TEST_CASE("a message that was slow is not taken for what is there now") {
  Process process;
  auto id = process.begin();
  SUBCASE("not before the first answer") {
    process.machine.on_reply(process.now, process.sent("take").id, fail(Errc::unavailable, "away"));
    process.machine.on_message(process.now, created("old", 39).message("x"));
    CHECK(process.machine.state(id) == State::asking);
  }
  SUBCASE("nor when an answer was newer") {
    process.answer(process.sent("take"), {});
    process.machine.on_message(process.now, created("old", 40).message("x"));
    CHECK(process.machine.state(id) == State::waiting);
  }
}

TEST_CASE("when nobody wants it any more, the work goes on for the others") {
  Process process;
  auto id = process.claim();
  process.machine.leave(id);
  CHECK(process.machine.state(id) == State::working);
  process.machine.on_left(process.now, id, {.bytes = "pod 1"});
  process.answer(process.sent("settle"), {.done = true, .phase = "left"});
  CHECK(!process.machine.knows(id));
}

TEST_CASE("when the terms say so, work that nobody wants ends, and is free for others") {
  Process process({.prefix = "p:", .when_abandoned = OnceAbandoned::is_ended});
  auto id = process.claim();
  process.machine.leave(id);
  CHECK(process.machine.state(id) == State::stopping);
  process.machine.on_stopped(process.now, id);
  auto settle = process.sent("settle");
  CHECK(settle.args[10] == "back");
  process.answer(settle, {.done = true, .phase = "none"});
  CHECK(!process.machine.knows(id));
}

TEST_CASE("who leaves before it is answered gives back what it may be granted") {
  Process process;
  auto id = process.begin();
  auto request = process.sent("take");
  process.machine.leave(id);
  process.answer(request, Process::granted());
  auto settle = process.sent("settle");
  CHECK(settle.args[10] == "back");
  process.answer(settle, {.done = true, .phase = "none"});
  CHECK(!process.machine.knows(id));
}

TEST_CASE("without Redis nothing is granted, however long it takes") {
  Process process;
  auto id = process.begin();
  for (int i = 0; i < 100; ++i) {
    auto request = process.machine.next(process.now);
    if (request)
      process.machine.on_reply(process.now, request->id, fail(Errc::unavailable, "away"));
    process.pass(1s);
  }
  CHECK(process.machine.state(id) == State::asking);
  CHECK(process.machine.problem(id));
}

TEST_CASE(
    "an optimistic creation begins alone when Redis is away, and is recorded when it is back") {
  Process process({.prefix = "p:", .without_redis = OnceWithoutRedis::optimistic});
  auto id = process.begin();
  auto request = process.sent("take");
  process.pass(2s);
  CHECK(process.is_silent());
  REQUIRE(process.machine.state(id) == State::working);
  CHECK(process.machine.token(id) == FencingToken{});
  process.machine.on_left(process.now, id, {.bytes = "pod 1"});
  process.is_silent();
  REQUIRE(process.outcome(id));
  CHECK(process.outcome(id)->how == OnceHow::unconfirmed);
  process.machine.leave(id);
  process.machine.on_reply(process.now, request.id, fail(Errc::unknown_outcome, "away"));
  process.pass(1s);
  auto again = process.sent("take");
  SUBCASE("unless there is another by then") {
    process.answer(again, created("pod 2"));
    CHECK(!process.machine.knows(id));
    CHECK(process.is_silent());
  }
  SUBCASE("under the token that it is granted then") {
    process.answer(again, Process::granted(50));
    auto settle = process.sent("settle");
    CHECK(settle.args[6] == "50");
    CHECK(settle.args[12] == "pod 1");
    process.answer(settle, {.done = true, .phase = "left"});
    CHECK(!process.machine.knows(id));
  }
}

TEST_CASE("who began alone stops when Redis says that somebody else is at it") {
  Process process({.prefix = "p:", .without_redis = OnceWithoutRedis::optimistic});
  auto id = process.begin();
  auto request = process.sent("take");
  process.pass(2s);
  CHECK(process.is_silent());
  process.answer(request, {});
  CHECK(process.machine.state(id) == State::stopping);
  process.machine.on_stopped(process.now, id);
  process.answer(process.sent("take"), {});
  CHECK(process.machine.state(id) == State::waiting);
}

TEST_CASE("another program's lock is looked at again when it may be gone, each second at most") {
  Process process;
  process.wait({.phase = "none", .status = "", .owner = "", .foreign_lock = "25000"});
  process.pass(900ms);
  CHECK(process.is_silent());
  process.pass(100ms);
  process.answer(process.sent("take"),
                 {.phase = "none", .status = "", .owner = "", .foreign_lock = "30"});
  process.pass(30ms);
  process.sent("take");
}

TEST_CASE("a step may begin only where it is allowed, and otherwise what is there is returned") {
  Process process;
  auto id = process.begin(OnceStep{.status = "pausing", .from = {"created", "failed"}});
  auto request = process.sent("take");
  CHECK(request.args[10] == "pausing");
  CHECK(request.args[13] == "change");
  CHECK(request.args[14] == " created  failed ");
  auto said = created("pod 1");
  said.status = "paused";
  process.answer(request, said);
  REQUIRE(process.outcome(id));
  CHECK(process.outcome(id)->how == OnceHow::attached);
  CHECK(process.outcome(id)->record.status == "paused");
}

TEST_CASE("who asks for the step that somebody is at gets what comes of it") {
  Process process;
  auto id = process.begin(OnceStep{.status = "pausing"});
  process.answer(process.sent("take"), {.status = "pausing", .was = "created", .record = "pod 1"});
  auto said = created("pod 1");
  SUBCASE("the record") {
    said.status = "paused";
    process.machine.on_message(process.now, said.message("x"));
    REQUIRE(process.outcome(id));
    CHECK(process.outcome(id)->record.status == "paused");
  }
  SUBCASE("its error") {
    said.error = "refused busy";
    process.machine.on_message(process.now, said.message("x"));
    REQUIRE(!process.outcome(id));
    CHECK(process.outcome(id).error().what == "busy");
  }
  SUBCASE("or nothing, when it was given up: then it asks") {
    said.left = "pausing 0-41";
    process.machine.on_message(process.now, said.message("x"));
    process.sent("take");
  }
  SUBCASE("or nothing, when it removed the record") {
    process.machine.on_message(process.now, Said{.phase = "none", .status = ""}.message("x"));
    REQUIRE(process.outcome(id));
    CHECK(process.outcome(id)->record.status.empty());
  }
}

TEST_CASE("work that takes longer than it may ends, and has failed") {
  Process process({.prefix = "p:", .busy_ttl = 20s});
  auto id = process.claim();
  for (int i = 0; i < 7 && process.machine.state(id) == State::working; ++i) {
    process.pass(3s);
    while (auto request = process.machine.next(process.now))
      process.answer(*request, Process::granted());
  }
  REQUIRE(process.machine.state(id) == State::stopping);
  process.machine.on_stopped(process.now, id);
  REQUIRE(!process.outcome(id));
  CHECK(process.outcome(id).error().code == Errc::timeout);
  CHECK(process.sent("settle").args[10] == "failed");
}

TEST_CASE("a note is told with the next renewal, at once") {
  Process process;
  auto id = process.claim();
  auto number = process.machine.note(process.now, id, "uid 7");
  auto renewal = process.sent("renew");
  CHECK(renewal.args[13] == "+uid 7");
  CHECK(!process.machine.has_noted(id, number));
  process.answer(renewal, Process::granted());
  CHECK(process.machine.has_noted(id, number));
}

TEST_CASE("what is not allowed is said, with what is") {
  Process process;
  for (const auto& name :
       {std::string(), std::string("a b"), std::string(600, 'x'), std::string("a\n")}) {
    auto refused = process.machine.begin(process.now, name, std::nullopt);
    REQUIRE(!refused);
    CHECK(refused.error().code == Errc::invalid);
  }
  CHECK(!process.machine.begin(process.now, "x", OnceStep{.status = "failed"}));
  CHECK(!OnceMachine::check({.bytes = std::string(most_once_record + 1, 'x')}));
  OnceMachine in_cluster({.prefix = "p:"}, "h", true);
  CHECK(!in_cluster.check("{a}b"));
  auto keys = once_keys("openhands:", "s1", true);
  CHECK(keys.lock == "openhands:lock:{s1}");
  CHECK(once_keys("openhands:", "s1", false).resource == "openhands:resource:s1");
}
