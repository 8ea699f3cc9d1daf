#include "proof/testkit/servers/kube_server.h"

#include <cstdlib>
#include <fstream>

#include "net/http/pool.h"
#include "proof/testkit/failure.h"
#include "proof/testkit/run.h"

namespace warren::inline testkit {

namespace {

namespace fs = std::filesystem;

std::string contents_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::optional<fs::path> KubeServer::program() {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  fs::path folder = cache && *cache ? fs::path(cache) : fs::path(home ? home : "/") / ".cache";
  auto program = folder / "warren/k8s/k8s";
  std::error_code error;
  if (!fs::exists(program, error)) return std::nullopt;
  return program;
}

KubeServer::KubeServer() {
  auto found = program();
  if (!found) fail_test("there is no API server here: scripts/k8s/build makes one");
  program_ = *found;
  std::ofstream(folder_.path() / "tokens")
      << "admin-token,admin,1,system:masters\nrobot-token,robot,2\nother-token,other,3\n";
  start_etcd();
  start_api();
}

void KubeServer::start_etcd() {
  auto client = fmt::format("http://127.0.0.1:{}", etcd_port_.number());
  auto peer = fmt::format("http://127.0.0.1:{}", peer_port_.number());
  Program etcd{.argv = {program_, "etcd", "--data-dir", folder_.path() / "etcd",
                        "--listen-client-urls", client, "--advertise-client-urls", client,
                        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                        "--initial-cluster", "default=" + peer, "--unsafe-no-fsync"},
               .log = folder_.path() / "etcd.log"};
  etcd_ = std::make_unique<Process>(etcd);
}

void KubeServer::start_api() {
  const auto& server = certificates_.server();
  Program api{.argv = {program_, "apiserver",
                       fmt::format("--etcd-servers=http://127.0.0.1:{}", etcd_port_.number()),
                       "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
                       "--external-hostname=localhost", "--endpoint-reconciler-type=none",
                       fmt::format("--secure-port={}", port()),
                       "--tls-cert-file=" + server.certificate.string(),
                       "--tls-private-key-file=" + server.key.string(),
                       "--client-ca-file=" + certificates_.ca().string(),
                       "--token-auth-file=" + (folder_.path() / "tokens").string(),
                       "--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24",
                       "--service-account-issuer=https://localhost",
                       "--service-account-key-file=" + server.certificate.string(),
                       "--service-account-signing-key-file=" + server.key.string(),
                       "--disable-admission-plugins=ServiceAccount",
                       "--cert-dir=" + (folder_.path() / "certs").string()},
              .log = folder_.path() / "api.log"};
  api_ = std::make_unique<Process>(api);
  wait_for(180s, "the API server is ready", [this]() -> Result<> {
    if (!api_->alive()) fail_test("the API server died at its start:\n" + api_->log_text());
    if (!etcd_->alive()) fail_test("etcd died at its start:\n" + etcd_->log_text());
    if (is_ready()) return ok;
    return fail(Errc::unavailable, "{}", api_->log_text());
  });
}

void KubeServer::start_controllers() {
  if (controllers_) return;
  auto file = folder_.path() / "controllers.kubeconfig";
  std::ofstream(file) << kubeconfig("admin");
  const std::string needed =
      "garbage-collector-controller,persistentvolumeclaim-protection-controller";
  Program controllers{
      .argv = {program_, "controller-manager", "--kubeconfig=" + file.string(),
               "--controllers=" + needed, "--leader-elect=false", "--secure-port=0",
               "--use-service-account-credentials=false", "--authentication-skip-lookup=true"},
      .log = folder_.path() / "controllers.log"};
  controllers_ = std::make_unique<Process>(controllers);
}

bool KubeServer::is_ready() const {
  auto context = tls_for_client(contents_of(certificates_.ca()));
  if (!context) return false;
  bool ready = false;
  asio::io_context io;
  auto look = [](TlsContext tls, unsigned short at, bool& is) -> awaitable<void> {
    HttpPoolTerms terms;
    terms.tls = tls;
    HttpPool pool(co_await asio::this_coro::executor, terms);
    auto url = *parse_web_url(fmt::format("https://127.0.0.1:{}", at));
    HttpAsk ask{"GET", "/readyz"};
    ask.headers = "Authorization: Bearer " + token_of("admin") + "\r\n";
    auto reply = co_await pool.ask(std::move(url), std::move(ask), Clock::now() + 5s);
    is = reply && reply->status == 200;
  };
  asio::co_spawn(io, look(*context, port(), ready),
                 [](std::exception_ptr thrown) { ensure(!thrown, "asking returns its errors"); });
  io.run();
  return ready;
}

void KubeServer::restart() {
  api_->kill();
  start_api();
}

std::string KubeServer::kubeconfig(const std::string& user, unsigned short port) const {
  return kubeconfig_with("{token: " + token_of(user) + "}", port);
}

std::string KubeServer::kubeconfig_with(const std::string& user_yaml, unsigned short port) const {
  return fmt::format(
      "current-context: test\n"
      "clusters: [{{name: test, cluster: {{server: 'https://127.0.0.1:{}', "
      "certificate-authority: {}}}}}]\n"
      "contexts: [{{name: test, context: {{cluster: test, user: us}}}}]\n"
      "users: [{{name: us, user: {}}}]\n",
      port ? port : api_port_.number(), certificates_.ca().string(), user_yaml);
}

}  // namespace warren::inline testkit
