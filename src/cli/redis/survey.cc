#include "cli/redis/survey.h"

#include <algorithm>
#include <charconv>

namespace warren::cli {

namespace {

constexpr const char* examined_config[] = {"appendonly", "save", "min-replicas-to-write"};
constexpr int clock_samples = 5;

long long number_in(std::string_view text) {
  long long number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::map<std::string, std::string> parse_info(std::string_view text) {
  std::map<std::string, std::string> fields;
  while (!text.empty()) {
    auto line = text.substr(0, text.find("\r\n"));
    text.remove_prefix(std::min(text.size(), line.size() + 2));
    auto colon = line.find(':');
    if (colon != line.npos) fields.emplace(line.substr(0, colon), line.substr(colon + 1));
  }
  return fields;
}

// "offset" of "ip=127.0.0.1,port=6380,state=online,offset=84,lag=1"
long long member(std::string_view replica, std::string_view name) {
  while (!replica.empty()) {
    auto part = replica.substr(0, replica.find(','));
    replica.remove_prefix(std::min(replica.size(), part.size() + 1));
    if (part.starts_with(name) && part.substr(name.size()).starts_with('='))
      return number_in(part.substr(name.size() + 1));
  }
  return 0;
}

template <class Value>
long long most_of_replicas(const Server& server, Value value) {
  long long most = 0;
  for (auto& [field, text] : server.info)
    if (field.starts_with("slave") && text.contains("state=")) most = std::max(most, value(text));
  return most;
}

// The server reads its clock once, some time between our question and its answer. The quickest
// round trip gives the best estimate.
Async<> compare_clocks(redis::Conversation& conversation, Server& server,
                       Clock::time_point deadline) {
  server.ahead_error = Clock::duration::max();
  for (int i = 0; i < clock_samples; ++i) {
    auto asked = Clock::now();
    auto our_time = WallClock::now();
    auto time = co_await conversation.ask(redis::Command("TIME"), deadline);
    auto half = (Clock::now() - asked) / 2;
    if (!time) co_return std::unexpected(time.error());
    if (half >= server.ahead_error || time->items.size() != 2) continue;
    auto theirs = std::chrono::seconds(number_in(time->items[0].text)) +
                  std::chrono::microseconds(number_in(time->items[1].text));
    server.ahead = theirs - (our_time.time_since_epoch() + half);
    server.ahead_error = half;
  }
  co_return ok;
}

}  // namespace

const char* name_of(redis::Mode mode) {
  switch (mode) {
    case redis::Mode::single:
      return "single";
    case redis::Mode::sentinel:
      return "sentinel";
    case redis::Mode::cluster:
      return "cluster";
  }
  std::abort();
}

std::string Server::text(const std::string& field) const {
  auto found = info.find(field);
  return found == info.end() ? "" : found->second;
}

long long Server::number(const std::string& field) const { return number_in(text(field)); }

long long Server::replica_bytes_behind() const {
  auto written = number("master_repl_offset");
  return most_of_replicas(
      *this, [&](std::string_view replica) { return written - member(replica, "offset"); });
}

long long Server::replica_seconds_behind() const {
  return most_of_replicas(*this, [](std::string_view replica) { return member(replica, "lag"); });
}

Async<redis::Topology> find_servers(redis::Client& client, Clock::time_point deadline) {
  if (client.settings().mode != redis::Mode::single) {
    auto options = redis::CallOptions().by(deadline).idempotent().fail_fast().on_any_node();
    auto pong = co_await client.command(redis::Command("PING"), options);
    if (!pong) co_return std::unexpected(pong.error());
  }
  co_return client.topology();
}

Async<std::string> role_of(redis::Conversation& server, const Node& node,
                           Clock::time_point deadline) {
  std::vector<redis::Command> questions;
  questions.emplace_back("ROLE");
  auto answers = co_await server.exchange(std::move(questions), deadline);
  if (!answers) co_return std::unexpected(answers.error());
  auto& role = answers->front().items;  // empty if the server refuses
  bool is_primary = role.empty() ? node.is_primary : role[0].text == "master";
  co_return is_primary ? "primary" : "replica";
}

namespace {

// The policy by which it evicts keys. Returns "" if it evicts none.
Async<std::string> eviction_by(redis::Client& client, Node node, Clock::time_point deadline) {
  auto dialled = co_await client.dial(node.address, deadline);
  if (!dialled) co_return std::unexpected(dialled.error());
  auto info = co_await (*dialled)->ask(redis::Command("INFO", "memory"), deadline);
  if (!info) co_return std::unexpected(info.error());
  Server server;
  server.info = parse_info(info->text);
  auto policy = server.text("maxmemory_policy");
  bool drops = server.number("maxmemory") > 0 && policy != "noeviction";
  co_return drops ? policy : std::string();
}

}  // namespace

awaitable<std::string> eviction_warning(redis::Client& client, Clock::time_point deadline) {
  auto topology = co_await find_servers(client, deadline);
  if (!topology) co_return "";
  auto nodes = topology->nodes;
  auto policies = co_await ask_all(client, nodes, eviction_by, deadline);
  std::vector<std::string> found;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (policies[i] && !policies[i]->empty())
      found.push_back(
          fmt::format("{} (maxmemory-policy {})", to_string(nodes[i].address), *policies[i]));
  if (found.empty()) co_return "";
  co_return fmt::format("Redis drops keys when it is full: {}; {}. Mend it: {}",
                        fmt::join(found, ", "), eviction_harm, eviction_mend);
}

Async<Server> examine(redis::Client& client, Node node, Clock::time_point deadline) {
  auto dialled = co_await client.dial(node.address, deadline);
  if (!dialled) co_return std::unexpected(dialled.error());
  auto& conversation = **dialled;
  Server server;
  server.address = node.address;
  auto role = co_await role_of(conversation, node, deadline);
  if (!role) co_return std::unexpected(role.error());
  server.role = *role;
  auto info = co_await conversation.ask(redis::Command("INFO"), deadline);
  if (!info) co_return std::unexpected(info.error());
  server.info = parse_info(info->text);

  std::vector<redis::Command> questions;
  for (auto* name : examined_config) questions.emplace_back("CONFIG", "GET", name);
  auto answers = co_await conversation.exchange(std::move(questions), deadline);
  if (!answers) co_return std::unexpected(answers.error());
  std::map<std::string, std::string> config;
  for (std::size_t i = 0; i < std::size(examined_config); ++i)
    if (auto* value = (*answers)[i].find(examined_config[i]))
      config[examined_config[i]] = value->text;
  if (config.size() == std::size(examined_config)) server.config = std::move(config);
  auto compared = co_await compare_clocks(conversation, server, deadline);
  if (!compared) co_return std::unexpected(compared.error());
  co_return server;
}

}  // namespace warren::cli
