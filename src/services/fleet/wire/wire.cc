#include "services/fleet/wire/wire.h"

#include <algorithm>
#include <bit>
#include <charconv>

#include "base/utf8.h"
#include "search/answer/match_json.h"
#include "services/fleet/wire/members.h"

namespace warren::fleet {

namespace {

using search::Answer;
using search::FileMatch;

json::object object_of(const FileMatch& file) {
  json::object object;
  search::add_members(object, file);
  return object;
}

// For a router: to the last bit.
json::object exact_object_of(const FileMatch& file) {
  auto object = object_of(file);
  object["score_bits"] = std::bit_cast<std::uint64_t>(file.score);
  object["depths"] = file.depths;
  return object;
}

json::object object_of(const Missing& missing) {
  json::object object{{"repo", missing.repo}, {"reason", missing.reason}};
  if (!missing.phase.empty()) object["phase"] = missing.phase;
  if (!missing.detail.empty()) object["detail"] = valid_utf8(missing.detail);
  if (missing.progress) object["progress"] = *missing.progress;
  if (missing.eta) object["eta_ms"] = missing.eta->count();
  return object;
}

json::array array_of(const std::vector<Missing>& missing) {
  json::array list;
  for (const auto& one : missing) list.push_back(object_of(one));
  return list;
}

void read_missing(const Members& from, std::vector<Missing>& into) {
  from.each("incomplete", [&](const json::value& item) {
    auto& one = into.emplace_back();
    Members members(item, from.wrong());
    members.read("repo", one.repo);
    members.read("reason", one.reason);
    members.read("phase", one.phase);
    members.read("detail", one.detail);
    members.read("progress", one.progress);
    std::optional<std::int64_t> eta;
    members.read("eta_ms", eta);
    if (eta) one.eta = std::chrono::milliseconds(*eta);
  });
}

json::object totals_of(const Answer& answer) {
  return {{"matches", answer.match_count},
          {"file_count", answer.file_count},
          {"complete", answer.is_complete},
          {"why", answer.why_incomplete},
          {"estimated_matches", answer.estimated_matches},
          {"next", answer.next}};
}

// Of an answer that somebody looks at.
void add_ending(json::object& object, const Answer& answer, const std::vector<Missing>& missing,
                std::chrono::nanoseconds took) {
  object["complete"] = answer.is_complete && missing.empty();
  object["incomplete"] = array_of(missing);
  object["took_ms"] = std::chrono::duration<double, std::milli>(took).count();
  json::array notes;
  for (const auto& note : answer.notes) notes.emplace_back(valid_utf8(note));
  object["notes"] = std::move(notes);
}

void read_answer(const Members& from, Answer& answer) {
  from.each("files", [&](const json::value& file) {
    answer.files.push_back(read_file(file, from.wrong()));
  });
  from.read("matches", answer.match_count);
  from.read("file_count", answer.file_count);
  from.read("complete", answer.is_complete);
  from.read("why", answer.why_incomplete);
  from.read("estimated_matches", answer.estimated_matches);
  from.read("next", answer.next);
}

template <class Number>
void within(Number& value, Number least, Number most) {
  value = std::clamp(value, least, most);
}

}  // namespace

std::optional<FencingToken> parse_epoch(std::string_view text) {
  FencingToken token;
  const char *begin = text.data(), *end = begin + text.size();
  auto [dash, error] = std::from_chars(begin, end, token.epoch);
  if (error != std::errc() || dash == end || *dash != '-') return std::nullopt;
  auto [rest, wrong] = std::from_chars(dash + 1, end, token.counter);
  if (wrong != std::errc() || rest != end) return std::nullopt;
  return token;
}

std::string rows_text(const std::vector<AskedRow>& rows) {
  std::string text;
  for (const auto& row : rows) {
    if (!text.empty()) text += ' ';
    text.append(row.key).append("@").append(to_string(row.epoch));
  }
  return text;
}

Result<std::vector<AskedRow>> parse_rows_text(std::string_view text) {
  std::vector<AskedRow> rows;
  while (!text.empty()) {
    auto word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    auto at = word.rfind('@');
    auto epoch = at == word.npos ? std::nullopt : parse_epoch(word.substr(at + 1));
    if (!epoch) return fail(Errc::invalid, "\"rows\": {} is not KEY@EPOCH", word);
    rows.push_back({std::string(word.substr(0, at)), *epoch});
  }
  return rows;
}

std::uint32_t repo_id_of(std::string_view repo) {
  std::uint32_t hash = 2166136261u;  // FNV-1a
  for (unsigned char c : repo) hash = (hash ^ c) * 16777619u;
  return hash == 0 ? 1 : hash;
}

Result<SearchAsk> parse_ask(std::string_view text, std::size_t most) {
  if (text.size() > most)
    return fail(Errc::invalid, "the body has {} bytes: use at most {}", text.size(), most);
  auto value = parse_json(text);
  if (!value) return std::unexpected(value.error());
  std::string wrong;
  Members from(*value, wrong);
  SearchAsk ask;
  from.read_text("q", ask.query);
  if (from.limits("repos")) from.read("repos", ask.repos.emplace());
  if (from.limits("repo_ids")) from.read("repo_ids", ask.repo_ids.emplace());
  from.read("archived", ask.is_archived);
  from.read("fork", ask.is_fork);
  from.read("private", ask.is_private);
  from.read("client", ask.client);
  from.read("rows", ask.rows);
  from.read("limit", ask.files);
  from.read("lines", ask.lines_per_file);
  from.read("per_repo", ask.files_per_repo);
  from.read("matches", ask.matches);
  from.read("context", ask.context);
  from.read("line_bytes", ask.line_bytes);
  from.read("bytes", ask.answer_bytes);
  from.read("explain", ask.explains);
  from.read("collapse", ask.collapses);
  from.read("line_ends", ask.keeps_line_ends);
  from.read("cursor", ask.cursor);
  std::int64_t timeout = ask.timeout.count(), wait = 0;
  from.read("timeout_ms", timeout);
  from.read("wait_ms", wait);
  if (!wrong.empty())
    return fail(Errc::invalid, "\"{}\" is not what is expected there: see docs/fleet.md", wrong);
  if (ask.query.empty()) return fail(Errc::invalid, "\"q\" is missing: the query");
  within<std::int64_t>(timeout, 1, 60'000);
  within<std::int64_t>(wait, 0, 60'000);
  within<std::uint64_t>(ask.files, 1, 10'000);
  within(ask.context, 0, 50);
  within<std::uint64_t>(ask.line_bytes, 16, 1u << 20);
  within<std::uint64_t>(ask.answer_bytes, 64u << 10, 8u << 20);
  ask.timeout = std::chrono::milliseconds(timeout);
  ask.wait = std::chrono::milliseconds(wait);
  return ask;
}

std::string to_json(const SearchAsk& ask) {
  json::object object{{"limit", ask.files},
                      {"lines", ask.lines_per_file},
                      {"per_repo", ask.files_per_repo},
                      {"matches", ask.matches},
                      {"context", ask.context},
                      {"line_bytes", ask.line_bytes},
                      {"bytes", ask.answer_bytes},
                      {"explain", ask.explains},
                      {"collapse", ask.collapses},
                      {"line_ends", ask.keeps_line_ends},
                      {"cursor", ask.cursor},
                      {"timeout_ms", ask.timeout.count()},
                      {"wait_ms", ask.wait.count()}};
  search::put_text(object, "q", ask.query);
  if (ask.repos) object["repos"] = json::value_from(*ask.repos);
  if (ask.repo_ids) object["repo_ids"] = json::value_from(*ask.repo_ids);
  if (ask.is_archived) object["archived"] = *ask.is_archived;
  if (ask.is_fork) object["fork"] = *ask.is_fork;
  if (ask.is_private) object["private"] = *ask.is_private;
  if (!ask.client.empty()) object["client"] = ask.client;
  if (!ask.rows.empty()) object["rows"] = ask.rows;
  return json::serialize(object);
}

search::SearchTerms terms_of(const SearchAsk& ask, Clock::time_point now) {
  search::SearchTerms terms;
  terms.deadline = now + ask.timeout;
  terms.most_matches = ask.matches;
  terms.most_files = ask.files;
  terms.lines_per_file = ask.lines_per_file;
  if (ask.files_per_repo > 0) terms.most_files_per_repo = ask.files_per_repo;
  terms.context_lines = ask.context;
  terms.line_bytes = ask.line_bytes;
  terms.answer_bytes = ask.answer_bytes;
  terms.keeps_line_ends = ask.keeps_line_ends;
  terms.explains = ask.explains;
  terms.collapses = ask.collapses;
  terms.after = ask.cursor;
  if (ask.repos) terms.repos = search::RepoSet::of({ask.repos->begin(), ask.repos->end()});
  return terms;
}

namespace {

json::object object_of(const Part& part) {
  auto object = totals_of(part.answer);
  json::array files, depths;
  for (const auto& file : part.answer.files) files.push_back(exact_object_of(file));
  for (const auto& depth : part.answer.depths)
    depths.push_back(json::object{{"matches", depth.matches},
                                  {"files", depth.files},
                                  {"estimated", depth.estimated},
                                  {"cut", depth.is_cut},
                                  {"more", depth.has_more}});
  object["files"] = std::move(files);
  object["depths"] = std::move(depths);
  object["versions"] = part.answer.versions;
  object["incomplete"] = array_of(part.missing);
  return object;
}

Part read_part(const Members& from) {
  Part part;
  read_answer(from, part.answer);
  from.each("depths", [&](const json::value& item) {
    auto& depth = part.answer.depths.emplace_back();
    Members members(item, from.wrong());
    members.read("matches", depth.matches);
    members.read("files", depth.files);
    members.read("estimated", depth.estimated);
    members.read("cut", depth.is_cut);
    members.read("more", depth.has_more);
  });
  from.read("versions", part.answer.versions);
  read_missing(from, part.missing);
  return part;
}

std::string as_line(const char* type, json::object object) {
  object["type"] = type;
  return json::serialize(object) + '\n';
}

}  // namespace

std::string to_json(const Part& part) { return json::serialize(object_of(part)); }

Result<Part> parse_part(std::string_view text) {
  auto value = parse_json(text);
  if (!value) return std::unexpected(value.error());
  std::string wrong;
  auto part = read_part(Members(*value, wrong));
  if (!wrong.empty()) return fail(Errc::protocol, "the part of a node has a wrong \"{}\"", wrong);
  return part;
}

std::string found_line(const FileMatch& file) { return as_line("file", exact_object_of(file)); }
std::string part_line(const Part& part) { return as_line("part", object_of(part)); }

Result<NodeLine> parse_node_line(std::string_view text) {
  auto value = parse_json(text);
  if (!value) return std::unexpected(value.error());
  std::string wrong, type;
  Members from(*value, wrong);
  from.read("type", type);
  NodeLine line;
  if (type == "file")
    line.file = read_file(*value, wrong);
  else if (type == "part")
    line.part = read_part(from);
  else
    from.complain("type");
  if (!wrong.empty()) return fail(Errc::protocol, "the line of a node has a wrong \"{}\"", wrong);
  return line;
}

std::string missing_json(const std::vector<Missing>& missing) {
  return json::serialize(json::object{{"incomplete", array_of(missing)}});
}

Result<std::vector<Missing>> parse_missing(std::string_view text) {
  auto value = parse_json(text);
  if (!value) return std::unexpected(value.error());
  std::string wrong;
  std::vector<Missing> missing;
  read_missing(Members(*value, wrong), missing);
  if (!wrong.empty()) return fail(Errc::protocol, "what is missing has a wrong \"{}\"", wrong);
  return missing;
}

std::string answer_json(const Answer& answer, const std::vector<Missing>& missing,
                        std::chrono::nanoseconds took) {
  json::array files;
  for (const auto& file : answer.files) files.push_back(object_of(file));
  json::object object{{"files", std::move(files)}};
  for (auto& [name, value] : totals_of(answer)) object[name] = std::move(value);
  add_ending(object, answer, missing, took);
  return json::serialize(object);
}

std::string file_line(const FileMatch& file) {
  json::object object{{"type", "file"}};
  search::add_members(object, file);
  return json::serialize(object) + '\n';
}

std::string summary_line(const Answer& answer, const std::vector<Missing>& missing,
                         std::chrono::nanoseconds took, const std::vector<std::size_t>& page) {
  json::object object{{"type", "summary"}};
  for (auto& [name, value] : totals_of(answer)) object[name] = std::move(value);
  add_ending(object, answer, missing, took);
  object["page"] = json::value_from(page);
  return json::serialize(object) + '\n';
}

std::string error_line(const Error& error) {
  return json::serialize(json::object{
             {"type", "error"}, {"error", valid_utf8(error.what)}, {"code", name(error.code)}}) +
         '\n';
}

std::string error_json(const Error& error, const std::vector<Missing>& missing) {
  json::object object{{"error", valid_utf8(error.what)}, {"code", name(error.code)}};
  if (!missing.empty()) object["incomplete"] = array_of(missing);
  return json::serialize(object);
}

std::string parse_error(std::string_view text) {
  auto value = parse_json(text);
  std::string wrong, what;
  if (value) Members(*value, wrong).read("error", what);
  return what.empty() ? "it was refused without a reason" : what;
}

Result<Answer> parse_answer(std::string_view text, std::vector<Missing>& missing) {
  auto value = parse_json(text);
  if (!value) return std::unexpected(value.error());
  std::string wrong;
  Members from(*value, wrong);
  Answer answer;
  read_answer(from, answer);
  read_missing(from, missing);
  if (!wrong.empty()) return fail(Errc::protocol, "the answer has a wrong \"{}\"", wrong);
  return answer;
}

std::string rows_json(const std::vector<std::string>& keys) {
  return json::serialize(json::object{{"rows", json::value_from(keys)}});
}

Result<std::vector<std::string>> parse_rows(std::string_view text) {
  auto value = parse_json(text);
  if (!value) return std::unexpected(value.error());
  std::string wrong;
  std::vector<std::string> keys;
  Members(*value, wrong).read("rows", keys);
  if (!wrong.empty()) return fail(Errc::invalid, "\"{}\" is a list of keys", wrong);
  return keys;
}

}  // namespace warren::fleet
