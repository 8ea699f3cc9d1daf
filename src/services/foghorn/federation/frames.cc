#include "services/foghorn/federation/frames.h"

#include <bit>
#include <cmath>

namespace warren::federation {

namespace {

// FNV-1a, then mixed so that sums of revisions do not cancel out.
class Hash {
 public:
  Hash& operator<<(std::string_view text) {
    for (unsigned char byte : text) add(byte);
    add(0xff);  // so that "ab","c" is not "a","bc"
    return *this;
  }
  Hash& operator<<(bool flag) {
    add(flag);
    return *this;
  }
  Hash& operator<<(double number) {
    auto bits = std::isnan(number) ? 0 : std::bit_cast<std::uint64_t>(number);
    for (int i = 0; i < 8; ++i) add(static_cast<unsigned char>(bits >> (8 * i)));
    return *this;
  }
  std::uint64_t value() const {
    auto x = state_;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

 private:
  void add(unsigned char byte) { state_ = (state_ ^ byte) * 0x100000001b3u; }
  std::uint64_t state_ = 0xcbf29ce484222325u;
};

struct Keys {
  std::string operator()(const StreamAd& ad) const { return "ad " + ad.internal_name; }
  std::string operator()(const StreamLive& live) const { return "live " + live.internal_name; }
  std::string operator()(const Replication& r) const { return "replication " + r.stream_name; }
  std::string operator()(const RemoteArtifact& a) const {
    return "artifact " + a.artifact_hash + " " + a.node_id;
  }
};

struct Contents {
  Hash& hash;
  void operator()(const StreamAd& ad) const {
    hash << ad.tenant_id << ad.playback_id << ad.origin_cluster_id;
    for (const auto& edge : ad.edges)
      hash << edge.node_id << edge.base_url << edge.dtsc_url << edge.is_origin << edge.buffer_state
           << edge.geo_lat << edge.geo_lon;
  }
  void operator()(const StreamLive& live) const { hash << live.tenant_id; }
  void operator()(const Replication& r) const {
    hash << r.tenant_id << r.node_id << r.base_url << r.dtsc_url;
  }
  void operator()(const RemoteArtifact& a) const {
    hash << a.artifact_type << a.tenant_id << a.base_url << double(a.size_bytes) << a.geo_lat
         << a.geo_lon;
  }
};

}  // namespace

std::string key_of(const Item& item) { return std::visit(Keys{}, item); }

std::size_t text_size(const Item& item) {
  struct Size {
    std::size_t operator()(const StreamAd& ad) const { return size_of(ad); }
    std::size_t operator()(const StreamLive& live) const {
      return live.internal_name.size() + live.tenant_id.size() + live.cluster_id.size();
    }
    std::size_t operator()(const Replication& r) const {
      return r.stream_name.size() + r.tenant_id.size() + r.node_id.size() + r.base_url.size() +
             r.dtsc_url.size();
    }
    std::size_t operator()(const RemoteArtifact& a) const {
      return a.artifact_hash.size() + a.artifact_type.size() + a.tenant_id.size() +
             a.node_id.size() + a.base_url.size();
    }
  };
  return std::visit(Size{}, item);
}

std::size_t size_of(const StreamAd& ad) {
  auto size = 100 + ad.internal_name.size() + ad.tenant_id.size() + ad.playback_id.size();
  for (const auto& edge : ad.edges)
    size += 80 + edge.node_id.size() + edge.base_url.size() + edge.dtsc_url.size() +
            edge.buffer_state.size();
  return size;
}

std::size_t size_of(const EdgeSummary::Edge& edge) {
  auto size = 100 + edge.now.node_id.size() + edge.now.base_url.size() + edge.now.tenant_id.size();
  for (const auto& role : edge.roles) size += 4 + role.size();
  return size;
}

const std::string& tenant_of(const Item& item) {
  return std::visit([](const auto& each) -> const std::string& { return each.tenant_id; }, item);
}

bool is_there(const Item& item) {
  struct There {
    bool operator()(const StreamAd& ad) const { return ad.is_live; }
    bool operator()(const StreamLive& live) const { return live.is_live; }
    bool operator()(const Replication& r) const { return r.available; }
    bool operator()(const RemoteArtifact& a) const { return a.available; }
  };
  return std::visit(There{}, item);
}

Item withdrawal_of(const Item& item) {
  struct Gone {
    Item operator()(StreamAd ad) const {
      ad.is_live = false;
      ad.edges.clear();
      return ad;
    }
    Item operator()(StreamLive live) const {
      live.is_live = false;
      return live;
    }
    Item operator()(Replication r) const {
      r.available = false;
      return r;
    }
    Item operator()(RemoteArtifact a) const {
      a.available = false;
      return a;
    }
  };
  return std::visit(Gone{}, item);
}

std::uint64_t revision_of(const Item& item) {
  Hash hash;
  hash << std::string_view(key_of(item));
  std::visit(Contents{hash}, item);
  return hash.value();
}

}  // namespace warren::federation
