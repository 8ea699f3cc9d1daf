#pragma once
// Foghorn over HTTP: nodes and operators change the state, viewers and media servers ask.
//
//   request ── rate limit ── cluster ──┬── /play, /resolve          play.cc
//                                      ├── /v1/…, /nodes/…          changes.cc, looks.cc
//                                      ├── /healthz, /readyz, /metrics
//                                      └── /STREAM, /?query         compat.cc
//
// Decides nothing itself: a request becomes a call of a Cluster or a Federation, and an error a
// status. docs/foghorn.md lists the routes.
#include <boost/asio/ip/address.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "net/http/admission.h"
#include "net/http/server.h"
#include "services/foghorn/federation/federation.h"
#include "services/foghorn/state/cluster.h"

namespace warren::foghorn {

struct SurfaceTerms {
  // What changes state needs it as a bearer token. Empty: such requests must come from this
  // machine, under its name, neither through a proxy nor out of a browser; and since a proxy need
  // not say that it is one, nobody else may reach the server at all.
  std::string token = {};
  bool is_only_here = false;  // the server listens on loopback alone
  balance::Policy policy = balance::Policy::compat;
  std::vector<asio::ip::address> proxies = {};  // whose X-Forwarded-For is believed
  RateTerms rate = {};                          // per client; this machine is not limited
  std::chrono::milliseconds remote_time = 3s;   // for asking other clusters about a stream
  // What changes state is acknowledged only when Redis has it. Without: when this instance has it,
  // unless the request says durable=1.
  bool is_durable = false;
  std::chrono::milliseconds durable_time = 2s;  // for Redis to have it
};

// The federation may be null.
struct ServedCluster {
  Cluster* cluster = nullptr;
  federation::Federation* federation = nullptr;
};

inline constexpr std::size_t most_report_bytes = 4u << 20;

// Belongs to the clusters' thread.
class Surface {
 public:
  // The first cluster is meant where a request names none.
  Surface(std::vector<ServedCluster> clusters, Metrics& metrics, SurfaceTerms terms);
  ~Surface();
  Surface(const Surface&) = delete;
  Surface& operator=(const Surface&) = delete;

  HttpTerms http_terms(std::string address, unsigned short port) const;
  HttpServer::Work answer(const HttpRequest& request, HttpAnswer& answer);
  // All clusters have been loaded.
  bool is_ready() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace warren::foghorn
