#pragma once
// Sandboxes as processes of this machine, for all replicas on it: see yard.h for what they share, and
// shim.h for what stays when they go.
#include <boost/asio/posix/stream_descriptor.hpp>
#include <memory>
#include <set>

#include "services/session/drivers/driver.h"
#include "services/session/process/images.h"
#include "services/session/process/order.h"
#include "services/session/process/yard.h"

namespace warren::session {

class ProcessDriver final : public Driver {
 public:
  // Errc::denied: the folder, or that isolation is wanted and this machine does not permit it.
  static Result<std::unique_ptr<ProcessDriver>> create(const asio::any_io_executor& executor,
                                                       ProcessTerms terms, Images images = {});
  ~ProcessDriver() override;

  std::string_view kind() const override { return "process"; }
  awaitable<void> run() override;
  bool is_settled() const override { return is_settled_; }
  const Sandbox* seen(const std::string& name) const override;
  std::vector<const Sandbox*> all_seen() const override;
  std::uint64_t changes() const override { return changes_; }
  awaitable<void> changed(std::uint64_t since, Clock::time_point deadline) override;
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
  bool has_image(std::string_view image) const override { return images_.has(image); }

  const Yard& yard() const { return yard_; }

 private:
  ProcessDriver(const asio::any_io_executor& executor, ProcessTerms terms, Images images,
                Yard yard);
  std::optional<Sandbox> read(const std::string& name) const;
  void note(const std::string& name);
  awaitable<void> follow();
  awaitable<void> sweep();
  void forget_old_locks();
  awaitable<void> finish_removals();
  Async<> launch(Order order, Clock::time_point deadline);
  // Returns with the lock, after whoever held it was told to end. Errc::lease_lost, timeout.
  Async<FileLock> take(std::string name, std::string incarnation, Phase after,
                       Clock::time_point deadline);

  asio::any_io_executor executor_;
  ProcessTerms terms_;
  Images images_;
  Yard yard_;
  asio::thread_pool files_{1};  // folders that take long to remove
  std::map<std::string, Sandbox> seen_ = {};
  bool is_settled_ = false;
  std::uint64_t changes_ = 0;
  Event changed_;
};

}  // namespace warren::session
