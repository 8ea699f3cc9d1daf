#include "services/fleet/wire/files.h"

#include <algorithm>
#include <charconv>

#include "net/http/target.h"
#include "search/answer/match_json.h"
#include "services/fleet/wire/members.h"

namespace warren::fleet {

namespace {

// Parameters of a query. The first that is wrong is told.
class Parameters {
 public:
  explicit Parameters(std::string_view query) : query_(query) {}

  void read(const char* name, std::string& into) {
    auto values = query_values(query_, name);
    if (values.empty()) return;
    if (values.size() > 1 || !values[0])
      complain(name, "stands once, and is percent-encoded");
    else
      into = *std::move(values[0]);
  }
  void read(const char* name, std::uint64_t& into, std::uint64_t least, std::uint64_t most) {
    std::string text;
    read(name, text);
    if (text.empty()) return;
    if (auto number = number_of(text))
      into = std::clamp(*number, least, most);
    else
      complain(name, "is a number");
  }
  // 10-20, 10-, -20 or 10.
  void read_lines(std::uint64_t& first, std::uint64_t& last) {
    std::string text;
    read("lines", text);
    if (text.empty()) return;
    auto dash = text.find('-');
    auto begin = std::string_view(text).substr(0, dash);
    auto end = dash == std::string::npos ? begin : std::string_view(text).substr(dash + 1);
    auto one = begin.empty() ? std::optional<std::uint64_t>(1) : number_of(begin);
    auto other = end.empty() ? std::optional<std::uint64_t>(UINT64_MAX) : number_of(end);
    if (text == "-" || !one || !other || *one == 0 || *one > *other)
      return complain("lines", "is a line or a range such as 10-20, from 1");
    first = *one;
    last = *other;
  }
  void require(const char* name, const std::string& value) {
    if (value.empty()) complain(name, "is missing");
  }
  const std::string& wrong() const { return wrong_; }

 private:
  static std::optional<std::uint64_t> number_of(std::string_view text) {
    std::uint64_t number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return number;
  }
  void complain(const char* name, const char* what) {
    if (wrong_.empty()) wrong_ = fmt::format("\"{}\" {}", name, what);
  }

  std::string_view query_;
  std::string wrong_;
};

void add(std::string& query, const char* name, std::string_view value) {
  if (!query.empty()) query += '&';
  query += fmt::format("{}={}", name, percent_encoded(value));
}

}  // namespace

Result<FileAsk> parse_file_ask(std::string_view query) {
  Parameters from(query);
  FileAsk ask;
  from.read("repo", ask.repo);
  from.read("path", ask.path);
  from.read("commit", ask.commit);
  from.read("branch", ask.branch);
  from.read_lines(ask.first_line, ask.last_line);
  from.read("bytes", ask.most_bytes, 1, most_file_bytes);
  from.require("path", ask.path);
  if (!from.wrong().empty()) return fail(Errc::invalid, "{}", from.wrong());
  return ask;
}

std::string to_query(const FileAsk& ask) {
  std::string query;
  add(query, "path", ask.path);
  if (!ask.commit.empty()) add(query, "commit", ask.commit);
  if (!ask.branch.empty()) add(query, "branch", ask.branch);
  add(query, "lines", fmt::format("{}-{}", ask.first_line, ask.last_line));
  add(query, "bytes", std::to_string(ask.most_bytes));
  return query;
}

std::string to_json(const FileText& file) {
  json::object object;
  search::put_text(object, "repo", file.repo);
  search::put_text(object, "path", file.path);
  object["language"] = file.language;
  if (!file.blob.empty()) object["blob"] = file.blob;
  object["commit"] = file.commit;
  object["branch"] = file.branch;
  object["size"] = file.size;
  object["lines"] = file.lines;
  object["first_line"] = file.first_line;
  object["last_line"] = file.last_line;
  object["cut"] = file.is_cut;
  search::put_text(object, "text", file.text);
  return json::serialize(object);
}

Result<FileText> parse_file_text(std::string_view text) {
  auto value = parse_json(text);
  if (!value) return std::unexpected(value.error());
  std::string wrong;
  Members from(*value, wrong);
  FileText file;
  from.read_text("repo", file.repo);
  from.read_text("path", file.path);
  from.read("language", file.language);
  from.read("blob", file.blob);
  from.read("commit", file.commit);
  from.read("branch", file.branch);
  from.read("size", file.size);
  from.read("lines", file.lines);
  from.read("first_line", file.first_line);
  from.read("last_line", file.last_line);
  from.read("cut", file.is_cut);
  from.read_text("text", file.text);
  if (!wrong.empty()) return fail(Errc::protocol, "a file has a wrong \"{}\"", wrong);
  return file;
}

Result<SkippedAsk> parse_skipped_ask(std::string_view query) {
  Parameters from(query);
  SkippedAsk ask;
  from.read("repo", ask.repo);
  from.read("after", ask.after);
  from.read("limit", ask.limit, 1, 10'000);
  if (!from.wrong().empty()) return fail(Errc::invalid, "{}", from.wrong());
  return ask;
}

std::string to_query(const SkippedAsk& ask) {
  std::string query;
  add(query, "limit", std::to_string(ask.limit));
  if (!ask.after.empty()) add(query, "after", ask.after);
  return query;
}

std::string to_json(const SkippedPage& page) {
  json::array files;
  for (const auto& file : page.files) {
    json::object one;
    search::put_text(one, "path", file.path);
    search::put_text(one, "reason", file.reason);
    files.push_back(std::move(one));
  }
  json::object object{{"commit", page.commit}, {"total", page.total}};
  search::put_text(object, "repo", page.repo);
  object["skipped"] = std::move(files);
  search::put_text(object, "next", page.next);
  return json::serialize(object);
}

std::string to_query(const AskedRow& row) {
  std::string query;
  add(query, "key", row.key);
  add(query, "epoch", to_string(row.epoch));
  return query;
}

Result<AskedRow> parse_row(std::string_view query) {
  Parameters from(query);
  AskedRow row;
  std::string epoch;
  from.read("key", row.key);
  from.read("epoch", epoch);
  auto token = parse_epoch(epoch);
  if (!from.wrong().empty() || row.key.empty() || !token)
    return fail(Errc::invalid, "\"key\" and \"epoch\" name a row");
  row.epoch = *token;
  return row;
}

}  // namespace warren::fleet
