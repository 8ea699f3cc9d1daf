#include "proof/torture/catalog_keeper.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace warren::torture {

namespace {

constexpr std::size_t most_over = 8;
constexpr history::RowId first_passing = 1000;

std::uint64_t number_in(std::string_view text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

history::Token token_of(FencingToken token) { return {token.epoch, token.counter}; }

std::uint64_t digest_of_one(const Row& row) {
  return std::hash<std::string>()(
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", row.key, row.spec, row.note, row.rank,
                  name(row.state), row.owner, to_string(row.epoch), row.attempts, row.error));
}

}  // namespace

std::string wanted_row(history::RowId row) { return fmt::format("r{}", row); }
std::string passing_row(history::RowId row) { return fmt::format("x{}", row); }
bool is_wanted(const std::string& key) { return key.starts_with('r'); }

history::RowId row_id(const std::string& key) {
  auto number = static_cast<history::RowId>(number_in(std::string_view(key).substr(1)));
  return is_wanted(key) ? number : first_passing + number;
}

std::uint64_t digest_of(const std::vector<Row>& rows) {
  std::uint64_t sum = rows.size();
  for (const auto& row : rows) sum += digest_of_one(row);
  return sum;
}

history::CatalogEvent CatalogKeeper::event(Clock::time_point now, Kind kind) const {
  return {.at = now, .kind = kind, .process = process_, .life = life_};
}

void CatalogKeeper::note(Clock::time_point now, Kind kind, const Claim& claim,
                         Clock::time_point since, std::uint64_t number) {
  auto noted = event(now, kind);
  noted.row = row_id(claim.key);
  noted.token = token_of(claim.epoch);
  noted.since = since;
  noted.number = number;
  history_.note(noted);
}

void CatalogKeeper::on_lease(Clock::time_point now, const NodeSession& session,
                             Clock::time_point deadline) {
  if (session != session_) {
    if (!session_.empty()) history_.note(event(now, Kind::ended));
    for (auto& [key, held] : held_) end(held.claim);
    held_.clear();
    given_back_.clear();
    session_ = session;
    deadline_ = {};
    if (!session_.empty()) ++life_;
  }
  if (session_.empty() || deadline == deadline_) return;
  deadline_ = deadline;
  auto leased = event(now, Kind::leased);
  leased.deadline = deadline;
  history_.note(leased);
}

void CatalogKeeper::serve(Clock::time_point now) {
  if (now < deadline_) serve_regardless(now);
}

void CatalogKeeper::serve_regardless(Clock::time_point now) {
  for (auto& [key, held] : held_) note(now, Kind::served, held.claim);
}

std::vector<Claim> CatalogKeeper::idle_claims() const {
  std::vector<Claim> claims;
  for (auto& [key, held] : held_)
    if (is_idle(key)) claims.push_back(held.claim);
  return claims;
}

void CatalogKeeper::hold(Clock::time_point now, Clock::time_point since, const Claim& claim) {
  auto& highest = highest_[claim.key];
  highest = std::max(highest, claim.epoch);
  if (claim.session != session_) return end(claim);
  held_[claim.key] = {claim, now};
  note(now, Kind::claimed, claim, since);
}

void CatalogKeeper::drop(Clock::time_point now, const std::string& key) {
  auto found = held_.find(key);
  if (found == held_.end()) return;
  note(now, Kind::dropped, found->second.claim);
  end(found->second.claim);
  held_.erase(found);
}

void CatalogKeeper::end(const Claim& claim) {
  over_.push_back(claim);
  if (over_.size() > most_over) over_.pop_front();
}

void CatalogKeeper::on_claimed(Clock::time_point now, Clock::time_point since,
                               const std::string& key, const Result<Claim>& answer) {
  done(key);
  if (answer) hold(now, since, *answer);
}

void CatalogKeeper::let_go(Clock::time_point now, const Claim& claim) {
  begin(claim.key);
  drop(now, claim.key);
  auto& highest = highest_[claim.key];
  highest = std::max(highest, claim.epoch);
}

void CatalogKeeper::on_released(Clock::time_point now, Clock::time_point since, const Claim& claim,
                                const Result<>& answer) {
  done(claim.key);
  bool is_refused = !answer && answer.error().code == Errc::lease_lost;
  if (!answer && !is_refused) return;
  note(now, answer ? Kind::released : Kind::refused, claim, since);
  // A refusal settles nothing: a clock that stepped back may have made the lease last again.
  if (answer && claim.session == session_) given_back_[claim.key] = {claim.epoch, now};
}

void CatalogKeeper::on_written(Clock::time_point now, Clock::time_point since, const Claim& claim,
                               std::uint64_t number, const Result<>& answer) {
  bool is_refused = !answer && answer.error().code == Errc::lease_lost;
  if (answer || is_refused) note(now, answer ? Kind::written : Kind::refused, claim, since, number);
  auto held = held_.find(claim.key);
  bool is_held = held != held_.end() && held->second.claim.epoch == claim.epoch &&
                 held->second.claim.session == claim.session;
  if (is_held && is_refused) drop(now, claim.key);
}

void CatalogKeeper::on_offered(Clock::time_point now, Clock::time_point since,
                               const std::vector<Row>& rows) {
  for (const auto& row : rows) {
    if (!is_wanted(row.key)) continue;
    Claim none{.session = {}, .key = row.key, .epoch = {}};
    note(now, Kind::offered, none, since);
  }
}

void CatalogKeeper::on_changes(Clock::time_point now, Clock::time_point since,
                               const Changes& changes) {
  if (changes.is_everything) {
    history_.note(event(now, Kind::restarts));
    std::vector<std::string> missing;
    for (auto& [key, told] : told_)
      if (std::ranges::find(changes.rows, key, &Row::key) == changes.rows.end())
        missing.push_back(key);
    for (const auto& key : missing) on_gone(now, key);
  }
  for (const auto& key : changes.removed) on_gone(now, key);
  for (const auto& row : changes.rows) on_row(now, since, row);
}

void CatalogKeeper::on_gone(Clock::time_point now, const std::string& key) {
  Claim none{.session = {}, .key = key, .epoch = {}};
  note(now, Kind::gone, none);
  told_.erase(key);
  drop(now, key);
}

void CatalogKeeper::on_row(Clock::time_point now, Clock::time_point since, const Row& row) {
  Claim shown{.session = row.owner, .key = row.key, .epoch = row.epoch};
  note(now, Kind::seen, shown, {}, number_in(row.note));
  told_[row.key] = {row, since, now};
  auto held = held_.find(row.key);
  if (held == held_.end()) return;
  // A late report is from before our claim. A report that was requested after it is not: then a
  // server has lost our claim.
  if (row.epoch < held->second.claim.epoch && since < held->second.at) return;
  if (row.owner != session_ || row.epoch != held->second.claim.epoch) drop(now, row.key);
}

std::vector<CatalogKeeper::Stray> CatalogKeeper::strays() const {
  std::vector<Stray> found;
  if (session_.empty()) return found;
  for (auto& [key, told] : told_) {
    if (told.row.owner != session_ || held_.contains(key) || asked_.contains(key)) continue;
    // A report of what was given back meanwhile does not count. Under another epoch it is ours
    // again.
    auto back = given_back_.find(key);
    if (back != given_back_.end() && told.at <= back->second.at &&
        told.row.epoch == back->second.epoch)
      continue;
    auto highest = highest_.find(key);
    bool is_new = highest == highest_.end() || told.row.epoch > highest->second;
    found.push_back({{session_, key, told.row.epoch}, is_new, told.since});
  }
  return found;
}

void CatalogKeeper::keep(Clock::time_point now, const Stray& stray) {
  hold(now, stray.since, stray.claim);
}

std::uint64_t CatalogKeeper::digest() const {
  std::uint64_t sum = told_.size();
  for (auto& [key, told] : told_) sum += digest_of_one(told.row);
  return sum;
}

void CatalogKeeper::note_contents(Clock::time_point now, std::uint64_t catalog) {
  auto ours = event(now, Kind::contents), theirs = event(now, Kind::catalog_contents);
  ours.number = digest();
  theirs.number = catalog;
  history_.note(ours);
  history_.note(theirs);
}

}  // namespace warren::torture
