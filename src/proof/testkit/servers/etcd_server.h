#pragma once
// A real etcd on 127.0.0.1, with ports and a folder of its own, that can be paused, killed and
// restarted. Its data is on disk, so it survives all of these.
//
//   EtcdServer server;                                      // empty
//   EtcdServer three({.members = 3});
//   server.ctl({"put", "key", "value"});                    // from outside the code under test
//   server.pause();
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "proof/testkit/certificates.h"
#include "proof/testkit/ports.h"
#include "proof/testkit/process.h"
#include "proof/testkit/temp_folder.h"

namespace warren::inline testkit {

struct EtcdOptions {
  std::size_t members = 1;
  const Certificates* tls = nullptr;        // clients use TLS and present a certificate
  std::vector<std::string> arguments = {};  // of each member, besides ours
};

class EtcdServer {
 public:
  // Returns once every member answers. If one dies instead, fails the test with its log; ports that
  // another program has taken meanwhile are replaced.
  explicit EtcdServer(EtcdOptions options = {});

  // etcd://127.0.0.1:port, for all members; with TLS etcds:// and its files.
  std::string url() const;
  std::size_t members() const { return members_.size(); }
  unsigned short port(std::size_t member = 0) const { return members_[member].client.number(); }
  std::string address(std::size_t member = 0) const;

  // The kernel still accepts connections, but nothing is answered.
  void pause(std::size_t member = 0) { members_[member].process->pause(); }
  void resume(std::size_t member = 0) { members_[member].process->resume(); }
  void kill(std::size_t member = 0) { members_[member].process->kill(); }
  // Stops in an orderly way; returns when the process has ended.
  void stop(std::size_t member = 0);
  // Stops it if it is alive, and starts it with the same ports and the data on disk. Returns once
  // it answers.
  void restart(std::size_t member = 0);
  bool alive(std::size_t member = 0) { return members_[member].process->alive(); }

  // Returns what etcdctl prints, without the last end of line. An error fails the test.
  std::string ctl(const std::vector<std::string>& words, std::size_t member = 0) const;
  // The same if a refusal (Errc::refused) or silence is expected.
  Result<std::string> try_ctl(const std::vector<std::string>& words, std::size_t member = 0,
                              std::chrono::milliseconds limit = 10s) const;
  // How often anything has changed since the beginning.
  std::uint64_t revision() const;
  std::size_t leader() const;
  std::string log_text(std::size_t member = 0) const {
    return members_[member].process->log_text();
  }

 private:
  struct Member {
    Port client, peer;
    std::unique_ptr<Process> process = {};
  };
  std::filesystem::path file(std::size_t member, const char* what) const;
  std::string name(std::size_t member) const;
  std::string peers() const;
  void launch(std::size_t member);
  // Returns false if it died because a port was taken.
  bool answers(std::size_t member);
  // A number from `etcdctl endpoint status`.
  std::uint64_t status(std::size_t member, const std::string& field) const;

  EtcdOptions options_;
  TempFolder folder_;
  std::vector<Member> members_;
  std::string token_;  // of this cluster, so that members of other clusters are not let in
  mutable int calls_ = 0;
};

}  // namespace warren::inline testkit
