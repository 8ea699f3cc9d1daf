// foghorn serve: runs one instance of Foghorn until it is stopped.
#include <fmt/format.h>
#include <signal.h>

#include "base/log.h"
#include "cli/foghorn/foghorn.h"
#include "cli/instance/which.h"
#include "cli/redis/survey.h"
#include "net/rpc/server.h"
#include "services/foghorn/helmsman/helmsman.h"
#include "services/foghorn/http/surface.h"

namespace warren::cli {

namespace {

using foghorn::Cluster;
using foghorn::ClusterTerms;
using foghorn::ServedCluster;
using foghorn::Surface;
using foghorn::SurfaceTerms;

// Longer than the lease of an id that is no longer renewed.
constexpr auto id_patience = 6s;

struct ServeTerms {
  std::vector<ClusterTerms> clusters;
  federation::FederationTerms federation;
  SurfaceTerms surface;
  std::string address;
  unsigned short http_port = 0, grpc_port = 0;
};

std::vector<std::string> words_of(std::string_view list) {
  std::vector<std::string> words;
  while (!list.empty()) {
    auto word = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), word.size() + 1));
    if (!word.empty()) words.emplace_back(word);
  }
  return words;
}

Result<std::vector<asio::ip::address>> addresses_in(const Config::Value& value) {
  std::vector<asio::ip::address> addresses;
  for (const auto& word : words_of(value.value)) {
    boost::system::error_code error;
    addresses.push_back(asio::ip::make_address(word, error));
    if (error) return fail(Errc::invalid, "{}: {} is no IP address", value.origin, word);
  }
  return addresses;
}

// Whether any setting says where Redis is. Without Redis, an instance keeps its state in memory.
bool has_redis(const Config& config) {
  for (auto name : {"redis.url", "redis.addrs", "redis.host", "redis.mode"})
    if (config.at(name).is_set) return true;
  return false;
}

bool is_loopback(const std::string& address) {
  boost::system::error_code error;
  return asio::ip::make_address(address, error).is_loopback();
}

// Without this, anyone who can reach the port could claim to be a peer, and read or report
// anything.
Result<> check_peers_are_known(const ServeTerms& terms) {
  const auto& own = terms.federation;
  auto is_open = [&](const auto& peer) { return own.token_of(peer.cluster) == ""; };
  bool is_guarded =
      own.registry.empty() && std::none_of(own.peers.begin(), own.peers.end(), is_open);
  if (is_guarded || !own.token.empty() || is_loopback(terms.address)) return ok;
  return fail(Errc::invalid,
              "FOGHORN_PEER_TOKEN is not set: peers on an address that others reach ({}) need one",
              terms.address);
}

foghorn::ClusterLimits limits_of(const Config& config) {
  auto number = [&](const char* name) {
    return static_cast<std::size_t>(config.number(fmt::format("foghorn.{}", name)));
  };
  return {.node_streams = number("node-streams"),
          .node_artifacts = number("node-artifacts"),
          .node_left = number("node-left"),
          .nodes = number("most-nodes"),
          .streams = number("most-streams"),
          .artifacts = number("most-artifacts")};
}

Result<ServeTerms> terms_from(const Config& config) {
  ServeTerms terms;
  auto number = [&](const char* name) {
    return static_cast<std::uint64_t>(config.number(fmt::format("foghorn.{}", name)));
  };
  balance::Weights weights{.cpu = number("cpu-weight"),
                           .ram = number("ram-weight"),
                           .bw = number("bandwidth-weight"),
                           .geo = number("geo-weight"),
                           .bonus = number("stream-bonus")};
  const auto& instance = config.text("foghorn.instance-id");
  if (instance.empty() && has_redis(config))
    return fail(Errc::invalid,
                "FOGHORN_INSTANCE_ID is not set: instances that share a Redis need an id each");
  for (auto& id : words_of(config.text("foghorn.cluster-id"))) {
    ClusterTerms cluster;
    cluster.cluster_id = id;
    cluster.instance_id = instance.empty() ? "alone" : instance;
    cluster.weights = weights;
    cluster.limits = limits_of(config);
    terms.clusters.push_back(std::move(cluster));
  }
  if (terms.clusters.empty()) return fail(Errc::invalid, "CLUSTER_ID names no cluster");
  auto peers =
      federation::parse_peers(config.text("foghorn.peers"), config.text("foghorn.peer-tenants"),
                              config.text("foghorn.peer-tokens"));
  if (!peers) return std::unexpected(peers.error());
  terms.federation.peers = *std::move(peers);
  terms.federation.token = config.text("foghorn.peer-token");
  for (auto& id : words_of(config.text("foghorn.bearer-peers")))
    terms.federation.bearer_peers.insert(std::move(id));
  terms.federation.address = config.text("foghorn.address");
  terms.federation.public_url = config.text("foghorn.public-url");
  terms.federation.registry = config.text("foghorn.registry");
  terms.federation.tls.certificate = config.text("foghorn.tls-cert");
  terms.federation.tls.key = config.text("foghorn.tls-key");
  terms.federation.tls.authority = config.text("foghorn.tls-ca");
  auto proxies = addresses_in(config.at("foghorn.proxies"));
  if (!proxies) return std::unexpected(proxies.error());
  terms.surface.proxies = *std::move(proxies);
  terms.surface.token = config.text("foghorn.token");
  terms.surface.is_durable = config.flag("foghorn.durable-reports");
  if (terms.surface.is_durable && !has_redis(config))
    return fail(Errc::invalid,
                "FOGHORN_DURABLE_REPORTS is true, and there is no Redis to have the reports");
  terms.surface.policy =
      config.text("foghorn.policy") == "fair" ? balance::Policy::fair : balance::Policy::compat;
  terms.surface.rate.per_second = static_cast<double>(number("rate-limit"));
  terms.surface.rate.burst = 2 * terms.surface.rate.per_second;
  terms.address = config.text("foghorn.listen");
  terms.surface.is_only_here = is_loopback(terms.address);
  terms.http_port = static_cast<unsigned short>(number("http-port"));
  terms.grpc_port = static_cast<unsigned short>(number("grpc-port"));
  auto guarded = check_peers_are_known(terms);
  if (!guarded) return std::unexpected(guarded.error());
  return terms;
}

// The terms for one of several clusters in this process: the others may be its peers, its gRPC port
// depends on its place, and its routes are under its name.
federation::FederationTerms federation_of(const ServeTerms& terms, std::size_t place) {
  auto own = terms.federation;
  if (terms.clusters.size() == 1) return own;
  const auto& id = terms.clusters[place].cluster_id;
  std::erase_if(own.peers, [&](const auto& peer) { return peer.cluster == id; });
  if (auto colon = own.address.rfind(':'); colon != own.address.npos && place > 0)
    own.address = fmt::format("{}:{}", own.address.substr(0, colon),
                              std::atoi(own.address.c_str() + colon + 1) + int(place));
  while (own.public_url.ends_with('/')) own.public_url.pop_back();
  if (!own.public_url.empty()) own.public_url += "/clusters/" + id;
  return own;
}

// One cluster and its parts.
struct Part {
  std::unique_ptr<LeaseSession> session = nullptr;  // with Redis
  std::unique_ptr<Cluster> cluster = nullptr;
  std::unique_ptr<federation::Federation> federation = nullptr;  // with Redis
  std::unique_ptr<helmsman::Helmsman> nodes = nullptr;           // over gRPC
  std::unique_ptr<rpc::Server> rpc = nullptr;
};

class Foghorn {
 public:
  Foghorn(asio::any_io_executor executor, redis::Client* client, ServeTerms terms)
      : executor_(std::move(executor)),
        client_(client),
        terms_(std::move(terms)),
        failed_(executor_) {}

  // Runs until it is interrupted, or cannot continue.
  Async<> run(asio::signal_set& signals);

 private:
  Result<> build();
  Result<> listen();
  Async<> stay(TaskGroup& tasks, asio::signal_set& signals);
  awaitable<void> bring_up(Part& part);
  awaitable<void> look_at_memory();
  awaitable<void> failure();
  awaitable<void> put_away();

  asio::any_io_executor executor_;
  redis::Client* client_;
  ServeTerms terms_;
  Metrics metrics_;
  std::vector<Part> parts_;
  std::vector<std::shared_ptr<void>> published_;
  std::optional<Surface> surface_;
  std::unique_ptr<HttpServer> http_;
  std::optional<Error> error_;
  Event failed_;
};

Result<> Foghorn::build() {
  if (client_) {
    published_.push_back(client_->publish(metrics_));
  }
  // The same rule as for HTTP: without a token only this machine may change something.
  bool takes_nodes = !terms_.surface.token.empty() || terms_.surface.is_only_here;
  if (!takes_nodes)
    log::warn("foghorn.changes_nothing", "why",
              "FOGHORN_TOKEN is not set, and others than this machine can reach it: nodes and "
              "operators are refused, viewers are not");
  std::vector<ServedCluster> served;
  for (std::size_t place = 0; place < terms_.clusters.size(); ++place) {
    const auto& terms = terms_.clusters[place];
    auto cluster = Cluster::create(executor_, client_, terms);
    if (!cluster) return std::unexpected(cluster.error());
    Part part;
    part.cluster = *std::move(cluster);
    published_.push_back(part.cluster->publish(metrics_));
    if (client_) {
      part.session = std::make_unique<LeaseSession>(*client_, terms_.federation.leader_ttl,
                                                    foghorn::lease_room(terms.cluster_id));
      auto made = federation::Federation::create(executor_, *client_, *part.session, *part.cluster,
                                                 federation_of(terms_, place));
      if (!made) return std::unexpected(made.error());
      part.federation = *std::move(made);
      published_.push_back(part.federation->publish(metrics_));
    }
    if (takes_nodes) {
      helmsman::HelmsmanTerms of_nodes;
      of_nodes.token = terms_.surface.token;
      of_nodes.is_durable = terms_.surface.is_durable;
      part.nodes = std::make_unique<helmsman::Helmsman>(executor_, *part.cluster, of_nodes);
      published_.push_back(part.nodes->publish(metrics_));
    }
    parts_.push_back(std::move(part));
    served.push_back({parts_.back().cluster.get(), parts_.back().federation.get()});
  }
  surface_.emplace(std::move(served), metrics_, terms_.surface);
  return listen();
}

// Each further cluster has its own gRPC port, the next one, because callers do not say which
// cluster they mean.
Result<> Foghorn::listen() {
  auto handler = [this](const HttpRequest& request, HttpAnswer& answer) {
    return surface_->answer(request, answer);
  };
  auto http = HttpServer::listen(executor_, surface_->http_terms(terms_.address, terms_.http_port),
                                 handler);
  if (!http) return fail(Errc::refused, "{}", http.error().what);
  http_ = *std::move(http);
  auto port = terms_.grpc_port;
  for (auto& part : parts_) {
    std::vector<grpc::Service*> services;
    if (part.federation) services.push_back(&part.federation->service());
    if (part.nodes) services.push_back(&part.nodes->service());
    if (services.empty()) continue;
    rpc::ServerTerms terms{.address = fmt::format("{}:{}", terms_.address, port)};
    terms.tls = terms_.federation.tls;
    if (port > 0) ++port;
    auto server = rpc::Server::listen(terms, services);
    if (!server) return fail(Errc::refused, "{}", server.error().what);
    part.rpc = *std::move(server);
  }
  return ok;
}

// Loads, follows and leads. Retries for as long as Redis is away; /readyz reports that meanwhile.
awaitable<void> Foghorn::bring_up(Part& part) {
  auto& cluster = *part.cluster;
  std::optional<Clock::time_point> held_since;
  for (;;) {
    auto began = Clock::now();
    auto started = co_await cluster.start(began + 3s);
    if (started) break;
    // An instance that was killed and restarted at once finds its own id taken until the old lease
    // expires.
    bool is_held = started.error().code == Errc::held_elsewhere;
    if (is_held && !held_since) held_since = began;
    bool is_taken = is_held && Clock::now() - *held_since > id_patience;
    if (is_taken || started.error().code == Errc::denied) {
      error_ = started.error();
      failed_.notify();
      co_return;
    }
    auto why = started.error().what;
    // The reason for the missing connection says more than a timeout.
    if (client_ && !is_held) {
      auto ready = co_await client_->ready(Clock::now() + 100ms);
      if (!ready) why = ready.error().what;
    }
    log::warn(is_held ? "foghorn.waits_for_its_id" : "foghorn.waits_for_redis", "cluster",
              cluster.terms().cluster_id, "why", why);
    co_await sleep_for(500ms);
  }
  if (client_ && &part == &parts_.front()) co_await look_at_memory();
  log::info("foghorn.loaded", "cluster", cluster.terms().cluster_id, "nodes",
            cluster.nodes().size());
  if (part.federation) {
    part.federation->start();  // the leader cleans up after its instances
    error_ = co_await cluster.lost_id();
    failed_.notify();
    co_return;
  }
  for (;;) {
    co_await sleep_for(cluster.terms().sweep_interval);
    cluster.sweep();
  }
}

awaitable<void> Foghorn::look_at_memory() {
  auto warning = co_await eviction_warning(*client_, Clock::now() + 2s);
  if (!warning.empty()) log::warn("foghorn.redis_evicts", "why", warning);
}

awaitable<void> Foghorn::failure() {
  while (!error_) co_await failed_.wait();
}

Async<> Foghorn::stay(TaskGroup& tasks, asio::signal_set& signals) {
  using namespace asio::experimental::awaitable_operators;
  tasks.start("foghorn.http", http_->run());
  for (auto& part : parts_) tasks.start("foghorn.cluster", bring_up(part));
  log::info("foghorn.listening", "url", http_->url(), "instance",
            parts_.front().cluster->terms().instance_id);
  co_await (interrupted(signals) || failure());
  log::info("foghorn.stopping", "connections", http_->counters().connections);
  co_await http_->drain(Clock::now() + 5s);
  if (error_) co_return std::unexpected(*error_);
  co_return ok;
}

// The server goes last: nodes and peers are first told over it that we leave. If it cut a stream,
// that would look like the end of the stream's node.
awaitable<void> Foghorn::put_away() {
  for (auto& part : parts_) {
    if (part.nodes) co_await part.nodes->close();
    if (part.federation) co_await part.federation->close();
    if (part.rpc) co_await part.rpc->close();
    co_await part.cluster->close();
    if (part.session) co_await part.session->close();
  }
}

Async<> Foghorn::run(asio::signal_set& signals) {
  auto built = build();
  Result<> stayed = ok;
  if (built) {
    auto staying = [](TaskGroup& tasks, Foghorn& self, asio::signal_set& which) -> Async<> {
      return self.stay(tasks, which);
    };
    stayed = co_await with_group(staying, *this, signals);
  }
  co_await put_away();
  if (!built) co_return built;
  co_return stayed;
}

Async<Exit> serve(redis::Client* client, ServeTerms terms) {
  auto executor = co_await asio::this_coro::executor;
  asio::signal_set signals(executor, SIGTERM, SIGINT);
  Foghorn foghorn(executor, client, std::move(terms));
  auto ran = co_await foghorn.run(signals);
  if (!ran) co_return std::unexpected(ran.error());
  co_return Exit::ok;
}

Result<Exit> serve_alone(const Context& context, ServeTerms terms) {
  log::warn("foghorn.alone", "why", "no Redis is configured: nothing is shared, nothing is kept");
  Result<Exit> result = Exit::failed;
  auto all = [](Async<Exit> work, Result<Exit>& into) -> awaitable<void> {
    into = co_await std::move(work);
  };
  asio::co_spawn(
      context.io, all(serve(nullptr, std::move(terms)), result),
      [](std::exception_ptr thrown) { ensure(!thrown, "a command returns its errors"); });
  context.io.run();
  return result;
}

}  // namespace

void add_serve(CLI::App& root, Action& chosen) {
  auto* app = add_command(root, "serve", "Run an instance of Foghorn", "Foghorn");
  set_footer(
      *app,
      "Without a Redis in the settings it lives in memory, alone. SIGTERM ends it: requests under "
      "way\n"
      "are answered, leadership goes to the next instance. FOGHORN_TOKEN (or FOGHORN_TOKEN_FILE) "
      "is "
      "the\n"
      "bearer token of what changes state. docs/foghorn.md has all variables.\n\n"
      "Example\n"
      "  FOGHORN_INSTANCE_ID=foghorn-1 foghorn serve --redis-url redis://localhost:6379");
  std::vector<std::pair<std::string, CLI::Option*>> flags;
  auto add = [&](const char* flag, const char* setting, const char* kind) {
    for (auto& each : foghorn_settings())
      if (each.name == setting)
        flags.emplace_back(setting,
                           add_value(*app, flag, kind, each.help + " [" + each.environment + "]",
                                     each.check, each.fallback));
  };
  add("--port", "foghorn.http-port", "PORT");
  add("--grpc-port", "foghorn.grpc-port", "PORT");
  add("--listen", "foghorn.listen", "ADDRESS");
  add("--cluster-id", "foghorn.cluster-id", "ID");
  add("--instance-id", "foghorn.instance-id", "ID");
  add("--policy", "foghorn.policy", "compat|fair");
  add("--durable-reports", "foghorn.durable-reports", "true|false");
  add("--peers", "foghorn.peers", "LIST");
  when_chosen(*app, [=, &chosen] {
    chosen = [=](Context context) -> Result<Exit> {
      for (const auto& [setting, option] : flags)
        if (is_given(*option)) context.sources.flags[setting] = value_of(*option);
      auto config = load_config(context);
      if (config && !config->at("log.level").is_set) {
        context.sources.flags["log.level"] = "info";
        config = load_config(context);
      }
      if (!config) return std::unexpected(config.error());
      auto terms = terms_from(*config);
      if (!terms) return std::unexpected(terms.error());
      signal(SIGPIPE, SIG_IGN);
      raise_file_limit();
      if (!has_redis(*config)) return serve_alone(context, *std::move(terms));
      return with_client(context, *config, 10s,
                         [&](redis::Client& client) { return serve(&client, *std::move(terms)); });
    };
  });
}

}  // namespace warren::cli
