#pragma once
// Which server of a cluster owns which slot, as far as we know.
//
// A map is soon out of date. Servers answer MOVED when it is wrong. Each such answer corrects its
// one slot at once, and the whole map is requested again, once for all callers.
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
  // Parses the answer of `asked` to CLUSTER SLOTS. Where the answer has an empty host, it means the
  // host of `asked`.
  static Result<SlotMap> parse(const Reply& slots, const Address& asked);

  // Returns nullptr if no server is known to own it.
  const Address* owner(int slot) const;
  // Applies an answer of "MOVED slot address".
  void patch(int slot, const Address& address);
  // All servers that own a slot, and their replicas.
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

// What one server of a cluster reports.
struct Opinion {
  std::uint64_t epoch;  // of the cluster, as far as this server knows
  SlotMap map;
};
// Among the opinions with the newest epoch, the map that most of them share: a server that the
// others have forgotten knows no newer epoch, but its map still contains itself. There must be at
// least one.
Opinion newest_of(std::vector<Opinion> heard);

// "MOVED 3999 127.0.0.1:6381" or "ASK …". An empty host means the server that answered.
struct Redirection {
  int slot;
  Address address;
};
Result<Redirection> parse_redirection(std::string_view error, const Address& from);

// What to do with a call that a cluster's server refused. Real and simulated clients decide by this
// same code.
struct Onward {
  enum class Kind {
    told,    // the caller gets the error
    moved,   // send it and all that follows for this slot to the new server
    asked,   // send only this call there, with ASKING
    astray,  // it was redirected too often
    later,   // try again in a moment, from the beginning
  };
  Kind kind;
  Redirection to{};            // with `moved` and `asked`
  std::optional<Error> why{};  // with `told`
  bool is_map_old = false;
};
// `detours`: how often it was redirected since it was last tried from the beginning.
Onward onward_from(const Address& server, const Reply& refusal, const CallOptions& options,
                   std::size_t detours);

}  // namespace warren::redis
