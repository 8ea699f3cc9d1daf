// The start of an instance beside a large cluster: 1,000 nodes, 20,000 streams, 60,000 instances. How
// long it takes is measured by `make bench PART=foghorn`.
#include <boost/asio/post.hpp>
#include <ctime>

#include "services/foghorn/balance/view.h"
#include "with_clusters.h"

using namespace warren;
using namespace warren::foghorn;

namespace {

constexpr int nodes = 1000, streams = 20'000, on_each = 60;

std::string stream_name(int number) { return "s" + std::to_string(number % streams); }

NodeReport report_of_node(int node) {
  auto report = report_of(0);
  for (int i = 0; i < on_each; ++i) {
    auto& stream = (*report.streams)[stream_name(node * streams / nodes + i)];
    stream.inputs = 1, stream.total = 10, stream.viewers = 9, stream.replicated = i >= 20;
  }
  return report;
}

// Streams that no other node has.
NodeReport report_of_own(int node, int count) {
  auto report = report_of(0);
  for (int i = 0; i < count; ++i) {
    auto& stream = (*report.streams)[fmt::format("n{}-{}", node, i)];
    stream.inputs = 1, stream.total = 1;
  }
  return report;
}

// The processor time that this thread has used: other programs on the machine add nothing to it.
std::chrono::nanoseconds thread_time() {
  timespec used{};
  ensure(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) == 0, "a thread has a clock of its own");
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

// How long a task of the loop waits for its next turn, and how much the others work meanwhile.
struct Gap {
  std::chrono::nanoseconds longest_work{}, all_work{};
  Clock::duration longest{};

  void leave() {
    left_ = Clock::now();
    left_work_ = thread_time();
  }
  void come_back() {
    auto work = thread_time() - left_work_;
    longest = std::max(longest, Clock::now() - left_);
    longest_work = std::max(longest_work, work);
    all_work += work;
  }

 private:
  Clock::time_point left_{};
  std::chrono::nanoseconds left_work_{};
};

// What another task of the loop sees while an instance loads.
struct Watch {
  bool is_over = false;
  Gap gap;
  std::uint64_t turns = 0, most_changes = 0;  // between two turns
  std::size_t most_shown = 0;                 // streams, before all was loaded
  bool is_told = false;
  std::string grant;  // of its id
};

// "epoch counter" of the last grant of this instance id: what makes its token.
std::string grant_of_id(RedisServer& server, const std::string& instance) {
  auto fence = server.cli({"GET", "{abc}:instance:" + instance + ":fence"});
  return fence.substr(0, fence.find(' ', fence.find(' ') + 1));
}

// Two nodes turn to the instance as soon as it has read them, long before it has read what they carry.
void tell(Cluster& late, RedisServer& server, Watch& watch) {
  if (watch.is_told || !late.node("n1") || !late.node("n2")) return;
  watch.is_told = true;
  watch.grant = grant_of_id(server, "late");
  CHECK(late.stream_count() < 5000);
  CHECK(late.heartbeat("n1"));
  CHECK(late.report("n2", report_of_own(2, 100)));
}

awaitable<void> look_on(Cluster& late, RedisServer& server, Watch& watch) {
  auto executor = co_await asio::this_coro::executor;
  for (auto before = late.revision(); !watch.is_over; ++watch.turns) {
    tell(late, server, watch);
    auto streams_shown = balance::stream_count(late.table_here());
    if (late.health() == MirrorHealth::loading)
      watch.most_shown = std::max(watch.most_shown, streams_shown);
    before = late.revision();
    watch.gap.leave();
    co_await asio::post(executor, asio::use_awaitable);
    watch.gap.come_back();
    watch.most_changes = std::max(watch.most_changes, late.revision() - before);
  }
}

// Of this process, whatever else the machine does.
double seconds_worked() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace

TEST_CASE("who starts beside a large cluster is ready with all of it, and soon") {
  RedisServer server;
  with_clusters(
      {settings_for(server)},
      [](Members& all, RedisServer& s) -> awaitable<void> {
        auto& a = *all[0]->cluster;
        for (int i = 0; i < nodes; ++i)
          REQUIRE(a.report("n" + std::to_string(i), report_of_node(i)));
        auto written = [](Cluster& c) { return c.waiting_changes() == 0; };
        co_await eventually(60s, "all is written", written, a);
        CHECK(std::stoi(s.cli({"DBSIZE"})) >= 81'000);

        auto terms = cluster_terms("late");
        terms.stale_after = 1h;  // writing it all may take a while
        auto late = co_await make_member(settings_for(s), terms);
        auto& b = *late->cluster;
        CHECK(b.health() == MirrorHealth::loading);
        auto worked = seconds_worked();
        auto started = co_await b.start(Clock::now() + 60s);
        worked = seconds_worked() - worked;
        REQUIRE(started);
        CHECK_MESSAGE(worked < 3, worked, " s");
        auto is_current = [](Cluster& c) { return c.health() == MirrorHealth::current; };
        co_await eventually(30s, "it hears from Redis", is_current, b);
        CHECK(b.nodes().size() == nodes);
        CHECK(std::ranges::all_of(b.nodes(), &NodeView::is_active));
        CHECK(balance::stream_count(b.table_here()) == streams);
        for (int i = 0; i < streams; i += 999) {
          auto stream = stream_name(i);
          balance::Query query;
          query.stream = stream;
          CHECK(!balance::choose(b.table_here(), query).empty());
          CHECK(balance::holders(b.table_here(), stream).size() == 3);
        }
        CHECK(a.digest() == b.digest());
        co_await stop_member(*late);
      },
      server);
}

TEST_CASE(
    "while a large cluster is loaded everything else has its turn, and nobody sees a part of it") {
  static constexpr int hosts = 4, each = 10'000;
  RedisServer server;
  with_clusters(
      {settings_for(server)},
      [](Members& all, RedisServer& s) -> awaitable<void> {
        auto& a = *all[0]->cluster;
        for (int i = 0; i < hosts; ++i)
          REQUIRE(a.report("n" + std::to_string(i), report_of_own(i, each)));
        auto written = [](Cluster& c) { return c.waiting_changes() == 0; };
        co_await eventually(60s, "all is written", written, a);

        auto late = co_await make_member(settings_for(s), cluster_terms("late"));
        auto& b = *late->cluster;
        Watch watch;
        auto executor = co_await asio::this_coro::executor;
        TaskGroup watching(executor);
        watching.start("test.watch", look_on(b, s, watch));
        auto started = co_await b.start(Clock::now() + 60s);
        watch.is_over = true;
        co_await watching.join();
        REQUIRE(started);
        CHECK(watch.is_told);
        CHECK(watch.turns > 2 * hosts * each / 500);
        CHECK(watch.most_changes < 3000);  // a slice is 500 values, of two or three changes each
        const auto& gap = watch.gap;
        MESSAGE("longest gap between two turns: " << gap.longest / 1us << " us, with "
                                                  << gap.longest_work / 1us << " us of work of "
                                                  << gap.all_work / 1us);
        // A slice is about an eightieth of the work. The bound is a share of it, too, so that it
        // also holds on a slow machine.
        CHECK(gap.longest_work < gap.all_work / 8);
        CHECK(watch.most_shown == 0);
        CHECK(!b.problem());
        CHECK(s.cli({"GET", "{abc}:instance:late"}).starts_with("late "));
        CHECK(!watch.grant.empty());
        CHECK(grant_of_id(s, "late") == watch.grant);

        // What was said in the middle of it is merged as if it had been said before.
        REQUIRE(b.node("n1"));
        CHECK(b.node("n1")->streams == each);
        CHECK(b.node("n1")->state.ram_max == 64e9);
        CHECK(b.node("n2")->streams == 100);
        CHECK(balance::stream_count(b.table_here()) == hosts * each);
        CHECK(b.stream("n2-100")->state.status == "offline");
        CHECK(b.stream("n2-99")->state.status == "live");
        co_await eventually(60s, "all is written", written, b);
        auto agree = [](Cluster& one, Cluster& other) { return one.digest() == other.digest(); };
        co_await eventually(60s, "they agree", agree, a, b);
        CHECK(a.node("n2")->streams == 100);
        co_await stop_member(*late);
      },
      server);
}
