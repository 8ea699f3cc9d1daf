#pragma once
// The data of a ModelRedis: keys, values of six types, and when they expire.
//
// A simulated server holds tens of keys with tens of elements, and is copied often. So collections
// are plain vectors in the order that a client sees, and a search is a loop.
#include <boost/unordered/unordered_flat_map.hpp>
#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace warren::sim {

struct Message {
  std::string channel;
  std::string payload;
  bool is_sharded;  // SPUBLISH
};

struct List {
  std::vector<std::string> items;
  bool empty() const { return items.empty(); }
};

// In the order of insertion, as Redis keeps small hashes.
struct Hash {
  std::vector<std::pair<std::string, std::string>> fields;
  bool empty() const { return fields.empty(); }
  std::string* find(std::string_view field);
};

struct Set {
  std::vector<std::string> members;  // sorted
  bool empty() const { return members.empty(); }
};

struct SortedSet {
  std::vector<std::pair<double, std::string>> members;  // sorted
  bool empty() const { return members.empty(); }
};

struct StreamId {
  std::uint64_t ms = 0, seq = 0;
  auto operator<=>(const StreamId&) const = default;
};

struct Stream {
  struct Entry {
    StreamId id;
    std::uint64_t node;  // entries are stored by the hundred, and `~` trims whole nodes
    std::vector<std::string> fields;
  };
  std::vector<Entry> entries;
  StreamId last_id, max_deleted_id;
  std::uint64_t entries_added = 0;
  std::uint64_t node = 0, node_size = 0;  // of the last node, including entries deleted since
};

struct Value {
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  std::variant<std::string, List, Hash, Set, SortedSet, Stream> data;
  std::int64_t expires_ms = never;
};

// Allows lookups by string_view.
struct KeyHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view key) const { return std::hash<std::string_view>()(key); }
};

using Keyspace = boost::unordered_flat_map<std::string, Value, KeyHash, std::equal_to<>>;

}  // namespace warren::sim
