// Moves a repository with a segment of some 200 MB from node to node by draining each in turn. The
// segment is streamed, verified and held in memory. Compared with a bare copy of the same number of
// bytes through a socket. Meanwhile small repositories on the same two nodes are searched.
#include <sys/mman.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <filesystem>
#include <fstream>
#include <thread>

#include "bench_fleet.h"
#include "fleet_processes.h"
#include "measure.h"
#include "proof/testkit/run.h"
#include "report.h"
#include "search_command.h"
#include "search_corpus.h"

namespace warren::bench {

namespace {

namespace fs = std::filesystem;
using asio::ip::tcp;

constexpr int rounds = 5;
constexpr std::size_t text_bytes = 165u << 20;  // gives a segment of 200 MB
constexpr int small_repositories = 8;

void git(std::vector<std::string> words) {
  words.insert(words.begin(),
               {"git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.compression=0",
                "-c", "gc.auto=0", "-c", "init.defaultBranch=main"});
  Command command{.argv = std::move(words), .longest = std::chrono::minutes(5)};
  auto done = run_command(command);
  ensure(done.has_value() && done->code == 0, "git makes a repository");
}

void commit(const fs::path& work, const fs::path& to) {
  git({"init", "-q", work});
  git({"-C", work, "add", "-A", "-f"});
  git({"-C", work, "commit", "-q", "-m", "x"});
  git({"clone", "-q", "--bare", work, to});
}

// Collects files of the corpus up to this size.
void make_large(const std::string& corpus, const fs::path& work) {
  std::size_t bytes = 0;
  for (const auto& file : fs::recursive_directory_iterator(corpus)) {
    if (file.is_symlink() || !file.is_regular_file() || file.file_size() > (1u << 20)) continue;
    auto to = work / fs::relative(file.path(), corpus);
    fs::create_directories(to.parent_path());
    fs::copy_file(file.path(), to);
    bytes += file.file_size();
    if (bytes >= text_bytes) break;
  }
}

void make_repositories(const std::string& corpus, const fs::path& folder) {
  make_large(corpus, folder / "work" / "large");
  for (int i = 0; i < small_repositories; ++i) {
    auto work = folder / "work" / fmt::format("small{}", i);
    fs::create_directories(work);
    for (int k = 0; k < 50; ++k)
      std::ofstream(work / fmt::format("f{}.c", k)) << "int apple_" << i << '_' << k << "(void);\n";
  }
  for (const auto& work : fs::directory_iterator(folder / "work"))
    commit(work.path(), folder / "repos" / work.path().filename());
  fs::remove_all(folder / "work");
}

// From one thread to another, which reads into memory that it has not touched before.
double copy_through_socket(std::size_t bytes) {
  std::string text(bytes, 'x');
  asio::io_context io;
  tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
  tcp::socket from(io), to(io);
  from.connect(acceptor.local_endpoint());
  acceptor.accept(to);
  auto begin = Clock::now();
  std::jthread sender([&] { asio::write(from, asio::buffer(text)); });
  auto* into = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ensure(into != MAP_FAILED, "there is memory for a copy");
  asio::read(to, asio::buffer(into, bytes));
  auto seconds = seconds_since(begin);
  munmap(into, bytes);
  return seconds;
}

// Searches small repositories without pause.
struct Asking {
  HttpUrl to;
  bool is_over = false;
  std::vector<double> times_ms = {};
};
awaitable<void> ask_on(Asking& asking) {
  Asker client(co_await asio::this_coro::executor, asking.to);
  for (int i = 0; !asking.is_over; ++i) {
    HttpAsk ask{"POST", "/v1/search"};
    ask.body = fmt::format(R"({{"q":"apple_{}_{} repo:small"}})", i % small_repositories, i % 50);
    auto begin = Clock::now();
    auto reply = co_await reply_of(client, std::move(ask));
    asking.times_ms.push_back(seconds_since(begin) * 1e3);
    if (!reply.body.contains(R"("complete":true)")) fail_test(reply.body);
  }
}

// The number after the last `name=` in the last event of this kind in a log.
double number_in(const std::string& log, std::string_view event, std::string_view name) {
  auto at = log.rfind(fmt::format(" {}=", name), log.find('\n', log.rfind(event)));
  ensure(log.contains(event) && at != log.npos, "the node has logged it");
  return std::stod(log.substr(at + name.size() + 2));
}

struct HandOvers {
  std::vector<double> rates, bare_rates, over_segment_mb, quiet_p99_ms, busy_p99_ms;
};

awaitable<std::vector<double>> times_of(Asking& asking, Clock::duration time) {
  asking.times_ms.clear();
  co_await sleep_for(time);
  co_return std::exchange(asking.times_ms, {});
}

awaitable<void> hand_over(FleetProcesses& fleet, int round, Asking& asking, HandOvers& into) {
  auto old = fmt::format("n{}", round), next = fmt::format("n{}", round + 1);
  auto& receiver = fleet.start_node(next);
  auto quiet = co_await times_of(asking, 1s);
  auto before = memory_of(receiver.pid(), "VmHWM");
  asking.times_ms.clear();
  fleet.node(old).terminate();
  auto has_taken = [](FleetProcesses& of, std::string& by) {
    auto log = of.log_of(by);
    auto at = log.find("fleet.taken_over repo=large");
    return at != log.npos && log.find('\n', at) != log.npos;
  };
  co_await eventually(120s, "it is taken over", has_taken, fleet, next);
  auto busy = std::exchange(asking.times_ms, {});
  auto peak = memory_of(receiver.pid(), "VmHWM") - before;
  auto has_ended = [](Process& process) { return !process.alive(); };
  co_await eventually(120s, "the old owner ends", has_ended, fleet.node(old));
  auto log = fleet.log_of(next);
  auto bytes = number_in(log, "fleet.standing_by repo=large", "bytes");
  auto seconds = number_in(log, "fleet.standing_by repo=large", "time_ms") / 1e3;
  auto bare = copy_through_socket(static_cast<std::size_t>(bytes));
  fmt::print(stderr, "fleet: {:.0f} MB in {:.3f} s, bare {:.3f} s; {} queries meanwhile\n",
             bytes / 1e6, seconds, bare, busy.size());
  into.rates.push_back(bytes / 1e6 / seconds);
  into.bare_rates.push_back(bytes / 1e6 / bare);
  into.over_segment_mb.push_back((static_cast<double>(peak) - bytes) / (1 << 20));
  into.quiet_p99_ms.push_back(percentile_99(quiet));
  into.busy_p99_ms.push_back(percentile_99(busy));
}

void report(const HandOvers& all) {
  print({.bench = "fleet.hand_over.rate",
         .value = median(all.rates),
         .unit = "MB/s",
         .peer = "bare socket copy",
         .peer_value = median(all.bare_rates),
         .bar = 0.5});
  print({.bench = "fleet.hand_over.peak_over_segment",
         .value = median(all.over_segment_mb),
         .unit = "MB",
         .bar = 16,
         .better = Better::lower});
  print({.bench = "fleet.hand_over.others_p99",
         .value = median(all.busy_p99_ms),
         .unit = "ms",
         .peer = "before it",
         .peer_value = median(all.quiet_p99_ms),
         .bar = 2,
         .better = Better::lower});
}

awaitable<void> measure(FleetProcesses& fleet) {
  auto routes = co_await fleet.routes_when_settled(small_repositories + 1);
  auto body = [](TaskGroup& tasks, FleetProcesses& of) -> awaitable<bool> {
    HandOvers all;
    Asking asking{of.url()};
    tasks.start("bench.ask", ask_on(asking));
    for (int round = 1; round <= rounds; ++round) co_await hand_over(of, round, asking, all);
    asking.is_over = true;
    co_await tasks.join();
    report(all);
    co_return true;
  };
  co_await with_group(body, fleet);
}

}  // namespace

void bench_hand_over(const std::string& package) {
  auto corpus = fetch_corpus(package);
  ensure(corpus.has_value(), "the corpus is there");
  TempFolder folder;
  fs::create_directories(folder.path() / "repos");
  make_repositories(corpus->folder, folder.path());
  FleetProcesses fleet(folder.path() / "repos");
  fleet.start_node("n1");
  fleet.start_router();
  for (const auto& repository : fs::directory_iterator(folder.path() / "repos"))
    fleet.add({repository.path(), "--as", repository.path().filename()});
  run(measure(fleet), 1200s);
}

}  // namespace warren::bench
