// Single files of a repository in memory: their text, and those that were left out of it.
#include "services/fleet/wire/files.h"

#include <algorithm>

#include "net/http/target.h"
#include "search/source/blob_id.h"
#include "services/fleet/node/node.h"
#include "services/fleet/node/on_lanes.h"

namespace warren::fleet {

namespace {

constexpr std::size_t least_commit_digits = 7;

// A repository as it was when it was asked for; a new commit meanwhile changes nothing.
struct Shown {
  std::string repo;
  search::SegmentListPtr segments;
  std::vector<std::string> commits;  // of the branches, in their order
};

Shown shown_of(const std::string& key, const Held& held) {
  Shown shown{std::string(parse_row_key(key)->repo), held.segments, {}};
  for (const auto& [ref, commit] : held.commits) shown.commits.push_back(commit);
  return shown;
}

std::string all_of(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) (text += text.empty() ? "" : " ") += word;
  return text;
}

// The place of the branch that is asked for; none: any will do.
Result<std::optional<std::uint16_t>> branch_of(const Shown& shown, const FileAsk& ask) {
  std::optional<std::uint16_t> place;
  const auto& branches = shown.segments->front()->branches();
  if (!ask.branch.empty()) {
    auto found = std::ranges::find(branches, ask.branch);
    if (found == branches.end())
      return fail(Errc::not_found, "branch {} is not in memory: {} are", ask.branch,
                  all_of(branches));
    place = static_cast<std::uint16_t>(found - branches.begin());
  }
  if (ask.commit.empty()) return place;
  if (ask.commit.size() < least_commit_digits)
    return fail(Errc::invalid, "\"commit\" has at least {} digits", least_commit_digits);
  auto is_asked = [&](const std::string& commit) { return commit.starts_with(ask.commit); };
  auto found = std::ranges::find_if(shown.commits, is_asked);
  if (place && *place < shown.commits.size() && is_asked(shown.commits[*place])) return place;
  if (place || found == shown.commits.end())
    return fail(Errc::not_found, "commit {} is not in memory: {} is", ask.commit,
                all_of(shown.commits));
  return static_cast<std::uint16_t>(found - shown.commits.begin());
}

struct FoundFile {
  const search::Segment* segment = nullptr;  // null: none
  std::uint32_t file = 0;
  std::uint16_t branch = 0;
};

FoundFile find_file(const Shown& shown, const std::string& path,
                    std::optional<std::uint16_t> wanted) {
  FoundFile best;
  for (const auto& segment : *shown.segments) {
    auto branches = static_cast<std::uint16_t>(segment->branches().size());
    for (std::uint32_t file = 0; file < segment->file_count(); ++file) {
      if (segment->is_dead(file) || segment->file(file).path != path) continue;
      for (std::uint16_t branch = 0; branch < branches; ++branch) {
        if (!segment->is_on_branch(file, branch) || (wanted && branch != *wanted)) continue;
        if (!best.segment || branch < best.branch) best = {segment.get(), file, branch};
        break;
      }
    }
  }
  return best;
}

// Of the lines that were asked for, as many as there is room for; of a line that is longer than all of
// the room, its begin.
void cut_lines(std::string_view whole, const FileAsk& ask, FileText& into) {
  into.size = whole.size();
  into.lines = static_cast<std::uint64_t>(std::ranges::count(whole, '\n'));
  if (!whole.empty() && whole.back() != '\n') ++into.lines;
  into.first_line = ask.first_line;
  into.last_line = ask.first_line - 1;
  std::size_t at = 0;
  for (std::uint64_t line = 1; at < whole.size() && line <= ask.last_line; ++line) {
    auto end = std::min(whole.find('\n', at), whole.size() - 1) + 1;
    auto text = whole.substr(at, end - at);
    at = end;
    if (line < ask.first_line) continue;
    auto room = ask.most_bytes - into.text.size();
    if (text.size() > room) {
      into.is_cut = true;
      if (!into.text.empty()) return;
      text = text.substr(0, room);
    }
    into.text += text;
    into.last_line = line;
    if (into.is_cut) return;
  }
}

Result<FileText> text_of(const Shown& shown, const FileAsk& ask) {
  auto branch = branch_of(shown, ask);
  if (!branch) return std::unexpected(branch.error());
  auto found = find_file(shown, ask.path, *branch);
  if (!found.segment) {
    for (const auto& segment : *shown.segments)
      for (const auto& skipped : segment->skipped())
        if (skipped.path == ask.path)
          return fail(Errc::not_found, "{} was left out: {}", ask.path, skipped.reason);
    return fail(Errc::not_found, "{} has no file {}", shown.repo, ask.path);
  }
  auto view = found.segment->file(found.file);
  FileText file{.repo = shown.repo, .path = ask.path};
  file.language = view.language;
  if (view.blob.find_first_not_of('\0') != view.blob.npos) file.blob = search::hex_id(view.blob);
  file.branch = found.segment->branches()[found.branch];
  if (found.branch < shown.commits.size()) file.commit = shown.commits[found.branch];
  cut_lines(found.segment->text(found.file), ask, file);
  return file;
}

SkippedPage skipped_of(const Shown& shown, const SkippedAsk& ask) {
  SkippedPage page{.repo = shown.repo};
  page.commit = all_of(shown.commits);
  for (const auto& segment : *shown.segments) {
    page.total += segment->skipped().size();
    for (const auto& file : segment->skipped())
      if (ask.after.empty() || file.path > ask.after) page.files.push_back(file);
  }
  auto count = std::min<std::size_t>(page.files.size(), ask.limit);
  auto end = page.files.begin() + static_cast<std::ptrdiff_t>(count);
  std::ranges::partial_sort(page.files, end, {}, &search::Skipped::path);
  if (count < page.files.size()) page.next = page.files[count - 1].path;
  page.files.resize(count);
  return page;
}

// What is asked for, as a function that gives the answer's body.
using Look = std::function<Result<std::string>(const Shown&)>;

Result<Look> look_of(const HttpRequest& request) {
  if (request.path == "/v1/file") {
    auto ask = parse_file_ask(request.query);
    if (!ask) return std::unexpected(ask.error());
    return Look([ask = *std::move(ask)](const Shown& shown) -> Result<std::string> {
      auto file = text_of(shown, ask);
      if (!file) return std::unexpected(file.error());
      return to_json(*file);
    });
  }
  auto ask = parse_skipped_ask(request.query);
  if (!ask) return std::unexpected(ask.error());
  return Look([ask = *std::move(ask)](const Shown& shown) -> Result<std::string> {
    return to_json(skipped_of(shown, ask));
  });
}

}  // namespace

// The row, then a look on the lanes, then the lease once more.
awaitable<void> FleetNode::look_into(const HttpRequest& request, HttpAnswer& answer) {
  auto put_moved = [](HttpAnswer& into) {
    into.status = 421;
    into.body = error_json({Errc::held_elsewhere, "the row is not served here under that epoch"});
  };
  auto row = parse_row(request.query);
  if (!row) co_return put_error(answer, row.error());
  auto look = look_of(request);
  if (!look) co_return put_error(answer, look.error());
  const auto* held = held_as(*row);
  if (!held) co_return put_moved(answer);
  shelf_.on_served(Clock::now(), std::string(parse_row_key(row->key)->repo));
  std::function<Result<std::string>()> work = [shown = shown_of(row->key, *held),
                                               what = *std::move(look)] { return what(shown); };
  auto client = query_value(request.query, "client").value_or("");
  auto result = co_await on_lanes(lanes_, std::move(client), std::move(work));
  if (!held_as(*row)) co_return put_moved(answer);
  if (!result) co_return put_error(answer, result.error());
  answer.body = *std::move(result);
}

}  // namespace warren::fleet
