// torture, simulate, instances and foghorn, run as real commands.
#include <boost/json.hpp>

#include "cli/test_shell.h"
#include "proof/testkit/run.h"

namespace warren {

TEST_CASE("torture in a simulation tells what ran, what was checked and that all is well") {
  Shell shell;
  auto outcome = shell.run({"torture", "all", "--sim", "--schedules", "200", "--seed", "7"});
  CAPTURE(outcome.out);
  CHECK(outcome.exit == 0);
  CHECK(outcome.out.contains("catalog schedules 200, lease schedules 200, mirror schedules 200"));
  CHECK(outcome.out.contains("from seed 7"));
  CHECK(outcome.out.contains("I1  a resource accepts no token older"));
  CHECK(outcome.out.contains("I10 each snapshot of a mirror"));
  CHECK(outcome.out.contains("I13 no two nodes believe in a row at once"));
  CHECK(outcome.out.contains("every promise was kept"));
  CHECK(!outcome.out.contains("\x1b"));
  CHECK(!outcome.err.contains("\r"));  // no progress bar without a terminal
}

TEST_CASE("torture shows a bar on a terminal, and takes it away before the verdict") {
  Shell shell;
  auto outcome = shell.run_on_terminal("torture lease --sim --seconds 1 --seed 7");
  CAPTURE(outcome.out);
  CHECK(outcome.exit == 0);
  CHECK(outcome.out.contains("\r\x1b[K["));
  CHECK(outcome.out.contains("%  lease: "));
  auto cleared = outcome.out.rfind("\r\x1b[K");
  REQUIRE(cleared != outcome.out.npos);
  CHECK(outcome.out.find("every promise was kept") > cleared);
}

TEST_CASE("torture on real servers says what it needs") {
  Shell shell;
  shell.write("empty/x", "");
  auto none =
      shell.start("PATH=empty; exec \"$0\" torture lease >out 2>err", WARREN_BINARY, {}, {});
  check_plain_error(none, 2,
                    "redis-server is not installed; apt-get install redis-server, or use --sim");
}

TEST_CASE("simulate compares the policies, draws the load, and says the same for the same seed") {
  Shell shell;
  Words words{"simulate",  "--nodes", "10",        "--streams", "20",
              "--viewers", "200",     "--seconds", "60"};
  auto plain = shell.run(words);
  CHECK(plain.exit == 0);
  CHECK(plain.out.starts_with("10 nodes, 20 streams, 200 viewers at a time, 3 instances"));
  CHECK(plain.out.contains("compat                  fair      fair, not shared\n"));
  auto with_chart = words;
  with_chart.insert(with_chart.end(), {"--svg", "load.svg"});
  auto drawn = shell.start("\"$0\" \"$@\" >/dev/null 2>err && cat load.svg >out", WARREN_BINARY,
                           with_chart, {});
  CHECK(drawn.out.starts_with("<svg "));
  CHECK(shell.run(words).out == plain.out);
  words.insert(words.end(), {"--seed", "2"});
  CHECK(shell.run(words).out != plain.out);
  words.insert(words.end(), {"--faults", "fire"});
  check_error(shell.run(words), 2, "use none, all, or some of deaths,silence,drain,crowd",
              "--help");
}

TEST_CASE("an instance whose process is known to be dead is stopped at once") {
  Shell shell;
  RedisServer server;
  Words environment{"REDIS_URL=" + url(server)};
  auto up = shell.run({"up", "--name", "k"}, environment);
  REQUIRE_MESSAGE(up.exit == 0, up.err);
  auto kill = R"(kill -9 $("$0" list --json | grep -o '"orchestrator_pid":[0-9]*' | cut -d: -f2))";
  shell.start(kill, WARREN_BINARY, {}, environment);
  auto down = shell.run({"down", "--name", "k"}, environment);
  CHECK(down.exit == 0);
  CHECK(down.out == "Stopped instance: k (its process was gone)\n");
  CHECK(down.elapsed < 10s + slack);  // not the 60 s that its lock lasts
  CHECK(shell.run({"up", "--name", "k"}, environment).exit == 0);
  CHECK(shell.run({"down", "--name", "k"}, environment).exit == 0);
}

TEST_CASE("an instance whose process was killed is seen to be gone, and down waits for its name") {
  Shell shell;
  RedisServer server;
  Words environment{"REDIS_URL=" + url(server)};
  // Long enough for the commands before the one that waits, also on a busy machine.
  auto up = shell.run({"up", "--name", "k", "--ttl", "15s"}, environment);
  REQUIRE_MESSAGE(up.exit == 0, up.err);
  // As an older version writes it: only the process number is known, which may be another
  // machine's.
  auto entry = server.cli({"HGET", "warren:instances", "k"});
  auto mark = entry.find(",\"process\":");
  REQUIRE(mark != entry.npos);
  entry.erase(mark, entry.find('"', mark + 12) + 1 - mark);
  server.cli({"HSET", "warren:instances", "k", entry});
  auto kill = R"(pid=$("$0" list --json | grep -o '"orchestrator_pid":[0-9]*' | cut -d: -f2)
                 kill -9 $pid; while kill -0 $pid 2>/dev/null; do sleep 0.02; done)";
  shell.start(kill, WARREN_BINARY, {}, environment);
  CHECK(shell.run({"list"}, environment).out.contains("process gone"));
  CHECK(shell.run({"status", "--name", "k"}, environment).out.contains("process gone"));
  auto hasty = shell.run({"down", "--name", "k", "--timeout", "10ms"}, environment);
  CHECK(hasty.exit == 1);
  CHECK(hasty.err.contains("of instance k is gone, and its name is free in "));
  CHECK(!hasty.err.contains("hint:"));
  auto down = shell.run({"down", "--name", "k"}, environment);
  CHECK(down.exit == 0);
  CHECK(down.err.contains(" of instance k is gone; its name is free in "));
  CHECK(down.out == "Stopped instance: k (its process was gone)\n");
  CHECK(down.elapsed < 16s + slack);
  CHECK(shell.run({"list"}, environment).out == "No active Warren instances\n");
}

TEST_CASE(
    "files that are not there, and words that are wrong, have no hint about Redis or settings") {
  Shell shell;
  check_plain_error(shell.run({"import", "--name", "c", "nofile"}), 1,
                    "nofile: No such file or directory");
  shell.write("folder/x", "");
  check_plain_error(shell.run({"import", "--name", "c", "folder"}), 1, "folder: Is a directory");
  auto broken = shell.write("broken", "{}\n");
  check_plain_error(shell.run({"import", "--name", "c", broken}), 2, "line 1: ");
  check_plain_error(shell.run({"forage", "--goal", " "}), 2, "the goal is empty");
  auto ca = shell.run({"redis", "ping", "--redis-url", "rediss://h", "--redis-tls-ca", "nofile"});
  check_error(ca, 2, "cannot read nofile: No such file", "lists the settings");
  RedisServer server;
  auto hoard = shell.run({"hoard", "--name", "c", "x", "--redis-url", url(server)});
  check_plain_error(hoard, 1, "there is no instance 'c'");
}

TEST_CASE("foghorn refuses what is no place on earth, and names the flags that were typed") {
  Shell shell;
  check_error(shell.run({"balance", "demo", "--lat", "x"}), 2, "use degrees from -90 to 90",
              "--help");
  check_error(shell.run({"balance", "demo", "--lat", "999"}), 2, "--lat: \"999\": use degrees",
              "--help");
  check_error(shell.run({"balance", "--lon", "-180.5"}), 2, "use degrees from -180 to 180",
              "--help");
  check_error(shell.run({"balance", "--lon", "nan"}), 2, "use degrees from -180 to 180", "--help");
  CHECK(shell.run({"balance", "--help"}).out.contains("warren balance [OPTIONS] [STREAM]\n"));
  auto port = shell.run({"serve", "--port", "99999"});
  check_error(port, 2, "--port: \"99999\": use a whole number from 0 to 65535", "serve --help");
  auto policy = shell.run({"serve", "--policy", "foo"});
  check_error(policy, 2, "--policy: \"foo\": use one of compat, fair", "serve --help");
}

TEST_CASE("a foghorn that waits for Redis says where it looks for it, and why it waits") {
  Shell shell;
  Port port;
  auto address = fmt::format("127.0.0.1:{}", port.number());
  auto script =
      R"("$0" serve --port 0 --grpc-port 0 --listen 127.0.0.1 --instance-id i1 >out 2>err &
    until grep -q waits_for_redis err; do kill -0 $! || exit 9; sleep 0.05; done; kill $!; wait)";
  auto served = shell.start(script, WARREN_BINARY, {}, {"REDIS_URL=redis://" + address});
  CAPTURE(served.err);
  auto waits = served.err.find("foghorn.waits_for_redis");
  REQUIRE(waits != served.err.npos);
  auto line = served.err.substr(waits, served.err.find('\n', waits) - waits);
  CHECK(line.contains(address + ": the connection was refused"));
}

TEST_CASE("torture that is interrupted leaves no folder and no server behind") {
  Shell shell;
  auto script = R"(mkdir scratch; export TMPDIR=$PWD/scratch
    (trap - INT; exec "$0" torture lease --seconds 60 >out 2>err) & torture=$!
    until ls scratch/*/* >/dev/null 2>&1; do kill -0 $torture || exit 9; done
    kill -$1 $torture; wait $torture
    for i in {1..200}; do [[ -z $(ls scratch) ]] && exit 0; sleep 0.05; done; exit 1)";
  for (auto* signal : {"INT", "TERM", "KILL"}) {
    auto ended = shell.start(script, WARREN_BINARY, {signal}, {});
    CHECK_MESSAGE(ended.exit == 0, signal);
    shell.start("rmdir scratch", "", {}, {});
  }
}

TEST_CASE("an instance that is not ready in time has a hint about the time, not about a firewall") {
  Shell shell;
  RedisServer server;
  auto up = shell.run({"up", "--name", "k", "--timeout", "1ms"}, {"REDIS_URL=" + url(server)});
  check_error(up, 3, "the orchestrator was not ready within 1 ms", "--timeout");
  CHECK(!up.err.contains("firewall"));
}

}  // namespace warren
