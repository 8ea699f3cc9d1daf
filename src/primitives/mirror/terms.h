#pragma once
// What is mirrored, and its bounds.
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace warren {

using namespace std::chrono_literals;

// What to keep of an entity when a value comes in: the rules belong to the entity. `local` is empty
// when it is new here.
using Merge =
    std::function<std::string(std::optional<std::string_view> local, std::string_view incoming)>;

struct EntityType {
  std::string name;    // "node": as notifications call it
  std::string folder;  // "nodes:": what stands in its keys between the prefix and the id
  Merge merge = {};    // without one the incoming value wins
};

struct MirrorTerms {
  std::string prefix;  // of all keys: "{cluster-1}:". The braces put them into one slot
  // Where older peers publish {"type":…,"id":…} after a SET, and hear of ours:
  // "foghorn:{cluster-1}:state_updates". Our own channel is beside it, so that a user who may use
  // the one may use the other.
  std::string channel;
  std::vector<EntityType> types;

  // The log forgets its oldest entries beyond this: at least twice the longest outage to catch up
  // from, times the batches per second.
  std::size_t log_entries = 100'000;
  std::size_t load_page = 1000;                  // keys that Redis looks at for one page of a load
  std::chrono::milliseconds tail_check = 500ms;  // how soon a lost last message is noticed
  std::chrono::milliseconds compare_pause = 100ms;  // between two pages of the slow comparison
  std::chrono::milliseconds resync_spread = 250ms;  // so that not all instances reload at once
  std::chrono::milliseconds resync_pause = 1s;      // at least, from one reload to the next
  // Waiting to be written while Redis is away; beyond it a put is refused.
  std::size_t queued_changes = 100'000;
  std::size_t queued_bytes = 64u << 20;

  std::string log_key() const { return prefix + "mirror:log"; }
  std::string head_key() const { return prefix + "mirror:head"; }
  std::string log_channel() const { return channel + ":log"; }
};

// One entity's new value; none: it is deleted.
struct Change {
  std::size_t type;  // its place in MirrorTerms::types
  std::string id;
  std::optional<std::string> value;
};
using Batch = std::vector<Change>;

}  // namespace warren
