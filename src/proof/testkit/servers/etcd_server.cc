#include "proof/testkit/servers/etcd_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/uuid.h"
#include "proof/testkit/failure.h"
#include "proof/testkit/run.h"

namespace warren::inline testkit {

namespace {

// etcdctl keeps trying a closed port for seconds, so it is called only if the port is open.
bool is_listening(unsigned short port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool connected = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return connected;
}

void append(std::vector<std::string>& words, std::vector<std::string> more) {
  words.insert(words.end(), more.begin(), more.end());
}

}  // namespace

EtcdServer::EtcdServer(EtcdOptions options) : options_(std::move(options)) {
  for (int i = 0; i < 10; ++i) {
    members_.clear();
    members_.resize(options_.members);
    token_ = uuid4();  // and with it the folders: a member that has started keeps its ports
    for (std::size_t member = 0; member < members(); ++member) launch(member);
    bool all = true;
    for (std::size_t member = 0; member < members() && all; ++member) all = answers(member);
    if (all) return;
  }
  fail_test("ten times in a row a port was taken before etcd had it");
}

std::string EtcdServer::address(std::size_t member) const {
  return "127.0.0.1:" + std::to_string(port(member));
}

std::string EtcdServer::url() const {
  std::vector<std::string> addresses;
  for (std::size_t member = 0; member < members(); ++member) addresses.push_back(address(member));
  auto hosts = fmt::format("{}", fmt::join(addresses, ","));
  if (!options_.tls) return "etcd://" + hosts;
  return fmt::format("etcds://{}?ca={}&cert={}&key={}", hosts, options_.tls->ca().string(),
                     options_.tls->client().certificate.string(),
                     options_.tls->client().key.string());
}

std::filesystem::path EtcdServer::file(std::size_t member, const char* what) const {
  return folder_.path() / fmt::format("{}-{}.{}", token_.substr(0, 8), member, what);
}

std::string EtcdServer::name(std::size_t member) const {
  return fmt::format("{}-{}", token_, member);
}

std::string EtcdServer::peers() const {
  std::vector<std::string> peers;
  for (std::size_t member = 0; member < members(); ++member)
    peers.push_back(
        fmt::format("{}=http://127.0.0.1:{}", name(member), members_[member].peer.number()));
  return fmt::format("{}", fmt::join(peers, ","));
}

void EtcdServer::launch(std::size_t member) {
  auto client = fmt::format("{}://{}", options_.tls ? "https" : "http", address(member));
  auto peer = fmt::format("http://127.0.0.1:{}", members_[member].peer.number());
  Program program{.argv = {"etcd",
                           "--name",
                           name(member),
                           "--data-dir",
                           file(member, "data"),
                           "--listen-client-urls",
                           client,
                           "--advertise-client-urls",
                           client,
                           "--listen-peer-urls",
                           peer,
                           "--initial-advertise-peer-urls",
                           peer,
                           "--initial-cluster",
                           peers(),
                           "--initial-cluster-token",
                           token_,
                           "--logger",
                           "zap",
                           "--log-outputs",
                           "stderr"},
                  .log = file(member, "log")};
  // With these values it grants a lease of one second; by default the shortest is two.
  append(program.argv, {"--heartbeat-interval", "50", "--election-timeout", "500"});
  if (options_.tls)
    append(program.argv, {"--cert-file", options_.tls->server().certificate, "--key-file",
                          options_.tls->server().key, "--trusted-ca-file", options_.tls->ca(),
                          "--client-cert-auth"});
  append(program.argv, options_.arguments);
  members_[member].process = std::make_unique<Process>(program);
}

bool EtcdServer::answers(std::size_t member) {
  return wait_for(60s, "etcd answers", [&]() -> Result<bool> {
    if (!alive(member)) {
      auto text = log_text(member);
      if (text.find("address already in use") != text.npos) return false;
      fail_test("etcd died at its start:\n" + text);
    }
    if (!is_listening(port(member))) return fail(Errc::unavailable, "nobody listens");
    // A read of the newest value needs a leader.
    auto read = try_ctl({"get", "testkit"}, member, 2s);
    if (!read) return std::unexpected(read.error());
    // On a port that ours did not get, another server could be answering.
    auto list = try_ctl({"member", "list"}, member, 2s);
    if (!list) return std::unexpected(list.error());
    if (list->contains(name(member))) return true;
    return fail(Errc::unavailable, "another server answers on port {}", port(member));
  });
}

void EtcdServer::stop(std::size_t member) {
  members_[member].process->terminate();
  members_[member].process->wait(30s);
}

void EtcdServer::restart(std::size_t member) {
  if (alive(member)) stop(member);
  launch(member);
  if (!answers(member))
    fail_test("while etcd was down somebody took its port:\n" + log_text(member));
}

std::string EtcdServer::ctl(const std::vector<std::string>& words, std::size_t member) const {
  auto text = try_ctl(words, member);
  if (!text)
    fail_test(fmt::format("etcdctl {} on port {}: {}", words, port(member), text.error().what));
  return *text;
}

Result<std::string> EtcdServer::try_ctl(const std::vector<std::string>& words, std::size_t member,
                                        std::chrono::milliseconds limit) const {
  Program program{.argv = {"etcdctl", "--endpoints", address(member), "--command-timeout",
                           fmt::format("{}ms", limit.count())},
                  .log = folder_.path() / fmt::format("etcdctl-{}.log", ++calls_),
                  .environment = {"ETCDCTL_API=3"}};
  if (options_.tls)
    append(program.argv, {"--cacert", options_.tls->ca(), "--cert",
                          options_.tls->client().certificate, "--key", options_.tls->client().key});
  append(program.argv, words);
  Process process(program);
  int code = process.wait(limit + 30s);
  auto text = process.log_text();
  if (text.ends_with('\n')) text.pop_back();
  std::filesystem::remove(program.log);
  if (code == 0) return text;
  auto is_silent = text.contains("deadline exceeded") || text.contains("connection refused");
  return fail(is_silent ? Errc::timeout : Errc::refused, "{}", text);
}

std::uint64_t EtcdServer::revision() const { return status(0, "revision"); }

std::size_t EtcdServer::leader() const {
  auto leader = status(0, "leader");
  for (std::size_t member = 0; member < members(); ++member)
    if (status(member, "member_id") == leader) return member;
  fail_test("the leader of etcd is none of its members");
}

std::uint64_t EtcdServer::status(std::size_t member, const std::string& field) const {
  auto text = ctl({"endpoint", "status", "-w", "json"}, member);
  auto mark = fmt::format("\"{}\":", field);
  auto at = text.find(mark);
  if (at == text.npos) fail_test(fmt::format("no {} in {}", field, text));
  return std::stoull(text.substr(at + mark.size()));
}

}  // namespace warren::inline testkit
