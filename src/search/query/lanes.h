#pragma once
// Threads for queries, in two lanes: short ones overtake long ones, and nobody waits behind the many
// queries of somebody else.
//
//   submit ──> interactive ──(not done after a slice)──> batch ──┐
//                                                          ^     │ (a slice each)
//                                                          └─────┘
//
// Time is given out in slices of 50 ms. Every query has its first one in the interactive lane; one
// that needs more goes on in the batch lane. Half of the threads look after the batch lane first,
// the others after the interactive one, and all do what there is: so nobody waits for much more
// than a slice behind a long query (which ends it between two files), and long ones are done.
//
// In each lane clients take turns, a slice each, and of the queries of one client the oldest is
// done before the next. So a client's query waits for one slice of every other client, however many
// queries these have.
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
  // True: done. False: to be called again, by whatever thread.
  using Work = std::function<bool(Clock::time_point until)>;
  using Ticket = std::uint64_t;

  // At least two threads: with one there would be no half.
  explicit Lanes(int threads, LaneLimits limits = {});
  // Waits for the slices that run; what waits is not begun, or not ended.
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  // Errc::overloaded: too many wait already, in all or of this client.
  Result<Ticket> submit(Work work, std::string client = {});

  // Nobody wants it any more. Never waits for a slice to end.
  enum class Cancelled : std::uint8_t {
    dropped,  // it waited: the work is gone, and all that it held
    running,  // it goes when its slice ends, which it does sooner if the work is told: see
              // SearchTerms::cancelled
    over,     // it was done already, or cancelled before
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
    // Nothing: it does not wait here.
    std::optional<Job> remove(Ticket ticket);

   private:
    std::map<std::string, std::map<Ticket, Work>> clients_;  // the oldest first
    std::deque<std::string> turns_;                          // of clients, each once
    std::unordered_map<Ticket, std::string> client_of_;
  };

  void run();
  void forget(const std::string& client);
  bool is_idle() const { return interactive_.is_empty() && batch_.is_empty(); }

  std::mutex mutex_;
  std::condition_variable changed_;
  Queue interactive_, batch_;
  std::unordered_map<std::string, std::size_t> waiting_;  // of each client, in both lanes
  std::unordered_map<Ticket, bool> running_;              // and whether it is cancelled
  Ticket last_ticket_ = 0;
  LaneLimits limits_;
  std::size_t batch_share_, batch_running_ = 0;
  bool is_closed_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace warren::search
