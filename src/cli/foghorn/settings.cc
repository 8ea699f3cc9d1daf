#include "cli/foghorn/foghorn.h"
#include "services/foghorn/state/report.h"

namespace warren::cli {

std::vector<Setting> foghorn_settings() {
  auto weight = whole_number(0, 1'000'000);
  auto port = whole_number(0, 65535);
  auto count = whole_number(1, 100'000'000);
  return {
      {"foghorn.cluster-id", "CLUSTER_ID", "default", "the cluster to serve; several: a,b"},
      {"foghorn.instance-id", "FOGHORN_INSTANCE_ID", "",
       "of this process, and of no other; needed with Redis"},
      {"foghorn.listen", "FOGHORN_LISTEN", "0.0.0.0", "the address to listen on"},
      {"foghorn.http-port", "FOGHORN_HTTP_PORT", "18008", "for viewers, nodes and operators", false,
       port},
      {"foghorn.grpc-port", "FOGHORN_GRPC_PORT", "18019", "for nodes and other clusters", false,
       port},
      {"foghorn.policy", "FOGHORN_POLICY", "compat", "how nodes are scored", false,
       one_of({"compat", "fair"})},
      {"foghorn.cpu-weight", "CPU_WEIGHT", "500", "of a node's CPU in its score", false, weight},
      {"foghorn.ram-weight", "RAM_WEIGHT", "500", "of its memory", false, weight},
      {"foghorn.bandwidth-weight", "BANDWIDTH_WEIGHT", "1000", "of its bandwidth", false, weight},
      {"foghorn.geo-weight", "GEO_WEIGHT", "1000", "of its distance", false, weight},
      {"foghorn.stream-bonus", "STREAM_BONUS", "50", "for a node that has the stream", false,
       weight},
      {"foghorn.token", "FOGHORN_TOKEN", "", "the bearer token of whatever changes state", true},
      {"foghorn.proxies", "FOGHORN_PROXIES", "",
       "addresses of proxies whose X-Forwarded-For is believed: a,b"},
      {"foghorn.rate-limit", "FOGHORN_RATE_LIMIT", "1000", "requests a second of one client", false,
       whole_number(1, 1'000'000)},
      {"foghorn.most-nodes", "FOGHORN_MOST_NODES", "10000", "nodes of a cluster", false, count},
      {"foghorn.most-streams", "FOGHORN_MOST_STREAMS", "1000000", "streams of all nodes", false,
       count},
      {"foghorn.most-artifacts", "FOGHORN_MOST_ARTIFACTS", "2000000", "artifacts of all nodes",
       false, count},
      {"foghorn.node-streams", "FOGHORN_NODE_STREAMS", "10000", "streams of one node", false,
       whole_number(1, foghorn::most_streams)},
      {"foghorn.node-artifacts", "FOGHORN_NODE_ARTIFACTS", "20000", "artifacts of one node", false,
       whole_number(1, foghorn::most_artifacts)},
      {"foghorn.node-left", "FOGHORN_NODE_LEFT", "10000",
       "streams that only one node carried, and none does any more", false, count},
      {"foghorn.durable-reports", "FOGHORN_DURABLE_REPORTS", "false",
       "acknowledge what changes state only when Redis has it", false, one_of({"true", "false"})},
      {"foghorn.peers", "FOGHORN_PEERS", "",
       "other clusters: b=host:port,c=host:port|host2:port; b= has its address in Redis"},
      {"foghorn.peer-tenants", "FOGHORN_PEER_TENANTS", "",
       "whose streams a peer may know: b=acme|zoo; by default all"},
      {"foghorn.peer-token", "FOGHORN_PEER_TOKEN", "",
       "what clusters prove to each other that they know", true},
      {"foghorn.peer-tokens", "FOGHORN_PEER_TOKENS", "",
       "what one peer and this cluster know instead: b=secret,c=other", true},
      {"foghorn.bearer-peers", "FOGHORN_BEARER_PEERS", "",
       "peers that are shown the token itself, since they cannot prove that they know it: b,c"},
      {"foghorn.address", "FOGHORN_ADDRESS", "", "host:port under which peers reach this instance"},
      {"foghorn.public-url", "FOGHORN_PUBLIC_URL", "",
       "https://play.example: where viewers from other clusters are sent"},
      {"foghorn.registry", "FOGHORN_REGISTRY", "", "host:port of a registry of clusters"},
      {"foghorn.tls-cert", "FOGHORN_TLS_CERT", "", "the certificate for gRPC, a PEM file"},
      {"foghorn.tls-key", "FOGHORN_TLS_KEY", "", "its key"},
      {"foghorn.tls-ca", "FOGHORN_TLS_CA", "", "who signs the certificates of peers"},
  };
}

bool is_of_foghorn(const Setting& setting) { return setting.name.starts_with("foghorn."); }

}  // namespace warren::cli
