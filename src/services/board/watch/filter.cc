#include "services/board/watch/filter.h"

#include <algorithm>

#include "services/board/store/causes.h"
#include "services/board/watch/text.h"
#include "services/board/watch/time_spec.h"

namespace warren::watch {

using board::UnixTime;

bool Filter::fits_time(UnixTime at) const {
  if (at == UnixTime{}) return true;
  return (!since || *since <= at) && (!until || at <= *until);
}

bool Filter::fits(const Happening& happening, std::string_view type_of_artefact) const {
  if (!fits_time(happening.at)) return false;
  if (type.empty() && agent.empty()) return true;
  auto subject = subject_of(happening);
  std::string_view its_type = subject.type.empty() ? type_of_artefact : subject.type;
  if (!type.empty() && !matches(type, its_type)) return false;
  return agent.empty() || std::ranges::find(subject.agents, agent) != subject.agents.end();
}

bool Filter::fits(const board::Artefact& artefact) const {
  return fits_time(artefact.created_at) && (type.empty() || matches(type, artefact.type)) &&
         (agent.empty() || artefact.produced_by_role == agent);
}

Result<Filter> parse_filter(std::string_view since, std::string_view until, std::string type,
                            std::string agent, UnixTime now) {
  Filter filter{.type = std::move(type), .agent = std::move(agent)};
  for (auto [flag, text, into] :
       {std::tuple{"--since", since, &filter.since}, std::tuple{"--until", until, &filter.until}}) {
    if (text.empty()) continue;
    auto time = parse_time_spec(text, now);
    if (!time)
      return fail(Errc::invalid, board::causes::bad_times, flag, "{}: {}", flag, time.error().what);
    *into = *time;
  }
  if (filter.since && filter.until && *filter.since >= *filter.until)
    return fail(Errc::invalid, board::causes::bad_times, "--until",
                "--since {} is not before --until {}", rfc3339(*filter.since),
                rfc3339(*filter.until));
  return filter;
}

}  // namespace warren::watch
