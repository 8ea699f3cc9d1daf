#pragma once
// Many nodes that report and many viewers that ask, without pause, against instances that come and
// go.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/task.h"

namespace warren {

struct SwarmTerms {
  int nodes = 40, streams = 400;
  // From one node that has a stream to the next one. With an even step, and as many nodes, all of a
  // stream report to the same one of two instances.
  int holder_step = 13;
  std::chrono::milliseconds report_interval = 1s;
  int viewers = 8;                               // who ask, one request after the other
  std::chrono::milliseconds viewer_pause = 5ms;  // between two requests of one of them
  std::chrono::milliseconds patience = 2s;       // of a viewer, for an answer
  // Viewers also ask for the host and the source of a stream, as media servers do.
  bool asks_in_all_ways = false;
};

class Swarm {
 public:
  Swarm(SwarmTerms terms, std::vector<std::string> urls);
  ~Swarm();
  Swarm(const Swarm&) = delete;
  Swarm& operator=(const Swarm&) = delete;

  // Nobody reports meanwhile: then what instances know can be compared.
  void hold_reports(bool is_held);
  // Each node goes on to report to one instance while that answers, else to another.
  void start_nodes(TaskGroup& tasks);
  void start_viewers(TaskGroup& tasks);
  // Nobody asks an instance that is known to be dead. One that is not known to be must answer.
  void set_alive(std::size_t instance, bool is_alive);

  struct Counters {
    std::size_t reports = 0, failed_reports = 0;
    std::size_t answered = 0;
    std::vector<std::string> unanswered;  // why, the first few; `lost` counts them all
    std::size_t lost = 0;          // also answers that lead to no node, whatever their status
    Clock::duration slowest = {};  // answer of a viewer
    std::map<unsigned, std::size_t> statuses;  // 0: none came in time
  };
  const Counters& counters() const;
  // Every node has been heard once.
  bool is_complete() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace warren
