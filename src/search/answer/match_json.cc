#include "search/answer/match_json.h"

#include <boost/json.hpp>

#include "base/base64.h"
#include "base/utf8.h"

namespace warren::search {

namespace json = boost::json;

namespace {

json::object object_of(const LineMatch& line) {
  json::object object{{"line", line.line}, {"offset", line.offset}};
  put_text(object, "text", line.text);
  object["ranges"] = array_of(line.ranges);
  if (line.is_cut) object["cut"] = true;
  if (!line.before.empty()) object["before"] = array_of(line.before);
  if (!line.after.empty()) object["after"] = array_of(line.after);
  return object;
}

}  // namespace

void put_text(json::object& object, std::string_view name, const std::string& text) {
  const auto valid = valid_utf8(text);
  if (valid != text) object[std::string(name) + "_base64"] = to_base64(text);
  object[name] = valid;
}

json::array array_of(const std::vector<std::string>& texts) {
  json::array list;
  for (const auto& text : texts) {
    json::object one;
    put_text(one, "text", text);
    if (one.size() == 1)
      list.push_back(one["text"]);
    else
      list.push_back(std::move(one));
  }
  return list;
}

json::array array_of(const std::vector<Range>& ranges) {
  json::array list;
  for (const auto& range : ranges) list.push_back(json::array{range.begin, range.end});
  return list;
}

void add_members(json::object& object, const FileMatch& file) {
  put_text(object, "repo", file.repo);
  put_text(object, "path", file.path);
  object["language"] = file.language;
  object["branches"] = array_of(file.branches);
  object["path_ranges"] = array_of(file.path_ranges);
  object["matches"] = file.match_count;
  object["score"] = file.score;
  if (!file.blob.empty()) object["blob"] = file.blob;
  if (file.line_count > 0) object["line_count"] = file.line_count;
  if (file.is_cut) object["cut"] = true;
  json::array lines;
  for (const auto& line : file.lines) lines.push_back(object_of(line));
  object["lines"] = std::move(lines);
  if (!file.explanation.empty()) object["explanation"] = array_of(file.explanation);
  if (file.same.empty()) return;
  json::array others;
  for (const auto& other : file.same) {
    json::object one;
    put_text(one, "repo", other.repo);
    put_text(one, "path", other.path);
    others.push_back(std::move(one));
  }
  object["same"] = std::move(others);
}

}  // namespace warren::search
