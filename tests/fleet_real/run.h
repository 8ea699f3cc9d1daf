#pragma once
// What the cases of the real level share: how large they are, people who search meanwhile, and episodes that
// are judged at their end.
//
//   WARREN_FLEET=full       as large as it is promised: 500 repositories, 4 nodes, a ttl of 30 s
//   WARREN_SEED=7           another run; otherwise another one each day
//   WARREN_CORPUS=linux     cut from another package than git
#include <boost/json/serialize.hpp>
#include <functional>
#include <list>

#include "services/fleet/plan/records.h"
#include "tests/fleet_real/history.h"
#include "tests/fleet_real/scene.h"
#include "tests/fleet_real/traffic.h"
#include "tests/search_fetched.h"

namespace warren::fleet {

using Repos = std::set<std::string>;

inline bool is_full() { return std::getenv("WARREN_FLEET") != nullptr; }

inline std::uint64_t seed() {
  if (const char* given = std::getenv("WARREN_SEED")) return std::stoull(given);
  return static_cast<std::uint64_t>(
      std::chrono::floor<std::chrono::days>(WallClock::now()).time_since_epoch().count());
}

// Cut once for all cases.
inline const Corpus& corpus() {
  static const Corpus cut = [] {
    TempFolder folder;
    auto source = search::fetched_corpus(folder.path() / "log");
    return is_full() ? Corpus::cut(source.folder, 500, 400u << 20, seed())
                     : Corpus::cut(source.folder, 40, 6u << 20, seed());
  }();
  return cut;
}

struct Run {
  Scene& scene;
  Traffic& traffic;
  Follower& follower;
  asio::thread_pool& aside;  // for what blocks, so that people go on searching meanwhile
  int nodes = 3, started = 0;
  int apart = 0;  // measurements of their own
};

// Long enough for a machine that does much else.
constexpr auto patience = 180s;

inline awaitable<void> aside(Run& run, std::function<void()> work) {
  auto done = [](std::function<void()> what) {
    what();
    return true;
  };
  co_await on_pool(run.aside, done, std::move(work));
}

inline std::uint64_t ms(Clock::duration time) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
}

// What happens in it is judged at its end, and printed as a line of JSON.
class Episode {
 public:
  Episode(Run& run, const std::string& name) : run_(run), begin_(Clock::now()) {
    figures_["catalog"] = run.scene.catalog().name();
    figures_["episode"] = name;
    run.traffic.take_counts();
    mark();
  }
  template <class T>
  void set(const char* name, T value) {
    figures_[name] = value;
  }
  // From here on clones are counted.
  void mark() { marked_ = run_.scene.clones().size(); }
  // Of these repositories each was cloned once at most, and of the others none.
  void check_clones(const Repos& lost, const char* name = "clones") {
    auto all = run_.scene.clones();
    std::map<std::string, int> counts;
    for (std::size_t i = marked_; i < all.size(); ++i) {
      ++counts[all[i].repo];
      CHECK_MESSAGE(lost.contains(all[i].repo), all[i].node << " cloned " << all[i].repo);
    }
    for (const auto& [repo, count] : counts) CHECK_MESSAGE(count <= 1, repo);
    figures_[name] = all.size() - marked_;
    mark();
  }
  void end() {
    auto counts = run_.traffic.take_counts();
    auto wrong = run_.traffic.take_wrong();
    figures_["asked"] = counts.asked;
    figures_["excused"] = counts.excused;
    figures_["asked_again"] = counts.again;
    figures_["longest_ms"] = counts.longest_ms;
    figures_["wrong"] = wrong.size();
    figures_["took_ms"] = ms(Clock::now() - begin_);
    fmt::print("{}\n", boost::json::serialize(figures_));
    std::fflush(stdout);
    CHECK(counts.asked > 0);
    for (const auto& what : wrong) FAIL_CHECK(what);
  }

 private:
  Run& run_;
  Clock::time_point begin_;
  boost::json::object figures_;
  std::size_t marked_ = 0;
};

inline constexpr auto is_whole = [](Run& run) -> awaitable<Result<>> {
  auto routers = run.traffic.routers();
  auto answer = co_await run.traffic.ask_all(std::move(routers));
  co_return answer;
};

inline constexpr auto has_asked = [](Run& run, const std::uint64_t& number) {
  return run.traffic.asked() >= number;
};

// So much later people have asked on.
inline awaitable<void> search_on(Run& run, Clock::duration time) {
  co_await sleep_for(time);
  auto number = run.traffic.asked() + 20;
  co_await eventually(patience, "people search", has_asked, run, number);
}

inline constexpr auto has_joined = [](Run& run, const std::string& name) {
  return run.scene.lives_of(name) > 0;
};

inline awaitable<std::string> start_node(Run& run) {
  auto name = fmt::format("n{}", ++run.started);
  run.scene.start_node(name);
  co_await eventually(patience, "it joins", has_joined, run, name);
  co_return name;
}

inline constexpr auto router_is_ready = [](std::string& url) -> awaitable<bool> {
  HttpClient client(co_await asio::this_coro::executor, *parse_http_url(url));
  HttpAsk ask{"GET", "/readyz"};
  auto reply = co_await client.ask(std::move(ask), Clock::now() + 5s);
  co_return reply && reply->status == 200;
};

// Returns when it knows what the catalog has.
inline awaitable<std::string> start_router(Run& run, std::size_t number) {
  run.scene.start_router(number);
  auto url = run.scene.router_url(number);
  co_await eventually(patience, "the router is ready", router_is_ready, url);
  co_return url;
}

// Runs work(run) in a scene of its own, while somebody follows the catalog and people may search.
template <class Work>
void with_run(const Corpus& texts, SceneTerms terms, int nodes, Work work) {
  Scene scene(texts, std::move(terms));
  asio::thread_pool pool(1);
  auto all = [](Scene& of, asio::thread_pool& other, int count, Work& body) -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    TrafficTerms rate{.seed = seed()};
    Traffic traffic(executor, of.corpus(), of.names(), rate);
    Follower follower(of.catalog().url());
    Run run{of, traffic, follower, other, count};
    auto inner = [](TaskGroup& tasks, Run& it, Work& what) -> awaitable<bool> {
      tasks.start("test.follow", it.follower.run());
      tasks.start("test.search", it.traffic.run());
      co_await what(it);
      co_return true;
    };
    co_await with_group(inner, run, body);
  };
  testkit::run(all(scene, pool, nodes, work), is_full() ? 2h : 550s);
  pool.join();
}

}  // namespace warren::fleet
