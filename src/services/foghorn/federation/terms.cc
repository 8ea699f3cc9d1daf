#include "services/foghorn/federation/terms.h"

#include <algorithm>

#include "services/foghorn/state/entities.h"

namespace warren::federation {

namespace {

std::vector<std::string> split(std::string_view text, char by) {
  std::vector<std::string> words;
  while (!text.empty()) {
    auto end = std::min(text.find(by), text.size());
    auto word = text.substr(0, end);
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    if (!word.empty()) words.emplace_back(word);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

struct Pair {
  std::string cluster;
  std::vector<std::string> values;
};
Result<Pair> pair_of(const std::string& word) {
  auto equals = word.find('=');
  if (equals == word.npos) return fail(Errc::invalid, "{}: use cluster=value", word);
  Pair pair{word.substr(0, equals), split(std::string_view(word).substr(equals + 1), '|')};
  auto checked = foghorn::check_id("peer", pair.cluster);
  if (!checked) return std::unexpected(checked.error());
  return pair;
}

}  // namespace

bool is_address(std::string_view address) {
  auto colon = address.rfind(':');
  if (colon == address.npos || colon == 0 || address.size() > 300) return false;
  auto is_odd = [](unsigned char c) { return c <= 0x20 || c == 0x7f || c == ',' || c == '/'; };
  if (std::any_of(address.begin(), address.end(), is_odd)) return false;
  auto port = address.substr(colon + 1);
  return !port.empty() && port.size() <= 5 &&
         std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::optional<std::string> FederationTerms::token_of(const std::string& cluster) const {
  bool has_own = false;
  for (const auto& peer : peers) {
    if (peer.token.empty()) continue;
    if (peer.cluster == cluster) return peer.token;
    has_own = true;
  }
  // Where peers have tokens of their own, nobody comes without one.
  if (token.empty() && has_own) return {};
  return token;
}

Result<std::vector<PeerTerms>> parse_peers(std::string_view peers, std::string_view tenants,
                                           std::string_view tokens) {
  std::vector<PeerTerms> all;
  for (const auto& word : split(peers, ',')) {
    auto pair = pair_of(word);
    if (!pair) return std::unexpected(pair.error());
    for (const auto& address : pair->values)
      if (!is_address(address))
        return fail(Errc::invalid, "{}: {} is not host:port", pair->cluster, address);
    auto same = [&](const PeerTerms& each) { return each.cluster == pair->cluster; };
    if (std::any_of(all.begin(), all.end(), same))
      return fail(Errc::invalid, "{}: named twice", pair->cluster);
    all.push_back({std::move(pair->cluster), std::move(pair->values), {}});
  }
  for (const auto& word : split(tenants, ',')) {
    auto pair = pair_of(word);
    if (!pair) return std::unexpected(pair.error());
    auto peer = std::find_if(all.begin(), all.end(),
                             [&](const PeerTerms& each) { return each.cluster == pair->cluster; });
    if (peer == all.end())
      return fail(Errc::invalid, "{}: tenants of a cluster that is not a peer", pair->cluster);
    peer->tenants.insert(pair->values.begin(), pair->values.end());
  }
  for (const auto& word : split(tokens, ',')) {
    auto equals = word.find('=');
    auto name = word.substr(0, std::min(equals, word.size()));
    auto peer = std::find_if(all.begin(), all.end(),
                             [&](const PeerTerms& each) { return each.cluster == name; });
    if (equals == word.npos || equals + 1 == word.size() || peer == all.end())
      return fail(Errc::invalid, "tokens of peers: use cluster=token, of clusters that are peers");
    peer->token = word.substr(equals + 1);
  }
  return all;
}

}  // namespace warren::federation
