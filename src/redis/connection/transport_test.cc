#include "redis/connection/transport.h"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "proof/testkit/faulty_link.h"
#include "proof/testkit/run.h"
#include "proof/testkit/servers/redis_server.h"

using namespace warren;
using namespace warren::redis;
using namespace asio::experimental::awaitable_operators;

namespace {

using Connection = std::unique_ptr<Transport>;

Address plain_address(const RedisServer& server) { return {"127.0.0.1", server.port(), ""}; }
Address tls_address(const RedisServer& server) { return {"127.0.0.1", server.tls_port(), ""}; }

TlsContext context_of(TlsSettings settings) {
  auto context = TlsContext::load(settings);
  REQUIRE_MESSAGE(context, context.error().what);
  return *context;
}

TlsContext trusting(const Certificates& certificates) {
  TlsSettings settings;
  settings.ca_file = certificates.ca();
  return context_of(settings);
}

Async<Connection> connect(Address address, const TlsContext* tls = nullptr) {
  return Transport::connect(std::move(address), tls, Clock::now() + 10s);
}

awaitable<void> send(Transport& transport, std::string bytes, int& waits) {
  for (std::string_view rest = bytes; !rest.empty();) {
    auto done = transport.write(rest);
    if (done.status == Transport::Done::closed) co_return;
    if (done.status == Transport::Done::some) {
      REQUIRE(done.bytes > 0);
      rest.remove_prefix(done.bytes);
      continue;
    }
    ++waits;
    co_await transport.wait_writable();
  }
}

// Returns fewer bytes than asked for if the connection ended.
awaitable<std::string> receive(Transport& transport, std::size_t size) {
  std::string bytes(size, '\0');
  std::size_t got = 0;
  while (got < size) {
    auto room = std::min<std::size_t>(size - got, 50'000);
    auto done = transport.read({bytes.data() + got, room});
    if (done.status == Transport::Done::closed) break;
    got += done.bytes;
    if (done.status == Transport::Done::some) REQUIRE(done.bytes > 0);
    // Also after a short read, since that means no more was available.
    if (done.bytes < room) co_await transport.wait_readable();
  }
  bytes.resize(got);
  co_return bytes;
}

awaitable<std::string> ask(Transport& transport, std::string command, std::size_t size) {
  int waits = 0;
  co_await send(transport, command, waits);
  co_return co_await receive(transport, size);
}

awaitable<void> check_pong(Transport& transport) {
  auto pong = co_await ask(transport, "PING\r\n", 7);
  CHECK_MESSAGE(pong == "+PONG\r\n", transport.why().what);
}

// The error of a connect that must fail.
awaitable<Error> refusal(Address address, const TlsContext* tls, Clock::duration limit = 10s) {
  auto began = Clock::now();
  auto transport = co_await Transport::connect(std::move(address), tls, began + limit);
  CHECK(Clock::now() - began < limit + 5s);
  REQUIRE(!transport);
  co_return transport.error();
}

void check(const Error& error, Errc code, std::string_view text) {
  CAPTURE(error.what);
  CHECK(name(error.code) == name(code));
  CHECK(error.what.contains(text));
}

std::size_t open_descriptors() {
  auto entries = std::filesystem::directory_iterator("/proc/self/fd");
  return std::size_t(std::distance(begin(entries), end(entries)));
}

std::string noise(std::size_t size) {
  std::mt19937_64 random(size);
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i + 8 <= size; i += 8) {
    auto word = random();
    std::memcpy(bytes.data() + i, &word, 8);
  }
  return bytes;
}

// A socket that listens on 127.0.0.1 and never accepts.
struct Listener {
  int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::uint16_t port = 0;

  explicit Listener(int backlog) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(socket, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(socket, backlog) == 0);
    ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
    port = ntohs(address.sin_port);
  }
  ~Listener() { ::close(socket); }
  Address address() const { return {"127.0.0.1", port, ""}; }
};

// A TLS server on a thread, with blocking calls, for what Redis does not do: it asks for new keys
// after every 64 KiB that it echoes, and reports which sessions were resumed.
class EchoServer {
 public:
  EchoServer(const CertificatePair& pair, int connections)
      : context_(SSL_CTX_new(TLS_server_method()), SSL_CTX_free), listener_(8) {
    SSL_CTX_use_certificate_chain_file(context_.get(), pair.certificate.c_str());
    SSL_CTX_use_PrivateKey_file(context_.get(), pair.key.c_str(), SSL_FILETYPE_PEM);
    thread_ = std::thread([this, connections] {
      sigset_t pipe;
      sigemptyset(&pipe);
      sigaddset(&pipe, SIGPIPE);
      pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
      for (int i = 0; i < connections; ++i) serve(::accept(listener_.socket, nullptr, nullptr));
    });
  }

  Address address() const { return listener_.address(); }
  // Call it after the last connection.
  std::string resumed() {
    thread_.join();
    return resumed_;
  }
  ~EchoServer() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  void serve(int socket) {
    std::unique_ptr<SSL, void (*)(SSL*)> ssl(SSL_new(context_.get()), SSL_free);
    SSL_set_fd(ssl.get(), socket);
    std::vector<char> buffer(16 << 10);
    if (SSL_accept(ssl.get()) == 1) {
      resumed_ += SSL_session_reused(ssl.get()) ? 'y' : 'n';
      std::size_t echoed = 0;
      int got;
      while ((got = SSL_read(ssl.get(), buffer.data(), int(buffer.size()))) > 0) {
        SSL_write(ssl.get(), buffer.data(), got);
        echoed += std::size_t(got);
        if (echoed < (64 << 10)) continue;
        echoed = 0;
        SSL_key_update(ssl.get(), SSL_KEY_UPDATE_REQUESTED);
      }
    }
    ssl.reset();
    ::close(socket);
  }

  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_;
  Listener listener_;
  std::string resumed_;
  std::thread thread_;
};

}  // namespace

TEST_CASE("a connection over TCP knows its own end and carries commands and replies") {
  RedisServer server;
  run([](RedisServer& redis) -> awaitable<void> {
    auto transport = co_await connect(plain_address(redis));
    REQUIRE(transport);
    co_await check_pong(**transport);
    CHECK((*transport)->local_name().starts_with("127.0.0.1:"));
    char byte;
    CHECK((*transport)->read({&byte, 1}).status == Transport::Done::would_block);
  }(server));
}

TEST_CASE("a name is resolved, and each of its addresses is tried") {
  RedisServer server;
  run([](RedisServer& redis) -> awaitable<void> {
    Address address{"localhost", redis.port(), ""};
    auto transport = co_await connect(address);
    REQUIRE(transport);
    co_await check_pong(**transport);
  }(server));
}

TEST_CASE("a connection over a unix socket carries commands and replies") {
  RedisServer server({.unix_socket = true});
  run([](RedisServer& redis) -> awaitable<void> {
    Address address{"", 0, redis.unix_path()};
    auto transport = co_await connect(address);
    REQUIRE(transport);
    co_await check_pong(**transport);
  }(server));
}

TEST_CASE("a connection over TLS carries commands and replies") {
  Certificates certificates;
  RedisServer server({.tls = &certificates});
  run([](RedisServer& redis, TlsContext tls) -> awaitable<void> {
    auto by_address = co_await connect(tls_address(redis), &tls);
    REQUIRE_MESSAGE(by_address, by_address.error().what);
    co_await check_pong(**by_address);
    Address name{"localhost", redis.tls_port(), ""};
    auto by_name = co_await connect(name, &tls);
    REQUIRE_MESSAGE(by_name, by_name.error().what);
    co_await check_pong(**by_name);
  }(server, trusting(certificates)));
}

TEST_CASE("a certificate that is not right is told in words") {
  Certificates certificates, others;
  SUBCASE("a CA that is not ours") {
    RedisServer server({.tls = &certificates});
    run([](RedisServer& redis, TlsContext wrong, TlsContext system) -> awaitable<void> {
      auto error = co_await refusal(tls_address(redis), &wrong);
      check(error, Errc::denied, "not signed by a CA in ");
      error = co_await refusal(tls_address(redis), &system);
      check(error, Errc::denied, "not signed by a CA we trust: set REDIS_TLS_CA");
      CHECK(error.what.starts_with(to_string(tls_address(redis))));
    }(server, trusting(others), context_of({})));
  }
  SUBCASE("expired") {
    RedisServer server({.tls = &certificates, .certificate = certificates.expired()});
    run([](RedisServer& redis, TlsContext tls) -> awaitable<void> {
      auto error = co_await refusal(tls_address(redis), &tls);
      check(error, Errc::denied, "the server's certificate expired on 20");
    }(server, trusting(certificates)));
  }
  SUBCASE("not yet valid") {
    auto early = certificates.issue({"early", "IP:127.0.0.1", 24h, 48h});
    RedisServer server({.tls = &certificates, .certificate = early});
    run([](RedisServer& redis, TlsContext tls) -> awaitable<void> {
      auto error = co_await refusal(tls_address(redis), &tls);
      check(error, Errc::denied, "compare the clocks");
    }(server, trusting(certificates)));
  }
  SUBCASE("for somebody else") {
    auto other = certificates.issue({"redis-1", "DNS:redis-1.example,IP:10.0.0.5"});
    RedisServer server({.tls = &certificates, .certificate = other});
    run([](RedisServer& redis, TlsContext tls) -> awaitable<void> {
      auto error = co_await refusal(tls_address(redis), &tls);
      check(error, Errc::denied, "is for redis-1.example, 10.0.0.5, not for 127.0.0.1");
      Address name{"localhost", redis.tls_port(), ""};
      error = co_await refusal(name, &tls);
      check(error, Errc::denied, "not for localhost");
      check(error, Errc::denied, "REDIS_TLS_NAMES");
    }(server, trusting(certificates)));
  }
}

TEST_CASE("the map of names tells which name to expect of an address") {
  Certificates certificates;
  auto other = certificates.issue({"redis-1", "DNS:redis-1.example"});
  RedisServer server({.tls = &certificates, .certificate = other});
  auto try_names = [&](std::map<std::string, std::string> names) {
    TlsSettings settings;
    settings.ca_file = certificates.ca();
    settings.names = std::move(names);
    bool is_connected = false;
    run([](RedisServer& redis, TlsContext tls, bool& connected) -> awaitable<void> {
      auto transport = co_await connect(tls_address(redis), &tls);
      connected = transport.has_value();
    }(server, context_of(settings), is_connected));
    return is_connected;
  };
  auto exact = to_string(tls_address(server));
  CHECK(try_names({{exact, "redis-1.example"}}));
  CHECK(try_names({{"127.0.0.1", "redis-1.example"}}));
  CHECK(try_names({{exact, "redis-1.example"}, {"127.0.0.1", "redis-2.example"}}));
  CHECK(!try_names({{exact, "redis-2.example"}, {"127.0.0.1", "redis-1.example"}}));
  CHECK(!try_names({{"127.0.0.2", "redis-1.example"}}));
}

TEST_CASE("without verification any certificate is accepted") {
  Certificates certificates;
  RedisServer server({.tls = &certificates, .certificate = certificates.expired()});
  TlsSettings careless;
  careless.verify = false;
  run([](RedisServer& redis, TlsContext tls) -> awaitable<void> {
    auto transport = co_await connect(tls_address(redis), &tls);
    REQUIRE(transport);
    co_await check_pong(**transport);
  }(server, context_of(careless)));
}

TEST_CASE("a server that requires a client certificate is told from one that is down") {
  Certificates certificates, others;
  // TLS 1.3 reports it after the handshake, at the first read; TLS 1.2 during the handshake.
  for (auto version : {"TLSv1.2", "TLSv1.3"}) {
    CAPTURE(version);
    RedisServer server({.tls = &certificates,
                        .needs_client_certificate = true,
                        .config = {"tls-protocols " + std::string(version)}});
    auto attempt = [&](const Certificates* owner) {
      TlsSettings settings;
      settings.ca_file = certificates.ca();
      if (owner) settings.cert_file = owner->client().certificate;
      if (owner) settings.key_file = owner->client().key;
      Error error{};
      run([](RedisServer& redis, TlsContext tls, Error& why) -> awaitable<void> {
        auto transport = co_await connect(tls_address(redis), &tls);
        if (!transport) {
          why = transport.error();
          co_return;
        }
        auto pong = co_await ask(**transport, "PING\r\n", 7);
        if (pong.empty()) why = (*transport)->why();
      }(server, context_of(settings), error));
      return error;
    };
    CHECK(attempt(&certificates).what == "");
    check(attempt(nullptr), Errc::denied, "requires a client certificate: set REDIS_TLS_CERT");
    check(attempt(&others), Errc::denied, "does not accept our certificate ");
  }
}

TEST_CASE("files for TLS that cannot be used are named, and a passphrase is never asked for") {
  Certificates certificates, others;
  auto refused = [](TlsSettings settings, std::string_view file, std::string_view text) {
    auto context = TlsContext::load(settings);
    REQUIRE(!context);
    check(context.error(), Errc::invalid, file);
    check(context.error(), Errc::invalid, text);
  };
  auto &client = certificates.client(), &other = others.client();
  TempFolder folder;
  auto junk = (folder.path() / "junk.pem").string();
  auto locked = (folder.path() / "locked.pem").string();
  std::ofstream(junk) << "-----BEGIN CERTIFICATE-----\nhello\n";
  Process encrypt({.argv = {"openssl", "pkey", "-in", client.key, "-aes256", "-passout", "pass:x",
                            "-out", locked},
                   .log = folder.path() / "log"});
  REQUIRE(encrypt.wait() == 0);
  TlsSettings settings;
  settings.ca_file = "/no/such/ca.pem";
  refused(settings, "/no/such/ca.pem", "No such file");
  settings.ca_file = "/tmp";
  refused(settings, "/tmp", "Is a directory");
  settings.ca_file = junk;
  refused(settings, junk, "no PEM certificate");
  settings.ca_file.clear();
  settings.cert_file = client.certificate;
  refused(settings, client.certificate.string(), "without its key");
  settings.key_file = junk;
  refused(settings, junk, "no PEM key");
  settings.key_file = locked;
  refused(settings, locked, "passphrase");
  settings.key_file = other.key;
  refused(settings, other.key.string(), "does not belong to the certificate");
  settings.cert_file = junk;
  refused(settings, junk, "no PEM certificate");
}

TEST_CASE("TLS to a server that does not speak it is told before the deadline") {
  Certificates certificates;
  SUBCASE("a plain Redis, which says nothing to a greeting that has no end") {
    RedisServer server;
    run([](RedisServer& redis, TlsContext tls) -> awaitable<void> {
      auto error = co_await refusal(plain_address(redis), &tls, 500ms);
      check(error, Errc::protocol, "this is not a TLS server but a plain Redis");
    }(server, trusting(certificates)));
  }
  SUBCASE("a server that talks first") {
    Listener listener(8);
    std::thread talker([&] {
      int socket = ::accept(listener.socket, nullptr, nullptr);
      ::send(socket, "220 mail.example\r\n", 18, MSG_NOSIGNAL);
      char bytes[4096];
      while (::recv(socket, bytes, sizeof bytes, 0) > 0) continue;
      ::close(socket);
    });
    run([](Address address, TlsContext tls) -> awaitable<void> {
      auto error = co_await refusal(address, &tls);
      check(error, Errc::protocol, "this is not a TLS server");
    }(listener.address(), trusting(certificates)));
    talker.join();
  }
  SUBCASE("a server that hangs up") {
    Listener listener(8);
    std::thread closer([&] { ::close(::accept(listener.socket, nullptr, nullptr)); });
    run([](Address address, TlsContext tls) -> awaitable<void> {
      auto error = co_await refusal(address, &tls);
      check(error, Errc::unavailable, "during the TLS handshake");
    }(listener.address(), trusting(certificates)));
    closer.join();
  }
}

TEST_CASE("a plain connection to a TLS port is closed, and the reason says so") {
  Certificates certificates;
  RedisServer server({.tls = &certificates});
  run([](RedisServer& redis) -> awaitable<void> {
    auto transport = co_await connect(tls_address(redis));
    REQUIRE(transport);
    CHECK(co_await ask(**transport, "PING\r\n", 7) == "");
    check((*transport)->why(), Errc::unavailable, "it may want TLS");
  }(server));
}

TEST_CASE("where nothing listens, every address that was tried is reported") {
  Port port;
  TempFolder folder;
  run([](Port& unused, TempFolder& empty) -> awaitable<void> {
    Address numeric{"127.0.0.1", unused.number(), ""};
    auto error = co_await refusal(numeric, nullptr);
    check(error, Errc::unavailable, to_string(numeric) + ": the connection was refused");
    Address name{"localhost", unused.number(), ""};
    error = co_await refusal(name, nullptr);
    check(error, Errc::unavailable, to_string(numeric) + ": the connection was refused");
    CHECK(error.what.starts_with(to_string(name) + ": "));
    Address path{"", 0, empty.path() / "no.sock"};
    error = co_await refusal(path, nullptr);
    check(error, Errc::unavailable, "there is no such socket");
    TlsContext tls = context_of({});
    error = co_await refusal(path, &tls);
    check(error, Errc::invalid, "takes no TLS");
  }(port, folder));
}

TEST_CASE("a name that nobody has is reported") {
  run([]() -> awaitable<void> {
    // No label of a name may be that long, so the resolver rejects it without a query.
    Address address{std::string(64, 'a') + ".invalid", 6379, ""};
    auto error = co_await refusal(address, nullptr);
    check(error, Errc::unavailable, to_string(address) + ": there is no host of that name");
  }());
}

TEST_CASE("a host that swallows connection attempts costs no more than the deadline") {
  // When its accept queue is full, Linux drops further attempts.
  Listener listener(0);
  std::vector<int> fillers;
  sockaddr_in target{};
  target.sin_family = AF_INET;
  target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  target.sin_port = htons(listener.port);
  int connected = 0;
  for (int i = 0; i < 8; ++i) {
    fillers.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    connected = ::connect(fillers.back(), reinterpret_cast<sockaddr*>(&target), sizeof target);
  }
  REQUIRE(connected != 0);
  run([](Address address) -> awaitable<void> {
    auto error = co_await refusal(address, nullptr, 200ms);
    check(error, Errc::timeout, "no answer to the connection attempt within 2");
  }(listener.address()));
  for (int socket : fillers) ::close(socket);
}

TEST_CASE("a unix socket with a full queue is not taken for connected") {
  TempFolder folder;
  sockaddr_un place{};
  place.sun_family = AF_UNIX;
  auto path = (folder.path() / "full.sock").string();
  std::strncpy(place.sun_path, path.c_str(), sizeof place.sun_path - 1);
  auto* address = reinterpret_cast<sockaddr*>(&place);
  std::vector<int> sockets(8);
  for (int& socket : sockets)
    socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  REQUIRE(::bind(sockets[0], address, sizeof place) == 0);
  REQUIRE(::listen(sockets[0], 0) == 0);
  int connected = 0;
  for (int socket : sockets) connected = ::connect(socket, address, sizeof place);
  REQUIRE(connected != 0);
  run([](Address full) -> awaitable<void> {
    auto error = co_await refusal(full, nullptr);
    check(error, Errc::unavailable, "too many connections wait to be accepted");
  }(Address{"", 0, path}));
  for (int socket : sockets) ::close(socket);
}

TEST_CASE("a server that accepts and says nothing ends the handshake at the deadline") {
  Listener listener(8);
  run([](Address address, TlsContext tls) -> awaitable<void> {
    auto error = co_await refusal(address, &tls, 200ms);
    check(error, Errc::timeout, "no answer to the TLS handshake within");
  }(listener.address(), context_of({})));
}

TEST_CASE("a TLS server that is slow to answer has until the deadline") {
  Certificates certificates;
  RedisServer server({.tls = &certificates});
  FaultyLink link(server.tls_port());
  link.delay(Direction::to_client, 1200ms);
  run([](FaultyLink& slow, TlsContext tls) -> awaitable<void> {
    Address address{"127.0.0.1", slow.port(), ""};
    // After a second of silence, we probe whether the server is a plain Redis.
    auto transport = co_await connect(address, &tls);
    REQUIRE_MESSAGE(transport, transport.error().what);
    co_await check_pong(**transport);
  }(link, trusting(certificates)));
}

TEST_CASE("a connect whose caller leaves ends at once, in whichever step it is") {
  Listener listener(8);
  run([](Address silent, TlsContext tls) -> awaitable<void> {
    auto first = co_await (connect(silent, &tls) || sleep_for(10ms));
    CHECK(first.index() == 1);
    Address name{"localhost", 1, ""};
    auto second = co_await (connect(name) || sleep_until(Clock::now()));
    CHECK((second.index() == 1 || !std::get<0>(second)));
  }(listener.address(), context_of({})));
}

TEST_CASE("64 MiB go out in part writes and come back whole") {
  Certificates certificates;
  RedisServer server({.tls = &certificates, .unix_socket = true});
  auto round_trip = [](RedisServer& redis, Address address, TlsContext* tls) -> awaitable<void> {
    auto transport = co_await connect(address, tls);
    REQUIRE(transport);
    auto value = noise(64 << 20);
    auto header = fmt::format("${}\r\n", value.size());
    auto command = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n" + header + value + "\r\n";
    std::string_view rest = command;
    redis.pause();
    Transport::Done done{Transport::Done::some};
    while (done.status == Transport::Done::some) {
      done = (*transport)->write(rest);
      rest.remove_prefix(done.bytes);
    }
    redis.resume();
    CHECK(done.status == Transport::Done::would_block);
    REQUIRE(!rest.empty());
    CHECK(co_await ask(**transport, std::string(rest), 5) == "+OK\r\n");
    auto reply = co_await ask(**transport, "GET k\r\n", header.size() + value.size() + 2);
    CHECK((reply == header + value + "\r\n"));
  };
  auto tls = trusting(certificates);
  run(round_trip(server, plain_address(server), nullptr));
  run(round_trip(server, Address{"", 0, server.unix_path()}, nullptr));
  run(round_trip(server, tls_address(server), &tls));
}

TEST_CASE("new keys, asked for in the midst of traffic both ways, neither hang nor spin it") {
  Certificates certificates;
  EchoServer server(certificates.server(), 1);
  run([](Address address, TlsContext tls) -> awaitable<void> {
    auto transport = co_await connect(address, &tls);
    REQUIRE(transport);
    auto bytes = noise(16 << 20);
    int waits = 0;
    auto sent = send(**transport, bytes, waits);
    auto got = co_await (std::move(sent) && receive(**transport, bytes.size()));
    CHECK(got.size() == bytes.size());
    CHECK_MESSAGE((got == bytes), (*transport)->why().what);
    CHECK(waits < 20'000);
  }(server.address(), trusting(certificates)));
}

TEST_CASE("a server that was met before resumes its session") {
  Certificates certificates;
  EchoServer server(certificates.server(), 3);
  auto visit = [](Address address, TlsContext& tls) -> awaitable<void> {
    auto transport = co_await connect(address, &tls);
    REQUIRE(transport);
    // Sessions are issued after the handshake, before the first byte.
    CHECK(co_await ask(**transport, "hello", 5) == "hello");
  };
  auto known = trusting(certificates), stranger = trusting(certificates);
  run(visit(server.address(), known));
  run(visit(server.address(), known));
  run(visit(server.address(), stranger));
  CHECK(server.resumed() == "nyn");
}

TEST_CASE("writing to a server that died says closed, and no signal kills us") {
  std::signal(SIGPIPE, SIG_DFL);
  Certificates certificates;
  RedisServer server({.tls = &certificates});
  run([](RedisServer& redis, TlsContext tls) -> awaitable<void> {
    auto plain = co_await connect(plain_address(redis));
    auto encrypted = co_await connect(tls_address(redis), &tls);
    REQUIRE(plain);
    REQUIRE(encrypted);
    co_await check_pong(**plain);
    co_await check_pong(**encrypted);
    redis.kill();
    for (auto* transport : {plain->get(), encrypted->get()}) {
      Transport::Done done{Transport::Done::some};
      while (done.status != Transport::Done::closed) {
        done = transport->write("PING\r\n");
        if (done.status == Transport::Done::would_block) co_await transport->wait_writable();
      }
      CHECK(co_await receive(*transport, 1) == "");
      check(transport->why(), Errc::unavailable, "the server ");
    }
  }(server, trusting(certificates)));
}

TEST_CASE("what a server says before it hangs up can be read after the write that failed") {
  RedisServer server({.config = {"maxclients 1"}});
  run([](RedisServer& redis) -> awaitable<void> {
    auto first = co_await connect(plain_address(redis));
    REQUIRE(first);
    co_await check_pong(**first);
    auto second = co_await connect(plain_address(redis));
    REQUIRE(second);
    Transport::Done done{Transport::Done::some};
    while (done.status != Transport::Done::closed) done = (*second)->write("PING\r\n");
    auto said = co_await receive(**second, 1000);
    CHECK(said.starts_with("-ERR max number of clients"));
  }(server));
}

TEST_CASE("closing wakes who waits, and later calls say closed") {
  RedisServer server;
  run([](RedisServer& redis) -> awaitable<void> {
    auto transport = co_await connect(plain_address(redis));
    REQUIRE(transport);
    auto close_later = [](Transport& open) -> awaitable<void> {
      co_await sleep_for(1ms);
      open.close();
    };
    co_await ((*transport)->wait_readable() && (*transport)->wait_readable() &&
              close_later(**transport));
    char byte;
    CHECK((*transport)->read({&byte, 1}).status == Transport::Done::closed);
    CHECK((*transport)->write("x").status == Transport::Done::closed);
    check((*transport)->why(), Errc::unavailable, "closed at this end");
    co_await (*transport)->wait_readable();
    co_await (*transport)->wait_writable();
    (*transport)->close();
  }(server));
}

TEST_CASE("a wait that is cancelled returns without throwing, and the connection still works") {
  RedisServer server;
  run([](RedisServer& redis) -> awaitable<void> {
    auto transport = co_await connect(plain_address(redis));
    REQUIRE(transport);
    auto first = co_await ((*transport)->wait_readable() || sleep_for(1ms));
    CHECK(first.index() == 1);
    co_await check_pong(**transport);
  }(server));
}

TEST_CASE("receiving waits for bytes, ends with the connection, and can be cancelled") {
  RedisServer server;
  Certificates certificates;
  RedisServer secret({.tls = &certificates});
  auto tls = trusting(certificates);
  auto body = [](Address address, const TlsContext* context) -> awaitable<void> {
    auto transport = co_await connect(std::move(address), context);
    REQUIRE(transport);
    std::array<char, 100> space;
    for (int i = 0; i < 3; ++i) {
      CHECK((*transport)->write("PING\r\n").status == Transport::Done::some);
      Transport::Done done{Transport::Done::would_block};
      while (done.status == Transport::Done::would_block)
        done = co_await (*transport)->receive(space);
      CHECK(std::string_view(space.data(), done.bytes) == "+PONG\r\n");
    }
    std::variant<Transport::Done, std::monostate> first;
    do first = co_await ((*transport)->receive(space) || sleep_for(1ms));
    while (first.index() == 0 && std::get<0>(first).status == Transport::Done::would_block);
    CHECK(first.index() == 1);
    CHECK((*transport)->write("QUIT\r\n").status == Transport::Done::some);
    std::string said;
    Transport::Done done{Transport::Done::would_block};
    while (done.status != Transport::Done::closed) {
      done = co_await (*transport)->receive(space);
      said.append(space.data(), done.bytes);
    }
    CHECK(said == "+OK\r\n");
    done = co_await (*transport)->receive(space);
    CHECK(done.status == Transport::Done::closed);
  };
  run(body(plain_address(server), nullptr));
  run(body(tls_address(secret), &tls));
}

TEST_CASE(
    "a dead peer is noticed by keepalive, small writes leave at once, children inherit nothing") {
  Listener listener(8);
  run([](Listener& server) -> awaitable<void> {
    auto transport = co_await connect(server.address());
    REQUIRE(transport);
    int socket = 0;
    sockaddr_in peer{};
    for (socklen_t size = sizeof peer; peer.sin_port != htons(server.port); size = sizeof peer)
      ::getpeername(++socket, reinterpret_cast<sockaddr*>(&peer), &size);
    auto option = [&](int level, int which) {
      int value = -1;
      socklen_t size = sizeof value;
      ::getsockopt(socket, level, which, &value, &size);
      return value;
    };
    CHECK(option(IPPROTO_TCP, TCP_NODELAY) == 1);
    CHECK(option(SOL_SOCKET, SO_KEEPALIVE) == 1);
    CHECK(option(IPPROTO_TCP, TCP_KEEPIDLE) == 15);
    CHECK(option(IPPROTO_TCP, TCP_KEEPINTVL) == 5);
    CHECK(option(IPPROTO_TCP, TCP_KEEPCNT) == 3);
    CHECK(option(IPPROTO_TCP, TCP_USER_TIMEOUT) == 15'000);
    CHECK((::fcntl(socket, F_GETFD) & FD_CLOEXEC) != 0);
  }(listener));
}

TEST_CASE("1,000 connects and disconnects leave no descriptor open, whether they work or not") {
  Certificates certificates, others;
  RedisServer server({.tls = &certificates});
  run([](RedisServer& redis, TlsContext tls, TlsContext wrong) -> awaitable<void> {
    Port unused;
    Address refused{"127.0.0.1", unused.number(), ""};
    CHECK(!co_await connect(refused));
    auto before = open_descriptors();
    for (int i = 0; i < 1000; ++i) {
      auto plain = co_await connect(plain_address(redis));
      REQUIRE(plain);
      auto encrypted = co_await connect(tls_address(redis), &tls);
      REQUIRE(encrypted);
      co_await check_pong(**encrypted);
      CHECK(!co_await connect(refused));
      if (i % 10 == 0) CHECK(!co_await connect(tls_address(redis), &wrong));
    }
    CHECK(open_descriptors() == before);
  }(server, trusting(certificates), trusting(others)));
}

TEST_CASE("an io_context that ends in the midst of connecting takes everything with it") {
  Listener listener(8);
  auto tls = context_of({});
  auto before = open_descriptors();
  for (int i = 0; i < 100; ++i) {
    asio::io_context io(1);
    for (const auto& address : {listener.address(), Address{"localhost", listener.port, ""}})
      asio::co_spawn(io, connect(address, &tls), [](std::exception_ptr, Result<Connection>) {});
    io.run_for(std::chrono::microseconds(i * 20));
  }
  // The threads that look up names close their pipes a moment later.
  wait_for(10s, "all descriptors are closed", [&] { return open_descriptors() == before; });
}

// The next test case runs this one in a network namespace of its own.
TEST_CASE("victim: a name server that never answers" * doctest::skip()) {
  int silent = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(53);
  REQUIRE(::bind(silent, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  auto began = Clock::now();
  run([]() -> awaitable<void> {
    Address name{"slow.example", 6379, ""};
    auto error = co_await refusal(name, nullptr, 200ms);
    check(error, Errc::timeout, "no answer to the lookup of the name within");
  }());
  CHECK(Clock::now() - began < 8s);  // the resolver gives up after ten seconds
}

TEST_CASE("victim: a port that TCP would connect with itself" * doctest::skip()) {
  run([]() -> awaitable<void> {
    Address address{"127.0.0.1", 40000, ""};
    for (int i = 0; i < 100; ++i) {
      auto error = co_await refusal(address, nullptr);
      check(error, Errc::unavailable, "the connection was refused");
    }
  }());
}

TEST_CASE("neither a silent name server nor a connection to itself holds up a connect") {
  TempFolder folder;
  std::ofstream(folder.path() / "resolv.conf") << "nameserver 127.0.0.1\n";
  auto self = std::filesystem::read_symlink("/proc/self/exe").string();
  auto script = fmt::format(
      "ip link set lo up && mount --bind {}/resolv.conf /etc/resolv.conf && "
      "echo 40000 40001 > /proc/sys/net/ipv4/ip_local_port_range || exit 77; "
      "exec {} --no-skip '--test-case=victim: *'",
      folder.path().string(), self);
  Process victim({.argv = {"unshare", "--map-root-user", "--net", "--mount", "sh", "-c", script},
                  .log = folder.path() / "log"});
  int code = victim.wait(30s);
  CAPTURE(victim.log_text());
  // 1: unshare itself was refused, as in most containers; 77: `ip` is not installed.
  bool is_allowed = code != 77 && !victim.log_text().contains("unshare: ");
  if (is_allowed) CHECK(code == 0);
  if (!is_allowed) MESSAGE("not allowed to make a network here: ", victim.log_text());
}
