#pragma once
// The definition of a mirror, and its bounds.
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace warren {

using namespace std::chrono_literals;

// Decides what to keep of an entity when a value comes in; each type has its own rules. `local` is
// nullopt if the entity is new here.
using Merge =
    std::function<std::string(std::optional<std::string_view> local, std::string_view incoming)>;

struct EntityType {
  std::string name;    // "node": its name in notifications
  std::string folder;  // "nodes:": the part of its keys between the prefix and the id
  Merge merge = {};    // without one the incoming value wins
};

struct MirrorTerms {
  std::string prefix;  // of all keys: "{cluster-1}:". The braces put them into one slot
  // Where older peers publish {"type":…,"id":…} after a SET, and learn of our changes:
  // "foghorn:{cluster-1}:state_updates". Our own channel has the same prefix, so that a user with
  // access to one has access to both.
  std::string channel;
  std::vector<EntityType> types;

  // The log forgets its oldest entries beyond this number. Use at least twice the longest outage
  // after which readers should catch up, times the batches per second.
  std::size_t log_entries = 100'000;
  std::size_t load_page = 1000;  // how many keys Redis examines for one page of a load
  std::chrono::milliseconds tail_check = 500ms;     // how soon a lost last message is noticed
  std::chrono::milliseconds compare_pause = 100ms;  // between two pages of the slow comparison
  std::chrono::milliseconds resync_spread = 250ms;  // keeps instances from reloading all at once
  std::chrono::milliseconds resync_pause = 1s;      // the least time between two reloads
  // The bounds of what waits while Redis is away. Beyond them a put is refused.
  std::size_t queued_changes = 100'000;
  std::size_t queued_bytes = 64u << 20;

  std::string log_key() const { return prefix + "mirror:log"; }
  std::string head_key() const { return prefix + "mirror:head"; }
  std::string log_channel() const { return channel + ":log"; }
};

// The new value of one entity; nullopt: it is deleted.
struct Change {
  std::size_t type;  // its index in MirrorTerms::types
  std::string id;
  std::optional<std::string> value;
};
using Batch = std::vector<Change>;

}  // namespace warren
