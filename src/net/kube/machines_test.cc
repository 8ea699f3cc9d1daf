#include <doctest/doctest.h>

#include "net/kube/credentials.h"
#include "net/kube/lease.h"
#include "net/kube/rate.h"
#include "net/kube/watch_machine.h"

using namespace warren;
using namespace warren::kube;
using Step = WatchMachine::Step;

namespace {

constexpr Clock::time_point start{std::chrono::hours(24)};

Failure expired() { return failure_of(410, "", "", false); }
Failure cut() { return Error{Errc::unknown_outcome, "the line was cut"}; }

}  // namespace

TEST_CASE("a watch goes on from the last version, also from that of a bookmark") {
  WatchMachine machine({.streams = false});
  auto now = start;
  CHECK(machine.next(now).kind == Step::list);
  CHECK(!machine.is_synced());
  machine.on_listed(now, "10");
  CHECK(machine.is_synced());
  CHECK(machine.next(now).version == "10");
  machine.on_began(now);
  machine.on_change("12");
  now += 5min;
  machine.on_ended(now, 0);
  CHECK(machine.next(now).kind == Step::watch);
  CHECK(machine.next(now).version == "12");
}

TEST_CASE("a version that is too old is followed by a list, at once and then after a while") {
  WatchMachine machine({.streams = false});
  auto now = start;
  machine.on_listed(now, "10");
  machine.on_failed(now, expired(), 0);
  CHECK(machine.next(now).kind == Step::list);
  machine.on_failed(now, expired(), 0);
  CHECK(machine.next(now).kind == Step::wait);
  CHECK(machine.wake_at() == now + 800ms);
  CHECK(machine.next(now + 800ms).kind == Step::list);
}

TEST_CASE("tries come later and later, and never end") {
  WatchMachine machine({.streams = false});
  auto now = start;
  machine.on_listed(now, "10");
  Clock::duration waited{};
  for (int i = 0; i < 100; ++i) {
    machine.on_failed(now, cut(), 0.5);
    waited = machine.wake_at() - now;
    now = machine.wake_at();
    CHECK(machine.next(now).version == (now < machine.relist_at() ? "10" : ""));
  }
  CHECK(waited == 45s);
  now += 10min;
  machine.on_failed(now, cut(), 0);
  CHECK(machine.wake_at() == now + 800ms);
}

TEST_CASE("a server that says when to come again is obeyed") {
  WatchMachine machine;
  machine.on_failed(start, failure_of(429, "", "Retry-After: 20\r\n", false), 0);
  CHECK(machine.wake_at() == start + 20s);
}

TEST_CASE("a watch that ends at once and says nothing is not asked for at once again") {
  WatchMachine machine;
  machine.on_listed(start, "10");
  machine.on_began(start);
  machine.on_ended(start + 10ms, 0);
  CHECK(machine.next(start + 10ms).kind == Step::wait);
  auto later = start + 10s;
  machine.on_began(later);
  machine.on_change("11");
  machine.on_ended(later + 10ms, 0);
  CHECK(machine.next(later + 10ms).kind == Step::watch);
}

TEST_CASE("a list that is streamed counts when its end is told, and not before") {
  WatchMachine machine;
  CHECK(machine.next(start).kind == Step::stream_list);
  machine.on_began(start);
  machine.on_change("7");
  machine.on_failed(start, cut(), 0);
  CHECK(!machine.is_synced());
  CHECK(machine.next(start + 1s).kind == Step::stream_list);
  machine.on_began(start + 1s);
  machine.on_change("7");
  machine.on_listed(start + 1s, "9");
  machine.on_change("10");
  machine.on_ended(start + 5min, 0);
  CHECK(machine.next(start + 5min).version == "10");
}

TEST_CASE("a server that cannot stream a list is asked for a plain one") {
  WatchMachine machine;
  machine.on_failed(start, failure_of(422, "", "", false), 0);
  CHECK(machine.next(start).kind == Step::list);
  WatchMachine other;
  other.on_began(start);
  other.on_failed(start, Failure(Error{Errc::timeout, "silent"}), 0);
  CHECK(other.next(start + 1min).kind == Step::list);
}

TEST_CASE("everything is listed anew after a while") {
  WatchMachine machine({.relist = 10min, .streams = false});
  machine.on_listed(start, "10");
  CHECK(machine.next(start + 9min).kind == Step::watch);
  CHECK(machine.next(start + 10min).kind == Step::list);
}

TEST_CASE("so many requests at once, then so many in a second, and none behind its deadline") {
  TokenBucket bucket(10, 3);
  auto now = start;
  for (int i = 0; i < 3; ++i) CHECK(*bucket.take(now, now + 1s) == 0s);
  CHECK(*bucket.take(now, now + 1s) == 100ms);
  CHECK(*bucket.take(now, now + 1s) == 200ms);
  CHECK(!bucket.take(now, now + 250ms));
  CHECK(*bucket.take(now, now + 1s) == 300ms);  // the refused request reserved no turn
  now += 10s;
  for (int i = 0; i < 3; ++i) CHECK(*bucket.take(now, now + 1s) == 0s);
  CHECK(*bucket.take(now, now + 1s) > 0s);
}

TEST_CASE("credentials are read again after a minute, shortly before they end, and when refused") {
  CredentialMachine machine;
  CHECK(machine.wants_load(start));
  CHECK(!machine.has_any());
  machine.on_loaded(start, std::nullopt);
  CHECK(!machine.wants_load(start + 59s));
  CHECK(machine.wants_load(start + 60s));
  machine.on_loaded(start, 15min);
  CHECK(!machine.wants_load(start + 14min));
  CHECK(machine.wants_load(start + 15min - 10s));
  machine.on_loaded(start, 8s);
  CHECK(!machine.wants_load(start + 3s));
  CHECK(machine.wants_load(start + 4s));
  machine.on_loaded(start, 1h);
  CHECK(machine.on_refused(start + 5min));
  CHECK(machine.wants_load(start + 5min));
  machine.on_loaded(start + 5min, 1h);
  CHECK(!machine.on_refused(start + 5min + 10ms));  // just reloaded: its age is not the cause
  machine.on_failed(start + 2h);
  CHECK(!machine.wants_load(start + 2h + 4s));
  CHECK(machine.wants_load(start + 2h + 5s));
}

TEST_CASE("a plugin's answer is a token or a certificate with its key, and says how long") {
  constexpr const char* v1 = "client.authentication.k8s.io/v1";
  auto now = WallClock::from_time_t(1'800'000'000);  // 2027-01-15T08:00:00Z
  auto text = [](const char* status) {
    return fmt::format(
        R"({{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{}}})",
        status);
  };
  auto good = parse_plugin_answer(
      text(R"({"token":"abc","expirationTimestamp":"2027-01-15T08:10:00Z"})"), v1, now);
  REQUIRE_MESSAGE(good, good.error().what);
  CHECK(good->token == "abc");
  CHECK(good->lasts == 10min);
  auto never = parse_plugin_answer(
      text(R"({"token":"abc","expirationTimestamp":"2999-01-01T00:00:00Z"})"), v1, now);
  REQUIRE(never);
  CHECK(never->lasts > std::chrono::hours(24 * 365 * 100));
  auto pair =
      parse_plugin_answer(text(R"({"clientCertificateData":"c","clientKeyData":"k"})"), v1, now);
  REQUIRE(pair);
  CHECK(pair->pair.key == "k");
  CHECK(!pair->lasts);
  for (const char* status : {R"({})", R"({"clientKeyData":"k"})", R"(null)",
                             R"({"token":"hush","expirationTimestamp":"soon"})"}) {
    auto wrong = parse_plugin_answer(text(status), v1, now);
    REQUIRE(!wrong);
    CHECK(wrong.error().code == Errc::protocol);
    CHECK(!wrong.error().what.contains("hush"));
  }
  CHECK(!parse_plugin_answer("no JSON", v1, now));
  CHECK(
      !parse_plugin_answer(text(R"({"token":"a"})"), "client.authentication.k8s.io/v1beta1", now));
}

TEST_CASE("a lease of another is taken after nothing changed for its duration, as we saw it") {
  LeaseMachine machine("me", {.duration = 15s, .renew_within = 10s});
  CHECK(machine.next(start, nullptr) == LeaseMachine::Step::create);
  LeaseRecord record{.holder = "you", .duration = 15s, .epoch = 3, .version = "10"};
  CHECK(machine.next(start, &record) == LeaseMachine::Step::wait);
  CHECK(machine.next(start + 14s, &record) == LeaseMachine::Step::wait);
  record.version = "11";  // it was renewed
  CHECK(machine.next(start + 16s, &record) == LeaseMachine::Step::wait);
  CHECK(machine.next(start + 31s, &record) == LeaseMachine::Step::wait);
  CHECK(machine.next(start + 32s, &record) == LeaseMachine::Step::take);
  record.holder.clear();
  record.version = "12";
  CHECK(machine.next(start + 33s, &record) == LeaseMachine::Step::take);
}

TEST_CASE("a holder stops believing before anybody else may take over") {
  LeaseMachine machine("me", {.duration = 15s, .renew_within = 10s});
  CHECK(!machine.is_held(start));
  machine.on_written(start, 4);
  CHECK(machine.epoch() == 4);
  CHECK(machine.is_held(start + 9s));
  CHECK(!machine.is_held(start + 10s));
  LeaseRecord record{.holder = "me", .duration = 15s, .epoch = 4, .version = "10"};
  CHECK(machine.next(start + 12s, &record) == LeaseMachine::Step::renew);
  machine.on_written(start + 12s, 4);
  CHECK(machine.is_held(start + 13s));
  machine.on_released();
  CHECK(!machine.is_held(start + 13s));
}
