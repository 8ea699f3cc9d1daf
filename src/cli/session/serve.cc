// warren session serve, warren session up: a replica of the service, until it is told to stop.
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>

#include <charconv>
#include <fstream>

#include "base/host/folder.h"
#include "base/log.h"
#include "cli/causes.h"
#include "cli/fleet/settings.h"
#include "cli/instance/instances.h"
#include "cli/instance/which.h"
#include "cli/session/session.h"
#include "services/session/kubernetes/kubernetes_driver.h"
#include "services/session/kubernetes/settings.h"
#include "services/session/names.h"
#include "services/session/process/process_driver.h"
#include "services/session/serve/service.h"

namespace warren::cli {

namespace fs = std::filesystem;

namespace {

using namespace session;

constexpr auto drain_time = 30s;
constexpr auto cluster_time = 30s;  // to find out what we may do there
constexpr std::size_t most_key = 4096;

// Which cluster, and what is made in it.
struct Cluster {
  kube::Access access;
  KubernetesTerms terms = {};
};

struct Terms {
  std::optional<Cluster> cluster = {};  // none: sandboxes are processes of this machine
  ProcessTerms process;
  Images images;
  ServiceSettings service;
  bool is_coordinated = true;
};

struct Options {
  CLI::Option *address, *port, *public_url, *name_space, *folder, *unisolated, *shown, *ports,
      *memory, *images, *idle, *lifetime, *keep_paused, *ready_time, *grace, *require_key,
      *no_resume, *host_names, *without_redis;
};

struct ClusterOptions {
  CLI::Option *driver, *config, *context, *pod_template, *routes, *ingress_class, *gateway;
};

Check range_check() {
  return [](std::string_view text) -> Result<> {
    unsigned first = 0, last = 0;
    auto dash = std::min(text.find('-'), text.size());
    auto is_port = [](std::string_view word, unsigned& port) {
      auto read = std::from_chars(word.data(), word.data() + word.size(), port);
      return read.ec == std::errc() && read.ptr == word.data() + word.size();
    };
    bool are_ports = dash < text.size() && is_port(text.substr(0, dash), first) &&
                     is_port(text.substr(dash + 1), last);
    if (!are_ports || first == 0 || last > 65535 || first + 3 > last)
      return fail(Errc::invalid, "use two ports and a dash, such as 20000-29999");
    return ok;
  };
}

Options add_options(CLI::App& app) {
  Options options{};
  options.address = add_value(app, "--listen", "ADDRESS", "to listen on", nullptr, "127.0.0.1");
  options.port =
      add_value(app, "--port", "PORT", "0: any that is free", whole_number(0, 65535), "8008");
  options.public_url = add_value(app, "--public-url", "URL",
                                 "where clients reach it; by default where it listens", nullptr);
  options.host_names =
      add_value(app, "--host-names", "LIST",
                "under which a proxy on this machine passes requests on; with commas", nullptr);
  options.name_space = add_value(app, "--namespace", "NAME", "of the sessions", nullptr, "default");
  options.folder =
      add_value(app, "--folder", "DIR", "of sandboxes, for all replicas of this machine", nullptr);
  options.unisolated = add_switch(app, "--unisolated", "sandboxes see all that this user sees");
  options.shown =
      add_value(app, "--show-folder", "LIST",
                "that sandboxes see, read only, besides the system's; with commas", nullptr);
  options.ports =
      add_value(app, "--ports", "FIRST-LAST", "of sandboxes", range_check(), "20000-29999");
  options.memory = add_value(app, "--memory", "SIZE", "of data of each process of a sandbox",
                             bytes_check(), "2G");
  options.images =
      add_value(app, "--images", "FILE", "what images mean here: see docs/session.md", nullptr);
  options.idle =
      add_value(app, "--idle", "TIME", "then a sandbox is paused; 0s: never", duration(), "20m");
  options.lifetime =
      add_value(app, "--lifetime", "TIME", "then a session is stopped, used or not; 0s: never",
                duration(), "0s");
  options.keep_paused = add_value(
      app, "--keep-paused", "TIME",
      "then the files of a session that nobody uses are removed; 0s: never", duration(), "1440h");
  options.ready_time = add_value(app, "--ready-time", "TIME", "in which a sandbox has to listen",
                                 duration(), "300s");
  options.grace =
      add_value(app, "--grace", "TIME", "between SIGTERM and SIGKILL", duration(), "10s");
  options.require_key = add_switch(app, "--require-key",
                                   "requests to sandboxes show the session's key, but for probes");
  options.without_redis = add_value(
      app, "--without-redis", "optimistic|fail",
      "while Redis does not answer: the driver keeps two sandboxes apart, or nothing is started",
      one_of({"optimistic", "fail"}), "optimistic");
  options.no_resume = add_switch(app, "--no-resume",
                                 "a request to a paused session gets 503, and does not resume it");
  return options;
}

std::vector<std::string> words_split(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    auto word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (!word.empty()) words.emplace_back(word);
  }
  return words;
}

ClusterOptions add_cluster_options(CLI::App& app) {
  ClusterOptions options{};
  options.driver = add_value(app, "--driver", "process|kubernetes",
                             "what a sandbox is; by default what RUNTIME or the config.toml says",
                             one_of({"process", "kubernetes"}));
  options.config = add_value(app, "--openhands-config", "FILE",
                             "a config.toml of OpenHands: [sandbox.kubernetes] counts", nullptr);
  options.context = add_value(app, "--context", "NAME", "of the kubeconfig", nullptr);
  options.pod_template =
      add_value(app, "--pod-template", "FILE", "JSON that is laid over each pod", nullptr);
  options.routes = add_value(app, "--routes", "ingress|gateway|none", "to VS Code, for browsers",
                             one_of({"ingress", "gateway", "none"}), "ingress");
  options.ingress_class = add_value(app, "--ingress-class", "NAME", "of ingresses", nullptr);
  options.gateway = add_value(app, "--gateway", "[NAMESPACE/]NAME", "that routes are of", nullptr);
  return options;
}

// By the flag; else by RUNTIME, as OpenHands has it; else by its file.
bool is_for_cluster(const Context& context, const ClusterOptions& options,
                    const OpenHandsFile& file) {
  if (is_given(*options.driver)) return value_of(*options.driver) == "kubernetes";
  auto runtime = context.sources.environment.find("RUNTIME");
  bool is_set = runtime != context.sources.environment.end() && !runtime->second.empty();
  return (is_set ? runtime->second : file.runtime) == "kubernetes";
}

Result<> read_routes(const ClusterOptions& options, KubernetesTerms& terms) {
  auto routes = value_of(*options.routes);
  using Routing = KubernetesTerms::Routing;
  terms.routing = routes == "ingress"   ? Routing::ingress
                  : routes == "gateway" ? Routing::gateway
                                        : Routing::none;
  terms.ingress_class = value_of(*options.ingress_class);
  if ((routes == "gateway") != is_given(*options.gateway))
    return fail(Errc::invalid, causes::bad_words, "--routes",
                "--routes gateway and --gateway NAME go together");
  auto gateway = value_of(*options.gateway);
  auto slash = gateway.find('/');
  if (slash != gateway.npos) terms.gateway_space = gateway.substr(0, slash);
  terms.gateway = slash == gateway.npos ? gateway : gateway.substr(slash + 1);
  return ok;
}

Result<> read_cluster(const Context& context, const Options& flags, const ClusterOptions& options,
                      Terms& terms) {
  OpenHandsFile file;
  if (is_given(*options.config)) {
    auto read = OpenHandsFile::read(value_of(*options.config));
    if (!read) return std::unexpected(read.error());
    file = *std::move(read);
  }
  if (!is_for_cluster(context, options, file)) return ok;
  const auto& environment = context.sources.environment;
  auto access = kube::find_access(environment, value_of(*options.context));
  if (!access) return std::unexpected(access.error());
  Cluster cluster{.access = *std::move(access)};
  auto flagged = terms.service;
  apply(file, cluster.terms, terms.service);
  terms.is_coordinated = file.kubernetes.redis_coordination_enabled;
  // What is typed wins over the file.
  if (is_given(*flags.name_space)) {
    terms.service.sessions.name_space = flagged.sessions.name_space;
    cluster.terms.options.name_space = flagged.sessions.name_space;
  }
  auto& due = terms.service.housekeeping.due;
  const auto& typed = flagged.housekeeping.due;
  if (is_given(*flags.idle)) due.idle = typed.idle;
  if (is_given(*flags.keep_paused)) due.keep_paused = typed.keep_paused;
  cluster.terms.grace = std::chrono::ceil<std::chrono::seconds>(terms.process.grace);
  cluster.terms.ready_time =
      std::chrono::ceil<std::chrono::seconds>(terms.service.sessions.ready_time);
  if (due.idle > 0ms)
    terms.service.housekeeping.every =
        std::clamp<std::chrono::milliseconds>(due.idle / 4, 100ms, 10s);
  if (due.idle > 0ms)
    terms.service.sessions.touch_every =
        std::clamp<std::chrono::milliseconds>(due.idle / 4, 100ms, 10s);
  if (due.idle > 0ms)
    cluster.terms.touch_every = std::clamp<std::chrono::milliseconds>(due.idle / 4, 1s, 30s);
  auto command = environment.find("CUSTOM_RUNTIME_COMMAND");
  if (command != environment.end()) cluster.terms.command = words_split(command->second);
  if (is_given(*options.pod_template)) {
    auto over = pod_template_from(value_of(*options.pod_template));
    if (!over) return std::unexpected(over.error());
    cluster.terms.pod_template = *std::move(over);
  }
  if (auto read = read_routes(options, cluster.terms); !read) return read;
  terms.cluster = std::move(cluster);
  return ok;
}

Result<> read_process_terms(const Options& options, Terms& terms) {
  auto& process = terms.process;
  process.root = value_of(*options.folder);
  process.is_isolated = !is_given(*options.unisolated);
  for (auto& folder : words_of_list(value_of(*options.shown))) {
    if (!folder.starts_with('/'))
      return fail(Errc::invalid, causes::bad_words, "--show-folder",
                  "--show-folder {}: use whole paths", folder);
    process.shown.emplace_back(std::move(folder));
  }
  auto ports = value_of(*options.ports);
  process.first_port = static_cast<unsigned short>(std::stoi(ports));
  process.last_port = static_cast<unsigned short>(std::stoi(ports.substr(ports.find('-') + 1)));
  process.memory = *parse_bytes(value_of(*options.memory));
  process.grace = *parse_duration(value_of(*options.grace));
  if (!is_given(*options.images)) return ok;
  auto images = Images::read(value_of(*options.images));
  if (!images) return std::unexpected(images.error());
  terms.images = *std::move(images);
  return ok;
}

Result<Terms> read_terms(const Options& options) {
  Terms terms;
  if (auto read = read_process_terms(options, terms); !read) return std::unexpected(read.error());
  auto& service = terms.service;
  service.http.address = value_of(*options.address);
  service.http.port = static_cast<unsigned short>(std::stoi(value_of(*options.port)));
  service.http.most_connections = 4096;
  service.http.is_for_this_machine = service.http.address == "127.0.0.1";
  service.public_url = value_of(*options.public_url);
  service.host_names = words_of_list(value_of(*options.host_names));
  service.sessions.name_space = value_of(*options.name_space);
  if (auto good = check_instance_name(service.sessions.name_space); !good)
    return fail(Errc::invalid, "a namespace is made like an instance name: {}", good.error().what);
  service.sessions.ready_time = *parse_duration(value_of(*options.ready_time));
  service.sessions.end_time = terms.process.grace + 60s;
  service.housekeeping.due.idle = *parse_duration(value_of(*options.idle));
  auto idle = service.housekeeping.due.idle;
  if (idle > 0ms) {
    service.housekeeping.every = std::clamp<std::chrono::milliseconds>(idle / 4, 100ms, 10s);
    service.sessions.touch_every = std::clamp<std::chrono::milliseconds>(idle / 4, 100ms, 10s);
  }
  service.housekeeping.due.lifetime = *parse_duration(value_of(*options.lifetime));
  service.housekeeping.due.keep_paused = *parse_duration(value_of(*options.keep_paused));
  service.sessions.needs_redis = value_of(*options.without_redis) == "fail";
  service.proxy.requires_key = is_given(*options.require_key);
  service.proxy.resumes = !is_given(*options.no_resume);
  return terms;
}

// Runs the service until a signal comes, then answers what was asked, and goes; at once with the
// second signal. Sandboxes stay.
Async<Exit> stay(Service& service) {
  auto executor = co_await asio::this_coro::executor;
  asio::signal_set signals(executor, SIGTERM, SIGINT);
  auto body = [](TaskGroup& tasks, Service& what, asio::signal_set& stops) -> awaitable<bool> {
    using namespace asio::experimental::awaitable_operators;
    tasks.start("session.service", what.run());
    co_await interrupted(stops);
    co_await (what.drain(Clock::now() + drain_time) || interrupted(stops));
    co_return true;
  };
  co_await with_group(body, service, signals);
  co_await service.close();
  co_return Exit::ok;
}

using Hello = std::function<void(const Service&)>;

Async<std::unique_ptr<Driver>> driver_for(Terms& terms) {
  auto executor = co_await asio::this_coro::executor;
  if (terms.cluster) {
    auto deadline = Clock::now() + cluster_time;
    auto opened = co_await KubernetesDriver::open(executor, std::move(terms.cluster->access),
                                                  std::move(terms.cluster->terms), deadline);
    if (!opened) co_return std::unexpected(opened.error());
    co_return *std::move(opened);
  }
  auto made = ProcessDriver::create(executor, std::move(terms.process), std::move(terms.images));
  if (!made) co_return std::unexpected(made.error());
  co_return *std::move(made);
}

Async<Exit> serve(redis::Client* client, Terms terms, Hello hello) {
  Metrics metrics;
  auto executor = co_await asio::this_coro::executor;
  auto driver = co_await driver_for(terms);
  if (!driver) co_return std::unexpected(driver.error());
  auto service = Service::create(executor, **driver, client, std::move(terms.service), metrics);
  if (!service) co_return std::unexpected(service.error());
  hello(**service);
  co_return co_await stay(**service);
}

Result<Exit> serve_alone(const Context& context, Terms terms, const Hello& hello) {
  Result<Exit> result = Exit::failed;
  auto all = [](Terms what, Hello says, Result<Exit>& into) -> awaitable<void> {
    into = co_await serve(nullptr, std::move(what), std::move(says));
  };
  asio::co_spawn(context.io, all(std::move(terms), hello, result), [](std::exception_ptr thrown) {
    ensure(!thrown, "a command returns its errors");
  });
  context.io.run();
  return result;
}

struct Key {
  std::string text;
  bool is_new = false;
};

// The one of the settings; else the one that was made the first time.
Result<Key> key_for_up(const Config& config, const fs::path& folder) {
  if (const auto& key = config.text("session.api_key"); !key.empty()) return Key{key};
  auto opened = Folder::open(folder);
  if (!opened) return std::unexpected(opened.error());
  auto made = new_session_key();
  auto created = opened->create(api_key_file, made + "\n", 0600);
  if (!created) return std::unexpected(created.error());
  if (*created) return Key{made, true};
  auto text = opened->read(api_key_file, most_key);
  if (!text) return std::unexpected(text.error());
  auto key = text->substr(0, text->find('\n'));
  if (key.empty())
    return fail(Errc::invalid, "{} is empty: remove it, and another key is made",
                (folder / api_key_file).string());
  return Key{key};
}

void print_hello(const Service& service, const Key& key, const fs::path& folder, bool is_isolated) {
  auto url = service.url();
  url.pop_back();
  fmt::print("Sessions of this machine\n  url        {}\n", url);
  if (key.is_new)
    fmt::print("  key        {}\n             (shown this once; kept in {})\n", key.text,
               (folder / api_key_file).string());
  else
    fmt::print("  key        as before: {}\n", (folder / api_key_file).string());
  fmt::print("  sandboxes  {}\n", is_isolated ? "isolated by namespaces" : "NOT isolated");
  fmt::print(
      "  try        curl -H \"X-API-Key: $(cat {})\" {}/start \\\n"
      "               -d '{{\"session_id\":\"hello\",\"command\":\"python3 -m http.server "
      "60000\"}}'\n",
      (folder / api_key_file).string(), url);
  std::fflush(stdout);
}

Result<Exit> up(const Context& context, Terms terms) {
  auto redis = find_instance_redis(context);
  if (!redis) return std::unexpected(redis.error());
  if (redis->is_embedded) {
    auto started = redis->embedded.start(Clock::now() + 10s);
    if (!started) return std::unexpected(started.error());
  }
  auto folder = session_folder(context);
  if (!folder) return std::unexpected(folder.error());
  std::error_code error;
  fs::create_directories(*folder, error);
  if (error) return fail(Errc::denied, "{}: {}", folder->string(), error.message());
  auto config = load_config(redis->context);
  if (!config) return std::unexpected(config.error());
  auto key = key_for_up(*config, *folder);
  if (!key) return std::unexpected(key.error());
  if (terms.process.root.empty()) terms.process.root = *folder;
  terms.service.api_key = key->text;
  bool is_isolated = terms.process.is_isolated;
  Hello hello = [&](const Service& service) { print_hello(service, *key, *folder, is_isolated); };
  auto ran = with_instance_redis(
      *redis, 10s, [&](redis::Client& client) { return serve(&client, terms, hello); });
  redis->use = EmbeddedRedis::Use(-1);
  if (redis->is_embedded) (void)redis->embedded.stop_if_unused(Clock::now() + 5s);
  return ran;
}

}  // namespace

void add_session_up(CLI::App& session, Action& chosen) {
  auto* app = add_command(session, "up", "Sessions on this machine, with nothing configured");
  set_footer(
      *app,
      R"(Each sandbox is a process group with files and ports of its own, which sees neither the rest of this
machine nor other sandboxes. Where no Redis is configured it uses the private one of this user. An API
key is made, and shown once. Runs until Ctrl-C; sandboxes stay, and are there again with the next `up`.

Example
  warren session up)");
  auto options = add_options(*app);
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      auto terms = read_terms(options);
      if (!terms) return std::unexpected(terms.error());
      signal(SIGPIPE, SIG_IGN);
      raise_file_limit();
      return up(context, *std::move(terms));
    };
  });
}

void add_session_serve(CLI::App& session, Action& chosen) {
  auto* app = add_command(session, "serve", "One replica of the service, behind a load balancer");
  set_footer(
      *app,
      R"(Any number of them share a Redis and, on one machine, a folder of sandboxes; or, with
RUNTIME=kubernetes, a namespace of a cluster, in which each sandbox is a pod. The API server is that of
KUBECONFIG, of the pod it runs in, or of ~/.kube/config. Clients show SESSION_SERVICE_API_KEY (or
SESSION_SERVICE_API_KEY_FILE). SIGTERM ends it: what was asked is answered within 30 s, and sandboxes
stay.

Examples
  SESSION_SERVICE_API_KEY_FILE=/run/secrets/sessions REDIS_HOST=redis:6379 \
    warren session serve --folder /var/lib/sessions --port 8008
  RUNTIME=kubernetes SESSION_SERVICE_API_KEY_FILE=/run/secrets/sessions REDIS_HOST=redis:6379 \
    warren session serve --openhands-config config.toml --listen 0.0.0.0)");
  auto options = add_options(*app);
  auto cluster = add_cluster_options(*app);
  auto* alone =
      add_switch(*app, "--no-coordination",
                 "without Redis: what two replicas start at once, the driver decides alone");
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& given) -> Result<Exit> {
      auto context = with_log(given);
      auto terms = read_terms(options);
      if (!terms) return std::unexpected(terms.error());
      if (auto read = read_cluster(context, options, cluster, *terms); !read)
        return std::unexpected(read.error());
      if (!terms->cluster && terms->process.root.empty())
        return fail(Errc::invalid, "say where sandboxes are kept: --folder DIR");
      auto config = load_config(context);
      if (!config) return std::unexpected(config.error());
      terms->service.api_key = config->text("session.api_key");
      signal(SIGPIPE, SIG_IGN);
      raise_file_limit();
      Hello hello = [](const Service& service) {
        log::info("session.listening", "url", service.url(), "replica", service.actor().replica_id);
      };
      if (is_given(*alone) || !terms->is_coordinated)
        return serve_alone(context, *std::move(terms), hello);
      return with_client(context, *config, 10s,
                         [&](redis::Client& client) { return serve(&client, *terms, hello); });
    };
  });
}

}  // namespace warren::cli
