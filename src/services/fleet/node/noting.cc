// Notes in the catalog that say why a row is not served yet, or does not show its newest commit.
//
//   waiting ── slot ──> fetching ──> fetched ── thread ──> reading ──> ready: from here on publish() writes
//
// Each phase is written once, and a short one not at all: most repositories are small, and every router and
// node hears of every write.
#include "base/log.h"
#include "services/fleet/node/node.h"

namespace warren::fleet {

namespace {

constexpr auto brief = 250ms;

}  // namespace

void FleetNode::enter(Owned& owned, Phase phase) {
  if (owned.is_ready) return;
  owned.warming->enter(phase, Clock::now());
  owned.phase_changed->notify();
}

awaitable<void> FleetNode::note_phases(OwnedPtr owned) {
  auto is_on_its_way = [this, &owned] {
    auto found = owned_.find(owned->claim.key);
    return found != owned_.end() && found->second == owned && !owned->is_ready && !owned->leaves;
  };
  while (is_on_its_way()) {
    auto phase = owned->warming->phase();
    if (owned->noted == phase) {
      co_await owned->phase_changed->wait();
      continue;
    }
    co_await owned->phase_changed->wait(Clock::now() + brief);
    if (owned->warming->phase() != phase || !is_on_its_way()) continue;
    auto noted = co_await note_phase(*owned, phase);
    if (!noted) log::warn("fleet.phase_not_noted", "repo", owned->repo, "why", noted.error().what);
  }
}

// Keeps the sizes and times of the previous owner: the next one plans with them.
Async<> FleetNode::note_phase(Owned& owned, Phase phase) {
  while (owned.is_noting) co_await owned.phase_changed->wait();
  if (owned.noted == phase || owned.is_ready) co_return ok;
  owned.noted = phase;
  owned.is_noting = true;
  auto note = owned.last;
  note.phase = phase;
  note.is_ready = note.has_index = false;
  note.lacks_bytes = 0;
  auto written = co_await write(owned, RowState::claimed, note);
  owned.is_noting = false;
  owned.phase_changed->notify();
  co_return written;
}

// The old commit is still served; the note says that a newer one exists and how much memory it needs.
awaitable<void> FleetNode::note_what_is_lacked(Owned& owned) {
  auto held = held_.find(owned.repo);
  if (!owned.is_ready || owned.leaves || held == held_.end()) co_return;
  if (owned.noted_lacks == owned.peak_bytes) co_return;
  auto lacks = owned.peak_bytes;
  auto note = held->second.note(held->second.has_index ? Phase::serving : Phase::indexing);
  note.lacks_bytes = lacks;
  auto written = co_await write(owned, RowState::ready, note);
  if (written) owned.noted_lacks = lacks;
}

// The largest peak of a newer commit that would fit if everything hot were demoted.
std::uint64_t FleetNode::updates_lack_room() const {
  std::uint64_t most = 0;
  auto could_be_free = shelf_.free() + shelf_.hot() / 2;
  for (const auto& [key, owned] : owned_)
    if (owned->is_ready && owned->peak_bytes <= could_be_free)
      most = std::max(most, owned->peak_bytes);
  return most;
}

void FleetNode::wake_who_has_room_now() {
  for (auto& [key, owned] : owned_)
    if (owned->is_ready && owned->peak_bytes > 0 && owned->peak_bytes <= shelf_.free())
      wake(*owned);
}

}  // namespace warren::fleet
