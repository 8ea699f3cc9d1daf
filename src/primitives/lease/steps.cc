#include "primitives/lease/steps.h"

#include "primitives/lease/scripts.h"
#include "redis/causes.h"

namespace warren {

namespace {

bool is_granted(const redis::Reply& reply) {
  return !reply.items.empty() && reply.items[0].number == 1;
}

}  // namespace

bool LeaseSteps::are_needed(const Error& error) {
  return error.cause == redis::causes::split_keys || error.cause == redis::causes::foreign_key;
}

LeaseSteps::LeaseSteps(LeaseMachine::Request request, LeaseFlaws flaws)
    : request_(std::move(request)), flaws_(flaws) {
  bool may_be_in_line = request_.args[7] != "-" && request_.args[9] != "-";
  if (is("release") && may_be_in_line) stage_ = Stage::leave_line;
}

LeaseSteps::Step LeaseSteps::claim(const char* what) const {
  Step step{&scripts::claim, {request_.keys[1]}, {}};
  step.args.assign(request_.args.begin(), request_.args.begin() + 7);
  step.args[0] = what;
  return step;
}

LeaseSteps::Step LeaseSteps::show(const char* what) const {
  const auto& args = request_.args;
  return {&scripts::show, {request_.keys[0]}, {what, args[2], args[8], args[3]}};
}

std::optional<LeaseSteps::Step> LeaseSteps::next() const {
  const auto& args = request_.args;
  switch (stage_) {
    case Stage::leave_line:
      return Step{nullptr,
                  {},
                  {"LREM", request_.keys[2], "0",
                   fmt::format("{} {} {} {} {}", args[1], args[9], args[7], args[3], args[2])}};
    case Stage::claim:
      return claim(is("release") ? "renew" : args[0].c_str());
    case Stage::look:
      return Step{nullptr, {}, {"GET", request_.keys[0]}};
    case Stage::show:
      return show(args[0].c_str());
    case Stage::confirm:
      return claim("renew");
    case Stage::hide:
      return show("release");
    case Stage::give_up:
    case Stage::unclaim:
      return claim("release");
    case Stage::done:
      break;
  }
  return std::nullopt;
}

void LeaseSteps::end(Result<redis::Reply> answer) {
  answer_ = std::move(answer);
  stage_ = Stage::done;
}

void LeaseSteps::on_reply(Result<redis::Reply> reply) {
  if (!reply && stage_ == Stage::look) return end(std::move(claimed_));  // shown to people only
  if (!reply) return end(std::move(reply));
  switch (stage_) {
    case Stage::leave_line:
      stage_ = Stage::claim;
      return;
    case Stage::claim:
      return on_claimed(*std::move(reply));
    case Stage::look:
      claimed_.items.at(4).text = reply->text;
      return end(std::move(claimed_));
    case Stage::show:
      return on_shown(*reply);
    case Stage::give_up:
      return end(std::move(claimed_));
    case Stage::confirm:
      // A process that could still run the whole script may have taken the lease, and released it,
      // before we showed our value.
      claimed_ = *std::move(reply);
      if (is_granted(claimed_)) return end(std::move(claimed_));
      stage_ = Stage::hide;
      return;
    case Stage::hide:
      return end(std::move(claimed_));
    case Stage::unclaim:
      return end(std::move(reply));
    case Stage::done:
      return;
  }
}

void LeaseSteps::on_claimed(redis::Reply reply) {
  claimed_ = std::move(reply);
  stage_ = is_granted(claimed_) ? Stage::show : Stage::look;
  if (flaws_.unshown_claim && stage_ == Stage::show && !is("release")) end(std::move(claimed_));
}

void LeaseSteps::on_shown(const redis::Reply& reply) {
  if (is("release")) {
    stage_ = Stage::unclaim;
  } else if (!is_granted(reply)) {  // an older program holds or ended it
    claimed_.items[0].number = claimed_.items[2].number = 0;
    claimed_.items[1].number = reply.items.at(1).number;
    claimed_.items.push_back(reply.items.at(2));
    if (is("acquire"))
      stage_ = Stage::give_up;
    else
      end(std::move(claimed_));
  } else if (is("acquire")) {
    stage_ = Stage::confirm;
  } else {
    end(std::move(claimed_));
  }
}

}  // namespace warren
