#include "services/fleet/simulate/catalog.h"

namespace warren::fleet_sim {

int ModelCatalog::add(ModelRow row) {
  auto id = static_cast<int>(rows_.size());
  row.offered = row.unserved = agenda_.now();
  rows_.push_back(std::move(row));
  offer(id);
  return id;
}

Result<int> ModelCatalog::join(int node, fleet::NodeInfo info) {
  ++counters_.writes;
  auto id = static_cast<int>(sessions_.size());
  sessions_.push_back({node, fmt::format("n{}/{}", node, id), agenda_.now() + terms_.ttl});
  sessions_.back().info = std::move(info);
  living_.insert(id);
  watch(id);
  return id;
}

Result<> ModelCatalog::beat(int id, fleet::NodeInfo info) {
  auto& session = session_at(id);
  if (session.is_over) return fail(Errc::lease_lost, "session {}", session.name);
  ++counters_.beats;
  session.expires = agenda_.now() + terms_.ttl;
  session.info = std::move(info);
  return ok;
}

void ModelCatalog::leave(int id) {
  ++counters_.writes;
  end(session_at(id));
}

// One look at each session's end, and a later one if it was moved.
void ModelCatalog::watch(int id) {
  agenda_.at(session_at(id).expires, [this, id] {
    auto& session = session_at(id);
    if (session.is_over) return;
    if (session.expires > agenda_.now()) return watch(id);
    end(session);
  });
}

void ModelCatalog::end(Session& session) {
  if (session.is_over) return;
  session.is_over = true;
  living_.erase(static_cast<int>(&session - sessions_.data()));
  auto rows = std::move(session.rows);
  session.rows.clear();
  for (int row : rows) {
    at(row).offered = agenda_.now();
    disown(row);
  }
}

std::vector<fleet::NodeInfo> ModelCatalog::infos() const {
  std::vector<fleet::NodeInfo> all;
  for (int id : living_) all.push_back(session(id).info);
  return all;
}

std::vector<fleet::Candidate> ModelCatalog::candidates() const {
  std::vector<fleet::Candidate> all;
  for (int id : living_) {
    const auto& session = this->session(id);
    if (session.info.is_draining) continue;
    all.push_back({std::string(node_name(session.name)), session.info.budget_bytes,
                   session.info.free_bytes(), session.info.zone, session.info.hot_bytes});
  }
  return all;
}

std::vector<int> ModelCatalog::claimable(std::size_t most) {
  ++counters_.reads;
  std::vector<int> rows;
  for (const auto& [rank, row] : offered_) {
    if (rows.size() == most) break;
    rows.push_back(row);
  }
  return rows;
}

Result<std::uint64_t> ModelCatalog::claim(int session, int id) {
  auto& row = at(id);
  ++counters_.claims;
  if (session_at(session).is_over)
    return fail(Errc::lease_lost, "session {}", session_at(session).name);
  if (row.owner == session) return row.epoch;
  if (row.owner != nobody || agenda_.now() < row.offered) {
    ++counters_.in_vain;
    return fail(Errc::held_elsewhere, "{}", row.key);
  }
  own(id, session);
  set_state(row, RowState::claimed);
  on_claimed(id);
  tell(id);
  return row.epoch;
}

void ModelCatalog::own(int id, int session) {
  auto& row = at(id);
  ++counters_.writes;
  offered_.erase({-row.rank, id});
  if (row.owner != nobody) session_at(row.owner).rows.erase(id);
  row.owner = session;
  session_at(session).rows.insert(id);
  auto before = row.epoch;
  row.epoch = ++last_epoch_;
  if (row.epoch <= before) on_violation(fmt::format("the epoch of {} did not grow", row.key));
}

bool ModelCatalog::holds(int session, int id, std::uint64_t epoch) const {
  const auto& row = rows_.at(static_cast<std::size_t>(id));
  return row.owner == session && row.epoch == epoch && lives(session);
}

Result<> ModelCatalog::write(int session, int id, std::uint64_t epoch, RowState state,
                             fleet::RepoNote note) {
  if (!holds(session, id, epoch)) return fail(Errc::lease_lost, "{}", at(id).key);
  ++counters_.writes;
  auto& row = at(id);
  row.note = std::move(note);
  if (state == RowState::ready) {
    row.attempts = 0;
    row.error.clear();
  }
  bool is_new = state == RowState::ready && row.state != RowState::ready;
  set_state(row, state);
  if (is_new) on_ready(id);
  tell(id);
  return ok;
}

Result<> ModelCatalog::release(int session, int id, std::uint64_t epoch, ModelRelease how) {
  if (!holds(session, id, epoch)) return fail(Errc::lease_lost, "{}", at(id).key);
  auto& row = at(id);
  session_at(session).rows.erase(id);
  if (how.note) row.note = *std::move(how.note);
  if (!how.error.empty()) {
    ++row.attempts;
    row.error = std::move(how.error);
  }
  row.offered = agenda_.now() + how.wait;
  disown(id);
  return ok;
}

Result<std::uint64_t> ModelCatalog::hand_over(int session, int id, std::uint64_t epoch, int to) {
  if (!holds(session, id, epoch)) return fail(Errc::lease_lost, "{}", at(id).key);
  if (!lives(to)) return fail(Errc::not_found, "session {}", to);
  own(id, to);
  set_state(at(id), RowState::ready);
  tell(id);
  return at(id).epoch;
}

void ModelCatalog::disown(int id) {
  auto& row = at(id);
  ++counters_.writes;
  row.owner = nobody;
  row.unserved = agenda_.now();
  set_state(row, row.error.empty() ? RowState::free : RowState::failed);
  tell(id);
  offer(id);
}

void ModelCatalog::offer(int id) {
  auto& row = at(id);
  if (row.offered <= agenda_.now()) {
    offered_.emplace(-row.rank, id);
    return;
  }
  agenda_.at(row.offered, [this, id] {
    auto& later = at(id);
    if (later.owner != nobody || agenda_.now() < later.offered) return;
    offered_.emplace(-later.rank, id);
    tell(id);
  });
}

void ModelCatalog::change(int id, std::int64_t rank) {
  auto& row = at(id);
  ++counters_.writes;
  bool was_offered = offered_.erase({-row.rank, id}) > 0;
  row.rank = rank;
  if (was_offered) offer(id);
  tell(id);
}

void ModelCatalog::set_state(ModelRow& row, RowState state) {
  if (row.state == RowState::ready) --ready_;
  if (state == RowState::ready) ++ready_;
  row.state = state;
}

void ModelCatalog::tell(int id) {
  auto lag = leg() + leg();
  agenda_.at(std::max(agenda_.now(), up_at()) + lag, [this, id] {
    auto& row = at(id);
    row.view = {row.state, row.owner, row.epoch};
    on_change(id);
  });
}

}  // namespace warren::fleet_sim
