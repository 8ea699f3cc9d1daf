#include "services/instance/embedded.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "base/causes.h"
#include "proof/testkit/run.h"
#include "proof/testkit/temp_folder.h"

using namespace warren;

namespace {

struct Private {
  TempFolder home;
  EmbeddedRedis redis{home.path() / "redis"};
  ~Private() {
    auto stopped = redis.stop_if_unused(Clock::now() + 30s);
    if (stopped) (void)*stopped;
  }
};

pid_t pid_of(const EmbeddedRedis& redis) {
  auto command = "redis-cli -s '" + redis.socket().string() + "' INFO server";
  auto* pipe = ::popen(command.c_str(), "r");  // NOLINT(cert-env33-c)
  REQUIRE(pipe);
  std::string text;
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
  ::pclose(pipe);
  auto at = text.find("process_id:");
  return at == text.npos ? 0 : std::stoi(text.substr(at + 11));
}

// Until then this process cannot write into any file.
class FullDisk {
 public:
  FullDisk() {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit none{0, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &none);
  }
  ~FullDisk() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("on a full disk no server is started with half of its configuration") {
  Private own;
  auto use = own.redis.use();
  REQUIRE(use);
  Result<> started = ok;
  {
    FullDisk full;
    started = own.redis.start(Clock::now() + 3s);
  }
  REQUIRE(!started);
  CHECK(started.error().cause == causes::no_resources);
  CHECK(started.error().what == (own.home.path() / "redis/redis.conf: File too large").string());
  started = own.redis.start(Clock::now() + 60s);
  CHECK(started);
}

TEST_CASE("it is started once, for this user alone, and stopped when nobody uses it") {
  Private own;
  CHECK(!own.redis.is_running());
  CHECK(!own.redis.has_data());
  {
    auto use = own.redis.use();
    REQUIRE(use);
    std::vector<std::thread> starters;
    std::atomic<int> started = 0;
    for (int i = 0; i < 8; ++i)
      starters.emplace_back([&] { started += own.redis.start(Clock::now() + 60s).has_value(); });
    for (auto& starter : starters) starter.join();
    CHECK(started == 8);
    CHECK(own.redis.is_running());
    struct stat status{};
    REQUIRE(stat((own.home.path() / "redis").c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0700);
    auto stopped = own.redis.stop_if_unused(Clock::now());
    CHECK(!*stopped);
    CHECK(own.redis.is_running());
  }
  auto stopped = own.redis.stop_if_unused(Clock::now() + 30s);
  REQUIRE(stopped);
  CHECK(*stopped);
  CHECK(!own.redis.is_running());
  CHECK(own.redis.has_data());
}

TEST_CASE("what a crash left behind does not keep it from starting") {
  Private own;
  auto made = own.redis.use();
  std::ofstream(own.redis.socket()) << "no socket";
  std::ofstream(own.home.path() / "redis" / "redis.log") << "old\n";
  auto started = own.redis.start(Clock::now() + 60s);
  REQUIRE_MESSAGE(started, started.error().what);
  CHECK(own.redis.is_running());
}

TEST_CASE("one that is too busy to answer is not started a second time") {
  Private own;
  auto use = own.redis.use();
  REQUIRE(own.redis.start(Clock::now() + 60s));
  auto pid = pid_of(own.redis);
  REQUIRE(pid > 1);
  kill(pid, SIGSTOP);
  CHECK(own.redis.is_running());
  auto again = own.redis.start(Clock::now() + 100ms);
  kill(pid, SIGCONT);
  REQUIRE(!again);
  CHECK(again.error().code == Errc::timeout);
  CHECK(own.redis.start(Clock::now() + 60s));
  CHECK(pid_of(own.redis) == pid);
}

TEST_CASE("why it cannot be started is said") {
  TempFolder home;
  EmbeddedRedis deep(home.path() / std::string(120, 'x'));
  auto started = deep.start(Clock::now() + 5s);
  REQUIRE(!started);
  CHECK(started.error().code == Errc::invalid);
  CHECK(started.error().what.contains("too long"));
  // Now and then it is there at once, even for somebody who has no time.
  Result<> late = ok;
  for (int i = 0; i < 100 && late; ++i) {
    Private own;
    REQUIRE(own.redis.use());
    std::ofstream(own.home.path() / "redis" / "redis.log") << "of the run before\n";
    late = own.redis.start(Clock::now());
    CHECK(own.redis.is_running() == late.has_value());
  }
  REQUIRE(!late);
  CHECK(late.error().what.contains("does not start in time"));
  CHECK(!late.error().what.contains("of the run before"));
  EmbeddedRedis nowhere("/proc/nowhere");
  CHECK(!nowhere.start(Clock::now() + 5s));
  CHECK(!nowhere.use());
}
