// A cluster is resharded, slot by slot, while leases change hands, mirrors are written and a board is
// at work: nothing is lost, nobody is told otherwise, and nothing stands still for longer than a slot
// takes to move.
#include <atomic>
#include <future>

#include "proof/testkit/process.h"
#include "with_mirrors.h"
#include "with_orchestrator.h"
#include "with_sessions.h"

using namespace warren;
using namespace warren::board;
using redis::Command;

namespace {

constexpr int lock_count = 4, entity_count = 20;

std::string lock_name(int lock) { return fmt::format("{{lock-{}}}:job", lock); }

// What is done for as long as slots move.
struct Load {
  bool is_over = false;
  std::vector<std::string> wrong;  // what must not happen, and did

  int believers[lock_count] = {};
  FencingToken newest[lock_count];
  int counted[lock_count] = {};  // increments that were acknowledged

  std::map<std::string, std::string> written;

  int goals = 0;

  // For the thread that moves slots: leases that were acquired, used and released, and puts.
  std::atomic<int> turns[lock_count] = {}, writes = 0;

  void complain(std::string what) {
    if (wrong.size() < 10) wrong.push_back(std::move(what));
  }
};

awaitable<void> use(Load& load, redis::Client& client, int lock, Lease& lease) {
  if (++load.believers[lock] > 1) load.complain(fmt::format("two hold lock {}", lock));
  if (lease.token() <= load.newest[lock])
    load.complain(fmt::format("lock {}: {} after {}", lock, to_string(lease.token()),
                              to_string(load.newest[lock])));
  load.newest[lock] = lease.token();
  // Not guarded: that takes two keys, which wait for each other while their slot moves.
  Command count("INCR", fmt::format("{{lock-{}}}:count", lock));
  auto counted = co_await client.command(std::move(count));
  if (counted)
    ++load.counted[lock];
  else
    load.complain(fmt::format("lock {}: {}", lock, counted.error().what));
  co_await sleep_for(5ms);
  if (lease.state() == LeaseState::ended) load.complain(lease.why().what);
  --load.believers[lock];
}

Async<> contend(Load& load, LeaseSession& session, int first) {
  for (int lock = first; !load.is_over; lock = (lock + 1) % lock_count) {
    LeaseTerms terms{lock_name(lock), fmt::format("holder-{}", first)};
    auto lease = co_await session.acquire(std::move(terms), Clock::now() + 30s);
    if (!lease) {
      load.complain(fmt::format("lock {}: {}", lock, lease.error().what));
      continue;
    }
    co_await use(load, session.client(), lock, *lease);
    auto released = co_await lease->release();
    if (!released) load.complain(fmt::format("lock {}: {}", lock, released.error().what));
    ++load.turns[lock];
  }
  co_return ok;
}

Async<> write(Load& load, Mirror& mirror, int writer) {
  for (int i = 0; !load.is_over; ++i) {
    auto id = fmt::format("{}-{}", writer, i % entity_count);
    std::optional<std::string> value;
    if (i % 7 != 0) value = std::to_string(i);
    Batch batch;
    batch.push_back({node_type, id, value});
    auto version = co_await mirror.put(std::move(batch), Clock::now() + 30s);
    if (!version) {
      load.complain(fmt::format("put {}: {}", id, version.error().what));
      continue;
    }
    load.written.erase(id);
    if (value) load.written.emplace(id, *value);
    ++load.writes;
  }
  co_return ok;
}

Async<> set_goals(Load& load, Board& board) {
  while (!load.is_over && load.goals < 300) {
    auto created = co_await board.create_artefact(artefact_of("GoalDefined", "a poem"));
    if (created)
      ++load.goals;
    else if (!may_retry(created.error()))
      load.complain("a goal: " + created.error().what);
    co_await sleep_for(100ms);
  }
  co_return ok;
}

std::map<std::string, std::string> shown(const Mirror& mirror) {
  std::map<std::string, std::string> result;
  auto snapshot = mirror.read();
  snapshot->table(node_type).each(
      [&](const Entity& entity) { result.emplace(entity.id(), entity.value()); });
  return result;
}

awaitable<void> check_mirrors(Load& load, Instances& all) {
  for (auto& each : all) {
    auto agrees = [](Instance& instance, Load& l) { return shown(*instance.mirror) == l.written; };
    co_await eventually(20s, "a mirror shows what was written", agrees, *each, load);
    CHECK(each->rewrites.empty());
  }
  // Who comes now finds the same.
  auto late = co_await start_instance(all[0]->client->settings(), mirror_terms());
  auto ready = co_await late->mirror->ready(Clock::now() + 20s);
  CHECK(ready);
  CHECK(shown(*late->mirror) == load.written);
  co_await stop_instance(*late);
}

awaitable<void> check_leases(Load& load, redis::Client& client) {
  for (int lock = 0; lock < lock_count; ++lock) {
    Command get("GET", fmt::format("{{lock-{}}}:count", lock));
    auto count = co_await client.command(std::move(get));
    REQUIRE(count);
    CHECK(count->text == std::to_string(load.counted[lock]));
  }
}

awaitable<void> check_board(Load& load, Board& board) {
  std::string type = "Published";
  auto goals = static_cast<std::size_t>(load.goals);
  co_await eventually(60s, "all goals are published", has_artefacts, board, type, goals);
  co_await eventually(20s, "all claims are over", has_ended, board);
}

using Reshard = int (*)(RedisCluster&, const Load&);  // returns how many slots it moved

// The load, for as long as slots move on a thread of its own.
awaitable<int> work_while(Reshard reshard, RedisCluster& cluster, Load& load, Board& board,
                          Sessions& sessions, Instances& mirrors) {
  TaskGroup tasks(board.client().executor());
  for (std::size_t i = 0; i < sessions.size(); ++i)
    tasks.start("holder", contend(load, *sessions[i], static_cast<int>(i)));
  for (std::size_t i = 0; i < mirrors.size(); ++i)
    tasks.start("writer", write(load, *mirrors[i]->mirror, static_cast<int>(i)));
  tasks.start("user", set_goals(load, board));
  auto moved = std::async(std::launch::async, reshard, std::ref(cluster), std::cref(load));
  auto is_over = [](std::future<int>& f) { return f.wait_for(0s) == std::future_status::ready; };
  co_await eventually(600s, "all is moved", is_over, moved);
  load.is_over = true;
  co_await tasks.join();
  co_return moved.get();
}

awaitable<void> judge(Reshard reshard, RedisCluster& cluster, Board& board, Sessions& sessions,
                      Instances& mirrors) {
  Load load;
  auto moved = co_await work_while(reshard, cluster, load, board, sessions, mirrors);
  for (const auto& each : load.wrong) FAIL_CHECK(each);
  int turns = 0;
  for (const auto& of_lock : load.turns) turns += of_lock;
  MESSAGE(moved, " slots moved during ", turns, " turns of leases, ", load.writes.load(),
          " writes to mirrors and ", load.goals, " goals");
  co_await check_leases(load, board.client());
  co_await check_mirrors(load, mirrors);
  co_await check_board(load, board);
}

awaitable<void> play(Reshard reshard, RedisCluster& cluster, Sessions& sessions,
                     Instances& mirrors) {
  auto board = Board::open(sessions[0]->client(), "holt", "demo");
  REQUIRE(board);
  auto crew = newsroom();
  auto body = [](Board& b, Agents& agents, Reshard& r, RedisCluster& c, Sessions& s,
                 Instances& m) -> awaitable<void> {
    Running orchestrator(b, terms_for(agents), 1);
    co_await judge(r, c, b, s, m);
    co_await orchestrator.kill();
  };
  co_await with_agents(*board, crew, body, reshard, cluster, sessions, mirrors);
}

void reshard_under_load(Reshard reshard) {
  RedisCluster cluster;
  std::vector<redis::Settings> two(2, settings_for(cluster)), three(3, settings_for(cluster));
  auto with_sessions = [](Sessions& sessions, std::vector<redis::Settings>& settings, Reshard& r,
                          RedisCluster& c) -> awaitable<void> {
    auto with_all = [](Instances& mirrors, Sessions& s, Reshard& go,
                       RedisCluster& nodes) -> awaitable<void> {
      co_await play(go, nodes, s, mirrors);
    };
    co_await run_with_mirrors(settings, mirror_terms(), with_all, sessions, r, c);
  };
  run(run_with_sessions(three, 15s, with_sessions, two, reshard, cluster), 900s);
}

// Until leases of this slot, if it has any, have changed hands twice more; and, where nothing is on
// its way, until two writes were made to its mirror.
void await_work_in(int slot, const Load& load, bool moves) {
  std::vector<const std::atomic<int>*> counts;
  if (!moves && slot == redis::slot_of(mirror_terms().prefix)) counts.push_back(&load.writes);
  for (int lock = 0; lock < lock_count; ++lock)
    if (slot == redis::slot_of(lock_name(lock))) counts.push_back(&load.turns[lock]);
  for (const auto* count : counts) {
    int before = *count;
    wait_for(60s, "work goes on in the slot", [&] { return *count >= before + 2; });
  }
}

void move_slowly(int slot, RedisCluster& cluster, const Load& load) {
  auto& from = cluster.owner(slot);
  auto& to = &from == &cluster.node(0) ? cluster.node(1) : cluster.node(0);
  cluster.begin_migration(slot, from, to);
  await_work_in(slot, load, true);
  cluster.move_keys(slot, from, to, 1);
  await_work_in(slot, load, true);
  while (cluster.move_keys(slot, from, to, 1) > 0) {
  }
  await_work_in(slot, load, true);
  cluster.end_migration(slot, from, to);
  await_work_in(slot, load, false);
}

// All slots in which somebody has a key now or will have one, in the order of their numbers.
std::set<int> used_slots(RedisCluster& cluster) {
  std::set<int> slots{redis::slot_of(mirror_terms().prefix)};
  for (int lock = 0; lock < lock_count; ++lock) slots.insert(redis::slot_of(lock_name(lock)));
  for (std::size_t i = 0; i < 3; ++i)
    for (const auto& key : cluster.node(i).cli_words({"KEYS", "*"}))
      slots.insert(redis::slot_of(key));
  return slots;
}

}  // namespace

TEST_CASE("leases change hands in a slot before, while and after its keys move") {
  reshard_under_load([](RedisCluster& cluster, const Load& load) {
    int moved = 0;
    for (int slot : used_slots(cluster)) {
      move_slowly(slot, cluster, load);
      ++moved;
    }
    return moved;
  });
}

TEST_CASE("two thirds of a cluster are resharded by the tool that comes with Redis") {
  reshard_under_load([](RedisCluster& cluster, const Load&) {
    int moved = 0;
    int slots = redis::slot_count / 3;
    for (std::size_t from = 0; from < 2; ++from, slots *= 2) {
      auto& source = cluster.node(from);
      Process tool({{"redis-cli", "--cluster", "reshard", source.address(), "--cluster-from",
                     cluster.id(source), "--cluster-to", cluster.id(cluster.node(from + 1)),
                     "--cluster-slots", std::to_string(slots), "--cluster-yes"},
                    source.folder() / "reshard.log"});
      auto code = tool.wait(600s);
      if (code != 0) fail_test(tool.log_text());
      moved += slots;
      for (int slot : {0, slots - 1}) cluster.owner(slot);  // waits until all nodes know
    }
    return moved;
  });
}
