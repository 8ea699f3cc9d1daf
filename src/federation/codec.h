#pragma once
// Frames as they go over the wire. What comes from there is checked here: ids, lengths, numbers.
#include "federation/frames.h"

namespace foghorn_federation {
class PeerMessage;
}

namespace warren::federation {

foghorn_federation::PeerMessage to_wire(const Frame& frame);
// Errc::invalid names what is wrong; then nothing of the frame counts.
Result<Frame> from_wire(const foghorn_federation::PeerMessage& message);

}  // namespace warren::federation
