#pragma once
// Threads for queries, in two lanes: short ones overtake long ones.
//
//   submit ──> interactive ──(not done after a slice)──> batch ──┐
//                                                          ^     │ (a slice each)
//                                                          └─────┘
//
// Time is given out in slices of 50 ms. Every query has its first one in the interactive lane; one
// that needs more goes on in the batch lane, where the oldest is done before the next. Half of the
// threads look after the batch lane first, the others after the interactive one, and all do what
// there is: so nobody waits for much more than a slice behind a long query (which ends it between
// two files), and long ones are done.
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace warren::search {

class Lanes {
 public:
  static constexpr std::chrono::milliseconds slice{50};
  // True: done. False: to be called again, by whatever thread.
  using Work = std::function<bool(Clock::time_point until)>;

  // At least two threads: with one there would be no half.
  explicit Lanes(int threads, std::size_t most_waiting = 1024);
  // Waits for the slices that run; what waits is not begun, or not ended.
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  // Errc::overloaded: too many wait already.
  Result<> submit(Work work);

 private:
  struct Job {
    std::uint64_t number = 0;
    Work work;
  };
  void run();
  Job take(bool is_batch);
  bool is_idle() const { return interactive_.empty() && batch_.empty(); }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> interactive_;
  std::map<std::uint64_t, Work> batch_;  // by number: the oldest first
  std::uint64_t last_number_ = 0;
  std::size_t most_waiting_, batch_share_, batch_running_ = 0;
  bool is_closed_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace warren::search
