#pragma once
// What the sentinels say about who is the primary, weighed.
//
//   primary dies        a replica is promoted      the sentinels agree and say so
//   ────┼────────────────────┼──────────────────────────┼────────▶ time
//       0                  1.4 s                      2.3 s
//
// Asking only the sentinels costs the last second. So while there is no primary we also ask the
// known replicas for their role, and believe one that says it was promoted. A server that was the
// primary before is believed only if the newest configuration names it: a primary that was
// suspended and wakes up still says that it is one.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "redis/settings.h"

namespace warren::redis {

class SentinelView {
 public:
  explicit SentinelView(std::size_t sentinels) : reported_(sentinels) {}

  struct Report {
    Address primary;
    std::uint64_t epoch = 0;  // of the configuration; the newest one counts
    std::vector<Address> replicas;
  };
  // True when what it says changed the view.
  bool on_report(std::size_t sentinel, const Report& report);
  // We found a known replica that says it is the primary, before any sentinel told.
  void on_promoted(const Address& address);

  // Whether a server that says it is the primary is to be believed.
  bool accepts(const Address& address) const;
  // Whom to ask for their role: the named primary, and everyone who may have been promoted.
  std::vector<Address> candidates() const;

  const std::optional<Address>& primary() const { return primary_; }
  std::uint64_t epoch() const { return epoch_; }
  // More than half of the sentinels were heard, so a lagging one cannot be the only voice.
  bool has_majority() const;

 private:
  std::vector<bool> reported_;
  std::optional<Address> primary_;
  std::optional<Address> deposed_;
  std::uint64_t epoch_ = 0;
  std::vector<Address> replicas_;
};

}  // namespace warren::redis
