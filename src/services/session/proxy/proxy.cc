#include "services/session/proxy/proxy.h"

#include <charconv>

#include "base/log.h"
#include "net/http/admission.h"
#include "services/session/serve/answer.h"

namespace warren::session {

namespace {

constexpr auto longest_call = 24h * 7;
constexpr auto longest_silence = 1h;  // within an answer: of streams of events

std::uint64_t length_in(std::string_view text, bool& is_there) {
  std::uint64_t length = 0;
  auto read = std::from_chars(text.data(), text.data() + text.size(), length);
  is_there = !text.empty() && read.ec == std::errc() && read.ptr == text.data() + text.size();
  return length;
}

// How the body of a request ends, if it has one.
std::optional<BodyEnd> body_of_request(const HttpRequest& request) {
  if (!request.header("transfer-encoding").empty()) return chunked;
  bool is_there = false;
  auto length = length_in(request.header("content-length"), is_there);
  if (!is_there || length == 0) return std::nullopt;
  return body_of(length);
}

void put_error(HttpAnswer& answer, int status, std::string_view word, std::string_view what) {
  answer.clear();
  answer.status = status;
  answer.type = "application/json";
  answer.body = error_json(word, what);
  if (status == 503) answer.add("Retry-After", "1");
}

bool is_probe(const Route& route) {
  auto path = std::string_view(route.target).substr(0, route.target.find('?'));
  return route.door == Door::runtime && (path == "/alive" || path == "/health");
}

}  // namespace

bool is_upgrade(const HttpRequest& request) { return !request.header("upgrade").empty(); }

Proxy::Proxy(const asio::any_io_executor& executor, Sessions& sessions, ProxyTerms terms,
             Metrics& metrics)
    : sessions_(sessions),
      terms_(terms),
      pool_(executor, {.most_connections = 1024,
                       .idle_time = 10s,
                       .piece_time = longest_silence,
                       .most_body = std::uint64_t{1} << 50}),
      ending_(executor),
      requests_(
          metrics.counter("warren_session_proxied_total", "Requests passed on to sandboxes.")),
      upgrades_(
          metrics.counter("warren_session_upgraded_total", "Connections passed on to sandboxes.")),
      failures_(metrics.counter("warren_session_proxy_failures_total",
                                "Requests that a sandbox did not answer.")),
      open_(metrics.gauge("warren_session_proxied_open", "Requests and connections under way.")) {}

awaitable<void> Proxy::pass(const HttpRequest& request, HttpAnswer& answer, Route route) {
  requests_.add();
  open_.add(1);
  struct AtEnd {
    Gauge& open;
    ~AtEnd() { open.add(-1); }
  } at_end{open_};
  auto sandbox = co_await find(request, route);
  if (!sandbox) {
    int status = sandbox.error().code == Errc::denied ? 401 : status_for(sandbox.error());
    co_return put_error(answer, status == 504 ? 503 : status, word_for(sandbox.error()),
                        sandbox.error().what);
  }
  sessions_.touch(*sandbox);
  Sessions::Use use(sessions_, sandbox->spec.name);
  auto passed = co_await forward(request, answer, route, *sandbox);
  if (passed || passed.error().code == Errc::cancelled) co_return;
  failures_.add();
  log::debug("session.pass_failed", "pod", sandbox->spec.name, "why", passed.error().what);
}

Async<Sandbox> Proxy::find(const HttpRequest& request, const Route& route) {
  const auto* sandbox = sessions_.sandbox_of_runtime(route.runtime_id);
  if (!sandbox) co_return fail(Errc::not_found, "Runtime not found");
  bool has_key = same_secret(key_shown(request), sandbox->spec.key);
  if (terms_.requires_key && !has_key && !is_probe(route))
    co_return fail(Errc::denied, "show the session's key: X-Session-API-Key");
  bool is_open = sessions_.is_reachable(*sandbox);
  if (is_open) co_return *sandbox;
  if (!has_key || !terms_.resumes)
    co_return fail(Errc::unavailable, "the runtime is {}: resume it, or show its session key",
                   name(sandbox->phase));
  auto view = co_await sessions_.resume(sandbox->spec.name, Clock::now() + terms_.hold);
  if (!view) co_return std::unexpected(view.error());
  sandbox = sessions_.sandbox_of_runtime(route.runtime_id);
  if (!sandbox || !sessions_.is_reachable(*sandbox))
    co_return fail(Errc::unavailable, "the runtime is starting: try again");
  co_return *sandbox;
}

Async<> Proxy::forward(const HttpRequest& request, HttpAnswer& answer, const Route& route,
                       const Sandbox& sandbox) {
  using namespace asio::experimental::awaitable_operators;
  auto at = sandbox.endpoints.find(route.door);
  if (at == sandbox.endpoints.end()) {
    put_error(answer, 404, "service_not_found", "the runtime has no such service");
    co_return ok;
  }
  HttpUrl url{.host = at->second.host, .port = std::to_string(at->second.port), .path = ""};
  bool upgrades = is_upgrade(request);
  HttpAsk ask{std::string(request.method), route.target,
              headers_to_sandbox(request, route, upgrades)};
  auto body = upgrades ? std::nullopt : body_of_request(request);
  auto deadline = Clock::now() + longest_call;
  auto peer = sessions_.peer(sandbox, at->second);
  auto call = co_await pool_.begin(std::move(url), std::move(ask), body, deadline, std::move(peer));
  if (!call) {
    bool is_gone = call.error().code == Errc::unavailable;
    if (is_gone && route.door == Door::runtime) sessions_.doubt(sandbox);
    int status = is_gone ? 502 : status_for(call.error());
    put_error(answer, status, "unreachable", "the runtime does not answer: " + call.error().what);
    co_return std::unexpected(call.error());
  }
  auto head = with_deadline(Clock::now() + terms_.answer_time, (*call)->answer());
  Result<HttpReply> reply = fail(Errc::unknown_outcome, "it has not answered");
  if (body) {
    // It may answer before it has heard all; then what it has not heard does not matter.
    auto both = co_await (copy(request.exchange->in(), (*call)->out(), sandbox) && std::move(head));
    reply = std::move(std::get<1>(both));
  } else {
    reply = co_await std::move(head);
  }
  if (!reply) {
    int status = reply.error().code == Errc::timeout ? 504 : 502;
    put_error(answer, status, "unreachable", "the runtime does not answer: " + reply.error().what);
    co_return std::unexpected(reply.error());
  }
  co_return co_await answer_with(**call, *std::move(reply), request, answer, route, sandbox);
}

Async<> Proxy::answer_with(HttpCall& call, HttpReply reply, const HttpRequest& request,
                           HttpAnswer& answer, const Route& route, const Sandbox& sandbox) {
  if (reply.status == 101) co_return co_await join(call, reply, request, answer, route, sandbox);
  answer.status = reply.status;
  auto type = std::string(reply.header("content-type"));
  answer.type = type;
  answer.headers = headers_to_client(reply.headers, route, request.header("host"), false);
  bool has_length = false;
  auto length = length_in(reply.header("content-length"), has_length);
  auto& out = request.exchange->begin(has_length ? std::optional(length) : std::nullopt);
  co_return co_await copy(call.in(), out, sandbox);
}

Async<> Proxy::join(HttpCall& call, const HttpReply& reply, const HttpRequest& request,
                    HttpAnswer& answer, const Route& route, const Sandbox& sandbox) {
  using namespace asio::experimental::awaitable_operators;
  answer.headers = headers_to_client(reply.headers, route, request.header("host"), true);
  auto upgraded = co_await request.exchange->upgrade(std::string(reply.header("upgrade")));
  if (!upgraded) co_return upgraded;
  upgrades_.add();
  // When one side ends, so does the other: a WebSocket is closed by both.
  FrameTracker frames;
  auto ended =
      co_await (copy(request.exchange->in(), call.out(), sandbox) ||
                copy(call.in(), request.exchange->out(), sandbox, &frames) || until_ending());
  bool may_speak = same_word(reply.header("upgrade"), "websocket") && frames.is_between_frames();
  if (ended.index() == 2 && may_speak) co_return co_await request.exchange->out().write(going_away);
  co_return std::visit([](auto& result) { return std::move(result); }, ended);
}

void Proxy::end_sockets() {
  is_ending_ = true;
  ending_.notify();
}

Async<> Proxy::until_ending() {
  while (!is_ending_) {
    co_await ending_.wait();
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return fail(Errc::cancelled, "the connection ended");
  }
  co_return ok;
}

Async<> Proxy::copy(BodyReader& from, BodyWriter& to, const Sandbox& sandbox,
                    FrameTracker* frames) {
  for (;;) {
    auto piece = co_await from.read();
    if (!piece) co_return std::unexpected(piece.error());
    if (piece->empty()) co_return co_await to.end();
    sessions_.touch(sandbox);
    if (frames) frames->feed(*piece);
    auto written = co_await to.write(*piece);
    if (!written) co_return written;
  }
}

}  // namespace warren::session
