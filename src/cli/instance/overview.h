#pragma once
// What list and status tell about instances: from the list, from their boards, and from asking
// them.
#include <boost/json/object.hpp>
#include <optional>

#include "cli/instance/instances.h"
#include "services/board/orchestrator/control.h"
#include "services/board/store/types.h"

namespace warren::cli {

struct Overview {
  ListedInstance instance;
  // As far as that is known. Agents are those that listen now, roles those that it was started with;
  // of the open claims, those untaken wait for somebody who wants them; unclaimed artefacts wait for
  // an orchestrator.
  std::optional<std::size_t> artefacts = {}, agents = {}, roles = {}, open = {}, untaken = {},
                             unclaimed = {};
  // "ok", "not ready", "no answer", "process gone"; "-" for one that has no page; "on HOST" for one
  // that is not here.
  std::string health = "-";
  std::optional<orchestrator::Pause> pause = {};  // it begins no further work
};

// All at the same time. Whoever does not answer costs a second, however many they are.
Async<std::vector<Overview>> overview_of(redis::Client& client, std::string prefix,
                                         std::vector<ListedInstance> instances);
boost::json::object to_object(const Overview& overview);
// "3", or "1 of 3" while some of those that it was started with do not live; "-": none.
std::string shown_agents(const Overview& overview);
std::string shown_health(const std::string& health, const Paint& paint);

}  // namespace warren::cli
