#pragma once
// A cluster, its viewers and its faults in virtual time, with the real decisions: choose() and the
// Viewers of each instance. No server, no clock; a seed is a whole run.
//
//   viewers ── ask ──> one of the instances ── choose() ──> a node: they arrive a moment later
//   nodes ── report every 10 s ──> all instances
//
// What an instance does not know is what makes it err: reports are up to 10 s old, and redirects of
// other instances are seen only where penalties are shared.
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "services/foghorn/balance/choose.h"

namespace warren::simulate {

struct Faults {
  bool deaths = false;   // nodes die; their viewers come back
  bool silence = false;  // nodes serve, but do not report
  bool drain = false;    // nodes take no more viewers
  bool crowd = false;    // many viewers at once want the same stream
};
// "none", "all", or some of deaths, silence, drain and crowd with commas.
Result<Faults> parse_faults(std::string_view words);

struct Terms {
  int nodes = 100, streams = 1'000;
  int viewers = 20'000;  // at a time; all nodes together could serve more by two thirds
  int instances = 3;
  std::chrono::seconds length = 600s;
  std::uint64_t seed = 1;
  balance::Policy policy = balance::Policy::fair;
  bool shares_penalties = true;
  // An arrival is heard by the instance that the node is connected to. True: also by the one that
  // sent the viewer there, which otherwise goes on expecting it for 30 s.
  bool tells_arrivals = true;
  Faults faults = {};
};

// Loads are parts of a node's limit; above 1 its viewers do not get what they need.
struct Moment {
  int second = 0;
  double mean = 0, p99 = 0, max = 0;
  int viewers = 0;
};
struct Period {
  int from = 0, to = 0;  // seconds
  std::string what;
};
struct Outcome {
  std::vector<Moment> moments;  // one a second
  std::vector<Period> faults;
  std::uint64_t sent = 0, refused = 0;
  double short_time = 0;  // the part of all viewing time that was spent at nodes above their limit

  // After the first quarter, when the cluster is full.
  Moment typical() const;  // averages over time; of `max` too
  double worst() const;    // the highest load of any node at any time
  double herding() const;  // how far the fullest node is above the mean, on average
  double worst_herding() const;
};

Outcome simulate(const Terms& terms);

// One column of a report.
struct Run {
  std::string name;  // "compat", "fair"
  Terms terms;
  Outcome outcome;
};
std::string report(const std::vector<Run>& runs);
// Load over time, one panel for each run.
std::string chart(const std::vector<Run>& runs);

}  // namespace warren::simulate
