#pragma once
// What a routing table is made of; for the files of this folder.
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "services/foghorn/balance/cow_map.h"
#include "services/foghorn/balance/nodes.h"

namespace warren::balance {

struct Holder {
  std::uint32_t place;
  Holding holding;
};

struct StreamEntry {
  explicit StreamEntry(std::string_view key) : name(key) {}
  std::string_view key() const { return name; }

  std::string name;
  std::shared_ptr<const StreamFacts> facts;  // null: only its holders are known; shared by editions
  std::vector<Holder> holders;               // by place
};

struct ArtifactEntry {
  explicit ArtifactEntry(std::string_view key) : content_id(key) {}
  std::string_view key() const { return content_id; }

  std::string content_id;
  std::vector<std::uint32_t> places;  // ascending
};

struct PlaybackEntry {
  explicit PlaybackEntry(std::string_view key) : playback_id(key) {}
  std::string_view key() const { return playback_id; }

  std::string playback_id;
  std::vector<std::string> streams;  // by name: more than one may claim it
};

// Also of nodes that are not known, but said to hold something.
struct PlaceEntry {
  explicit PlaceEntry(std::string_view key) : node(key) {}
  std::string_view key() const { return node; }

  std::string node;
  std::uint32_t place = 0;
};

class RoutingTable {
 public:
  Weights weights;
  std::vector<std::shared_ptr<NodeBlock>> blocks;  // shared by editions
  CowMap<PlaceEntry> places;
  CowMap<StreamEntry> streams;
  CowMap<PlaybackEntry> playbacks;
  CowMap<ArtifactEntry> artifacts;
  std::size_t stream_count = 0;  // of those with facts

  const Node* node(std::uint32_t place) const {
    return place / block_size < blocks.size()
               ? blocks[place / block_size]->nodes[place % block_size].get()
               : nullptr;
  }
};

}  // namespace warren::balance
