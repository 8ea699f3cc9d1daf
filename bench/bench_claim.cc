// Claiming rows of a catalog, compared with a bare compare-and-set of the same engine, both
// durable.
//
// 50,000 rows and 200 claimers. Each has a session and, like a node, its own connection (on etcd
// all share one, because gRPC works that way). Each claims one free row after the other as fast as
// it can, without competition. The bare side compares one value and sets it, and does nothing else:
// no epoch, no lease, no order of offers, no change that is reported. Both take turns in one run.
#include "bench_fleet.h"
#include "measure.h"
#include "primitives/catalog/etcd.h"
#include "primitives/catalog/etcd/client.h"
#include "primitives/catalog/etcd/txn.h"
#include "primitives/catalog/pg_pool.h"
#include "primitives/catalog/postgres.h"
#include "primitives/catalog/redis.h"
#include "proof/testkit/run.h"
#include "proof/testkit/servers/etcd_server.h"
#include "proof/testkit/servers/postgres_server.h"
#include "proof/testkit/servers/redis_server.h"
#include "report.h"

namespace warren::bench {

namespace {

constexpr int rows = 50'000;
constexpr int claimers = 200;
constexpr int rounds = 7;
constexpr int claims_per_round = 2'000;  // by all claimers together, on free rows

Clock::time_point soon() { return Clock::now() + 120s; }

std::string key_of(int row) { return fmt::format("github.com/example/repository-{:05}#0", row); }

// As long as the spec of a real row in a fleet.
std::string spec_of(int row) {
  return fmt::format(R"({{"url":"https://github.com/example/repository-{:05}.git","refs":["HEAD"],)"
                     R"("priority":0,"replicas":1,"pinned":false}})",
                     row);
}

template <class T>
T must(Result<T> result) {
  ensure(result.has_value(), result ? "" : result.error().what.c_str());
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

// Both sides on one engine. Every row is wanted by one caller only.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual awaitable<void> open() = 0;
  virtual Catalog& catalog(int claimer) = 0;
  // Called before a round: learns of the rows to claim, as a node does.
  virtual awaitable<void> look(int first, int last) = 0;
  virtual Async<> swap(int claimer, int row, std::string session) = 0;
  virtual awaitable<void> close() = 0;
};

constexpr const char* bare_swap = R"(
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1)";

class OnRedis final : public Engine {
 public:
  awaitable<void> open() override {
    auto executor = co_await asio::this_coro::executor;
    redis::Settings settings;
    settings.addresses = {{"127.0.0.1", server_.port(), ""}};
    for (int i = 0; i < claimers; ++i) {
      clients_.push_back(must(redis::Client::create(executor, settings)));
      catalogs_.push_back(std::make_unique<RedisCatalog>(*clients_.back(), "fleet"));
      bare_.push_back(must(redis::Client::create(executor, settings)));
    }
    for (int i = 0; i < rows; i += 500) {
      std::vector<redis::Command> sets;
      for (int k = i; k < i + 500; ++k) sets.emplace_back("SET", "bare:" + key_of(k), spec_of(k));
      auto done = co_await bare_[0]->batch(std::move(sets));
      for (auto& set : done) must(std::move(set));
    }
  }
  Catalog& catalog(int claimer) override { return *catalogs_[std::size_t(claimer)]; }
  awaitable<void> look(int, int) override { co_return; }
  Async<> swap(int claimer, int row, std::string session) override {
    std::vector<std::string> keys{"bare:" + key_of(row)};
    std::vector<std::string> args{spec_of(row), session + spec_of(row)};
    auto options = redis::CallOptions().by(soon()).idempotent();
    auto swapped = co_await bare_[std::size_t(claimer)]->run(script_, std::move(keys),
                                                             std::move(args), options);
    if (!swapped) co_return std::unexpected(swapped.error());
    if (swapped->number != 1) co_return fail(Errc::held_elsewhere, "another value");
    co_return ok;
  }
  awaitable<void> close() override {
    for (auto& catalog : catalogs_) co_await catalog->close();
    for (auto& client : clients_) co_await client->close();
    for (auto& client : bare_) co_await client->close();
  }

 private:
  RedisServer server_{{.appendonly = true, .config = {"appendfsync always"}}};
  redis::Script script_{"bare_swap", bare_swap};
  std::vector<std::unique_ptr<redis::Client>> clients_, bare_;
  std::vector<std::unique_ptr<RedisCatalog>> catalogs_;
};

class OnPostgres final : public Engine {
 public:
  awaitable<void> open() override {
    auto executor = co_await asio::this_coro::executor;
    server_.query(
        "CREATE TABLE bare (key text PRIMARY KEY, owner text, epoch bigint NOT NULL, spec text);"
        "GRANT ALL ON bare TO warren");
    for (int i = 0; i < claimers; ++i) {
      catalogs_.push_back(
          must(co_await PostgresCatalog::open(executor, server_.url(), "fleet", soon(), 1)));
      bare_.push_back(std::make_unique<pg::Pool>(executor, at_, 1));
    }
    std::string values;
    for (int i = 0; i < rows; ++i)
      values += fmt::format("{}('{}', NULL, 0, '{}')", i == 0 ? "" : ",", key_of(i), spec_of(i));
    must(co_await bare_[0]->execute("INSERT INTO bare VALUES " + values, soon()));
  }
  Catalog& catalog(int claimer) override { return *catalogs_[std::size_t(claimer)]; }
  awaitable<void> look(int, int) override {
    if (std::exchange(has_looked_, true)) co_return;
    server_.query("VACUUM ANALYZE");
  }
  Async<> swap(int claimer, int row, std::string session) override {
    pg::Parameters parameters{key_of(row), std::move(session)};
    auto swapped = co_await bare_[std::size_t(claimer)]->run(swap_, std::move(parameters),
                                                             pg::Effect::writes, soon());
    if (!swapped) co_return std::unexpected(swapped.error());
    if (swapped->size() != 1) co_return fail(Errc::held_elsewhere, "another owner");
    co_return ok;
  }
  awaitable<void> close() override {
    for (auto& catalog : catalogs_) co_await catalog->close();
    catalogs_.clear();
    bare_.clear();
  }

 private:
  PostgresServer server_{
      {.fsync = true, .config = {"max_connections = 450", "synchronous_commit = on"}}};
  pg::Server at_ = must(pg::Server::parse(server_.url()));
  pg::Statement swap_{"bare_swap",
                      "UPDATE bare SET owner = $2, epoch = epoch + 1 "
                      "WHERE key = $1 AND owner IS NULL RETURNING epoch"};
  std::vector<std::unique_ptr<Catalog>> catalogs_;
  std::vector<std::unique_ptr<pg::Pool>> bare_;
  bool has_looked_ = false;
};

class OnEtcd final : public Engine {
 public:
  awaitable<void> open() override {
    auto executor = co_await asio::this_coro::executor;
    catalog_ = must(co_await EtcdCatalog::open(executor, server_.url(), "fleet", soon()));
    bare_ = must(etcd::Client::create(must(etcd::parse_url(server_.url()))));
    for (int i = 0; i < rows;) {
      etcd::Txn txn;
      auto first = i;
      for (; i < rows && i - first < 120; ++i) txn.put("bare/" + key_of(i), spec_of(i));
      auto put = must(co_await bare_->txn(std::move(txn.request), soon()));
      revisions_.resize(std::size_t(i), put.header().revision());
    }
  }
  Catalog& catalog(int) override { return *catalog_; }
  // Reads the offers once and then claims them, as a node does.
  awaitable<void> look(int first, int last) override {
    auto offered = must(co_await catalog_->claimable(std::size_t(last - first), soon()));
    ensure(offered.front().key == key_of(first), "rows are claimed in their order");
  }
  Async<> swap(int, int row, std::string session) override {
    etcd::Txn txn;
    txn.if_unchanged("bare/" + key_of(row), revisions_[std::size_t(row)]);
    txn.put("bare/" + key_of(row), session + spec_of(row));
    auto swapped = co_await bare_->txn(std::move(txn.request), soon());
    if (!swapped) co_return std::unexpected(swapped.error());
    if (!swapped->succeeded()) co_return fail(Errc::held_elsewhere, "another revision");
    co_return ok;
  }
  awaitable<void> close() override { co_await catalog_->close(); }

 private:
  EtcdServer server_;
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<etcd::Client> bare_;
  std::vector<std::int64_t> revisions_;
};

// The rows that claimers take one after the other.
struct Race {
  Engine& engine;
  std::vector<NodeSession>& sessions;
  int next, last;
  bool is_bare;
  std::vector<double> times_us = {};
};

awaitable<void> claim_in_turn(Race& race, int claimer) {
  auto session = race.sessions[std::size_t(claimer)];
  while (race.next < race.last) {
    auto row = race.next++;
    auto begin = Clock::now();
    if (race.is_bare)
      must(co_await race.engine.swap(claimer, row, session));
    else
      must(co_await race.engine.catalog(claimer).claim(session, key_of(row), soon()));
    race.times_us.push_back(seconds_since(begin) * 1e6);
  }
}

awaitable<std::vector<double>> run_race(Engine& engine, std::vector<NodeSession>& sessions,
                                        int first, int last, bool is_bare) {
  Race race{engine, sessions, first, last, is_bare};
  TaskGroup tasks(co_await asio::this_coro::executor);
  for (int i = 0; i < claimers; ++i) tasks.start("bench.claim", claim_in_turn(race, i));
  co_await tasks.join();
  co_return std::move(race.times_us);
}

// The request that a node sends once a second: the best rows on offer, out of all that the races
// left.
awaitable<void> measure_looks(Engine& engine, std::string name) {
  constexpr int looks = 100, most = 64;
  std::vector<double> times_us;
  for (int i = -1; i < looks; ++i) {
    auto begin = Clock::now();
    auto offered = must(co_await engine.catalog(0).claimable(most, soon()));
    ensure(offered.size() == most, "there are more rows on offer than a node asks for");
    if (i >= 0) times_us.push_back(seconds_since(begin) * 1e6);  // the first records changes
  }
  print({.bench = fmt::format("fleet.look.{}.p50", name),
         .value = median(times_us),
         .unit = "us",
         .p99 = percentile_99(times_us)});
}

awaitable<void> measure(Engine& engine, std::string name) {
  co_await engine.open();
  std::vector<warren::Row> all;
  for (int i = 0; i < rows; ++i) all.push_back({.key = key_of(i), .spec = spec_of(i)});
  must(co_await engine.catalog(0).add(std::move(all), soon()));
  std::vector<NodeSession> sessions;
  for (int i = 0; i < claimers; ++i)
    sessions.push_back(
        must(co_await engine.catalog(i).join(fmt::format("n{:03}", i), "{}", 1h, soon())));

  std::vector<double> ours, bare, all_ours, all_bare;
  for (int round = -1; round < rounds; ++round) {
    auto first = (round + 1) * claims_per_round, last = first + claims_per_round;
    co_await engine.look(first, last);
    auto our_times = co_await run_race(engine, sessions, first, last, false);
    auto bare_times = co_await run_race(engine, sessions, first, last, true);
    if (round < 0) continue;  // to connect, and to send scripts and statements
    ours.push_back(median(our_times));
    bare.push_back(median(bare_times));
    all_ours.insert(all_ours.end(), our_times.begin(), our_times.end());
    all_bare.insert(all_bare.end(), bare_times.begin(), bare_times.end());
    fmt::print(stderr, "{} round {}: {:.0f} us, bare {:.0f} us, ratio {:.2f}\n", name, round,
               ours.back(), bare.back(), ours.back() / bare.back());
  }
  print({.bench = fmt::format("fleet.claim.{}.p50", name),
         .value = median(ours),
         .unit = "us",
         .peer = "bare compare-and-set",
         .peer_value = median(bare),
         .bar = 1.5,
         .better = Better::lower,
         .p99 = percentile_99(all_ours),
         .peer_p99 = percentile_99(all_bare)});
  co_await measure_looks(engine, name);
  co_await engine.close();
}

template <class On>
void bench_claims_on(const char* name) {
  On engine;
  run(measure(engine, name), 600s);
}

}  // namespace

void bench_claims(std::string_view engine) {
  if (engine.empty() || engine == "redis") bench_claims_on<OnRedis>("redis");
  if (engine.empty() || engine == "postgres") bench_claims_on<OnPostgres>("postgres");
  if (engine.empty() || engine == "etcd") bench_claims_on<OnEtcd>("etcd");
}

}  // namespace warren::bench
