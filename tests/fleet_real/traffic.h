#pragma once
// People who search all the time, at so many queries a second however long the answers take, and who
// know what each answer must be.
//
// Most name one repository, chosen by Zipf's law; some ask all of them. An answer is right when it is
// 200, complete, and has exactly the oracle's files and lines. What a fault took away is excused: of
// those repositories nothing need be said, but what is said of them must be true.
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/task.h"
#include "net/http/pool.h"
#include "tests/fleet_real/corpus.h"

namespace warren::fleet {

struct TrafficTerms {
  double queries_per_second = 50;
  double zipf = 1.0;
  double asks_all = 0.1;  // of the queries
  std::uint64_t seed = 1;
};

class Traffic {
 public:
  // Rows are named as the catalog has them, in the order of the corpus. Both outlive it.
  Traffic(const asio::any_io_executor& executor, const Corpus& corpus,
          const std::vector<std::string>& names, TrafficTerms terms);

  // Until it is cancelled.
  awaitable<void> run();
  void pause(bool is_paused) { is_paused_ = is_paused; }
  void set_rate(double queries_per_second) { terms_.queries_per_second = queries_per_second; }
  // Whoever asks one that is not there any more asks the other.
  void use(std::vector<std::string> urls) { routers_ = std::move(urls); }
  // From now on, until others are; also what is under way.
  void excuse(std::set<std::string> repos) { excuses_.push_back({Clock::now(), std::move(repos)}); }
  // These are being added: a router may not have heard of them, and say nothing.
  void expect_later(std::set<std::string> repos) { coming_ = std::move(repos); }

  // A query for all of them, now, at each of these routers: complete and right, nobody excused.
  Async<> ask_all(std::vector<std::string> routers);

  struct Counts {
    std::uint64_t asked = 0, excused = 0, again = 0;  // again: the router was gone
    std::uint64_t longest_ms = 0;                     // of those that were not excused
  };
  // Since it was asked for last.
  Counts take_counts();
  // A query that named a repository, and nobody answered for it.
  struct Miss {
    std::string repo;
    WallClock::time_point at;
  };
  const std::vector<Miss>& misses() const { return misses_; }
  std::vector<std::string> take_wrong() { return std::exchange(wrong_, {}); }
  const std::uint64_t& asked() const { return asked_; }
  const std::size_t& under_way() const { return under_way_; }
  const std::vector<std::string>& routers() const { return routers_; }

 private:
  struct Query {
    std::size_t word = 0;
    std::optional<std::size_t> repo = {};  // none: all
    std::size_t router = 0;
  };
  struct Judged {
    std::set<std::string> missing = {};  // it says so
    std::set<std::string> lacking = {};  // it does not, and has too few lines
    std::string wrong = {};              // empty: what it says is true
  };
  Query next_query();
  // Those that were excused at any time since.
  std::set<std::string> excused_since(Clock::time_point begin) const;
  awaitable<void> one(Query query);
  std::string body_of(const Query& query, std::chrono::milliseconds timeout) const;
  Async<Judged> ask(Query query, std::string router, std::chrono::milliseconds timeout);
  Judged judge(const Query& query, int status, std::string_view body) const;

  asio::any_io_executor executor_;
  const Corpus& corpus_;
  const std::vector<std::string>& names_;
  TrafficTerms terms_;
  HttpPool pool_;
  std::mt19937_64 random_;
  std::vector<double> sums_;         // of Zipf's shares
  std::vector<std::size_t> ranked_;  // repositories, those that are asked for most first
  std::vector<std::string> routers_;
  struct Excuse {
    Clock::time_point since;
    std::set<std::string> repos;
  };
  std::vector<Excuse> excuses_;
  std::set<std::string> coming_;
  bool is_paused_ = false;
  std::size_t under_way_ = 0;
  std::uint64_t asked_ = 0;
  Counts counts_;
  std::vector<std::string> wrong_;
  std::vector<Miss> misses_;
};

}  // namespace warren::fleet
