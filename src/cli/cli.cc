#include "cli/cli.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/causes.h"
#include "base/log.h"
#include "cli/fleet/fleet.h"
#include "cli/foghorn/foghorn.h"
#include "cli/found_file.h"
#include "cli/session/session.h"

namespace warren::cli {

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
  auto sources = context.sources;
  if (sources.is_found) {
    auto file = read_found_file(context);
    if (!file) return std::unexpected(file.error());
    if (auto fine = check_found_file(*file); !fine) return std::unexpected(fine.error());
    sources.file_text = std::move(file->text);
  }
  auto config = Config::load(all_settings(), sources);
  if (!config) return config;
  auto format = config->text("log.format") == "json" ? log::Format::json : log::Format::logfmt;
  log::Options options{format, config->text("log.level"), context.err.is_on(), ""};
  auto configured = log::configure(options);
  if (!configured)
    return fail(Errc::invalid, warren::causes::bad_setting, "log.level", "{}: {}",
                config->at("log.level").origin, configured.error().what);
  return config;
}

Result<Exit> with_client(const Context& context, const Config& config,
                         std::chrono::milliseconds timeout,
                         const std::function<Async<Exit>(redis::Client&)>& body) {
  auto settings = redis::settings_from(config);
  if (!settings) return std::unexpected(settings.error());
  // Shorter than the deadline for getting a connection, so that the caller learns why there is
  // none.
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
