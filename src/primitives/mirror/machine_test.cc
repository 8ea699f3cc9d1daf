// The protocol as a list of facts.
#include "primitives/mirror/machine.h"

#include <doctest/doctest.h>

using namespace warren;
using namespace warren::mirror;
using redis::Reply;
using Kind = Request::Kind;

namespace {

MirrorTerms terms() {
  MirrorTerms t;
  t.prefix = "{c}:";
  t.channel = "foghorn:{c}:state_updates";
  t.types = {{"node", "nodes:"}, {"stream", "streams:"}};
  t.compare_pause = 10min;
  return t;
}

Reply text(std::string value) { return {Reply::Kind::string, 0, std::move(value), {}}; }
Reply nil() { return {}; }
Reply array(std::vector<Reply> items) { return {Reply::Kind::array, 0, {}, std::move(items)}; }

// An entry as XRANGE shows it, and as a push does. It sets node `id` to "1".
Reply logged(const std::string& at, const std::string& before, const std::string& stamp,
             const std::string& id) {
  auto packed = fmt::format("={} 1 nodes:{}1", 6 + id.size(), id);
  return array({text(at),
                array({text("p"), text(before), text("s"), text(stamp), text("b"), text(packed)})});
}
std::string pushed(const std::string& at, const std::string& before, const std::string& stamp,
                   const std::string& id) {
  return fmt::format("{} {} {} ={} 1 nodes:{}1", at, before, stamp, 6 + id.size(), id);
}

// A machine, the time, and what it wants to send.
struct Bench {
  explicit Bench(MirrorTerms t = terms()) : machine(std::move(t), "w", [] { return 0.5; }) {}

  Request expect(Kind kind) {
    auto request = machine.next(now);
    REQUIRE(request);
    REQUIRE(request->kind == kind);
    return *request;
  }
  void expect_nothing() {
    CHECK(!machine.next(now));
    CHECK(machine.wake_at() > now);  // or it would be asked again and again
  }
  void answer(const Request& request, Reply reply) {
    machine.on_reply(now, request, Result<Reply>(std::move(reply)));
  }
  void fail(const Request& request, Errc code, std::string what = "no") {
    machine.on_reply(now, request, std::unexpected(Error{code, std::move(what)}));
  }
  void push(const std::string& payload) { machine.on_message(now, terms().log_channel(), payload); }
  void notify(const std::string& payload) { machine.on_message(now, terms().channel, payload); }
  bool has(const std::string& id) {
    machine.publish();
    return machine.snapshot()->find(0, id) != nullptr;
  }
  // Subscribed, loaded and following, with nothing in Redis but what is said.
  void load(const Reply& tail) {
    machine.on_connected(now, 5);
    machine.on_subscribed(now);
    answer(expect(Kind::tail), tail);
    answer(expect(Kind::scan), array({text("0"), array({})}));
    answer(expect(Kind::catch_up), array({}));
    REQUIRE(machine.phase() == MirrorPhase::tailing);
    answer(expect(Kind::tail), tail);
    expect_nothing();
    machine.publish();
  }
  // The next look at the tail.
  Request tail_check() {
    now += 500ms;
    return expect(Kind::tail);
  }

  Clock::time_point now{std::chrono::hours(24)};
  Machine machine;
};

}  // namespace

TEST_CASE("it subscribes, notes the tail, reads all keys, replays the log, and then is ready") {
  Bench b;
  b.expect_nothing();
  b.machine.on_subscribed(b.now);
  auto tail = b.expect(Kind::tail);
  CHECK(tail.words == std::vector<std::string>{"HGET", "{c}:mirror:head", "tail"});
  b.expect_nothing();
  b.answer(tail, text("5-1 x:1"));
  auto scan = b.expect(Kind::scan);
  CHECK(scan.words == std::vector<std::string>{"SCAN", "0", "MATCH", "{c}:*", "COUNT", "1000"});
  b.expect_nothing();
  b.push(pushed("5-2", "x:1", "x:2", "b"));  // held until all is read
  b.answer(scan, array({text("7"), array({text("{c}:nodes:a"), text("{c}:mirror:log"),
                                          text("{d}:nodes:z"), text("{c}:unknown:y")})}));
  auto more = b.expect(Kind::scan);
  CHECK(more.words[1] == "7");
  auto values = b.expect(Kind::load);
  CHECK(values.words == std::vector<std::string>{"MGET", "{c}:nodes:a"});
  b.answer(more, array({text("0"), array({})}));
  b.answer(values, array({text("value")}));
  auto log = b.expect(Kind::catch_up);
  CHECK(log.words ==
        std::vector<std::string>{"XRANGE", "{c}:mirror:log", "5-2", "+", "COUNT", "1000"});
  CHECK(!b.machine.is_ready());
  CHECK(!b.has("a"));
  b.answer(log, array({}));
  CHECK(b.machine.is_ready());
  CHECK(b.machine.phase() == MirrorPhase::tailing);
  CHECK(b.has("a"));
  CHECK(b.has("b"));
  CHECK(b.machine.position() == Position{{5, 2}, "x:2"});
  CHECK(b.machine.snapshot()->find(0, "a")->value() == "value");
}

TEST_CASE("a push that follows is applied at once, one that is known is not, nor is nonsense") {
  Bench b;
  b.load(nil());
  b.push(pushed("5-0", "-", "x:1", "a"));
  CHECK(b.has("a"));
  b.push(pushed("5-0", "-", "x:1", "a"));
  b.push("nonsense");
  CHECK(b.machine.counters().applied == 1);
  CHECK(b.machine.counters().malformed == 1);
  b.push(pushed("6-0", "x:1", "x:2", "b"));  // the first of a new epoch says what it follows
  CHECK(b.machine.position().version == Version{6, 0});
  b.expect_nothing();
}

TEST_CASE("a push that does not follow waits until the log was read, and is applied once") {
  Bench b;
  b.load(text("5-1 x:1"));
  b.push(pushed("5-3", "x:2", "x:3", "c"));
  CHECK(!b.has("c"));
  auto log = b.expect(Kind::catch_up);
  CHECK(log.words[2] == "5-2");
  b.push(pushed("5-4", "x:3", "x:4", "d"));
  b.answer(log, array({logged("5-2", "x:1", "x:2", "b"), logged("5-3", "x:2", "x:3", "c")}));
  for (auto id : {"b", "c", "d"}) CHECK(b.has(id));
  CHECK(b.machine.counters().applied == 3);
  CHECK(b.machine.take_rewrites().empty());
}

TEST_CASE("when the log is longer than a page, the next page is read") {
  Bench b;
  b.load(text("5-0 x:0"));
  b.machine.on_gap(b.now);
  std::vector<Reply> page;
  for (int i = 1; i <= 1000; ++i)
    page.push_back(
        logged(fmt::format("5-{}", i), fmt::format("x:{}", i - 1), fmt::format("x:{}", i), "a"));
  b.answer(b.expect(Kind::catch_up), array(std::move(page)));
  auto next = b.expect(Kind::catch_up);
  CHECK(next.words[2] == "5-1001");
  CHECK(b.machine.phase() == MirrorPhase::catch_up);
}

TEST_CASE("when the log no longer has what follows, all is read again, after a pause") {
  Bench b;
  b.load(text("5-1 x:1"));
  b.push(pushed("5-9", "x:8", "x:9", "z"));
  b.answer(b.expect(Kind::catch_up), array({logged("5-8", "x:7", "x:8", "y")}));
  auto probe = b.expect(Kind::probe);
  CHECK(probe.words ==
        std::vector<std::string>{"XREVRANGE", "{c}:mirror:log", "5-1", "-", "COUNT", "1"});
  b.answer(probe, array({}));
  CHECK(b.machine.phase() == MirrorPhase::resync);
  CHECK(!b.has("z"));
  b.expect_nothing();
  CHECK(b.machine.wake_at() == b.now + 1s);  // not within a second of the last time
  b.now = b.machine.wake_at();
  b.answer(b.expect(Kind::tail), text("5-9 x:9"));
  b.answer(b.expect(Kind::scan), array({text("0"), array({})}));
  b.answer(b.expect(Kind::catch_up), array({}));
  CHECK(b.machine.phase() == MirrorPhase::tailing);
  CHECK(b.machine.take_rewrites().empty());  // the connection stood all the time
}

TEST_CASE("a log that was deleted, and is behind what was shown after all is read, was rewritten") {
  Bench b;
  b.load(text("5-9 x:1"));
  b.push(pushed("5-12", "x:3", "x:4", "a"));  // something is missing before it
  b.answer(b.expect(Kind::catch_up), array({logged("5-11", "x:2", "x:3", "y")}));
  b.answer(b.expect(Kind::probe), array({}));  // and so is what we had
  CHECK(b.machine.take_rewrites().empty());    // which it may be, without a loss
  b.now += 10s;
  b.answer(b.expect(Kind::tail), text("5-2 y:1"));
  b.answer(b.expect(Kind::scan), array({text("0"), array({})}));
  b.answer(b.expect(Kind::catch_up), array({}));
  auto rewrites = b.machine.take_rewrites();
  REQUIRE(rewrites.size() == 1);
  CHECK(rewrites[0].until == Version{5, 9});
  CHECK(!rewrites[0].certain);
}

TEST_CASE("when the log has something else in our place, history was rewritten from there") {
  Bench b;
  b.load(text("5-1 x:1"));
  b.push(pushed("5-2", "x:1", "x:2", "b"));
  b.push(pushed("5-3", "x:2", "x:3", "c"));
  b.machine.publish();
  b.push(pushed("6-1", "y:1", "y:2", "z"));
  b.answer(b.expect(Kind::catch_up), array({logged("6-0", "x:2", "y:1", "y")}));
  b.answer(b.expect(Kind::probe), array({logged("5-2", "x:1", "x:2", "b")}));
  auto told = b.machine.take_rewrites();
  REQUIRE(told.size() == 1);
  CHECK(told[0].after == Version{5, 2});
  CHECK(told[0].until == Version{5, 3});
  CHECK(told[0].certain);
  CHECK(b.machine.fate_of({5, 2}) == Fate::applied);
  CHECK(b.machine.fate_of({5, 3}) == Fate::lost);
  CHECK(b.machine.phase() == MirrorPhase::resync);
}

TEST_CASE("the tail is looked at every half second, and says how old what is seen may be") {
  Bench b;
  b.load(text("5-1 x:1"));
  auto check = b.tail_check();
  auto asked = b.now;
  b.expect_nothing();
  b.now += 30ms;
  b.answer(check, text("5-1 x:1"));
  b.machine.publish();
  CHECK(b.machine.snapshot()->age(b.now) == b.now - asked);
  CHECK(b.machine.wake_at() == asked + 500ms);
}

TEST_CASE("a tail that was not heard of is given a moment to come by push, then the log is read") {
  Bench b;
  b.load(text("5-1 x:1"));
  auto asked = b.now + 500ms;
  b.answer(b.tail_check(), text("5-2 x:2"));
  b.expect_nothing();
  b.machine.publish();
  CHECK(b.machine.snapshot()->age(b.now) > 0s);  // it is not yet known to have all
  b.now += 50ms;
  b.answer(b.expect(Kind::catch_up), array({logged("5-2", "x:1", "x:2", "b")}));
  CHECK(b.has("b"));
  CHECK(b.machine.snapshot()->age(b.now) == b.now - asked);
}

TEST_CASE("a tail that lies behind, or has another stamp, means that history was rewritten") {
  for (std::string tail : {"5-1 x:1", "5-2 y:1"}) {
    Bench b;
    b.load(text("5-1 x:1"));
    b.push(pushed("5-2", "x:1", "x:2", "b"));
    b.machine.publish();
    b.answer(b.tail_check(), text(tail));
    CHECK(!b.machine.next(b.now));
    auto told = b.machine.take_rewrites();
    REQUIRE(told.size() == 1);
    CHECK(told[0].until == Version{5, 2});
    CHECK(told[0].certain);
    CHECK(b.machine.phase() == MirrorPhase::resync);
    CHECK(b.has("b"));  // readers keep what they have until the new state is complete
  }
}

TEST_CASE("a log that began anew is another history, also when its versions go on") {
  for (bool is_trimmed : {false, true}) {
    Bench b;
    b.load(text("5-1 x:1 x:1"));
    b.push(pushed("6-1", "y:1", "y:2", "b"));
    b.answer(b.expect(Kind::catch_up),
             array({logged(is_trimmed ? "6-1" : "6-0", is_trimmed ? "y:1" : "-",
                           is_trimmed ? "y:2" : "y:1", "b")}));
    b.answer(b.expect(Kind::probe), array({}));
    b.now += 2s;
    b.answer(b.expect(Kind::tail), text("6-1 y:2 y:1"));
    b.answer(b.expect(Kind::scan), array({text("0"), array({})}));
    b.answer(b.expect(Kind::catch_up), array({}));
    auto told = b.machine.take_rewrites();
    REQUIRE(told.size() == 1);
    CHECK(told[0].certain);
    CHECK(told[0].until == Version{5, 1});
  }
}

TEST_CASE("what begins where all was gone is not another rewrite, whoever tells of it first") {
  Bench b;
  b.load(text("5-1 x:1 x:1"));
  b.answer(b.tail_check(), nil());
  b.now += 2s;
  b.answer(b.expect(Kind::tail), nil());
  b.answer(b.expect(Kind::scan), array({text("0"), array({})}));
  b.answer(b.expect(Kind::catch_up), array({}));
  CHECK(b.machine.take_rewrites().size() == 1);
  b.machine.publish();
  b.answer(b.expect(Kind::tail), text("5-0 y:1 y:1"));  // before its push
  b.push(pushed("5-0", "-", "y:1", "b"));
  CHECK(b.has("b"));
  CHECK(b.machine.take_rewrites().empty());
}

TEST_CASE("a tail that was overtaken by pushes while it was asked for is no surprise") {
  Bench b;
  b.load(text("5-1 x:1"));
  auto check = b.tail_check();
  b.push(pushed("5-2", "x:1", "x:2", "b"));
  b.push(pushed("5-3", "x:2", "x:3", "c"));
  b.answer(check, text("5-2 x:2"));
  b.expect_nothing();
  CHECK(b.machine.take_rewrites().empty());
  CHECK(b.machine.phase() == MirrorPhase::tailing);
}

TEST_CASE("when the servers change while keys are read, the reading begins anew") {
  Bench b;
  b.machine.on_subscribed(b.now);
  b.answer(b.expect(Kind::tail), text("5-1 x:1"));
  auto scan = b.expect(Kind::scan);
  b.machine.on_connected(b.now, 6);
  auto tail = b.expect(Kind::tail);
  b.answer(scan, array({text("9"), array({text("{c}:nodes:a")})}));  // of the other server
  b.answer(tail, text("6-0 y:1"));
  CHECK(b.expect(Kind::scan).words[1] == "0");
}

TEST_CASE("a gap while keys are read loses none of them, and is followed by a comparison") {
  Bench b;
  b.machine.on_subscribed(b.now);
  b.answer(b.expect(Kind::tail), nil());
  b.answer(b.expect(Kind::scan), array({text("7"), array({text("{c}:nodes:a")})}));
  b.machine.on_gap(b.now);
  auto scan = b.expect(Kind::scan);
  CHECK(scan.words[1] == "7");
  b.answer(b.expect(Kind::load), array({text("1")}));
  b.answer(scan, array({text("0"), array({})}));
  b.answer(b.expect(Kind::catch_up), array({}));
  CHECK(b.has("a"));
  b.answer(b.expect(Kind::tail), nil());
  b.expect(Kind::scan);
}

TEST_CASE("a load after which the servers were others cannot tell whether something was lost") {
  Bench b;
  b.load(text("5-1 x:1"));
  b.machine.on_connected(b.now, 6);
  b.push(pushed("6-9", "y:8", "y:9", "z"));
  b.answer(b.expect(Kind::catch_up), array({logged("6-8", "y:7", "y:8", "y")}));
  b.answer(b.expect(Kind::probe), array({}));
  b.now += 2s;
  b.answer(b.expect(Kind::tail), text("6-9 y:9"));
  b.answer(b.expect(Kind::scan), array({text("0"), array({})}));
  b.answer(b.expect(Kind::catch_up), array({}));
  auto told = b.machine.take_rewrites();
  REQUIRE(told.size() == 1);
  CHECK(!told[0].certain);
  CHECK(told[0].until == Version{5, 1});
  CHECK(b.machine.fate_of({5, 1}) == Fate::unknown);
}

TEST_CASE("after a failed answer it waits a little, longer each time, and asks again") {
  Bench b;
  b.machine.on_subscribed(b.now);
  Clock::duration last{};
  for (int i = 0; i < 5; ++i) {
    b.fail(b.expect(Kind::tail), Errc::unavailable);
    b.expect_nothing();
    auto pause = b.machine.wake_at() - b.now;
    CHECK(pause > last);
    CHECK(pause <= 1s);
    last = pause;
    b.now += pause;
  }
  b.fail(b.expect(Kind::tail), Errc::timeout);
  b.machine.on_connected(b.now, 6);  // no reason to wait any longer
  b.expect(Kind::tail);
}

TEST_CASE("a batch is sent again under its number until it is known to be written") {
  Bench b;
  b.load(nil());
  auto receipt = b.machine.put({{0, "a", "1"}});
  REQUIRE(receipt);
  auto write = b.expect(Kind::write);
  CHECK(write.args[0] == "5");
  b.expect_nothing();
  b.fail(write, Errc::unknown_outcome);
  b.now += 20ms;
  auto again = b.expect(Kind::write);
  CHECK(again.args[3] == "1.2");
  CHECK(again.args[4] == write.args[4]);
  CHECK(again.words == write.words);
  CHECK(!(*receipt)->result);
  b.answer(again, array({text("5-0"), text("1.2"), text("-")}));
  CHECK(**(*receipt)->result == Version{5, 0});
  b.expect(Kind::tail);  // since it failed
  CHECK(b.has("a"));     // without waiting for the push
  CHECK(b.machine.fate_of({5, 0}) == Fate::applied);
  CHECK(b.machine.counters().write_retries == 1);
}

TEST_CASE("a writer of an older epoch looks at the tail, and writes in the epoch that it finds") {
  Bench b;
  b.load(nil());
  REQUIRE(b.machine.put({{0, "a", "1"}}));
  b.fail(b.expect(Kind::write), Errc::refused,
         "ERR The ID specified in XADD is equal or smaller than the target stream top item");
  b.answer(b.expect(Kind::tail), text("7-0 x:1"));
  b.push(pushed("7-0", "-", "x:1", "b"));
  b.now += 20ms;
  CHECK(b.expect(Kind::write).args[0] == "7");
}

TEST_CASE("what Redis refuses for good is told, and what comes after it is written") {
  Bench b;
  b.load(nil());
  auto first = b.machine.put({{0, "a", "1"}});
  REQUIRE(first);
  b.fail(b.expect(Kind::write), Errc::denied, "NOPERM");
  REQUIRE((*first)->result);
  CHECK((*first)->result->error().code == Errc::denied);
  CHECK(b.machine.counters().refused_writes == 1);
  REQUIRE(b.machine.put({{0, "b", "1"}}));
  CHECK(b.expect(Kind::write).args[3] == "2");
}

TEST_CASE("what was acknowledged and is not in the history that follows is lost, and told") {
  Bench b;
  b.load(text("5-1 x:1"));
  REQUIRE(b.machine.put({{0, "a", "1"}}));
  b.answer(b.expect(Kind::write), array({text("5-9"), text("1"), text("x:8")}));  // we are behind
  CHECK(b.machine.fate_of({5, 9}) == Fate::awaited);
  b.machine.on_connected(b.now, 6);
  b.answer(b.expect(Kind::catch_up),
           array({logged("5-2", "x:1", "x:2", "b"), logged("6-0", "x:2", "y:1", "c")}));
  auto told = b.machine.take_rewrites();
  REQUIRE(told.size() == 1);
  CHECK(told[0].after == Version{5, 2});
  CHECK(told[0].until == Version{5, 9});
  b.machine.publish();
  CHECK(b.machine.fate_of({5, 9}) == Fate::lost);
  CHECK(b.machine.fate_of({6, 0}) == Fate::applied);
}

TEST_CASE("an older peer's change is fetched, and shown at its place in the log") {
  Bench b;
  b.load(text("5-1 x:1"));
  b.notify(R"({"type":"node","id":"a"})");
  b.notify(R"({"type":"planet","id":"a"})");            // of no type that we know
  b.notify(R"({"type":"node","id":"b","via":"log"})");  // ours
  auto fetch = b.expect(Kind::fetch);
  CHECK(fetch.words == std::vector<std::string>{"{c}:mirror:head", "{c}:nodes:a"});
  b.expect_nothing();
  b.answer(fetch, array({text("5-2 x:2"), text("theirs")}));
  CHECK(!b.has("a"));  // it was so after 5-2, which we do not have yet
  b.push(pushed("5-2", "x:1", "x:2", "a"));
  REQUIRE(b.has("a"));
  CHECK(b.machine.snapshot()->find(0, "a")->value() == "theirs");
}

TEST_CASE("what was fetched does not undo what the log said since, be it a value or a deletion") {
  Bench b;
  b.load(text("5-1 x:1"));
  b.notify(R"({"type":"node","id":"a"})");
  b.notify(R"({"type":"node","id":"b"})");
  auto fetch = b.expect(Kind::fetch);
  b.push(pushed("5-2", "x:1", "x:2", "a"));
  b.push("5-3 x:2 x:3 -7 0 nodes:b");
  b.answer(fetch, array({text("5-1 x:1"), text("old"), text("old")}));
  REQUIRE(b.has("a"));
  CHECK(b.machine.snapshot()->find(0, "a")->value() == "1");
  CHECK(!b.has("b"));
  CHECK(b.machine.counters().repairs == 0);
}

TEST_CASE("a deletion that was forgotten is not undone either: the key is fetched again") {
  Bench b;
  b.load(text("5-0 x:0"));
  b.notify(R"({"type":"node","id":"0"})");
  auto fetch = b.expect(Kind::fetch);
  for (int i = 1; i <= 5000; ++i)
    b.push(fmt::format("5-{} x:{} x:{} -{} 0 nodes:{}", i, i - 1, i,
                       6 + std::to_string(i - 1).size(), i - 1));
  b.answer(fetch, array({text("5-0 x:0"), text("old")}));
  CHECK(!b.has("0"));
  CHECK(b.expect(Kind::fetch).words.back() == "{c}:nodes:0");
}

TEST_CASE("the slow comparison fetches a page that differs, and what only we have") {
  auto t = terms();
  t.compare_pause = 1ms;
  Bench b(t);
  b.load(text("5-1 x:1"));
  b.push(pushed("5-2", "x:1", "x:2", "a"));
  b.push(pushed("5-3", "x:2", "x:3", "gone"));
  b.now += 100ms;
  b.answer(b.expect(Kind::scan), array({text("0"), array({text("{c}:nodes:a")})}));
  b.now += 1ms;
  auto digest = b.expect(Kind::digest);
  CHECK(digest.words == std::vector<std::string>{"{c}:nodes:a"});
  b.answer(digest, text("3e774731d33d9224ac36af3d85ba1f81b31bc84d"));  // of "1:1"
  b.now += 1ms;
  CHECK(!b.machine.next(b.now));  // the round ends
  auto fetch = b.expect(Kind::fetch);
  CHECK(fetch.words.back() == "{c}:nodes:gone");
  b.answer(fetch, array({text("5-3 x:3"), nil()}));
  CHECK(!b.has("gone"));
  CHECK(b.machine.counters().repairs == 1);
  b.now += 100ms;
  b.answer(b.expect(Kind::scan), array({text("0"), array({text("{c}:nodes:a")})}));
  b.now += 1ms;
  b.answer(b.expect(Kind::digest), text("something else"));
  CHECK(b.expect(Kind::fetch).words.back() == "{c}:nodes:a");
}

TEST_CASE("pushes that cannot be applied yet are bounded: the log has them") {
  Bench b;
  b.load(text("5-0 x:0"));
  b.machine.on_gap(b.now);
  auto log = b.expect(Kind::catch_up);
  for (int i = 2; i <= 25'000; ++i)
    b.push(pushed(fmt::format("5-{}", i), fmt::format("x:{}", i - 1), fmt::format("x:{}", i), "a"));
  b.answer(log, array({logged("5-1", "x:0", "x:1", "a")}));
  CHECK(b.machine.position().version == Version{5, 1});
  CHECK(b.expect(Kind::catch_up).words[2] == "5-2");
}

TEST_CASE("pages and keys whose answer failed are asked for again") {
  Bench b;
  b.machine.on_subscribed(b.now);
  b.answer(b.expect(Kind::tail), nil());
  b.answer(b.expect(Kind::scan), array({text("0"), array({text("{c}:nodes:a")})}));
  b.fail(b.expect(Kind::load), Errc::timeout);
  b.now += 20ms;
  b.answer(b.expect(Kind::load), array({text("1")}));
  b.answer(b.expect(Kind::catch_up), array({}));
  b.answer(b.expect(Kind::tail), nil());
  b.notify(R"({"type":"node","id":"b"})");
  b.fail(b.expect(Kind::fetch), Errc::timeout);
  b.now += 20ms;
  CHECK(b.expect(Kind::fetch).words.back() == "{c}:nodes:b");
}
