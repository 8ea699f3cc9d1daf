#include "net/rpc/log.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <regex>
#include <sstream>

#include "bootstrap.grpc.pb.h"
#include "net/rpc/connect.h"
#include "net/rpc/server.h"
#include "proof/testkit/run.h"
#include "proof/testkit/temp_folder.h"

using namespace warren;

namespace {

// Standard error of this process goes to a file while this lives.
class StandardError {
 public:
  StandardError() : saved_(::fcntl(2, F_DUPFD_CLOEXEC, 3)) {
    auto file = folder_.path() / "stderr";
    int fd = ::open(file.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    REQUIRE(fd >= 0);
    ::dup2(fd, 2);
    ::close(fd);
  }
  ~StandardError() {
    ::dup2(saved_, 2);
    ::close(saved_);
  }
  StandardError(const StandardError&) = delete;
  StandardError& operator=(const StandardError&) = delete;

  std::vector<std::string> lines() const {
    std::ifstream file(folder_.path() / "stderr", std::ios::binary);
    std::vector<std::string> all;
    for (std::string line; std::getline(file, line);) all.push_back(line);
    return all;
  }

 private:
  TempFolder folder_;
  int saved_;
};

// One server, and a peer that writes HTTP/2 byte by byte, as no library would.
class RawPeer {
 public:
  explicit RawPeer(unsigned short port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in there{};
    there.sin_family = AF_INET;
    there.sin_port = htons(port);
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(fd_, reinterpret_cast<sockaddr*>(&there), sizeof there) == 0);
    write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    frame(4, 0, 0, "");  // SETTINGS
  }
  ~RawPeer() { ::close(fd_); }
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  // A call whose deadline is `timeout`, byte for byte.
  void call(std::string_view timeout) {
    std::string block;
    auto header = [&block](std::string_view name, std::string_view value) {
      block += '\0';  // neither indexed nor Huffman's
      (block += char(name.size())) += name;
      (block += char(value.size())) += value;
    };
    header(":method", "POST");
    header(":scheme", "http");
    header(":path", "/no/such");
    header(":authority", "x");
    header("content-type", "application/grpc");
    header("te", "trailers");
    REQUIRE(timeout.size() < 127);
    header("grpc-timeout", timeout);
    frame(1, 4 | 1, next_stream_, block);  // HEADERS, with their end and that of the stream
    next_stream_ += 2;
  }
  // Until all that was sent before has been read.
  void wait_until_read() {
    frame(6, 0, 0, "12345678");
    for (;;) {
      auto head = read(9);
      auto size = std::size_t(static_cast<unsigned char>(head[0])) << 16 |
                  std::size_t(static_cast<unsigned char>(head[1])) << 8 |
                  static_cast<unsigned char>(head[2]);
      read(size);
      if (head[3] == 6 && (head[4] & 1) != 0) return;
    }
  }

 private:
  void frame(char type, char flags, unsigned stream, std::string_view payload) {
    std::string bytes;
    for (int shift : {16, 8, 0}) bytes += char(payload.size() >> shift & 0xff);
    (bytes += type) += flags;
    for (int shift : {24, 16, 8, 0}) bytes += char(stream >> shift & 0xff);
    write(bytes.append(payload));
  }
  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      auto sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      REQUIRE(sent > 0);
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  std::string read(std::size_t size) {
    std::string bytes(size, '\0');
    for (std::size_t got = 0; got < size;) {
      auto more = ::recv(fd_, bytes.data() + got, size - got, 0);
      REQUIRE(more > 0);
      got += static_cast<std::size_t>(more);
    }
    return bytes;
  }

  int fd_;
  unsigned next_stream_ = 1;
};

struct Serving {
  foghorn_bootstrap::BootstrapService::CallbackService service;
  std::unique_ptr<rpc::Server> server;

  Serving() {
    rpc::ServerTerms terms{"127.0.0.1:0"};
    auto listening = rpc::Server::listen(terms, {&service});
    REQUIRE(listening);
    server = std::move(*listening);
  }
  ~Serving() { run(server->close()); }
};

const std::regex our_line(
    R"(\S+Z (debug|info|warn|error) [a-z_.]+( [a-z_]+=("([^"\\]|\\.)*"|\S+))*)");

}  // namespace

TEST_CASE("a header value cannot forge a line of the log, nor speak to the terminal") {
  Serving serving;
  RawPeer peer(serving.server->port());
  StandardError standard_error;
  peer.call("1\n2026-01-01T00:00:00.000Z error process.aborted why=\x1b[2J\xe2\x80\xae");
  peer.wait_until_read();
  auto lines = wait_for(20s, "gRPC has said something", [&]() -> Result<std::vector<std::string>> {
    auto all = standard_error.lines();
    if (all.empty()) return fail(Errc::not_found, "nothing was said");
    return all;
  });
  for (const auto& line : lines) {
    CAPTURE(line);
    CHECK(std::regex_match(line, our_line));
    CHECK(line.find('\x1b') == line.npos);
    CHECK(line.find("\xe2\x80\xae") == line.npos);
    CHECK(line.find(" warn grpc.said ") == std::string_view("2026-01-01T00:00:00.000Z").size());
  }
}

TEST_CASE("a peer that makes gRPC speak fills no log: ten lines in a second, then their number") {
  Serving serving;
  RawPeer peer(serving.server->port());
  StandardError standard_error;
  auto begin = Clock::now();
  for (int i = 0; i < 500; ++i) peer.call("nonsense" + std::string(100, 'x'));
  peer.wait_until_read();
  auto seconds = static_cast<std::size_t>((Clock::now() - begin) / 1s) + 2;
  auto lines = standard_error.lines();
  CHECK(!lines.empty());
  CHECK(lines.size() <= 11 * seconds);
  for (const auto& line : lines) CHECK(line.size() < 512);
}
