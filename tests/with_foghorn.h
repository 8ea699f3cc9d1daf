#pragma once
// An instance of Foghorn in this process for the length of a test: a cluster on a Redis of its own,
// its routes, and a client that asks them over a socket.
#include <boost/json.hpp>

#include "net/http/client.h"
#include "services/foghorn/http/surface.h"
#include "with_client.h"

namespace warren {

struct FoghornVisit {
  foghorn::Cluster& cluster;
  HttpServer& server;
  HttpClient& client;

  awaitable<HttpReply> ask(std::string method, std::string target, std::string body = "",
                           std::string headers = "") {
    HttpAsk question{std::move(method), std::move(target), std::move(headers), std::move(body)};
    auto reply = co_await client.ask(std::move(question), Clock::now() + 20s);
    if (!reply) FAIL(reply.error().what);
    co_return *std::move(reply);
  }
  awaitable<HttpReply> get(std::string target, std::string headers = "") {
    return ask("GET", std::move(target), "", std::move(headers));
  }
  awaitable<HttpReply> post(std::string target, std::string body) {
    return ask("POST", std::move(target), std::move(body));
  }
};

// What a healthy edge says of itself. `more` is further members, each with a comma before it.
inline std::string report_of(const std::string& host, const std::string& streams,
                             const std::string& more = "") {
  return fmt::format(
      R"({{"cpu_tenths":100,"ram_max":1000,"ram_current":100,"up_speed":1000,"bw_limit":1000000000,)"
      R"("base_url":"https://{}","is_healthy":true,"capabilities":{{"edge":true,"ingest":true}},)"
      R"("outputs":{{"HLS":"https://HOST/hls/$/index.m3u8","WebRTC":"https://HOST/webrtc/$",)"
      R"("CMAF":"//HOST/cmaf/$/"}},"streams":{{{}}}{}}})",
      host, streams, more);
}

inline Async<> visit_foghorn(TaskGroup& tasks, foghorn::Cluster& cluster, HttpServer& server,
                             awaitable<void> (*&body)(FoghornVisit&)) {
  tasks.start("http", server.run());
  auto executor = co_await asio::this_coro::executor;
  HttpClient client(executor, *parse_http_url(server.url()));
  FoghornVisit visit{cluster, server, client};
  co_await body(visit);
  co_return ok;
}

inline awaitable<void> with_foghorn_on(redis::Client& client, foghorn::SurfaceTerms& terms,
                                       awaitable<void> (*&body)(FoghornVisit&)) {
  auto executor = co_await asio::this_coro::executor;
  foghorn::ClusterTerms cluster_terms;
  cluster_terms.instance_id = "f1";
  auto cluster = foghorn::Cluster::create(executor, &client, cluster_terms);
  REQUIRE(cluster);
  auto started = co_await (*cluster)->start(Clock::now() + 20s);
  std::exception_ptr thrown;
  if (started) {
    Metrics metrics;
    foghorn::Surface surface({{cluster->get(), nullptr}}, metrics, terms);
    auto handler = [&surface](const HttpRequest& request, HttpAnswer& answer) {
      return surface.answer(request, answer);
    };
    auto server = HttpServer::listen(executor, surface.http_terms("127.0.0.1", 0), handler);
    try {
      REQUIRE(server);
      auto done = co_await with_group(visit_foghorn, **cluster, **server, body);
      CHECK(done);
    } catch (...) {
      thrown = std::current_exception();
    }
  }
  co_await (*cluster)->close();
  if (thrown) std::rethrow_exception(thrown);
  if (!started) FAIL(started.error().what);
}

inline void with_foghorn(foghorn::SurfaceTerms terms, awaitable<void> (*body)(FoghornVisit&)) {
  RedisServer server;
  with_client(settings_for(server), with_foghorn_on, terms, body);
}
inline void with_foghorn(awaitable<void> (*body)(FoghornVisit&)) {
  foghorn::SurfaceTerms terms;
  terms.is_only_here = true;
  with_foghorn(terms, body);
}

inline boost::json::value json_of(const HttpReply& reply) {
  boost::system::error_code error;
  auto value = boost::json::parse(reply.body, error);
  INFO(reply.body);
  REQUIRE(!error);
  return value;
}
inline std::string code_of(const HttpReply& reply) {
  return std::string(json_of(reply).at("code").as_string());
}

}  // namespace warren
