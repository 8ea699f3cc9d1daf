#include "net/kube/kubeconfig.h"

#include <doctest/doctest.h>

#include <fstream>

#include "base/base64.h"
#include "proof/testkit/temp_folder.h"

using namespace warren;
using namespace warren::kube;

namespace {

const std::string usual = R"(apiVersion: v1
kind: Config
current-context: here
clusters:
- name: one
  cluster: {server: "https://10.0.0.1:6443/prefix/", certificate-authority: pki/ca.crt}
- name: two
  cluster:
    server: https://[::1]:6443
    tls-server-name: kubernetes
    insecure-skip-tls-verify: true
contexts:
- name: here
  context: {cluster: one, user: anna, namespace: search}
- name: there
  context: {cluster: two, user: robot}
users:
- name: anna
  user: {client-certificate: anna.crt, client-key: /keys/anna.key, as: boss, as-groups: [a, b]}
- name: robot
  user:
    token: inline
    tokenFile: robot.token
)";

void put(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

Errc code_of(const std::string& user) {
  auto text =
      "current-context: c\nclusters: [{name: k, cluster: {server: 'https://a:1'}}]\n"
      "contexts: [{name: c, context: {cluster: k, user: u}}]\nusers:\n- name: u\n  user: " +
      user + "\n";
  auto access = parse_kubeconfig(text, "/");
  REQUIRE(!access);
  CHECK(!access.error().what.contains("hush"));
  return access.error().code;
}

}  // namespace

TEST_CASE("a context names a server, whom to trust, a user and a namespace") {
  auto here = parse_kubeconfig(usual, "/home/anna/.kube");
  REQUIRE_MESSAGE(here, here.error().what);
  CHECK(here->server.host == "10.0.0.1");
  CHECK(here->server.port == "6443");
  CHECK(here->server.path == "/prefix");
  CHECK(here->server.is_tls);
  CHECK(here->ca.file == "/home/anna/.kube/pki/ca.crt");
  CHECK(here->space == "search");
  CHECK(here->login.certificate.file == "/home/anna/.kube/anna.crt");
  CHECK(here->login.key.file == "/keys/anna.key");
  CHECK(here->login.acts_as == "boss");
  CHECK(here->login.acts_as_groups == std::vector<std::string>{"a", "b"});
  auto there = parse_kubeconfig(usual, "/home/anna/.kube", "there");
  REQUIRE(there);
  CHECK(there->server.host == "::1");
  CHECK(there->tls_name == "kubernetes");
  CHECK(!there->verifies);
  CHECK(there->space == "default");
  // The file wins, because it is kept up to date.
  CHECK(there->login.token.file == "/home/anna/.kube/robot.token");
  CHECK(there->login.token.text.empty());
}

TEST_CASE("of several files the first definition of a name wins, and the first current-context") {
  TempFolder folder;
  std::filesystem::create_directory(folder.path() / "b");
  put(folder.path() / "a",
      "contexts: [{name: mine, context: {cluster: k, user: u}}]\n"
      "clusters: [{name: k, cluster: {server: 'https://first:1'}}]\n");
  put(folder.path() / "b/config",
      "current-context: mine\nclusters: [{name: k, cluster: {server: 'https://second:1'}}]\n"
      "users: [{name: u, user: {tokenFile: t}}]\n");
  auto list = fmt::format("{0}/a:{0}/missing:{0}/b/config", folder.path().string());
  auto access = load_kubeconfig(list);
  REQUIRE_MESSAGE(access, access.error().what);
  CHECK(access->server.host == "first");
  CHECK(access->login.token.file == folder.path() / "b/t");
  auto none = load_kubeconfig(folder.path() / "missing");
  REQUIRE(!none);
  CHECK(none.error().code == Errc::not_found);
}

TEST_CASE("certificates may stand in the file itself") {
  auto text =
      "current-context: c\nclusters: [{name: k, cluster: {server: 'https://a:1', "
      "certificate-authority-data: " +
      to_base64("the ca") +
      "}}]\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
      "users: [{name: u, user: {client-certificate-data: " +
      to_base64("mine") + ", client-key-data: " + to_base64("key") + "}}]\n";
  auto access = parse_kubeconfig(text, "/");
  REQUIRE_MESSAGE(access, access.error().what);
  CHECK(access->ca.text == "the ca");
  CHECK(access->login.certificate.text == "mine");
  CHECK(access->login.key.text == "key");
}

TEST_CASE("a plugin has a command, words and variables, and one with a slash is beside the file") {
  auto text =
      "current-context: c\nclusters: [{name: k, cluster: {server: 'https://a:1'}}]\n"
      "contexts: [{name: c, context: {cluster: k, user: u}}]\nusers:\n- name: u\n  user:\n"
      "    exec:\n      apiVersion: client.authentication.k8s.io/v1\n      command: bin/login\n"
      "      args: [--for, me]\n      env: [{name: A, value: b}]\n"
      "      provideClusterInfo: true\n      interactiveMode: Never\n";
  auto access = parse_kubeconfig(text, "/conf");
  REQUIRE_MESSAGE(access, access.error().what);
  REQUIRE(access->login.plugin);
  CHECK(access->login.plugin->argv == std::vector<std::string>{"/conf/bin/login", "--for", "me"});
  CHECK(access->login.plugin->environment.at("A") == "b");
  CHECK(access->login.plugin->wants_cluster);
}

TEST_CASE("what cannot be used is refused, and no secret is repeated") {
  CHECK(code_of("{client-key-data: aHVzaA==}") == Errc::invalid);
  CHECK(code_of("{client-certificate-data: '*hush*', client-key-data: aHVzaA==}") == Errc::invalid);
  CHECK(code_of("{token: hush, auth-provider: {name: gcp}}") == Errc::refused);
  CHECK(code_of("{exec: {apiVersion: v0, command: x}}") == Errc::invalid);
  CHECK(code_of("{exec: {apiVersion: client.authentication.k8s.io/v1}}") == Errc::invalid);
  CHECK(code_of("{exec: {apiVersion: client.authentication.k8s.io/v1, command: x, "
                "interactiveMode: Always}}") == Errc::refused);
  CHECK(code_of("{token: hush\n hush: [") == Errc::invalid);
  auto other = parse_kubeconfig(usual, "/", "nowhere");
  REQUIRE(!other);
  CHECK(other.error().what == "there is no context \"nowhere\"");
}

TEST_CASE("in a pod everything comes from the environment and from what is mounted") {
  TempFolder folder;
  put(folder.path() / "namespace", "search\n");
  auto access = access_in_cluster(
      {{"KUBERNETES_SERVICE_HOST", "fd00::1"}, {"KUBERNETES_SERVICE_PORT", "443"}}, folder.path());
  REQUIRE_MESSAGE(access, access.error().what);
  CHECK(access->server.host == "fd00::1");
  CHECK(access->ca.file == folder.path() / "ca.crt");
  CHECK(access->login.token.file == folder.path() / "token");
  CHECK(access->space == "search");
  auto none = access_in_cluster({}, folder.path());
  REQUIRE(!none);
  CHECK(none.error().code == Errc::not_found);
}
