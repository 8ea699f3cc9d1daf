#pragma once
// What list and status report about instances: from the registry, from their boards, and by asking
// them.
#include <boost/json/object.hpp>
#include <optional>

#include "cli/instance/instances.h"
#include "services/board/orchestrator/control.h"
#include "services/board/store/types.h"

namespace warren::cli {

struct Overview {
  ListedInstance instance;
  // As far as known. `agents` are listening now; `roles` is what the instance was started with. Of
  // the open claims, `untaken` ones wait for an agent that wants them. `unclaimed` artefacts wait
  // for an orchestrator.
  std::optional<std::size_t> artefacts = {}, agents = {}, roles = {}, open = {}, untaken = {},
                             unclaimed = {};
  // "ok", "not ready", "no answer", "process gone"; "-" without a page; "on HOST" on another
  // machine.
  std::string health = "-";
  std::optional<orchestrator::Pause> pause = {};  // it starts no new work
};

// Asks all of them at the same time. Those that do not answer cost one second in total.
Async<std::vector<Overview>> overview_of(redis::Client& client, std::string prefix,
                                         std::vector<ListedInstance> instances);
boost::json::object to_object(const Overview& overview);
// "3"; "1 of 3" while some of the agents that it was started with are gone; "-" for none.
std::string shown_agents(const Overview& overview);
std::string shown_health(const std::string& health, const Paint& paint);

}  // namespace warren::cli
