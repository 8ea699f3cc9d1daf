#pragma once
// What takes time: a link that clones share, the slots of a node's clones, and its builders.
#include <deque>
#include <map>
#include <set>

#include "services/fleet/simulate/agenda.h"

namespace warren::fleet_sim {

// Bytes to all at the same speed: so many a second together, and no more than `one` each. All of them
// advance alike, so that one number is how far each has come, and the next to end is the first in order.
class Link {
 public:
  Link(Agenda& agenda, double all, double one) : agenda_(agenda), all_(all), one_(one) {}

  using Id = std::uint64_t;
  Id start(double bytes, Act done);
  void cancel(Id id);
  void set_speed(double all);  // bytes a second, together
  std::size_t running() const { return jobs_.size(); }

 private:
  struct Job {
    double end;
    Act done;
  };
  void advance();
  void plan();
  void finish(std::uint64_t plan);
  double speed() const;

  Agenda& agenda_;
  double all_, one_;
  double sent_ = 0;  // to each of them, since the beginning
  Time as_of_{};
  Id last_ = 0;
  std::uint64_t plan_ = 0;  // an older one is void
  std::map<Id, Job> jobs_;
  std::set<std::pair<double, Id>> ends_;
};

// As fetch/slots.h has it: in order of arrival, but whoever waits for another host is let past.
class CloneSlots {
 public:
  CloneSlots(int running, int of_one_host) : running_(running), of_one_host_(of_one_host) {}
  void acquire(int host, Act granted);
  void release(int host);

 private:
  struct Waiting {
    int host;
    Act granted;
  };
  void grant();

  int running_, of_one_host_, taken_ = 0;
  std::map<int, int> hosts_;
  std::deque<Waiting> waiting_;
  bool is_granting_ = false;
};

// So many threads, and those who wait for one in order. Whatever is to be done after a while is asked
// of `after`: the node decides whether it still lives.
class Builders {
 public:
  using After = std::function<void(Clock::duration, Act)>;
  Builders(int threads, After after) : threads_(threads), after_(std::move(after)) {}
  void run(double for_seconds, Act begin, Act end);

 private:
  struct Job {
    double seconds;
    Act begin, end;
  };
  void pump();

  int threads_, busy_ = 0;
  After after_;
  std::deque<Job> waiting_;
};

}  // namespace warren::fleet_sim
