#include "cli/instance/overview.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/write.hpp>
#include <boost/json.hpp>
#include <charconv>
#include <span>

#include "base/age.h"
#include "cli/instance/process.h"
#include "cli/instance/servers.h"
#include "services/board/store/board.h"

namespace warren::cli {

namespace json = boost::json;
using asio::ip::tcp;

namespace {

constexpr auto answer_within = 1s;
constexpr auto process_gone = "process gone";

struct PageAddress {
  tcp::endpoint endpoint;
  std::string host;  // with the port, as in the Host header
};

// http://127.0.0.1:41234/
std::optional<PageAddress> address_of(std::string_view url) {
  constexpr std::string_view scheme = "http://";
  if (!url.starts_with(scheme)) return {};
  url.remove_prefix(scheme.size());
  auto host = url.substr(0, url.find('/'));
  auto colon = host.rfind(':');
  if (colon == host.npos) return {};
  unsigned short port = 0;
  auto digits = host.substr(colon + 1);
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  boost::system::error_code wrong;
  auto address = asio::ip::make_address(std::string(host.substr(0, colon)), wrong);
  if (wrong || error != std::errc() || end != digits.data() + digits.size()) return {};
  return PageAddress{{address, port}, std::string(host)};
}

// The status code that a page returns.
Async<int> status_of(PageAddress page, std::string path) {
  tcp::socket socket(co_await asio::this_coro::executor);
  boost::system::error_code error;
  auto into = asio::redirect_error(asio::use_awaitable, error);
  co_await socket.async_connect(page.endpoint, into);
  if (error) co_return fail(Errc::unavailable, "{}: {}", page.host, error.message());
  auto request =
      fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", path, page.host);
  co_await asio::async_write(socket, asio::buffer(request), into);
  if (error) co_return fail(Errc::unavailable, "{}: {}", page.host, error.message());
  std::string head(12, '\0');  // HTTP/1.1 200
  auto got = co_await asio::async_read(socket, asio::buffer(head), into);
  if (got != head.size() || !head.starts_with("HTTP/1."))
    co_return fail(Errc::protocol, "{} is no page", page.host);
  co_return std::atoi(head.c_str() + 9);
}

awaitable<void> ask_health(Overview& into) {
  const auto& entry = into.instance.entry;
  if (into.instance.state == InstanceState::stale) co_return;
  if (process_of(entry) == ProcessState::gone) {
    into.health = process_gone;
    co_return;
  }
  if (entry.url.empty()) co_return;
  if (entry.host != host_name()) {
    into.health = "on " + printable(entry.host);
    co_return;
  }
  auto page = address_of(entry.url);
  into.health = "no answer";
  if (!page) co_return;
  auto status =
      co_await with_deadline(Clock::now() + answer_within, status_of(*std::move(page), "/readyz"));
  if (status) into.health = *status == 200 ? "ok" : "not ready";
}

board::Layout layout_of(const redis::Client& client) {
  return client.settings().mode == redis::Mode::cluster ? board::Layout::cluster
                                                        : board::Layout::plain;
}

// The questions about each board, in this order.
void ask_for_counts(const board::BoardKeys& keys, std::vector<redis::Command>& questions) {
  questions.emplace_back("ZCARD", keys.artefacts());
  questions.emplace_back("HLEN", keys.agent_images());
  questions.emplace_back("GET", keys.paused());
  questions.emplace_back("ZCARD", keys.unclaimed());
  for (auto status : board::claim_statuses)
    if (board::is_open(status)) questions.emplace_back("ZCARD", keys.claims(status));
}

using Answers = std::span<const Result<redis::Reply>>;
void note_counts(Answers answers, Overview& into) {
  const auto &artefacts = answers[0], &roles = answers[1], &pause = answers[2],
             &unclaimed = answers[3];
  if (artefacts) into.artefacts = static_cast<std::size_t>(artefacts->number);
  // For a stopped instance, these are from its last run.
  bool is_down = into.instance.state == InstanceState::stale;
  if (roles && roles->number > 0 && !is_down) into.roles = static_cast<std::size_t>(roles->number);
  if (pause && !pause->is_null()) into.pause = orchestrator::parse_pause(pause->text);
  if (unclaimed) into.unclaimed = static_cast<std::size_t>(unclaimed->number);
  for (const auto& open : answers.subspan(4))
    if (open) into.open = into.open.value_or(0) + static_cast<std::size_t>(open->number);
}

Async<> count(redis::Client& client, const std::string& prefix, std::vector<Overview>& all) {
  std::vector<redis::Command> questions;
  for (const auto& each : all) {
    auto keys = board::BoardKeys::create(prefix, each.instance.name, layout_of(client));
    if (!keys) co_return std::unexpected(keys.error());
    ask_for_counts(*keys, questions);
  }
  auto options = redis::CallOptions().idempotent();
  auto answers = co_await client.batch(std::move(questions), options);
  auto of_each = answers.size() / all.size();
  for (std::size_t i = 0; i < all.size(); ++i)
    note_counts(Answers(answers).subspan(i * of_each, of_each), all[i]);
  co_return ok;
}

// A live agent listens on the channel of its role. If the server does not reveal its listeners, the
// number of agents is unknown.
awaitable<void> count_agents(redis::Client& client, const std::string& prefix,
                             std::vector<Overview>& all) {
  auto heard = co_await listeners(client, prefix + ":*:agent:*:events");
  if (!heard) co_return;
  for (auto& each : all) {
    auto keys = board::BoardKeys::create(prefix, each.instance.name, layout_of(client));
    if (!keys || each.instance.state == InstanceState::stale) continue;
    each.agents = 0;
    for (const auto& [channel, count] : *heard)
      if (channel.starts_with(keys->root() + "agent:")) *each.agents += count;
  }
}

awaitable<void> count_untaken(redis::Client& client, const std::string& prefix, Overview& into) {
  auto board = Board::open(client, prefix, into.instance.name);
  if (!board) co_return;
  auto counted = co_await orchestrator::count_untaken(*board);
  if (counted) into.untaken = *counted;
}

}  // namespace

Async<std::vector<Overview>> overview_of(redis::Client& client, std::string prefix,
                                         std::vector<ListedInstance> instances) {
  std::vector<Overview> all;
  for (auto& instance : instances) all.push_back({std::move(instance)});
  if (all.empty()) co_return all;
  TaskGroup asking(co_await asio::this_coro::executor);
  for (auto& each : all) asking.start("cli.health", ask_health(each));
  asking.start("cli.agents", count_agents(client, prefix, all));
  auto counted = co_await count(client, prefix, all);
  for (auto& each : all)
    if (each.open.value_or(0) > 0) asking.start("cli.untaken", count_untaken(client, prefix, each));
  co_await asking.join();
  if (!counted) co_return std::unexpected(counted.error());
  co_return all;
}

json::object to_object(const Overview& overview) {
  const auto& instance = overview.instance;
  auto object = instance.entry.run_id.empty() ? json::object{}
                                              : json::parse(to_json(instance.entry)).as_object();
  object["name"] = instance.name;
  object["state"] = std::string(name(instance.state));
  auto age = std::chrono::duration_cast<std::chrono::seconds>(age_of(instance.entry.started_at));
  if (!instance.entry.run_id.empty()) object["age_s"] = age.count();
  auto or_null = [](const auto& count) {
    return count ? json::value(std::uint64_t(*count)) : json::value(nullptr);
  };
  object["artefacts"] = or_null(overview.artefacts);
  object["agents"] = or_null(overview.agents);
  object["roles"] = or_null(overview.roles);
  object["open_claims"] = or_null(overview.open);
  object["untaken_claims"] = or_null(overview.untaken);
  object["unclaimed_artefacts"] = or_null(overview.unclaimed);
  object["health"] = overview.health;
  object["paused"] = overview.pause ? json::value(overview.pause->reason) : json::value(nullptr);
  return object;
}

std::string shown_agents(const Overview& overview) {
  if (!overview.agents || (*overview.agents == 0 && !overview.roles)) return "-";
  auto agents = *overview.agents, roles = overview.roles.value_or(0);
  return agents < roles ? fmt::format("{} of {}", agents, roles) : std::to_string(agents);
}

std::string shown_health(const std::string& health, const Paint& paint) {
  if (health == "ok") return paint.green(health);
  bool is_bad = health == "no answer" || health == "not ready" || health == process_gone;
  return is_bad ? paint.red(health) : health;
}

}  // namespace warren::cli
