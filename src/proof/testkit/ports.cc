#include "proof/testkit/ports.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <utility>

#include "proof/testkit/failure.h"

namespace warren::inline testkit {

namespace {

constexpr int lowest = 10000;

// The first port that the kernel may give to an outgoing connection.
int first_outgoing() {
  int first = 32768;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first;
  return first > lowest + 1000 ? first : 65536;
}

// Returns the lock, or -1 if another test has it.
int lock_port(int port) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  auto end = fmt::format_to(address.sun_path + 1, "warren.testkit.port.{}", port);
  int lock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto size = static_cast<socklen_t>(end - reinterpret_cast<char*>(&address));
  if (bind(lock, reinterpret_cast<sockaddr*>(&address), size) == 0) return lock;
  close(lock);
  return -1;
}

bool can_listen(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  bool bound = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return bound;
}

}  // namespace

Port::Port() {
  std::random_device random;
  std::uniform_int_distribution<int> any(lowest, first_outgoing() - 1);
  for (int i = 0; i < 1000; ++i) {
    int port = any(random);
    lock_ = lock_port(port);
    if (lock_ < 0) continue;
    number_ = static_cast<unsigned short>(port);
    if (can_listen(port)) return;
    close(std::exchange(lock_, -1));
  }
  fail_test("no free port found in 1000 tries");
}

Port::~Port() {
  if (lock_ >= 0) close(lock_);
}

Port::Port(Port&& other) noexcept : lock_(std::exchange(other.lock_, -1)), number_(other.number_) {}

Port& Port::operator=(Port&& other) noexcept {
  std::swap(lock_, other.lock_);
  std::swap(number_, other.number_);
  return *this;
}

}  // namespace warren::inline testkit
