#include "redis/connection/resolve.h"

#include <fcntl.h>
#include <netdb.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <cerrno>
#include <cstring>
#include <thread>

namespace warren::redis {

namespace {

using asio::ip::tcp;

// A resolver that hangs holds a thread for up to half a minute. Reconnects must not pile up
// threads.
constexpr int most_lookups = 32;
std::atomic<int> lookups = 0;

// Runs getaddrinfo on a thread of its own. Rejected: Asio's resolver, because one hanging lookup
// delays all others in the process and blocks the shutdown of the io_context. This thread does not
// use Asio: it shares this struct with the waiting coroutine, and closes a pipe when it is done.
struct Lookup {
  std::string host;
  std::string port;
  int finished = -1;  // the thread's end of the pipe
  int status = 0;
  int system_error = 0;
  std::vector<Endpoint> endpoints;
  std::atomic<bool> is_done = false;

  void run() {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV;
    addrinfo* list = nullptr;
    status = getaddrinfo(host.c_str(), port.c_str(), &hints, &list);
    system_error = errno;
    for (auto* entry = list; entry; entry = entry->ai_next)
      endpoints.emplace_back(entry->ai_addr, entry->ai_addrlen, IPPROTO_TCP);
    if (list) freeaddrinfo(list);
    is_done = true;
    ::close(finished);
    --lookups;
  }
};

std::string text_of(const Lookup& lookup) {
  switch (lookup.status) {
    case EAI_NONAME:
      return "there is no host of that name";
    case EAI_AGAIN:
      return "the name server does not answer";
    case EAI_SYSTEM:
      return std::strerror(lookup.system_error);
    default:
      return gai_strerror(lookup.status);
  }
}

Async<std::vector<Endpoint>> look_up(Address address) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    co_return fail(Errc::unavailable, "{}", std::strerror(errno));
  asio::posix::stream_descriptor pipe(co_await asio::this_coro::executor, ends[0]);
  auto lookup = std::make_shared<Lookup>();  // shared by the thread and this frame
  lookup->host = address.host;
  lookup->port = std::to_string(address.port);
  lookup->finished = ends[1];

  bool started = ++lookups <= most_lookups;
  try {
    if (started) std::thread([lookup] { lookup->run(); }).detach();
  } catch (const std::system_error&) {
    started = false;
  }
  if (!started) {
    --lookups;
    ::close(ends[1]);
    co_return fail(Errc::overloaded, "too many names are being looked up");
  }
  boost::system::error_code ignored;
  while (!lookup->is_done)  // Asio also wakes for events of a descriptor that had our number before
    co_await pipe.async_wait(pipe.wait_read, asio::redirect_error(asio::use_awaitable, ignored));
  if (lookup->endpoints.empty()) co_return fail(Errc::unavailable, "{}", text_of(*lookup));
  co_return std::move(lookup->endpoints);
}

}  // namespace

Async<std::vector<Endpoint>> resolve(Address address) {
  std::vector<Endpoint> endpoints;
  if (address.is_unix()) {
    if (address.unix_path.size() >= sizeof(sockaddr_un::sun_path))
      co_return fail(Errc::invalid, "the path is too long for a socket");
    endpoints.emplace_back(asio::local::stream_protocol::endpoint(address.unix_path));
    co_return endpoints;
  }
  boost::system::error_code error;
  auto ip = asio::ip::make_address(address.host, error);
  if (error) co_return co_await look_up(std::move(address));
  endpoints.emplace_back(tcp::endpoint(ip, address.port));
  co_return endpoints;
}

std::string to_string(const Endpoint& endpoint) {
  if (endpoint.protocol().family() == AF_UNIX) {
    sockaddr_un address{};
    std::memcpy(&address, endpoint.data(), std::min(endpoint.size(), sizeof address));
    return std::string("unix://") + address.sun_path;
  }
  tcp::endpoint address;
  if (endpoint.size() > address.capacity()) return "";
  std::memcpy(address.data(), endpoint.data(), endpoint.size());
  return to_string(Address{address.address().to_string(), address.port(), ""});
}

}  // namespace warren::redis
