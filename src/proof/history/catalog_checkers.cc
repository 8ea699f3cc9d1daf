#include "proof/history/catalog_checkers.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/error.h"

namespace warren::history {

namespace {

using Kind = CatalogEvent::Kind;

std::string ms(Clock::duration time) {
  return fmt::format("{:.3f} ms", std::chrono::duration<double, std::milli>(time).count());
}

// Makes the windows disjoint and sorted.
void merge(std::vector<Window>& windows) {
  std::ranges::sort(windows, {}, &Window::from);
  std::size_t kept = 0;
  for (auto& window : windows) {
    if (kept > 0 && window.from <= windows[kept - 1].until)
      windows[kept - 1].until = std::max(windows[kept - 1].until, window.until);
    else
      windows[kept++] = window;
  }
  windows.resize(kept);
}

// The part that is about the same row as its first element.
std::span<const CatalogEvent* const> same_row(std::span<const CatalogEvent* const> rest) {
  auto row = rest.front()->row;
  auto end = std::ranges::find_if(rest, [&](auto* other) { return other->row != row; });
  return {rest.begin(), end};
}

bool is_same_claim(const CatalogEvent& one, const CatalogEvent& other) {
  return one.row == other.row && one.process == other.process && one.life == other.life &&
         one.token == other.token;
}

}  // namespace

CatalogJudge::CatalogJudge(const CatalogHistory& history, CatalogBounds bounds)
    : history_(history), bounds_(std::move(bounds)), losses_(bounds_.lossy) {
  auto& events = history.events();
  ensure(std::ranges::is_sorted(events, {}, &CatalogEvent::at), "a history is sorted");
  if (!events.empty()) {
    start_ = events.front().at;
    end_ = events.back().at;
  }
  merge(losses_);
  for (auto& event : events)
    if (event.kind == Kind::killed) deaths_.emplace(event.process, event.at);
  collect_leases();
  collect_holds();
}

void CatalogJudge::collect_leases() {
  std::map<Life, Clock::time_point> ends;
  for (auto& event : history_.events()) {
    Life life{event.process, event.life};
    if (event.kind == Kind::leased) leases_[life].push_back({event.at, event.deadline});
    if (event.kind == Kind::ended) ends.emplace(life, event.at);
  }
  for (auto& [life, windows] : leases_) {
    auto end = death_of(life.first);
    if (auto told = ends.find(life); told != ends.end()) end = std::min(end, told->second);
    for (auto& window : windows) window.until = std::min(window.until, end);
    std::erase_if(windows, [](const Window& window) { return window.from >= window.until; });
    merge(windows);
  }
}

void CatalogJudge::collect_holds() {
  auto events = by_row({Kind::claimed, Kind::dropped});
  for (auto event = events.begin(); event != events.end(); ++event) {
    if ((*event)->kind != Kind::claimed) continue;
    auto drop = std::find_if(event + 1, events.end(), [&](auto* other) {
      return other->kind == Kind::dropped && is_same_claim(*other, **event);
    });
    auto until = drop == events.end() ? end_ : (*drop)->at;
    for (auto& lease : lease_of({(*event)->process, (*event)->life})) {
      Window belief{std::max((*event)->at, lease.from), std::min(until, lease.until)};
      if (belief.from < belief.until) holds_.push_back({*event, belief});
    }
  }
  std::ranges::sort(holds_, [](const Hold& a, const Hold& b) {
    return std::tie(a.claimed->row, a.window.from) < std::tie(b.claimed->row, b.window.from);
  });
}

Clock::time_point CatalogJudge::death_of(ProcessId process) const {
  auto death = deaths_.find(process);
  return death == deaths_.end() ? Clock::time_point::max() : death->second;
}

std::span<const Window> CatalogJudge::lease_of(Life life) const {
  auto found = leases_.find(life);
  if (found == leases_.end()) return {};
  return found->second;
}

Clock::duration CatalogJudge::length_outside_losses(Window window) const {
  auto length = window.until - window.from;
  for (auto& loss : losses_) {
    auto from = std::max(loss.from, window.from), until = std::min(loss.until, window.until);
    if (from < until) length -= until - from;
  }
  return length;
}

bool CatalogJudge::has_loss(Window window) const {
  return std::ranges::any_of(losses_, [&](const Window& loss) {
    return loss.from <= window.until && window.from <= loss.until;
  });
}

// By row, and within a row in the order of the history (they point into one vector).
std::vector<const CatalogEvent*> CatalogJudge::by_row(std::initializer_list<Kind> kinds) const {
  std::vector<const CatalogEvent*> found;
  for (auto& event : history_.events())
    if (std::ranges::find(kinds, event.kind) != kinds.end()) found.push_back(&event);
  std::ranges::sort(found,
                    [](auto* a, auto* b) { return std::tie(a->row, a) < std::tie(b->row, b); });
  return found;
}

Violation CatalogJudge::violation(const char* invariant, std::string what,
                                  std::vector<const CatalogEvent*> events) const {
  std::erase(events, nullptr);
  std::ranges::sort(events);
  events.erase(std::ranges::unique(events).begin(), events.end());
  Violation result{invariant, std::move(what), {}};
  for (auto* event : events) result.events.push_back(describe(*event, start_));
  return result;
}

Verdict CatalogJudge::owners_exclude_each_other() const {
  const Hold* last = nullptr;  // of this row: the one that lasts longest
  for (auto& hold : holds_) {
    if (last && last->claimed->row != hold.claimed->row) last = nullptr;
    bool is_another = last && last->claimed->process != hold.claimed->process;
    Window both{hold.window.from,
                last ? std::min(last->window.until, hold.window.until) : hold.window.from};
    if (is_another && both.from < both.until && length_outside_losses(both) > 0s) {
      auto text =
          fmt::format("two nodes believe in row {} for {}, which ends at {}", hold.claimed->row,
                      ms(length_outside_losses(both)), ms(both.until - start_));
      return violation("I13", std::move(text), {last->claimed, hold.claimed});
    }
    if (!last || hold.window.until > last->window.until) last = &hold;
  }
  return std::nullopt;
}

// Two claims are in order if one was known before the other was requested. A running maximum over
// the claims as they became known decides that for all pairs at once.
Verdict CatalogJudge::epochs_grow(std::span<const CatalogEvent* const> claims) const {
  std::vector<const CatalogEvent*> highest(claims.begin(), claims.end());
  for (std::size_t i = 1; i < claims.size(); ++i) {
    auto* claim = claims[i];
    if (highest[i - 1]->token > claim->token) highest[i] = highest[i - 1];
    auto after = std::ranges::upper_bound(claims.first(i), claim->since, {},
                                          [](auto* other) { return other->at; });
    if (after == claims.begin()) continue;
    auto* other = highest[std::size_t(after - claims.begin()) - 1];
    // Claiming a row again that one owns changes nothing.
    if (other->token < claim->token || is_same_claim(*other, *claim)) continue;
    // A replaced primary that does not know it keeps counting in its own epoch.
    if (other->token.epoch > claim->token.epoch && is_lossy(claim->at)) continue;
    return violation("I14",
                     fmt::format("row {}: epoch {} came after {}", claim->row,
                                 describe(claim->token), describe(other->token)),
                     {other, claim});
  }
  return std::nullopt;
}

Verdict CatalogJudge::epochs_grow() const {
  auto claims = by_row({Kind::claimed});
  for (std::span<const CatalogEvent* const> rest = claims; !rest.empty();) {
    auto group = same_row(rest);
    rest = rest.subspan(group.size());
    if (auto found = epochs_grow(group)) return found;
  }
  // One epoch, one owner, in any order.
  std::ranges::sort(claims, [](auto* a, auto* b) {
    return std::tie(a->row, a->token, a->process, a->life) <
           std::tie(b->row, b->token, b->process, b->life);
  });
  auto twice = std::ranges::adjacent_find(claims, [](auto* a, auto* b) {
    return a->row == b->row && a->token == b->token && !is_same_claim(*a, *b);
  });
  if (twice == claims.end()) return std::nullopt;
  return violation(
      "I14",
      fmt::format("row {}: epoch {} was given twice", twice[0]->row, describe(twice[0]->token)),
      {twice[0], twice[1]});
}

// Of the events that ended the epoch of this write before it was requested, the one that ended
// most. Returns null if it may have been undone since.
const CatalogEvent* CatalogJudge::end_before(const CatalogEvent& write,
                                             std::span<const CatalogEvent* const> ends) const {
  // A claim ends what is below it; an epoch that was given back or refused is over itself.
  auto reach = [](const CatalogEvent& end) {
    return std::pair(end.token, end.kind != Kind::claimed);
  };
  const CatalogEvent* most = nullptr;
  for (auto* end : ends) {
    if (end->at > write.since) break;
    if (end != &write && (!most || reach(*end) > reach(*most))) most = end;
  }
  if (!most || reach(*most) <= std::pair(write.token, false)) return nullptr;
  return has_loss({most->at, write.at}) ? nullptr : most;
}

Verdict CatalogJudge::old_epochs_are_refused() const {
  auto events = by_row({Kind::claimed, Kind::released, Kind::refused, Kind::written});
  std::vector<const CatalogEvent*> ends, refused_late;
  for (std::span<const CatalogEvent* const> rest = events; !rest.empty();) {
    auto group = same_row(rest);
    rest = rest.subspan(group.size());
    ends.assign(group.begin(), group.end());
    std::erase_if(ends, [](auto* event) { return event->kind == Kind::written; });
    for (auto* event : group) {
      if (event->kind != Kind::written && event->kind != Kind::refused) continue;
      auto* end = end_before(*event, ends);
      if (!end) continue;
      if (event->kind == Kind::refused) {
        if (event->number != 0) refused_late.push_back(event);
        continue;
      }
      return violation("I15",
                       fmt::format("row {}: a write under epoch {} was taken, which was over",
                                   event->row, describe(event->token)),
                       {end, event});
    }
  }
  return refused_is_not_seen(refused_late);
}

Verdict CatalogJudge::refused_is_not_seen(std::span<const CatalogEvent* const> refused_late) const {
  if (refused_late.empty()) return std::nullopt;
  std::map<std::uint64_t, const CatalogEvent*> by_number;
  for (auto* refused : refused_late) by_number.emplace(refused->number, refused);
  for (auto& event : history_.events()) {
    if (event.kind != Kind::seen || event.number == 0) continue;
    auto refused = by_number.find(event.number);
    if (refused == by_number.end()) continue;
    return violation("I15", fmt::format("row {}: a write that was refused is there", event.row),
                     {refused->second, &event});
  }
  return std::nullopt;
}

Verdict CatalogJudge::nobody_serves_past_its_lease() const {
  std::map<Life, const CatalogEvent*> leased;
  for (auto& event : history_.events()) {
    auto& last = leased[{event.process, event.life}];
    if (event.kind == Kind::leased) last = &event;
    if (event.kind != Kind::served || (last && event.at < last->deadline)) continue;
    return violation("I16", fmt::format("row {} was served past the lease", event.row),
                     {last, &event});
  }
  return std::nullopt;
}

Verdict CatalogJudge::rows_are_seen_in_order() const {
  std::map<std::pair<ProcessId, RowId>, const CatalogEvent*> last;
  for (auto& event : history_.events()) {
    if (event.kind != Kind::seen && event.kind != Kind::gone) continue;
    auto& before = last[{event.process, event.row}];
    // A row that was removed and added again has not had an owner yet.
    bool is_new = event.kind == Kind::gone || event.token == Token{};
    if (before && !is_new && event.token < before->token && !has_loss({before->at, event.at}))
      return violation("I17",
                       fmt::format("row {}: epoch {} was seen after {}", event.row,
                                   describe(event.token), describe(before->token)),
                       {before, &event});
    before = &event;
  }
  return std::nullopt;
}

Verdict CatalogJudge::contents_are_equal() const {
  const CatalogEvent* theirs = nullptr;
  for (auto& event : history_.events())
    if (event.kind == Kind::catalog_contents) theirs = &event;
  for (auto& event : history_.events())
    if (theirs && (event.kind == Kind::contents || event.kind == Kind::catalog_contents) &&
        event.number != theirs->number)
      return violation("I17",
                       fmt::format("process {} has other rows than the catalog", event.process),
                       {&event, theirs});
  return std::nullopt;
}

Verdict CatalogJudge::followers_miss_nothing() const {
  if (auto found = rows_are_seen_in_order()) return found;
  return contents_are_equal();
}

Verdict CatalogJudge::offers_are_free() const {
  auto covers = [](const Hold& hold, Clock::time_point from, Clock::time_point until) {
    return hold.window.from <= from && until < hold.window.until;
  };
  auto row_of = [](const Hold& hold) { return hold.claimed->row; };
  for (auto& event : history_.events()) {
    if (event.kind == Kind::offered) {
      for (auto& hold : std::ranges::equal_range(holds_, event.row, {}, row_of))
        if (covers(hold, event.since, event.at) && !has_loss({hold.window.from, event.at}))
          return violation("I18", fmt::format("row {} was offered, and has an owner", event.row),
                           {hold.claimed, &event});
    }
    if (event.kind != Kind::settled) continue;
    auto since = event.since == Clock::time_point{} ? event.at : event.since;
    for (RowId row = 0; row < bounds_.rows; ++row) {
      auto holds = std::ranges::equal_range(holds_, row, {}, row_of);
      auto lasts = [&](const Hold& hold) {
        return hold.window.from <= event.at && since < hold.window.until;
      };
      if (std::ranges::any_of(holds, lasts)) continue;
      return violation("I18", fmt::format("row {} has no owner, and nothing is wrong", row),
                       {holds.empty() ? nullptr : std::prev(holds.end())->claimed, &event});
    }
  }
  return std::nullopt;
}

Verdict CatalogJudge::first_violation() const {
  // Service past a lease is I16; only the remaining overlaps are I13.
  for (auto check :
       {&CatalogJudge::nobody_serves_past_its_lease, &CatalogJudge::owners_exclude_each_other,
        static_cast<Verdict (CatalogJudge::*)() const>(&CatalogJudge::epochs_grow),
        &CatalogJudge::old_epochs_are_refused, &CatalogJudge::followers_miss_nothing,
        &CatalogJudge::offers_are_free})
    if (auto found = (this->*check)()) return found;
  return std::nullopt;
}

CatalogJudge::HoldTime CatalogJudge::hold_time() const {
  HoldTime time;
  for (auto& [claimed, window] : holds_) {
    time.all += window.until - window.from;
    time.excused += window.until - window.from - length_outside_losses(window);
  }
  return time;
}

}  // namespace warren::history
