#include "proof/testkit/servers/redis_cluster.h"

#include <fmt/format.h>

#include <sstream>

#include "proof/testkit/failure.h"
#include "proof/testkit/run.h"

namespace warren::inline testkit {

namespace {

constexpr int slot_count = 16384;
constexpr std::size_t primary_count = 3;

// One line of CLUSTER NODES.
struct Peer {
  std::string id, address, flags, primary, ping, pong, epoch, link;
  std::vector<std::string> slots;  // "0-5460", "77", and "[77->-…]" while one moves

  bool has_flag(const std::string& flag) const {
    return ("," + flags + ",").find("," + flag + ",") != std::string::npos;
  }
};

std::vector<Peer> peers(const RedisServer& node) {
  std::vector<Peer> result;
  std::istringstream lines(node.cli({"CLUSTER", "NODES"}));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Peer peer;
    words >> peer.id >> peer.address >> peer.flags >> peer.primary >> peer.ping >> peer.pong >>
        peer.epoch >> peer.link;
    for (std::string slots; words >> slots;) peer.slots.push_back(slots);
    result.push_back(std::move(peer));
  }
  return result;
}

bool has_slot(const Peer& peer, int slot) {
  return std::ranges::any_of(peer.slots, [&](const std::string& range) {
    int first = -1, last = -1;
    int found = std::sscanf(range.c_str(), "%d-%d", &first, &last);
    return (found == 1 && first == slot) || (found == 2 && first <= slot && slot <= last);
  });
}

// The id of the slot's owner as this node sees it; empty if it sees none.
std::string owner_seen_by(const RedisServer& node, int slot) {
  for (auto& peer : peers(node))
    if (has_slot(peer, slot)) return peer.id;
  return {};
}

bool is_replica_in_sync(const RedisServer& node) {
  return node.info("role") == "slave" && node.info("master_link_status") == "up";
}

// What keeps this node from seeing a whole and healthy cluster.
Result<> is_settled(const RedisServer& node) {
  auto seen = peers(node);
  std::size_t replicas = 0, assigned = 0;
  for (auto& peer : seen) {
    if (peer.link != "connected" || peer.has_flag("handshake") || peer.has_flag("fail?") ||
        peer.has_flag("fail"))
      return fail(Errc::unavailable, "node {} sees {} as {}, {}", node.port(), peer.address,
                  peer.flags, peer.link);
    replicas += peer.has_flag("slave");
    assigned += !peer.slots.empty();
  }
  if (seen.size() != 2 * primary_count || replicas != primary_count || assigned != primary_count)
    return fail(Errc::unavailable, "node {} sees {} nodes, {} replicas, {} with slots", node.port(),
                seen.size(), replicas, assigned);
  auto state = node.cli({"CLUSTER", "INFO"});
  if (state.find("cluster_state:ok") == state.npos)
    return fail(Errc::unavailable, "node {} says {}", node.port(), state);
  if (node.info("role") == "slave" && !is_replica_in_sync(node))
    return fail(Errc::unavailable, "replica {} is not in sync", node.port());
  return ok;
}

}  // namespace

RedisCluster::RedisCluster(ClusterOptions options) : options_(std::move(options)) {
  auto node = options_.nodes;
  node.cluster = true;
  node.config.push_back(fmt::format("cluster-node-timeout {}", options_.node_timeout.count()));
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    nodes_[i] = std::make_unique<RedisServer>(node);
    ids_[i] = nodes_[i]->cli({"CLUSTER", "MYID"});
    nodes_[i]->cli({"CLUSTER", "SET-CONFIG-EPOCH", std::to_string(i + 1)});
  }
  for (std::size_t i = 0; i < primary_count; ++i) {
    auto first = slot_count * i / primary_count, next = slot_count * (i + 1) / primary_count;
    nodes_[i]->cli({"CLUSTER", "ADDSLOTSRANGE", std::to_string(first), std::to_string(next - 1)});
  }
  // Introduces every node to every other: waiting for gossip would take seconds.
  for (auto& from : nodes_)
    for (auto& to : nodes_)
      if (from != to)
        from->cli({"CLUSTER", "MEET", "127.0.0.1", std::to_string(to->peer_port()),
                   std::to_string(to->cluster_port())});
  for (std::size_t i = 0; i < primary_count; ++i)
    wait_for(settle_limit, "the replica knows its primary",
             [&] { return nodes_[primary_count + i]->try_cli({"CLUSTER", "REPLICATE", ids_[i]}); });
  wait_until_settled();
}

std::vector<RedisServer*> RedisCluster::nodes() {
  std::vector<RedisServer*> result;
  for (auto& node : nodes_) result.push_back(node.get());
  return result;
}

const std::string& RedisCluster::id(const RedisServer& node) const {
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].get() == &node) return ids_[i];
  fail_test("not a node of this cluster");
}

int RedisCluster::slot(const std::string& key) {
  for (auto& node : nodes_)
    if (node->is_running()) return std::stoi(node->cli({"CLUSTER", "KEYSLOT", key}));
  fail_test("no node runs");
}

Result<RedisServer*> RedisCluster::agreed_owner(int slot) {
  std::string agreed;
  for (auto& node : nodes_) {
    if (!node->is_running()) continue;
    auto seen = owner_seen_by(*node, slot);
    if (!agreed.empty() && seen != agreed)
      return fail(Errc::unavailable, "one node names {}, another {}", agreed, seen);
    agreed = seen;
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (ids_[i] != agreed) continue;
    if (!nodes_[i]->is_running())
      return fail(Errc::unavailable, "{} does not run", nodes_[i]->port());
    if (!nodes_[i]->cli({"CLUSTER", "INFO"}).contains("cluster_state:ok"))
      return fail(Errc::unavailable, "{} does not serve yet", nodes_[i]->port());
    return nodes_[i].get();
  }
  return fail(Errc::unavailable, "the owner is \"{}\", which is none of ours", agreed);
}

RedisServer& RedisCluster::owner(int slot) {
  return *wait_for(settle_limit, fmt::format("all nodes agree on the owner of slot {}", slot),
                   [&] { return agreed_owner(slot); });
}

void RedisCluster::failover(RedisServer& replica, const std::string& how) {
  auto seen = peers(replica);
  auto self = std::ranges::find(seen, id(replica), &Peer::id);
  auto primary = std::ranges::find(seen, self->primary, &Peer::id);
  if (primary == seen.end() || primary->slots.empty())
    fail_test("the node is not a replica of a primary with slots");
  int slot = std::stoi(primary->slots.front());
  auto* old = &owner(slot);
  std::vector<std::string> command{"CLUSTER", "FAILOVER"};
  if (!how.empty()) command.push_back(how);
  replica.cli(command);
  wait_for(settle_limit, "the replica owns its primary's slots", [&]() -> Result<> {
    auto now = agreed_owner(slot);
    if (!now) return std::unexpected(now.error());
    if (*now != &replica) return fail(Errc::unavailable, "the owner is {}", (*now)->port());
    if (!is_replica_in_sync(*old)) return fail(Errc::unavailable, "the old one is not in sync");
    return ok;
  });
}

void RedisCluster::begin_migration(int slot, RedisServer& from, RedisServer& to) {
  auto number = std::to_string(slot);
  to.cli({"CLUSTER", "SETSLOT", number, "IMPORTING", id(from)});
  from.cli({"CLUSTER", "SETSLOT", number, "MIGRATING", id(to)});
}

std::size_t RedisCluster::move_keys(int slot, RedisServer& from, RedisServer& to,
                                    std::size_t most) {
  auto keys =
      from.cli_words({"CLUSTER", "GETKEYSINSLOT", std::to_string(slot), std::to_string(most)});
  if (keys.empty()) return 0;
  auto login = to.target();
  std::vector<std::string> words = {"MIGRATE", "127.0.0.1", std::to_string(to.peer_port()),
                                    "",        "0",         "5000",
                                    "AUTH2",   login.user,  login.password,
                                    "KEYS"};
  words.insert(words.end(), keys.begin(), keys.end());
  from.cli(words);
  return keys.size();
}

void RedisCluster::end_migration(int slot, RedisServer& from, RedisServer& to) {
  // The new owner first: if the old one forgot the slot before, no node would have it for a moment.
  for (auto* node : {&to, &from})
    node->cli({"CLUSTER", "SETSLOT", std::to_string(slot), "NODE", id(to)});
  wait_for(settle_limit, "all nodes know the new owner", [&]() -> Result<> {
    auto now = agreed_owner(slot);
    if (!now) return std::unexpected(now.error());
    if (*now != &to) return fail(Errc::unavailable, "the owner is {}", (*now)->port());
    return ok;
  });
}

void RedisCluster::migrate_slot(int slot, RedisServer& from, RedisServer& to) {
  begin_migration(slot, from, to);
  while (move_keys(slot, from, to, 1000) > 0) {
  }
  end_migration(slot, from, to);
}

void RedisCluster::wait_until_settled() {
  for (auto& node : nodes_)
    wait_for(settle_limit, "the cluster is whole", [&] { return is_settled(*node); });
}

}  // namespace warren::inline testkit
