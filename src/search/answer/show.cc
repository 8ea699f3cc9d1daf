#include "search/answer/show.h"

#include "search/answer/lines.h"
#include "search/source/blob_id.h"

namespace warren::search {

std::size_t bytes_of(const FilePlace& place) { return place.repo.size() + place.path.size() + 32; }

std::size_t bytes_of(const FileMatch& match) {
  std::size_t bytes = match.repo.size() + match.path.size() + 100;
  for (const auto& line : match.lines) bytes += bytes_of(line);
  for (const auto& place : match.same) bytes += bytes_of(place);
  return bytes;
}

Showing::Showing(const Plan& plan, std::span<const SegmentPlan> fits, const SearchTerms& terms,
                 Select select)
    : plan_(plan),
      fits_(fits),
      terms_(terms),
      select_(select),
      watch_(terms.deadline, terms.cancelled),
      searches_(fits.size()) {}

FileMatch Showing::name(const Hit& hit) const {
  const auto& segment = *fits_[hit.segment].segment;
  FileMatch match{.repo = segment.name(), .match_count = hit.matches, .score = hit.score};
  if (select_ == Select::repos) return match;
  auto file = segment.file(hit.file);
  match.path = file.path;
  match.language = file.language;
  if (file.blob.find_first_not_of('\0') != file.blob.npos) match.blob = hex_id(file.blob);
  for (std::size_t i = 0; i < segment.branches().size(); ++i)
    if (segment.is_on_branch(hit.file, static_cast<std::uint16_t>(i)))
      match.branches.push_back(segment.branches()[i]);
  return match;
}

FileMatch Showing::show(const Hit& hit, std::size_t bytes) {
  auto match = name(hit);
  if (select_ == Select::repos) return match;
  auto head = bytes_of(match);
  match.is_cut = !look_again(hit, match, bytes > head ? bytes - head : 0);
  return match;
}

bool Showing::look_again(const Hit& hit, FileMatch& match, std::size_t bytes) {
  auto& search = searches_[hit.segment];
  if (!search) search.emplace(plan_, fits_[hit.segment], watch_);
  for (const auto& span : search->path_spans(match.path))
    match.path_ranges.push_back({span.begin, span.end});
  bool has_lines = select_ != Select::files && select_ != Select::paths;
  if (!has_lines && !terms_.explains) return true;
  Hit again;
  if (!search->look(hit.file, again)) return false;
  if (terms_.explains) search->explain(hit.file, hit, match.explanation);
  if (!has_lines) return true;
  const auto& segment = *fits_[hit.segment].segment;
  auto spans = search->content_spans();
  if (terms_.counts_lines) {
    if (!spans.empty()) match.line_count = touched_lines(segment.text(hit.file), spans);
    return true;
  }
  return add_lines(segment, hit.file, spans, terms_, bytes, match.lines);
}

}  // namespace warren::search
