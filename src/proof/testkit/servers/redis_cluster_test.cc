#include "proof/testkit/servers/redis_cluster.h"

#include <doctest/doctest.h>

using namespace warren;

namespace {

std::string refusal(const RedisServer& node, const std::vector<std::string>& words) {
  auto reply = node.try_cli(words);
  return reply ? "none" : reply.error().what;
}

}  // namespace

TEST_CASE("a new cluster serves all slots from three primaries with a replica each") {
  auto before = Clock::now();
  RedisCluster cluster;
  MESSAGE("started in ", std::chrono::duration<double, std::milli>(Clock::now() - before).count(),
          " ms");
  for (auto* node : cluster.nodes()) {
    auto info = node->cli({"CLUSTER", "INFO"});
    CHECK(info.find("cluster_state:ok") != info.npos);
    CHECK(info.find("cluster_slots_ok:16384") != info.npos);
    CHECK(info.find("cluster_known_nodes:6") != info.npos);
  }
  CHECK(&cluster.owner(0) == &cluster.node(0));
  CHECK(&cluster.owner(16383) == &cluster.node(2));
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(cluster.node(3 + i).cli_words({"ROLE"})[2] == std::to_string(cluster.node(i).port()));

  auto slot = cluster.slot("key");
  CHECK(slot == 12539);
  auto& owner = cluster.owner(slot);
  CHECK(owner.cli({"SET", "key", "value"}) == "OK");
  CHECK(refusal(cluster.node(0), {"GET", "key"}) ==
        fmt::format("MOVED {} {}", slot, owner.address()));
}

TEST_CASE("in the middle of a migration the source answers ASK, and in the end MOVED") {
  RedisCluster cluster;
  auto slot = cluster.slot("{tag}");
  auto& from = cluster.owner(slot);
  auto& to = cluster.node(&from == &cluster.node(0) ? 1 : 0);
  for (int i = 0; i < 10; ++i) from.cli({"SET", fmt::format("{{tag}}{}", i), std::to_string(i)});
  auto key = std::string("{tag}3");

  cluster.begin_migration(slot, from, to);
  CHECK(from.cli({"GET", key}) == "3");
  CHECK(refusal(from, {"GET", "{tag}new"}) == fmt::format("ASK {} {}", slot, to.address()));
  CHECK(cluster.move_keys(slot, from, to, 4) == 4);
  CHECK(from.cli({"CLUSTER", "COUNTKEYSINSLOT", std::to_string(slot)}) == "6");
  CHECK(cluster.move_keys(slot, from, to) == 6);
  CHECK(refusal(from, {"GET", key}) == fmt::format("ASK {} {}", slot, to.address()));
  CHECK(refusal(to, {"GET", key}) == fmt::format("MOVED {} {}", slot, from.address()));
  cluster.end_migration(slot, from, to);
  CHECK(to.cli({"GET", key}) == "3");
  CHECK(refusal(from, {"GET", key}) == fmt::format("MOVED {} {}", slot, to.address()));
  CHECK(&cluster.owner(slot) == &to);

  cluster.migrate_slot(slot, to, from);
  CHECK(from.cli({"GET", key}) == "3");
}

TEST_CASE("the nodes of a cluster may talk TLS to each other, and slots move all the same") {
  Certificates certificates;
  RedisCluster cluster({.nodes = {.tls = &certificates}});
  auto slot = cluster.slot("key");
  auto &from = cluster.node(2), &to = cluster.node(0);
  from.cli({"SET", "key", "value"});
  cluster.migrate_slot(slot, from, to);
  CHECK(to.cli({"GET", "key"}) == "value");
  // A client that asks over TLS is sent to TLS ports.
  TempFolder folder;
  Process cli({.argv = {"redis-cli", "-p", std::to_string(from.tls_port()), "--tls", "--cacert",
                        certificates.ca(), "GET", "key"},
               .log = folder.path() / "log"});
  cli.wait();
  CHECK(cli.log_text() == fmt::format("MOVED {} 127.0.0.1:{}\n\n", slot, to.tls_port()));
}

TEST_CASE("a replica takes over when it is asked to, and when its primary is killed") {
  RedisCluster cluster({.node_timeout = 500ms, .nodes = {.password = "secret"}});
  auto slot = cluster.slot("key");
  auto& first = cluster.owner(slot);
  CHECK(&first == &cluster.node(2));
  auto& replica = cluster.node(5);
  first.cli({"SET", "key", "value"});
  CHECK(first.cli({"WAIT", "1", "10000"}) == "1");

  auto before = Clock::now();
  cluster.failover(replica);
  MESSAGE("moved in ", std::chrono::duration<double, std::milli>(Clock::now() - before).count(),
          " ms");
  CHECK(&cluster.owner(slot) == &replica);
  CHECK(replica.cli({"GET", "key"}) == "value");

  before = Clock::now();
  replica.kill();
  CHECK(&cluster.owner(slot) == &first);
  MESSAGE("replaced after ",
          std::chrono::duration<double, std::milli>(Clock::now() - before).count(), " ms");
  CHECK(first.cli({"GET", "key"}) == "value");
  replica.restart();
  cluster.wait_until_settled();
}
