#include "search/answer/page.h"

#include <algorithm>

#include "search/source/blob_id.h"

namespace warren::search {

Paging::Paging(std::span<const SegmentPlan> fits, const SearchTerms& terms, Select select,
               std::optional<Cursor> after)
    : fits_(fits),
      terms_(terms),
      select_(select),
      after_(std::move(after)),
      after_blob_(after_ ? raw_id(after_->blob) : "") {}

Standing Paging::standing(const Hit& hit) const {
  const auto& segment = *fits_[hit.segment].segment;
  if (select_ == Select::repos) return {hit.score, segment.name(), {}, {}};
  auto file = segment.file(hit.file);
  // A file without an id has zeros in its place when other files have one.
  bool has_blob = file.blob.find_first_not_of('\0') != file.blob.npos;
  return {hit.score, segment.name(), file.path, has_blob ? file.blob : std::string_view()};
}

bool Paging::is_before(const Hit& a, const Hit& b) const {
  if (a.score != b.score) return a.score > b.score;
  auto first = standing(a), second = standing(b);
  if (search::is_before(first, second, terms_.collapses)) return true;
  if (search::is_before(second, first, terms_.collapses)) return false;
  return std::tie(a.segment, a.file) < std::tie(b.segment, b.file);
}

void Paging::drop_pages_before(std::vector<Hit>& hits) const {
  if (!after_) return;
  Standing last{after_->score, after_->repo, after_->path, after_blob_};
  std::erase_if(hits, [&](const Hit& hit) {
    return !search::is_before(last, standing(hit), terms_.collapses);
  });
}

void Paging::rank(std::vector<Hit>& hits) const {
  drop_pages_before(hits);
  std::ranges::sort(hits, [this](const Hit& a, const Hit& b) { return is_before(a, b); });
}

std::size_t Paging::end_of_identical(std::span<const Hit> page, std::size_t begin) const {
  auto end = begin + 1;
  if (!terms_.collapses) return end;
  while (end < page.size() && are_identical(standing(page[begin]), standing(page[end]))) ++end;
  return end;
}

// The best hit of each repository, with the matches of all its hits.
std::vector<Hit> Paging::one_for_each_repository(std::span<const Hit> hits, int depth) const {
  std::vector<Hit> repos;
  for (const auto& hit : hits) {
    if (hit.depth > depth) continue;
    bool is_same = !repos.empty() && fits_[repos.back().segment].segment->name() ==
                                         fits_[hit.segment].segment->name();
    if (!is_same) {
      repos.push_back(hit);
      continue;
    }
    auto matches = repos.back().matches + hit.matches;
    if (hit.score > repos.back().score) repos.back() = hit;
    repos.back().matches = matches;
  }
  return repos;
}

void Paging::keep_best_of_each_repository(std::vector<Hit>& hits) const {
  auto name = [this](const Hit& hit) -> const std::string& {
    return fits_[hit.segment].segment->name();
  };
  auto before = [this](const Hit& a, const Hit& b) { return is_before(a, b); };
  // The segments of a repository are adjacent. The order of its files does not matter here.
  std::ranges::sort(hits, {}, [](const Hit& hit) { return hit.segment; });
  std::vector<Hit> kept;
  for (auto begin = hits.begin(), end = begin; begin != hits.end(); begin = end) {
    end =
        std::find_if(begin, hits.end(), [&](const Hit& hit) { return name(hit) != name(*begin); });
    auto count = std::min(static_cast<std::size_t>(end - begin), terms_.most_files_per_repo);
    auto last = begin + static_cast<std::ptrdiff_t>(count);
    std::nth_element(begin, last, end, before);
    kept.insert(kept.end(), begin, last);
  }
  hits = std::move(kept);
}

std::vector<Hit> Paging::first_of(std::vector<Hit> hits) const {
  auto before = [this](const Hit& a, const Hit& b) { return is_before(a, b); };
  std::size_t count = std::min(hits.size(), terms_.most_files);
  if (terms_.collapses) {
    std::ranges::sort(hits, before);
    std::size_t end = 0;
    for (std::size_t files = 0; files < terms_.most_files && end < hits.size(); ++files)
      end = end_of_identical(hits, end);
    count = end;
  } else {
    std::ranges::partial_sort(hits, hits.begin() + static_cast<std::ptrdiff_t>(count), before);
  }
  hits.resize(count);
  return hits;
}

std::vector<std::vector<Hit>> Paging::pages(std::vector<Hit> hits,
                                            std::span<DepthTotals> depths) const {
  std::vector<std::vector<Hit>> pages;
  const bool has_share = terms_.most_files_per_repo != SIZE_MAX;
  if (!has_share && select_ != Select::repos) drop_pages_before(hits);
  std::vector<Hit> kept;  // candidates for this page or a deeper one
  for (int depth = 0; depth < static_cast<int>(depths.size()); ++depth) {
    if (select_ == Select::repos) {
      kept = one_for_each_repository(hits, depth);
    } else {
      auto is_new = [depth](const Hit& hit) { return hit.depth == depth; };
      std::ranges::copy_if(hits, std::back_inserter(kept), is_new);
      if (has_share) keep_best_of_each_repository(kept);
    }
    auto rest = kept;
    if (has_share || select_ == Select::repos) drop_pages_before(rest);
    auto count = rest.size();
    pages.push_back(first_of(std::move(rest)));
    auto& more = depths[static_cast<std::size_t>(depth)].has_more;
    more = count > pages.back().size();
    if (has_share || select_ == Select::repos) continue;
    // Files that better ones push off this page are pushed off every deeper page too.
    more = more || (depth > 0 && depths[static_cast<std::size_t>(depth) - 1].has_more);
    kept = pages.back();
  }
  return pages;
}

}  // namespace warren::search
