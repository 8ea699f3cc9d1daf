#include "tests/fleet_real/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <fstream>
#include <ranges>

#include "primitives/catalog/open.h"
#include "services/fleet/plan/records.h"
#include "services/fleet/wire/wire.h"

namespace warren::fleet {

namespace {

// The value behind ` key=`, without its quotes; empty: there is none.
std::string_view field(std::string_view line, std::string_view key) {
  auto begin = fmt::format(" {}=", key);
  auto at = line.find(begin);
  if (at == line.npos) return {};
  line.remove_prefix(at + begin.size());
  if (!line.starts_with('"')) return line.substr(0, line.find(' '));
  line.remove_prefix(1);
  return line.substr(0, line.find('"'));
}

Stamp number(std::string_view text) {
  Stamp value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

FencingToken token(std::string_view text) { return parse_epoch(text).value_or(FencingToken()); }

// 2026-01-31T23:59:59.123Z
Stamp time_of(std::string_view line) {
  std::tm tm = {};
  int milliseconds = 0;
  std::string text(line.substr(0, 24));
  auto* rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S.", &tm);
  if (rest == nullptr || std::sscanf(rest, "%3d", &milliseconds) != 1) return 0;
  return (static_cast<Stamp>(::timegm(&tm)) * 1000 + milliseconds) * 1000;
}

}  // namespace

Stamp stamp_now() {
  return std::chrono::duration_cast<std::chrono::microseconds>(WallClock::now().time_since_epoch())
      .count();
}

awaitable<void> Follower::run() {
  for (;; ++gaps_) {
    CatalogPlace place{.url = url_};
    auto catalog = co_await open_catalog(std::move(place), Clock::now() + 10s);
    if (catalog) {
      co_await until_cancelled(follow(**catalog));
      co_await asio::this_coro::throw_if_cancelled(false);
      co_await (*catalog)->close();
    }
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return;
    co_await sleep_for(100ms);
  }
}

awaitable<void> Follower::follow(Catalog& catalog) {
  std::string position;
  for (;;) {
    auto now = Clock::now();
    auto changes = co_await catalog.changes(position, now + 5s, now + 10s);
    if (!changes) {
      co_await sleep_for(100ms);
      ++gaps_;
      continue;
    }
    position = changes->position;
    if (changes->is_everything) rows_.clear();
    for (const auto& key : changes->removed) rows_.erase(key);
    auto at = stamp_now();
    for (auto& row : changes->rows) on_row(std::move(row), at);
  }
}

void Follower::on_row(Row row, Stamp now) {
  auto& owners = owners_[row.key];
  bool is_new = row.epoch != FencingToken() && (owners.empty() || owners.back().epoch < row.epoch);
  if (is_new) owners.push_back({row.epoch, now});
  auto key = row.key;
  rows_[key] = std::move(row);
}

std::set<std::string> Follower::keys_of(std::string_view node, bool only_ready) const {
  std::set<std::string> keys;
  for (const auto& [key, row] : rows_) {
    bool is_its = !row.owner.empty() && node_name(row.owner) == node;
    if (is_its && (!only_ready || row.state == RowState::ready)) keys.insert(key);
  }
  return keys;
}

std::size_t Follower::ready() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      rows_, [](const auto& entry) { return entry.second.state == RowState::ready; }));
}

void NodeLogs::read(const std::string& node, const std::filesystem::path& log) {
  std::ifstream in(log);
  for (std::string line; std::getline(in, line);) {
    auto is = [&](std::string_view event) { return line.contains(event); };
    if (is(" fleet.answered ")) {
      auto looked = number(field(line, "looked_us")), ended = number(field(line, "ended_us"));
      for (auto part : std::views::split(field(line, "rows"), ' ')) {
        std::string_view row(part.begin(), part.end());
        auto at = row.rfind('@');
        if (at == row.npos) continue;
        answers.push_back(
            {node, std::string(row.substr(0, at)), token(row.substr(at + 1)), looked, ended});
      }
    } else if (is(" fleet.claimed ")) {
      claims.push_back(
          {node, std::string(field(line, "key")), token(field(line, "epoch")), time_of(line)});
    } else if (is(" fleet.taken_over ")) {
      taken_over.push_back(
          {node, std::string(field(line, "repo")), token(field(line, "epoch")), time_of(line)});
    }
    if (is(" fleet.indexed "))
      memory[std::string(field(line, "repo"))] =
          static_cast<std::uint64_t>(number(field(line, "memory_bytes")));
    if (is(" fleet.evicted "))
      evictions.push_back({node, std::string(field(line, "repo")), {}, time_of(line)});
    demoted += is(" fleet.demoted ") ? 1 : 0;
  }
}

std::vector<std::string> stale_answers(const NodeLogs& logs,
                                       const std::map<std::string, std::vector<Change>>& owners,
                                       bool epochs_are_times) {
  // What the follower saw, and what nodes were told before it did.
  auto all = owners;
  for (const auto& claim : logs.claims) {
    auto& changes = all[claim.key_or_repo];
    auto same = std::ranges::find(changes, claim.epoch, &Change::epoch);
    // A log counts in milliseconds.
    if (same == changes.end())
      changes.push_back({claim.epoch, claim.at + 1000});
    else
      same->at = std::min(same->at, claim.at + 1000);
  }
  for (auto& [key, changes] : all) {
    std::ranges::sort(changes, {}, &Change::epoch);
    if (!epochs_are_times) continue;
    for (auto& change : changes)
      change.at = std::min(change.at, static_cast<Stamp>(change.epoch.counter));
  }
  std::set<std::pair<std::string, FencingToken>> handed_over;
  for (const auto& one : logs.taken_over) handed_over.emplace(one.key_or_repo, one.epoch);
  std::vector<std::string> stale;
  for (const auto& answer : logs.answers) {
    const auto& changes = all[answer.key];
    auto next = std::ranges::upper_bound(changes, answer.epoch, {}, &Change::epoch);
    if (next == changes.end()) continue;
    auto repo = parse_row_key(answer.key);
    bool is_handed_over = repo && handed_over.contains({std::string(repo->repo), next->epoch});
    auto spoke = is_handed_over ? answer.looked : answer.ended;
    if (spoke > next->at)
      stale.push_back(fmt::format("{} answered for {} under {}, {} us after {}{}", answer.node,
                                  answer.key, to_string(answer.epoch), spoke - next->at,
                                  to_string(next->epoch),
                                  is_handed_over ? ", which was handed over" : ""));
  }
  return stale;
}

std::vector<std::string> double_owners(const NodeLogs& logs) {
  std::map<std::pair<std::string, FencingToken>, std::string> owners;
  std::vector<std::string> wrong;
  for (const auto& claim : logs.claims) {
    auto [at, is_new] = owners.try_emplace({claim.key_or_repo, claim.epoch}, claim.node);
    if (!is_new && at->second != claim.node)
      wrong.push_back(fmt::format("{} and {} both have {} under {}", at->second, claim.node,
                                  claim.key_or_repo, to_string(claim.epoch)));
  }
  return wrong;
}

}  // namespace warren::fleet
