#include "proof/testkit/control.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace warren::inline testkit {

namespace {

class ControlConnection {
 public:
  explicit ControlConnection(Clock::time_point deadline) : deadline_(deadline) {}
  ~ControlConnection() {
    if (fd_ >= 0) close(fd_);
  }
  ControlConnection(const ControlConnection&) = delete;
  ControlConnection& operator=(const ControlConnection&) = delete;

  Result<> connect(unsigned short port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    // On the loopback interface the kernel answers for the server at once, even if it is paused.
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      return fail(Errc::unavailable, "connect to port {}: {}", port, strerror(errno));
    fcntl(fd_, F_SETFL, O_NONBLOCK);
    return ok;
  }

  Result<> send(const std::vector<std::string>& words) {
    std::string text = fmt::format("*{}\r\n", words.size());
    for (auto& word : words) text += fmt::format("${}\r\n{}\r\n", word.size(), word);
    for (std::string_view rest = text; !rest.empty();) {
      auto sent = ::send(fd_, rest.data(), rest.size(), MSG_NOSIGNAL);
      if (sent > 0) rest.remove_prefix(static_cast<std::size_t>(sent));
      if (sent < 0)
        if (auto ready = wait(POLLOUT); !ready) return ready;
    }
    return ok;
  }

  // Appends the leaves of one reply. Only the reply itself may be an error, not a part of it.
  Result<> receive(std::vector<std::string>& leaves, bool is_part = false) {
    auto line = read_line();
    if (!line) return std::unexpected(line.error());
    char type = line->empty() ? '?' : line->front();
    std::string rest = line->substr(std::min<std::size_t>(1, line->size()));
    if (type == '-' && !is_part) return fail(Errc::refused, "{}", rest);
    if (type == '+' || type == ':' || type == '-') {
      leaves.push_back(rest);
      return ok;
    }
    long long count = 0;
    std::from_chars(rest.data(), rest.data() + rest.size(), count);
    if ((type != '$' && type != '*')) return fail(Errc::protocol, "not RESP2: {}", *line);
    if (count < 0) {
      leaves.push_back("(nil)");
      return ok;
    }
    if (type == '$') return receive_bulk(leaves, static_cast<std::size_t>(count));
    for (long long i = 0; i < count; ++i)
      if (auto part = receive(leaves, true); !part) return part;
    return ok;
  }

 private:
  Result<> receive_bulk(std::vector<std::string>& leaves, std::size_t size) {
    while (buffer_.size() < size + 2)
      if (auto more = read_more(); !more) return more;
    leaves.push_back(buffer_.substr(0, size));
    buffer_.erase(0, size + 2);
    return ok;
  }

  Result<std::string> read_line() {
    for (;;) {
      if (auto end = buffer_.find("\r\n"); end != buffer_.npos) {
        std::string line = buffer_.substr(0, end);
        buffer_.erase(0, end + 2);
        return line;
      }
      if (auto more = read_more(); !more) return std::unexpected(more.error());
    }
  }

  Result<> read_more() {
    if (auto ready = wait(POLLIN); !ready) return ready;
    char bytes[16384];
    auto count = recv(fd_, bytes, sizeof bytes, 0);
    if (count == 0) return fail(Errc::unavailable, "the server closed the connection");
    if (count < 0 && errno != EAGAIN) return fail(Errc::unavailable, "{}", strerror(errno));
    if (count > 0) buffer_.append(bytes, static_cast<std::size_t>(count));
    return ok;
  }

  Result<> wait(short event) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    pollfd watched{fd_, event, 0};
    int ready = poll(&watched, 1, static_cast<int>(std::max(left, decltype(left){0})));
    if (ready == 0) return fail(Errc::timeout, "no answer in time");
    if (watched.revents & POLLERR) return fail(Errc::unavailable, "the connection broke");
    return ok;
  }

  Clock::time_point deadline_;
  int fd_ = -1;
  std::string buffer_;
};

}  // namespace

Result<std::vector<std::string>> control(const ControlTarget& target,
                                         const std::vector<std::string>& words,
                                         Clock::duration limit) {
  ControlConnection connection(Clock::now() + limit);
  std::vector<std::string> leaves;
  Result<> step = connection.connect(target.port);
  if (step && !target.user.empty()) {
    step = connection.send({"AUTH", target.user, target.password});
    if (step) step = connection.receive(leaves);
    leaves.clear();
  }
  if (step) step = connection.send(words);
  if (step) step = connection.receive(leaves);
  if (!step) return std::unexpected(step.error());
  return leaves;
}

}  // namespace warren::inline testkit
