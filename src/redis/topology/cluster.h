#pragma once
// Which server of a cluster owns which slot, as far as we know.
//
// A map is never right for long: servers answer MOVED when it is wrong, and each such answer mends
// the one slot it is about at once, while the whole map is asked for again, once for everybody.
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "redis/call.h"
#include "redis/resp/command.h"
#include "redis/resp/reply.h"
#include "redis/settings.h"

namespace warren::redis {

class SlotMap {
 public:
  SlotMap() { owners_.fill(nobody); }
  // CLUSTER SLOTS as answered by `asked`, whose host stands in for those that are left empty.
  static Result<SlotMap> parse(const Reply& slots, const Address& asked);

  // No value when nobody is known to own it.
  const Address* owner(int slot) const;
  // "MOVED slot address" was answered.
  void patch(int slot, const Address& address);
  // Everyone who owns a slot, and their replicas.
  std::vector<Address> primaries() const;
  const std::vector<Address>& replicas() const { return replicas_; }
  bool has(const Address& address) const;
  bool is_empty() const { return nodes_.empty(); }
  bool operator==(const SlotMap&) const = default;

 private:
  static constexpr std::uint16_t nobody = 0xffff;
  std::uint16_t index_of(const Address& address);
  std::array<std::uint16_t, slot_count> owners_;  // into nodes_
  std::vector<Address> nodes_;
  std::vector<Address> replicas_;
};

// What one server of a cluster says.
struct Opinion {
  std::uint64_t epoch;  // of the cluster, as far as it knows
  SlotMap map;
};
// Of those with the newest epoch, what most of them say: a server that the others have forgotten
// knows of no newer epoch, but of a map with itself in it. There is at least one.
Opinion newest_of(std::vector<Opinion> heard);

// "MOVED 3999 127.0.0.1:6381" or "ASK …"; an empty host is that of the server that said it.
struct Redirection {
  int slot;
  Address address;
};
Result<Redirection> parse_redirection(std::string_view error, const Address& from);

// What becomes of a call that a server of a cluster refused. Real clients and simulated ones decide
// by this same code.
struct Onward {
  enum class Kind {
    told,    // to the caller
    moved,   // goes there, as all that follows for this slot does
    asked,   // goes there with ASKING, alone
    astray,  // was sent from server to server too often
    later,   // is tried again in a moment, from the beginning
  };
  Kind kind;
  Redirection to{};            // moved, asked
  std::optional<Error> why{};  // told
  bool is_map_old = false;
};
// `detours`: how often it was sent on since it was last tried from the beginning.
Onward onward_from(const Address& server, const Reply& refusal, const CallOptions& options,
                   std::size_t detours);

}  // namespace warren::redis
