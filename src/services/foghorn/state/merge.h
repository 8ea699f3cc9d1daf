#pragma once
// What is kept of an entity when a value of it comes in from the log. Pure functions; incoming.cc
// applies the rules, and docs/protocols/foghorn.md lists them.
//
// WHY THE LAST WRITE DOES NOT WIN
//
// Several instances write the same entities, each from its own knowledge, and all read one log. The
// obvious rule is that the later value in the log replaces the earlier one. It is wrong in four
// ways.
//
// 1. A value may know less. A report may leave out the tenant, and an instance that has just
//    started has never heard it: its value would erase what another instance knows. So the fields
//    that identify an entity (tenant, playback id, stream id, origin, cluster) are *filled*: an
//    empty one is taken from the other value and written back, and only another value replaces one.
//
// 2. A value may be older than ours though it comes in later: ours is still dirty or on its way,
//    and will stand after it in the log. So ours stays, and only its empty identifying fields are
//    filled.
//
// 3. A value may be written late. A node left instance a for b while a could not reach Redis:
//
//      node      instance a (cut off)     log                      instance b
//       |--------->| n1, epoch 100         |                           |
//       |--------------------- turns to b ---------------------------->| n1, epoch 170
//       |          |                       |<------- n1, epoch 170 -----|
//       |          |- n1, epoch 100, late >|-------- comes in --------->| older: writes 170 again
//
//    The log has a last, but only b hears the node. `last_update` cannot decide: a and b have
//    different clocks. So a node carries `owner_epoch`: the time in ms at which it turned to the
//    instance it reports to, and always more than the epoch before. The higher epoch wins, and
//    within one epoch the later last_update. A lower one is overwritten by what we know. If a
//    higher one comes in while ours is on its way, the node has left us: we take that value, with
//    what Redis has of the node's streams, and write it again after ours. Clocks decide only if
//    neither instance had heard of the other.
//
// 4. A value may have several sources. The sums of a stream come from all its instances, so a
//    value's sums are never believed but added up when asked for. The copies of an artifact come
//    from many nodes: of a node of ours we know best, of any other node the log does
//    (merge_copies). An operator's mode and each instance's penalties are records of their own, so
//    nothing else overwrites them.
#include <functional>

#include "services/foghorn/state/entities.h"

namespace warren::foghorn {

// Fills the empty identifying fields of `into` from `from`. Returns whether any was filled.
bool fill_identity(StreamState& into, const StreamState& from);
bool fill_identity(StreamInstanceState& into, const StreamInstanceState& from);
bool fill_identity(NodeState& into, const NodeState& from);
// For values from before the load: takes everything that `into` left out, and the origin and start
// that `from` knows.
bool fill_unsaid(StreamState& into, const StreamState& from);
bool fill_unsaid(StreamInstanceState& into, const StreamInstanceState& from);

// Merges the copies: those on our own nodes as we know them, all others as the log says. `ours` may
// be empty.
ArtifactState merge_copies(const ArtifactState& ours, ArtifactState incoming,
                           const std::function<bool(const std::string& node)>& is_own);

}  // namespace warren::foghorn
