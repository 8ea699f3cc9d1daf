#pragma once
// One request about a lease while its slot moves from one server of a cluster to another, without a
// socket: the simulator and LeaseSession drive this same code.
//
//   source            target     Each key of the lease is on one of the two servers, so no script
//     lease             fence    may need two keys. First the fence decides whose the lease is
//     queue                      (claim.lua), then the lease's own key shows it (show.lua).
//
// A process that comes between the two either finds the lease taken, or takes it before we believe
// that we have it. So an acquisition asks the fence once more.
#include <optional>
#include <string>
#include <vector>

#include "primitives/lease/machine.h"

namespace warren {

class LeaseSteps {
 public:
  // Whether the error means that the keys of a script are on two servers, or moved while it ran.
  static bool are_needed(const Error& error);

  explicit LeaseSteps(LeaseMachine::Request request, LeaseFlaws flaws = {});

  // A script with its keys. If script is null, args are a plain command.
  struct Step {
    const redis::Script* script = nullptr;
    std::vector<std::string> keys, args;
  };
  // The next step, once the last one was answered. Returns nullopt when answer() is ready.
  std::optional<Step> next() const;
  void on_reply(Result<redis::Reply> reply);
  // In the format of lease.lua.
  const Result<redis::Reply>& answer() const { return answer_; }

 private:
  enum class Stage { leave_line, claim, look, show, give_up, confirm, hide, unclaim, done };
  bool is(const char* what) const { return request_.args[0] == what; }
  Step claim(const char* what) const;
  Step show(const char* what) const;
  void end(Result<redis::Reply> answer);
  void on_claimed(redis::Reply reply);
  void on_shown(const redis::Reply& reply);

  LeaseMachine::Request request_;
  LeaseFlaws flaws_;
  Stage stage_ = Stage::claim;
  redis::Reply claimed_;
  Result<redis::Reply> answer_ = redis::Reply();
};

}  // namespace warren
