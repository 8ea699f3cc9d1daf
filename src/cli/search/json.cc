// Lines of JSON: each is whole and UTF-8, whatever was in a file.
#include <algorithm>
#include <boost/json.hpp>

#include "base/utf8.h"
#include "cli/search/output.h"

namespace warren::cli {

namespace {

namespace json = boost::json;

json::array array_of(const std::vector<search::Range>& ranges) {
  json::array list;
  for (const auto& range : ranges) list.push_back(json::array{range.begin, range.end});
  return list;
}

json::array array_of(const std::vector<std::string>& texts) {
  json::array list;
  for (const auto& text : texts) list.push_back(json::value(valid_utf8(text)));
  return list;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    auto part = bytes.substr(i, 3);
    std::uint32_t word = 0;
    for (std::size_t k = 0; k < 3; ++k)
      word = word << 8 | (k < part.size() ? std::uint8_t(part[k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k)
      out += k <= part.size() ? digits[word >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

// What is no UTF-8 is there twice: to be read, and as bytes, for which ranges are true.
void put(json::object& object, std::string_view name, const std::string& text) {
  const auto valid = valid_utf8(text);
  if (valid != text) object[std::string(name) + "_base64"] = base64(text);
  object[name] = valid;
}

// Equal to any reader, and no mark that moves a terminal's cursor or turns the direction of
// reading.
std::string safe_json(const json::object& object) {
  auto text = json::serialize(object);
  if (std::ranges::all_of(text, [](char c) { return std::uint8_t(c) < 0x7f; })) return text;
  std::string out;
  for (std::string_view rest = text; !rest.empty();) {
    auto [value, length] = first_code_point(rest);
    if (is_unsafe(value))
      out += fmt::format("\\u{:04x}", std::uint32_t(value));
    else
      out += rest.substr(0, length);
    rest.remove_prefix(length);
  }
  return out;
}

json::object object_of(const search::LineMatch& line) {
  json::object object{{"line", line.line}};
  put(object, "text", line.text);
  object["ranges"] = array_of(line.ranges);
  if (line.is_cut) object["cut"] = true;
  if (!line.before.empty()) object["before"] = array_of(line.before);
  if (!line.after.empty()) object["after"] = array_of(line.after);
  return object;
}

}  // namespace

std::string json_of(const search::FileMatch& file, const std::string& shown) {
  json::object object{{"type", "file"}, {"repo", valid_utf8(file.repo)}};
  put(object, "path", file.path);
  if (shown != file.path) put(object, "shown", shown);
  object["language"] = file.language;
  object["branches"] = array_of(file.branches);
  object["path_ranges"] = array_of(file.path_ranges);
  object["matches"] = file.match_count;
  object["score"] = file.score;
  if (file.is_cut) object["cut"] = true;
  json::array lines;
  for (const auto& line : file.lines) lines.push_back(object_of(line));
  object["lines"] = std::move(lines);
  if (!file.explanation.empty()) object["explanation"] = array_of(file.explanation);
  return safe_json(object);
}

std::string json_of(const search::Skipped& skipped) {
  json::object object{{"type", "skipped"}};
  put(object, "path", skipped.path);
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
