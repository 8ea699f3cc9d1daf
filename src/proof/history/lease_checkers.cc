#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "proof/history/checkers.h"

namespace warren::history {

namespace {

constexpr auto never = Clock::time_point::max();
using Kind = LeaseEvent::Kind;

std::string ms(Clock::duration time) {
  return fmt::format("{:.3f} ms", std::chrono::duration<double, std::milli>(time).count());
}

// Adds to a time without overflowing `never`.
Clock::time_point after(Clock::time_point time, Clock::duration more) {
  return time > never - more ? never : time + more;
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

// By lock, and within a lock in the order of the history (they point into one vector).
void sort_by_lock(std::vector<const LeaseEvent*>& events) {
  std::ranges::sort(events,
                    [](auto* a, auto* b) { return std::tie(a->lock, a) < std::tie(b->lock, b); });
}

// The part that belongs to the same lock as its first element.
template <class T, class LockOf>
std::span<const T> same_lock(std::span<const T> rest, LockOf lock_of) {
  auto lock = lock_of(rest.front());
  auto end = std::ranges::find_if(rest, [&](auto& other) { return lock_of(other) != lock; });
  return {rest.begin(), end};
}

}  // namespace

std::string Violation::text() const {
  std::string text = invariant + " is violated: " + what;
  for (auto& event : events) text += "\n  " + event;
  return text;
}

LeaseJudge::LeaseJudge(const LeaseHistory& history, LeaseBounds bounds)
    : history_(history), bounds_(std::move(bounds)), attempts_(history.attempts()) {
  auto& events = history.events();
  ensure(std::ranges::is_sorted(events, {}, &LeaseEvent::at), "a history is sorted");
  if (!events.empty()) {
    start_ = events.front().at;
    end_ = events.back().at;
  }
  for (auto& event : events) index(event);
  std::ranges::sort(pauses_, [](const Pause& a, const Pause& b) {
    return std::tie(a.process, a.window.from) < std::tie(b.process, b.window.from);
  });
  collect_weather();
  collect_holds();
}

void LeaseJudge::index(const LeaseEvent& event) {
  if (event.kind == Kind::killed) deaths_.push_back(&event);
  if (event.kind == Kind::paused) pauses_.push_back({event.process, {event.at, never}});
  if (event.kind == Kind::resumed) {
    auto open = std::ranges::find_if(pauses_, [&](const Pause& pause) {
      return pause.process == event.process && pause.window.until == never;
    });
    if (open != pauses_.end()) open->window.until = event.at;
  }
  if (event.kind >= Kind::killed) return;
  auto& attempt = attempts_[event.attempt];
  auto& place = event.kind == Kind::begun      ? attempt.begun
                : event.kind == Kind::enqueued ? attempt.enqueued
                : event.kind == Kind::granted  ? attempt.granted
                : event.kind == Kind::renewed  ? attempt.renewed
                : event.kind == Kind::raised   ? attempt.raised
                : event.kind == Kind::lost     ? attempt.lost
                : event.kind == Kind::released ? attempt.released
                                               : attempt.ended;
  bool needs_grant = event.kind >= Kind::renewed && event.kind <= Kind::released;
  bool may_repeat =
      event.kind >= Kind::enqueued && event.kind <= Kind::raised && event.kind != Kind::granted;
  if (event.kind == Kind::accepted || event.kind == Kind::rejected) return;
  bool is_over = attempt.ended || (attempt.granted && !needs_grant);
  if (!malformed_ && ((place && !may_repeat) || (needs_grant && !attempt.granted) ||
                      (event.kind != Kind::begun && is_over)))
    malformed_ = violation("the order of an attempt", "this cannot follow",
                           {attempt.begun, attempt.granted, attempt.ended, &event});
  attempt.is_enqueued_again |= place && event.kind == Kind::enqueued;
  place = &event;
}

// Excuses, pauses and deaths, each with one ttl after it: a paused or dead process may have been
// the owner or the next in the queue, and its requests may still have been carried out.
void LeaseJudge::collect_weather() {
  weather_ = bounds_.excused;
  for (auto& pause : pauses_) weather_.push_back(pause.window);
  for (auto* death : deaths_) weather_.push_back({death->at, death->at});
  for (auto& window : weather_) window.until = after(window.until, bounds_.ttl);
  merge(weather_);
  losses_ = bounds_.lossy;
  merge(losses_);
}

void LeaseJudge::collect_holds() {
  for (auto& attempt : attempts_) {
    if (!attempt.granted) continue;
    holds_.push_back({&attempt, attempt.granted->at, end_of_belief(attempt)});
  }
  std::ranges::sort(holds_, [](const Hold& a, const Hold& b) {
    return std::tie(a.attempt->granted->lock, a.from) < std::tie(b.attempt->granted->lock, b.from);
  });
  for (auto& hold : holds_) {
    // An unreleased lock is free when its ttl has run out, and its last renewal may have been under
    // way when the owner stopped believing.
    auto* released = hold.attempt->released;
    bool is_clean = released && released->at == hold.until;
    busy_.push_back({hold.attempt->granted->lock, hold.from,
                     is_clean ? hold.until : after(hold.until, bounds_.ttl)});
  }
  for (auto& [lock, window] : bounds_.taken) busy_.push_back({lock, window.from, window.until});
  for (auto& [lock, at] : bounds_.handed) {
    auto rain = std::ranges::upper_bound(weather_, at, {}, &Window::from);
    if (rain != weather_.begin() && at <= std::prev(rain)->until)
      busy_.push_back({lock, at, after(at, bounds_.ttl)});
  }
  std::ranges::sort(busy_, [](const Busy& a, const Busy& b) {
    return std::tie(a.lock, a.from) < std::tie(b.lock, b.from);
  });
}

// Not the deadline: belief past it is what the deadline is meant to prevent. I4 says how late is
// too late; that much passes here too.
Clock::time_point LeaseJudge::end_of_belief(const Attempt& attempt) const {
  auto process = attempt.granted->process;
  auto until = std::min(end_, death_of(process));
  if (attempt.lost) until = std::min(until, attempt.lost->at);
  if (attempt.released) until = std::min(until, attempt.released->at);
  auto deadline = deadline_of(attempt);
  return until > deadline && until <= due(process, deadline) ? deadline : until;
}

Clock::duration LeaseJudge::length_outside_losses(Window overlap) const {
  auto length = overlap.until - overlap.from;
  for (auto& loss : losses_) {
    auto from = std::max(loss.from, overlap.from), until = std::min(loss.until, overlap.until);
    if (from < until) length -= until - from;
  }
  return length;
}

Clock::time_point LeaseJudge::deadline_of(const Attempt& attempt) const {
  return attempt.renewed ? attempt.renewed->deadline : attempt.granted->deadline;
}

Clock::time_point LeaseJudge::death_of(ProcessId process) const {
  auto death = std::ranges::find(deaths_, process, &LeaseEvent::process);
  return death == deaths_.end() ? never : (*death)->at;
}

Clock::time_point LeaseJudge::end_of_wait(const Attempt& attempt) const {
  if (attempt.granted) return attempt.granted->at;
  if (attempt.ended) return attempt.ended->at;
  return std::min(end_, death_of(attempt.begun->process));
}

Clock::time_point LeaseJudge::due(ProcessId process, Clock::time_point moment) const {
  auto time = after(moment, bounds_.slack);
  for (auto& pause : std::ranges::equal_range(pauses_, process, {}, &Pause::process))
    if (pause.window.from < time && pause.window.until > moment)
      time = after(pause.window.until, bounds_.slack);
  return time;
}

// A process that was paused, or could not reach the servers, may have lost its place.
bool LeaseJudge::was_undisturbed(ProcessId process, Window window) const {
  auto disturbs = [&](const Window& other) {
    return other.from < window.until && other.until > window.from;
  };
  auto paused = std::ranges::equal_range(pauses_, process, {}, &Pause::process);
  return std::ranges::none_of(paused, disturbs, &Pause::window) &&
         std::ranges::none_of(bounds_.excused, disturbs);
}

bool LeaseJudge::is_lossy(Clock::time_point time) const {
  return std::ranges::any_of(bounds_.lossy, [&](const Window& window) {
    return window.from <= time && time <= window.until;
  });
}

Violation LeaseJudge::violation(const char* invariant, std::string what,
                                std::vector<const LeaseEvent*> events) const {
  std::erase(events, nullptr);
  std::ranges::sort(events);
  events.erase(std::ranges::unique(events).begin(), events.end());
  Violation result{invariant, std::move(what), {}};
  for (auto* event : events) result.events.push_back(describe(*event, start_));
  return result;
}

// Two events are in order if one was known before the other was requested. A running maximum over
// the events as they became known decides that for all pairs at once.
Verdict LeaseJudge::in_order(std::initializer_list<Kind> kinds, const char* invariant,
                             bool equal_is_ok) const {
  std::vector<const LeaseEvent*> events, highest;
  for (auto& event : history_.events())
    if (std::ranges::find(kinds, event.kind) != kinds.end()) events.push_back(&event);
  sort_by_lock(events);
  auto lock_of = [](const LeaseEvent* event) { return event->lock; };
  auto known = [](const LeaseEvent* event) { return event->at; };
  for (std::span<const LeaseEvent* const> rest = events; !rest.empty();) {
    auto group = same_lock(rest, lock_of);
    rest = rest.subspan(group.size());
    highest.assign(group.begin(), group.end());
    for (std::size_t i = 0; i < group.size(); ++i) {
      auto* event = group[i];
      if (i > 0 && highest[i - 1]->token > event->token) highest[i] = highest[i - 1];
      auto before = std::ranges::upper_bound(group.first(i), event->since, {}, known);
      if (before == group.begin()) continue;
      auto known_before = group.first(static_cast<std::size_t>(before - group.begin()));
      auto* other = highest[known_before.size() - 1];
      if (!equal_is_ok && other->token.epoch > event->token.epoch && is_lossy(event->at)) {
        // A replaced primary that does not know it keeps counting in its own epoch.
        for (auto* each : known_before)
          if (each->token.epoch == event->token.epoch &&
              (other->token.epoch != event->token.epoch || each->token > other->token))
            other = each;
        if (other->token.epoch != event->token.epoch) continue;
      }
      if (other->token > event->token || (!equal_is_ok && other->token == event->token))
        return violation(
            invariant,
            fmt::format("token {} came after {}", describe(event->token), describe(other->token)),
            {attempt_of(*other).granted, other, attempt_of(*event).granted, event});
    }
  }
  // One token, one owner, in any order.
  std::ranges::sort(events, [](auto* a, auto* b) {
    return std::tie(a->lock, a->token, a->attempt) < std::tie(b->lock, b->token, b->attempt);
  });
  auto twice = std::ranges::adjacent_find(events, [](auto* a, auto* b) {
    return a->lock == b->lock && a->token == b->token && a->attempt != b->attempt;
  });
  if (twice == events.end()) return std::nullopt;
  return violation(invariant, fmt::format("two owners have token {}", describe((*twice)->token)),
                   {twice[0], twice[1]});
}

Verdict LeaseJudge::resources_are_fenced() const { return in_order({Kind::accepted}, "I1", true); }

Verdict LeaseJudge::tokens_grow() const {
  return in_order({Kind::granted, Kind::raised}, "I2", false);
}

template <class Visit>
void LeaseJudge::each_overlap(Visit visit) const {
  const Hold* last = nullptr;  // of this lock: the one that lasts longest
  for (auto& hold : holds_) {
    if (last && last->attempt->granted->lock != hold.attempt->granted->lock) last = nullptr;
    if (last && hold.from < std::min(last->until, hold.until)) visit(*last, hold);
    if (!last || hold.until > last->until) last = &hold;
  }
}

Verdict LeaseJudge::owners_exclude_each_other() const {
  Verdict found;
  each_overlap([&](const Hold& first, const Hold& second) {
    auto length = length_outside_losses({second.from, std::min(first.until, second.until)});
    auto allowed = bounds_.overlap;
    if (found || length <= allowed) return;
    auto &one = *first.attempt, &other = *second.attempt;
    found = violation("I3", fmt::format("two owners for {}, {} allowed", ms(length), ms(allowed)),
                      {one.granted, one.renewed, one.lost, one.released, other.granted,
                       other.renewed, other.lost, other.released});
  });
  return found;
}

std::size_t LeaseJudge::lossy_overlaps() const {
  std::size_t count = 0;
  each_overlap([&](const Hold& first, const Hold& second) {
    if (std::min(first.until, second.until) - second.from > bounds_.overlap) ++count;
  });
  return count;
}

LeaseJudge::HoldTime LeaseJudge::hold_time() const {
  HoldTime time;
  for (auto& hold : holds_) {
    auto length = hold.until - hold.from;
    time.all += length;
    time.excused += length - length_outside_losses({hold.from, hold.until});
  }
  return time;
}

Verdict LeaseJudge::losses_are_told() const {
  // The deadline that each attempt believed in, as the history goes on.
  std::vector<const LeaseEvent*> believed(attempts_.size());
  for (auto& event : history_.events()) {
    if (event.kind < Kind::granted || event.kind > Kind::released) continue;
    if (event.kind == Kind::raised) continue;  // neither has a deadline nor ends one
    auto& last = believed[event.attempt];
    if (last && event.at > due(event.process, last->deadline))
      return violation(
          "I4", fmt::format("nothing was told by the deadline, nor {} later", ms(bounds_.slack)),
          {last, &event});
    if (event.kind == Kind::renewed && !last)
      return violation("I4", "what was lost or released was renewed",
                       {attempt_of(event).lost, attempt_of(event).released, &event});
    last = event.kind <= Kind::renewed ? &event : nullptr;
  }
  for (auto* last : believed) {
    if (!last) continue;
    auto by = due(last->process, last->deadline);
    if (by < std::min(end_, death_of(last->process)))
      return violation("I4", "the loss was never told", {last});
  }
  return std::nullopt;
}

Verdict LeaseJudge::ends_in_time(const Attempt& attempt) const {
  auto limit = due(attempt.begun->process, attempt.begun->deadline);
  if (end_of_wait(attempt) <= limit) return std::nullopt;
  return violation("I6", "an attempt did not end when its time was up",
                   {attempt.begun, attempt.enqueued, attempt.granted, attempt.ended});
}

// Whether a process waited too long within a time in which the lock was free and nothing else went
// wrong. The attempts are sorted by their beginning. Those that ended before that time are dropped,
// since the next such time is a later one.
Verdict LeaseJudge::waited_through(std::span<const Attempt* const>& waiters, Window calm) const {
  while (!waiters.empty() && end_of_wait(*waiters.front()) <= calm.from)
    waiters = waiters.subspan(1);
  for (auto* waiter : waiters) {
    if (waiter->begun->at >= calm.until) break;
    auto from = std::max(waiter->begun->at, calm.from);
    auto until = std::min(end_of_wait(*waiter), calm.until);
    if (until - from <= bounds_.wake) continue;
    return violation("I6", fmt::format("waited {} for a free lock", ms(until - from)),
                     {waiter->begun, waiter->enqueued, waiter->granted, waiter->ended});
  }
  return std::nullopt;
}

// The times in which no process had the lock, less the weather.
Verdict LeaseJudge::free_too_long(std::span<const Attempt* const> waiters,
                                  std::span<const Busy> busy) const {
  auto calm_since = start_;
  auto rain = weather_.begin();
  auto calm_until = [&](Clock::time_point end) -> Verdict {
    while (calm_since < end) {
      while (rain != weather_.end() && rain->until <= calm_since) ++rain;
      auto stop = rain == weather_.end() ? end : std::min(end, std::max(rain->from, calm_since));
      if (stop - calm_since > bounds_.wake)
        if (auto found = waited_through(waiters, {calm_since, stop})) return found;
      if (stop == end) break;
      calm_since = rain->until;
    }
    return std::nullopt;
  };
  for (auto& each : busy) {
    if (auto found = calm_until(each.from)) return found;
    calm_since = std::max(calm_since, each.until);
  }
  return calm_until(end_);
}

LeaseJudge::Share LeaseJudge::judged_waiters() const {
  Share share;
  for (auto& attempt : attempts_) {
    if (!attempt.begun) continue;
    ++share.all;
    Window wait{attempt.begun->at, end_of_wait(attempt)};
    bool is_excused = std::ranges::any_of(weather_, [&](const Window& rain) {
      return rain.from <= wait.from && wait.until <= rain.until;
    });
    if (!is_excused) ++share.judged;
  }
  return share;
}

Verdict LeaseJudge::waiters_wake() const {
  std::vector<const Attempt*> waiters;
  for (auto& attempt : attempts_) {
    if (auto found = ends_in_time(attempt)) return found;
    waiters.push_back(&attempt);
  }
  std::ranges::sort(waiters, [](auto* a, auto* b) {
    return std::tie(a->begun->lock, a->begun) < std::tie(b->begun->lock, b->begun);
  });
  for (std::span<const Attempt* const> rest = waiters; !rest.empty();) {
    auto lock = rest.front()->begun->lock;
    auto group = same_lock(rest, [](auto* attempt) { return attempt->begun->lock; });
    rest = rest.subspan(group.size());
    auto same = std::ranges::equal_range(busy_, lock, {}, &Busy::lock);
    if (auto found = free_too_long(group, {same.begin(), same.end()})) return found;
  }
  return std::nullopt;
}

Verdict LeaseJudge::waiters_keep_their_order() const {
  std::vector<const Attempt*> queue;
  for (auto& attempt : attempts_)
    if (attempt.enqueued) queue.push_back(&attempt);
  std::ranges::sort(queue, [](auto* a, auto* b) {
    return std::tie(a->enqueued->lock, a->enqueued->token) <
           std::tie(b->enqueued->lock, b->enqueued->token);
  });
  const Attempt* patient = nullptr;  // of the earlier ones: the one that waited longest
  for (auto* attempt : queue) {
    auto& place = *attempt->enqueued;
    if (patient && (patient->enqueued->lock != place.lock ||
                    patient->enqueued->token.epoch != place.token.epoch))
      patient = nullptr;
    if (patient && attempt->granted && !attempt->is_enqueued_again &&
        end_of_wait(*patient) > after(attempt->granted->at, bounds_.slack))
      return violation(
          "I7", "a later waiter was granted first",
          {patient->enqueued, patient->granted, patient->ended, &place, attempt->granted});
    auto end = end_of_wait(*attempt);
    if ((!patient || end > end_of_wait(*patient)) &&
        was_undisturbed(place.process, {attempt->begun->at, end}))
      patient = attempt;
  }
  return std::nullopt;
}

Verdict LeaseJudge::first_violation() const {
  if (malformed_) return malformed_;
  // Belief past a deadline is I4; only the remaining overlaps are I3.
  for (auto check : {&LeaseJudge::resources_are_fenced, &LeaseJudge::tokens_grow,
                     &LeaseJudge::losses_are_told, &LeaseJudge::owners_exclude_each_other,
                     &LeaseJudge::waiters_wake, &LeaseJudge::waiters_keep_their_order})
    if (auto found = (this->*check)()) return found;
  return std::nullopt;
}

}  // namespace warren::history
