#include "services/session/serve/service.h"

#include <unistd.h>

#include <boost/json.hpp>

#include "base/log.h"
#include "base/uuid.h"
#include "net/http/admission.h"
#include "net/http/target.h"
#include "services/session/names.h"
#include "services/session/serve/request.h"

namespace warren::session {

namespace json = boost::json;

namespace {

constexpr auto change_time = 90s;
constexpr auto agent_time = 10s;
constexpr auto ping_every = 2s, ping_time = 2s;
constexpr std::size_t most_log = 4096;
constexpr std::size_t most_batch = 1000;
constexpr std::size_t most_conversations = 4u << 20;
// No body of a stream is too long; but a number that adds up with others.
constexpr std::uint64_t any_length = std::uint64_t{1} << 50;

void put_error(HttpAnswer& answer, const Error& error) {
  answer.status = status_for(error);
  if (answer.status == 503 || answer.status == 429) answer.add("Retry-After", "1");
  answer.body = error_json(word_for(error), error.what);
}

HttpServer::Work refuse(HttpAnswer& answer, int status, std::string_view word,
                        std::string_view what) {
  answer.status = status;
  answer.body = error_json(word, what);
  return std::nullopt;
}

std::string new_replica_id() { return fmt::format("{}-{}", ::getpid(), uuid4().substr(0, 8)); }

// Repeated, or in one value with commas.
std::vector<std::string> ids_of(std::string_view query) {
  std::vector<std::string> ids;
  for (auto& value : query_values(query, "ids")) {
    if (!value) continue;
    std::string_view rest = *value;
    while (!rest.empty()) {
      auto id = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), id.size() + 1));
      if (!id.empty()) ids.emplace_back(id);
    }
  }
  return ids;
}

bool is_post_of_ours(std::string_view path) {
  return path == "/start" || path == "/stop" || path == "/pause" || path == "/resume" ||
         path == "/build" || path == "/sessions/batch-conversations" || path == "/force-release";
}

}  // namespace

Result<std::unique_ptr<Service>> Service::create(const asio::any_io_executor& executor,
                                                 Driver& driver, redis::Client* redis,
                                                 ServiceSettings settings, Metrics& metrics,
                                                 Telling::Sink sink) {
  if (settings.api_key.empty())
    return fail(
        Errc::invalid,
        "there is no API key: set SESSION_SERVICE_API_KEY, or SESSION_SERVICE_API_KEY_FILE");
  std::unique_ptr<Service> service(
      new Service(executor, driver, redis, std::move(settings), metrics, std::move(sink)));
  if (auto listens = service->listen(); !listens) return std::unexpected(listens.error());
  service->assemble();
  return service;
}

Service::Service(const asio::any_io_executor& executor, Driver& driver, redis::Client* redis,
                 ServiceSettings settings, Metrics& metrics, Telling::Sink sink)
    : executor_(executor),
      driver_(driver),
      redis_(redis),
      settings_(std::move(settings)),
      metrics_(metrics),
      actor_{settings_.sessions.name_space, new_replica_id()},
      telling_(metrics, actor_, redis != nullptr, std::move(sink)),
      agents_(executor, {.most_connections = 4}),
      accounts_(executor, [this](std::string name) { return account_of(std::move(name)); }) {}

Result<> Service::listen() {
  auto terms = settings_.http;
  terms.headers = "";  // the proxy's answers have those of the sandbox
  // What is too long is told so in JSON, unless it is far too long.
  terms.most_body = 2 * most_body;
  terms.request_time = 60s;
  terms.stream_limit = [](const HttpRequest& head) -> std::uint64_t {
    if (head.path == "/build") return any_length;
    bool is_proxied = route_of(head.path, head.query).has_value();
    return is_proxied && !is_upgrade(head) ? any_length : 0;
  };
  terms.names = settings_.host_names;
  if (!settings_.public_url.empty()) {
    auto url = parse_web_url(settings_.public_url);
    if (!url) return fail(Errc::invalid, "the public URL: {}", url.error().what);
    terms.names.push_back(url->host);
  }
  auto handler = [this](const HttpRequest& request, HttpAnswer& answer) {
    return handle(request, answer);
  };
  auto server = HttpServer::listen(executor_, std::move(terms), std::move(handler));
  if (!server) return std::unexpected(server.error());
  http_ = *std::move(server);
  public_.base = settings_.public_url.empty() ? http_->url() : settings_.public_url;
  while (public_.base.ends_with('/')) public_.base.pop_back();
  return ok;
}

// What has to be closed once it is there.
void Service::assemble() {
  if (redis_) {
    once_ = std::make_unique<Once>(
        *redis_, once_terms(actor_, settings_.lock_ttl, settings_.sessions.needs_redis),
        actor_.replica_id);
    LeaseRoom room{"openhands:{keeper}:", "openhands:{keeper}:"};
    leases_ = std::make_unique<LeaseSession>(*redis_, 15s, room);
    published_.push_back(redis_->publish(metrics_));
    published_.push_back(once_->publish(metrics_));
  }
  sessions_ =
      std::make_unique<Sessions>(executor_, driver_, once_.get(), settings_.sessions, telling_);
  housekeeping_ = std::make_unique<Housekeeping>(executor_, *sessions_, redis_,
                                                 settings_.housekeeping, telling_);
  proxy_ = std::make_unique<Proxy>(executor_, *sessions_, settings_.proxy, metrics_);
}

awaitable<void> Service::run() {
  auto body = [](TaskGroup& tasks, Service& self) -> awaitable<Result<>> {
    self.tasks_ = &tasks;
    tasks.start("session.sessions", self.sessions_->run());
    tasks.start("session.housekeeping", self.keep_house());
    if (self.redis_) tasks.start("session.redis", self.watch_redis());
    co_await self.http_->run();
    co_return ok;
  };
  struct AtEnd {
    Service& self;
    ~AtEnd() { self.tasks_ = nullptr; }
  } at_end{*this};
  std::ignore = co_await with_group(body, *this);
}

// One replica at a time, where several coordinate. Without Redis a lone one goes on.
Async<> Service::keep_house() {
  if (!redis_) co_return co_await housekeeping_->run();
  ElectionTerms terms{.key = "openhands:{keeper}:leader", .candidate = actor_.replica_id};
  Election election(*leases_, std::move(terms));
  std::function<Async<>(Term)> reign = [this](Term) { return housekeeping_->run(); };
  co_return co_await election.campaign(std::move(reign));
}

awaitable<void> Service::watch_redis() {
  for (;;) {
    auto options = redis::CallOptions().idempotent().on_any_node().within(ping_time);
    auto reply = co_await redis_->ask(redis::Command("PING"), options);
    has_redis_ = reply && redis_->has_primary();
    telling_.coordinated(has_redis_);
    sessions_->set_coordinated(has_redis_);
    co_await sleep_for(ping_every);
  }
}

awaitable<void> Service::close() {
  if (once_) co_await once_->close();
  if (leases_) co_await leases_->close();
}

HttpServer::Work Service::handle(const HttpRequest& request, HttpAnswer& answer) {
  if (auto route = route_of(request.path, request.query))
    return proxy_->pass(request, answer, *std::move(route));
  answer.type = "application/json";
  answer.add("Cache-Control", "no-store");
  if (answer_open(request, answer)) return std::nullopt;
  auto key = request.header("x-api-key");
  if (key.empty()) key = bearer_token(request.header("authorization"));
  if (!same_secret(key, settings_.api_key))
    return refuse(answer, 401, "unauthorized", "show the API key: X-API-Key");
  if (request.body.size() > most_body)
    return refuse(answer, 413, "too_large", "a body here has at most 1 MB");
  if (request.method == "POST") return handle_post(request, answer);
  if (request.method == "GET" || request.method == "HEAD") return handle_get(request, answer);
  return refuse(answer, 405, "method_not_allowed", "use GET or POST");
}

// What probes ask. True: it is answered.
bool Service::answer_open(const HttpRequest& request, HttpAnswer& answer) {
  if (request.path == "/liveness" || request.path == "/health") {
    answer.body = R"({"status":"ok"})";
  } else if (request.path == "/readiness") {
    bool is_ready = sessions_->is_ready();
    answer.status = is_ready ? 200 : 503;
    answer.body = json::serialize(json::object{{"status", is_ready ? "ready" : "starting"},
                                               {"driver", driver_.kind()},
                                               {"coordination", !redis_      ? "off"
                                                                : has_redis_ ? "redis"
                                                                             : "degraded"}});
  } else if (request.path == "/metrics") {
    answer.type = "text/plain; version=0.0.4; charset=utf-8";
    answer.body = metrics_.exposition();
  } else {
    return false;
  }
  return true;
}

HttpServer::Work Service::handle_post(const HttpRequest& request, HttpAnswer& answer) {
  if (request.path == "/build")
    return refuse(answer, 501, "not_implemented",
                  "this server builds no images: name one that exists (runtime_container_image)");
  if (!is_post_of_ours(request.path))
    return refuse(answer, 404, "not_found", "there is no such route");
  if (request.path == "/start") {
    auto spec = start_from(request.body, settings_.sessions.name_space);
    if (!spec) put_error(answer, spec.error());
    return spec ? HttpServer::Work(answer_start(*std::move(spec), answer)) : std::nullopt;
  }
  if (request.path == "/sessions/batch-conversations") {
    auto asked = conversations_from(request.body);
    if (!asked) put_error(answer, asked.error());
    return asked ? HttpServer::Work(answer_conversations(*std::move(asked), answer)) : std::nullopt;
  }
  if (request.path == "/force-release") {
    auto session_id = session_id_from(request.body);
    if (!session_id) put_error(answer, session_id.error());
    return session_id ? HttpServer::Work(answer_release(*std::move(session_id), answer))
                      : std::nullopt;
  }
  auto runtime_id = runtime_id_from(request.body);
  if (!runtime_id) {
    put_error(answer, runtime_id.error());
    return std::nullopt;
  }
  return answer_change(std::string(request.path.substr(1)), *std::move(runtime_id), answer);
}

HttpServer::Work Service::handle_get(const HttpRequest& request, HttpAnswer& answer) {
  auto rest = request.path;
  auto first = next_part(rest);
  auto second = percent_decoded(rest.empty() ? rest : rest.substr(1));
  if (request.path == "/list") {
    auto views = sessions_->all();
    std::erase_if(views, [](const View& view) { return view.standing == Standing::stopped; });
    answer.body = list_json(views, public_);
  } else if (request.path == "/sessions/batch") {
    put_batch(request, answer);
  } else if (first == "runtime" && second && !second->empty()) {
    return answer_runtime(*std::move(second), answer);
  } else if (first == "sessions" && second && !second->empty()) {
    return answer_session(*std::move(second), answer);
  } else if (request.path == "/registry_prefix") {
    answer.body = json::serialize(json::object{{"registry_prefix", settings_.registry_prefix}});
  } else if (request.path == "/image_exists") {
    auto image = query_value(request.query, "image");
    if (!image || image->empty()) return refuse(answer, 400, "invalid_request", "image is missing");
    json::object object{{"exists", driver_.has_image(*image)}};
    if (driver_.has_image(*image))
      object["image"] =
          json::object{{"upload_time", "1970-01-01T00:00:00Z"}, {"image_size_bytes", 0}};
    answer.body = json::serialize(object);
  } else if (request.path == "/build_status") {
    return refuse(answer, 501, "not_implemented", "this server builds no images");
  } else {
    return refuse(answer, 404, "not_found", "there is no such route");
  }
  return std::nullopt;
}

void Service::put_batch(const HttpRequest& request, HttpAnswer& answer) const {
  auto ids = ids_of(request.query);
  if (ids.size() > most_batch) {
    answer.status = 400;
    answer.body = error_json("invalid_request", fmt::format("ask for {} ids at most", most_batch));
    return;
  }
  std::vector<View> views;
  for (const auto& id : ids)
    if (auto view = sessions_->view_of_session(id)) views.push_back(*std::move(view));
  answer.body = runtimes_json(views, public_);
}

// The driver may have to ask a server, which may be slow: a poll does not wait for that.
awaitable<View> Service::with_account(View view) {
  bool may_be_asked_why = view.standing == Standing::starting ||
                          view.standing == Standing::failed ||
                          view.standing == Standing::crash_looping;
  if (!may_be_asked_why || !tasks_) co_return view;
  auto account = co_await accounts_.of(*tasks_, view.name, view.incarnation);
  view.log = std::move(account.log);
  view.events = std::move(account.events);
  co_return view;
}

awaitable<Account> Service::account_of(std::string name) {
  Account account;
  auto tail = co_await driver_.log_tail(name, most_log);
  if (tail) account.log = *std::move(tail);
  auto events = co_await driver_.events(std::move(name));
  if (events) account.events = *std::move(events);
  co_return account;
}

awaitable<void> Service::answer_start(SandboxSpec spec, HttpAnswer& answer) {
  auto view = co_await sessions_->start(std::move(spec), Clock::now() + settings_.start_deadline);
  if (!view) co_return put_error(answer, view.error());
  answer.body = runtime_json(*view, public_);
}

awaitable<void> Service::answer_change(std::string verb, std::string runtime_id,
                                       HttpAnswer& answer) {
  auto known = sessions_->view_of_runtime(runtime_id);
  if (!known) co_return put_error(answer, Error{Errc::not_found, "Runtime not found"});
  if (verb == "resume") {
    auto view = co_await sessions_->resume(known->name, Clock::now() + settings_.start_deadline);
    if (!view) co_return put_error(answer, view.error());
    answer.body = runtime_json(*view, public_);
    co_return;
  }
  auto deadline = Clock::now() + change_time;
  Result<> changed = ok;
  if (verb == "pause")
    changed = co_await sessions_->pause(known->name, deadline);
  else
    changed = co_await sessions_->stop(known->name, deadline);
  if (!changed) co_return put_error(answer, changed.error());
  auto status = verb == "pause" ? "paused" : "stopped";
  answer.body = json::serialize(json::object{{"runtime_id", runtime_id}, {"status", status}});
}

awaitable<void> Service::answer_release(std::string session_id, HttpAnswer& answer) {
  auto deadline = Clock::now() + change_time;
  auto released = co_await sessions_->force_release(name_of(session_id), deadline);
  if (!released) co_return put_error(answer, released.error());
  answer.body = json::serialize(json::object{{"session_id", session_id}, {"record", *released}});
}

awaitable<void> Service::answer_runtime(std::string runtime_id, HttpAnswer& answer) {
  auto view = sessions_->view_of_runtime(runtime_id);
  if (!view) co_return put_error(answer, Error{Errc::not_found, "Runtime not found"});
  auto whole = co_await with_account(*std::move(view));
  answer.body = runtime_json(whole, public_);
}

awaitable<void> Service::answer_session(std::string session_id, HttpAnswer& answer) {
  auto view = sessions_->view_of_session(session_id);
  if (!view) co_return put_error(answer, Error{Errc::not_found, "Session not found"});
  auto whole = co_await with_account(*std::move(view));
  answer.body = runtime_json(whole, public_);
}

// What the agent says of them, as it says it.
Async<std::string> Service::conversations_of(Sandbox sandbox, std::vector<std::string> ids) {
  auto at = sandbox.endpoints.find(Door::runtime);
  if (at == sandbox.endpoints.end()) co_return fail(Errc::unavailable, "it has no agent");
  HttpUrl url{.host = at->second.host, .port = std::to_string(at->second.port), .path = ""};
  HttpAsk ask{"GET", "/api/conversations?"};
  for (const auto& id : ids) ask.target += "ids=" + percent_encoded(id) + "&";
  ask.target.pop_back();
  ask.headers = "X-Session-API-Key: " + sandbox.spec.key + "\r\n";
  auto deadline = Clock::now() + agent_time;
  auto peer = sessions_->peer(sandbox, at->second);
  auto reply = co_await agents_.ask(std::move(url), std::move(ask), deadline, most_conversations,
                                    std::move(peer));
  if (!reply) co_return std::unexpected(reply.error());
  if (reply->status != 200) co_return fail(Errc::refused, "the agent answers {}", reply->status);
  co_return std::move(reply->body);
}

awaitable<void> Service::answer_conversations(std::map<std::string, std::vector<std::string>> asked,
                                              HttpAnswer& answer) {
  json::object all;
  for (auto& [runtime_id, ids] : asked) {
    const auto* sandbox = sessions_->sandbox_of_runtime(runtime_id);
    if (!sandbox || !sessions_->is_reachable(*sandbox) || ids.empty()) continue;
    auto said = co_await conversations_of(*sandbox, std::move(ids));
    boost::system::error_code error;
    auto value = said ? json::parse(*said, error) : json::value(json::array());
    all[runtime_id] = error ? json::value(json::array()) : std::move(value);
  }
  answer.body = json::serialize(all);
}

}  // namespace warren::session
