#include "cli/cli.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "cli/foghorn/foghorn.h"

namespace warren::cli {

Exit exit_for(Errc code) {
  switch (code) {
    case Errc::invalid:
      return Exit::usage;
    case Errc::unavailable:
    case Errc::timeout:
      return Exit::unreachable;
    case Errc::denied:
      return Exit::denied;
    case Errc::not_found:
    case Errc::held_elsewhere:
    case Errc::lease_lost:
    case Errc::refused:
    case Errc::overloaded:
    case Errc::unknown_outcome:
    case Errc::protocol:
    case Errc::cancelled:
      return Exit::failed;
  }
  std::abort();
}

std::string hint_for(const Error& error) {
  switch (error.code) {
    case Errc::unavailable:
      return "start it (redis-server), or say where it is: --redis-url redis://HOST:PORT, or "
             "REDIS_URL";
    case Errc::timeout:
      if (error.what.starts_with("the orchestrator")) return "a longer --timeout waits longer";
      return "the server is stopped, overloaded or behind a firewall; --timeout 10s waits longer";
    case Errc::protocol:
      return "check host and port (--redis-url, REDIS_URL); a server with TLS wants rediss://";
    case Errc::denied:
      if (error.what.contains("certificate"))
        return "name the CA that signed it with --redis-tls-ca FILE, or REDIS_TLS_CA";
      if (error.what.contains("NOPERM"))
        return "the ACL of this Redis user lacks a key, a channel or a command that this needs: "
               "`ACL LOG` of redis-cli shows which";
      if (error.what.contains("password"))
        return "set REDIS_PASSWORD, or REDIS_PASSWORD_FILE to a file that holds it, and for an ACL "
               "user REDIS_USERNAME";
      return "";
    case Errc::invalid:
    case Errc::not_found:
    case Errc::held_elsewhere:
    case Errc::lease_lost:
    case Errc::refused:
    case Errc::overloaded:
    case Errc::unknown_outcome:
    case Errc::cancelled:
      return "";
  }
  std::abort();
}

std::vector<Setting> all_settings() {
  auto settings = redis::config_settings();
  settings.push_back({"log.level", "WARREN_LOG_LEVEL", "warn",
                      "debug, info, warn, error or off; also by module: warn,redis=debug"});
  settings.push_back({"log.format", "WARREN_LOG_FORMAT", "logfmt", "of the log, on standard error",
                      false, one_of({"logfmt", "json"})});
  auto of_foghorn = foghorn_settings();
  settings.insert(settings.end(), of_foghorn.begin(), of_foghorn.end());
  return settings;
}

Result<Config> load_config(const Context& context) {
  auto config = Config::load(all_settings(), context.sources);
  if (!config) return config;
  auto format = config->text("log.format") == "json" ? log::Format::json : log::Format::logfmt;
  log::Options options{format, config->text("log.level"), context.err.is_on(), ""};
  auto configured = log::configure(options);
  if (!configured)
    return fail(Errc::invalid, "{}: {}", config->at("log.level").origin, configured.error().what);
  return config;
}

Result<Exit> with_client(const Context& context, const Config& config,
                         std::chrono::milliseconds timeout,
                         const std::function<Async<Exit>(redis::Client&)>& body) {
  auto settings = redis::settings_from(config);
  if (!settings) return std::unexpected(settings.error());
  // Less than the deadline of who waits for the connection, so that he hears why there is none.
  settings->connect_timeout = std::min(settings->connect_timeout, timeout * 3 / 4);
  auto client = redis::Client::create(context.io.get_executor(), *settings);
  if (!client) return std::unexpected(client.error());
  Result<Exit> result = Exit::failed;
  auto all = [](redis::Client& open, Async<Exit> work, Result<Exit>& into) -> awaitable<void> {
    into = co_await std::move(work);
    co_await open.close();
  };
  asio::co_spawn(context.io, all(**client, body(**client), result), [](std::exception_ptr thrown) {
    ensure(!thrown, "a command returns its errors");
  });
  context.io.run();
  return result;
}

Error file_error(const std::string& path, int number) {
  auto code = number == ENOENT || number == ENOTDIR                    ? Errc::not_found
              : number == EACCES || number == EPERM || number == EROFS ? Errc::denied
                                                                       : Errc::refused;
  return {code, fmt::format("{}: {}", path, std::strerror(number))};
}

std::string printable(std::string text) {
  auto moves_cursor = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  std::ranges::replace_if(text, moves_cursor, '?');
  return text;
}

}  // namespace warren::cli
