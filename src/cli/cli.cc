#include "cli/cli.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/log.h"
#include "cli/fleet/fleet.h"
#include "cli/foghorn/foghorn.h"
#include "cli/session/session.h"

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

namespace {

// Of a server that is reached, but does not take this now.
std::string hint_for_refusal(std::string_view what) {
  switch (redis::classify(what)) {
    case redis::Refusal::exhausted:
      if (what.contains("OOM"))
        return "Redis has used up its memory: raise maxmemory (redis-cli CONFIG SET maxmemory), or "
               "delete what nobody needs";
      return "Redis cannot write to its disk: free some space there; its log says what is wrong";
    case redis::Refusal::later:
      return "the server is there, but takes no commands yet; --timeout 10s waits longer";
    case redis::Refusal::not_primary:
      return "this server is a replica: say where the primary is with --redis-url or REDIS_URL";
    case redis::Refusal::final:
    case redis::Refusal::denied:
    case redis::Refusal::moved:
    case redis::Refusal::ask:
      return "";
  }
  std::abort();
}

}  // namespace

std::string hint_for(const Error& error) {
  switch (error.code) {
    case Errc::unavailable:
      if (auto hint = hint_for_refusal(error.what); !hint.empty()) return hint;
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
    case Errc::unknown_outcome:
      return "it may have been done all the same: look before you repeat it";
    case Errc::invalid:
    case Errc::not_found:
    case Errc::held_elsewhere:
    case Errc::lease_lost:
    case Errc::refused:
    case Errc::overloaded:
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
  auto of_fleet = fleet_settings();
  settings.insert(settings.end(), of_fleet.begin(), of_fleet.end());
  auto of_session = session_settings();
  settings.insert(settings.end(), of_session.begin(), of_session.end());
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

Result<std::size_t> parse_bytes(std::string_view text) {
  std::size_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  constexpr std::string_view units = "KMG";
  auto place = unit.size() == 1 ? units.find(unit[0]) : unit.empty() ? units.npos : 9;
  if (error != std::errc() || place == 9 || (!unit.empty() && place == units.npos) || number == 0 ||
      number > std::size_t{1} << 33)
    return fail(Errc::invalid, "use a number of bytes such as 65536, 64K, 4M or 8G");
  return number << (unit.empty() ? 0 : 10 * (place + 1));
}

Check bytes_check() {
  return [](std::string_view text) -> Result<> {
    auto parsed = parse_bytes(text);
    return parsed ? Result<>(ok) : std::unexpected(parsed.error());
  };
}

Error file_error(const std::string& path, int number) {
  auto code = number == ENOENT || number == ENOTDIR                    ? Errc::not_found
              : number == EACCES || number == EPERM || number == EROFS ? Errc::denied
                                                                       : Errc::refused;
  return {code, fmt::format("{}: {}", path, std::strerror(number))};
}

void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 65536);
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace warren::cli
