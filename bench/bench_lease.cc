// Leases compared with bare loops that send the same bytes, on the same server in the same run.
//
// A bare loop is one socket and a window of requests, and nothing else: no deadlines, no states, no
// reconnection. The difference is what the lease costs the client.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench_primitives.h"
#include "measure.h"
#include "primitives/lease/lease.h"
#include "primitives/lease/scripts.h"
#include "proof/testkit/process.h"
#include "proof/testkit/run.h"
#include "proof/testkit/servers/redis_server.h"
#include "redis/resp/parser.h"
#include "report.h"

namespace warren::bench {

namespace {

constexpr int rounds = 5;
constexpr int window = 256;

redis::Settings settings_for(const RedisServer& server) {
  redis::Settings settings;
  settings.addresses = {{"127.0.0.1", server.port(), ""}};
  settings.command_timeout = 10s;
  return settings;
}

class BareSocket {
 public:
  explicit BareSocket(const RedisServer& server) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(server.port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int one = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    ensure(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "connected");
  }
  ~BareSocket() { ::close(fd_); }
  BareSocket(const BareSocket&) = delete;
  BareSocket& operator=(const BareSocket&) = delete;

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      auto sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      ensure(sent > 0, "written");
      bytes.remove_prefix(std::size_t(sent));
    }
  }
  // Returns how many replies arrived.
  int read() {
    char bytes[64 << 10];
    auto got = ::recv(fd_, bytes, sizeof bytes, 0);
    ensure(got > 0, "answered");
    int replies = 0;
    for (std::string_view rest(bytes, std::size_t(got)); !rest.empty();) {
      auto progress = parser_.parse(rest);
      rest.remove_prefix(progress.consumed);
      if (progress.status != redis::Parser::Status::complete) break;
      ensure(!parser_.take().is_error(), "understood");
      ++replies;
    }
    return replies;
  }

 private:
  int fd_;
  redis::Parser parser_;
};

std::string lease_command(std::string_view what, int key, std::uint64_t attempt) {
  std::vector<std::string> keys{fmt::format("{{{}}}:job", key),
                                fmt::format("{{{}}}:job:fence", key),
                                fmt::format("{{{}}}:job:queue", key)};
  std::vector<std::string> args{std::string(what),
                                fmt::format("00000000-0000-4000-8000-000000000000/{}", attempt),
                                "alice",
                                "15000",
                                "-",
                                "0",
                                "86400000",
                                "-",
                                "alice",
                                "-"};
  return std::string(scripts::lease.by_hash(keys, args).bytes());
}

// Keeps `window` commands in flight until all are answered. Returns commands per second.
double bare_loop(const RedisServer& server, const std::vector<std::string>& commands) {
  BareSocket socket(server);
  std::size_t sent = 0, answered = 0;
  auto start = Clock::now();
  while (answered < commands.size()) {
    std::string bytes;
    // In quarters of the window, so that both sides stay busy.
    if (sent - answered <= window * 3 / 4 || sent == commands.size()) {
      while (sent < commands.size() && sent - answered < window) bytes += commands[sent++];
      if (!bytes.empty()) socket.write(bytes);
    }
    answered += std::size_t(socket.read());
  }
  return double(commands.size()) / seconds_since(start);
}

template <class Body, class... Args>
void with_session(const RedisServer& server, Body body, Args&... args) {
  auto whole = [](redis::Settings settings, Body inner, Args&... rest) -> awaitable<void> {
    auto client = redis::Client::create(co_await asio::this_coro::executor, std::move(settings));
    ensure(client.has_value(), "a client");
    LeaseSession session(**client);
    co_await inner(session, rest...);
    co_await session.close();
    co_await (*client)->close();
  };
  run(whole(settings_for(server), body, args...), 600s);
}

Async<> take_leases(LeaseSession& session, int first, int count, std::vector<Lease>& leases) {
  for (int i = first; i < first + count; ++i) {
    LeaseTerms terms{fmt::format("{{{}}}:job", i), "alice", 15s};
    auto lease = co_await session.try_acquire(std::move(terms));
    if (!lease) co_return std::unexpected(lease.error());
    leases.push_back(std::move(*lease));
  }
  co_return ok;
}

Async<> take_and_release(LeaseSession& session, int key, int count) {
  for (int i = 0; i < count; ++i) {
    LeaseTerms terms{fmt::format("{{{}}}:job", key), "alice", 15s};
    auto lease = co_await session.try_acquire(std::move(terms));
    if (!lease) co_return std::unexpected(lease.error());
    auto released = co_await lease->release();
    if (!released) co_return released;
  }
  co_return ok;
}

constexpr int acquisitions = 128 * window, pairs = 64 * window;

double our_acquisitions(RedisServer& server) {
  double rate = 0;
  with_session(
      server,
      [](LeaseSession& session, double& out) -> awaitable<void> {
        std::vector<Lease> leases;
        leases.reserve(acquisitions);
        TaskGroup group(session.client().executor());
        auto start = Clock::now();
        for (int i = 0; i < window; ++i)
          group.start("taker", take_leases(session, i * (acquisitions / window),
                                           acquisitions / window, leases));
        co_await group.join();
        out = acquisitions / seconds_since(start);
        ensure(leases.size() == acquisitions, "all were granted");
      },
      rate);
  return rate;
}

double our_pairs(RedisServer& server) {
  double rate = 0;
  with_session(
      server,
      [](LeaseSession& session, double& out) -> awaitable<void> {
        TaskGroup group(session.client().executor());
        auto start = Clock::now();
        for (int i = 0; i < window; ++i)
          group.start("taker", take_and_release(session, i, pairs / window));
        co_await group.join();
        out = pairs / seconds_since(start);
        ensure(session.machine().counters().granted == pairs, "all were granted");
      },
      rate);
  return rate;
}

void bench_throughput(RedisServer& server) {
  server.cli({"SCRIPT", "LOAD", std::string(scripts::lease.source())});
  std::vector<std::string> acquire, both;
  for (int i = 0; i < acquisitions; ++i)
    acquire.push_back(lease_command("acquire", i, std::uint64_t(i)));
  for (int i = 0; i < pairs / window; ++i) {
    for (auto what : {"acquire", "release"})
      for (int key = 0; key < window; ++key)
        both.push_back(lease_command(what, key, std::uint64_t(i)));
  }
  std::vector<double> ours, bare, our_both, bare_both;
  for (int round = 0; round < rounds; ++round) {
    server.cli({"FLUSHALL"});
    ours.push_back(our_acquisitions(server));
    server.cli({"FLUSHALL"});
    bare.push_back(bare_loop(server, acquire));
    server.cli({"FLUSHALL"});
    our_both.push_back(our_pairs(server));
    server.cli({"FLUSHALL"});
    bare_both.push_back(bare_loop(server, both) / 2);
  }
  print({"primitives.lease.acquire.256", median(ours), "op/s", "bare loop, window 256",
         median(bare), 0.8});
  print({"primitives.lease.pairs.256", median(our_both), "op/s", "bare loop, window 256",
         median(bare_both), 0.8});
}

struct Handover {
  explicit Handover(const asio::any_io_executor& executor) : taken(executor) {}
  std::vector<double> times;
  Clock::time_point released;
  Event taken;
};

Async<> hold_in_turn(LeaseSession& session, int turns, Handover& handover) {
  for (int i = 0; i < turns; ++i) {
    LeaseTerms terms{"{h}:job", "holder"};
    auto lease = co_await session.acquire(std::move(terms), Clock::now() + 60s);
    if (!lease) co_return std::unexpected(lease.error());
    if (handover.released != Clock::time_point{})
      handover.times.push_back(seconds_since(handover.released) * 1e6);
    handover.taken.notify();
    // Not before the other client is queued again.
    for (;;) {
      auto line = co_await session.client().command(redis::Command("LLEN", "{h}:job:queue"));
      if (line && (line->number > 0 || i + 1 == turns)) break;
    }
    handover.released = Clock::now();
    auto so_far = handover.times.size();
    auto released = co_await lease->release();
    if (!released) co_return released;
    while (i + 1 < turns && handover.times.size() == so_far) co_await handover.taken.wait();
  }
  co_return ok;
}

double percentile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return values[std::min(values.size() - 1, std::size_t(share * double(values.size())))];
}

void bench_handover(RedisServer& server) {
  constexpr int turns = 2000;
  std::vector<double> times;
  with_session(
      server,
      [](LeaseSession& alice, std::vector<double>& out) -> awaitable<void> {
        LeaseSession bob(alice.client());
        Handover handover(alice.client().executor());
        TaskGroup group(alice.client().executor());
        group.start("alice", hold_in_turn(alice, turns, handover));
        group.start("bob", hold_in_turn(bob, turns, handover));
        co_await group.join();
        co_await bob.close();
        out = std::move(handover.times);
      },
      times);
  std::vector<double> trips;
  BareSocket socket(server);
  for (int i = 0; i < turns; ++i) {
    auto start = Clock::now();
    socket.write("*1\r\n$4\r\nPING\r\n");
    while (socket.read() == 0) continue;
    trips.push_back(seconds_since(start) * 1e6);
  }
  auto trip = percentile(trips, 0.5);
  print({"primitives.lease.handover.p50", percentile(times, 0.5), "us", "bare round trip, p50",
         trip, 1.5, Better::lower});
  print({"primitives.lease.handover.p99", percentile(times, 0.99), "us", "bare round trip, p50",
         trip, 3.0, Better::lower});
}

Async<double> wait_for_dead_holder(LeaseSession& session, const RedisServer& server) {
  TempFolder folder;
  Program program{{"/proc/self/exe", "hold", std::to_string(server.port())}, folder.path() / "log"};
  Process holder(program);
  auto& client = session.client();
  for (;;) {
    auto held = co_await client.command(redis::Command("EXISTS", "{k}:job"));
    if (held && held->number == 1) break;
  }
  LeaseTerms terms{"{k}:job", "next", 1s};
  auto kill_when_waited_for = [](redis::Client& c, Process& p, Clock::time_point& at) -> Async<> {
    for (;;) {
      auto line = co_await c.command(redis::Command("LLEN", "{k}:job:queue"));
      if (line && line->number == 1) break;
    }
    // At a random moment between two renewals.
    co_await sleep_for(std::chrono::milliseconds(Clock::now().time_since_epoch().count() % 331));
    at = Clock::now();
    p.kill();
    co_return ok;
  };
  Clock::time_point killed;
  TaskGroup group(client.executor());
  group.start("killer", kill_when_waited_for(client, holder, killed));
  auto lease = co_await session.acquire(std::move(terms), Clock::now() + 20s);
  auto time = seconds_since(killed);
  co_await group.join();
  if (!lease) co_return std::unexpected(lease.error());
  auto released = co_await lease->release();
  if (!released) co_return std::unexpected(released.error());
  co_return time;
}

void bench_crash(RedisServer& server) {
  std::vector<double> times;
  with_session(
      server,
      [](LeaseSession& session, RedisServer& redis, std::vector<double>& out) -> awaitable<void> {
        for (int i = 0; i < 30; ++i) {
          auto time = co_await wait_for_dead_holder(session, redis);
          ensure(time.has_value(), "the lease came free");
          out.push_back(*time);
        }
      },
      server, times);
  print({"primitives.lease.wake_after_kill.p99",
         percentile(times, 0.99),
         "s (ttl 1 s)",
         "",
         {},
         1.05,
         Better::lower});
}

void bench_idle(RedisServer& server) {
  double commands = 0;
  with_session(
      server,
      [](LeaseSession& session, RedisServer& redis, double& out) -> awaitable<void> {
        std::vector<Lease> leases;
        for (int i = 0; i < 10'000; ++i) {
          LeaseTerms terms{fmt::format("{{i}}:{}", i), "alice"};
          auto lease = co_await session.try_acquire(std::move(terms));
          ensure(lease.has_value(), "granted");
          leases.push_back(std::move(*lease));
        }
        auto renewals = [](LeaseSession& s) { return s.machine().counters().renewed; };
        auto before = renewals(session);
        co_await eventually(
            60s, "a renewal", [before](auto& s) { return s.machine().counters().renewed > before; },
            session);
        auto total = [&] { return std::stod(redis.info("total_commands_processed")); };
        auto first = total();
        auto count = renewals(session);
        co_await eventually(
            60s, "three more renewals",
            [count](auto& s) { return s.machine().counters().renewed >= count + 3; }, session);
        // Each reading of the total is a command too, and the client pings an idle connection.
        out = double(renewals(session) - count) / 3;
        fmt::print(stderr, "commands in 3 intervals, pings and our own looks included: {}\n",
                   total() - first);
        ensure(leases.back().is_held(), "all are still held");
      },
      server, commands);
  print({"primitives.lease.idle_10000.renewals_per_interval",
         commands,
         "commands",
         "",
         {},
         1.0,
         Better::lower});
}

}  // namespace

int hold_until_killed(unsigned short port) {
  auto body = [](unsigned short to) -> awaitable<void> {
    redis::Settings settings;
    settings.addresses = {{"127.0.0.1", to, ""}};
    auto client = redis::Client::create(co_await asio::this_coro::executor, std::move(settings));
    LeaseSession session(**client);
    LeaseTerms terms{"{k}:job", "doomed", 1s};
    auto lease = co_await session.acquire(std::move(terms), Clock::now() + 10s);
    co_await sleep_until(Clock::time_point::max());
  };
  run(body(port), 600s);
  return 0;
}

void bench_leases() {
  RedisServer server;
  pin(server.pid(), 0);
  bench_throughput(server);
  bench_handover(server);
  bench_crash(server);
  bench_idle(server);
}

}  // namespace warren::bench
