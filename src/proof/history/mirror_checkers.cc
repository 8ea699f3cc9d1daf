#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "proof/history/checkers.h"

namespace warren::history {

namespace {

using Kind = MirrorEvent::Kind;

std::vector<const MirrorEvent*> all_of(const MirrorHistory& history, Kind kind) {
  std::vector<const MirrorEvent*> found;
  for (auto& event : history.events())
    if (event.kind == kind) found.push_back(&event);
  return found;
}

}  // namespace

MirrorJudge::MirrorJudge(const MirrorHistory& history, MirrorBounds bounds)
    : history_(history), bounds_(bounds) {
  ensure(std::ranges::is_sorted(history.events(), {}, &MirrorEvent::at), "a history is sorted");
  for (auto& event : history.events()) {
    if (event.kind == Kind::logged) log_.push_back(event.id);
    if (event.kind == Kind::logged && event.digest != 0) log_events_.push_back(&event);
    if (event.kind == Kind::data_lost) faults_.push_back(event.at);
    by_process_.push_back(&event);
  }
  std::ranges::sort(log_);
  std::ranges::sort(log_events_, {}, &MirrorEvent::id);
  std::ranges::sort(by_process_, [](auto* a, auto* b) {
    return std::tie(a->process, a) < std::tie(b->process, b);
  });
}

Violation MirrorJudge::violation(const char* invariant, std::string what,
                                 std::vector<const MirrorEvent*> events) const {
  std::erase(events, nullptr);
  std::ranges::sort(events);
  Violation result{invariant, std::move(what), {}};
  for (auto* event : events)
    result.events.push_back(describe(*event, history_.events().front().at));
  return result;
}

bool MirrorJudge::is_logged(Token id) const { return std::ranges::binary_search(log_, id); }

bool MirrorJudge::may_be_lost(const MirrorEvent& acknowledged) const {
  return std::ranges::any_of(faults_, [&](Clock::time_point fault) {
    return fault - bounds_.lost_before <= acknowledged.at &&
           acknowledged.at <= fault + bounds_.lost_after;
  });
}

Verdict MirrorJudge::acknowledged_writes_survive() const {
  for (auto* event : all_of(history_, Kind::acknowledged))
    if (!is_logged(event->id) && !is_trimmed(event->id) && !may_be_lost(*event))
      return violation("I5", "an acknowledged write is not in the log", {event});
  return std::nullopt;
}

std::size_t MirrorJudge::lost_writes() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      all_of(history_, Kind::acknowledged),
      [&](const MirrorEvent* event) { return !is_logged(event->id) && !is_trimmed(event->id); }));
}

Verdict MirrorJudge::entries_are_applied_in_order() const {
  const MirrorEvent* last = nullptr;  // of this reader: applied or resynced
  bool was_told = false;              // since then: that history was rewritten
  for (auto* event : by_process_) {
    if (last && last->process != event->process) last = nullptr;
    if (event->kind == Kind::history_rewritten) was_told = true;
    if (event->kind == Kind::contents && last && !log_.empty() && last->id != log_.back())
      return violation("I10",
                       fmt::format("the reader ended at {} and the log at {}", describe(last->id),
                                   describe(log_.back())),
                       {last, event});
    if (event->kind == Kind::resynced) {
      if (last && event->id < last->id && !was_told)
        return violation("I10", "a reader went back and did not say so", {last, event});
    } else if (event->kind == Kind::applied) {
      if (!last) return violation("I10", "a reader applied an entry to nothing", {event});
      auto [epoch, counter] = event->id;
      bool follows = epoch == last->id.epoch
                         ? counter == last->id.counter + 1
                         : epoch > last->id.epoch && counter == bounds_.first_of_epoch;
      if (!follows) return violation("I10", "this entry does not follow that one", {last, event});
      // Only the log knows the last entry of an epoch that has ended.
      auto next = std::ranges::upper_bound(log_, last->id);
      if (next != log_.end() && *next < event->id && is_logged(event->id))
        return violation("I10", fmt::format("entry {} was left out", describe(*next)),
                         {last, event});
    } else {
      continue;
    }
    last = event;
    was_told = false;
  }
  return std::nullopt;
}

Verdict MirrorJudge::contents_are_equal() const {
  auto server = all_of(history_, Kind::server_contents);
  for (auto* reader : all_of(history_, Kind::contents)) {
    if (server.empty()) return violation("I10", "the server's contents are not known", {reader});
    if (reader->digest != server.back()->digest)
      return violation("I10", "a reader does not have what the server has",
                       {reader, server.back()});
  }
  return std::nullopt;
}

// A reader that was told keeps showing what it had, one snapshot, until everything is loaded again.
std::set<const MirrorEvent*> MirrorJudge::reads_of_what_was_left() const {
  std::set<const MirrorEvent*> reads;
  const MirrorEvent *told = nullptr, *first = nullptr;  // the first read after it was told
  for (auto* event : by_process_) {
    if (told && told->process != event->process) told = nullptr;
    if (event->kind == Kind::history_rewritten) told = event, first = nullptr;
    if (event->kind != Kind::read || !told) continue;
    if (!first) first = event;
    if (event->id == first->id && event->id >= told->id)
      reads.insert(event);
    else
      told = nullptr;
  }
  return reads;
}

Verdict MirrorJudge::snapshots_are_the_log() const {
  auto left = reads_of_what_was_left();
  // Backwards: what a reader was told later is known before what it read.
  const MirrorEvent* last = nullptr;
  bool is_judged = false;
  for (auto i = by_process_.rbegin(); i != by_process_.rend(); ++i) {
    auto* event = *i;
    if (!last || last->process != event->process) is_judged = faults_.empty();
    last = event;
    if (event->kind == Kind::contents) is_judged = true;
    if (event->kind == Kind::history_rewritten) is_judged = false;
    if (event->kind != Kind::read || event->digest == 0 || !is_judged) continue;
    auto entry = std::ranges::lower_bound(log_events_, event->id, {}, &MirrorEvent::id);
    if (entry == log_events_.end() || (*entry)->id != event->id) continue;
    if ((*entry)->digest != event->digest && !left.contains(event))
      return violation("I10", "a reader had something else than the log up to there says",
                       {event, *entry});
  }
  return std::nullopt;
}

Verdict MirrorJudge::ages_are_true() const {
  // Acknowledged and not taken back, with the highest of all up to each. What a fault may have lost
  // is left out even if the log has its id: that may be another write, of the history that
  // followed.
  auto writes = all_of(history_, Kind::acknowledged);
  std::erase_if(writes, [&](auto* write) {
    return may_be_lost(*write) || !(log_.empty() || is_logged(write->id) || is_trimmed(write->id));
  });
  auto highest = writes;
  for (std::size_t i = 1; i < highest.size(); ++i)
    if (highest[i - 1]->id > highest[i]->id) highest[i] = highest[i - 1];
  auto time = [](const MirrorEvent* write) { return write->at; };
  for (auto& event : history_.events()) {
    if (event.kind != Kind::read && event.kind != Kind::session_read) continue;
    auto claimed = event.at - event.age - bounds_.slack;
    auto before = std::ranges::lower_bound(writes, claimed, {}, time);
    if (before == writes.begin()) continue;
    auto* write = highest[static_cast<std::size_t>(before - writes.begin()) - 1];
    if (write->id > event.id)
      return violation("I10", "a reader is older than it says", {write, &event});
  }
  return std::nullopt;
}

Verdict MirrorJudge::reads_are_monotonic() const {
  const MirrorEvent *seen = nullptr, *written = nullptr, *process = nullptr;
  const MirrorEvent* told = nullptr;  // that history was rewritten; reads go back once after that
  for (auto* event : by_process_) {
    if (process && process->process != event->process) seen = written = told = nullptr;
    process = event;
    if (event->kind == Kind::history_rewritten) {
      told = event;
      if (written && written->id >= event->id) written = nullptr;
    }
    if (event->kind == Kind::acknowledged && (!written || event->id > written->id)) written = event;
    if (event->kind != Kind::read && event->kind != Kind::session_read) continue;
    if (seen && event->id < seen->id) {
      if (!told || seen->id < told->id)
        return violation("I11", "a read went back", {told, seen, event});
      told = nullptr;
    }
    seen = event;
    if (event->kind == Kind::session_read && written && event->id < written->id)
      return violation("I11", "a reader does not see its own write", {written, event});
  }
  return std::nullopt;
}

Verdict MirrorJudge::first_violation() const {
  for (auto check :
       {&MirrorJudge::acknowledged_writes_survive, &MirrorJudge::entries_are_applied_in_order,
        &MirrorJudge::contents_are_equal, &MirrorJudge::snapshots_are_the_log,
        &MirrorJudge::ages_are_true, &MirrorJudge::reads_are_monotonic})
    if (auto found = (this->*check)()) return found;
  return std::nullopt;
}

Verdict nothing_leaked(std::span<const Level> levels, std::int64_t tolerance) {
  for (auto& [what, before, after] : levels)
    if (after > before + tolerance)
      return Violation{"I12", fmt::format("{}: {} before, {} after", what, before, after), {}};
  return std::nullopt;
}

}  // namespace warren::history
