#include "cli/instance/daemon.h"

#include <fmt/format.h>

#include "base/age.h"
#include "cli/instance/instances.h"

namespace warren::cli {

namespace {

std::string escaped(std::string_view text) {
  std::string result;
  for (char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else
      result += c;
  }
  return result;
}

std::string row(const std::string& what, const std::string& value) {
  return fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", escaped(what), escaped(value));
}

// As grants report it. The Go program's orchestrator reports the images it finds in the same hash.
std::string image_of(const crew::Role& role) {
  return role.image.empty() ? std::string(board::no_image) : role.image;
}

// Runs the agents for as long as the orchestrator runs.
Async<> run_with_agents(TaskGroup& tasks, Orchestrator& orchestrator, std::deque<Agent>& agents) {
  for (auto& agent : agents) tasks.start("agent", agent.run());
  auto ended = co_await orchestrator.run();
  co_return ended;
}

}  // namespace

OrchestratorTerms orchestrator_terms(const Crew& crew) {
  const auto& wanted = crew.orchestrator;
  OrchestratorTerms terms;
  for (const auto& role : crew.roles) {
    auto& own = terms.roles[role.name];
    own.max_concurrent = role.is_controller ? role.max_concurrent : 0;
    own.works_on_own_output = std::ranges::count(role.bids_on.roles, role.name) > 0;
    own.image_id = image_of(role);
  }
  terms.max_review_iterations = wanted.max_review_iterations;
  terms.bid_time = wanted.bid_timeout;
  terms.missing_bids =
      wanted.missing_bids == crew::MissingBids::wait ? MissingBids::wait : MissingBids::ignore;
  terms.limits = {wanted.limits.depth, wanted.limits.artefacts, wanted.limits.time};
  return terms;
}

Daemon::Daemon(std::string prefix, Instance instance, Board board, std::optional<Crew> crew)
    : prefix_(std::move(prefix)),
      instance_(std::move(instance)),
      board_(std::move(board)),
      crew_(std::move(crew)),
      staffed_(board_.client().executor()) {}

Async<> Daemon::work(LeaseSession& session, bool with_agents) {
  if (!crew_) {
    Event never(co_await asio::this_coro::executor);
    co_await never.wait();
    co_return fail(Errc::cancelled, "nobody works here");
  }
  // A dead predecessor may still hold it until its session expires.
  LeaseTerms terms{board_.keys().orchestrator(), instance_.entry().run_id};
  auto lease = co_await session.acquire(std::move(terms), Clock::now() + 1min);
  if (!lease) co_return std::unexpected(lease.error());
  published_.push_back(session.publish(metrics_));
  auto told = co_await tell_agents();
  if (!told) co_return std::unexpected(told.error());
  auto worked = co_await work_under(*lease, with_agents);
  co_return worked;
}

Async<> Daemon::work_under(Lease& lease, bool with_agents) {
  auto fence = [&lease] { return board::Fence{lease.fence(), lease.token()}; };
  orchestrator_.emplace(board_, fence, orchestrator_terms(*crew_));
  published_.push_back(orchestrator_->publish(metrics_));
  for (const auto& role : crew_->roles)
    if (with_agents)
      agents_.emplace_back(board_, AgentTerms{role, instance_.entry().workspace_path});
  staffed_.notify();
  auto worked = co_await with_group(run_with_agents, *orchestrator_, agents_);
  co_return worked;
}

// Publishes which agents work here, and their images, for listings of instances.
Async<> Daemon::tell_agents() {
  auto key = board_.keys().agent_images();
  std::vector<redis::Command> commands;
  commands.emplace_back("DEL", key);
  for (const auto& role : crew_->roles)
    commands.emplace_back("HSET", key, role.name, image_of(role));
  auto told = co_await board_.client().transaction(std::move(commands));
  if (!told) co_return std::unexpected(told.error());
  co_return ok;
}

bool Daemon::is_ready() const {
  if (!crew_) return true;
  return orchestrator_ && orchestrator_->is_ready() &&
         std::ranges::all_of(agents_, [](const Agent& agent) { return agent.is_ready(); });
}

awaitable<void> Daemon::ready() {
  while (crew_ && !orchestrator_) co_await staffed_.wait();
  if (orchestrator_) co_await orchestrator_->ready();
  for (auto& agent : agents_) co_await agent.ready();
}

std::string Daemon::page() const {
  const auto& entry = instance_.entry();
  auto age = std::chrono::duration_cast<std::chrono::seconds>(age_of(entry.started_at));
  auto rows = row("workspace", entry.workspace_path) + row("run", entry.run_id) +
              row("started", age_text(age) + " ago") +
              row("process", fmt::format("{} on {}", entry.orchestrator_pid, entry.host));
  if (orchestrator_) {
    auto stats = orchestrator_->stats();
    rows += row("work", stats.is_paused ? "paused" : "goes on");
    rows += row("claims",
                fmt::format("{} open, {} complete and {} terminated since the start",
                            stats.open_claims, stats.claims_completed, stats.claims_terminated));
  } else {
    rows += row("work", "nobody works here: there is no " + prefix_ + ".yml");
  }
  for (std::size_t i = 0; i < agents_.size(); ++i) {
    auto stats = agents_[i].stats();
    rows += row(crew_->roles[i].name,
                fmt::format("{} running, {} waiting, {} results, {} failures", stats.running,
                            stats.queued, stats.results, stats.failures));
  }
  return fmt::format(R"(<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{0} - {1}</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;margin:3rem auto;max-width:46rem;padding:0 1rem}}
th{{text-align:left;padding-right:2rem;font-weight:600}}td{{font-family:monospace}}</style>
<h1>{0}</h1><p>An instance of {1}, running.</p>
<table>
{2}</table>
</html>
)",
                     escaped(instance_.name()), escaped(capitalised(prefix_)), rows);
}

HttpAnswer Daemon::answer(const HttpRequest& request) const {
  // We are only known to hold the name while Redis answers.
  bool hears_redis = instance_.lease().is_held();
  if (request.path == "/") return {.type = "text/html; charset=utf-8", .body = page()};
  if (request.path == "/healthz")
    return hears_redis ? HttpAnswer{.type = "application/json",
                                    .body = R"({"status":"healthy","redis":"connected"})"
                                            "\n"}
                       : HttpAnswer{.status = 503,
                                    .type = "application/json",
                                    .body = R"({"status":"unhealthy","redis":"disconnected",)"
                                            R"("error":"the lock is not being renewed"})"
                                            "\n"};
  if (request.path == "/readyz") {
    if (!hears_redis) return {.status = 503, .body = "the name is not certain to be ours\n"};
    if (!board_.client().has_primary())
      return {.status = 503, .body = "Redis is a replica now, and takes no writes\n"};
    return is_ready() ? HttpAnswer{.body = "ok\n"}
                      : HttpAnswer{.status = 503, .body = "not all that is there was looked at\n"};
  }
  if (request.path == "/metrics")
    return {.type = "text/plain; version=0.0.4", .body = metrics_.exposition()};
  return {.status = 404, .body = "there is /, /healthz, /readyz and /metrics\n"};
}

}  // namespace warren::cli
