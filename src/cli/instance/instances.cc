#include "cli/instance/instances.h"

#include <arpa/inet.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

namespace warren::cli {

CLI::Option* add_prefix(CLI::App& app) {
  auto name = program_of(app);
  auto fallback = name == "holt" || name == "sett" ? name : "warren";
  return add_value(
      app, "--prefix", "WORD", "what the keys of all instances begin with",
      [](std::string_view word) -> Result<> {
        auto fits = check_instance_name(word);
        if (!fits) return fail(Errc::invalid, "a prefix is made like an instance name");
        return ok;
      },
      fallback);
}

CLI::Option* add_name(CLI::App& app, const std::string& help) {
  return add_value(app, "-n,--name", "NAME", help, check_instance_name);
}

CLI::Option* add_ttl(CLI::App& app) {
  return add_value(
      app, "--ttl", "TIME", "after a crash the name is free again within this time",
      [](std::string_view text) -> Result<> {
        auto time = parse_duration(text);
        if (!time) return std::unexpected(time.error());
        if (*time < 1s || *time > 1h) return fail(Errc::invalid, "a ttl is between 1s and 1h");
        return ok;
      },
      "60s");
}

CLI::Option* add_no_agents(CLI::App& app) {
  return add_switch(app, "--no-agents", "they run elsewhere: see `warren agent run`");
}

CLI::Option* add_unreplicated(CLI::App& app) {
  return add_switch(app, "--unreplicated",
                    "do not wait until every replica that is up has the lock: it may then not "
                    "survive a failover");
}

std::string capitalised(std::string word) {
  if (!word.empty()) word[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(word[0])));
  return word;
}

std::string age_text(std::chrono::seconds age) {
  auto seconds = std::max<std::int64_t>(age.count(), 0);
  if (seconds < 60) return fmt::format("{}s", seconds);
  if (seconds < 3600) return fmt::format("{}m", seconds / 60);
  if (seconds < 172'800) return fmt::format("{}h", seconds / 3600);
  return fmt::format("{}d", seconds / 86400);
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string user_name() {
  const auto* entry = getpwuid(getuid());
  return entry ? entry->pw_name : std::to_string(getuid());
}

std::string workspace_here() {
  std::error_code ignored;
  return std::filesystem::canonical(".", ignored).string();
}

Result<> check_workspace_here() {
  if (!workspace_here().empty()) return ok;
  return fail(Errc::not_found, "the folder that you are in was deleted: change to one that exists");
}

Result<std::filesystem::path> state_folder(const Context& context) {
  const auto& environment = context.sources.environment;
  auto variable = [&](const char* name) {
    auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  };
  std::filesystem::path folder = variable("XDG_STATE_HOME");
  if (folder.empty() && !variable("HOME").empty())
    folder = std::filesystem::path(variable("HOME")) / ".local/state";
  if (folder.empty()) return fail(Errc::invalid, "neither HOME nor XDG_STATE_HOME is set");
  folder /= "warren";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  if (error) return fail(Errc::denied, "{}: {}", folder.string(), error.message());
  return folder;
}

namespace {

bool is_configured(const Config& config) {
  return std::ranges::any_of(config.values(), [](const Config::Value& value) {
    const auto& name = value.setting->name;
    bool says_where = name == "redis.url" || name == "redis.addrs" || name == "redis.host" ||
                      name == "redis.mode";
    return says_where && value.is_set;
  });
}

bool listens_on_usual_port() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(6379);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int file = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool listens = ::connect(file, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  ::close(file);
  return listens;
}

}  // namespace

Result<InstanceRedis> find_instance_redis(const Context& context) {
  auto config = load_config(context);
  if (!config) return std::unexpected(config.error());
  if (is_configured(*config)) return InstanceRedis{context, EmbeddedRedis("")};
  auto folder = state_folder(context);
  if (!folder) return std::unexpected(folder.error());
  InstanceRedis redis{context, EmbeddedRedis(*folder / "redis")};
  auto used = redis.embedded.use();
  if (!used) return std::unexpected(used.error());
  bool is_running = redis.embedded.is_running();
  if (!is_running && listens_on_usual_port()) return redis;
  redis.is_embedded = true;
  redis.use = std::move(*used);
  redis.is_there = is_running;
  redis.context.sources.flags["redis.url"] = redis.embedded.url();
  return redis;
}

Result<Exit> with_instance_redis(const InstanceRedis& redis, std::chrono::milliseconds timeout,
                                 const std::function<Async<Exit>(redis::Client&)>& body) {
  auto config = load_config(redis.context);
  if (!config) return std::unexpected(config.error());
  return with_client(redis.context, *config, timeout, body);
}

}  // namespace warren::cli
