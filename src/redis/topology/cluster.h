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
  bool is_empty() const { return nodes_.empty(); }
  bool operator==(const SlotMap&) const = default;

 private:
  static constexpr std::uint16_t nobody = 0xffff;
  std::uint16_t index_of(const Address& address);
  std::array<std::uint16_t, slot_count> owners_;  // into nodes_
  std::vector<Address> nodes_;
  std::vector<Address> replicas_;
};

// "MOVED 3999 127.0.0.1:6381" or "ASK …"; an empty host is that of the server that said it.
struct Redirection {
  int slot;
  Address address;
};
Result<Redirection> parse_redirection(std::string_view error, const Address& from);

}  // namespace warren::redis
