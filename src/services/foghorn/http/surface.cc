#include "services/foghorn/http/surface.h"

#include <array>
#include <boost/json.hpp>
#include <deque>

#include "net/http/target.h"
#include "services/foghorn/http/routes.h"

namespace warren::foghorn {

namespace {

namespace json = boost::json;

enum Group : std::size_t { viewers, balancer, state, operators, group_count };
constexpr std::array<const char*, group_count> group_names{"play", "balancer", "state",
                                                           "operations"};

constexpr std::size_t most_connections = 8192, most_from_one = 1024, small_body = 16u << 10;

// Any page may ask; what changes state is not for pages.
constexpr std::string_view any_origin =
    "Access-Control-Allow-Origin: *\r\nAccess-Control-Allow-Methods: GET, HEAD, OPTIONS\r\n"
    "Access-Control-Allow-Headers: *\r\nAccess-Control-Max-Age: 86400\r\n";

}  // namespace

class Surface::Core {
 public:
  Core(std::vector<ServedCluster> clusters, Metrics& metrics, SurfaceTerms terms)
      : terms_(std::move(terms)), metrics_(metrics), limit_(terms_.rate) {
    for (auto& each : clusters) clusters_.push_back({each, {}});
    publish();
  }

  Work answer(const HttpRequest& request, HttpAnswer& answer);
  HttpTerms http_terms(std::string address, unsigned short port) const;
  bool is_ready() const;

 private:
  struct Served {
    ServedCluster of;
    OutputCache outputs;
  };

  Served* find(std::string_view id);
  Work route(Call& call, Group& group);
  Work route_v1(Call& call, Group& group);
  Work confirmed(const Call& call) const;
  bool probe(Call& call, std::string_view name);
  void tell_health(HttpAnswer& answer);
  void publish();
  void count(Group group, int status) {
    ++counts_[group][static_cast<std::size_t>(std::clamp(status / 100, 1, 5)) - 1];
  }
  static awaitable<void> counted(Core& self, Group group, HttpAnswer& answer,
                                 awaitable<void> work) {
    co_await std::move(work);
    self.count(group, answer.status);
  }

  SurfaceTerms terms_;
  Metrics& metrics_;
  RateLimit limit_;
  std::deque<Served> clusters_;
  std::array<std::array<std::uint64_t, 5>, group_count> counts_{};
  std::uint64_t limited_ = 0;
  std::shared_ptr<void> published_;
};

void Surface::Core::publish() {
  std::vector<Counter> counters;
  for (const auto* group : group_names)
    for (const auto* status : {"1xx", "2xx", "3xx", "4xx", "5xx"})
      counters.push_back(metrics_.counter("warren_foghorn_http_requests_total",
                                          "Requests by group of routes and kind of status.",
                                          {{"group", group}, {"status", status}}));
  auto limited = metrics_.counter("warren_foghorn_http_limited_total",
                                  "Requests that were refused because their client sent too many.");
  published_ = metrics_.on_collect([this, counters, limited]() mutable {
    for (std::size_t i = 0; i < counters.size(); ++i)
      counters[i].raise_to(static_cast<double>(counts_[i / 5][i % 5]));
    limited.raise_to(static_cast<double>(limited_));
  });
}

Surface::Core::Served* Surface::Core::find(std::string_view id) {
  for (auto& each : clusters_)
    if (each.of.cluster->terms().cluster_id == id) return &each;
  return nullptr;
}

bool Surface::Core::is_ready() const {
  return std::ranges::all_of(clusters_, [](const Served& each) {
    return each.of.cluster->health() != MirrorHealth::loading && !each.of.cluster->problem();
  });
}

// Alive in any case; what cannot be relied upon is named.
void Surface::Core::tell_health(HttpAnswer& answer) {
  json::array clusters;
  bool is_well = true, is_loaded = true;
  for (const auto& each : clusters_) {
    const auto& cluster = *each.of.cluster;
    auto age = std::chrono::duration_cast<std::chrono::milliseconds>(cluster.age());
    json::object says{{"cluster_id", cluster.terms().cluster_id},
                      {"instance_id", cluster.terms().instance_id},
                      {"state", name(cluster.health())},
                      {"age_ms", age.count()},
                      {"nodes", cluster.node_count()},
                      {"waiting_changes", cluster.waiting_changes()}};
    auto problem = cluster.problem();
    if (problem) says["problem"] = problem->what;
    clusters.push_back(std::move(says));
    is_well = is_well && !problem && cluster.health() == MirrorHealth::current;
    is_loaded = is_loaded && cluster.health() != MirrorHealth::loading;
  }
  give(answer, json::object{{"status", is_well     ? "healthy"
                                       : is_loaded ? "degraded"
                                                   : "loading"},
                            {"clusters", std::move(clusters)}});
}

bool Surface::Core::probe(Call& call, std::string_view name) {
  bool is_known = name == "healthz" || name == "health" || name == "readyz" || name == "metrics" ||
                  name == "favicon.ico";
  if (!is_known || !call.rest.empty()) return false;
  if (!call.is_method("GET")) {
    refuse_method(call.answer, "GET, HEAD");
  } else if (name == "metrics") {
    call.answer.type = "text/plain; version=0.0.4";
    call.answer.body = metrics_.exposition();
  } else if (name == "favicon.ico") {
    call.answer.status = 404;
  } else {
    tell_health(call.answer);
    if (name == "readyz" && !is_ready()) call.answer.status = 503;
  }
  return true;
}

namespace {

// It counts here, whatever becomes of it: who is told no may say it again, to anybody.
awaitable<void> confirm(Cluster& cluster, HttpAnswer& answer, std::chrono::milliseconds time) {
  auto written = co_await cluster.durable(Clock::now() + time);
  if (written) co_return;
  refuse(answer, 503, "NOT_DURABLE",
         fmt::format("this instance has it, and Redis does not yet: {}", written.error().what));
  answer.add("Retry-After", "1");
}

}  // namespace

Work Surface::Core::confirmed(const Call& call) const {
  bool is_asked = !call.request.query.empty() && call.query("durable") == "1";
  if (!terms_.is_durable && !is_asked) return std::nullopt;
  if (call.is_method("GET") || call.answer.status != 200) return std::nullopt;
  return confirm(call.cluster, call.answer, terms_.durable_time);
}

Work Surface::Core::route_v1(Call& call, Group& group) {
  group = Group::state;
  auto what = next_part(call.rest);
  if (what == "nodes") {
    nodes(call);
  } else if (what == "streams") {
    streams(call);
  } else if (what == "artifacts") {
    artifacts(call);
  } else {
    group = Group::operators;
    return look(call, what);
  }
  return confirmed(call);
}

Work Surface::Core::route(Call& call, Group& group) {
  auto name = next_part(call.rest);
  if (name == "play" || name == "resolve") {
    group = Group::viewers;
    call.answer.headers = any_origin;
    return play(call);
  }
  group = Group::operators;
  if (name == "v1") return route_v1(call, group);
  if (name == "nodes") {
    operations(call);
    return confirmed(call);
  }
  if (probe(call, name)) return std::nullopt;
  if (!call.rest.empty() && call.rest != "/") {
    refuse(call.answer, 404, "NOT_FOUND", "there is no such route");
    return std::nullopt;
  }
  group = Group::balancer;
  call.answer.headers = any_origin;
  if (!name.empty()) return stream_host(call, percent_decoded(name).value_or(""));
  ask_balancer(call);
  return std::nullopt;
}

Work Surface::Core::answer(const HttpRequest& request, HttpAnswer& answer) {
  auto client = client_of(request, terms_.proxies);
  // Who was forwarded may call himself anything.
  bool is_limited = client != request.client || !client.is_loopback();
  if (is_limited && !limit_.admits(client, Clock::now())) {
    ++limited_;
    answer.headers = any_origin;
    refuse(answer, 429, "TOO_MANY_REQUESTS", "there are more requests from here than allowed");
    answer.add("Retry-After", "1");
    return std::nullopt;
  }
  if (request.path == "*") return std::nullopt;  // the preface of HTTP/2
  if (request.method == "OPTIONS") {
    answer.headers = any_origin;
    return std::nullopt;
  }
  auto path = request.path;
  std::string id(clusters_.size() > 1 ? request.header("x-cluster-id") : "");
  if (path.starts_with("/clusters/")) {
    path.remove_prefix(9);
    id = percent_decoded(next_part(path)).value_or("");
  }
  auto* served = id.empty() ? &clusters_.front() : find(id);
  if (!served) {
    refuse(answer, 404, "NOT_FOUND", fmt::format("this instance does not serve cluster {}", id));
    return std::nullopt;
  }
  Call call{request,         answer, terms_, *served->of.cluster, served->of.federation,
            served->outputs, client, path};
  auto group = Group::operators;
  auto work = route(call, group);
  std::size_t pages = answer.body.size() / 8192;  // a small answer costs nothing more
  if (is_limited) limit_.charge(client, call.cost + static_cast<double>(pages));
  if (work) return counted(*this, group, answer, *std::move(work));
  count(group, answer.status);
  return std::nullopt;
}

HttpTerms Surface::Core::http_terms(std::string address, unsigned short port) const {
  HttpTerms terms;
  terms.address = std::move(address);
  terms.port = port;
  terms.most_connections = most_connections;
  terms.is_for_this_machine = false;
  terms.headers = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n";
  terms.most_body = most_report_bytes;
  terms.most_from = [this](const asio::ip::address& client) {
    bool is_many = client.is_loopback() || std::ranges::count(terms_.proxies, client) > 0;
    return is_many ? most_connections : most_from_one;
  };
  // Who may change nothing gets little memory.
  terms.body_limit = [this](const HttpRequest& head) {
    return is_trusted(head, terms_) ? most_report_bytes : small_body;
  };
  return terms;
}

Surface::Surface(std::vector<ServedCluster> clusters, Metrics& metrics, SurfaceTerms terms)
    : core_(std::make_unique<Core>(std::move(clusters), metrics, std::move(terms))) {}
Surface::~Surface() = default;

HttpTerms Surface::http_terms(std::string address, unsigned short port) const {
  return core_->http_terms(std::move(address), port);
}
HttpServer::Work Surface::answer(const HttpRequest& request, HttpAnswer& answer) {
  return core_->answer(request, answer);
}
bool Surface::is_ready() const { return core_->is_ready(); }

}  // namespace warren::foghorn
