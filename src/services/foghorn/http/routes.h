#pragma once
// The groups of routes. Each takes a call whose `rest` is what stands behind its own name.
#include "services/foghorn/http/call.h"

namespace warren::foghorn {

// /play/KEY…, /resolve/KEY…: an edge for a viewer, as a redirect or as JSON.
Work play(Call& call);

// /STREAM: the host of the best node; with proto=SCHEME a redirect to it.
Work stream_host(Call& call, std::string stream);
// /?source=, ?ingest=, ?weights=, ?lstserver=, ?viewers=, ?streamstats=, ?host=; without any of
// them all hosts.
void ask_balancer(Call& call);

// /v1/nodes/…, /v1/streams/…, /v1/artifacts/…
void nodes(Call& call);
void streams(Call& call);
void artifacts(Call& call);
// /nodes/overview, /nodes/ID/mode, /nodes/ID/drain-status
void operations(Call& call);
// /v1/balance, /v1/digest, /v1/leader, /v1/peers
Work look(Call& call, std::string_view what);

// Every node with the parts of its score, or why it was left out.
boost::json::object explanation(const balance::RoutingTable& table, const balance::Query& query);
// As /v1 shows it.
boost::json::object shown(const NodeView& node);
boost::json::object shown(const StreamView& stream, bool with_instances);

}  // namespace warren::foghorn
