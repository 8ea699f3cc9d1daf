#pragma once
// Combines the sentinels' reports about which server is the primary.
//
//   primary dies        a replica is promoted      the sentinels agree and report it
//   ────┼────────────────────┼──────────────────────────┼────────▶ time
//       0                  1.4 s                      2.3 s
//
// Asking only the sentinels costs the last second. So while there is no primary, we also ask the
// known replicas for their role. We believe a server that we saw as a replica and that now says it
// is the primary. We believe no other server against the sentinels: a primary that was suspended
// and wakes up, or a replica that was restarted without its configuration, also says that it is the
// primary.
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "redis/settings.h"

namespace warren::redis {

class SentinelView {
 public:
  explicit SentinelView(std::size_t sentinels) : reports_(sentinels) {}

  struct Report {
    Address primary;
    std::uint64_t epoch = 0;  // of the configuration; the newest one counts
    std::vector<Address> replicas;
    std::vector<Address> down = {};  // the replicas that this sentinel considers down
    std::string id = {};             // of the sentinel, which may have several addresses
    std::size_t sentinels = 1;       // how many sentinels this one knows, itself included
  };
  // Only the latest report of each sentinel counts, so all of them may start over with an old
  // epoch.
  void on_report(std::size_t sentinel, Report report);
  // The sentinel cannot be reached: the replicas that it considered down may be back.
  void on_silence(std::size_t sentinel);
  // A server reported its role. Returns whether it is the primary to use.
  bool on_role(const Address& address, bool says_primary);

  // The servers to ask for their role: the primary, and all that may have been promoted.
  std::vector<Address> candidates() const;
  // The server whose promotion we observed, or else the one that the sentinels name.
  std::optional<Address> primary() const;
  // The epoch of the configuration that makes primary() the primary. It never decreases at a
  // promotion.
  std::uint64_t epoch() const;
  // More than half of all sentinels, configured here or not, consider this replica down. Sentinel
  // does not promote it before it is back. A client that is cut off together with the primary cannot
  // reach that many sentinels, so it never leaves out the replicas on the other side of the cut.
  bool is_down(const Address& address) const;
  // More than half of the sentinels have reported, so a lagging one cannot be the only source.
  bool has_majority() const;

 private:
  const Report* newest() const;

  std::vector<std::optional<Report>> reports_;
  std::set<Address> seen_as_replica_;  // under the newest configuration
  std::optional<Address> promoted_;    // as we observed
  std::size_t doubts_ = 0;             // later reports that do not confirm it
};

}  // namespace warren::redis
