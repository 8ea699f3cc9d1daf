#pragma once
// What a board tells: that an artefact or a claim was created, that a role was granted a claim, and
// what else happens in a workflow.
#include <string>
#include <utility>
#include <variant>

#include "services/board/store/encoding.h"
#include "services/board/store/keys.h"

namespace warren::board {

// To one role: look at the claim, and work if you are named in it.
struct Grant {
  std::string role;
  std::string claim_id;
  BidType type = BidType::exclusive;  // an older orchestrator may leave it out
};

// To whoever watches. Names that a watcher does not know are tolerated.
struct WorkflowEvent {
  std::string name;
  boost::json::object data;
};
WorkflowEvent bid_submitted(std::string_view role, BidType bid, std::string_view claim_id);
WorkflowEvent claim_granted(std::string_view role, BidType type, std::string_view claim_id,
                            std::string_view image_id);
WorkflowEvent review_approved(std::string_view role, std::string_view artefact_id);
// Of the feedback the first 200 bytes are told.
WorkflowEvent review_rejected(std::string_view role, std::string_view artefact_id,
                              std::string_view feedback);
WorkflowEvent feedback_claim_created(const Claim& feedback, std::string_view original_claim_id,
                                     std::int64_t iteration);
WorkflowEvent artefact_reworked(const Artefact& reworked, std::string_view previous_version_id);

// A claim is told by whoever creates it; again, to those who missed that.
using Announcement = std::variant<Grant, WorkflowEvent, Claim>;
struct Message {
  std::string channel, payload;
};
Message encode(const BoardKeys& keys, const Announcement& announcement);

struct Gap {};  // something may have been missed: look at the state itself
struct Malformed {
  std::string channel;
  std::string why;
};
using BoardEvent = std::variant<Gap, Artefact, Claim, Grant, WorkflowEvent, Malformed>;
BoardEvent parse_event(const BoardKeys& keys, std::string_view channel, std::string_view payload);

}  // namespace warren::board
