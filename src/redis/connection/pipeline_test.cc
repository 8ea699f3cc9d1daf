#include "redis/connection/pipeline.h"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <optional>
#include <random>

using namespace warren;
using namespace warren::redis;

namespace {

struct Owner final : PipelineOwner {
  void on_refused(Call& call, Reply error) override {
    refused.push_back(error.text);
    call.complete(fail(Errc::refused, "{}", error.text));
  }
  void on_push(Reply push) override { pushes.push_back(to_string(push)); }
  Error why_waiting() const override { return {Errc::unavailable, "nobody is there"}; }
  std::vector<std::string> refused, pushes;
};

struct TestCall : Call {
  explicit TestCall(std::string word, CallOptions options = CallOptions().by(later()))
      : Call(Command(word), options) {}
  TestCall(Command command, CallOptions options) : Call(std::move(command), options) {}
  void complete(Result<Reply> result) override {
    ++completions;
    if (result)
      answer = to_string(*result);
    else
      error = result.error().code;
    if (then) then();
  }
  static Clock::time_point later() { return Clock::time_point(1h); }
  std::string answer;
  std::optional<Errc> error;
  int completions = 0;
  std::function<void()> then;
};

// A connection controlled by the test: it sees what was written and chooses the answers.
struct Wire {
  explicit Wire(PipelineLimits limits = {}) : pipeline(owner, limits) {}
  ~Wire() {
    pipeline.on_disconnect({Errc::unavailable, "over"});
    pipeline.fail_waiting({Errc::cancelled, "over"}, Pipeline::Whom::all);
  }
  std::string write_all() {
    std::string all;
    for (auto bytes = pipeline.to_write(now); !bytes.empty(); bytes = pipeline.to_write(now)) {
      all += bytes;
      pipeline.wrote(bytes.size());
    }
    return all;
  }
  Result<> answer(std::string_view bytes) {
    while (!bytes.empty()) {
      auto space = pipeline.read_space();
      auto size = std::min(space.size(), bytes.size());
      std::memcpy(space.data(), bytes.data(), size);
      bytes.remove_prefix(size);
      auto received = pipeline.received(size, now);
      if (!received) return received;
    }
    return ok;
  }
  Owner owner;
  Pipeline pipeline;
  Clock::time_point now{1min};
};

}  // namespace

TEST_CASE("answers go to the callers in the order of their questions") {
  Wire wire;
  TestCall a("A"), b("B"), c("C");
  for (auto* call : {&a, &b, &c}) REQUIRE(wire.pipeline.submit(*call));
  CHECK(wire.write_all() == "*1\r\n$1\r\nA\r\n*1\r\n$1\r\nB\r\n*1\r\n$1\r\nC\r\n");
  REQUIRE(wire.answer("+1\r\n+2\r\n+3"));
  CHECK(a.answer == "1");
  CHECK(b.answer == "2");
  CHECK(c.completions == 0);
  REQUIRE(wire.answer("\r\n"));
  CHECK(c.answer == "3");
}

TEST_CASE("a caller that leaves takes nobody else's answer with it") {
  Wire wire;
  TestCall first("A"), last("C");
  REQUIRE(wire.pipeline.submit(first));
  {
    TestCall impatient("B");
    REQUIRE(wire.pipeline.submit(impatient));
    REQUIRE(wire.pipeline.submit(last));
    wire.write_all();
  }  // its frame is gone; its answer has yet to come
  REQUIRE(wire.answer("+1\r\n+2\r\n+3\r\n"));
  CHECK(first.answer == "1");
  CHECK(last.answer == "3");
}

TEST_CASE("a caller that leaves before its command was sent leaves no trace of it") {
  Wire wire;
  TestCall a("A"), b("B");
  REQUIRE(wire.pipeline.submit(a));
  REQUIRE(wire.pipeline.submit(b));
  a.leave();
  CHECK(wire.write_all() == "*1\r\n$1\r\nB\r\n");
}

TEST_CASE(
    "what was sent and not answered in time has an unknown outcome, unless it is idempotent") {
  Wire wire;
  auto soon = CallOptions().by(wire.now + 1s);
  TestCall risky("A", soon), harmless("B", soon.idempotent()), patient("C");
  for (auto* call : {&risky, &harmless, &patient}) REQUIRE(wire.pipeline.submit(*call));
  wire.write_all();
  CHECK(wire.pipeline.wake_at() == wire.now + 1s);
  wire.pipeline.on_time(wire.now + 999ms);
  CHECK(risky.completions == 0);
  wire.pipeline.on_time(wire.now + 1s);
  CHECK(risky.error == Errc::unknown_outcome);
  CHECK(harmless.error == Errc::unknown_outcome);
  CHECK(patient.completions == 0);
  CHECK(wire.pipeline.wake_at() == TestCall::later());
  REQUIRE(wire.answer("+1\r\n+2\r\n+3\r\n"));
  CHECK(patient.answer == "3");
}

TEST_CASE("what was never sent is known not to have run, and says why it could not be sent") {
  Wire wire;
  TestCall call("A", CallOptions().by(wire.now + 1s));
  REQUIRE(wire.pipeline.submit(call));
  wire.pipeline.on_time(wire.now + 1s);
  CHECK(call.error == Errc::unavailable);
  CHECK(wire.write_all().empty());
}

TEST_CASE("after a broken connection only what is safe to send again is sent again, in order") {
  Wire wire;
  TestCall sent("A"), again("B", CallOptions().by(TestCall::later()).idempotent()), unsent("C");
  REQUIRE(wire.pipeline.submit(sent));
  REQUIRE(wire.pipeline.submit(again));
  wire.write_all();
  REQUIRE(wire.pipeline.submit(unsent));
  REQUIRE(wire.answer("+par"));  // half an answer of the old connection must not leak into the new
  wire.pipeline.on_disconnect({Errc::unavailable, "cut"});
  CHECK(sent.error == Errc::unknown_outcome);
  CHECK(again.completions == 0);
  CHECK(wire.write_all() == "*1\r\n$1\r\nB\r\n*1\r\n$1\r\nC\r\n");
  REQUIRE(wire.answer("+2\r\n+3\r\n"));
  CHECK(again.answer == "2");
  CHECK(unsent.answer == "3");
}

TEST_CASE("what was still in our own buffer when the connection broke was not sent") {
  Wire wire;
  TestCall sent("A"), half("B"), unsent("C");
  for (auto* call : {&sent, &half, &unsent}) REQUIRE(wire.pipeline.submit(*call));
  auto bytes = wire.pipeline.to_write(wire.now);
  wire.pipeline.wrote(bytes.size() / 2);
  wire.pipeline.on_disconnect({Errc::unavailable, "cut"});
  CHECK(sent.error == Errc::unknown_outcome);
  CHECK(half.error == Errc::unknown_outcome);
  CHECK(unsent.completions == 0);
  CHECK(wire.write_all() == "*1\r\n$1\r\nC\r\n");
}

TEST_CASE("a call that was sent once never claims that nothing was done") {
  Wire wire;
  auto soon = CallOptions().by(wire.now + 1s).idempotent();
  TestCall call("A", soon);
  REQUIRE(wire.pipeline.submit(call));
  wire.write_all();
  wire.pipeline.on_disconnect({Errc::unavailable, "cut"});  // it waits to be sent again
  wire.pipeline.on_time(wire.now + 1s);
  CHECK(call.error == Errc::unknown_outcome);
}

TEST_CASE("a call that is late is not sent any more") {
  Wire wire;
  TestCall late("A", CallOptions().by(wire.now)), next("B");
  REQUIRE(wire.pipeline.submit(late));
  REQUIRE(wire.pipeline.submit(next));
  CHECK(wire.write_all() == "*1\r\n$1\r\nB\r\n");
  wire.pipeline.on_time(wire.now);
  CHECK(late.error == Errc::unavailable);
}

TEST_CASE("over the bounds a call is refused at once, and is taken again when there is room") {
  Wire wire({.calls = 2, .bytes = 1000});
  TestCall a("A"), b("B"), c("C"), large(std::string(2000, 'x'));
  REQUIRE(wire.pipeline.submit(a));
  auto too_large = wire.pipeline.submit(large);
  REQUIRE(!too_large);
  CHECK(too_large.error().code == Errc::overloaded);
  REQUIRE(wire.pipeline.submit(b));
  auto too_many = wire.pipeline.submit(c);
  REQUIRE(!too_many);
  CHECK(too_many.error().code == Errc::overloaded);
  wire.write_all();
  REQUIRE(wire.answer("+1\r\n"));
  CHECK(wire.pipeline.submit(c));
}

TEST_CASE("a caller that leaves keeps its place until the answer came: the server is still busy") {
  Wire wire({.calls = 1, .bytes = 1000});
  {
    TestCall gone("A");
    REQUIRE(wire.pipeline.submit(gone));
    wire.write_all();
  }
  TestCall next("B");
  CHECK(!wire.pipeline.submit(next));
  REQUIRE(wire.answer("+1\r\n"));
  CHECK(wire.pipeline.submit(next));
}

TEST_CASE("an answer that nobody asked for ends the connection") {
  Wire wire;
  auto received = wire.answer("+surprise\r\n");
  REQUIRE(!received);
  CHECK(received.error().code == Errc::protocol);
}

TEST_CASE("a push is nobody's answer") {
  Wire wire;
  TestCall call("A");
  REQUIRE(wire.pipeline.submit(call));
  wire.write_all();
  REQUIRE(wire.answer(">2\r\n+invalidate\r\n:1\r\n+mine\r\n"));
  CHECK(wire.owner.pushes.size() == 1);
  CHECK(call.answer == "mine");
}

TEST_CASE("of a transaction the caller gets the last answer, or the first error") {
  Wire wire;
  std::vector<Command> one;
  one.emplace_back("INCR", "a");
  auto options = CallOptions().by(TestCall::later());
  TestCall good(Command::transaction(one), options), bad(Command::transaction(one), options);
  REQUIRE(wire.pipeline.submit(good));
  REQUIRE(wire.pipeline.submit(bad));
  wire.write_all();
  REQUIRE(wire.answer("+OK\r\n+QUEUED\r\n*1\r\n:7\r\n"));
  CHECK(good.answer == "[7]");
  REQUIRE(wire.answer("+OK\r\n-MOVED 1 a:1\r\n-EXECABORT because of previous errors\r\n"));
  CHECK(wire.owner.refused == std::vector<std::string>{"MOVED 1 a:1"});
}

TEST_CASE("a call that is asked to announce itself does so in the same write") {
  Wire wire;
  TestCall call("A");
  call.detours().asking = true;
  REQUIRE(wire.pipeline.submit(call));
  CHECK(wire.write_all() == "*1\r\n$6\r\nASKING\r\n*1\r\n$1\r\nA\r\n");
  REQUIRE(wire.answer("+OK\r\n+mine\r\n"));
  CHECK(call.answer == "mine");
}

TEST_CASE("a completed caller may ask again, or take others with it, from inside its completion") {
  Wire wire;
  TestCall again("AGAIN");
  auto victim = std::make_unique<TestCall>("VICTIM");
  TestCall first("FIRST"), last("LAST");
  for (auto* call : {&first, victim.get(), &last}) REQUIRE(wire.pipeline.submit(*call));
  wire.write_all();
  first.then = [&] {
    CHECK(wire.pipeline.submit(again));
    victim.reset();
  };
  REQUIRE(wire.answer("+1\r\n+2\r\n+3\r\n"));
  CHECK(last.answer == "3");
  CHECK(wire.write_all() == "*1\r\n$5\r\nAGAIN\r\n");

  SUBCASE("also when time runs out") {
    TestCall late_a("A", CallOptions().by(wire.now));
    auto late_b = std::make_unique<TestCall>("B", CallOptions().by(wire.now));
    REQUIRE(wire.pipeline.submit(late_a));
    REQUIRE(wire.pipeline.submit(*late_b));
    late_a.then = [&] { late_b.reset(); };
    wire.pipeline.on_time(wire.now);
    CHECK(late_a.completions == 1);
    CHECK(wire.pipeline.waiting() == 0);
  }
  SUBCASE("also when the connection breaks") {
    TestCall broken_a("A");
    auto broken_b = std::make_unique<TestCall>("B");
    REQUIRE(wire.pipeline.submit(broken_a));
    REQUIRE(wire.pipeline.submit(*broken_b));
    wire.write_all();
    broken_a.then = [&] { broken_b.reset(); };
    wire.pipeline.on_disconnect({Errc::unavailable, "cut"});
    CHECK(broken_a.completions == 1);
    CHECK(wire.pipeline.in_flight() == 0);
  }
}

TEST_CASE("a slow socket does not turn waiting calls into bytes that cannot be taken back") {
  Wire wire;
  std::vector<std::unique_ptr<TestCall>> calls;
  for (int i = 0; i < 100; ++i) {
    calls.push_back(std::make_unique<TestCall>(std::string(10'000, 'x')));
    REQUIRE(wire.pipeline.submit(*calls.back()));
  }
  auto portion = wire.pipeline.to_write(wire.now);
  CHECK(portion.size() < 100'000);
  CHECK(wire.pipeline.waiting() > 90);
}

TEST_CASE(
    "the server owes an answer until it gives one, or a good part of one, whatever else it says") {
  Wire wire;
  TestCall call("A"), next("B");
  REQUIRE(wire.pipeline.submit(call));
  wire.write_all();
  auto asked = wire.now;
  CHECK(wire.pipeline.busy_since() == asked);
  wire.now += 1s;
  REQUIRE(wire.answer(">1\r\n+x\r\n*2\r\n"));
  CHECK(wire.pipeline.busy_since() == asked);
  std::string push = ">20000\r\n";
  for (int i = 0; i < 20'000; ++i) push += "|0\r\n:1\r\n";
  SUBCASE("a good part of one") {
    REQUIRE(wire.answer("$100000\r\n" + std::string(70'000, 'x')));
    CHECK(wire.pipeline.busy_since() == wire.now);
  }
  SUBCASE("all of it") {
    REQUIRE(wire.answer(":1\r\n:2\r\n"));
    CHECK(wire.pipeline.busy_since() == wire.now);
    REQUIRE(wire.pipeline.submit(next));
    wire.write_all();
    wire.now += 1s;
    REQUIRE(wire.answer(push));
    CHECK(wire.pipeline.busy_since() == wire.now - 1s);
  }
}

TEST_CASE(
    "an answer that nobody waits for may be large or slow; one without an end ends the link") {
  Wire wire;
  {
    TestCall gone("A");
    REQUIRE(wire.pipeline.submit(gone));
    wire.write_all();
  }
  TestCall behind("B");
  REQUIRE(wire.pipeline.submit(behind));
  wire.write_all();
  const std::string part(700'000, 'x');
  REQUIRE(wire.answer("$4200000\r\n"));
  SUBCASE("large, and fast") {
    for (int i = 0; i < 6; ++i) REQUIRE(wire.answer(part));
    REQUIRE(wire.answer("\r\n+mine\r\n"));
    CHECK(behind.answer == "mine");
  }
  SUBCASE("slow, and small") {
    wire.now += 1h;
    REQUIRE(wire.answer(part));
  }
  SUBCASE("both") {
    REQUIRE(wire.answer(part));
    wire.now += 2s;
    auto received = wire.answer(part);
    REQUIRE(!received);
    CHECK(received.error().code == Errc::unavailable);
  }
}

TEST_CASE("no turn takes more than 256 KiB, however much there is") {
  Wire wire;
  TestCall call("A");
  REQUIRE(wire.pipeline.submit(call));
  wire.write_all();
  REQUIRE(wire.answer("$100000000\r\n" + std::string(3'000'000, 'x')));
  CHECK(wire.pipeline.read_space().size() == Pipeline::turn_bytes);
}

TEST_CASE("callers come, leave, time out and lose connections at random: each ends exactly once") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    auto dice = [&](unsigned n) { return random() % n == 0; };
    Wire wire({.calls = 50, .bytes = 100'000});
    std::vector<std::unique_ptr<TestCall>> calls;
    std::vector<std::string> asked;  // what the server still has to answer on this connection
    std::size_t ended = 0;
    for (int step = 0; step < 300; ++step) {
      if (dice(2)) {
        auto options = CallOptions().by(wire.now + std::chrono::milliseconds(random() % 50));
        if (dice(2)) options = options.idempotent();
        auto call = std::make_unique<TestCall>(fmt::format("C{}", step), options);
        if (wire.pipeline.submit(*call)) calls.push_back(std::move(call));
      }
      if (dice(3)) {
        auto bytes = wire.write_all();
        for (std::size_t at = 0; (at = bytes.find("\r\nC", at)) != bytes.npos; at += 3)
          asked.push_back(bytes.substr(at + 2, bytes.find("\r\n", at + 2) - at - 2));
      }
      if (dice(3) && !asked.empty()) {
        REQUIRE(wire.answer("+" + asked.front() + "\r\n"));
        asked.erase(asked.begin());
      }
      if (dice(20) && !calls.empty()) calls.erase(calls.begin() + random() % calls.size());
      if (dice(40)) {
        wire.pipeline.on_disconnect({Errc::unavailable, "cut"});
        asked.clear();
      }
      if (dice(4)) wire.now += 5ms;
      if (wire.pipeline.wake_at() <= wire.now) wire.pipeline.on_time(wire.now);
      for (const auto& call : calls) {
        REQUIRE(call->completions <= 1);
        if (!call->answer.empty()) REQUIRE(call->answer == call->command().word(0));
        if (call->completions == 0) REQUIRE(call->deadline() > wire.now);
      }
      ended += std::erase_if(calls, [](const auto& call) { return call->completions == 1; });
    }
    CHECK(ended > 0);
    wire.pipeline.on_disconnect({Errc::unavailable, "over"});
    wire.pipeline.fail_waiting({Errc::cancelled, "over"}, Pipeline::Whom::all);
    for (const auto& call : calls) CHECK(call->completions == 1);
  }
}
