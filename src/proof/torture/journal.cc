#include "proof/torture/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace warren::torture {

namespace {

using history::CatalogEvent;
using history::CatalogHistory;
using history::LeaseEvent;
using history::LeaseHistory;
using history::MirrorEvent;
using history::MirrorHistory;
using history::OnceEvent;
using history::OnceHistory;
using Kind = LeaseEvent::Kind;

std::string line_of(const LeaseEvent& event) {
  auto ns = [](Clock::time_point time) { return time.time_since_epoch().count(); };
  return fmt::format("{} {} {} {} {} {} {} {} {} .\n", static_cast<int>(event.kind), ns(event.at),
                     ns(event.since), ns(event.deadline), event.token.epoch, event.token.counter,
                     event.attempt, event.lock, event.process);
}

std::string line_of(const MirrorEvent& event) {
  return fmt::format("{} {} {} {} {} {} {} .\n", static_cast<int>(event.kind),
                     event.at.time_since_epoch().count(), event.age.count(), event.id.epoch,
                     event.id.counter, event.digest, event.process);
}

std::string line_of(const CatalogEvent& event) {
  auto ns = [](Clock::time_point time) { return time.time_since_epoch().count(); };
  return fmt::format("{} {} {} {} {} {} {} {} {} {} .\n", static_cast<int>(event.kind),
                     ns(event.at), event.row, event.process, event.life, event.token.epoch,
                     event.token.counter, event.number, ns(event.since), ns(event.deadline));
}

std::string line_of(const OnceEvent& event) {
  auto ns = [](Clock::time_point time) { return time.time_since_epoch().count(); };
  return fmt::format("{} {} {} {} {} {} {} {} {} {} .\n", static_cast<int>(event.kind),
                     ns(event.at), event.thing, event.process, event.call, event.token.epoch,
                     event.token.counter, event.value, ns(event.since), ns(event.deadline));
}

// Returns false if the line is incomplete.
bool parse(const std::string& line, LeaseEvent& event) {
  std::istringstream in(line);
  int kind = 0;
  Clock::rep at = 0, since = 0, deadline = 0;
  std::string end;
  in >> kind >> at >> since >> deadline >> event.token.epoch >> event.token.counter >>
      event.attempt >> event.lock >> event.process >> end;
  event.kind = static_cast<Kind>(kind);
  event.at = Clock::time_point(Clock::duration(at));
  event.since = Clock::time_point(Clock::duration(since));
  event.deadline = Clock::time_point(Clock::duration(deadline));
  return in && end == ".";
}

bool parse(const std::string& line, MirrorEvent& event) {
  std::istringstream in(line);
  int kind = 0;
  Clock::rep at = 0, age = 0;
  std::string end;
  in >> kind >> at >> age >> event.id.epoch >> event.id.counter >> event.digest >> event.process >>
      end;
  event.kind = static_cast<MirrorEvent::Kind>(kind);
  event.at = Clock::time_point(Clock::duration(at));
  event.age = Clock::duration(age);
  return in && end == ".";
}

bool parse(const std::string& line, CatalogEvent& event) {
  std::istringstream in(line);
  int kind = 0;
  Clock::rep at = 0, since = 0, deadline = 0;
  std::string end;
  in >> kind >> at >> event.row >> event.process >> event.life >> event.token.epoch >>
      event.token.counter >> event.number >> since >> deadline >> end;
  event.kind = static_cast<CatalogEvent::Kind>(kind);
  event.at = Clock::time_point(Clock::duration(at));
  event.since = Clock::time_point(Clock::duration(since));
  event.deadline = Clock::time_point(Clock::duration(deadline));
  return in && end == ".";
}

bool parse(const std::string& line, OnceEvent& event) {
  std::istringstream in(line);
  int kind = 0;
  Clock::rep at = 0, since = 0, deadline = 0;
  std::string end;
  in >> kind >> at >> event.thing >> event.process >> event.call >> event.token.epoch >>
      event.token.counter >> event.value >> since >> deadline >> end;
  event.kind = static_cast<OnceEvent::Kind>(kind);
  event.at = Clock::time_point(Clock::duration(at));
  event.since = Clock::time_point(Clock::duration(since));
  event.deadline = Clock::time_point(Clock::duration(deadline));
  return in && end == ".";
}

// Calls `each` with every event, until it refuses one or a line is not an event.
template <class Event, class Each>
Result<> read_events(const std::filesystem::path& file, Each each) {
  std::ifstream in(file);
  std::string line;
  while (std::getline(in, line)) {
    Event event;
    if (parse(line, event)) {
      auto taken = each(event);
      if (!taken) return taken;
    } else if (in.peek() != EOF) {  // at the end of the file: killed while writing
      return fail(Errc::invalid, "{} has a line that is no event: {}", file.string(), line);
    }
  }
  return ok;
}

void replay(const LeaseEvent& e, LeaseHistory& into) {
  switch (e.kind) {
    case Kind::begun:
      into.begun(e.at, e.process, e.lock, e.deadline);
      return;
    case Kind::enqueued:
      return into.enqueued(e.at, e.attempt, e.token);
    case Kind::granted:
      return into.granted(e.at, e.attempt,
                          {.token = e.token, .since = e.since, .deadline = e.deadline});
    case Kind::renewed:
      return into.renewed(e.at, e.attempt, e.deadline);
    case Kind::raised:
      return into.raised(e.at, e.attempt, e.token, e.since);
    case Kind::lost:
      return into.lost(e.at, e.attempt);
    case Kind::released:
      return into.released(e.at, e.attempt);
    case Kind::ended:
      return into.ended(e.at, e.attempt);
    case Kind::accepted:
      return into.accepted(e.at, e.attempt, e.token, e.since);
    case Kind::rejected:
      return into.rejected(e.at, e.attempt, e.token, e.since);
    case Kind::killed:
      return into.killed(e.at, e.process);
    case Kind::paused:
      return into.paused(e.at, e.process);
    case Kind::resumed:
      return into.resumed(e.at, e.process);
  }
}

void replay(const MirrorEvent& e, MirrorHistory& into) {
  switch (e.kind) {
    case MirrorEvent::Kind::acknowledged:
      return into.acknowledged(e.at, e.process, e.id);
    case MirrorEvent::Kind::applied:
      return into.applied(e.at, e.process, e.id);
    case MirrorEvent::Kind::resynced:
      return into.resynced(e.at, e.process, e.id);
    case MirrorEvent::Kind::read:
      return into.read(e.at, e.process, e.id, e.age, e.digest);
    case MirrorEvent::Kind::session_read:
      return into.session_read(e.at, e.process, e.id, e.age);
    case MirrorEvent::Kind::history_rewritten:
      return into.history_rewritten(e.at, e.process, e.id);
    case MirrorEvent::Kind::logged:
      return into.logged(e.at, e.id, e.digest);
    case MirrorEvent::Kind::contents:
      return into.contents(e.at, e.process, e.digest);
    case MirrorEvent::Kind::server_contents:
      return into.server_contents(e.at, e.digest);
    case MirrorEvent::Kind::data_lost:
      return into.data_lost(e.at);
  }
}

}  // namespace

Journal::Journal(const std::filesystem::path& file)
    : file_(open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  ensure(file_ >= 0, "a journal can be written");
}

Journal::~Journal() { close(file_); }

void Journal::write() {
  std::string lines;
  for (; lease_written_ < lease_.events().size(); ++lease_written_)
    lines += line_of(lease_.events()[lease_written_]);
  for (; mirror_written_ < mirror_.events().size(); ++mirror_written_)
    lines += line_of(mirror_.events()[mirror_written_]);
  for (; catalog_written_ < catalog_.events().size(); ++catalog_written_)
    lines += line_of(catalog_.events()[catalog_written_]);
  for (; once_written_ < once_.events().size(); ++once_written_)
    lines += line_of(once_.events()[once_written_]);
  ensure(::write(file_, lines.data(), lines.size()) == static_cast<ssize_t>(lines.size()),
         "a journal can be written");
}

Result<LeaseHistory> load_lease_history(const std::filesystem::path& file) {
  LeaseHistory history;
  auto take = [&](const LeaseEvent& event) -> Result<> {
    auto known = history.attempts() + (event.kind == Kind::begun ? 1 : 0);
    if (event.kind < Kind::killed && event.attempt >= known)
      return fail(Errc::invalid, "{}: an attempt never began", file.string());
    replay(event, history);
    return ok;
  };
  auto read = read_events<LeaseEvent>(file, take);
  if (!read) return std::unexpected(read.error());
  return history;
}

Result<MirrorHistory> load_mirror_history(const std::filesystem::path& file) {
  MirrorHistory history;
  auto take = [&](const MirrorEvent& event) -> Result<> {
    replay(event, history);
    return ok;
  };
  auto read = read_events<MirrorEvent>(file, take);
  if (!read) return std::unexpected(read.error());
  return history;
}

Result<CatalogHistory> load_catalog_history(const std::filesystem::path& file) {
  CatalogHistory history;
  auto take = [&](const CatalogEvent& event) -> Result<> {
    history.note(event);
    return ok;
  };
  auto read = read_events<CatalogEvent>(file, take);
  if (!read) return std::unexpected(read.error());
  return history;
}

Result<OnceHistory> load_once_history(const std::filesystem::path& file) {
  OnceHistory history;
  auto take = [&](const OnceEvent& event) -> Result<> {
    history.note(event);
    return ok;
  };
  auto read = read_events<OnceEvent>(file, take);
  if (!read) return std::unexpected(read.error());
  return history;
}

}  // namespace warren::torture
