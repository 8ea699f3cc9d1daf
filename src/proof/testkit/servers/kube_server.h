#pragma once
// A real Kubernetes API server on 127.0.0.1, with an etcd of its own, as built by
// scripts/k8s/build.
//
//   KubeServer server;                                   // empty
//   server.kubeconfig("admin");                          // may do everything
//   server.kubeconfig("robot");                          // may do nothing, until a role allows it
//   server.restart();                                    // with its data
//
// There are no nodes (but see process_kubelet.h). There are no controllers either, unless
// start_controllers() is called: they collect objects that lost their owner, and keep claims until
// no pod uses them.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "proof/testkit/certificates.h"
#include "proof/testkit/ports.h"
#include "proof/testkit/process.h"
#include "proof/testkit/temp_folder.h"

namespace warren::inline testkit {

class KubeServer {
 public:
  // Returns nullopt if it was not built here.
  static std::optional<std::filesystem::path> program();

  // Returns once it is ready. If a process dies instead, fails the test with its log.
  KubeServer();

  unsigned short port() const { return api_port_.number(); }
  const Certificates& certificates() const { return certificates_; }
  // The users that it knows are admin, robot and other.
  static std::string token_of(const std::string& user) { return user + "-token"; }
  // With a token; through another port if one is given.
  std::string kubeconfig(const std::string& user, unsigned short port = 0) const;
  // The text of a kubeconfig with `user_yaml` in place of the user's token.
  std::string kubeconfig_with(const std::string& user_yaml, unsigned short port = 0) const;

  // Call once; they live as long as this object.
  void start_controllers();

  void pause() { api_->pause(); }
  void resume() { api_->resume(); }
  // It forgets the history of changes, but keeps all objects.
  void restart();
  std::string log_text() const { return api_->log_text(); }

 private:
  void start_etcd();
  void start_api();
  bool is_ready() const;

  std::filesystem::path program_;
  TempFolder folder_;
  Certificates certificates_;
  Port etcd_port_, peer_port_, api_port_;
  std::unique_ptr<Process> etcd_, api_, controllers_;
};

}  // namespace warren::inline testkit
