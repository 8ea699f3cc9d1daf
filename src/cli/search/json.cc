// Lines of JSON: each is complete and valid UTF-8, whatever a file contains.
#include <algorithm>
#include <boost/json.hpp>

#include "base/utf8.h"
#include "cli/search/output.h"
#include "search/answer/match_json.h"

namespace warren::cli {

namespace {

namespace json = boost::json;

// Equivalent JSON, without characters that move a terminal's cursor or reverse the reading
// direction.
std::string safe_json(const json::object& object) {
  auto text = json::serialize(object);
  if (std::ranges::all_of(text, [](char c) { return std::uint8_t(c) < 0x7f; })) return text;
  std::string out;
  for (std::string_view rest = text; !rest.empty();) {
    auto [value, length] = first_code_point(rest);
    if (is_unsafe(value) && value > 0xffff)
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xd7c0 + std::uint32_t(value >> 10),
                         0xdc00 + std::uint32_t(value & 0x3ff));
    else if (is_unsafe(value))
      out += fmt::format("\\u{:04x}", std::uint32_t(value));
    else
      out += rest.substr(0, length);
    rest.remove_prefix(length);
  }
  return out;
}

}  // namespace

std::string json_of(const search::FileMatch& file, const std::string& shown) {
  json::object object{{"type", "file"}};
  if (shown != file.path) search::put_text(object, "shown", shown);
  search::add_members(object, file);
  object.erase("blob");  // a folder's fingerprint means nothing elsewhere
  return safe_json(object);
}

std::string json_of(const search::Skipped& skipped) {
  json::object object{{"type", "skipped"}};
  search::put_text(object, "path", skipped.path);
  object["reason"] = valid_utf8(skipped.reason);
  return safe_json(object);
}

std::string json_summary(const search::Answer& answer, const SearchIndex& index) {
  auto ms = [](auto time) { return std::chrono::duration<double, std::milli>(time).count(); };
  std::uint64_t files = 0, skipped = 0, text = 0;
  for (const auto& segment : *index.segments) {
    files += segment->file_count();
    skipped += segment->skipped().size();
    text += segment->arena().size();
  }
  const auto& stats = answer.stats;
  json::object of_index{{"files", files},
                        {"skipped", skipped},
                        {"text_bytes", text},
                        {"segments", index.segments->size()},
                        {"origin", index.origin},
                        {"index_ms", ms(index.took)},
                        {"plan_ms", ms(stats.plan)},
                        {"find_ms", ms(stats.find)},
                        {"rank_ms", ms(stats.rank)},
                        {"blocks", stats.blocks},
                        {"candidate_blocks", stats.candidate_blocks},
                        {"checked_bytes", stats.checked_bytes}};
  json::object object{{"type", "summary"},
                      {"complete", answer.is_complete},
                      {"why", answer.why_incomplete},
                      {"matches", answer.match_count},
                      {"files", answer.file_count},
                      {"estimated_matches", answer.estimated_matches},
                      {"next", answer.next},
                      {"stats", std::move(of_index)}};
  return safe_json(object);
}

}  // namespace warren::cli
