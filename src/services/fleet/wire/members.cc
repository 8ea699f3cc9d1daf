#include "services/fleet/wire/members.h"

#include <bit>

namespace warren::fleet {

using search::FileMatch;
using search::LineMatch;

namespace {

LineMatch line_of(const json::value& value, std::string& wrong) {
  LineMatch line;
  Members from(value, wrong);
  from.read("line", line.line);
  from.read("offset", line.offset);
  from.read_text("text", line.text);
  from.read("ranges", line.ranges);
  from.read("cut", line.is_cut);
  from.read("before", line.before);
  from.read("after", line.after);
  return line;
}

}  // namespace

Result<json::value> parse_json(std::string_view text) {
  json::parse_options options;
  options.max_depth = 16;
  boost::system::error_code error;
  auto value = json::parse(text, error, {}, options);
  if (error) return fail(Errc::invalid, "the body is not JSON: {}", error.message());
  return value;
}

FileMatch read_file(const json::value& value, std::string& wrong) {
  FileMatch file;
  Members from(value, wrong);
  from.read_text("repo", file.repo);
  from.read_text("path", file.path);
  from.read("language", file.language);
  from.read("branches", file.branches);
  from.read("path_ranges", file.path_ranges);
  from.read("matches", file.match_count);
  from.read("score", file.score);
  from.read("blob", file.blob);
  from.read("line_count", file.line_count);
  from.read("cut", file.is_cut);
  from.each("lines", [&](const json::value& line) { file.lines.push_back(line_of(line, wrong)); });
  from.read("explanation", file.explanation);
  from.each("same", [&](const json::value& other) {
    auto& place = file.same.emplace_back();
    Members members(other, wrong);
    members.read_text("repo", place.repo);
    members.read_text("path", place.path);
  });
  std::uint64_t bits = 0;
  if (from.has("score_bits")) {
    from.read("score_bits", bits);
    file.score = std::bit_cast<double>(bits);
  }
  from.read("depths", file.depths);
  return file;
}

}  // namespace warren::fleet
