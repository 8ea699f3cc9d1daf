#include "services/board/agent/contract.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "redis/resp/reply.h"
#include "services/board/store/encoding.h"
#include "services/board/store/json_parts.h"

namespace warren::agent {

using namespace board;

namespace {

constexpr std::size_t most_shown = 5000;

std::string_view trimmed(std::string_view text) {
  constexpr auto blanks = " \t\r\n";
  auto begin = text.find_first_not_of(blanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

Result<std::string> member(const boost::json::object& object, const char* name, bool is_required) {
  auto text = parts::text(object.if_contains(name));
  if (!text) return fail(Errc::invalid, "{} must be text", name);
  if (is_required && text->empty()) return fail(Errc::invalid, "{} is missing or empty", name);
  return *std::move(text);
}

Result<StructuralType> structural_type(const boost::json::object& object,
                                       const std::string& artefact_type) {
  auto text = member(object, "structural_type", false);
  if (!text) return std::unexpected(text.error());
  if (text->empty())
    return artefact_type == "Review" ? StructuralType::review : StructuralType::standard;
  auto type = parse_structural_type(*text);
  if (type) return *type;
  return fail(Errc::invalid, "structural_type {} is none of the six", redis::quoted(*text));
}

// JSON of a string, with its quotes.
std::string in_json(std::string_view text) { return parts::serialize(parts::text_value(text)); }

std::string cut(std::string_view text) {
  if (text.size() <= most_shown) return std::string(text);
  auto end = most_shown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

}  // namespace

std::string tool_input(BidType claim_type, const Artefact& target,
                       const std::vector<Artefact>& context) {
  auto text = fmt::format(R"({{"claim_type":"{}","target_artefact":{},"context_chain":[)",
                          name(claim_type), to_json(target));
  for (const auto& artefact : context)
    text.append(&artefact == context.data() ? "" : ",").append(to_json(artefact));
  return text + "]}";
}

Result<ToolOutput> parse_tool_output(std::string_view text) {
  auto trimmed_text = trimmed(text);
  if (trimmed_text.empty()) return fail(Errc::invalid, "the tool wrote nothing");
  auto object = parts::parse(trimmed_text);
  if (!object || !object->is_object())
    return fail(Errc::invalid, "what the tool wrote is not one JSON object");
  const auto& members = object->get_object();
  auto type = member(members, "artefact_type", true);
  if (!type) return std::unexpected(type.error());
  auto payload = member(members, "artefact_payload", false);
  if (!payload) return std::unexpected(payload.error());
  auto summary = member(members, "summary", true);
  if (!summary) return std::unexpected(summary.error());
  auto structure = structural_type(members, *type);
  if (!structure) return std::unexpected(structure.error());
  return ToolOutput{*std::move(type), *std::move(payload), *structure};
}

Result<BidType> parse_bid(std::string_view text) {
  auto bid = parse_bid_type(trimmed(text));
  if (bid) return *bid;
  return fail(Errc::invalid, "{} is no bid: review, claim, exclusive or ignore",
              redis::quoted(trimmed(text).substr(0, 60)));
}

std::string failure_payload(std::string_view reason, const ToolEnd& end) {
  auto text = fmt::format("{{\n  \"reason\": {}", in_json(reason));
  if (end.exit_code != 0) text += fmt::format(",\n  \"exit_code\": {}", end.exit_code);
  if (!end.out.empty()) text += fmt::format(",\n  \"stdout\": {}", in_json(cut(end.out)));
  if (!end.err.empty()) text += fmt::format(",\n  \"stderr\": {}", in_json(cut(end.err)));
  return text + fmt::format(",\n  \"error\": {}\n}}", in_json(reason));
}

std::string complaint(const ToolEnd& end, Clock::duration timeout) {
  auto seconds = std::chrono::duration<double>(timeout).count();
  if (end.timed_out) return fmt::format("the tool did not end within {} s", seconds);
  if (end.wrote_too_much) return "the tool wrote too much";
  if (end.signal != 0) return fmt::format("the tool was ended by signal {}", end.signal);
  if (end.exit_code != 0) return fmt::format("the tool exited with code {}", end.exit_code);
  return "";
}

std::string result_id(std::string_view claim_id, std::string_view role) {
  // Our own namespace: a random UUID, chosen once.
  constexpr std::array<unsigned char, 16> warren_results{0x5e, 0x1d, 0x9c, 0x42, 0x0b, 0x7f,
                                                         0x4a, 0x63, 0x9d, 0x31, 0xe8, 0x54,
                                                         0x2a, 0xc6, 0x7b, 0x90};
  std::string name(warren_results.begin(), warren_results.end());
  name.append(claim_id).append("/").append(role);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  bool is_done = EVP_Digest(name.data(), name.size(), digest.data(), nullptr, EVP_sha1(), nullptr);
  ensure(is_done, "SHA-1 can be computed");
  digest[6] = (digest[6] & 0x0f) | 0x50;
  digest[8] = (digest[8] & 0x3f) | 0x80;
  std::string text;
  for (std::size_t i = 0; i < 16; ++i)
    text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", digest[i]);
  return text;
}

}  // namespace warren::agent
