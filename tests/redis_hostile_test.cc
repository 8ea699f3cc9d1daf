// A hostile server costs its callers their time until the deadline, and no more.
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "redis/connection/conversation.h"
#include "with_client.h"

using namespace warren;
using namespace warren::redis;
using namespace asio::experimental::awaitable_operators;

namespace {

// On a shared machine a timer may fire late; a hang takes much longer.
constexpr auto grace = 5s;

// Answers the first question with +OK, and the second with `head`, then `body` for ever.
class Liar {
 public:
  Liar(std::string head, std::string body, std::chrono::milliseconds pause = 0ms)
      : head_(std::move(head)), body_(std::move(body)), pause_(pause) {
    door_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(door_, reinterpret_cast<sockaddr*>(&here), sizeof here) == 0);
    REQUIRE(::listen(door_, 16) == 0);
    socklen_t size = sizeof here;
    REQUIRE(::getsockname(door_, reinterpret_cast<sockaddr*>(&here), &size) == 0);
    port_ = ntohs(here.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~Liar() {
    stop_ = true;
    thread_.join();
    ::close(door_);
  }
  Liar(const Liar&) = delete;
  Liar& operator=(const Liar&) = delete;

  unsigned short port() const { return port_; }
  int guests() const { return guests_; }

 private:
  void run() {
    while (!stop_) {
      if (!waits_for(door_, POLLIN)) continue;
      int guest = ::accept4(door_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (guest < 0) continue;
      ++guests_;
      if (hears(guest) && says(guest, "+OK\r\n") && hears(guest) && says(guest, head_))
        while (says(guest, body_)) std::this_thread::sleep_for(pause_);
      ::close(guest);
    }
  }
  static bool waits_for(int fd, short what) {
    pollfd wanted{fd, what, 0};
    return ::poll(&wanted, 1, 20) > 0;
  }
  bool hears(int guest) {
    char heard[4096];
    for (;;) {
      if (stop_) return false;
      if (waits_for(guest, POLLIN)) return ::recv(guest, heard, sizeof heard, 0) > 0;
    }
  }
  bool says(int guest, std::string_view words) {
    while (!words.empty()) {
      if (stop_) return false;
      if (!waits_for(guest, POLLOUT)) continue;
      auto sent = ::send(guest, words.data(), words.size(), MSG_NOSIGNAL);
      if (sent < 0) return false;
      words.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  std::string head_, body_;
  std::chrono::milliseconds pause_;
  int door_ = -1;
  unsigned short port_ = 0;
  std::atomic<int> guests_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

std::string times(int count, std::string_view piece) {
  std::string text;
  for (int i = 0; i < count; ++i) text += piece;
  return text;
}

struct Ended {
  std::optional<Error> error;
  Clock::duration took{};
  int turns = 0;  // of another coroutine meanwhile
};

awaitable<void> count_turns(int& turns) {
  for (;; ++turns) co_await sleep_for(5ms);
}

awaitable<void> ask_liar(Liar& liar, Clock::duration limit, Ended& ended) {
  auto dialer = Dialer::create(settings_for(liar.port()));
  REQUIRE(dialer);
  Address address{"127.0.0.1", liar.port(), ""};
  auto conversation = co_await dialer->dial(address, Clock::now() + 10s);
  REQUIRE(conversation);
  auto before = Clock::now();
  auto reply = co_await (*conversation)->ask(Command("PING"), before + limit);
  ended.took = Clock::now() - before;
  REQUIRE(!reply);
  ended.error = reply.error();
}

awaitable<void> ask_beside_others(Liar& liar, Clock::duration limit, Ended& ended) {
  co_await (ask_liar(liar, limit, ended) || count_turns(ended.turns));
}

Ended ask(Liar& liar, Clock::duration limit) {
  Ended ended;
  run(ask_beside_others(liar, limit, ended));
  REQUIRE(ended.error);
  return ended;
}

long peak_kilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stol(line.substr(6));
  return 0;
}

}  // namespace

TEST_CASE(
    "a reply of 61 MB of small integers takes at most a few hundred megabytes before it is "
    "refused") {
  auto before = peak_kilobytes();
  Liar liar("*4000000\r\n", times(8192, "*8\r\n" + times(8, ":1\r\n")));
  auto ended = ask(liar, 60s);
  CHECK(ended.error->code == Errc::protocol);
  CHECK(ended.error->what.find("more in one reply than allowed") != std::string::npos);
  CHECK(peak_kilobytes() - before < 512 * 1024);
}

TEST_CASE("a trickle that never becomes an answer ends at the deadline") {
  Liar liar("*1000000\r\n", ":1\r\n", 1ms);
  auto ended = ask(liar, 200ms);
  CHECK(ended.error->code == Errc::timeout);
  CHECK(ended.took >= 200ms);
  CHECK(ended.took < 200ms + grace);
}

TEST_CASE(
    "a flood that never becomes an answer ends at the deadline, and others have their turns") {
  Liar liar("", times(20'000, "|0\r\n"));
  auto ended = ask(liar, 200ms);
  CHECK(ended.error->code == Errc::timeout);
  CHECK(ended.took >= 200ms);
  CHECK(ended.took < 200ms + grace);
  CHECK(ended.turns > 1);
}

TEST_CASE("a flood of what nobody asked for is no answer, and is not kept") {
  Liar liar("", times(20'000, ">1\r\n+x\r\n"));
  auto ended = ask(liar, 10s);
  CHECK(ended.error->code == Errc::protocol);
  CHECK(ended.took < 10s);
}

TEST_CASE("on a shared connection a flood ends no call late, and the connection is given up") {
  Liar liar("", times(20'000, "|0\r\n"));
  with_client(
      settings_for(liar.port()),
      [](Client& client, Liar& l) -> awaitable<void> {
        auto before = Clock::now();
        auto reply = co_await client.command(Command("PING"), CallOptions().within(200ms));
        REQUIRE(!reply);
        CHECK(Clock::now() - before < 200ms + grace);
        co_await eventually(
            20s, "the connection is given up", [](Liar& x) { return x.guests() > 1; }, l);
      },
      liar);
}

TEST_CASE("on a shared connection a trickle of what nobody asked for does not count as an answer") {
  Liar liar("", ">1\r\n+x\r\n", 5ms);
  auto settings = settings_for(liar.port());
  settings.ping_interval = 50ms;
  settings.silence_limit = 200ms;
  with_client(
      settings,
      [](Client& client, Liar& l) -> awaitable<void> {
        auto before = Clock::now();
        auto reply = co_await client.command(Command("PING"), CallOptions().within(30s));
        REQUIRE(!reply);
        CHECK(reply.error().code == Errc::unknown_outcome);
        CHECK(Clock::now() - before < 25s);
        co_await eventually(
            20s, "the client connects again", [](Liar& x) { return x.guests() > 1; }, l);
      },
      liar);
}
