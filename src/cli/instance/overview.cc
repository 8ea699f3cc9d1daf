#include "cli/instance/overview.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/write.hpp>
#include <boost/json.hpp>
#include <charconv>

#include "base/age.h"
#include "cli/instance/process.h"
#include "services/board/store/keys.h"

namespace warren::cli {

namespace json = boost::json;
using asio::ip::tcp;

namespace {

constexpr auto answer_within = 1s;
constexpr auto process_gone = "process gone";

struct PageAddress {
  tcp::endpoint endpoint;
  std::string host;  // with its port, as a request names it
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

// The status that a page answers with.
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

Async<> count(redis::Client& client, const std::string& prefix, std::vector<Overview>& all) {
  auto layout = client.settings().mode == redis::Mode::cluster ? board::Layout::cluster
                                                               : board::Layout::plain;
  std::vector<redis::Command> questions;
  for (const auto& each : all) {
    auto keys = board::BoardKeys::create(prefix, each.instance.name, layout);
    if (!keys) co_return std::unexpected(keys.error());
    questions.emplace_back("ZCARD", keys->artefacts());
    questions.emplace_back("HLEN", keys->agent_images());
    questions.emplace_back("GET", keys->paused());
  }
  auto options = redis::CallOptions().idempotent();
  auto answers = co_await client.batch(std::move(questions), options);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto &artefacts = answers[3 * i], &agents = answers[3 * i + 1];
    const auto& pause = answers[3 * i + 2];
    if (artefacts) all[i].artefacts = static_cast<std::size_t>(artefacts->number);
    // Of one that is down, they are those of its last run.
    bool is_down = all[i].instance.state == InstanceState::stale;
    if (agents && agents->number > 0 && !is_down)
      all[i].agents = static_cast<std::size_t>(agents->number);
    if (pause && !pause->is_null()) all[i].pause = orchestrator::parse_pause(pause->text);
  }
  co_return ok;
}

}  // namespace

Async<std::vector<Overview>> overview_of(redis::Client& client, std::string prefix,
                                         std::vector<ListedInstance> instances) {
  std::vector<Overview> all;
  for (auto& instance : instances) all.push_back({std::move(instance)});
  if (all.empty()) co_return all;
  TaskGroup asking(co_await asio::this_coro::executor);
  for (auto& each : all) asking.start("cli.health", ask_health(each));
  auto counted = co_await count(client, prefix, all);
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
  object["health"] = overview.health;
  object["paused"] = overview.pause ? json::value(overview.pause->reason) : json::value(nullptr);
  return object;
}

std::string shown_health(const std::string& health, const Paint& paint) {
  if (health == "ok") return paint.green(health);
  bool is_bad = health == "no answer" || health == "not ready" || health == process_gone;
  return is_bad ? paint.red(health) : health;
}

}  // namespace warren::cli
