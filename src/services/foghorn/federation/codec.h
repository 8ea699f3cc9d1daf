#pragma once
// Frames as they go over the wire. What comes from there is checked here: ids, lengths, numbers.
#include "services/foghorn/federation/frames.h"
#include "services/foghorn/federation/wire.h"

namespace foghorn_federation {
class PeerMessage;
}

namespace warren::federation {

foghorn_federation::PeerMessage to_wire(const Frame& frame);
// Errc::invalid names what is wrong with the frame as a whole; then nothing of it counts. One thing
// that is wrong in it is left out, or Flawed; `flaw` says why.
Result<Frame> from_wire(const foghorn_federation::PeerMessage& message);

// What another cluster would not take is not told either.
Result<> check(const EdgeSummary::Edge& edge);
Result<> check(const AdEdge& edge);
Result<> check(const Item& item);
// Answers to calls are no better than frames.
Result<> check(const StreamCandidate& candidate);
Result<> check(const PullAnswer& answer);
Result<> check_text(const char* what, const std::string& value);

}  // namespace warren::federation
