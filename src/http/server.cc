#include "http/server.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

#include "base/log.h"

namespace warren {

namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;

namespace {

constexpr std::size_t most_connections = 64;
constexpr std::size_t most_header_bytes = 16u << 10;
constexpr auto patience = std::chrono::seconds(10);  // with one request and its answer

using Request = http::request<http::empty_body>;
using Response = http::response<http::string_body>;

HttpAnswer plain(int status, std::string text) {
  return {.status = status, .body = std::move(text) + "\n"};
}

Response response_to(const Request& request, HttpAnswer answer) {
  Response response{static_cast<http::status>(answer.status), request.version()};
  response.set(http::field::content_type, answer.type);
  response.set(http::field::cache_control, "no-store");
  response.set("X-Content-Type-Options", "nosniff");
  response.set("Content-Security-Policy", "default-src 'self'; style-src 'unsafe-inline'");
  response.keep_alive(request.keep_alive());
  response.body() = std::move(answer.body);
  response.prepare_payload();
  if (request.method() == http::verb::head) response.body().clear();  // its length stays
  return response;
}

}  // namespace

HttpServer::HttpServer(tcp::acceptor acceptor, Handler handler)
    : acceptor_(std::move(acceptor)),
      handler_(std::move(handler)),
      port_(acceptor_.local_endpoint().port()) {}

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const asio::any_io_executor& executor,
                                                       const std::string& address,
                                                       unsigned short port, Handler handler) {
  boost::system::error_code error;
  auto ip = asio::ip::make_address(address, error);
  tcp::acceptor acceptor(executor);
  tcp::endpoint endpoint(ip, port);
  if (!error) acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error)
    return fail(Errc::unavailable, "cannot listen on {}:{}: {}", address, port, error.message());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(acceptor), std::move(handler)));
}

std::string HttpServer::url() const {
  auto ip = acceptor_.local_endpoint().address();
  return fmt::format(fmt::runtime(ip.is_v6() ? "http://[{}]:{}/" : "http://{}:{}/"), ip.to_string(),
                     port_);
}

awaitable<void> HttpServer::run() {
  auto accepting = [](TaskGroup& connections, HttpServer& self) -> Async<> {
    return self.accept(connections);
  };
  auto ended = co_await with_group(accepting, *this);
  if (!ended) log::debug("http.ended", "why", ended.error().what);
}

Async<> HttpServer::accept(TaskGroup& connections) {
  for (;;) {
    boost::system::error_code error;
    auto socket = co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return fail(Errc::cancelled, "the server is stopped");
    if (error) {
      log::warn("http.accept_failed", "why", error.message());
      co_await sleep_for(100ms);  // out of descriptors, for one
    } else if (connections.running() < most_connections) {
      connections.start("http.connection", serve(std::move(socket)));
    }
  }
}

// localhost, or the address itself; with or without the port.
bool HttpServer::is_here(std::string_view host) const {
  auto ip = acceptor_.local_endpoint().address().to_string();
  for (const auto& name : {std::string("localhost"), ip, "[" + ip + "]"})
    if (host == name || host == fmt::format("{}:{}", name, port_)) return true;
  return false;
}

awaitable<void> HttpServer::serve(tcp::socket socket) {
  beast::tcp_stream stream(std::move(socket));
  beast::flat_buffer buffer(most_header_bytes);
  for (bool goes_on = true; goes_on;) {
    http::request_parser<http::empty_body> parser;
    parser.header_limit(static_cast<std::uint32_t>(most_header_bytes));
    stream.expires_after(patience);
    boost::system::error_code error;
    co_await http::async_read(stream, buffer, parser,
                              asio::redirect_error(asio::use_awaitable, error));
    bool is_misfit = error && error != http::error::end_of_stream &&
                     error.category() == http::make_error_code(http::error::bad_method).category();
    if (error && !is_misfit) co_return;
    const auto& request = parser.get();
    HttpAnswer answer = plain(400, "this is no request that we understand");
    if (!is_misfit) {
      std::string_view target(request.target().data(), request.target().size());
      std::string_view host(request[http::field::host].data(), request[http::field::host].size());
      auto mark = target.find('?');
      bool reads = request.method() == http::verb::get || request.method() == http::verb::head;
      if (!is_here(host))
        answer = plain(421, "this is not the machine of that name");
      else if (!reads)
        answer = plain(405, "only GET and HEAD");
      else
        answer = handler_({std::string(target.substr(0, mark)),
                           mark == target.npos ? "" : std::string(target.substr(mark + 1))});
    }
    auto response = response_to(request, std::move(answer));
    goes_on = !is_misfit && response.keep_alive();
    if (!goes_on) response.keep_alive(false);
    http::response_serializer<http::string_body> serializer(response);
    co_await http::async_write(stream, serializer,
                               asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return;
  }
}

}  // namespace warren
