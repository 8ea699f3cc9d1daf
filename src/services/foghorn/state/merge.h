#pragma once
// What is kept of an entity when a value of it comes in. Pure; the rules are told in
// docs/protocols/foghorn.md.
#include <functional>

#include "services/foghorn/state/entities.h"

namespace warren::foghorn {

// Takes over what identifies it and is empty here. True: something was.
bool fill_identity(StreamState& into, const StreamState& from);
bool fill_identity(StreamInstanceState& into, const StreamInstanceState& from);
bool fill_identity(NodeState& into, const NodeState& from);
// All that is empty: of what was said before anything was loaded, that was left out.
bool fill_unsaid(StreamState& into, const StreamState& from);
bool fill_unsaid(StreamInstanceState& into, const StreamInstanceState& from);

// Who has a copy: of a node of ours we know it, of all others the log does. `ours` may be empty.
ArtifactState merge_copies(const ArtifactState& ours, ArtifactState incoming,
                           const std::function<bool(const std::string& node)>& is_own);

}  // namespace warren::foghorn
