// What a client of zoekt is told.
#include <boost/json.hpp>

#include "base/base64.h"
#include "base/utf8.h"
#include "search/source/blob_id.h"
#include "services/fleet/zoekt/api.h"

namespace warren::fleet {

namespace {

namespace json = boost::json;
using search::FileMatch;
using search::LineMatch;

// Go's []byte.
json::value bytes_of(std::string_view bytes) { return json::value(to_base64(bytes)); }

std::string joined(const std::vector<std::string>& texts, std::string_view between) {
  std::string all;
  for (const auto& text : texts) {
    if (!all.empty()) all += between;
    all += text;
  }
  return all;
}

// How many of the matches may still be shown; each has a range.
class Room {
 public:
  explicit Room(std::uint64_t matches) : left_(matches == 0 ? UINT64_MAX : matches) {}
  bool take() {
    if (left_ == 0) return false;
    --left_;
    return true;
  }
  bool is_full() const { return left_ == 0; }

 private:
  std::uint64_t left_;
};

json::object line_match(const LineMatch& line, const ZoektOptions& options, Room& room) {
  json::array fragments;
  for (const auto& range : line.ranges) {
    if (!room.take()) break;
    fragments.push_back(json::object{{"LineOffset", range.begin},
                                     {"Offset", line.offset + range.begin},
                                     {"MatchLength", range.end - range.begin},
                                     {"SymbolInfo", nullptr}});
  }
  bool has_context = options.context > 0;
  return {{"Line", bytes_of(line.text)},
          {"LineStart", line.offset},
          {"LineEnd", line.offset + line.text.size()},
          {"LineNumber", line.line},
          {"Before", has_context ? bytes_of(joined(line.before, "")) : json::value()},
          {"After", has_context ? bytes_of(joined(line.after, "")) : json::value()},
          {"FileName", false},
          {"Score", 0},
          {"DebugScore", ""},
          {"LineFragments", std::move(fragments)}};
}

// A match of the path: a line that is the path.
LineMatch path_line(const FileMatch& file) {
  LineMatch line;
  line.text = file.path;
  line.ranges = file.path_ranges;
  return line;
}

json::array line_matches(const FileMatch& file, const ZoektOptions& options, Room& room) {
  json::array lines;
  if (file.lines.empty() && !file.path_ranges.empty()) {
    auto line = line_match(path_line(file), {}, room);
    line["LineEnd"] = 0;
    line["FileName"] = true;
    lines.push_back(std::move(line));
    return lines;
  }
  for (const auto& line : file.lines) {
    if (room.is_full()) break;
    lines.push_back(line_match(line, options, room));
  }
  return lines;
}

// A column is counted in characters, from 1.
json::object location(std::uint64_t offset, std::uint64_t line, std::string_view before) {
  std::uint64_t column = 1;
  for (; !before.empty(); ++column) before.remove_prefix(first_code_point(before).length);
  return {{"ByteOffset", offset}, {"LineNumber", line}, {"Column", column}};
}

void add_ranges(json::array& into, const LineMatch& line, std::uint64_t number, Room& room) {
  std::string_view text = line.text;
  for (const auto& range : line.ranges) {
    if (!room.take()) return;
    into.push_back(json::object{
        {"Start", location(line.offset + range.begin, number, text.substr(0, range.begin))},
        {"End", location(line.offset + range.end, number, text.substr(0, range.end))}});
  }
}

json::object chunk(std::string_view content, json::object start, json::array ranges,
                   std::uint64_t best_line) {
  return {{"DebugScore", ""},
          {"Content", bytes_of(content)},
          {"Ranges", std::move(ranges)},
          {"SymbolInfo", nullptr},
          {"FileName", best_line == 0},
          {"ContentStart", std::move(start)},
          {"Score", 0},
          {"BestLineMatch", best_line}};
}

// Lines whose surroundings touch are one chunk: from the first line before the first of them to the
// last line after the last.
class Chunks {
 public:
  Chunks(int context, Room& room) : context_(static_cast<std::uint64_t>(context)), room_(room) {}

  void add(const LineMatch& line) {
    if (!ranges_.empty() && last_ + context_ + context_ < line.line) finish();
    auto before = joined(line.before, "");
    if (ranges_.empty()) {
      content_ = before;
      start_ = {{"ByteOffset", line.offset - before.size()},
                {"LineNumber", line.line - line.before.size()},
                {"Column", 1}};
      best_ = line.line;
    } else {
      // Each line once, of those after the last one and those before this one.
      auto first_before = line.line - line.before.size();
      for (std::size_t k = 0; k < after_.size() && last_ + 1 + k < first_before; ++k)
        content_ += after_[k];
      for (std::uint64_t k = line.before.size(); k > 0; --k)
        if (line.line - k > last_) content_ += line.before[line.before.size() - k];
    }
    content_ += line.text;
    after_ = line.after;
    last_ = line.line;
    add_ranges(ranges_, line, line.line, room_);
  }
  json::array take() {
    finish();
    return std::move(chunks_);
  }

 private:
  void finish() {
    if (ranges_.empty()) return;
    content_ += joined(after_, "");
    chunks_.push_back(
        chunk(content_, std::exchange(start_, {}), std::exchange(ranges_, {}), best_));
  }

  std::uint64_t context_;
  Room& room_;
  json::array chunks_, ranges_;
  json::object start_;
  std::string content_;
  std::vector<std::string> after_;  // the last line; not in the content yet
  std::uint64_t last_ = 0, best_ = 0;
};

json::array chunk_matches(const FileMatch& file, const ZoektOptions& options, Room& room) {
  if (file.lines.empty() && !file.path_ranges.empty()) {
    json::array ranges;
    add_ranges(ranges, path_line(file), 1, room);
    return {chunk(file.path, location(0, 1, ""), std::move(ranges), 0)};
  }
  Chunks chunks(options.context, room);
  for (const auto& line : file.lines) {
    if (room.is_full()) break;
    chunks.add(line);
  }
  return chunks.take();
}

// Of the first branch that it is on.
std::string version_of(const FileMatch& file, const ZoektRepo* repo) {
  if (!repo || repo->branches.empty()) return "";
  for (const auto& branch : repo->branches)
    if (!file.branches.empty() && branch.name == file.branches[0]) return branch.version;
  return repo->branches[0].version;
}

json::object file_match(const FileMatch& file, const ZoektAnswer& answer, std::size_t place,
                        const ZoektOptions& options, Room& room) {
  auto found = answer.repos.find(file.repo);
  const auto* repo = found == answer.repos.end() ? nullptr : &found->second;
  json::object object{{"FileName", valid_utf8(file.path)}, {"Repository", valid_utf8(file.repo)}};
  if (auto version = version_of(file, repo); !version.empty()) object["Version"] = version;
  object["Language"] = file.language;
  if (!file.explanation.empty()) object["Debug"] = valid_utf8(joined(file.explanation, ", "));
  json::array branches;
  for (const auto& branch : file.branches) branches.push_back(json::value(valid_utf8(branch)));
  if (!branches.empty()) object["Branches"] = std::move(branches);
  auto matches =
      options.wants_chunks ? chunk_matches(file, options, room) : line_matches(file, options, room);
  if (!matches.empty())
    object[options.wants_chunks ? "ChunkMatches" : "LineMatches"] = std::move(matches);
  if (auto text = answer.texts.find(place); text != answer.texts.end() && !text->second.empty())
    object["Content"] = bytes_of(text->second);
  object["Checksum"] = file.blob.empty() ? json::value() : bytes_of(search::raw_id(file.blob));
  if (file.score != 0) object["Score"] = file.score;
  if (repo && repo->priority != 0) object["RepositoryPriority"] = repo->priority;
  if (repo) object["RepositoryID"] = repo->id;
  return object;
}

json::object stats_of(const ZoektAnswer& whole) {
  const auto& answer = whole.answer;
  return {{"ContentBytesLoaded", 0},
          {"IndexBytesLoaded", 0},
          {"Crashes", whole.missing},
          {"Duration", whole.took.count()},
          {"FileCount", answer.file_count},
          {"ShardFilesConsidered", whole.files_considered},
          {"FilesConsidered", answer.file_count},
          {"FilesLoaded", answer.file_count},
          {"FilesSkipped", 0},
          {"ShardsScanned", whole.searched},
          {"ShardsSkipped", whole.missing},
          {"ShardsSkippedFilter", 0},
          {"MatchCount", answer.match_count},
          {"NgramMatches", 0},
          {"NgramLookups", 0},
          {"Wait", 0},
          {"MatchTreeConstruction", 0},
          {"MatchTreeSearch", 0},
          {"RegexpsConsidered", 0},
          {"FlushReason", 0}};
}

}  // namespace

std::string zoekt_result(const ZoektAnswer& whole, const ZoektOptions& options) {
  auto result = stats_of(whole);
  Room room(options.shown_matches);
  json::array files;
  json::object urls, fragments;
  for (std::size_t i = 0; i < whole.answer.files.size() && !room.is_full(); ++i) {
    const auto& file = whole.answer.files[i];
    files.push_back(file_match(file, whole, i, options, room));
    // Templates of links: whoever shows them knows the host better.
    urls[valid_utf8(file.repo)] = "";
    fragments[valid_utf8(file.repo)] = "";
  }
  result["Files"] = files.empty() ? json::value() : json::value(std::move(files));
  result["RepoURLs"] = std::move(urls);
  result["LineFragments"] = std::move(fragments);
  return json::serialize(json::object{{"Result", std::move(result)}});
}

std::string zoekt_error(std::string_view what) {
  return json::serialize(json::object{{"Error", valid_utf8(what)}});
}

}  // namespace warren::fleet
