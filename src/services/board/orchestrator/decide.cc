#include "services/board/orchestrator/decide.h"

#include <algorithm>

#include "base/clock.h"
#include "base/utf8.h"
#include "services/board/store/json_parts.h"

namespace warren::orchestrator {

using namespace board;

namespace {

constexpr std::string_view self = "orchestrator";
// What nobody has taken is told again so often at most.
constexpr auto tell_untaken_every = 30s;

ClaimStatus status_of(Phase phase) {
  return phase == Phase::review     ? ClaimStatus::pending_review
         : phase == Phase::parallel ? ClaimStatus::pending_parallel
                                    : ClaimStatus::pending_exclusive;
}

BidType bid_of(Phase phase) {
  return phase == Phase::review     ? BidType::review
         : phase == Phase::parallel ? BidType::claim
                                    : BidType::exclusive;
}

class Decider {
 public:
  Decider(const Facts& facts, const OrchestratorTerms& terms) : facts_(facts), terms_(terms) {}

  Decision decide() {
    if (!is_open(claim().status) || ends_with_workflow() || is_answered()) return take();
    auto phase = phase_of(claim(), facts_.bids);
    if (claim().status == ClaimStatus::pending_assignment)
      in_assignment();
    else if (phase)
      in_phase(*std::move(phase));
    else
      in_bidding();
    return take();
  }

 private:
  const Claim& claim() const { return facts_.claim; }
  Claim& changed() {
    if (!decision_.changed) decision_.changed = claim();
    return *decision_.changed;
  }
  Decision take() { return std::move(decision_); }
  void tell(Announcement announcement) {
    decision_.announcements.push_back(std::move(announcement));
  }
  void look_at(Clock::time_point time) {
    if (!decision_.look_again || time < *decision_.look_again) decision_.look_again = time;
  }
  bool is_configured(const std::string& role) const { return terms_.roles.contains(role); }

  void end(ClaimStatus status, const std::string& reason) {
    auto& ended = changed();
    ended.status = status;
    ended.artefact_expected = false;
    ended.grant_queue.reset();
    if (status == ClaimStatus::terminated) ended.termination_reason = valid_utf8(reason);
    tell(claim_event(status == ClaimStatus::complete ? "claim_completed" : "claim_terminated",
                     ended, reason));
  }
  void complete(const std::string& reason) { end(ClaimStatus::complete, reason); }
  void terminate(const std::string& reason) { end(ClaimStatus::terminated, reason); }

  // With an artefact that tells whoever follows the workflow. If it is there, somebody was stopped
  // between the two steps.
  void terminate_with_failure(std::string type, const std::string& reason) {
    auto is_told = std::ranges::any_of(facts_.children, [](const Part& child) {
      return child.structural_type == StructuralType::failure && child.role == self;
    });
    if (!is_told) {
      auto& failure = decision_.failure.emplace();
      failure.structural_type = StructuralType::failure;
      failure.type = std::move(type);
      failure.payload = reason;
      failure.source_artefacts = {facts_.target.id};
      failure.produced_by_role = self;
    }
    terminate(reason);
  }

  bool ends_with_workflow() {
    if (!facts_.workflow) return false;
    const auto& workflow = *facts_.workflow;
    const auto& limits = terms_.limits;
    bool is_new = claim().status == ClaimStatus::pending_review && !claim().phase_state;
    if (workflow.is_cancelled) {
      terminate(workflow.cancel_reason.empty() ? "its goal was cancelled" : workflow.cancel_reason);
    } else if (is_new && limits.depth > 0 && workflow.depth > limits.depth) {
      terminate_with_failure(
          "WorkflowTooDeep",
          fmt::format("{} steps from its goal; the limit is {}", workflow.depth, limits.depth));
    } else if (is_new && limits.artefacts > 0 && workflow.artefacts > limits.artefacts) {
      terminate_with_failure(
          "WorkflowTooLarge",
          fmt::format("the workflow has more than {} artefacts, its limit", limits.artefacts));
    } else if (limits.time > 0ms && facts_.now >= workflow.started_at + limits.time) {
      terminate_with_failure(
          "WorkflowTooLong",
          fmt::format("the workflow took longer than {} ms, its limit", limits.time.count()));
    } else {
      if (limits.time > 0ms) look_at(workflow.started_at + limits.time);
      return false;
    }
    return true;
  }

  // Whoever answers a question ends it, whether or not he was asked.
  bool is_answered() {
    if (facts_.target.structural_type != StructuralType::question) return false;
    auto answer =
        std::ranges::find(facts_.children, StructuralType::answer, &Part::structural_type);
    if (answer == facts_.children.end()) return false;
    complete(fmt::format("{} answered", answer->role));
    return true;
  }

  void in_bidding() {
    if (terms_.roles.empty()) return;  // nobody to ask, until somebody is configured
    auto [bids, missing] = consensus(facts_.bids, facts_.target, terms_);
    bool is_wanted = std::ranges::any_of(bids, [](auto& b) { return b.second != BidType::ignore; });
    if (!missing.empty() && !is_time_over(is_wanted)) return;
    bool is_question = facts_.target.structural_type == StructuralType::question;
    if (!is_wanted && !is_question && (!missing.empty() || facts_.target.is_goal))
      return leave_untaken(missing);
    for (const auto& role : missing) bids[role] = BidType::ignore;
    bool begins = begin_next(bids, Phase::review, "nobody bid for it");
    if (begins && !missing.empty())
      tell_missing("bids_missing", "the time for bids is over", missing);
  }

  // Whether those whose bids are missing had their time. They have it anew when somebody comes who
  // wants what nobody had wanted: others may be about to come with him.
  bool is_time_over(bool is_wanted) {
    bool was_untaken = claim().untaken_since > UnixTime{};
    bool begins_anew = was_untaken && is_wanted;
    if (begins_anew) changed().untaken_since = {};
    if (!facts_.told_at || begins_anew) {
      tell_again();
      return false;
    }
    auto over = *facts_.told_at + (was_untaken ? between_untaken() : terms_.bid_time);
    if (facts_.now < over) {
      look_at(over);
      return false;
    }
    bool waits = terms_.missing_bids == MissingBids::wait && is_wanted;
    if (waits) tell_again();
    return !waits;
  }

  // The agents of the Go program bid only on what they are told of, so whoever comes later must be
  // told.
  void tell_again() {
    tell(decision_.changed ? *decision_.changed : claim());
    decision_.tells_agents = true;
    look_at(facts_.now + terms_.bid_time);
  }
  std::chrono::milliseconds between_untaken() const {
    return std::max<std::chrono::milliseconds>(terms_.bid_time, tell_untaken_every);
  }

  // Silence ends nothing, and neither does a goal that all ignore: it stays for whoever comes.
  void leave_untaken(const Words& missing) {
    if (claim().untaken_since == UnixTime{}) {
      changed().untaken_since = facts_.stamp;
      tell_missing("claim_untaken",
                   missing.empty() ? "all bid to ignore it" : "nobody bid for it in time", missing);
    }
    if (!missing.empty()) tell_again();
  }

  void tell_missing(std::string name, std::string_view reason, const Words& missing) {
    auto event = claim_event(std::move(name), claim(), reason);
    event.data["agent_names"] = parts::to_value(missing);
    tell(std::move(event));
  }

  // The first phase from this one on for which somebody bid; complete when there is none. False
  // when that has to wait, because nothing is granted now.
  bool begin_next(const Bids& bids, Phase from, const std::string& reason) {
    for (auto phase : {Phase::review, Phase::parallel, Phase::exclusive}) {
      Words agents;
      for (const auto& [role, bid] : bids)
        if (bid == bid_of(phase) && is_configured(role)) agents.push_back(role);
      if (phase < from || agents.empty()) continue;
      if (phase == Phase::exclusive) agents.resize(1);  // the first in byte order
      if (!facts_.is_paused) begin(phase, std::move(agents), bids);
      return !facts_.is_paused;
    }
    // A question that no agent takes waits for its answer.
    if (facts_.target.structural_type == StructuralType::question && !claim().phase_state)
      return false;
    if (!claim().phase_state) changed().phase_state = PhaseState{from, {}, {}, bids, facts_.stamp};
    changed().untaken_since = {};
    complete(reason);
    return true;
  }

  void begin(Phase phase, Words agents, const Bids& bids) {
    if (phase == Phase::exclusive && facts_.busy.contains(agents[0]))
      return enqueue(agents[0], bids);
    auto& granted = changed();
    granted.untaken_since = {};
    granted.status = status_of(phase);
    granted.phase_state = PhaseState{phase, agents, {}, bids, facts_.stamp};
    if (phase == Phase::review) granted.granted_review_agents = agents;
    if (phase == Phase::parallel) granted.granted_parallel_agents = agents;
    if (phase == Phase::exclusive) granted.granted_exclusive_agent = agents[0];
    grant(agents, bid_of(phase));
  }

  void grant(const Words& agents, BidType type) {
    auto& granted = changed();
    granted.grant_queue.reset();
    granted.artefact_expected = true;
    granted.last_grant_agent = agents.back();
    granted.last_grant_time = std::chrono::floor<std::chrono::seconds>(facts_.stamp);
    for (const auto& role : agents) {
      auto found = terms_.roles.find(role);
      auto image = found == terms_.roles.end() ? std::string() : found->second.image_id;
      if (type == BidType::exclusive) granted.granted_agent_image_id = image;
      tell(Grant{role, granted.id, type});
      tell(claim_granted(role, type, granted.id, image));
    }
    decision_.tells_agents = true;
  }

  void enqueue(const std::string& role, const Bids& bids) {
    if (claim().grant_queue && claim().grant_queue->agent_name == role) return;
    auto& queued = changed();
    queued.untaken_since = {};
    if (queued.status != ClaimStatus::pending_assignment) {
      queued.status = ClaimStatus::pending_exclusive;
      queued.phase_state = PhaseState{Phase::exclusive, {}, {}, bids, facts_.stamp};
    }
    queued.artefact_expected = false;
    queued.grant_queue = GrantQueueEntry{facts_.stamp, role};
    auto event = claim_event("claim_queued", queued,
                             fmt::format("{} has as many grants as it may have", role));
    event.data["agent_name"] = parts::text_value(role);
    tell(std::move(event));
  }

  const Part* result_of(const std::string& role) const {
    auto found = std::ranges::find(facts_.children, role, &Part::role);
    return found == facts_.children.end() ? nullptr : &*found;
  }

  // Failure ends a claim, and so does the end of the workflow. Returns whether it did.
  bool ends_with(const Part& result) {
    if (result.structural_type == StructuralType::failure)
      terminate(fmt::format("{} failed, see artefact {}: {}", result.role, result.id,
                            std::string_view(result.feedback).substr(0, 200)));
    else if (result.structural_type == StructuralType::terminal)
      complete(fmt::format("{} ended the workflow", result.role));
    else
      return false;
    return true;
  }

  void in_phase(PhaseState phase) {
    if (phase.granted_agents
            .empty())  // in the queue, or the Go program was stopped before it granted
      return void(begin_next(phase.all_bids, phase.current, "nobody is left who bid for it"));
    Words awaited;
    for (const auto& role : phase.granted_agents) {
      if (const auto* result = result_of(role))
        phase.received[role] = result->id;
      else if (!phase.received.contains(role))
        awaited.push_back(role);
    }
    if (phase != claim().phase_state) changed().phase_state = phase;
    for (const auto& role : phase.granted_agents)
      if (const auto* result = result_of(role); result && ends_with(*result)) return;
    auto gone = std::ranges::find_if_not(awaited, [this](auto& r) { return is_configured(r); });
    if (gone != awaited.end())
      return terminate(
          fmt::format("it was granted to {}, which is not configured any more", *gone));
    if (awaited.empty()) return finish(phase);
    if (facts_.told_at) return;
    for (const auto& role : awaited) tell(Grant{role, claim().id, bid_of(phase.current)});
    decision_.tells_agents = true;
  }

  void finish(const PhaseState& phase) {
    if (phase.current == Phase::exclusive)
      return complete(fmt::format("{} delivered", phase.granted_agents[0]));
    if (phase.current == Phase::parallel)
      return void(begin_next(phase.all_bids, Phase::exclusive, "all parallel work is done"));
    auto rejections = rejections_in(phase);
    if (facts_.is_paused && !rejections.empty()) return;
    tell_verdicts(phase);
    if (!rejections.empty()) return reject(rejections);
    // What has to wait is told when it happens.
    if (!begin_next(phase.all_bids, Phase::parallel, "approved, and nobody bid to do more"))
      decision_.announcements.clear();
  }

  Words rejections_in(const PhaseState& phase) const {
    Words ids;
    for (const auto& [role, id] : phase.received)
      if (const auto* review = result_of(role); !review || !review->approves) ids.push_back(id);
    return ids;
  }

  void tell_verdicts(const PhaseState& phase) {
    for (const auto& [role, id] : phase.received) {
      const auto* review = result_of(role);
      if (review && review->approves)
        tell(review_approved(role, facts_.target.id));
      else
        tell(review_rejected(role, facts_.target.id,
                             review ? review->feedback : "the review cannot be read"));
    }
  }

  void reject(const Words& reviews) {
    const auto& target = facts_.target;
    auto iteration = target.version - 1;
    auto rejected = fmt::format("rejected by the reviews {}", fmt::join(reviews, ", "));
    if (terms_.max_review_iterations > 0 && iteration >= terms_.max_review_iterations)
      return terminate_with_failure("MaxIterationsExceeded",
                                    fmt::format("max review iterations ({}) reached; {}",
                                                terms_.max_review_iterations, rejected));
    if (!is_configured(target.role))
      return terminate_with_failure(
          "MissingAgentConfiguration",
          fmt::format("missing agent configuration: {} made it and cannot rework it; {}",
                      target.role, rejected));
    auto& feedback = decision_.feedback.emplace();
    feedback.artefact_id = target.id;
    feedback.status = ClaimStatus::pending_assignment;
    feedback.additional_context_ids = reviews;
    feedback.children_before = claim().children_before;  // older results are not its own
    if (!facts_.busy.contains(target.role)) {
      feedback.granted_exclusive_agent = feedback.last_grant_agent = target.role;
      feedback.last_grant_time = std::chrono::floor<std::chrono::seconds>(facts_.stamp);
      feedback.artefact_expected = true;
    }
    terminate(rejected);
  }

  void in_assignment() {
    auto role = claim().granted_exclusive_agent;
    bool is_granted = !role.empty();
    if (!is_granted) role = facts_.target.role;
    for (const auto& child : facts_.children) {
      // Its own review of what it made is not the rework of it.
      if (!is_granted || child.role != role || child.structural_type == StructuralType::review)
        continue;
      if (!ends_with(child)) complete(fmt::format("{} delivered", role));
      return;
    }
    if (!is_configured(role))
      return terminate(fmt::format("missing agent configuration: {} cannot rework it", role));
    if (is_granted) {
      if (facts_.told_at) return;
      tell(claim());
      decision_.tells_agents = true;
    } else if (facts_.busy.contains(role)) {
      enqueue(role, {});
    } else if (!facts_.is_paused) {
      changed().granted_exclusive_agent = role;
      grant({role}, BidType::exclusive);
    }
  }

  const Facts& facts_;
  const OrchestratorTerms& terms_;
  Decision decision_;
};

}  // namespace

WorkflowEvent claim_event(std::string name, const Claim& claim, std::string_view reason) {
  WorkflowEvent event{std::move(name), {}};
  event.data["artefact_id"] = claim.artefact_id;
  event.data["claim_id"] = claim.id;
  event.data["reason"] = parts::text_value(reason);
  return event;
}

Decision decide(const Facts& facts, const OrchestratorTerms& terms) {
  return Decider(facts, terms).decide();
}

}  // namespace warren::orchestrator
