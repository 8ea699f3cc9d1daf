#include "proof/testkit/servers/sentinel_trio.h"

#include <doctest/doctest.h>

using namespace warren;

TEST_CASE("a new trio has one primary and two replicas, and every sentinel knows everybody") {
  auto before = Clock::now();
  SentinelTrio trio;
  MESSAGE("started in ", std::chrono::duration<double, std::milli>(Clock::now() - before).count(),
          " ms");
  CHECK(&trio.primary() == trio.servers()[0]);
  CHECK(trio.replicas().size() == 2);
  for (auto* sentinel : trio.sentinels()) {
    auto seen = sentinel->cli({"SENTINEL", "MASTER", SentinelTrio::name});
    CHECK(seen.find("num-slaves\n2\n") != seen.npos);
    CHECK(seen.find("num-other-sentinels\n2\n") != seen.npos);
    CHECK(seen.find("quorum\n2\n") != seen.npos);
    CHECK(seen.find("down-after-milliseconds\n1000\n") != seen.npos);
    auto periods = sentinel->cli({"SENTINEL", "DEBUG"});
    CHECK(periods.find("PUBLISH-PERIOD\n2000") != periods.npos);
    CHECK(periods.find("INFO-PERIOD\n10000") != periods.npos);
  }
}

TEST_CASE("a failover that is asked for moves the primary, and the others follow it") {
  SentinelTrio trio({.servers = {.password = "secret"}, .sentinel_password = "other"});
  auto* old = &trio.primary();
  auto before = Clock::now();
  auto* now = &trio.failover();
  MESSAGE("moved in ", std::chrono::duration<double, std::milli>(Clock::now() - before).count(),
          " ms");
  CHECK(now != old);
  CHECK(now == &trio.primary());
  CHECK(now->cli_words({"ROLE"}).front() == "master");
  trio.wait_until_settled();
  CHECK(old->cli_words({"ROLE"}).front() == "slave");
  now->cli({"SET", "key", "value"});
  CHECK(now->cli({"WAIT", "2", "10000"}) == "2");
}

TEST_CASE("a trio may use TLS: the sentinels watch and hand out TLS ports") {
  Certificates certificates;
  SentinelTrio trio({.servers = {.tls = &certificates}});
  auto named = trio.sentinel(0).cli({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", SentinelTrio::name});
  CHECK(named == fmt::format("127.0.0.1\n{}", trio.primary().tls_port()));
  CHECK(trio.primary().cli({"WAIT", "2", "10000"}) == "2");
}

TEST_CASE("when the primary is killed, the sentinels choose another after down-after") {
  SentinelTrio trio({.down_after = 500ms});
  auto* old = &trio.primary();
  auto before = Clock::now();
  old->kill();
  auto* now = &trio.primary();
  auto took = Clock::now() - before;
  MESSAGE("replaced after ", std::chrono::duration<double, std::milli>(took).count(), " ms");
  CHECK(now != old);
  CHECK(took > 500ms);
  old->restart();
  trio.wait_until_settled();
  CHECK(old->cli_words({"ROLE"})[2] == std::to_string(now->port()));
}
