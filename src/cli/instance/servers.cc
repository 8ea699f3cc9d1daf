#include "cli/instance/servers.h"

#include <algorithm>
#include <set>

namespace warren::cli {

namespace {

constexpr auto server_answers_within = 5s;
constexpr auto locks_within = 1s;
constexpr int scanned_at_once = 1000;

std::vector<redis::Address> primaries(const redis::Client& client) {
  std::vector<redis::Address> found;
  for (const auto& node : client.topology().nodes)
    if (node.is_primary) found.push_back(node.address);
  return found;
}

bool has_many_servers(const redis::Client& client) {
  return client.settings().mode == redis::Mode::cluster;
}

// One server, and the connection to it.
class OneServer {
 public:
  OneServer(redis::Client& client, std::unique_ptr<redis::Conversation> conversation)
      : client_(&client), conversation_(std::move(conversation)) {}

  Async<redis::Reply> ask(std::vector<std::string> words) {
    redis::Command command(words);
    if (conversation_) {
      auto answer =
          co_await conversation_->ask(std::move(command), Clock::now() + server_answers_within);
      co_return answer;
    }
    auto options = redis::CallOptions().idempotent().within(server_answers_within).on_any_node();
    auto answer = co_await client_->ask(std::move(command), options);
    co_return answer;
  }

 private:
  redis::Client* client_;
  std::unique_ptr<redis::Conversation> conversation_;
};

Async<std::vector<OneServer>> every_server(redis::Client& client) {
  std::vector<OneServer> servers;
  if (!has_many_servers(client)) {
    servers.emplace_back(client, nullptr);
    co_return servers;
  }
  auto ready = co_await client.ready(Clock::now() + server_answers_within);
  if (!ready) co_return std::unexpected(ready.error());
  for (auto& address : primaries(client)) {
    auto dialled = co_await client.dial(std::move(address), Clock::now() + server_answers_within);
    if (!dialled) co_return std::unexpected(dialled.error());
    servers.emplace_back(client, *std::move(dialled));
  }
  co_return servers;
}

Async<> scan_server(OneServer& server, const std::string& pattern, Clock::time_point deadline,
                    const std::function<void(const std::string& key)>& visit) {
  std::string cursor = "0";
  do {
    if (Clock::now() > deadline) co_return fail(Errc::timeout, "there are very many keys");
    std::vector<std::string> words{"SCAN",  cursor,  "MATCH",
                                   pattern, "COUNT", std::to_string(scanned_at_once)};
    auto page = co_await server.ask(std::move(words));
    if (!page) co_return std::unexpected(page.error());
    if (page->items.size() != 2) co_return fail(Errc::protocol, "SCAN: {}", to_string(*page));
    cursor = page->items[0].text;
    for (const auto& key : page->items[1].items) visit(key.text);
  } while (cursor != "0");
  co_return ok;
}

}  // namespace

Async<std::vector<redis::Reply>> ask_every_server(redis::Client& client,
                                                  std::vector<std::string> words) {
  auto servers = co_await every_server(client);
  if (!servers) co_return std::unexpected(servers.error());
  std::vector<redis::Reply> answers;
  for (auto& server : *servers) {
    auto answer = co_await server.ask(words);
    if (!answer) co_return std::unexpected(answer.error());
    answers.push_back(*std::move(answer));
  }
  co_return answers;
}

Async<> scan_every_server(redis::Client& client, std::string pattern, Clock::time_point deadline,
                          const std::function<void(const std::string& key)>& visit) {
  auto servers = co_await every_server(client);
  if (!servers) co_return std::unexpected(servers.error());
  for (auto& server : *servers) {
    auto scanned = co_await scan_server(server, pattern, deadline, visit);
    if (!scanned) co_return scanned;
  }
  co_return ok;
}

Async<Listeners> listeners_of(redis::Client& client, std::vector<std::string> channels) {
  Listeners found;
  if (channels.empty()) co_return found;
  std::vector<std::string> words{"PUBSUB", "NUMSUB"};
  std::ranges::move(channels, std::back_inserter(words));
  auto counts = co_await ask_every_server(client, std::move(words));
  if (!counts) co_return std::unexpected(counts.error());
  for (const auto& answer : *counts)
    for (std::size_t i = 0; i + 1 < answer.items.size(); i += 2)
      found[answer.items[i].text] += static_cast<std::size_t>(answer.items[i + 1].number);
  co_return found;
}

Async<Listeners> listeners(redis::Client& client, std::string pattern) {
  std::vector<std::string> words{"PUBSUB", "CHANNELS", std::move(pattern)};
  auto answers = co_await ask_every_server(client, std::move(words));
  if (!answers) co_return std::unexpected(answers.error());
  std::set<std::string> channels;
  for (const auto& answer : *answers)
    for (const auto& channel : answer.items) channels.insert(channel.text);
  std::vector<std::string> names(channels.begin(), channels.end());
  co_return co_await listeners_of(client, std::move(names));
}

awaitable<std::vector<ListedInstance>> unlisted_instances(
    redis::Client& client, Registry& registry, const std::vector<ListedInstance>& listed) {
  auto begin = registry.keys().start();
  std::set<std::string> names;
  auto note = [&](const std::string& key) {
    constexpr std::string_view end = ":lock";
    if (!key.starts_with(begin) || !key.ends_with(end) || key.size() < begin.size() + end.size())
      return;
    auto name = key.substr(begin.size(), key.size() - begin.size() - end.size());
    // Ignore the queue of a role that is named "lock".
    if (check_instance_name(name)) names.insert(std::move(name));
  };
  (void)co_await scan_every_server(client, begin + "*:lock", Clock::now() + locks_within, note);
  for (const auto& instance : listed) names.erase(instance.name);
  std::vector<ListedInstance> found;
  for (const auto& name : names) {
    auto instance = co_await registry.unlisted(name);
    if (instance) found.push_back(*std::move(instance));
  }
  co_return found;
}

}  // namespace warren::cli
