#include "cli/session/session.h"

#include <boost/json.hpp>
#include <fstream>

#include "cli/instance/instances.h"
#include "net/http/client.h"

namespace warren::cli {

namespace {

constexpr auto default_url = "http://127.0.0.1:8008";
constexpr auto ask_time = 120s;

std::string key_of_up(const Context& context) {
  auto folder = session_folder(context);
  if (!folder) return "";
  std::ifstream in(*folder / api_key_file);
  std::string key;
  std::getline(in, key);
  return key;
}

Error told_error(const HttpReply& reply) {
  boost::system::error_code error;
  auto value = boost::json::parse(reply.body, error);
  const auto* object = error ? nullptr : value.if_object();
  const auto* what = object ? object->if_contains("detail") : nullptr;
  auto text = what && what->is_string() ? std::string(what->get_string())
                                        : fmt::format("the service answers {}", reply.status);
  auto code = reply.status == 404   ? Errc::not_found
              : reply.status == 401 ? Errc::denied
              : reply.status == 400 ? Errc::refused
                                    : Errc::unavailable;
  return {code, reply.status == 401 ? "the API key is wrong: set SESSION_SERVICE_API_KEY" : text};
}

}  // namespace

std::vector<Setting> session_settings() {
  return {{"session.api_key", "SESSION_SERVICE_API_KEY", "",
           "of the session service: clients show it in X-API-Key", true},
          {"session.url", "SESSION_SERVICE_URL", default_url, "where the session service is"}};
}

bool is_of_session(const Setting& setting) { return setting.name.starts_with("session."); }

SessionOptions add_session_options(CLI::App& app) {
  return {add_value(app, "--url", "URL", "where the service is [SESSION_SERVICE_URL]", nullptr,
                    default_url)};
}

Result<std::filesystem::path> session_folder(const Context& context) {
  auto folder = state_folder(context);
  if (!folder) return folder;
  return *folder / "sessions";
}

Result<std::string> ask_service(const Context& given, const SessionOptions& options,
                                std::string method, std::string target, std::string body) {
  auto context = given;
  if (is_given(*options.url)) context.sources.flags["session.url"] = value_of(*options.url);
  auto config = load_config(context);
  if (!config) return std::unexpected(config.error());
  auto url = parse_http_url(config->text("session.url"));
  if (!url) return std::unexpected(url.error());
  auto key = config->text("session.api_key");
  if (key.empty()) key = key_of_up(context);
  HttpAsk ask{std::move(method), std::move(target), "X-API-Key: " + key + "\r\n", std::move(body)};
  if (!ask.body.empty()) ask.headers += "Content-Type: application/json\r\n";
  Result<HttpReply> reply = fail(Errc::unavailable, "");
  auto all = [](HttpUrl to, HttpAsk what, Result<HttpReply>& into) -> awaitable<void> {
    HttpClient client(co_await asio::this_coro::executor, std::move(to));
    into = co_await client.ask(std::move(what), Clock::now() + ask_time);
  };
  asio::co_spawn(context.io, all(*url, std::move(ask), reply), [](std::exception_ptr thrown) {
    ensure(!thrown, "a command returns its errors");
  });
  context.io.restart();
  context.io.run();
  if (!reply)
    return fail(reply.error().code, "the session service at {} does not answer: {}",
                config->text("session.url"), reply.error().what);
  if (reply->status != 200) return std::unexpected(told_error(*reply));
  return std::move(reply->body);
}

void add_session(CLI::App& root, Action& chosen) {
  auto* app = add_command(root, "session", "Exactly one sandbox for each session", "Sessions");
  need_command(*app);
  set_footer(
      *app,
      R"(Speaks the remote runtime API of OpenHands. Any number of replicas share one Redis; a session has
one sandbox, however many of them are asked for it. docs/session.md is the guide.

Examples
  warren session up                        # all of it on this machine
  warren session ls
  warren session stop SESSION)");
  add_session_up(*app, chosen);
  add_session_serve(*app, chosen);
  add_session_looks(*app, chosen);
}

}  // namespace warren::cli
