#pragma once
// The entries of a mirror's log: batches of changes, each at its place in history.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace warren {

// A place in the log: the id of a stream entry. A failover starts a new epoch, in which the
// sequence starts again.
struct Version {
  std::uint64_t epoch = 0;
  std::uint64_t sequence = 0;
  auto operator<=>(const Version&) const = default;
};
std::string to_string(const Version& version);  // "5-12", as Redis writes it
std::optional<Version> parse_version(std::string_view text);

// A place together with the stamp of the batch there. A stamp is unique across all histories: after
// a failover that lost writes another batch may have the same place, but never the same stamp.
struct Position {
  Version version;
  std::string stamp = "-";  // "-": before the first entry
  bool operator==(const Position&) const = default;
};

// The last entry, and the stamp of the first entry of all. If the first one differs, so does all of
// history, whatever the versions say.
struct Tail {
  Position at;
  std::string born = {};  // empty: before the first entry, or not known
};
std::optional<Tail> parse_tail(std::string_view text);  // "5-12 writer:7 writer:1"

namespace mirror {

// A change of one key. The key is what follows the mirror's prefix.
struct KeyChange {
  std::string_view key;
  std::optional<std::string_view> value;  // nullopt: deleted
};

// A batch as pushes and the log carry it. `before` is the stamp of the previous entry. So a reader
// knows from the entry alone whether one is missing, whatever the ids look like.
struct Entry {
  Position at;
  std::string before;
  std::string packed;
};

// Packs changes one after the other, and returns where in the result a value lies.
class Packer {
 public:
  struct Place {
    std::size_t first, last;  // counted from 1, as Lua does
  };
  // Returns nullopt for a deletion.
  std::optional<Place> add(const KeyChange& change);
  std::string take() { return std::move(packed_); }

 private:
  std::string packed_;
};
// The views point into `packed`. Returns nullopt if no Packer wrote it.
std::optional<std::vector<KeyChange>> unpack(std::string_view packed);

// Parses "id before stamp packed".
std::optional<Entry> parse_push(std::string_view payload);

}  // namespace mirror
}  // namespace warren
