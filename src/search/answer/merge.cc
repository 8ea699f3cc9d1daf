// Combines the answers of parts. Each part has counted its matches at every depth, and lists the
// files that are on its page at any depth. The sums determine the depth at which the whole ends.
#include <algorithm>

#include "search/answer/cursor.h"
#include "search/answer/show.h"
#include "search/query/depth.h"
#include "search/query/search.h"

namespace warren::search {
namespace {

Standing standing(const FileMatch& file) { return {file.score, file.repo, file.path, file.blob}; }

class Merging {
 public:
  Merging(std::vector<Answer> parts, const ParsedQuery& query, const SearchTerms& terms)
      : parts_(std::move(parts)),
        query_(query),
        terms_(terms),
        depths_(query.count.value_or(terms.most_matches)) {}

  Result<Answer> run() {
    for (const auto& part : parts_) {
      whole_.versions += part.versions;
      add_stats(part.stats);
    }
    if (auto fits = check_cursor(); !fits) return std::unexpected(fits.error());
    auto totals = find_depth();
    whole_.match_count = totals.matches;
    whole_.file_count = totals.files;
    whole_.estimated_matches = totals.estimated;
    for (auto why : {"time", "cancelled"}) leave_open_if_a_part(why);
    if (totals.is_cut) leave_open("matches");
    leave_open_if_a_part("symbols");
    show(take_files(), totals.has_more);
    return std::move(whole_);
  }

 private:
  void add_stats(const SearchStats& part) {
    auto& stats = whole_.stats;
    stats.blocks += part.blocks;
    stats.candidate_blocks += part.candidate_blocks;
    stats.checked_bytes += part.checked_bytes;
    stats.keys += part.keys;
    stats.plan = std::max(stats.plan, part.plan);
    stats.find = std::max(stats.find, part.find);
    stats.rank = std::max(stats.rank, part.rank);
  }

  Result<> check_cursor() const {
    if (terms_.after.empty()) return ok;
    auto cursor = parse_cursor(terms_.after, hash_of(query_, terms_));
    if (!cursor) return std::unexpected(cursor.error());
    return terms_.allows_changes ? Result<>(ok) : check_versions(*cursor, whole_.versions);
  }

  DepthTotals totals_at(int depth) const {
    DepthTotals totals;
    for (const auto& part : parts_) {
      if (part.depths.empty()) continue;
      auto place = std::min(static_cast<std::size_t>(depth), part.depths.size() - 1);
      const auto& mine = part.depths[place];
      totals.matches += mine.matches;
      totals.files += mine.files;
      totals.estimated += mine.estimated;
      totals.is_cut |= mine.is_cut;
      totals.has_more |= mine.has_more;
    }
    return totals;
  }

  // The first depth with enough matches. No part ended before it.
  DepthTotals find_depth() {
    auto totals = totals_at(depth_);
    for (; depth_ + 1 < depths_.count() && totals.matches < depths_.most();)
      totals = totals_at(++depth_);
    return totals;
  }

  std::vector<FileMatch> take_files() {
    std::vector<FileMatch> files;
    for (auto& part : parts_) {
      auto last = std::max<std::size_t>(part.depths.size(), 1) - 1;
      auto bit = std::uint64_t{1} << std::min(static_cast<std::size_t>(depth_), last);
      for (auto& file : part.files)
        if ((file.depths & bit) != 0) files.push_back(std::move(file));
    }
    std::ranges::sort(files, [this](const FileMatch& a, const FileMatch& b) {
      return is_before(standing(a), standing(b), terms_.collapses);
    });
    return files;
  }

  void show(std::vector<FileMatch> files, bool has_more) {
    std::size_t left = terms_.answer_bytes, shown = 0;
    while (shown < files.size() && whole_.files.size() < terms_.most_files) {
      auto& match = files[shown];
      auto end = shown + 1;
      for (; terms_.collapses && end < files.size() &&
             are_identical(standing(match), standing(files[end]));
           ++end)
        match.same.push_back({files[end].repo, files[end].path});
      bool is_first = shown == 0, fits = !match.is_cut && bytes_of(match) <= left;
      if (!fits) leave_open("bytes");
      if (!fits && !is_first) break;
      left -= std::min(left, bytes_of(match));
      match.depths = 0;
      whole_.files.push_back(match);
      shown = end;
    }
    if (shown > 0 && (has_more || shown < files.size())) {
      const auto& last = files[shown - 1];
      whole_.next = to_string(Cursor{.asked = hash_of(query_, terms_),
                                     .versions = whole_.versions,
                                     .score = last.score,
                                     .repo = last.repo,
                                     .path = last.path,
                                     .blob = last.blob});
    }
  }

  void leave_open_if_a_part(std::string_view why) {
    if (std::ranges::any_of(parts_, [&](const Answer& part) { return part.why_incomplete == why; }))
      leave_open(why);
  }
  void leave_open(std::string_view why) {
    whole_.is_complete = false;
    if (whole_.why_incomplete.empty()) whole_.why_incomplete = why;
  }

  std::vector<Answer> parts_;
  const ParsedQuery& query_;
  const SearchTerms& terms_;
  Depths depths_;
  int depth_ = 0;
  Answer whole_;
};

}  // namespace

Result<Answer> merge_answers(std::vector<Answer> parts, const ParsedQuery& query,
                             const SearchTerms& terms) {
  return Merging(std::move(parts), query, terms).run();
}

}  // namespace warren::search
