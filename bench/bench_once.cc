// Creating once: thirty-two clients all want the same two hundred things. Also the cost of
// attaching to an existing one, compared with a bare GET on the same server in the same run.
#include "bench_primitives.h"
#include "measure.h"
#include "primitives/once/once.h"
#include "proof/testkit/run.h"
#include "proof/testkit/servers/redis_server.h"
#include "report.h"

namespace warren::bench {

namespace {

constexpr int clients = 32;
constexpr int things = 200;
constexpr int things_at_a_time = 8;
constexpr int lookups = 20'000;

struct Member {
  std::unique_ptr<redis::Client> client;
  std::unique_ptr<Once> once;
};

struct Tally {
  int creations = 0;
  std::map<std::string, Clock::time_point> made;
  std::vector<double> attach_ms;
};

Async<OnceLeft> create(OnceClaim& claim, Tally& tally) {
  ++tally.creations;
  co_await sleep_for(20ms);
  tally.made[claim.name()] = Clock::now();
  OnceLeft left{.status = "created", .bytes = std::string(300, 'x')};
  co_return left;
}

Async<> want(Once& once, std::string name, Tally& tally) {
  OnceWork work = [&tally](OnceClaim& claim) { return create(claim, tally); };
  auto outcome = co_await once.obtain(name, std::move(work), Clock::now() + 60s);
  if (!outcome) co_return std::unexpected(outcome.error());
  if (outcome->how == OnceHow::attached)
    tally.attach_ms.push_back(seconds_since(tally.made[name]) * 1e3);
  co_return ok;
}

awaitable<void> want_all(std::vector<Member>& members, Tally& tally) {
  for (int first = 0; first < things; first += things_at_a_time) {
    TaskGroup group(members[0].client->executor());
    for (int thing = first; thing < first + things_at_a_time; ++thing)
      for (auto& member : members)
        group.start("client", want(*member.once, fmt::format("thing-{}", thing), tally));
    co_await group.join();
  }
}

awaitable<void> look_up(Member& member, std::vector<double>& ours, std::vector<double>& bare) {
  OnceWork none = [](OnceClaim&) -> Async<OnceLeft> { co_return OnceLeft{}; };
  for (int i = 0; i < lookups; ++i) {
    auto name = fmt::format("thing-{}", i % things);
    auto start = Clock::now();
    auto outcome = co_await member.once->obtain(name, none, start + 60s);
    ours.push_back(seconds_since(start) * 1e6);
    ensure(outcome && outcome->how == OnceHow::attached, "it is there");
    start = Clock::now();
    auto seen = co_await member.client->command(redis::Command("GET", "bench:resource:" + name));
    bare.push_back(seconds_since(start) * 1e6);
    ensure(seen && seen->text.size() == 300, "its text is there");
  }
}

awaitable<void> measure(RedisServer& server) {
  auto executor = co_await asio::this_coro::executor;
  redis::Settings settings;
  settings.addresses = {{"127.0.0.1", server.port(), ""}};
  OnceTerms terms;
  terms.prefix = "bench:";
  terms.show = [](const OnceView& view) { return std::string(view.bytes); };
  std::vector<Member> members;
  for (int i = 0; i < clients; ++i) {
    auto client = redis::Client::create(executor, settings);
    ensure(client.has_value(), "a client");
    members.push_back({std::move(*client), nullptr});
    members.back().once = std::make_unique<Once>(*members.back().client, terms);
  }
  Tally tally;
  co_await want_all(members, tally);
  std::vector<double> ours, bare;
  co_await look_up(members[0], ours, bare);
  print({.bench = "primitives.once.creations.200",
         .value = double(tally.creations),
         .unit = "creations",
         .bar = things,
         .better = Better::lower});
  print({.bench = "primitives.once.attach.p99",
         .value = percentile_99(tally.attach_ms),
         .unit = "ms",
         .bar = 10,
         .better = Better::lower});
  print({.bench = "primitives.once.existing.p50",
         .value = median(ours),
         .unit = "us",
         .peer = "GET",
         .peer_value = median(bare),
         .better = Better::lower,
         .p99 = percentile_99(ours),
         .peer_p99 = percentile_99(bare)});
  for (auto& member : members) co_await member.once->close();
  for (auto& member : members) co_await member.client->close();
}

}  // namespace

void bench_once() {
  RedisServer server;
  pin(server.pid(), 0);
  run(measure(server), 600s);
}

}  // namespace warren::bench
