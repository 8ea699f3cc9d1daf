#include "proof/history/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>

#include "base/error.h"
#include "proof/history/by_time.h"

namespace warren::history {

namespace {

std::string moment(Clock::time_point time, Clock::time_point origin) {
  if (time == Clock::time_point::max()) return "never";
  return fmt::format("{:+.3f} ms",
                     std::chrono::duration<double, std::milli>(time - origin).count());
}

std::string_view name(LeaseEvent::Kind kind) {
  switch (kind) {
    case LeaseEvent::Kind::begun:
      return "begun";
    case LeaseEvent::Kind::enqueued:
      return "enqueued";
    case LeaseEvent::Kind::granted:
      return "granted";
    case LeaseEvent::Kind::renewed:
      return "renewed";
    case LeaseEvent::Kind::raised:
      return "raised";
    case LeaseEvent::Kind::lost:
      return "lost";
    case LeaseEvent::Kind::released:
      return "released";
    case LeaseEvent::Kind::ended:
      return "ended";
    case LeaseEvent::Kind::accepted:
      return "accepted";
    case LeaseEvent::Kind::rejected:
      return "rejected";
    case LeaseEvent::Kind::killed:
      return "killed";
    case LeaseEvent::Kind::paused:
      return "paused";
    case LeaseEvent::Kind::resumed:
      return "resumed";
  }
  std::abort();
}

std::string_view name(MirrorEvent::Kind kind) {
  switch (kind) {
    case MirrorEvent::Kind::acknowledged:
      return "acknowledged";
    case MirrorEvent::Kind::applied:
      return "applied";
    case MirrorEvent::Kind::resynced:
      return "resynced";
    case MirrorEvent::Kind::read:
      return "read";
    case MirrorEvent::Kind::session_read:
      return "session_read";
    case MirrorEvent::Kind::history_rewritten:
      return "history_rewritten";
    case MirrorEvent::Kind::logged:
      return "logged";
    case MirrorEvent::Kind::contents:
      return "contents";
    case MirrorEvent::Kind::server_contents:
      return "server_contents";
    case MirrorEvent::Kind::data_lost:
      return "data_lost";
  }
  std::abort();
}

}  // namespace

LeaseEvent& LeaseHistory::write(Clock::time_point at, AttemptId attempt, LeaseEvent::Kind kind) {
  auto [lock, process] = attempts_.at(attempt);
  return events_.emplace_back(
      LeaseEvent{.at = at, .attempt = attempt, .lock = lock, .process = process, .kind = kind});
}

AttemptId LeaseHistory::begun(Clock::time_point at, ProcessId process, LockId lock,
                              Clock::time_point give_up) {
  auto attempt = static_cast<AttemptId>(attempts_.size());
  attempts_.push_back({lock, process});
  write(at, attempt, LeaseEvent::Kind::begun).deadline = give_up;
  return attempt;
}

void LeaseHistory::enqueued(Clock::time_point at, AttemptId attempt, Token place) {
  write(at, attempt, LeaseEvent::Kind::enqueued).token = place;
}

void LeaseHistory::granted(Clock::time_point at, AttemptId attempt, const Grant& grant) {
  auto& event = write(at, attempt, LeaseEvent::Kind::granted);
  event.token = grant.token;
  event.since = grant.since;
  event.deadline = grant.deadline;
}

void LeaseHistory::renewed(Clock::time_point at, AttemptId attempt, Clock::time_point deadline) {
  write(at, attempt, LeaseEvent::Kind::renewed).deadline = deadline;
}

void LeaseHistory::raised(Clock::time_point at, AttemptId attempt, Token token,
                          Clock::time_point since) {
  auto& event = write(at, attempt, LeaseEvent::Kind::raised);
  event.token = token;
  event.since = since;
}

void LeaseHistory::lost(Clock::time_point at, AttemptId attempt) {
  write(at, attempt, LeaseEvent::Kind::lost);
}

void LeaseHistory::released(Clock::time_point at, AttemptId attempt) {
  write(at, attempt, LeaseEvent::Kind::released);
}

void LeaseHistory::ended(Clock::time_point at, AttemptId attempt) {
  write(at, attempt, LeaseEvent::Kind::ended);
}

void LeaseHistory::accepted(Clock::time_point at, AttemptId attempt, Token token,
                            Clock::time_point since) {
  auto& event = write(at, attempt, LeaseEvent::Kind::accepted);
  event.token = token;
  event.since = since;
}

void LeaseHistory::rejected(Clock::time_point at, AttemptId attempt, Token token,
                            Clock::time_point since) {
  auto& event = write(at, attempt, LeaseEvent::Kind::rejected);
  event.token = token;
  event.since = since;
}

void LeaseHistory::killed(Clock::time_point at, ProcessId process) {
  events_.push_back({.at = at, .process = process, .kind = LeaseEvent::Kind::killed});
}

void LeaseHistory::paused(Clock::time_point at, ProcessId process) {
  events_.push_back({.at = at, .process = process, .kind = LeaseEvent::Kind::paused});
}

void LeaseHistory::resumed(Clock::time_point at, ProcessId process) {
  events_.push_back({.at = at, .process = process, .kind = LeaseEvent::Kind::resumed});
}

void LeaseHistory::add(const LeaseHistory& other) {
  auto first = static_cast<AttemptId>(attempts_.size());
  attempts_.insert(attempts_.end(), other.attempts_.begin(), other.attempts_.end());
  for (auto event : other.events_) {
    event.attempt += first;
    events_.push_back(event);
  }
}

void LeaseHistory::sort() { sort_by_time(events_); }

void LeaseHistory::clear() {
  events_.clear();
  attempts_.clear();
}

MirrorEvent& MirrorHistory::write(Clock::time_point at, MirrorEvent::Kind kind, ProcessId process,
                                  Token id) {
  return events_.emplace_back(MirrorEvent{.at = at, .id = id, .process = process, .kind = kind});
}

void MirrorHistory::acknowledged(Clock::time_point at, ProcessId process, Token id) {
  write(at, MirrorEvent::Kind::acknowledged, process, id);
}

void MirrorHistory::applied(Clock::time_point at, ProcessId reader, Token id) {
  write(at, MirrorEvent::Kind::applied, reader, id);
}

void MirrorHistory::resynced(Clock::time_point at, ProcessId reader, Token id) {
  write(at, MirrorEvent::Kind::resynced, reader, id);
}

void MirrorHistory::read(Clock::time_point at, ProcessId reader, Token id, Clock::duration age,
                         std::uint64_t digest) {
  auto& event = write(at, MirrorEvent::Kind::read, reader, id);
  event.age = age;
  event.digest = digest;
}

void MirrorHistory::session_read(Clock::time_point at, ProcessId reader, Token id,
                                 Clock::duration age) {
  write(at, MirrorEvent::Kind::session_read, reader, id).age = age;
}

void MirrorHistory::history_rewritten(Clock::time_point at, ProcessId reader, Token from) {
  write(at, MirrorEvent::Kind::history_rewritten, reader, from);
}

void MirrorHistory::data_lost(Clock::time_point at) { write(at, MirrorEvent::Kind::data_lost); }

void MirrorHistory::logged(Clock::time_point at, Token id, std::uint64_t digest) {
  write(at, MirrorEvent::Kind::logged, 0, id).digest = digest;
}

void MirrorHistory::contents(Clock::time_point at, ProcessId reader, std::uint64_t digest) {
  write(at, MirrorEvent::Kind::contents, reader).digest = digest;
}

void MirrorHistory::server_contents(Clock::time_point at, std::uint64_t digest) {
  write(at, MirrorEvent::Kind::server_contents).digest = digest;
}

void MirrorHistory::add(const MirrorHistory& other) {
  events_.insert(events_.end(), other.events_.begin(), other.events_.end());
}

void MirrorHistory::sort() { sort_by_time(events_); }

void MirrorHistory::clear() { events_.clear(); }

std::string describe(Token token) { return fmt::format("{}.{}", token.epoch, token.counter); }

std::string describe(const LeaseEvent& event, Clock::time_point origin) {
  using Kind = LeaseEvent::Kind;
  auto line = fmt::format("{:>14}  process {}", moment(event.at, origin), event.process);
  if (event.kind < Kind::killed)
    line += fmt::format("  lock {}  attempt {}", event.lock, event.attempt);
  line += fmt::format("  {}", name(event.kind));
  if (event.kind == Kind::enqueued) line += " at place " + describe(event.token);
  if (event.kind == Kind::granted || event.kind == Kind::raised || event.kind == Kind::accepted ||
      event.kind == Kind::rejected)
    line += " token " + describe(event.token) + ", asked at " + moment(event.since, origin);
  if (event.kind == Kind::begun || event.kind == Kind::granted || event.kind == Kind::renewed)
    line += ", until " + moment(event.deadline, origin);
  return line;
}

std::string describe(const MirrorEvent& event, Clock::time_point origin) {
  using Kind = MirrorEvent::Kind;
  auto line = fmt::format("{:>14}  process {}  {}", moment(event.at, origin), event.process,
                          name(event.kind));
  if (event.kind == Kind::contents || event.kind == Kind::server_contents)
    return line + fmt::format(" {:016x}", event.digest);
  if (event.kind == Kind::data_lost) return line;
  line += " " + describe(event.id);
  if (event.kind == Kind::read || event.kind == Kind::session_read)
    line += fmt::format(", age {:.3f} ms",
                        std::chrono::duration<double, std::milli>(event.age).count());
  return line;
}

}  // namespace warren::history
