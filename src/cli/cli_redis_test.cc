// ping, info and doctor, against every topology and its possible faults.
#include <boost/asio/ip/tcp.hpp>
#include <boost/json.hpp>
#include <thread>

#include "cli/test_shell.h"
#include "proof/testkit/run.h"
#include "proof/testkit/servers/redis_cluster.h"
#include "proof/testkit/servers/sentinel_trio.h"

namespace warren {

namespace {

// Answers anything it receives like a web server that got invalid HTTP.
class HttpServer {
 public:
  HttpServer() : acceptor_(io_, {asio::ip::address_v4::loopback(), 0}) {
    thread_ = std::jthread([this](std::stop_token stop) {
      while (!stop.stop_requested()) answer();
    });
  }
  ~HttpServer() {
    thread_.request_stop();
    asio::ip::tcp::socket(io_).connect(acceptor_.local_endpoint());  // wakes the server
  }
  unsigned short port() const { return acceptor_.local_endpoint().port(); }

 private:
  void answer() {
    boost::system::error_code ignored;
    auto peer = acceptor_.accept(ignored);
    char heard[1024];
    peer.read_some(asio::buffer(heard), ignored);
    peer.write_some(asio::buffer(std::string_view("HTTP/1.1 400 Bad Request\r\n\r\n")), ignored);
  }
  asio::io_context io_;
  asio::ip::tcp::acceptor acceptor_;
  std::jthread thread_;
};

Words trio_environment(SentinelTrio& trio) {
  Words addresses;
  for (auto* sentinel : trio.sentinels()) addresses.push_back(sentinel->address());
  return {"REDIS_MODE=sentinel", fmt::format("REDIS_MASTER_NAME={}", SentinelTrio::name),
          fmt::format("REDIS_ADDRS={}", fmt::join(addresses, ","))};
}

// The finding with this name.
boost::json::object finding(const Outcome& doctor, const char* name) {
  boost::json::error_code error;
  auto whole = boost::json::parse(doctor.out, error);
  REQUIRE_MESSAGE(!error, doctor.out << doctor.err);
  for (auto& check : whole.at("checks").as_array())
    if (check.at("name").as_string() == name) return check.as_object();
  FAIL("no check " << name << " in " << doctor.out);
  return {};
}

}  // namespace

TEST_CASE("ping tells which server answered, its role and the time") {
  Shell shell;
  RedisServer server({.unix_socket = true});
  auto once = shell.run({"redis", "ping", "--redis-url", url(server)});
  CHECK_MESSAGE(once.exit == 0, once.err);
  CHECK(once.err.empty());
  CHECK(once.out.starts_with("PONG  " + server.address() + "  primary  "));
  CHECK(once.out.ends_with(" ms\n"));
  CHECK(shell.run({"redis", "ping", "--count", "5"}, {"REDIS_URL=" + url(server)})
            .out.ends_with(" in 5 answers\n"));
  auto by_path = shell.run({"redis", "ping"}, {"REDIS_URL=unix://" + server.unix_path().string()});
  CHECK(by_path.out.starts_with("PONG  unix://"));
  RedisServer replica({.replica_of = &server});
  CHECK(shell.run({"redis", "ping", "--redis-url", url(replica)}).out.contains("  replica  "));
}

TEST_CASE("ping where nothing listens says so at once") {
  Shell shell;
  Port port;
  auto address = fmt::format("127.0.0.1:{}", port.number());
  auto outcome = shell.run({"redis", "ping", "--redis-url", "redis://" + address});
  check_error(outcome, 3, address + ": the connection was refused; nothing listens there",
              "redis-server");
  CHECK(outcome.elapsed < slack);
}

TEST_CASE("ping with a wrong password, or without one, is denied at once") {
  Shell shell;
  RedisServer server({.password = "right"});
  Words ping{"redis", "ping", "--redis-url", url(server)};
  auto wrong = shell.run(ping, {"REDIS_PASSWORD=wrong"});
  check_error(wrong, 4, server.address() + " does not accept this user name and password",
              "REDIS_PASSWORD");
  CHECK(wrong.elapsed < slack);
  auto without = shell.run(ping);
  check_error(without, 4, server.address() + " wants a password", "REDIS_PASSWORD_FILE");
  CHECK(without.elapsed < slack);
  CHECK(shell.run(ping, {"REDIS_PASSWORD_FILE=" + shell.write("secret", "right\n")}).exit == 0);
}

TEST_CASE("ping to a TLS server whose CA we do not know is denied, and works with the CA") {
  Shell shell;
  Certificates certificates;
  RedisServer server({.tls = &certificates});
  auto address = fmt::format("127.0.0.1:{}", server.tls_port());
  Words ping{"redis", "ping", "--redis-url", "rediss://" + address};
  auto outcome = shell.run(ping);
  check_error(outcome, 4, "the server's certificate is not signed by a CA we trust",
              "--redis-tls-ca FILE");
  CHECK(outcome.elapsed < slack);
  auto trusted = shell.run(ping, {"REDIS_TLS_CA=" + certificates.ca().string()});
  CHECK_MESSAGE(trusted.exit == 0, trusted.err);

  auto plain = shell.run({"redis", "ping", "--redis-url", "redis://" + address});
  CHECK(plain.exit != 0);
  CHECK(plain.err.contains("TLS"));
}

TEST_CASE("ping to a port that is not Redis says what is there instead") {
  Shell shell;
  HttpServer server;
  auto address = fmt::format("127.0.0.1:{}", server.port());
  auto outcome = shell.run({"redis", "ping", "--redis-url", "redis://" + address});
  check_error(outcome, 1, address + " is not a Redis server: it says \"HTTP/1.1 400 Bad Request\"",
              "check host and port");
  CHECK(outcome.elapsed < slack);
  auto tls = shell.run({"redis", "ping", "--redis-url", "rediss://" + address});
  check_error(tls, 1, "not a TLS server", "check host and port");
  CHECK(tls.elapsed < slack);
}

TEST_CASE("ping to a paused server ends at its deadline") {
  Shell shell;
  RedisServer server;
  server.pause();
  Words ping{"redis", "ping", "--redis-url", url(server)};
  auto outcome = shell.run(ping);
  check_error(outcome, 3, server.address() + " does not answer", "--timeout");
  CHECK(outcome.elapsed > 2s);
  CHECK(outcome.elapsed < 2s + slack);
  ping.insert(ping.end(), {"--timeout", "200ms"});
  auto quick = shell.run(ping);
  check_error(quick, 3, server.address() + " does not answer", "--timeout");
  CHECK(quick.elapsed < 200ms + slack);
}

TEST_CASE("with sentinels, ping and info show the primary and its replicas") {
  Shell shell;
  SentinelTrio trio;
  auto environment = trio_environment(trio);
  auto ping = shell.run({"redis", "ping"}, environment);
  CHECK_MESSAGE(ping.exit == 0, ping.err);
  CHECK(ping.out.starts_with("PONG  " + trio.primary().address() + "  primary  "));
  for (auto* replica : trio.replicas())
    CHECK(ping.out.contains("PONG  " + replica->address() + "  replica  "));

  auto info = shell.run({"redis", "info", "--json"}, environment);
  REQUIRE_MESSAGE(info.exit == 0, info.err);
  auto whole = boost::json::parse(info.out);
  CHECK(whole.at("mode") == "sentinel");
  auto& servers = whole.at("servers").as_array();
  REQUIRE(servers.size() == 3);
  CHECK(servers[0].at("role") == "primary");
  CHECK(servers[0].at("replicas") == 2);
  CHECK(servers[1].at("follows").as_string() == trio.primary().address().c_str());
  CHECK(servers[1].at("link") == "up");

  trio.replicas()[0]->pause();
  auto partly = shell.run({"redis", "ping", "--timeout", "500ms"}, environment);
  CHECK(partly.exit == 3);
  CHECK(partly.out.contains("FAIL  " + trio.replicas()[0]->address() + "  replica  "));
  CHECK(partly.err.contains("error: 1 of 3 servers did not answer\nhint: "));
  CHECK(partly.elapsed < 1s + slack);
}

TEST_CASE("with sentinels of which none answers, ping ends at its deadline and says why") {
  Shell shell;
  Port port;
  auto outcome =
      shell.run({"redis", "ping"}, {"REDIS_MODE=sentinel", "REDIS_MASTER_NAME=warren",
                                    fmt::format("REDIS_ADDRS=127.0.0.1:{}", port.number())});
  check_error(outcome, 3, "nothing listens there", "REDIS_URL");
  CHECK(outcome.elapsed < 2s + slack);
}

TEST_CASE("in a cluster, ping shows every node, and doctor that all slots are served") {
  Shell shell;
  RedisCluster cluster;
  Words environment{"REDIS_MODE=cluster", "REDIS_ADDRS=" + cluster.node(1).address()};
  // CLUSTER SLOTS omits replicas that have not received anything yet.
  for (auto* node : cluster.nodes()) node->cli({"CONFIG", "SET", "repl-ping-replica-period", "1"});
  wait_for(30s, "all nodes list all nodes", [&] {
    for (auto* asked : cluster.nodes())
      for (auto* listed : cluster.nodes())
        if (!asked->cli({"CLUSTER", "SLOTS"}).contains(std::to_string(listed->port())))
          return false;
    return true;
  });
  auto ping = shell.run({"redis", "ping"}, environment);
  CHECK_MESSAGE(ping.exit == 0, ping.err);
  for (std::size_t i = 0; i < 6; ++i) {
    auto role = i < 3 ? "  primary  " : "  replica  ";
    CHECK_MESSAGE(ping.out.contains("PONG  " + cluster.node(i).address() + role), ping.out);
  }
  auto info = shell.run({"redis", "info"}, environment);
  CHECK(info.out.starts_with("Redis  cluster, 6 servers\n"));

  auto doctor = shell.run({"doctor", "--json"}, environment);
  CHECK(doctor.exit == 0);
  auto topology = finding(doctor, "topology");
  CHECK(topology.at("mark") == "ok");
  CHECK(topology.at("found") == "3 primaries, 3 replicas, all slots served");

  cluster.node(2).cli({"CLUSTER", "DELSLOTS", "16383"});
  wait_for(30s, "a node knows that the slot is not served",
           [&] { return cluster.node(2).cli({"CLUSTER", "INFO"}).contains("cluster_state:fail"); });
  auto holed = shell.run({"doctor", "--json"}, environment);
  CHECK(holed.exit == 1);
  CHECK(finding(holed, "topology").at("mark") == "fail");
}

TEST_CASE("info shows the state of a server, for people and for programs") {
  Shell shell;
  RedisServer server({.appendonly = true});
  Words environment{"REDIS_URL=" + url(server)};
  auto text = shell.run({"redis", "info"}, environment);
  CHECK_MESSAGE(text.exit == 0, text.err);
  for (auto* part : {"single, 1 server", "version", "memory", "of no limit", "noeviction",
                     "append-only file", "no replicas"})
    CHECK_MESSAGE(text.out.contains(part), part);
  auto whole = boost::json::parse(shell.run({"redis", "info", "--json"}, environment).out);
  auto& only = whole.at("servers").at(0).as_object();
  CHECK(only.at("address").as_string() == server.address().c_str());
  CHECK(only.at("version").as_string() == server.info("redis_version").c_str());
  CHECK(only.at("appendonly") == true);
  CHECK(only.at("eviction_policy") == "noeviction");
  server.pause();
  auto paused = shell.run({"redis", "info", "--timeout", "200ms"}, environment);
  check_error(paused, 3, "does not answer", "--timeout");
}

TEST_CASE("doctor finds a sound server sound") {
  Shell shell;
  RedisServer server({.appendonly = true});
  auto doctor = shell.run({"doctor", "--json"}, {"REDIS_URL=" + url(server)});
  CHECK(doctor.exit == 0);
  for (auto* name : {"redis-server", "git", "redis", "version", "persistence", "eviction", "clock"})
    CHECK_MESSAGE(finding(doctor, name).at("mark") == "ok", name);
  auto text = shell.run({"doctor"}, {"REDIS_URL=" + url(server)});
  CHECK(text.exit == 0);
  CHECK(text.out.contains("ok    eviction"));
  CHECK(text.out.ends_with(" 0 failed\n"));
}

TEST_CASE("doctor says how to mend eviction, persistence and replication") {
  Shell shell;
  RedisServer server({.config = {"maxmemory-policy allkeys-lru", "save \"\""}});
  RedisServer replica({.replica_of = &server});
  wait_for(30s, "the replica is connected", [&] { return server.info("connected_slaves") == "1"; });
  Words environment{"REDIS_URL=" + url(server)};
  auto doctor = shell.run({"doctor", "--json"}, environment);
  CHECK(doctor.exit == 1);
  CHECK(finding(doctor, "eviction").at("mark") == "fail");
  CHECK(finding(doctor, "persistence").at("mark") == "warn");
  CHECK(finding(doctor, "min-replicas-to-write").at("mark") == "warn");

  // As doctor recommended.
  server.cli({"CONFIG", "SET", "maxmemory-policy", "noeviction"});
  server.cli({"CONFIG", "SET", "appendonly", "yes"});
  server.cli({"CONFIG", "SET", "min-replicas-to-write", "1"});
  auto mended = shell.run({"doctor", "--json"}, environment);
  CHECK(mended.exit == 0);
  for (auto* name : {"eviction", "persistence", "min-replicas-to-write"})
    CHECK_MESSAGE(finding(mended, name).at("mark") == "ok", name);
}

TEST_CASE("doctor fails for a single server that is a replica or part of a cluster") {
  Shell shell;
  RedisServer primary;
  RedisServer replica({.replica_of = &primary});
  auto doctor = shell.run({"doctor", "--json"}, {"REDIS_URL=" + url(replica)});
  CHECK(doctor.exit == 1);
  CHECK(finding(doctor, "topology").at("mend").as_string().ends_with(primary.address()));
  RedisServer node({.cluster = true});
  auto clustered = shell.run({"doctor", "--json"}, {"REDIS_URL=" + url(node)});
  CHECK(clustered.exit == 1);
  CHECK(finding(clustered, "topology").at("mend") == "set REDIS_MODE=cluster");
}

TEST_CASE("doctor counts the sentinels that answer, and fails without a majority") {
  Shell shell;
  SentinelTrio trio({.servers = {.appendonly = true}});
  auto environment = trio_environment(trio);
  auto sound = shell.run({"doctor", "--json"}, environment);
  CHECK(sound.exit == 0);
  CHECK(finding(sound, "topology").at("found") == "3 of 3 sentinels answer, 2 replicas");
  CHECK(finding(sound, "topology").at("mark") == "ok");
  trio.sentinel(0).pause();
  auto two = shell.run({"doctor", "--json"}, environment);
  CHECK(two.exit == 0);
  CHECK(finding(two, "topology").at("found") == "2 of 3 sentinels answer, 2 replicas");
  CHECK(finding(two, "topology").at("mark") == "warn");
  trio.sentinel(1).kill();
  auto one = shell.run({"doctor", "--json"}, environment);
  CHECK(one.exit == 1);
  CHECK(finding(one, "topology").at("mark") == "fail");
}

TEST_CASE("doctor fails for a configured Redis that is away, and says how to reach it") {
  Shell shell;
  Port port;
  auto away = fmt::format("REDIS_URL=redis://127.0.0.1:{}", port.number());
  auto doctor = shell.run({"doctor", "--json"}, {away});
  CHECK(doctor.exit == 1);
  CHECK(finding(doctor, "redis").at("mark") == "fail");
  RedisServer server;
  server.pause();
  auto paused = shell.run({"doctor", "--json"}, {"REDIS_URL=" + url(server)});
  CHECK(paused.exit == 1);
  CHECK(paused.elapsed < 2s + slack);
}

TEST_CASE("doctor only warns of what this user may not ask") {
  Shell shell;
  RedisServer server({.users = {"alice on >secret ~* &* +@all -config -role"}});
  auto doctor = shell.run({"doctor", "--json"}, {"REDIS_URL=" + url(server), "REDIS_USERNAME=alice",
                                                 "REDIS_PASSWORD=secret"});
  CHECK(doctor.exit == 0);
  CHECK(finding(doctor, "persistence").at("mark") == "warn");
}

TEST_CASE("doctor warns of programs that are not installed, and how to install them") {
  Shell shell;
  RedisServer server;
  shell.write("empty/x", "");
  auto doctor = shell.start("PATH=empty; exec \"$0\" doctor --json >out 2>err", WARREN_BINARY, {},
                            {"REDIS_URL=" + url(server)});
  CHECK(doctor.exit == 0);
  CHECK(finding(doctor, "git").at("mark") == "warn");
  CHECK(finding(doctor, "redis-server").at("mend").as_string().starts_with("apt install"));
}

}  // namespace warren
