#pragma once
// Threads for queries, in two lanes: short queries overtake long ones, and a client does not wait
// for all the queries of another client.
//
//   submit ──> interactive ──(not done after a slice)──> batch ──┐
//                                                          ^     │ (a slice each)
//                                                          └─────┘
//
// Time is divided into slices of 50 ms. Every query gets its first slice in the interactive lane.
// If it needs more, it continues in the batch lane. Half of the threads look for work in the batch
// lane first, the others in the interactive lane, and all take whatever there is. So a query waits
// for little more than a slice behind a long one (which stops between two files), and long ones
// finish.
//
// In each lane clients take turns of one slice each. Among the queries of one client, the oldest is
// finished before the next. So a client's query waits for one slice of every other client, however
// many queries the others have.
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace warren::search {

struct LaneLimits {
  std::size_t most_waiting = 1024;
  std::size_t most_waiting_per_client = 256;
};

class Lanes {
 public:
  static constexpr std::chrono::milliseconds slice{50};
  // Returns true when done. Otherwise it is called again, in any thread.
  using Work = std::function<bool(Clock::time_point until)>;
  using Ticket = std::uint64_t;

  // Needs at least two threads, one for each lane.
  explicit Lanes(int threads, LaneLimits limits = {});
  // Waits for the slices that are running. Waiting work is not started or not finished.
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  // Errc::overloaded: too many queries wait, in total or of this client.
  Result<Ticket> submit(Work work, std::string client = {});

  // The result is no longer wanted. Never waits for a slice to end.
  enum class Cancelled : std::uint8_t {
    dropped,  // it was waiting: the work and all that it held is gone
    running,  // it is dropped when its slice ends, which is sooner if the work is told: see
              // SearchTerms::cancelled
    over,     // it was already done or cancelled
  };
  Cancelled cancel(Ticket ticket);

 private:
  struct Job {
    Ticket ticket = 0;
    std::string client;
    Work work;
  };
  // What waits in one of the lanes.
  class Queue {
   public:
    bool is_empty() const { return client_of_.empty(); }
    std::size_t size() const { return client_of_.size(); }
    void add(Job job);
    Job take();  // the oldest of the client whose turn it is
    // Returns nullopt if it is not waiting here.
    std::optional<Job> remove(Ticket ticket);

   private:
    std::map<std::string, std::map<Ticket, Work>> clients_;  // the oldest first
    std::deque<std::string> turns_;                          // the clients, each once
    std::unordered_map<Ticket, std::string> client_of_;
  };

  void run();
  void forget(const std::string& client);
  bool is_idle() const { return interactive_.is_empty() && batch_.is_empty(); }

  std::mutex mutex_;
  std::condition_variable changed_;
  Queue interactive_, batch_;
  std::unordered_map<std::string, std::size_t> waiting_;  // per client, in both lanes
  std::unordered_map<Ticket, bool> running_;              // value: whether it is cancelled
  Ticket last_ticket_ = 0;
  LaneLimits limits_;
  std::size_t batch_share_, batch_running_ = 0;
  bool is_closed_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace warren::search
