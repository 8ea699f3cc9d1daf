#pragma once
// One request about a lease while its slot moves from one server of a cluster to another, without a
// socket: the simulator and LeaseSession drive this same code.
//
//   source            target     Each key of the lease is at one of the two, and no script may need
//     lease             fence    two of them. So first the fence says whose the lease is (claim.lua),
//     queue                      then the lease's own key shows it (show.lua). Who comes between the
//                                two sees it as taken, or takes it away before we believe that we
//                                have it: so an acquisition asks the fence once more.
#include <optional>
#include <string>
#include <vector>

#include "primitives/lease/machine.h"

namespace warren {

class LeaseSteps {
 public:
  // The keys of a script are on two servers, or went from one to the other while it ran.
  static bool are_needed(const Error& error);

  explicit LeaseSteps(LeaseMachine::Request request, LeaseFlaws flaws = {});

  // A script with its keys; without one: args are a command.
  struct Step {
    const redis::Script* script = nullptr;
    std::vector<std::string> keys, args;
  };
  // What to ask next, when the last one was answered. Nothing: then answer() is there.
  std::optional<Step> next() const;
  void on_reply(Result<redis::Reply> reply);
  // As lease.lua gives it.
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
