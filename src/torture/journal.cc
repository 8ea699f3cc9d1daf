#include "torture/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace warren::torture {

namespace {

using history::LeaseEvent;
using history::LeaseHistory;
using Kind = LeaseEvent::Kind;

std::string line_of(const LeaseEvent& event) {
  auto ns = [](Clock::time_point time) { return time.time_since_epoch().count(); };
  return fmt::format("{} {} {} {} {} {} {} {} {} .\n", static_cast<int>(event.kind), ns(event.at),
                     ns(event.since), ns(event.deadline), event.token.epoch, event.token.counter,
                     event.attempt, event.lock, event.process);
}

// False: the line is not whole.
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

}  // namespace

Journal::Journal(const std::filesystem::path& file)
    : file_(open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  ensure(file_ >= 0, "a journal can be written");
}

Journal::~Journal() { close(file_); }

void Journal::write() {
  std::string lines;
  for (; written_ < lease_.events().size(); ++written_) lines += line_of(lease_.events()[written_]);
  ensure(::write(file_, lines.data(), lines.size()) == static_cast<ssize_t>(lines.size()),
         "a journal can be written");
}

Result<LeaseHistory> load_lease_history(const std::filesystem::path& file) {
  LeaseHistory history;
  std::ifstream in(file);
  std::string line;
  while (std::getline(in, line)) {
    LeaseEvent event;
    if (!parse(line, event)) {
      if (in.peek() == EOF) break;  // killed while it wrote
      return fail(Errc::invalid, "{} has a line that is no event: {}", file.string(), line);
    }
    bool is_known = event.kind >= Kind::killed ||
                    event.attempt < history.attempts() + (event.kind == Kind::begun ? 1 : 0);
    if (!is_known) return fail(Errc::invalid, "{}: an attempt never began", file.string());
    replay(event, history);
  }
  return history;
}

}  // namespace warren::torture
