// Two instances of Foghorn as processes, on one Redis, under a swarm of nodes and viewers; then one
// of them is killed, or Redis is, or what is between. Whoever is alive answers every viewer, and
// after each fault both know the same within two seconds.
//
// A short version by default. WARREN_LONG=1: 200 nodes, 5,000 streams, faults of 10 and 30 seconds; and
// 1,000 nodes, 20,000 streams where Redis loses its data.
#include <boost/json.hpp>
#include <cstdlib>

#include "foghorn_swarm.h"
#include "net/http/client.h"
#include "proof/testkit/faulty_link.h"
#include "with_client.h"

using namespace warren;

namespace {

bool is_long() { return std::getenv("WARREN_LONG") != nullptr; }
SwarmTerms swarm_terms() {
  if (!is_long()) return {};
  SwarmTerms terms;
  terms.nodes = 200;
  terms.streams = 5000;
  terms.report_interval = 10s;
  terms.viewers = 16;
  return terms;
}
Clock::duration pause_time() { return is_long() ? 10s : 2s; }
Clock::duration cut_time() { return is_long() ? 30s : 4s; }
// The promise is two seconds. The short version also runs on machines that do much else.
Clock::duration agreement_limit() { return is_long() ? 2s : 10s; }

using Environment = std::vector<std::string>;

// One `foghorn serve`, with ports that it keeps when it is started again.
class Instance {
 public:
  Instance(std::string id, Environment redis) : id_(std::move(id)), redis_(std::move(redis)) {
    start();
  }
  void start() {
    Program program{
        .argv = {WARREN_FOGHORN, "serve", "--listen", "127.0.0.1", "--port",
                 std::to_string(http_.number()), "--grpc-port", std::to_string(grpc_.number())},
        .log = folder_.path() / "log",
        .environment = redis_};
    program.environment.push_back("FOGHORN_INSTANCE_ID=" + id_);
    program.environment.push_back("CLUSTER_ID=abc");
    process_.emplace(program);
  }
  void kill() { process_->kill(); }
  void pause() { process_->pause(); }
  void resume() { process_->resume(); }
  bool alive() { return process_->alive(); }
  void terminate() { process_->terminate(); }
  int wait() { return process_->wait(); }
  std::string url() const { return fmt::format("http://127.0.0.1:{}", http_.number()); }
  std::string log_text() const { return process_->log_text(); }

 private:
  std::string id_;
  Environment redis_;
  Port http_, grpc_;
  TempFolder folder_;
  std::optional<Process> process_;
};

struct Scene {
  std::vector<std::unique_ptr<Instance>>& instances;
  Swarm& swarm;
  TaskGroup& tasks;
};

// What blocks, on another thread: here viewers go on.
awaitable<void> elsewhere(bool (*work)()) {
  asio::thread_pool pool(1);
  CHECK(co_await on_pool(pool, work));
}

Async<boost::json::value> told(std::string url, std::string target) {
  HttpClient client(co_await asio::this_coro::executor, *parse_http_url(url));
  HttpAsk question{"GET", std::move(target)};
  auto reply = co_await client.ask(std::move(question), Clock::now() + 2s);
  if (!reply) co_return std::unexpected(reply.error());
  if (reply->status != 200) co_return fail(Errc::refused, "{}", reply->body);
  co_return boost::json::parse(reply->body);
}

Async<HttpReply> asked(std::string url, std::string method, std::string target,
                       std::string body = "") {
  HttpClient client(co_await asio::this_coro::executor, *parse_http_url(url));
  HttpAsk question{std::move(method), std::move(target), "", std::move(body)};
  auto reply = co_await client.ask(std::move(question), Clock::now() + 10s);
  co_return reply;
}

std::string code_in(const HttpReply& reply) {
  auto said = boost::json::parse(reply.body).as_object();
  return said.contains("code") ? std::string(said.at("code").as_string()) : "";
}

const std::string edge_report =
    R"({"cpu_tenths":100,"ram_max":1000,"ram_current":100,"up_speed":1000,"bw_limit":1000000000,)"
    R"("base_url":"https://edge.example","is_healthy":true,"capabilities":{"edge":true},)"
    R"("outputs":{"HLS":"https://HOST/hls/$/index.m3u8"},)"
    R"("streams":{"demo":{"total":3,"inputs":1,"viewers":3}}})";

// One instance, and whatever the body does with it and its Redis.
void with_one(RedisServer& server, Environment more,
              awaitable<void> (*body)(Instance&, RedisServer&)) {
  more.push_back("REDIS_URL=redis://" + server.address());
  Instance instance("foghorn-1", more);
  auto all = [](Instance& one, RedisServer& redis,
                awaitable<void> (*what)(Instance&, RedisServer&)) -> awaitable<void> {
    co_await what(one, redis);
  };
  run(all(instance, server, body), 90s);
  instance.terminate();
  CHECK_MESSAGE(instance.wait() == 0, instance.log_text());
}

Async<> is_alive(std::string& url) {
  auto health = co_await told(url, "/healthz");
  if (!health) co_return std::unexpected(health.error());
  co_return ok;
}

Async<> is_ready(std::string& url) {
  auto ready = co_await told(url, "/readyz");
  if (!ready) co_return std::unexpected(ready.error());
  co_return ok;
}

Async<> is_healthy(std::string& url) {
  auto health = co_await told(url, "/healthz");
  if (!health) co_return std::unexpected(health.error());
  if (health->at("status") != "healthy") co_return fail(Errc::refused, "{}", serialize(*health));
  co_return ok;
}

// Both say the same of all they know.
Async<> agree(std::string& one, std::string& other) {
  co_await sleep_for(50ms);  // a digest looks at all they know: not too often
  auto first = co_await told(one, "/v1/digest");
  auto second = co_await told(other, "/v1/digest");
  if (!first || !second) co_return fail(Errc::unavailable, "no answer");
  if (first->at("digest") == second->at("digest")) co_return ok;
  co_return fail(Errc::refused, "{} {}", serialize(*first), serialize(*second));
}

awaitable<void> all_agree(Scene& scene, std::string after,
                          Clock::duration limit = agreement_limit()) {
  scene.swarm.hold_reports(true);  // viewers go on
  auto began = Clock::now();
  auto one = scene.instances[0]->url(), other = scene.instances[1]->url();
  co_await eventually(limit, "both know the same after " + after, agree, one, other);
  auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began);
  scene.swarm.hold_reports(false);
  const auto& seen = scene.swarm.counters();
  MESSAGE("after ", after, ": equal after ", took.count(), " ms; viewers answered ", seen.answered,
          ", lost ", seen.lost, ", slowest ",
          std::chrono::duration_cast<std::chrono::milliseconds>(seen.slowest).count(), " ms");
  CHECK_MESSAGE(seen.lost == 0, fmt::format("{}", fmt::join(seen.unanswered, "; ")));
}

awaitable<void> ready(Scene& scene, std::size_t index) {
  auto url = scene.instances[index]->url();
  co_await eventually(30s, "an instance is ready", is_ready, url);
}

awaitable<void> healthy(Scene& scene) {
  for (auto& instance : scene.instances) {
    auto url = instance->url();
    co_await eventually(30s, "an instance hears Redis", is_healthy, url);
  }
}

// The other one answers at once, and the dead one is as good as new when it comes back.
awaitable<void> kill_one(Scene& scene, std::size_t index) {
  scene.swarm.set_alive(index, false);
  scene.instances[index]->kill();
  auto before = scene.swarm.counters().answered;
  co_await sleep_for(is_long() ? 5s : 1s);
  CHECK(scene.swarm.counters().answered > before);
  scene.instances[index]->start();
  co_await ready(scene, index);
  scene.swarm.set_alive(index, true);
  co_await all_agree(scene, fmt::format("the kill of instance {}", index));
}

Async<> begin(TaskGroup& tasks, std::vector<std::unique_ptr<Instance>>& instances,
              SwarmTerms& terms, std::function<awaitable<void>(Scene&)>& body) {
  std::vector<std::string> urls;
  for (auto& instance : instances) urls.push_back(instance->url());
  Swarm swarm(terms, urls);
  Scene scene{instances, swarm, tasks};
  // The tasks use the swarm: they end before it does.
  auto inside = [](TaskGroup& within, Scene& of,
                   std::function<awaitable<void>(Scene&)>& what) -> Async<> {
    for (std::size_t i = 0; i < of.instances.size(); ++i) co_await ready(of, i);
    of.swarm.start_nodes(within);
    co_await eventually(60s, "all nodes have reported", [&of] { return of.swarm.is_complete(); });
    co_await healthy(of);
    co_await all_agree(of, "the start", 30s);  // all there is has just been written
    of.swarm.start_viewers(within);
    co_await eventually(30s, "viewers are answered",
                        [&of] { return of.swarm.counters().answered > 100; });
    co_await what(of);
    co_return ok;
  };
  co_return co_await with_group(inside, scene, body);
}

// Two instances with these variables, and whatever the body does to them.
void with_two(std::vector<Environment> redis, SwarmTerms terms,
              std::function<awaitable<void>(Scene&)> body) {
  std::vector<std::unique_ptr<Instance>> instances;
  for (std::size_t i = 0; i < redis.size(); ++i)
    instances.push_back(std::make_unique<Instance>(fmt::format("foghorn-{}", i + 1), redis[i]));
  auto all = [](std::vector<std::unique_ptr<Instance>>& of, SwarmTerms& how,
                std::function<awaitable<void>(Scene&)>& what) -> awaitable<void> {
    auto done = co_await with_group(begin, of, how, what);
    CHECK(done);
  };
  run(all(instances, terms, body), is_long() ? 600s : 120s);
  for (auto& instance : instances) instance->terminate();
  for (auto& instance : instances) CHECK_MESSAGE(instance->wait() == 0, instance->log_text());
}
void with_two(std::vector<Environment> redis, std::function<awaitable<void>(Scene&)> body) {
  with_two(std::move(redis), swarm_terms(), std::move(body));
}

// Every stream is carried by nodes of one instance: of half of them each knows by the other alone.
SwarmTerms apart_terms() {
  SwarmTerms terms;
  terms.nodes = is_long() ? 1000 : 200;
  terms.streams = is_long() ? 20'000 : 4000;
  terms.holder_step = 14;
  terms.report_interval = 10s;
  terms.asks_in_all_ways = true;
  terms.patience = 5s;  // the machine may be busy, and no answer at all is what counts here
  return terms;
}

// Nodes, streams, and three that carry each; besides them stand a few keys of the instances.
bool is_written_again(RedisServer& redis) {
  auto terms = apart_terms();
  return std::stoll(redis.cli({"DBSIZE"})) > terms.nodes + 4 * terms.streams;
}

// Every viewer got an answer that leads to a node.
void nobody_was_refused(Scene& scene, std::string_view after) {
  const auto& seen = scene.swarm.counters();
  auto statuses = seen.statuses;
  std::string all;
  for (auto [status, count] : statuses) all += fmt::format(" {}: {}", status, count);
  MESSAGE("after ", after, ", answers by status:", all, "; slowest ",
          std::chrono::duration_cast<std::chrono::milliseconds>(seen.slowest).count(), " ms");
  for (unsigned status : {0u, 404u, 500u, 503u}) {
    CAPTURE(status);
    CHECK(statuses[status] == 0);
  }
  CHECK_MESSAGE(seen.lost == 0, fmt::format("{}", fmt::join(seen.unanswered, "; ")));
}

// What Redis lost is written again, and viewers have gone on to ask for a while.
awaitable<void> written_again(Scene& scene, RedisServer& redis, std::string after) {
  auto began = Clock::now();
  co_await eventually(60s, "Redis has all of it", is_written_again, redis);
  auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began);
  MESSAGE("after ", after, ": Redis has all of it after ", took.count(), " ms");
  co_await healthy(scene);
  auto enough = scene.swarm.counters().answered + 1000;
  auto go_on = [](Scene& s, std::size_t& e) { return s.swarm.counters().answered > e; };
  co_await eventually(30s, "viewers go on", go_on, scene, enough);
  nobody_was_refused(scene, after);
}

}  // namespace

TEST_CASE("either instance may be killed: the other answers, and both agree when it is back") {
  RedisServer server;
  Environment redis{"REDIS_URL=redis://" + server.address()};
  with_two({redis, redis}, [](Scene& scene) -> awaitable<void> {
    co_await kill_one(scene, 0);
    co_await kill_one(scene, 1);
  });
}

TEST_CASE("while Redis stands still both answer from memory, and agree when it goes on") {
  static RedisServer* redis = nullptr;
  RedisServer server;
  redis = &server;
  Environment there{"REDIS_URL=redis://" + server.address()};
  with_two({there, there}, [](Scene& scene) -> awaitable<void> {
    redis->pause();
    auto before = scene.swarm.counters().answered;
    co_await sleep_for(pause_time());
    CHECK(scene.swarm.counters().answered > before);
    redis->resume();
    co_await healthy(scene);
    co_await all_agree(scene, "a pause of Redis");
  });
}

TEST_CASE(
    "an instance that is cut off from Redis answers from memory, and agrees when it is back") {
  static FaultyLink* link = nullptr;
  RedisServer server;
  FaultyLink between(server.port());
  link = &between;
  Environment direct{"REDIS_URL=redis://" + server.address()};
  Environment through{fmt::format("REDIS_URL=redis://127.0.0.1:{}", between.port())};
  with_two({direct, through}, [](Scene& scene) -> awaitable<void> {
    link->cut();
    auto before = scene.swarm.counters().answered;
    co_await sleep_for(cut_time());
    CHECK(scene.swarm.counters().answered > before);
    auto url = scene.instances[1]->url();
    auto health = co_await told(url, "/healthz");
    REQUIRE(health);
    CHECK(health->at("status") == "degraded");
    link->heal();
    co_await healthy(scene);
    co_await all_agree(scene, "a link that was cut");
  });
}

TEST_CASE("a Redis that loses all of its data costs no viewer the streams of other instances") {
  static RedisServer* redis = nullptr;
  RedisServer server;
  redis = &server;
  Environment there{"REDIS_URL=redis://" + server.address()};
  with_two({there, there}, apart_terms(), [](Scene& scene) -> awaitable<void> {
    co_await eventually(60s, "Redis has all of it", is_written_again, *redis);
    nobody_was_refused(scene, "the start");
    redis->cli({"FLUSHALL"});
    co_await written_again(scene, *redis, "FLUSHALL");
    redis->kill();
    redis->restart();
    co_await written_again(scene, *redis, "a restart without data");
    scene.swarm.hold_reports(true);
    auto one = scene.instances[0]->url(), other = scene.instances[1]->url();
    co_await eventually(30s, "both know the same", agree, one, other);
    nobody_was_refused(scene, "that");
  });
}

TEST_CASE("a failover by Sentinel is survived, and both agree on the new primary") {
  static SentinelTrio* trio = nullptr;
  SentinelTrio servers;
  trio = &servers;
  std::string addresses;
  for (auto* sentinel : servers.sentinels())
    addresses += (addresses.empty() ? "" : ",") + sentinel->address();
  Environment redis{"REDIS_MODE=sentinel", "REDIS_ADDRS=" + addresses,
                    fmt::format("REDIS_MASTER_NAME={}", SentinelTrio::name)};
  with_two({redis, redis}, [](Scene& scene) -> awaitable<void> {
    trio->primary().kill();
    co_await elsewhere([] { return trio->primary().alive(); });  // waits until there is a new one
    co_await healthy(scene);
    co_await all_agree(scene, "a failover by Sentinel");
    co_await kill_one(scene, 0);
  });
}

TEST_CASE("a failover of a Redis Cluster is survived, and both agree on the new primary") {
  static RedisCluster* cluster = nullptr;
  RedisCluster servers;
  cluster = &servers;
  Environment redis{"REDIS_MODE=cluster",
                    "REDIS_ADDRS=" + servers.node(0).address() + "," + servers.node(1).address()};
  with_two({redis, redis}, [](Scene& scene) -> awaitable<void> {
    auto slot = cluster->slot("{abc}:");
    cluster->owner(slot).kill();
    static int of_keys = 0;
    of_keys = slot;
    co_await elsewhere([] { return cluster->owner(of_keys).alive(); });
    co_await healthy(scene);
    co_await all_agree(scene, "a failover of the cluster");
    co_await kill_one(scene, 1);
  });
}

TEST_CASE("an instance that stood still while another process took its id, ends when it goes on") {
  RedisServer server;
  Environment redis{"REDIS_URL=redis://" + server.address()};
  Instance first("foghorn-1", redis);
  std::optional<Instance> second;
  auto all = [](Instance& one, std::optional<Instance>& other,
                Environment& there) -> awaitable<void> {
    auto url = one.url();
    co_await eventually(30s, "the first is ready", is_ready, url);
    one.pause();
    other.emplace("foghorn-1", there);
    auto next = other->url();
    co_await eventually(30s, "the second has the id", is_ready, next);
    one.resume();
    // No longer than one ttl; and whoever has the id goes on.
    co_await eventually(5s, "the first is gone", [&one] { return !one.alive(); });
    co_await eventually(10s, "the second is ready", is_ready, next);
  };
  run(all(first, second, redis), 90s);
  CHECK_MESSAGE(first.wait() != 0, first.log_text());
  CHECK(first.log_text().contains("foghorn.instance_id_taken"));
  second->terminate();
  CHECK_MESSAGE(second->wait() == 0, second->log_text());
}

TEST_CASE("an instance that starts without Redis answers from what nodes tell it, and says so") {
  RedisServer server;
  server.kill();
  with_one(server, {}, [](Instance& one, RedisServer& redis) -> awaitable<void> {
    auto url = one.url();
    co_await eventually(30s, "it listens", is_alive, url);
    auto reported = co_await asked(url, "POST", "/v1/nodes/n1/report", edge_report);
    REQUIRE(reported);
    CHECK(reported->status == 200);
    auto played = co_await asked(url, "GET", "/play/demo/hls");
    REQUIRE(played);
    CHECK(played->status == 307);
    // What it has not heard of may exist.
    auto unknown = co_await asked(url, "GET", "/play/other/hls");
    REQUIRE(unknown);
    CHECK(unknown->status == 503);
    CHECK(code_in(*unknown) == "LOADING");
    auto ready = co_await asked(url, "GET", "/readyz");
    REQUIRE(ready);
    CHECK(ready->status == 503);
    auto says = boost::json::parse(ready->body);
    CHECK(says.at("status") == "loading");
    CHECK(says.at("clusters").at(0).at("nodes") == 1);
    redis.restart();
    co_await eventually(30s, "it is ready", is_ready, url);
    auto stored = [](RedisServer& r) { return r.cli({"EXISTS", "{abc}:nodes:n1"}) == "1"; };
    co_await eventually(10s, "Redis has the node", stored, redis);
    auto known = co_await asked(url, "GET", "/play/other/hls");
    REQUIRE(known);
    CHECK(known->status == 404);
  });
}

TEST_CASE("where reports are durable, what is acknowledged is in Redis, and nothing is without") {
  RedisServer server;
  Environment strict{"FOGHORN_DURABLE_REPORTS=true"};
  with_one(server, strict, [](Instance& one, RedisServer& redis) -> awaitable<void> {
    auto url = one.url();
    co_await eventually(30s, "it is ready", is_ready, url);
    auto taken = co_await asked(url, "POST", "/v1/nodes/n1/report", edge_report);
    REQUIRE(taken);
    CHECK(taken->status == 200);
    CHECK(redis.cli({"EXISTS", "{abc}:nodes:n1", "{abc}:stream_instances:demo:n1"}) == "2");
    redis.pause();
    auto refused = co_await asked(url, "POST", "/v1/nodes/n1/report", edge_report);
    REQUIRE(refused);
    CHECK(refused->status == 503);
    CHECK(code_in(*refused) == "NOT_DURABLE");
    auto played = co_await asked(url, "GET", "/play/demo/hls");  // it counts here all the same
    REQUIRE(played);
    CHECK(played->status == 307);
    redis.resume();
    co_await eventually(30s, "Redis is heard", is_healthy, url);
    auto again = co_await asked(url, "POST", "/v1/nodes/n1/heartbeat");
    REQUIRE(again);
    CHECK(again->status == 200);
  });
}

TEST_CASE("a single report can ask to be durable, and others are acknowledged from memory") {
  RedisServer server;
  with_one(server, {}, [](Instance& one, RedisServer& redis) -> awaitable<void> {
    auto url = one.url();
    co_await eventually(30s, "it is ready", is_ready, url);
    auto taken = co_await asked(url, "POST", "/v1/nodes/n1/report?durable=1", edge_report);
    REQUIRE(taken);
    CHECK(taken->status == 200);
    CHECK(redis.cli({"EXISTS", "{abc}:nodes:n1"}) == "1");
    redis.pause();
    auto from_memory = co_await asked(url, "POST", "/v1/nodes/n1/report", edge_report);
    REQUIRE(from_memory);
    CHECK(from_memory->status == 200);
    auto refused = co_await asked(url, "POST", "/v1/nodes/n1/heartbeat?durable=1");
    REQUIRE(refused);
    CHECK(refused->status == 503);
    CHECK(code_in(*refused) == "NOT_DURABLE");
    redis.resume();
    co_await eventually(30s, "Redis is heard", is_healthy, url);
  });
}

TEST_CASE("a Redis that may drop keys when it is full is told of at the start") {
  auto count = [](RedisServer& server) {
    static std::size_t lines = 0;
    static std::string log;
    with_one(server, {}, [](Instance& one, RedisServer&) -> awaitable<void> {
      auto url = one.url();
      co_await eventually(30s, "it is ready", is_ready, url);
      auto is_loaded = [](Instance& i) { return i.log_text().contains("foghorn.loaded"); };
      co_await eventually(10s, "it has looked at Redis", is_loaded, one);
      log = one.log_text();
      lines = 0;
      for (auto at = log.find("foghorn.redis_evicts"); at != log.npos;
           at = log.find("foghorn.redis_evicts", at + 1))
        ++lines;
    });
    if (lines > 0) CHECK(log.contains("allkeys-lru"));
    return lines;
  };
  RedisServer evicting({.config = {"maxmemory 100mb", "maxmemory-policy allkeys-lru"}});
  CHECK(count(evicting) == 1);
  RedisServer keeping({.config = {"maxmemory 100mb", "maxmemory-policy noeviction"}});
  CHECK(count(keeping) == 0);
  RedisServer unlimited({.config = {"maxmemory-policy allkeys-lru"}});
  CHECK(count(unlimited) == 0);
}
