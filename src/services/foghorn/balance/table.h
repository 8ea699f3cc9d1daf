#pragma once
// The routing table: all that a decision needs to know, immutable, shared by any number of threads.
//
//   writer (one thread)                          readers
//     TableBuilder builder;                        auto table = current.load();
//     builder.put_node({…});                       auto decision = choose(*table, query);
//     builder.put_holding(stream, node, {…});
//     current.store(builder.publish());
//
// A new table shares with the one before what did not change, so publishing costs what changed, not
// what is known. Nodes are a structure of arrays; a stream knows its holders, so that a decision
// costs the same however many other streams there are.
//
// What changes with every redirect (the penalty of a node) is not part of the table: it is an
// atomic counter that all tables share.
#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace warren::balance {

struct Weights {
  std::uint64_t cpu = 500, ram = 500, bw = 1000, geo = 1000, bonus = 50;
  bool operator==(const Weights&) const = default;
};

enum class NodeMode : std::uint8_t { normal, draining, maintenance };

// IPv4 as v4-mapped IPv6. All zero: unknown, and equal to nothing.
using BinaryHost = std::array<std::uint8_t, 16>;
// Of an address without port or scheme; all zero when it is a name or no address at all.
BinaryHost binary_host(std::string_view address);

inline constexpr double unknown_place = std::numeric_limits<double>::quiet_NaN();

struct NodeFacts {
  std::string id = {};
  std::string base_url = {};  // as reported: with or without a scheme
  std::string tenant = {};    // owner of a dedicated node; empty: shared
  std::string cluster = {};
  bool is_healthy = false;
  bool is_stale = true;
  NodeMode mode = NodeMode::normal;
  double latitude = unknown_place, longitude = unknown_place;
  BinaryHost host = {};
  double cpu_percent = 0;
  double ram_current = 0, ram_max = 0;
  double up_speed = 0, down_speed = 0, bw_limit = 0;  // bytes a second
  bool cap_ingest = false, cap_edge = false, cap_storage = false, cap_processing = false;
  std::vector<std::string> roles = {};
  std::vector<std::string> tags = {};
  std::vector<std::string> config_streams = {};  // allow-list; empty: all
  std::string outputs_json = {};                 // protocol -> URL template, as reported
  std::uint64_t connections = 0;
};

// That a node has a stream.
struct Holding {
  std::uint32_t inputs = 0;  // 0: it cannot serve it
  bool is_replicated = false;
  std::uint32_t viewers = 0;
  std::uint64_t bytes_up = 0, bytes_down = 0;
  bool operator==(const Holding&) const = default;
};

struct StreamFacts {
  std::string name;  // bare
  std::string playback_id = {};
  std::string tenant = {};
  std::string origin_node = {};
  bool is_live = false;
  std::string buffer_state = {};
};

// What redirects that are under way cost a node: added by redirects, taken back when the viewer
// comes or does not. Any thread.
struct Penalty {
  std::atomic<std::uint64_t> bandwidth{0};       // bytes a second, of this instance
  std::atomic<std::uint32_t> pending{0};         // redirects, of this instance
  std::atomic<std::uint64_t> peer_bandwidth{0};  // of all other instances
};

class RoutingTable;

// Belongs to one thread.
class TableBuilder {
 public:
  TableBuilder();
  ~TableBuilder();
  TableBuilder(const TableBuilder&) = delete;
  TableBuilder& operator=(const TableBuilder&) = delete;

  void put_node(NodeFacts facts);
  void erase_node(std::string_view id);  // its holdings and artifacts go too
  void put_stream(StreamFacts facts);
  void erase_stream(std::string_view name);  // its holdings go too
  // A holding of a node that is not known yet counts once the node is.
  void put_holding(std::string_view stream, std::string_view node, Holding holding);
  void erase_holding(std::string_view stream, std::string_view node);
  void put_artifact(std::string_view content_id, std::vector<std::string> nodes);  // none: it goes
  void set_weights(Weights weights);

  // The penalty of a node, null when it is not known. It lives as long as a table that has the
  // node.
  std::shared_ptr<Penalty> penalty(std::string_view node);
  // All that was put until now. The same table again when nothing was.
  std::shared_ptr<const RoutingTable> publish();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace warren::balance
