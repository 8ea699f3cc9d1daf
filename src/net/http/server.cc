#include "net/http/server.h"

#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/redirect_error.hpp>

#include "base/log.h"
#include "net/http/connection.h"

namespace warren {

using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr int most_compared = 64;
// A connection this young may not have had time to send anything.
constexpr auto fresh_time = 1s;

// Whom an address belongs to, as far as one can see: the /64 of IPv6.
asio::ip::address customer(const asio::ip::address& client) {
  if (client.is_v4()) return client;
  auto bytes = client.to_v6().to_bytes();
  std::fill(bytes.begin() + 8, bytes.end(), 0);
  return asio::ip::address_v6(bytes);
}

}  // namespace

HttpServer::HttpServer(tcp::acceptor acceptor, HttpTerms terms, Handler handler)
    : acceptor_(std::move(acceptor)),
      terms_(std::move(terms)),
      handler_(std::move(handler)),
      port_(acceptor_.local_endpoint().port()),
      fewer_(acceptor_.get_executor()) {
  look_at_clock();
}

HttpServer::~HttpServer() { end_all(); }

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const asio::any_io_executor& executor,
                                                       HttpTerms terms, Handler handler) {
  error_code error;
  auto ip = asio::ip::make_address(terms.address, error);
  tcp::acceptor acceptor(executor);
  tcp::endpoint endpoint(ip, terms.port);
  if (!error) acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  // [::] hears IPv4 as well.
  if (!error && ip.is_v6()) acceptor.set_option(asio::ip::v6_only(false), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error)
    return fail(Errc::unavailable, "cannot listen on {}:{}: {}", terms.address, terms.port,
                error.message());
  return std::unique_ptr<HttpServer>(
      new HttpServer(std::move(acceptor), std::move(terms), std::move(handler)));
}

std::string HttpServer::url() const {
  auto ip = asio::ip::make_address(terms_.address);
  auto host = ip.is_v6() ? "[" + ip.to_string() + "]" : ip.to_string();
  return fmt::format("{}://{}:{}/", terms_.tls ? "https" : "http", host, port_);
}

awaitable<void> HttpServer::run() {
  struct AtEnd {
    HttpServer& server;
    ~AtEnd() {
      server.tasks_ = nullptr;
      server.end_all();
    }
  } at_end{*this};
  auto accepting = [](TaskGroup& tasks, HttpServer& self) -> Async<> { return self.accept(tasks); };
  auto ended = co_await with_group(accepting, *this);
  if (!ended) log::debug("http.ended", "why", ended.error().what);
}

Async<> HttpServer::accept(TaskGroup& tasks) {
  tasks_ = &tasks;
  tasks.start("http.sweep", sweep());
  for (;;) {
    error_code error;
    auto socket = co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return fail(Errc::cancelled, "the server is stopped");
    if (is_draining_) {
      Event never(co_await asio::this_coro::executor);
      co_await never.wait();
    } else if (error) {
      log::warn("http.accept_failed", "why", error.message());
      co_await sleep_for(100ms);  // out of descriptors, for one
    } else {
      welcome(std::move(socket));
    }
  }
}

void HttpServer::welcome(tcp::socket socket) {
  error_code error;
  auto peer = socket.remote_endpoint(error);
  if (error) return;  // gone already
  auto ip = peer.address();
  if (ip.is_v6() && ip.to_v6().is_v4_mapped())
    ip = asio::ip::make_address_v4(asio::ip::v4_mapped, ip.to_v6());
  if (!has_room_for(ip)) {
    ++counters_.turned_away;
    return;
  }
  socket.set_option(tcp::no_delay(true), error);
  socket.non_blocking(true, error);
  if (error) return;
  ++counters_.accepted;
  ++by_client_[customer(ip)];
  auto& idle = doing(Doing::idle);
  idle.push_front(std::make_shared<HttpConnection>(*this, std::move(socket), ip));
  auto made = idle.front();
  made->start(idle.begin());
}

bool HttpServer::has_room_for(const asio::ip::address& client) {
  auto known = by_client_.find(customer(client));
  if (terms_.most_from && known != by_client_.end() && known->second >= terms_.most_from(client))
    return false;
  if (connection_count() < terms_.most_connections) return true;
  auto one = dispensable();
  if (one) one->leave();
  return one != nullptr;
}

// The connection that has been idle for longest. If even that one has only just arrived, one whose request
// is incomplete: among the oldest of those, one of the address with the most connections.
std::shared_ptr<HttpConnection> HttpServer::dispensable() const {
  const auto& idle = doing(Doing::idle);
  const auto& asking = doing(Doing::asking);
  bool is_fresh = !idle.empty() && idle.back()->since() + fresh_time >= now_;
  if (!idle.empty() && (!is_fresh || asking.empty())) return idle.back();
  std::shared_ptr<HttpConnection> found;
  std::size_t most = 0;
  int compared = 0;
  for (auto each = asking.rbegin(); each != asking.rend() && compared < most_compared; ++each) {
    ++compared;
    auto count = by_client_.at(customer((*each)->client()));
    if (count > most) {
      most = count;
      found = *each;
    }
  }
  return found;
}

std::size_t HttpServer::connection_count() const {
  std::size_t count = 0;
  for (const auto& some : connections_) count += some.size();
  return count;
}

void HttpServer::does(Connections::iterator connection, Doing before, Doing now) {
  doing(now).splice(doing(now).begin(), doing(before), connection);
}

void HttpServer::ended(Connections::iterator connection, Doing what) {
  auto known = by_client_.find(customer((*connection)->client()));
  if (--known->second == 0) by_client_.erase(known);
  doing(what).erase(connection);
  fewer_.notify();
}

void HttpServer::end_all() {
  for (auto& some : connections_)
    while (!some.empty()) {
      auto last = some.front();
      last->leave();
    }
}

void HttpServer::look_at_clock() {
  now_ = Clock::now();
  auto seconds = std::chrono::floor<std::chrono::seconds>(WallClock::now());
  auto parts = std::chrono::system_clock::to_time_t(seconds);
  std::tm utc{};
  gmtime_r(&parts, &utc);
  std::array<char, 64> text{};
  auto size = std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &utc);
  date_.assign(text.data(), size);
}

awaitable<void> HttpServer::sweep() {
  auto interval =
      std::min({Clock::duration(1s), Clock::duration(terms_.idle_time / 4),
                Clock::duration(terms_.request_time / 4), Clock::duration(terms_.head_time / 4)});
  for (;;) {
    co_await sleep_for(interval);
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return;
    look_at_clock();
    for (auto& some : connections_)
      for (auto next = some.begin(); next != some.end();) {
        auto connection = *next++;
        if (!connection->is_late(now_)) continue;
        ++counters_.timeouts;
        connection->leave();
      }
  }
}

awaitable<void> HttpServer::drain(Clock::time_point deadline) {
  is_draining_ = true;
  error_code ignored;
  acceptor_.close(ignored);
  auto& idle = doing(Doing::idle);
  for (auto next = idle.begin(); next != idle.end();) {
    auto connection = *next++;
    connection->leave();
  }
  while (connection_count() > 0 && Clock::now() < deadline) co_await fewer_.wait(deadline);
}

HttpServer::Counters HttpServer::counters() const {
  auto counters = counters_;
  counters.connections = connection_count();
  return counters;
}

HttpServer::Handler reading(std::function<HttpAnswer(const HttpRequest&)> answer) {
  return [answer = std::move(answer)](const HttpRequest& request,
                                      HttpAnswer& into) -> HttpServer::Work {
    bool reads = request.method == "GET" || request.method == "HEAD";
    into = reads ? answer(request) : HttpAnswer{.status = 405, .body = "only GET and HEAD\n"};
    if (!reads) into.add("Allow", "GET, HEAD");
    return std::nullopt;
  };
}

// localhost, or the address itself; with or without the port. Of the other names the port is that of
// whoever passes requests on.
bool HttpServer::is_here(std::string_view host) const {
  auto colon = host.rfind(':');
  auto digits = colon == host.npos ? std::string_view() : host.substr(colon + 1);
  bool has_port = colon != host.npos && digits.find_first_not_of("0123456789") == digits.npos;
  auto bare = has_port ? host.substr(0, colon) : host;
  for (const auto& name : terms_.names)
    if (same_word(bare, name) || same_word(bare, "[" + name + "]")) return true;
  for (const auto& name : {std::string("localhost"), terms_.address, "[" + terms_.address + "]"})
    if (host == name || host == fmt::format("{}:{}", name, port_)) return true;
  return false;
}

}  // namespace warren
