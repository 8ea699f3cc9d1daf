#include "services/foghorn/federation/view.h"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <set>

namespace warren::federation {

namespace json = boost::json;

namespace {

struct Entry {
  Record record;
  Known known;
  Clock::time_point expires, heard_at;
  bool is_doubted = false;  // until it is put again, or confirmed
};

std::string name_of(Kind kind, std::string_view id) {
  return fmt::format("{}{}", folder(kind), id);
}

std::size_t size_of(const Record& record) { return record.id.size() + record.value.size(); }

// Replications live for minutes. A pull has arrived or failed after 30 s, and a cluster that only
// has a copy refuses to be pulled from.
constexpr auto longest_doubt_of_replications = 30s;

bool is_replication(Kind kind) {
  return kind == Kind::remote_replications || kind == Kind::active_replications;
}

bool is_item(Kind kind) {
  return kind == Kind::stream_ad || kind == Kind::remote_live ||
         kind == Kind::remote_replications || kind == Kind::remote_artifacts;
}

std::optional<Item> item_of(const Known& known) {
  if (const auto* ad = std::get_if<StreamAd>(&known.value)) return *ad;
  if (const auto* live = std::get_if<StreamLive>(&known.value)) return *live;
  if (const auto* copy = std::get_if<Replication>(&known.value)) return *copy;
  if (const auto* artifact = std::get_if<RemoteArtifact>(&known.value)) return *artifact;
  return {};
}

// The name under which an index has it, if it has one.
std::string subject_of(const Known& known) {
  if (const auto* ad = std::get_if<StreamAd>(&known.value)) return "ad " + ad->internal_name;
  if (const auto* artifact = std::get_if<RemoteArtifact>(&known.value))
    return "artifact " + artifact->artifact_hash;
  return {};
}

}  // namespace

struct View::Parts {
  Limits limits;
  std::unordered_map<std::string, Entry> entries;                   // by name_of
  std::map<std::string, std::set<std::string>> of_peer;             // names; "" for those of nobody
  std::map<std::string, std::size_t> bytes_of;                      // of peers, of their records
  std::unordered_map<std::string, std::set<std::string>> of;        // subject -> names
  std::unordered_map<std::string, std::set<std::string>> playback;  // id -> names of ads
  std::size_t refused = 0;

  const Entry* find(Clock::time_point now, Kind kind, const std::string& id) const {
    auto at = entries.find(name_of(kind, id));
    return at == entries.end() || at->second.expires <= now ? nullptr : &at->second;
  }
  template <class T>
  const T* get(Clock::time_point now, Kind kind, const std::string& id) const {
    const auto* entry = find(now, kind, id);
    return entry ? std::get_if<T>(&entry->known.value) : nullptr;
  }
  void erase(const std::string& name) {
    auto at = entries.find(name);
    if (at == entries.end()) return;
    const auto& known = at->second.known;
    auto names = of_peer.find(known.peer);
    names->second.erase(name);
    bytes_of[known.peer] -= size_of(at->second.record);
    if (names->second.empty()) {
      bytes_of.erase(known.peer);
      of_peer.erase(names);
    }
    if (auto subject = subject_of(known); !subject.empty()) {
      auto index = of.find(subject);
      index->second.erase(name);
      if (index->second.empty()) of.erase(index);
    }
    if (const auto* ad = std::get_if<StreamAd>(&known.value)) {
      auto indexed = playback.find(ad->playback_id);
      if (indexed != playback.end()) indexed->second.erase(name);
      if (indexed != playback.end() && indexed->second.empty()) playback.erase(indexed);
    }
    entries.erase(at);
  }
  template <class Predicate>
  void erase_if(Predicate predicate) {
    std::vector<std::string> names;
    for (const auto& [name, entry] : entries)
      if (predicate(entry)) names.push_back(name);
    for (const auto& name : names) erase(name);
  }
};

View::View(Limits limits) : parts_(std::make_unique<Parts>()) { parts_->limits = limits; }
View::~View() = default;

Result<> View::put(Clock::time_point now, const Record& record, Clock::time_point expires) {
  // Ads say the same, and of whom.
  if (record.kind == Kind::playback_index) return ok;
  auto known = parse_record(record);
  if (!known) return std::unexpected(known.error());
  auto name = name_of(record.kind, record.id);
  parts_->erase(name);
  auto of = parts_->of_peer.find(known->peer);
  auto count = of == parts_->of_peer.end() ? 0 : of->second.size();
  auto most = known->peer.empty() ? parts_->limits.own_records : parts_->limits.records_per_peer;
  auto bytes = parts_->bytes_of.find(known->peer);
  auto size = size_of(record) + (bytes == parts_->bytes_of.end() ? 0 : bytes->second);
  if (count >= most || size > parts_->limits.bytes_per_peer) {
    ++parts_->refused;
    return fail(Errc::overloaded, "more than {} records or {} bytes of {}", most,
                parts_->limits.bytes_per_peer, known->peer);
  }
  parts_->bytes_of[known->peer] = size;
  parts_->of_peer[known->peer].insert(name);
  if (auto subject = subject_of(*known); !subject.empty()) parts_->of[subject].insert(name);
  if (const auto* ad = std::get_if<StreamAd>(&known->value); ad && !ad->playback_id.empty())
    parts_->playback[ad->playback_id].insert(name);
  parts_->entries.emplace(std::move(name), Entry{record, std::move(*known), expires, now});
  return ok;
}

void View::erase(Kind kind, const std::string& id) { parts_->erase(name_of(kind, id)); }

void View::refresh(Clock::time_point now, const std::string& peer) {
  auto names = parts_->of_peer.find(peer);
  if (names == parts_->of_peer.end()) return;
  for (const auto& name : names->second) {
    auto& entry = parts_->entries.at(name);
    if (!is_item(entry.record.kind) || entry.is_doubted) continue;
    entry.expires = std::max(entry.expires, now + ttl_of(entry.record.kind));
    entry.heard_at = now;
  }
}

void View::confirm(Clock::time_point now, const std::string& peer) {
  if (auto names = parts_->of_peer.find(peer); names != parts_->of_peer.end())
    for (const auto& name : names->second) parts_->entries.at(name).is_doubted = false;
  refresh(now, peer);
}

void View::expire(Clock::time_point now) {
  parts_->erase_if([&](const Entry& entry) { return entry.expires <= now; });
}

std::size_t View::doubt_unheard(Clock::time_point now, Clock::time_point since) {
  std::size_t count = 0;
  for (auto& [name, entry] : parts_->entries) {
    if (entry.heard_at >= since || std::exchange(entry.is_doubted, true)) continue;
    ++count;
    if (is_replication(entry.record.kind))
      entry.expires =
          std::min<Clock::time_point>(entry.expires, now + longest_doubt_of_replications);
  }
  return count;
}

bool View::was_heard(Kind kind, const std::string& id, Clock::time_point since) const {
  auto at = parts_->entries.find(name_of(kind, id));
  return at != parts_->entries.end() && at->second.heard_at >= since;
}

void View::each_item(const std::string& peer,
                     const std::function<void(const Record&, const Item&)>& visit) const {
  auto names = parts_->of_peer.find(peer);
  if (names == parts_->of_peer.end()) return;
  for (const auto& name : names->second) {
    const auto& entry = parts_->entries.at(name);
    if (auto item = item_of(entry.known)) visit(entry.record, *item);
  }
}

// --- for decisions -------------------------------------------------------------------------------

std::vector<View::Ad> View::ads(Clock::time_point now, const std::string& stream) const {
  std::vector<Ad> all;
  auto names = parts_->of.find("ad " + stream);
  if (names == parts_->of.end()) return all;
  for (const auto& name : names->second) {
    const auto& entry = parts_->entries.at(name);
    if (entry.expires > now)
      all.push_back({entry.known.peer, &std::get<StreamAd>(entry.known.value)});
  }
  return all;
}

std::vector<View::Ad> View::ads_of_playback(Clock::time_point now, const std::string& id) const {
  std::vector<Ad> all;
  auto names = parts_->playback.find(id);
  if (names == parts_->playback.end()) return all;
  for (const auto& name : names->second) {
    const auto& entry = parts_->entries.at(name);
    if (entry.expires > now)
      all.push_back({entry.known.peer, &std::get<StreamAd>(entry.known.value)});
  }
  return all;
}

const std::string* View::stream_of_playback(Clock::time_point now, const std::string& id) const {
  auto all = ads_of_playback(now, id);
  return all.empty() ? nullptr : &all.front().ad->internal_name;
}

const EdgeTelemetry* View::telemetry(Clock::time_point now, const std::string& peer,
                                     const std::string& node) const {
  return parts_->get<EdgeTelemetry>(now, Kind::remote_edges, peer + ":" + node);
}

bool View::is_replicated_at(Clock::time_point now, const std::string& stream,
                            const std::string& peer) const {
  return parts_->find(now, Kind::remote_replications, stream + ":" + peer) != nullptr;
}

const StreamLive* View::live(Clock::time_point now, const std::string& stream) const {
  return parts_->get<StreamLive>(now, Kind::remote_live, stream);
}

const std::string* View::live_at(Clock::time_point now, const std::string& stream) const {
  const auto* said = live(now, stream);
  return said ? &said->cluster_id : nullptr;
}

const ActiveReplication* View::pulled(Clock::time_point now, const std::string& stream) const {
  return parts_->get<ActiveReplication>(now, Kind::active_replications, stream);
}

std::vector<const ActiveReplication*> View::replications(Clock::time_point now) const {
  std::vector<const ActiveReplication*> all;
  auto names = parts_->of_peer.find("");
  if (names == parts_->of_peer.end()) return all;
  for (const auto& name : names->second) {
    const auto& entry = parts_->entries.at(name);
    const auto* active = std::get_if<ActiveReplication>(&entry.known.value);
    if (active && entry.expires > now) all.push_back(active);
  }
  return all;
}

const PeerHeartbeat* View::heartbeat(Clock::time_point now, const std::string& peer) const {
  return parts_->get<PeerHeartbeat>(now, Kind::peer_heartbeat, peer);
}

std::vector<View::Artifact> View::artifacts(Clock::time_point now, const std::string& hash) const {
  std::vector<Artifact> all;
  auto names = parts_->of.find("artifact " + hash);
  if (names == parts_->of.end()) return all;
  for (const auto& name : names->second) {
    const auto& entry = parts_->entries.at(name);
    if (entry.expires > now)
      all.push_back({entry.known.peer, &std::get<RemoteArtifact>(entry.known.value)});
  }
  return all;
}

std::map<std::string, std::string> View::addresses(Clock::time_point now) const {
  std::map<std::string, std::string> all;
  const auto* text = parts_->get<std::string>(now, Kind::peer_addresses, "");
  if (!text) return all;
  boost::system::error_code error;
  auto value = json::parse(*text, error);
  if (error || !value.is_object()) return all;
  for (const auto& [cluster, address] : value.get_object())
    if (address.is_string()) all.emplace(cluster, address.get_string());
  return all;
}

// --- for people and tests ------------------------------------------------------------------------

std::size_t View::size() const { return parts_->entries.size(); }
std::size_t View::refused() const { return parts_->refused; }

std::map<Kind, std::size_t> View::counts(const std::string& peer) const {
  std::map<Kind, std::size_t> all;
  auto names = parts_->of_peer.find(peer);
  if (names == parts_->of_peer.end()) return all;
  for (const auto& name : names->second) ++all[parts_->entries.at(name).record.kind];
  return all;
}

std::vector<std::string> View::peers() const {
  std::vector<std::string> all;
  for (const auto& [peer, names] : parts_->of_peer)
    if (!peer.empty()) all.push_back(peer);
  return all;
}

std::string View::digest() const {
  std::uint64_t sum = 0;
  for (const auto& [name, entry] : parts_->entries) {
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (unsigned char byte : name + '\0' + entry.record.value)
      hash = (hash ^ byte) * 0x100000001b3u;
    sum += (hash ^ (hash >> 29)) * 0xbf58476d1ce4e5b9u;
  }
  return fmt::format("{}:{:016x}", parts_->entries.size(), sum);
}

}  // namespace warren::federation
