#pragma once
// A real API server of Kubernetes on 127.0.0.1, with an etcd of its own: what scripts/k8s/build makes.
//
//   KubeServer server;                                   // empty
//   server.kubeconfig("admin");                          // may do everything
//   server.kubeconfig("robot");                          // nothing, until a role lets it
//   server.restart();                                    // with what it had
//
// There are no nodes (but see process_kubelet.h), and of the controllers none, unless start_controllers()
// is called: then what lost its owner is collected, and claims stay until no pod uses them.
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
  // None: it was not built here.
  static std::optional<std::filesystem::path> program();

  // Returns once it is ready. Fails the test with the log of what died instead.
  KubeServer();

  unsigned short port() const { return api_port_.number(); }
  const Certificates& certificates() const { return certificates_; }
  // Users that it knows: admin, robot and other.
  static std::string token_of(const std::string& user) { return user + "-token"; }
  // By token; through another port if there is one.
  std::string kubeconfig(const std::string& user, unsigned short port = 0) const;
  // The text of one with this in place of the user's token.
  std::string kubeconfig_with(const std::string& user_yaml, unsigned short port = 0) const;

  // Once; they live as long as it does.
  void start_controllers();

  void pause() { api_->pause(); }
  void resume() { api_->resume(); }
  // It forgets what changed before; what there is stays.
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
