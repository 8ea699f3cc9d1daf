#pragma once
// A serving fleet in virtual time: thousands of repositories, hundreds of nodes, faults and queries,
// with the product's own decisions (plan/: placement, claims, shelf; NodeMachine: leases). No server, no
// clock; a seed is a whole run.
//
//   queries ──> routers (a view that lags) ──> nodes: Claims, Shelf, NodeMachine, as in the product
//                        ▲                        │ claim, write, release: some milliseconds each
//                        └────── changes ── model of a catalog: leases, epochs, waits
//   git hosts: a shared link each ──> clones, bounded ──> builds, bounded ──> memory
//
// What is assumed and not decided by the product is in World below, and in docs/fleet-tuning.md.
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "services/fleet/plan/claims.h"
#include "services/fleet/plan/scaler.h"
#include "services/fleet/plan/shelf.h"

namespace warren::fleet_sim {

struct Faults {
  bool kill = false;     // a node dies, and comes back empty
  bool pause = false;    // a node stands still past its lease, and goes on
  bool cut = false;      // a node cannot reach the catalog, but routers reach it
  bool restart = false;  // the catalog is away for a while
  bool stall = false;    // the catalog takes requests, and answers none for ten seconds
  bool slow = false;     // the git hosts have a tenth of their speed, and a node dies meanwhile
  bool drain = false;    // nodes are drained and replaced, one after the other
};
// "none", "all", or some of kill, pause, cut, restart, stall, slow and drain with commas.
Result<Faults> parse_faults(std::string_view words);
std::string words_of(const Faults& faults);

// What is measured or assumed of the world; sizes are of text, and a MB is 10^6 bytes.
struct World {
  // Log-normal. The shape is that of Linux 6.1 cut into 632 folders (p90 15 times, p99 140 times the
  // median), which is 163 KB there.
  double median_bytes = 1e6, sigma = 2.13, largest_bytes = 128e6;
  // Measured on Linux 6.1 (docs/benchmarks.md): bytes of memory per byte of text, and MB/s per core.
  double hot = 1.19, warm = 0.468, peak = 2.35, peak_at_least = 6.3e6;
  double read_mb_s = 183, index_mb_s = 289;  // one after the other: 112 MB/s
  // Assumed.
  double symbols = 0.1, symbols_mb_s = 20, cool_mb_s = 300;
  int hosts = 4;
  double host_mb_s = 250;       // of one git host, shared by all who clone from it
  double clone_mb_s = 25;       // of one clone at most
  double packed = 0.25;         // bytes on the wire per byte of text, --depth 1
  double git_round_trip = 0.1;  // seconds to ask for refs; a clone begins with two of them
  double stream_mb_s = 400;     // from node to node
  double catalog_ms = 2;        // there and back, the median
  double drift = 100e-6;        // clocks run wrong by at most this part
  double queries_per_second = 50, zipf = 1.0;
  double pinned = 0.02;  // the part of repositories that is pinned
};

// Nodes that come and go as the product's Scaler advises: see scaling.h.
struct Scaling {
  bool is_on = false;
  fleet::ScaleTerms terms = {};
  std::chrono::seconds node_start = 30s;  // from the advice until a new node claims
  double low = 1,
         high = 3;     // what queries take, in nodes: before and after the steps, and in between
  double noise = 0.2;  // of that load, by chance, another one every ten seconds
};

struct Terms {
  int repos = 500, nodes = 6, replicas = 1;
  std::uint64_t seed = 1;
  std::chrono::seconds length = 45min;
  std::chrono::milliseconds ttl = 30s, look = 1s;
  int clones = 4, clones_of_one_host = 2, builds = 1;
  double budget_part = 1.2;        // of all nodes together: of what all repositories take hot
  std::uint64_t budget_bytes = 0;  // of one node; 0: by budget_part
  fleet::ShelfTerms shelf = {};
  fleet::ClaimTerms claims = {};
  bool records_demand = true;
  int pins_later = 0;  // unserved repositories to pin once everything has settled
  Faults faults = {};
  Scaling scaling = {};
  World world = {};
};

// The least and so on of a number of seconds.
struct Spread {
  std::size_t count = 0;
  double p50 = 0, p95 = 0, p99 = 0, max = 0;
};
Spread spread_of(std::vector<double> values);

struct Recovery {
  std::string what;          // "n3 is killed"
  double at = 0;             // seconds
  std::size_t lost = 0;      // rows that were served by it
  double seconds = -1;       // until all of them were served again; -1: not before the end
  double bound = 0;          // ttl + 5 s + work
  double work = 0;           // of the lost ones, placed on who is left, with nothing to wait for
  std::uint64_t clones = 0;  // of the lost ones, until then
  std::uint64_t missed = 0;  // queries that were not answered in full, until then
};

struct Moment {
  double second = 0;
  std::size_t ready = 0, unclaimed = 0;    // rows
  std::vector<std::uint64_t> memory = {};  // by node: held, and what builds take
};

struct Scaled {
  std::size_t most = 0;       // nodes at once
  std::size_t overshoot = 0;  // nodes that were started beyond what the load needs
  std::size_t flaps = 0;      // changes against the direction of the step before them
  double flaps_per_hour = 0;
  double up_seconds = -1, down_seconds = -1;  // until there were as many as needed; -1: never
  double saturated_seconds = 0;               // with every processor busy
  double node_hours = 0;
};

struct Outcome {
  std::size_t rows = 0;
  std::uint64_t budget_bytes = 0, need_bytes = 0;  // of a node; of all rows, hot
  double all_ready = -1;                           // seconds; -1: never
  std::size_t most_ready = 0, ready_at_end = 0;
  Spread claimed, served;  // from unclaimed to claimed, and to served
  std::vector<double> served_seconds;
  std::vector<Recovery> recoveries;
  std::uint64_t queries = 0, complete = 0, second_try = 0, regretted = 0;
  std::uint64_t pinned_missed = 0;  // queries for pinned ones, once served, no fault
  Scaled scaled = {};
  int pinned_later = 0, pinned_later_served = 0;    // by pins_later; served at the end
  std::map<std::string, std::uint64_t> incomplete;  // queries, by reason
  std::map<std::string, std::size_t> unserved;      // rows at the end, by reason
  std::uint64_t clones = 0, most_clones = 0, brought_in_vain = 0, demoted = 0, evicted = 0;
  std::uint64_t claims = 0, claims_in_vain = 0, reads = 0, writes = 0, beats = 0;
  double idle_writes =
      0;  // rows changed per node and interval between two beats, when all is quiet
  bool was_idle = false;
  double worst_memory = 0;           // the largest part of its budget that a node took
  std::vector<double> memory_parts;  // the largest, by node
  double balance = 0;                // memory of the fullest node by the mean, when all was ready
  std::vector<Moment> moments;
  std::vector<std::string> violations;  // of what must always hold
};

Outcome simulate(const Terms& terms);

std::string report(const Terms& terms, const Outcome& outcome);
std::string to_json(const Terms& terms, const Outcome& outcome);  // one line
struct Plot {
  std::string file, svg;
};
std::vector<Plot> plots(const Terms& terms, const Outcome& outcome);

}  // namespace warren::fleet_sim
