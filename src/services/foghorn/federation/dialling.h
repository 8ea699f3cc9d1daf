#pragma once
// Which of two clusters dials, and which of two channels between them stays.
//
//   a  (the smaller id)                 b
//     |── X: hello ──────────────────>  |   a dials at once. b dials after a moment without a channel:
//     |<──────────────────── Y: hello ──|   it may know an address where a knows none, or none any more.
//     |── Y: hello ──────────────────>  |
//     |<──────────────────── X: hello ──|   X stays on both sides, in whatever order these arrive.
//
// A channel counts from its greeting on, and ends no other before: it may lead nowhere. Both sides
// then ask the same question about the same two channels, X and Y: whose leader is newer; and where
// it is the same one, who dialled. So they cannot disagree, and none of them ends the channel that
// the other one keeps.
//
// Rejected: that the first one stays. Each side may see another one first.
#include <optional>

#include "base/clock.h"
#include "primitives/lease/token.h"
#include "services/foghorn/federation/terms.h"

namespace warren::federation {

enum class Dialler : std::uint8_t { smaller, larger };  // of the two cluster ids
Dialler dialler_of(const std::string& who_dials, const std::string& who_is_dialled);

// A channel that was greeted.
struct Greeted {
  Dialler by;
  FencingToken leader;  // of the other side, as its greeting says
};
// Whether `next` takes the place of what is there. Errc::refused says why not.
Result<> may_stay(const Greeted& next, const std::optional<Greeted>& there,
                  const std::string& peer);

// From when on a cluster dials that has had no channel since then.
Clock::time_point dials_from(Dialler self, Clock::time_point alone_since,
                             const FederationTerms& terms);

}  // namespace warren::federation
