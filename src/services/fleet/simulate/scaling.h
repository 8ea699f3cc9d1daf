#pragma once
// Nodes that come and go as the product's Scaler advises, in virtual time.
//
//   queries, in nodes ──> how busy each node is ──> heartbeats ──> Scaler ──> nodes start and drain
//        ┌─────┐
//   ─────┘     └─────     The load steps up after a third of the run, and down after two thirds.
#include "services/fleet/plan/scaler.h"
#include "services/fleet/simulate/node.h"

namespace warren::fleet_sim {

class ScalingModel {
 public:
  ScalingModel(Stage& stage, std::uint64_t seed) : stage_(stage), chance_(seed) {
    scaler_ = fleet::Scaler(stage.terms.scaling.terms);
  }

  void start();
  Scaled result() const;

 private:
  enum class Plateau : std::uint8_t { first, high, last };
  Plateau plateau() const;
  double level() const;         // what queries take, in nodes that do nothing else
  std::size_t needed() const;   // nodes, for this plateau
  std::size_t counted() const;  // nodes that live and do not drain
  fleet::FleetLoad load() const;
  void tick();
  void spread_load();
  void follow_advice();
  void start_node();
  void judge();

  Stage& stage_;
  Chance chance_;
  fleet::Scaler scaler_;
  Scaled scaled_;
  std::size_t starting_ = 0, before_ = 0;  // nodes
  std::uint64_t ticks_ = 0;
  bool is_draining_ = false;
  double noise_ = 1;
  Plateau last_plateau_ = Plateau::first;
  Time plateau_began_{};
};

}  // namespace warren::fleet_sim
