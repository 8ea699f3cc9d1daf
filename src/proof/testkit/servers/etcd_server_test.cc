#include "proof/testkit/servers/etcd_server.h"

#include <doctest/doctest.h>

#include "proof/testkit/run.h"
#include "proof/testkit/victim.h"

using namespace warren;

TEST_CASE("an etcd is there when its object is, and empty") {
  auto before = Clock::now();
  EtcdServer server;
  MESSAGE("started in ", std::chrono::duration<double, std::milli>(Clock::now() - before).count(),
          " ms");
  CHECK(server.alive());
  CHECK(server.url() == "etcd://127.0.0.1:" + std::to_string(server.port()));
  CHECK(server.ctl({"get", "", "--prefix"}).empty());
  auto revision = server.revision();
  CHECK(server.ctl({"put", "key", "value"}) == "OK");
  CHECK(server.ctl({"get", "key", "--print-value-only"}) == "value");
  CHECK(server.revision() == revision + 1);
}

TEST_CASE("a refusal of etcd is an error of try_ctl, word for word") {
  EtcdServer server;
  auto refused = server.try_ctl({"compact", "1000"});
  REQUIRE(!refused);
  CHECK(refused.error().code == Errc::refused);
  CHECK(refused.error().what.contains("future revision"));
}

TEST_CASE("a paused etcd answers nothing until it is resumed") {
  EtcdServer server;
  server.pause();
  CHECK(server.alive());
  auto silence = server.try_ctl({"get", "key"}, 0, 200ms);
  REQUIRE(!silence);
  CHECK(silence.error().code == Errc::timeout);
  server.resume();
  CHECK(server.ctl({"get", "key"}).empty());
}

TEST_CASE("an etcd that was killed or stopped remembers, on the same port") {
  EtcdServer server;
  auto port = server.port();
  server.ctl({"put", "key", "value"});
  server.kill();
  CHECK(!server.alive());
  server.restart();
  CHECK(server.port() == port);
  CHECK(server.ctl({"get", "key", "--print-value-only"}) == "value");
  server.stop();
  CHECK(!server.alive());
  server.restart();
  CHECK(server.ctl({"get", "key", "--print-value-only"}) == "value");
}

TEST_CASE("an etcd grants a lease of one second") {
  EtcdServer server;
  CHECK(server.ctl({"lease", "grant", "1"}).contains("TTL(1s)"));
}

TEST_CASE("three members go on when their leader is killed") {
  EtcdServer server({.members = 3});
  server.ctl({"put", "key", "value"}, 1);
  auto leader = server.leader();
  server.kill(leader);
  auto other = (leader + 1) % 3;
  wait_for(60s, "two members agree",
           [&] { return server.try_ctl({"put", "key", "other"}, other, 2s); });
  server.restart(leader);
  CHECK(server.ctl({"get", "key", "--print-value-only"}, leader) == "other");
}

TEST_CASE("an etcd with TLS talks to those who show a certificate") {
  Certificates certificates;
  EtcdServer server({.tls = &certificates});
  CHECK(server.ctl({"put", "key", "value"}) == "OK");
  CHECK(server.url().starts_with("etcds://127.0.0.1:"));
}

TEST_CASE("an etcd dies at its start: the test fails with its own words") {
  Victim victim("victim: misconfigures etcd");
  CHECK(victim.process.wait(60s) != 0);
  CHECK(victim.said("etcd died at its start"));
  CHECK(victim.said("no-such-flag"));
}
TEST_CASE("victim: misconfigures etcd" * doctest::skip()) {
  EtcdServer server({.arguments = {"--no-such-flag"}});
}
