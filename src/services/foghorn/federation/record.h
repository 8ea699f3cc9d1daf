#pragma once
// What the federation has in Redis: one key per record, each with a time to live.
//
//   {cluster}:stream_ad:<peer>:<stream>   15 s   {"internal_name":…,"edges":[…],"peer_cluster":…}
//
// The braces are part of the key: they keep all keys of a cluster in one slot. The names that a
// value is about stand in the value, so that no key is ever taken apart.
#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <variant>

#include "base/clock.h"
#include "base/error.h"
#include "services/foghorn/federation/records.h"

namespace warren::federation {

enum class Kind : std::uint8_t {
  remote_edges,         // <peer>:<node>
  remote_replications,  // <stream>:<peer>
  active_replications,  // <stream> for what we pull; <stream>:<cluster> for who pulls from us
  edge_summary,         // <peer>
  stream_ad,            // <peer>:<stream>
  playback_index,       // <playback id>
  peer_addresses,       // no id: one hash
  remote_live,          // <stream>
  peer_heartbeat,       // <peer>
  remote_artifacts,     // <peer>:<hash>:<node>
};
inline constexpr std::array all_kinds = {
    Kind::remote_edges,   Kind::remote_replications, Kind::active_replications, Kind::edge_summary,
    Kind::stream_ad,      Kind::playback_index,      Kind::peer_addresses,      Kind::remote_live,
    Kind::peer_heartbeat, Kind::remote_artifacts};

std::string_view folder(Kind kind);           // "stream_ad:"
std::chrono::milliseconds ttl_of(Kind kind);  // 15 s

struct Record {
  Kind kind = Kind::stream_ad;
  std::string id;     // what stands in the key behind the folder
  std::string value;  // as Redis has it; empty: it is deleted
  bool operator==(const Record&) const = default;
};

// {c1}:stream_ad:b:demo
std::string key_of(const std::string& cluster, const Record& record);
std::string leader_key(const std::string& cluster);
std::string pull_lock_key(const std::string& cluster, const std::string& stream);
std::string federation_channel(const std::string& cluster);  // foghorn:{c1}:federation

// Written by the leader of `epoch`, now. A withdrawal becomes a record without a value.
struct Writing {
  std::string epoch;  // of who leads, or empty
  WallClock::time_point now;
};
Record record_of(const Writing& by, const std::string& peer, const EdgeTelemetry& edge);
Record record_of(const Writing& by, const std::string& peer, const EdgeSummary& summary);
Record record_of(const Writing& by, const std::string& peer, const StreamAd& ad);
Record record_of(const Writing& by, const std::string& peer, const StreamLive& live);
Record record_of(const Writing& by, const std::string& peer, const Replication& replication);
Record record_of(const Writing& by, const std::string& peer, const RemoteArtifact& artifact);
Record record_of(const Writing& by, const std::string& peer, const PeerHeartbeat& heartbeat);
Record playback_record(const StreamAd& ad);  // without a value when the ad is a withdrawal
Record record_of(const Writing& by, const std::string& self, const ActiveReplication& pull);

// What a value says, and of whom. Errc::invalid names the member.
struct Known {
  std::string peer;  // empty: of no single one
  std::variant<std::monostate, EdgeTelemetry, EdgeSummary, StreamAd, StreamLive, Replication,
               RemoteArtifact, PeerHeartbeat, ActiveReplication, std::string>
      value;
};
Result<Known> parse_record(const Record& record);

}  // namespace warren::federation
