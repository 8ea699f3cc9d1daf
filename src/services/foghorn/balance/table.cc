#include "services/foghorn/balance/table.h"

#include <arpa/inet.h>

#include <cstring>
#include <unordered_set>

#include "base/error.h"
#include "services/foghorn/balance/routing_table.h"

namespace warren::balance {

BinaryHost binary_host(std::string_view address) {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  BinaryHost host = {};
  if (address.size() >= text.size()) return host;
  std::ranges::copy(address, text.begin());
  std::array<std::uint8_t, 4> v4 = {};
  if (inet_pton(AF_INET, text.data(), v4.data()) == 1) {
    host[10] = host[11] = 0xff;
    std::ranges::copy(v4, host.begin() + 12);
  } else if (inet_pton(AF_INET6, text.data(), host.data()) != 1) {
    host = {};
  }
  return host;
}

struct TableBuilder::Parts {
  // Why a place is taken. It is given to another node only when nothing refers to it.
  struct Place {
    bool has_node = false;
    std::string id;
    std::unordered_set<std::string> streams, artifacts;
  };

  RoutingTable draft;
  std::uint64_t edition = 1;  // what was made in it was not published yet
  bool is_changed = true;
  std::shared_ptr<const RoutingTable> published;  // owned by readers too
  std::vector<Place> places;
  std::vector<std::uint32_t> free_places;

  std::uint32_t take_place(std::string_view id);
  void leave_place(std::uint32_t place);  // if nothing refers to it
  NodeBlock& own_block(std::uint32_t place);
  StreamEntry& own_stream(std::string_view name) { return draft.streams.edit(edition, name); }
  void put_playback(const StreamFacts& facts);
  void erase_playback(const StreamFacts& facts);
  void drop_stream_if_bare(std::string_view name);
  void drop_copy(std::string_view content_id, std::uint32_t place);
};

std::uint32_t TableBuilder::Parts::take_place(std::string_view id) {
  if (const auto* entry = draft.places.find(id)) return entry->place;
  if (free_places.empty()) {
    draft.blocks.push_back(std::make_shared<NodeBlock>());
    draft.blocks.back()->edition = edition;
    auto first = static_cast<std::uint32_t>(places.size());
    places.resize(places.size() + block_size);
    for (std::uint32_t i = block_size; i > 0; --i) free_places.push_back(first + i - 1);
  }
  auto place = free_places.back();
  free_places.pop_back();
  draft.places.edit(edition, id).place = place;
  places[place].id = id;
  return place;
}

void TableBuilder::Parts::leave_place(std::uint32_t place) {
  auto& entry = places[place];
  if (entry.has_node || !entry.streams.empty() || !entry.artifacts.empty()) return;
  draft.places.erase(edition, entry.id);
  entry = {};
  free_places.push_back(place);
}

NodeBlock& TableBuilder::Parts::own_block(std::uint32_t place) {
  auto& block = draft.blocks[place / block_size];
  if (block->edition != edition) {
    block = std::make_shared<NodeBlock>(*block);
    block->edition = edition;
  }
  return *block;
}

void TableBuilder::Parts::put_playback(const StreamFacts& facts) {
  if (facts.playback_id.empty()) return;
  auto& streams = draft.playbacks.edit(edition, facts.playback_id).streams;
  streams.insert(std::ranges::lower_bound(streams, facts.name), facts.name);
}

void TableBuilder::Parts::erase_playback(const StreamFacts& facts) {
  if (facts.playback_id.empty()) return;
  auto& streams = draft.playbacks.edit(edition, facts.playback_id).streams;
  std::erase(streams, facts.name);
  if (streams.empty()) draft.playbacks.erase(edition, facts.playback_id);
}

void TableBuilder::Parts::drop_stream_if_bare(std::string_view name) {
  const auto* entry = draft.streams.find(name);
  if (entry && !entry->facts && entry->holders.empty()) draft.streams.erase(edition, name);
}

void TableBuilder::Parts::drop_copy(std::string_view content_id, std::uint32_t place) {
  auto& copies = draft.artifacts.edit(edition, content_id).places;
  std::erase(copies, place);
  if (copies.empty()) draft.artifacts.erase(edition, content_id);
}

TableBuilder::TableBuilder() : parts_(std::make_unique<Parts>()) {}
TableBuilder::~TableBuilder() = default;

void TableBuilder::put_node(NodeFacts facts) {
  auto place = parts_->take_place(facts.id);
  auto& block = parts_->own_block(place);
  auto node = std::make_shared<Node>();
  const auto& before = block.nodes[place % block_size];
  node->penalty = before ? before->penalty : std::make_shared<Penalty>();
  node->facts = std::move(facts);
  block.set(place % block_size, std::move(node), parts_->draft.weights);
  parts_->places[place].has_node = true;
  parts_->is_changed = true;
}

void TableBuilder::erase_node(std::string_view id) {
  const auto* entry = parts_->draft.places.find(id);
  if (!entry) return;
  auto place = entry->place;
  auto& taken = parts_->places[place];
  for (const auto& stream : std::exchange(taken.streams, {})) {
    std::erase_if(parts_->own_stream(stream).holders,
                  [&](const Holder& holder) { return holder.place == place; });
    parts_->drop_stream_if_bare(stream);
  }
  for (const auto& content : std::exchange(taken.artifacts, {})) parts_->drop_copy(content, place);
  if (taken.has_node) parts_->own_block(place).clear(place % block_size);
  taken.has_node = false;
  parts_->leave_place(place);
  parts_->is_changed = true;
}

void TableBuilder::put_stream(StreamFacts facts) {
  auto& entry = parts_->own_stream(facts.name);
  if (entry.facts)
    parts_->erase_playback(*entry.facts);
  else
    ++parts_->draft.stream_count;
  entry.facts = std::make_shared<const StreamFacts>(std::move(facts));
  parts_->put_playback(*entry.facts);
  parts_->is_changed = true;
}

void TableBuilder::erase_stream(std::string_view name) {
  const auto* entry = parts_->draft.streams.find(name);
  if (!entry) return;
  if (entry->facts) {
    parts_->erase_playback(*entry->facts);
    --parts_->draft.stream_count;
  }
  std::string key(name);  // which may be a view of what goes
  for (const auto& holder : entry->holders) {
    parts_->places[holder.place].streams.erase(key);
    parts_->leave_place(holder.place);
  }
  parts_->draft.streams.erase(parts_->edition, key);
  parts_->is_changed = true;
}

void TableBuilder::put_holding(std::string_view stream, std::string_view node, Holding holding) {
  auto place = parts_->take_place(node);
  auto is_at = [&](const StreamEntry& entry) {
    auto at = std::ranges::lower_bound(entry.holders, place, {}, &Holder::place);
    return at - entry.holders.begin();
  };
  if (const auto* known = parts_->draft.streams.find(stream)) {
    auto at = known->holders.begin() + is_at(*known);
    if (at != known->holders.end() && at->place == place && at->holding == holding) return;
  }
  auto& entry = parts_->own_stream(stream);
  auto at = entry.holders.begin() + is_at(entry);
  if (at != entry.holders.end() && at->place == place) {
    at->holding = holding;
  } else {
    entry.holders.insert(at, {place, holding});
    parts_->places[place].streams.emplace(stream);
  }
  parts_->is_changed = true;
}

void TableBuilder::erase_holding(std::string_view stream, std::string_view node) {
  const auto* place = parts_->draft.places.find(node);
  if (!place) return;
  auto at = place->place;
  std::string key(stream);
  if (parts_->places[at].streams.erase(key) == 0) return;
  std::erase_if(parts_->own_stream(key).holders,
                [&](const Holder& holder) { return holder.place == at; });
  parts_->drop_stream_if_bare(key);
  parts_->leave_place(at);
  parts_->is_changed = true;
}

void TableBuilder::put_artifact(std::string_view content_id, std::vector<std::string> nodes) {
  std::vector<std::uint32_t> copies;
  for (const auto& node : nodes) copies.push_back(parts_->take_place(node));
  std::ranges::sort(copies);
  auto twice = std::ranges::unique(copies);
  copies.erase(twice.begin(), twice.end());
  std::string key(content_id);
  const auto* before = parts_->draft.artifacts.find(key);
  auto old = before ? before->places : std::vector<std::uint32_t>();
  if (old == copies) return;
  for (auto place : copies) parts_->places[place].artifacts.insert(key);
  if (copies.empty())
    parts_->draft.artifacts.erase(parts_->edition, key);
  else
    parts_->draft.artifacts.edit(parts_->edition, key).places = copies;
  for (auto place : old) {
    if (std::ranges::binary_search(copies, place)) continue;
    parts_->places[place].artifacts.erase(key);
    parts_->leave_place(place);
  }
  parts_->is_changed = true;
}

void TableBuilder::set_weights(Weights weights) {
  if (weights == parts_->draft.weights) return;
  parts_->draft.weights = weights;
  for (std::uint32_t i = 0; i < parts_->draft.blocks.size(); ++i)
    parts_->own_block(i * block_size).weigh(weights);
  parts_->is_changed = true;
}

std::shared_ptr<Penalty> TableBuilder::penalty(std::string_view node) {
  const auto* place = parts_->draft.places.find(node);
  const auto* known = place ? parts_->draft.node(place->place) : nullptr;
  return known ? known->penalty : nullptr;
}

std::shared_ptr<const RoutingTable> TableBuilder::publish() {
  if (parts_->is_changed) {
    parts_->published = std::make_shared<const RoutingTable>(parts_->draft);
    parts_->is_changed = false;
    ++parts_->edition;
  }
  return parts_->published;
}

}  // namespace warren::balance
