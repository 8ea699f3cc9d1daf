#pragma once
// Threads for queries, in two lanes: short ones overtake long ones.
//
//   submit ──> interactive ──(not done after its slice)──> batch
//
// Every query begins in the interactive lane, where it has 50 ms. One that needs more is done again
// from the start in the batch lane, which leaves a thread free for others: what is lost is at most
// its slice, and nobody waits for more than that behind a long query.
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace warren::search {

enum class Lane : std::uint8_t { interactive, batch };

class Lanes {
 public:
  static constexpr std::chrono::milliseconds slice{50};
  // A batch query that has waited so long goes before interactive ones, so that it is done at all.
  static constexpr std::chrono::milliseconds patience{1000};
  // False, in the interactive lane: not done within the slice, to be called again in the other.
  using Work = std::function<bool(Lane)>;

  explicit Lanes(int threads, std::size_t most_waiting = 1024);
  // Waits for what runs; what waits is not begun.
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  // Errc::overloaded: too many wait already.
  Result<> submit(Work work);

 private:
  struct Job {
    Work work;
    Clock::time_point since;
  };
  void run();
  bool may_begin_batch() const { return !batch_.empty() && batch_running_ < most_batch_; }
  bool takes_batch() const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> interactive_, batch_;
  std::size_t most_waiting_, most_batch_, batch_running_ = 0;
  bool is_closed_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace warren::search
