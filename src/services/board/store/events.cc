#include "services/board/store/events.h"

#include "services/board/store/json_parts.h"

namespace warren::board {
namespace {

constexpr std::size_t told_feedback = 200;

using Member = std::pair<const char*, boost::json::value>;

// Members come in the order of their names, as Go writes a map.
WorkflowEvent event(std::string name, std::initializer_list<Member> members) {
  WorkflowEvent event{std::move(name), {}};
  for (const auto& [member, value] : members) event.data[member] = value;
  return event;
}

Message message(const BoardKeys& keys, const Grant& grant) {
  boost::json::object json;
  json["claim_id"] = grant.claim_id;
  json["claim_type"] = name(grant.type);
  json["event_type"] = "grant";
  return {keys.agent_events(grant.role), parts::serialize(json)};
}

Message message(const BoardKeys& keys, const WorkflowEvent& workflow) {
  boost::json::object json;
  json["event"] = parts::text_value(workflow.name);
  json["data"] = workflow.data;
  return {keys.workflow_events(), parts::serialize(json)};
}

Message message(const BoardKeys& keys, const Claim& claim) {
  return {keys.claim_events(), to_json(claim)};
}

// The role whose channel this is, if it is one.
std::optional<std::string> role_of(const BoardKeys& keys, std::string_view channel) {
  auto begin = keys.root() + "agent:";
  constexpr std::string_view end = ":events";
  if (channel.size() <= begin.size() + end.size() || !channel.starts_with(begin) ||
      !channel.ends_with(end))
    return {};
  return std::string(channel.substr(begin.size(), channel.size() - begin.size() - end.size()));
}

Result<Grant> grant_from(std::string_view channel, std::string role,
                         const boost::json::object& json) {
  auto event_type = parts::text(json.if_contains("event_type"));
  auto claim_id = parts::text(json.if_contains("claim_id"));
  auto claim_type = parts::text(json.if_contains("claim_type"));
  if (!event_type || *event_type != "grant")
    return fail(Errc::protocol, "{}: event_type is not grant", channel);
  if (!claim_id || !canonical_uuid(*claim_id))
    return fail(Errc::protocol, "{}: claim_id is no UUID", channel);
  Grant grant{std::move(role), *std::move(claim_id)};
  if (!claim_type) return fail(Errc::protocol, "{}: claim_type is no text", channel);
  grant.type = parse_bid_type(*claim_type).value_or(BidType::exclusive);
  return grant;
}

Result<WorkflowEvent> workflow_from(std::string_view channel, const boost::json::object& json) {
  auto event_name = parts::text(json.if_contains("event"));
  if (!event_name || event_name->empty())
    return fail(Errc::protocol, "{}: event is no name", channel);
  const auto* data = json.if_contains("data");
  if (!parts::is_nothing(data) && !data->is_object())
    return fail(Errc::protocol, "{}: data is no object", channel);
  WorkflowEvent workflow{*std::move(event_name), {}};
  if (!parts::is_nothing(data)) workflow.data = data->get_object();
  return workflow;
}

template <class T>
BoardEvent told(std::string_view channel, Result<T> read) {
  if (read) return *std::move(read);
  return Malformed{std::string(channel), std::move(read.error().what)};
}

}  // namespace

WorkflowEvent bid_submitted(std::string_view role, BidType bid, std::string_view claim_id) {
  return event("bid_submitted", {{"agent_name", parts::text_value(role)},
                                 {"bid_type", parts::text_value(name(bid))},
                                 {"claim_id", parts::text_value(claim_id)}});
}

WorkflowEvent claim_granted(std::string_view role, BidType type, std::string_view claim_id,
                            std::string_view image_id) {
  return event("claim_granted", {{"agent_image_id", parts::text_value(image_id)},
                                 {"agent_name", parts::text_value(role)},
                                 {"claim_id", parts::text_value(claim_id)},
                                 {"grant_type", parts::text_value(name(type))}});
}

WorkflowEvent review_approved(std::string_view role, std::string_view artefact_id) {
  return event("review_approved", {{"original_artefact_id", parts::text_value(artefact_id)},
                                   {"reviewer_role", parts::text_value(role)}});
}

WorkflowEvent review_rejected(std::string_view role, std::string_view artefact_id,
                              std::string_view feedback) {
  std::string shown(feedback.substr(0, told_feedback));
  if (feedback.size() > told_feedback) shown += "...";
  return event("review_rejected", {{"feedback", parts::text_value(shown)},
                                   {"original_artefact_id", parts::text_value(artefact_id)},
                                   {"reviewer_role", parts::text_value(role)}});
}

WorkflowEvent feedback_claim_created(const Claim& feedback, std::string_view original_claim_id,
                                     std::int64_t iteration) {
  return event("feedback_claim_created",
               {{"feedback_claim_id", parts::text_value(feedback.id)},
                {"iteration", iteration},
                {"original_claim_id", parts::text_value(original_claim_id)},
                {"target_agent_role", parts::text_value(feedback.granted_exclusive_agent)}});
}

WorkflowEvent artefact_reworked(const Artefact& reworked, std::string_view previous_version_id) {
  return event("artefact_reworked",
               {{"artefact_type", parts::text_value(reworked.type)},
                {"logical_id", parts::text_value(reworked.logical_id)},
                {"new_artefact_id", parts::text_value(reworked.id)},
                {"new_version", reworked.version},
                {"previous_version_id", parts::text_value(previous_version_id)},
                {"produced_by_role", parts::text_value(reworked.produced_by_role)}});
}

Message encode(const BoardKeys& keys, const Announcement& announcement) {
  return std::visit([&](const auto& each) { return message(keys, each); }, announcement);
}

BoardEvent parse_event(const BoardKeys& keys, std::string_view channel, std::string_view payload) {
  auto json = parse_object(channel, payload);
  if (!json) return Malformed{std::string(channel), std::move(json.error().what)};
  if (channel == keys.artefact_events()) return told(channel, artefact_from(channel, *json));
  if (channel == keys.claim_events()) return told(channel, claim_from(channel, *json));
  if (channel == keys.workflow_events()) return told(channel, workflow_from(channel, *json));
  if (auto role = role_of(keys, channel))
    return told(channel, grant_from(channel, *std::move(role), *json));
  return Malformed{std::string(channel), fmt::format("{}: no channel of this board", channel)};
}

}  // namespace warren::board
