#include "proof/history/once_checkers.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/error.h"

namespace warren::history {

namespace {

bool is_one_of(OnceEvent::Kind kind, std::initializer_list<OnceEvent::Kind> kinds) {
  return std::ranges::find(kinds, kind) != kinds.end();
}

}  // namespace

OnceJudge::OnceJudge(const OnceHistory& history, OnceBounds bounds)
    : history_(history), bounds_(std::move(bounds)) {
  const auto& events = history.events();
  ensure(std::ranges::is_sorted(events, {}, &OnceEvent::at), "a history is sorted");
  if (!events.empty()) {
    start_ = events.front().at;
    end_ = events.back().at;
  }
  for (const auto& event : events) {
    things_.insert(event.thing);
    if (event.kind == Kind::killed) deaths_.emplace(event.process, event.at);
    if (event.kind == Kind::asleep) sleeps_[event.process].push_back({event.at, event.deadline});
  }
  std::ranges::sort(bounds_.lossy, {}, &Window::from);
  collect_works();
}

void OnceJudge::collect_works() {
  std::map<std::pair<ProcessId, std::uint32_t>, std::size_t> open;
  for (const auto& event : history_.events()) {
    std::pair key(event.process, event.call);
    if (event.kind == Kind::claimed) {
      open[key] = works_.size();
      works_.push_back({&event, end_, event.deadline, nullptr});
    }
    auto found = open.find(key);
    if (found == open.end()) continue;
    auto& work = works_[found->second];
    if (event.kind == Kind::renewed) work.deadline = std::max(work.deadline, event.deadline);
    if (event.kind != Kind::let_go) continue;
    work.let_go = &event;
    open.erase(found);
  }
  auto forced = forced_calls();
  for (auto& work : works_) {
    if (work.let_go) work.until = work.let_go->at;
    work.until = std::min({work.until, work.deadline, death_of(work.claimed->process)});
    // It learns of a step taken by force with its next renewal.
    for (const auto& [thing, window] : forced)
      if (thing == work.claimed->thing && window.until >= work.claimed->at)
        work.until = std::min(work.until, std::max(window.from, work.claimed->at));
  }
  std::ranges::sort(works_, [](const Work& a, const Work& b) {
    return std::tie(a.claimed->thing, a.claimed->at) < std::tie(b.claimed->thing, b.claimed->at);
  });
}

// From when a caller asked for a step by force until its last request can have arrived.
std::vector<std::pair<ThingId, Window>> OnceJudge::forced_calls() const {
  std::vector<std::pair<ThingId, Window>> forced;
  std::map<std::pair<ProcessId, std::uint32_t>, std::size_t> open;
  for (const auto& event : history_.events()) {
    std::pair key(event.process, event.call);
    if (event.kind == Kind::asked && (event.value & OnceEvent::by_force)) {
      open[key] = forced.size();
      forced.push_back({event.thing, {event.at, end_}});
    }
    auto found = open.find(key);
    if (found == open.end() || event.kind == Kind::asked) continue;
    forced[found->second].second.until = event.at + bounds_.late_request;
  }
  return forced;
}

Clock::time_point OnceJudge::death_of(ProcessId process) const {
  auto death = deaths_.find(process);
  return death == deaths_.end() ? Clock::time_point::max() : death->second;
}

Clock::time_point OnceJudge::awake_from(ProcessId process, Clock::time_point time) const {
  auto sleeps = sleeps_.find(process);
  if (sleeps == sleeps_.end()) return time;
  for (const auto& sleep : sleeps->second)
    if (sleep.from <= time + bounds_.slack && time < sleep.until) time = sleep.until;
  return time;
}

bool OnceJudge::has_loss(Clock::time_point from, Clock::time_point until) const {
  return std::ranges::any_of(
      bounds_.lossy, [&](const Window& loss) { return loss.from <= until && from <= loss.until; });
}

Clock::duration OnceJudge::outside_losses(Clock::time_point from, Clock::time_point until) const {
  Clock::duration length{};
  for (const auto& loss : bounds_.lossy) {
    if (loss.until <= from) continue;
    if (loss.from > from) length += std::max(std::min(loss.from, until) - from, Clock::duration{});
    from = std::max(from, loss.until);
    if (from >= until) return length;
  }
  return length + (until - from);
}

OnceJudge::Events OnceJudge::of_thing(ThingId thing, std::initializer_list<Kind> kinds) const {
  Events events;
  for (const auto& event : history_.events())
    if (event.thing == thing && is_one_of(event.kind, kinds)) events.push_back(&event);
  return events;
}

Verdict OnceJudge::claims_exclude_each_other() const {
  for (std::size_t i = 0; i < works_.size(); ++i) {
    const auto& work = works_[i];
    auto process = work.claimed->process;
    auto due = awake_from(process, work.deadline) + bounds_.slack;
    auto stopped = work.let_go ? work.let_go->at : std::min(end_, death_of(process));
    if (!bounds_.is_optimistic && stopped > due)
      return violation("I19", "work goes on after the end of its claim",
                       {work.claimed, work.let_go ? work.let_go : work.claimed});
    for (auto j = i + 1; j < works_.size(); ++j) {
      const auto& next = works_[j];
      if (next.claimed->thing != work.claimed->thing || next.claimed->at >= work.until) break;
      auto until = std::min(work.until, next.until);
      if (next.claimed->at < until && outside_losses(next.claimed->at, until) > Clock::duration{})
        return violation("I19", "two work on one thing at a time", {work.claimed, next.claimed});
    }
  }
  for (auto thing : things_)
    if (auto found = tokens_grow(thing)) return found;
  return std::nullopt;
}

Verdict OnceJudge::tokens_grow(ThingId thing) const {
  std::map<Token, const OnceEvent*> known;
  auto claims = of_thing(thing, {Kind::claimed});
  for (const auto* claim : claims) {
    auto [same, is_new] = known.try_emplace(claim->token, claim);
    if (!is_new) return violation("I19", "a token was given twice", {same->second, claim});
    for (const auto* other : claims) {
      if (other->at > claim->since || other->token < claim->token || other == claim) continue;
      if (has_loss(other->since, claim->at)) continue;
      return violation("I19", "a later claim has a lower token", {other, claim});
    }
  }
  return std::nullopt;
}

Verdict OnceJudge::results_are_the_winners() const {
  for (auto thing : things_) {
    if (auto found = answers_agree(thing)) return found;
    if (auto found = late_results_are_refused(thing)) return found;
    if (auto found = answers_do_not_go_back(thing)) return found;
    if (auto found = nothing_is_created_again(thing)) return found;
  }
  return std::nullopt;
}

Verdict OnceJudge::answers_agree(ThingId thing) const {
  std::map<Token, const OnceEvent*> results;
  for (const auto* event : of_thing(thing, {Kind::answered, Kind::accepted})) {
    if (event->token == Token{}) continue;
    auto [first, is_new] = results.try_emplace(event->token, event);
    if (!is_new && first->second->value != event->value)
      return violation("I20", "one step left two results", {first->second, event});
  }
  return std::nullopt;
}

Verdict OnceJudge::late_results_are_refused(ThingId thing) const {
  auto claims = of_thing(thing, {Kind::claimed});
  for (const auto* result : of_thing(thing, {Kind::accepted})) {
    for (const auto* claim : claims) {
      bool is_over = claim->at <= result->since && claim->token > result->token;
      if (!is_over || has_loss(claim->since, result->at)) continue;
      return violation("I20", "what a step left was taken after the next one had begun",
                       {claim, result});
    }
  }
  return std::nullopt;
}

Verdict OnceJudge::answers_do_not_go_back(ThingId thing) const {
  auto seen = of_thing(thing, {Kind::answered, Kind::accepted});
  auto was_unheard = [this](const OnceEvent& answer) {
    return std::ranges::any_of(bounds_.unheard, [&](const Window& window) {
      return window.from <= answer.at && answer.since <= window.until;
    });
  };
  for (const auto* answer : seen) {
    if (was_unheard(*answer)) continue;
    if (answer->kind != Kind::answered || answer->token == Token{}) continue;
    for (const auto* earlier : seen) {
      if (earlier->at + bounds_.slack > answer->since) break;
      if (earlier->token <= answer->token || has_loss(earlier->since, answer->at)) continue;
      return violation("I20", "who asked later was given something older", {earlier, answer});
    }
  }
  return std::nullopt;
}

Verdict OnceJudge::nothing_is_created_again(ThingId thing) const {
  auto claims = of_thing(thing, {Kind::claimed});
  auto seen = of_thing(thing, {Kind::answered, Kind::accepted});
  for (const auto* claim : claims) {
    if ((claim->value & OnceEvent::from_nothing) == 0) continue;
    const OnceEvent* newest = nullptr;
    for (const auto* event : seen)
      if (event->at <= claim->since && (!newest || event->token > newest->token)) newest = event;
    if (!newest || newest->value == 0 || newest->token == Token{}) continue;
    bool is_next = std::ranges::none_of(claims, [&](const OnceEvent* other) {
      return other->token > newest->token && other->token < claim->token;
    });
    if (is_next && !has_loss(newest->since, claim->at))
      return violation("I20", "it was created again although it was there", {newest, claim});
  }
  return std::nullopt;
}

Verdict OnceJudge::waits_end() const {
  auto calm = Clock::time_point::max();
  std::map<std::pair<ProcessId, std::uint32_t>, const OnceEvent*> open;
  for (const auto& event : history_.events()) {
    std::pair key(event.process, event.call);
    if (event.kind == Kind::calm) calm = event.at;
    if (event.kind == Kind::asked) open[key] = &event;
    if (event.kind != Kind::answered && event.kind != Kind::ended) continue;
    auto asked = open.find(key);
    if (asked == open.end()) continue;
    const auto& call = *asked->second;
    if (event.at > awake_from(call.process, call.deadline) + bounds_.slack)
      return violation("I21", "a call ended after its deadline", {&call, &event});
    bool is_late = event.kind == Kind::ended && event.value == 1;
    bool was_patient = call.deadline - call.at >= bounds_.patience;
    if (is_late && was_patient && call.at >= calm)
      return violation("I21", "a call was not answered although nothing was wrong",
                       {&call, &event});
    open.erase(asked);
  }
  for (const auto& [key, call] : open) {
    auto due = awake_from(call->process, call->deadline) + bounds_.slack;
    if (death_of(call->process) > due && end_ > due)
      return violation("I21", "a call never ended", {call});
  }
  return std::nullopt;
}

Verdict OnceJudge::records_are_of_resources() const {
  for (auto thing : things_) {
    auto ends = of_thing(thing, {Kind::record, Kind::resource});
    for (const auto* end : ends) {
      if (end->value == ends.front()->value) continue;
      return violation("I22", "in the end the record is not that of the resource", ends);
    }
  }
  return std::nullopt;
}

Verdict OnceJudge::first_violation() const {
  for (auto check : {&OnceJudge::claims_exclude_each_other, &OnceJudge::results_are_the_winners,
                     &OnceJudge::waits_end, &OnceJudge::records_are_of_resources})
    if (auto found = (this->*check)()) return found;
  return std::nullopt;
}

OnceJudge::WorkTime OnceJudge::work_time() const {
  WorkTime time;
  for (const auto& work : works_) {
    if (work.until <= work.claimed->at) continue;
    auto length = work.until - work.claimed->at;
    time.all += length;
    time.excused += length - outside_losses(work.claimed->at, work.until);
  }
  return time;
}

Violation OnceJudge::violation(const char* invariant, std::string what, Events events) const {
  std::ranges::sort(events, {}, &OnceEvent::at);
  Violation violation{invariant, std::move(what), {}};
  for (const auto* event : events) violation.events.push_back(describe(*event, start_));
  return violation;
}

}  // namespace warren::history
