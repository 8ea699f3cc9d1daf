#pragma once
// Sandboxes as pods of a cluster, for any number of replicas anywhere: see scene.h for what they share,
// which is the cluster alone.
//
//   auto driver = co_await KubernetesDriver::open(executor, access, terms, deadline);
//
// What a watch tells is a hint. Whatever is decided is decided on what the API server answers then, and
// what is removed is removed by its UID.
#include <memory>
#include <set>

#include "net/kube/client.h"
#include "net/kube/watcher.h"
#include "services/session/drivers/driver.h"
#include "services/session/kubernetes/rights.h"
#include "services/session/kubernetes/scene.h"

namespace warren::session {

class KubernetesDriver final : public Driver {
 public:
  // Asks what we may do. Errc::denied names the rules that are missing for anything at all; what else
  // is missing is logged, with what follows from it.
  static Async<std::unique_ptr<KubernetesDriver>> open(asio::any_io_executor executor,
                                                       kube::Access access, KubernetesTerms terms,
                                                       Clock::time_point deadline);

  std::string_view kind() const override { return "kubernetes"; }
  awaitable<void> run() override;
  bool is_settled() const override { return is_settled_; }
  const Sandbox* seen(const std::string& name) const override;
  std::vector<const Sandbox*> all_seen() const override;
  std::uint64_t changes() const override { return changes_; }
  awaitable<void> changed(std::uint64_t since, Clock::time_point deadline) override;
  // By what the watch has told: an address of a pod is given to another only after its pod has gone.
  Result<> confirm(const std::string& name, const std::string& incarnation,
                   const Endpoint& at) override;

  Async<Sight> look(std::string name, Clock::time_point deadline) override;
  Async<Sandbox> start(SandboxSpec spec, std::string basis, Clock::time_point deadline) override;
  Async<> pause(std::string name, std::string incarnation, Clock::time_point deadline) override;
  Async<> stop(std::string name, std::string incarnation, Clock::time_point deadline) override;
  Async<> touch(std::string name) override;
  WallClock::time_point active_at(const Sandbox& sandbox) const override;
  Async<std::string> log_tail(std::string name, std::size_t bytes) override;
  Async<std::vector<SandboxEvent>> events(std::string name) override;
  // Whether a registry has it, only a node finds out.
  bool has_image(std::string_view) const override { return true; }

  const Rights& rights() const { return rights_; }
  const KubernetesTerms& terms() const { return terms_; }

 private:
  KubernetesDriver(const asio::any_io_executor& executor, kube::Access access,
                   KubernetesTerms terms);
  Async<> find_rights(Clock::time_point deadline);

  // ---- What is heard.
  enum class Slot { pod, service, claim, secret };
  static Slot slot_of(const kube::Kind& kind);
  void follow(kube::Watcher& watcher, Slot slot);
  void put(const kube::ObjectRef& object, Slot slot);
  void forget(const kube::Object& object);
  void note(const std::string& name);
  awaitable<void> settle();
  awaitable<void> tidy();
  awaitable<void> tidy_one(std::string name);
  Async<> carry_out(Chore chore, std::string name, Scene scene);
  Async<> finish_for(Scene scene, Clock::time_point deadline);

  // ---- What is asked.
  kube::Place place(const kube::Kind& kind, std::string name = "") const;
  Async<kube::ObjectRef> find(kube::Kind kind, std::string name, Clock::time_point deadline);
  Async<Scene> read(std::string name, Clock::time_point deadline);
  // Held elsewhere: something has its name. An answer that was lost is looked up.
  Async<kube::ObjectRef> make(kube::Kind kind, kube::Object object, Clock::time_point deadline);
  Async<> remove(kube::Kind kind, const kube::Object& object, Clock::time_point deadline,
                 std::optional<std::chrono::seconds> grace = {});
  // If it is still there, and of the same owner.
  Async<> remove_named(kube::Kind kind, std::string name, std::string anchor,
                       Clock::time_point deadline);
  Async<> until_pod_gone(std::string name, std::string uid, Clock::time_point deadline);
  // A moment, or until something changes. False: the caller is to leave.
  awaitable<bool> pause_briefly(Clock::time_point deadline);

  // ---- Steps of a start.
  // With its Secret, which comes first: who finishes what others began has to know what it says.
  Async<kube::ObjectRef> take_anchor(SandboxSpec spec, Stamp stamp, Clock::time_point deadline);
  Async<kube::ObjectRef> make_anchor(SandboxSpec spec, Stamp stamp, Clock::time_point deadline);
  Async<> remove_secret(std::string secret, Clock::time_point deadline);
  // Makes what an incarnation lacks. Errors that stay: invalid, denied, refused. Errc::lease_lost: it
  // was ended meanwhile.
  Async<> finish(kube::ObjectRef anchor, SandboxSpec spec, Clock::time_point deadline);
  Async<> ensure_claim(SandboxSpec spec, Stamp stamp, Clock::time_point deadline);
  Async<> ensure_pod(SandboxSpec spec, kube::ObjectRef anchor, Clock::time_point deadline);
  // Of those that an anchor owns: what another one left is replaced.
  Async<> ensure_owned(kube::Kind kind, kube::Object object, Clock::time_point deadline);
  Async<> check_anchor(SandboxSpec spec, kube::ObjectRef anchor, Clock::time_point deadline);
  Async<> undo(std::string name, kube::ObjectRef anchor, Clock::time_point deadline);

  // ---- Steps of an end.
  Async<> mark(Scene scene, Memory memory, bool is_stop, Clock::time_point deadline);
  Async<> end_incarnation(Scene scene, std::string name, Clock::time_point deadline);

  asio::any_io_executor executor_;
  KubernetesTerms terms_;
  kube::Client client_;
  Rights rights_ = {};
  kube::Watcher pods_, services_, claims_, secrets_;
  std::map<std::string, Scene> scenes_ = {};  // by the name of the pod
  std::map<std::string, Sandbox> seen_ = {};
  // Uses that this replica knows of, and when the next one is worth writing down.
  struct Use {
    WallClock::time_point stamp;
    std::string written_in;  // the anchor that has one of ours
    Clock::time_point write_again;
  };
  std::map<std::string, Use> touched_ = {};
  std::set<std::string> untidy_ = {}, in_work_ = {};
  TaskGroup* tasks_ = nullptr;  // while it runs
  bool is_settled_ = false;
  std::uint64_t changes_ = 0;
  Event changed_;
};

}  // namespace warren::session
