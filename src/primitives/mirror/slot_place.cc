#include "primitives/mirror/slot_place.h"

#include <charconv>
#include <vector>

namespace warren::mirror {

namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    auto end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

// Parses "93" or "0-5460".
bool has_slot(std::string_view range, int slot) {
  auto dash = range.find('-');
  auto first = number(range.substr(0, dash));
  auto last = dash == range.npos ? first : number(range.substr(dash + 1));
  return first && last && *first <= slot && slot <= *last;
}

// One line of CLUSTER NODES.
struct Node {
  std::string_view id, address, flags, epoch;
  std::vector<std::string_view> slots;  // with "[93->-id]" while one moves away

  bool has(int slot) const {
    for (auto range : slots)
      if (has_slot(range, slot)) return true;
    return false;
  }
  std::string_view target_of(int slot) const {
    auto prefix = "[" + std::to_string(slot) + "->-";
    for (auto range : slots)
      if (range.starts_with(prefix) && range.ends_with(']'))
        return range.substr(prefix.size(), range.size() - prefix.size() - 1);
    return {};
  }
};

std::vector<Node> parse_nodes(std::string_view text) {
  std::vector<Node> nodes;
  for (auto line : split(text, '\n')) {
    auto words = split(line, ' ');
    if (words.size() < 8) continue;
    nodes.push_back({words[0], words[1], words[2], words[6], {words.begin() + 8, words.end()}});
  }
  return nodes;
}

}  // namespace

bool SlotPlace::was_read_whole(const SlotPlace& afterwards) const {
  if (!moves()) return afterwards == *this;
  bool still_moves = afterwards == *this;
  bool has_arrived = afterwards.owner == target && !afterwards.moves();
  return still_moves || has_arrived;
}

std::optional<SlotPlace> parse_slot_place(std::string_view nodes, int slot) {
  auto all = parse_nodes(nodes);
  for (const auto& node : all) {
    if (!node.flags.starts_with("myself") || !node.has(slot)) continue;
    SlotPlace place{std::string(node.id), std::string(node.epoch),
                    std::string(node.target_of(slot)), ""};
    for (const auto& other : all)
      if (other.id == place.target)
        place.target_address = other.address.substr(0, other.address.find('@'));
    if (place.moves() && place.target_address.empty()) return {};
    return place;
  }
  return {};
}

}  // namespace warren::mirror
