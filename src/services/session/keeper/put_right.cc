// Records in the background: what they say is compared with what exists, and corrected.
#include "base/log.h"
#include "services/session/keeper/sessions.h"

namespace warren::session {

namespace {

constexpr auto past_alive = 1s;  // then a replica that died counts as dead

}  // namespace

Clock::time_point Sessions::next_look() const {
  return Clock::now() + (once_ ? once_->terms().alive : 0ms) + past_alive;
}

std::vector<std::string> Sessions::steps_to_look_at() {
  std::vector<std::string> names;
  auto prefix = resource("");
  auto now = Clock::now();
  for (auto& [key, heard] : heard_) {
    if (!heard.record.is_busy || now < heard.look_at || !key.starts_with(prefix)) continue;
    heard.look_at = next_look();
    names.push_back(key.substr(prefix.size()));
  }
  return names;
}

Async<> Sessions::make_record(std::string name, Clock::time_point deadline) {
  OnceWork adopts = [this, name](OnceClaim&) { return adopt(name); };
  auto adopted = co_await once_->obtain(resource(name), std::move(adopts), deadline);
  if (!adopted) co_return std::unexpected(adopted.error());
  co_return ok;
}

// A pause and a stop are finished, because a client may rely on them. Of a start nothing is known but what
// it has made: that is recorded.
Async<> Sessions::finish_step(OnceRecord orphan, std::string name, Clock::time_point deadline) {
  log::warn("session.step_taken_over", "pod", name, "step", orphan.status, "of", orphan.owner);
  bool pauses = orphan.status == "pausing";
  if (!pauses && orphan.status != "stopping")
    co_return co_await make_record(std::move(name), deadline);
  OnceStep step{.status = orphan.status};
  OnceWork work = [this, name, pauses](OnceClaim&) {
    return pauses ? end_for_pause(name, nullptr) : end_for_good(name, nullptr);
  };
  auto outcome = co_await once_->change(resource(name), std::move(step), std::move(work), deadline);
  // There is nothing to pause any more.
  bool is_gone = !outcome && outcome.error().code == Errc::not_found;
  if (!outcome && !is_gone) co_return std::unexpected(outcome.error());
  co_return ok;
}

Async<std::string> Sessions::force_release(std::string name, Clock::time_point deadline) {
  if (!once_) co_return fail(Errc::not_found, "replicas do not coordinate: nothing is held");
  OnceStep step{.status = "releasing", .takes_over = true};
  OnceWork adopts = [this, name](OnceClaim&) { return adopt(name); };
  auto outcome =
      co_await once_->change(resource(name), std::move(step), std::move(adopts), deadline);
  if (!outcome) co_return std::unexpected(outcome.error());
  log::warn("session.force_released", "pod", name, "record", outcome->record.status);
  co_return outcome->record.status;
}

Async<bool> Sessions::put_right(std::string name, Clock::time_point deadline) {
  if (!once_) co_return true;
  auto record = co_await once_->get(resource(name), deadline);
  if (!record && record.error().code != Errc::not_found) co_return std::unexpected(record.error());
  if (record && record->is_busy && !record->is_orphan) co_return true;
  if (record && record->is_busy) {
    auto until = std::max(deadline, Clock::now() + terms_.end_time);
    auto finished = co_await finish_step(*std::move(record), std::move(name), until);
    if (!finished) co_return std::unexpected(finished.error());
    co_return false;
  }
  auto sight = co_await driver_.look(name, deadline);
  if (!sight) co_return std::unexpected(sight.error());
  auto is = sight->sandbox ? (sight->sandbox->lives() ? "created" : "paused") : "";
  if (!record || record->status == "failed") {
    if (!sight->sandbox || (record && !sight->sandbox->lives())) co_return true;
    auto made = co_await make_record(std::move(name), deadline);
    if (!made) co_return std::unexpected(made.error());
    co_return false;
  }
  if (record->status == is) {
    auto refreshed = co_await once_->refresh(*record, deadline);
    if (!refreshed && refreshed.error().code != Errc::lease_lost)
      co_return std::unexpected(refreshed.error());
    co_return true;
  }
  if (!sight->sandbox) telling_.cleaning_up(name);
  OnceLeft left{.status = is, .bytes = sight->sandbox ? bytes_of(*sight->sandbox) : ""};
  auto replaced = co_await once_->replace(*record, std::move(left), deadline);
  if (!replaced && replaced.error().code != Errc::lease_lost)
    co_return std::unexpected(replaced.error());
  co_return false;
}

}  // namespace warren::session
