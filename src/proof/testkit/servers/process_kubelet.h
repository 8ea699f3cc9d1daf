#pragma once
// The nodes of a cluster that has none: runs the first container of a pod as a process of this
// machine, with an address of its own (127.1.x.y), and reports its status to the API server.
//
//   ProcessKubelet kubelet(kube::access…, "case-1");     // pods of that namespace, until it ends
//
// It does what the session service relies on. A pod whose claim is missing or being removed finds
// no node. A container whose Secret is missing does not start. Ready is what its probe says. A pod
// that is deleted gets SIGTERM, its grace period, SIGKILL, and is gone after that. An image called
// "missing" cannot be pulled. The process gets the environment of the pod, TEST_HOST to listen on,
// and TEST_WORKSPACE, a folder that lasts as long as the claim.
//
// It runs on a thread of its own, so that a test may block on its clients.
#include <map>
#include <thread>

#include "net/kube/client.h"
#include "net/kube/watcher.h"
#include "proof/testkit/process.h"
#include "proof/testkit/temp_folder.h"

namespace warren::inline testkit {

class ProcessKubelet {
 public:
  ProcessKubelet(kube::Access access, std::string space);
  ~ProcessKubelet();  // its processes end with it
  ProcessKubelet(const ProcessKubelet&) = delete;
  ProcessKubelet& operator=(const ProcessKubelet&) = delete;

 private:
  struct Run {
    std::unique_ptr<Process> process = {};
    std::string address = {};
    bool is_ready = false, is_over = false;
    std::optional<Clock::time_point> kill_at = {};  // it was asked to end
  };
  // Everything below runs on its thread.
  awaitable<void> run();
  awaitable<void> look_at_all(kube::Watcher& pods);
  awaitable<void> look_at(kube::ObjectRef pod);
  awaitable<void> bind(const kube::Object& pod);
  awaitable<void> begin(const kube::Object& pod, Run& run);
  awaitable<void> watch_over(const kube::Object& pod, Run& run);
  awaitable<void> end(const kube::Object& pod, Run& run);
  awaitable<bool> has_claims(const kube::Object& pod);
  // Returns nullopt if a Secret is missing.
  awaitable<std::optional<std::vector<std::string>>> environment_of(const kube::Object& pod);
  awaitable<bool> answers(const kube::Object& pod, const Run& run);
  awaitable<void> say(const kube::Object& pod, kube::json::object status);
  std::filesystem::path workspace_of(const kube::Object& pod);

  asio::io_context io_;
  kube::Client client_;
  HttpPool probes_;
  std::string space_;
  TempFolder folder_;
  std::map<std::string, Run> runs_ = {};          // by the pod's UID
  std::map<std::string, std::string> said_ = {};  // the last reported status, by UID
  int addresses_ = 0;
  asio::cancellation_signal stop_;
  std::thread thread_;
};

}  // namespace warren::inline testkit
