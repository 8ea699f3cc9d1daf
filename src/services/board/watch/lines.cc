#include "services/board/watch/lines.h"

#include <boost/json.hpp>

#include "services/board/store/json_parts.h"
#include "services/board/watch/text.h"
#include "services/board/watch/time_spec.h"

namespace warren::watch {

using namespace board;
namespace json = boost::json;

namespace {

// `name@sha256:<hex>` and `sha256:<hex>`: what tells images apart is the hash.
std::string image_mark(std::string_view image) {
  constexpr std::string_view kind = "sha256:";
  if (image == no_image) return "";
  auto at = image.rfind(kind);
  if (at != image.npos) image.remove_prefix(at + kind.size());
  return image.empty() ? "" : "@" + shown(image.substr(0, 12));
}

std::string line(const Artefact& artefact) {
  if (artefact.structural_type == StructuralType::terminal)
    return fmt::format("🎉 Workflow completed: Terminal artefact created (type={}, id={})",
                       shown(artefact.type), shown(artefact.id));
  if (artefact.structural_type == StructuralType::review || artefact.version > 1) return {};
  auto text =
      fmt::format("✨ Artefact created: by={}, type={}, id={}", shown(artefact.produced_by_role),
                  shown(artefact.type), shown(artefact.id));
  if (artefact.structural_type != StructuralType::failure) return text;
  return fmt::format("{} ({})", text, cut(shown(why_of(artefact)), 200));
}

std::string line(const Claim& claim) {
  return fmt::format("⏳ Claim created: claim={}, artefact={}, status={}", shown(claim.id),
                     shown(claim.artefact_id), name(claim.status));
}

// Of a number as of a text.
std::string word_of(const WorkflowEvent& event, std::string_view member) {
  const auto* value = event.data.if_contains(member);
  if (!value || value->is_null()) return {};
  return shown(value->is_string() ? std::string(value->get_string()) : json::serialize(*value));
}

// The roles in agent_names.
std::string words_of(const WorkflowEvent& event) {
  auto words = parts::words(event.data.if_contains("agent_names")).value_or(Words());
  return shown(fmt::format("{}", fmt::join(words, ", ")));
}

std::string with_reason(std::string text, const WorkflowEvent& event) {
  auto reason = word_of(event, "reason");
  return reason.empty() ? text : fmt::format("{} ({})", text, cut(reason, 120));
}

std::string line(const WorkflowEvent& event) {
  auto word = [&event](std::string_view member) { return word_of(event, member); };
  const auto& is = event.name;
  if (is == "bid_submitted")
    return fmt::format("🙋 Bid submitted: agent={}, claim={}, type={}", word("agent_name"),
                       word("claim_id"), word("bid_type"));
  if (is == "claim_granted")
    return fmt::format("🏆 Claim granted: agent={}{}, claim={}, type={}", word("agent_name"),
                       image_mark(text_of(event, "agent_image_id")), word("claim_id"),
                       word("grant_type"));
  if (is == "review_approved")
    return fmt::format("✅ Review Approved: by={} for artefact {}", word("reviewer_role"),
                       word("original_artefact_id"));
  if (is == "review_rejected")
    return fmt::format("❌ Review Rejected: by={} for artefact {}", word("reviewer_role"),
                       word("original_artefact_id"));
  if (is == "feedback_claim_created")
    return fmt::format("🔄 Rework Assigned: to={} for claim {} (iteration {})",
                       word("target_agent_role"), word("feedback_claim_id"), word("iteration"));
  if (is == "artefact_reworked")
    return fmt::format("🔄 Artefact Reworked (v{}): by={}, type={}, id={}", word("new_version"),
                       word("produced_by_role"), word("artefact_type"), word("new_artefact_id"));
  if (is == "claim_completed")
    return with_reason("🏁 Claim completed: claim=" + word("claim_id"), event);
  if (is == "claim_terminated")
    return with_reason("🛑 Claim terminated: claim=" + word("claim_id"), event);
  if (is == "claim_queued") return with_reason("🚦 Claim queued: claim=" + word("claim_id"), event);
  if (is == "bids_missing")
    return fmt::format("⌛ Bids missing: claim={}, from={}", word("claim_id"), words_of(event));
  if (is == "claim_untaken")
    return with_reason("💤 Nobody took it: claim=" + word("claim_id"), event);
  if (is == "claim_retried")
    return fmt::format("🔁 Claim retried: claim={}, artefact={}", word("claim_id"),
                       word("artefact_id"));
  if (is == "goal_cancelled")
    return with_reason("🛑 Goal cancelled: goal=" + word("goal_id"), event);
  if (is == "orchestrator_paused") return with_reason("⏸ Paused", event);
  if (is == "orchestrator_resumed") return "▶ Resumed";
  return "❓ Unknown event: " + shown(is);
}

std::string json_line(std::string_view data, std::string_view event, UnixTime at) {
  return fmt::format(R"({{"data":{},"event":{},"timestamp":"{}"}})", data,
                     parts::serialize(parts::text_value(event)), rfc3339(at));
}

std::vector<std::string> jsonl(const Artefact& artefact, UnixTime at) {
  std::vector<std::string> all{json_line(to_json(artefact), "artefact_created", at)};
  if (artefact.structural_type != StructuralType::terminal) return all;
  json::object data;
  data["artefact_id"] = parts::text_value(artefact.id);
  data["artefact_type"] = parts::text_value(artefact.type);
  data["produced_by"] = parts::text_value(artefact.produced_by_role);
  all.push_back(json_line(parts::serialize(data), "workflow_completed", at));
  return all;
}

std::vector<std::string> jsonl(const Claim& claim, UnixTime at) {
  return {json_line(to_json(claim), "claim_created", at)};
}

std::vector<std::string> jsonl(const WorkflowEvent& event, UnixTime at) {
  return {json_line(parts::serialize(event.data), event.name, at)};
}

constexpr std::pair<std::string_view, std::string_view> brief_types[] = {
    {"GoalDefined", "Goal"},
    {"ToolExecutionFailure", "Failure"},
    {"TerraformCode", "TfCode"},
    {"TerraformDocumentation", "TfDocs"},
    {"FormattedDocumentation", "FmtDocs"},
    {"PackagedModule", "Package"}};

std::string short_type(std::string_view type) {
  for (auto [name, brief] : brief_types)
    if (type == name) return std::string(brief);
  return cut(shown(type), 20);
}

constexpr std::size_t id_width = 10, version_width = 5, type_width = 20, role_width = 18,
                      age_width = 8, payload_width = 40;

std::string row(std::string id, std::string version, std::string type, std::string role,
                std::string age, std::string_view payload) {
  return fmt::format("{} {} {} {} {} {}", padded(std::move(id), id_width),
                     padded(std::move(version), version_width), padded(std::move(type), type_width),
                     padded(std::move(role), role_width), padded(std::move(age), age_width),
                     payload);
}

void append_pretty(const json::value& value, std::size_t depth, std::string& out) {
  bool is_list = value.is_array() && !value.get_array().empty();
  bool is_object = value.is_object() && !value.get_object().empty();
  if (!is_list && !is_object) {
    out += parts::serialize(value);
    return;
  }
  std::string inner((depth + 1) * 2, ' '), before = "\n";
  out += is_list ? '[' : '{';
  if (is_list) {
    for (const auto& item : value.get_array()) {
      out += before + inner;
      append_pretty(item, depth + 1, out);
      before = ",\n";
    }
  } else {
    for (const auto& member : value.get_object()) {
      out += before + inner + parts::serialize(json::value(member.key())) + ": ";
      append_pretty(member.value(), depth + 1, out);
      before = ",\n";
    }
  }
  out += "\n" + std::string(depth * 2, ' ') + (is_list ? ']' : '}');
}

}  // namespace

std::string line_of(const Happening& happening) {
  return std::visit([](const auto& what) { return line(what); }, happening.what);
}

std::vector<std::string> json_lines(const Happening& happening) {
  return std::visit([&](const auto& what) { return jsonl(what, happening.at); }, happening.what);
}

std::string table_head() {
  auto dashes = [](std::size_t count) { return std::string(count, '-'); };
  return row("ID", "VER", "TYPE", "BY", "AGE", "PAYLOAD") + "\n" +
         row(dashes(id_width), dashes(version_width), dashes(type_width), dashes(role_width),
             dashes(age_width), dashes(payload_width));
}

std::string_view long_type(std::string_view shown_type) {
  for (auto [name, brief] : brief_types)
    if (shown_type == brief) return name;
  return {};
}

std::string table_row(const Artefact& artefact, UnixTime now) {
  bool is_failure = artefact.structural_type == StructuralType::failure;
  auto told = is_failure ? why_of(artefact) : std::string(first_line(artefact.payload));
  auto payload = cut(shown(told), payload_width);
  auto version = artefact.version == 1 ? std::string("-") : fmt::format("v{}", artefact.version);
  return row(shown(artefact.id.substr(0, 8)), std::move(version), short_type(artefact.type),
             cut(shown(artefact.produced_by_role), role_width), age_of(artefact.created_at, now),
             payload.empty() ? "-" : payload);
}

std::string age_of(UnixTime created_at, UnixTime now) {
  if (created_at == UnixTime{}) return "-";
  auto seconds = std::max<std::int64_t>(
      std::chrono::duration_cast<std::chrono::seconds>(now - created_at).count(), 0);
  if (seconds < 60) return fmt::format("{}s ago", seconds);
  if (seconds < 3600) return fmt::format("{}m ago", seconds / 60);
  if (seconds < 86400) return fmt::format("{}h ago", seconds / 3600);
  return fmt::format("{}d ago", seconds / 86400);
}

std::string pretty(const Artefact& artefact) {
  auto value = parts::parse(to_json(artefact));
  std::string out;
  if (value) append_pretty(*value, 0, out);
  return out;
}

}  // namespace warren::watch
