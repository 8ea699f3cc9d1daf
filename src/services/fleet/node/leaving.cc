// Repositories that are no longer where they were: gone at their origin, or moved there.
#include "base/log.h"
#include "base/utf8.h"
#include "services/fleet/node/in_call.h"
#include "services/fleet/node/node.h"
#include "services/fleet/plan/gone.h"

namespace warren::fleet {

void FleetNode::on_gone_row(const Row& row) {
  if (auto repo = repo_of_gone(row.key)) counted_.emplace(*repo);
}

awaitable<void> FleetNode::heed_origin(Owned& owned) {
  if (settings_.gone_after == 0ms) co_return;
  if (owned.gone) {
    auto counted = co_await count_gone(owned, *owned.gone);
    if (!counted)
      log::warn("fleet.gone_not_counted", "repo", owned.repo, "why", counted.error().what);
    co_return;
  }
  if (!counted_.contains(owned.repo)) co_return;
  std::vector<std::string> keys(1, gone_key(owned.repo));
  auto removed = co_await catalog_.remove(std::move(keys), Clock::now() + settings_.lease.ttl / 3);
  if (removed)
    log::info("fleet.gone_no_more", "repo", owned.repo);
  else
    log::warn("fleet.gone_not_counted", "repo", owned.repo, "why", removed.error().what);
}

// plan/gone.h says what the catalog's answers mean.
Async<> FleetNode::count_gone(const Owned& owned, std::string why) {
  auto repo = owned.repo;
  auto session = owned.claim.session;
  Gone seen{.url = owned.spec.url, .why = valid_utf8(why)};
  auto key = gone_key(repo);
  auto time = settings_.lease.ttl / 3;
  InCall call(in_call_, key);
  if (!counted_.contains(repo)) {
    std::vector<Row> rows(1, gone_row(repo));
    auto added = co_await catalog_.add(std::move(rows), Clock::now() + time);
    if (!added) co_return std::unexpected(added.error());
  }
  auto claim = co_await catalog_.claim(session, key, Clock::now() + time);
  if (!claim && claim.error().code == Errc::held_elsewhere) co_return ok;
  if (!claim) co_return std::unexpected(claim.error());
  // What was known before may be of another row of that key, which does not count yet.
  auto note = co_await note_of(*claim);
  if (!note) {
    Release as_it_was;
    auto released = co_await catalog_.release(*claim, std::move(as_it_was), Clock::now() + time);
    if (!released) co_return released;
    co_return std::unexpected(note.error());
  }
  auto next = next_wait(*note, seen, settings_.gone_after);
  if (!next) co_return co_await let_go(repo, std::move(seen));
  if (!parse_gone(*note))
    log::warn("fleet.gone", "repo", repo, "leaves_in_ms", settings_.gone_after.count(), "why",
              seen.why);
  co_return co_await catalog_.release(*claim, *std::move(next), Clock::now() + time);
}

// Of a row that was claimed just now. Errc::unavailable: the catalog does not tell it yet.
Async<std::string> FleetNode::note_of(const Claim& claim) {
  auto now = Clock::now();
  auto position = position_;
  auto changes = co_await catalog_.changes(std::move(position), now, now + settings_.lease.ttl / 3);
  if (!changes) co_return std::unexpected(changes.error());
  for (const auto& row : changes->rows)
    if (row.key == claim.key && row.owner == claim.session && row.epoch == claim.epoch)
      co_return row.note;
  co_return fail(Errc::unavailable, "{} is not among the changes yet", claim.key);
}

Async<> FleetNode::let_go(std::string repo, Gone seen) {
  auto keys = keys_of(repo);
  auto removed = co_await catalog_.remove(std::move(keys), Clock::now() + settings_.lease.ttl / 3);
  if (!removed) co_return std::unexpected(removed.error());
  log::warn("fleet.left", "repo", repo, "url", seen.url, "gone_for_ms",
            settings_.gone_after.count(), "why", seen.why);
  ++left_;
  auto remote = RemoteUrl::parse(seen.url, settings_.rules);
  if (remote) co_await fetcher_->forget(remote->url);
  co_return ok;
}

// The name stays, so that whoever asks for it goes on finding it.
awaitable<void> FleetNode::follow_move(Owned& owned, RemoteUrl from, RemoteUrl to) {
  if (owned.is_coming() || from == to) co_return;
  auto spec = owned.spec;
  // What is spelled differently has not moved.
  if (from.repo_id() != to.repo_id()) spec.moved_from = spec.url;
  spec.url = to.text();
  RowChange change;
  change.spec = to_json(spec);
  auto changed = co_await catalog_.change(owned.claim.key, std::move(change),
                                          Clock::now() + settings_.lease.ttl / 3);
  if (!changed) {
    log::warn("fleet.move_not_noted", "repo", owned.repo, "why", changed.error().what);
    co_return;
  }
  log::info("fleet.moved", "repo", owned.repo, "from", from.text(), "to", to.text());
  owned.spec = std::move(spec);
}

}  // namespace warren::fleet
