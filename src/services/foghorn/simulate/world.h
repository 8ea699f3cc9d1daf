#pragma once
// What is true in a simulation, whoever knows it: nodes with their load, streams with their
// popularity, and viewers to come. The same seed has the same viewers, however they are sent.
#include <map>
#include <random>
#include <string>
#include <vector>

#include "services/foghorn/simulate/simulate.h"

namespace warren::simulate {

inline constexpr double viewer_rate = 393'216;  // bytes a second: 3 Mbit/s

// Uniform in [low, high), the same on every machine.
double between(std::mt19937_64& random, double low, double high);

struct Place {
  double latitude = 0, longitude = 0;
};

struct WorldNode {
  std::string id;
  Place place;
  double limit = 0;
  balance::NodeMode mode = balance::NodeMode::normal;
  bool is_alive = true, is_silent = false;
  int connections = 0;
  struct Carried {
    int viewers = 0;
    bool is_replicated = false, is_pulled = false;  // pulled: it goes with its last viewer
  };
  std::map<int, Carried> streams;

  double up_speed() const { return connections * viewer_rate; }
  double load() const { return up_speed() / limit; }
};

// A viewer to come.
struct Visit {
  double second = 0;
  int stream = 0;
  Place place;
  double stay = 0;
  double delay = 0;  // from the redirect to the connection; negative: it never comes
  int instance = 0;
};

class World {
 public:
  explicit World(const Terms& terms);

  std::vector<WorldNode> nodes;
  std::vector<std::string> streams;  // the most popular first

  Visit next_visit();   // in order of time, without end
  Visit crowd_visit();  // one of the crowd, at the time 0
  int crowd_size() const { return terms_.viewers / 4; }

 private:
  void spread_streams(std::mt19937_64& random);
  Place some_place(std::mt19937_64& random) const;
  int some_stream();
  void decide_rest(Visit& visit);

  Terms terms_;
  std::vector<double> popularity_;  // summed up
  std::mt19937_64 visits_;
  double now_ = 0, mean_stay_;
};

}  // namespace warren::simulate
