#include "search_peer.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <optional>

#include "net/http/client.h"

namespace warren::bench {

namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace json = boost::json;
using boost::system::error_code;

namespace {

// A missing number is 0, as in Go. Anything but a non-negative number is an error.
std::optional<std::uint64_t> number(const json::object& from, std::string_view name) {
  const auto* value = from.if_contains(name);
  if (!value) return 0;
  if (const auto* n = value->if_int64(); n && *n >= 0) return static_cast<std::uint64_t>(*n);
  return {};
}

}  // namespace

Result<PeerAnswer> parse_peer_answer(std::string_view body) {
  error_code error;
  auto value = json::parse(body, error);
  if (error) return fail(Errc::protocol, "the peer's answer is not JSON: {}", error.message());
  auto wrong = [] { return fail(Errc::protocol, "the peer's answer is not zoekt's"); };
  const auto* top = value.if_object();
  if (!top) return wrong();
  if (const auto* words = top->if_contains("Error"); words && words->is_string())
    return fail(Errc::refused, "{}", std::string_view(words->get_string()));
  const auto* member = top->if_contains("Result");
  const auto* result = member ? member->if_object() : nullptr;
  if (!result) return wrong();
  auto files = number(*result, "FileCount"), matches = number(*result, "MatchCount"),
       duration = number(*result, "Duration");
  if (!files || !matches || !duration) return wrong();
  PeerAnswer answer{.file_count = *files,
                    .match_count = *matches,
                    .duration = std::chrono::nanoseconds(*duration)};
  const auto* shown = result->if_contains("Files");
  if (shown && shown->is_array())
    answer.files_shown = shown->get_array().size();
  else if (shown && !shown->is_null())  // Go writes this for an empty list
    return wrong();
  return answer;
}

std::string peer_question(std::string_view query, PeerTerms terms) {
  json::object options{{"MaxDocDisplayCount", 50}, {"NumContextLines", 2}, {"ChunkMatches", true}};
  if (terms == PeerTerms::all) {
    constexpr std::int64_t all = 1 << 30, minute = 60'000'000'000;
    options["ShardMaxMatchCount"] = all;
    options["TotalMaxMatchCount"] = all;
    options["MaxDocDisplayCount"] = 1;  // all are found and ranked, one is sent
    options["MaxWallTime"] = minute;
  }
  return json::serialize(json::object{{"Q", query}, {"Opts", std::move(options)}});
}

std::string zoekt_literal(std::string_view text) {
  std::string out;
  for (char c : text) {
    bool is_sign = c >= 0 && c != '_' && std::isalnum(static_cast<unsigned char>(c)) == 0;
    if (is_sign) out += '\\';
    out += c;
  }
  return out;
}

struct PeerClient::Line {
  HttpUrl server;
  std::chrono::milliseconds longest;
  std::size_t most_bytes;
  asio::io_context io = {};
  beast::tcp_stream stream{io};
  beast::flat_buffer buffer = {};

  // Starts an operation and waits for its end.
  template <class Begin>
  error_code run(const Begin& begin) {
    error_code outcome;
    begin([&outcome](error_code error, auto&&...) { outcome = error; });
    io.restart();
    io.run();
    return outcome;
  }

  error_code connect() {
    error_code error;
    buffer.clear();
    asio::ip::tcp::resolver resolver(io);
    auto found = resolver.resolve(server.host, server.port, error);
    if (error) return error;
    error = run([&](auto done) { stream.async_connect(found, done); });
    if (!error) stream.socket().set_option(asio::ip::tcp::no_delay(true), error);
    return error;
  }

  error_code exchange(const http::request<http::string_body>& request, std::string& body,
                      bool& is_last) {
    auto error = run([&](auto done) { http::async_write(stream, request, done); });
    if (error) return error;
    http::response_parser<http::string_body> parser;
    parser.body_limit(most_bytes);
    error = run([&](auto done) { http::async_read(stream, buffer, parser, done); });
    if (error) return error;
    is_last = !parser.keep_alive();
    body = std::move(parser.get().body());
    return {};
  }

  void close() {
    error_code ignored;
    stream.socket().close(ignored);
  }
};

PeerClient::PeerClient(std::unique_ptr<Line> line) : line_(std::move(line)) {}
PeerClient::PeerClient(PeerClient&&) noexcept = default;
PeerClient::~PeerClient() = default;

Result<PeerClient> PeerClient::make(const std::string& url, std::chrono::milliseconds longest,
                                    std::size_t most_bytes) {
  auto server = parse_http_url(url);
  if (!server) return std::unexpected(server.error());
  return PeerClient(std::make_unique<Line>(std::move(*server), longest, most_bytes));
}

Result<PeerAnswer> PeerClient::ask(std::string_view query, PeerTerms terms) {
  auto& line = *line_;
  http::request<http::string_body> request(http::verb::post, "/api/search", 11);
  request.set(http::field::host, line.server.host);
  request.set(http::field::content_type, "application/json");
  request.body() = peer_question(query, terms);
  request.prepare_payload();
  std::string body;
  for (bool is_second : {false, true}) {
    line.stream.expires_after(line.longest);
    bool is_reused = line.stream.socket().is_open();
    if (auto error = is_reused ? error_code() : line.connect(); error) {
      line.close();
      return fail(Errc::unavailable, "{}: {}", line.server.host, error.message());
    }
    bool is_last = false;
    auto error = line.exchange(request, body, is_last);
    if (error || is_last) line.close();
    if (!error) break;
    if (error == beast::error::timeout) return fail(Errc::timeout, "the peer does not answer");
    // The server may just have closed an idle connection. A question can be repeated.
    if (!is_reused || is_second || error == http::error::body_limit)
      return fail(Errc::protocol, "the peer's answer: {}", error.message());
  }
  return parse_peer_answer(body);
}

Result<std::map<std::size_t, std::string>> refused_by(PeerClient& peer,
                                                      const std::vector<std::string>& queries) {
  std::map<std::size_t, std::string> refused;
  for (std::size_t i = 0; i < queries.size(); ++i) {
    auto answer = peer.ask(queries[i], PeerTerms::bounded);
    if (answer) continue;
    if (answer.error().code != Errc::refused) return std::unexpected(answer.error());
    refused[i] = answer.error().what;
  }
  return refused;
}

}  // namespace warren::bench
