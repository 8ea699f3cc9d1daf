#include "cli/instance/which.h"

#include <signal.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>

#include "cli/instance/servers.h"
#include "cli/say.h"

namespace warren::cli {

namespace {

constexpr auto connect_within = 5s, private_redis_within = 20s;

std::string names_of(const std::vector<const ListedInstance*>& instances) {
  std::vector<std::string> names;
  for (const auto* instance : instances) names.push_back(instance->name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<const ListedInstance*> of_folder(const std::vector<ListedInstance>& instances,
                                             const std::filesystem::path& folder, bool is_alive) {
  std::vector<const ListedInstance*> found;
  for (const auto& instance : instances)
    if (instance.entry.workspace_path == folder &&
        (instance.state != InstanceState::stale) == is_alive)
      found.push_back(&instance);
  return found;
}

Error none_here(const std::vector<ListedInstance>& instances, const Which& which,
                const std::string& here) {
  std::vector<const ListedInstance*> others;
  for (const auto& instance : instances)
    if (instance.state != InstanceState::stale && others.size() < 5) others.push_back(&instance);
  auto way_out = others.empty()
                     ? fmt::format("start one with '{} up', or name one with --name", which.program)
                     : fmt::format("name one with --name (running: {}), or start one with '{} up'",
                                   names_of(others), which.program);
  return {Errc::not_found, fmt::format("no instance of {} is running: {}", here, way_out)};
}

Result<ListedInstance> named(const std::vector<ListedInstance>& instances, const Which& which,
                             Need need) {
  auto found = std::ranges::find(instances, which.name, &ListedInstance::name);
  bool is_alive = found != instances.end() && found->state != InstanceState::stale;
  if (need == Need::running && !is_alive)
    return fail(Errc::not_found, "instance '{0}' is not running: start it with '{1} up --name {0}'",
                which.name, which.program);
  if (found != instances.end()) return *found;
  return ListedInstance{which.name, InstanceState::stale, {}};
}

// While none of our orchestrators holds the board, another program may write to it without updating
// our indexes. So they are rebuilt before they are read.
awaitable<void> make_true(const Board& board) {
  redis::Command held("EXISTS", board.keys().orchestrator());
  auto is_kept = co_await board.client().ask(std::move(held));
  if (is_kept && is_kept->number == 1) co_return;
  auto indexed = co_await board.reindex();
  if (indexed) co_return;
  say("note: what other programs wrote to this board may be missing: {}\n",
      printable(indexed.error().what));
}

// An unlisted instance is recognised by what is on its board.
Async<> check_exists(const Chosen& chosen, bool is_listed) {
  if (is_listed) co_return ok;
  const auto& keys = chosen.board.keys();
  redis::Command exists("EXISTS", keys.artefacts(), keys.artefact_ids(), keys.claim_ids(),
                        keys.types());
  auto found = co_await chosen.board.client().ask(std::move(exists));
  if (!found) co_return std::unexpected(found.error());
  if (found->number > 0) co_return ok;
  co_return fail(Errc::not_found, "there is no instance '{}', and nothing on a board of that name",
                 chosen.instance.name);
}

Async<Exit> on_board(redis::Client& client, Which which, Need need,
                     const std::function<Async<Exit>(Chosen&)>& body) {
  Registry registry(client, which.prefix);
  Result<std::vector<ListedInstance>> instances;
  if (need == Need::data)
    instances = co_await registry.boards();
  else
    instances = co_await registry.list();
  if (!instances) co_return std::unexpected(instances.error());
  auto instance = choose_instance(*instances, which, workspace_here(), need);
  bool is_unknown = !instance || instance->entry.run_id.empty();
  if (is_unknown && !which.name.empty()) {
    // Another program may run it: instances of the Go program are not listed.
    auto is_run = co_await is_run_elsewhere(client, which.prefix, which.name);
    if (is_run) instance = ListedInstance{which.name, InstanceState::unlisted, {}};
  }
  if (!instance) co_return std::unexpected(instance.error());
  auto board = Board::open(client, which.prefix, instance->name);
  if (!board) co_return std::unexpected(board.error());
  bool is_listed = !instance->entry.run_id.empty() || instance->state == InstanceState::unlisted;
  Chosen chosen{*std::move(board), *std::move(instance)};
  co_await make_true(chosen.board);
  auto exists = co_await check_exists(chosen, is_listed);
  if (!exists) co_return std::unexpected(exists.error());
  co_return co_await body(chosen);
}

// If the server does not reveal its listeners, the answer is no.
Async<bool> is_heard(redis::Client& client, board::BoardKeys keys) {
  auto artefacts = keys.artefact_events(), workflow = keys.workflow_events();
  std::vector<std::string> channels{artefacts, workflow};
  auto listening = co_await listeners_of(client, std::move(channels));
  if (!listening && listening.error().code == Errc::denied) co_return false;
  if (!listening) co_return std::unexpected(listening.error());
  co_return (*listening)[artefacts] > (*listening)[workflow];
}

}  // namespace

Async<Signs> signs_of(redis::Client& client, std::string prefix, std::string name) {
  Registry registry(client, prefix);
  auto board = Board::open(client, prefix, name);
  if (!board) co_return std::unexpected(board.error());
  std::vector<redis::Command> questions;
  questions.emplace_back("EXISTS", registry.keys().lock(name));
  questions.emplace_back("EXISTS", board->keys().orchestrator());
  auto options = redis::CallOptions().idempotent();
  auto answers = co_await client.batch(std::move(questions), options);
  for (auto& answer : answers)
    if (!answer) co_return std::unexpected(answer.error());
  Signs signs{answers[0]->number == 1, answers[1]->number == 1};
  if (signs.of_life()) co_return signs;
  auto heard = co_await is_heard(client, board->keys());
  if (!heard) co_return std::unexpected(heard.error());
  signs.is_heard = *heard;
  co_return signs;
}

awaitable<bool> is_run_elsewhere(redis::Client& client, std::string prefix, std::string name) {
  auto signs = co_await signs_of(client, std::move(prefix), std::move(name));
  co_return signs && signs->of_life();
}

WhichOptions add_which(CLI::App& app) {
  auto path = path_of(app);
  return {add_prefix(app), add_name(app, "which instance; by default that of this folder"),
          path.substr(0, path.find(' '))};
}

Which which_of(const WhichOptions& options) {
  return {value_of(*options.prefix), value_of(*options.name), options.program};
}

Result<ListedInstance> choose_instance(const std::vector<ListedInstance>& instances,
                                       const Which& which, const std::string& here, Need need) {
  if (!which.name.empty()) return named(instances, which, need);
  for (std::filesystem::path folder = here;; folder = folder.parent_path()) {
    auto found = of_folder(instances, folder, true);
    if (found.empty() && need == Need::data) found = of_folder(instances, folder, false);
    if (found.size() == 1) return *found[0];
    if (found.size() > 1)
      return fail(
          Errc::invalid, "several {} {}: say which with --name ({})",
          found[0]->state == InstanceState::stale ? "boards were left of" : "instances have",
          folder.string(), names_of(found));
    if (folder == folder.parent_path()) break;
  }
  return std::unexpected(none_here(instances, which, here));
}

Result<Exit> with_registry(const Context& context, const std::string& program,
                           const std::function<Async<Exit>(redis::Client&)>& body) {
  auto redis = find_instance_redis(context);
  if (!redis) return std::unexpected(redis.error());
  if (!redis->is_there && redis->embedded.has_data()) {
    // For the duration of the command.
    auto started = redis->embedded.start(Clock::now() + private_redis_within);
    if (!started) return std::unexpected(started.error());
    auto done = with_instance_redis(*redis, connect_within, body);
    redis->use = EmbeddedRedis::Use(-1);
    auto stopped = redis->embedded.stop_if_unused(Clock::now());
    if (!stopped) return std::unexpected(stopped.error());
    return done;
  }
  if (!redis->is_there)
    return fail(Errc::not_found,
                "the private Redis is not running, and so no instance is: '{0} up' starts both, "
                "'{0} redis start' only the Redis, for a look at what is there",
                program);
  return with_instance_redis(*redis, connect_within, body);
}

Result<Exit> with_board(const Context& context, const Which& which, Need need,
                        const std::function<Async<Exit>(Chosen&)>& body) {
  return with_registry(context, which.program,
                       [&](redis::Client& client) { return on_board(client, which, need, body); });
}

awaitable<void> interrupted() {
  asio::signal_set signals(co_await asio::this_coro::executor, SIGTERM, SIGINT);
  co_await interrupted(signals);
}

awaitable<void> interrupted(asio::signal_set& signals) {
  boost::system::error_code ignored;
  co_await signals.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

}  // namespace warren::cli
