#include "search/query/search.h"

#include <algorithm>
#include <map>

#include "search/answer/cursor.h"
#include "search/answer/page.h"
#include "search/answer/show.h"
#include "search/query/finding.h"
#include "search/query/plan.h"

namespace warren::search {
namespace {

// With less to scan, a second thread costs more than it saves.
constexpr std::uint64_t least_blocks_for_threads = 512;
constexpr std::size_t cached_matchers = 32;

std::vector<FilePlace> places_of(const Paging& paging, std::span<const Hit> hits) {
  std::vector<FilePlace> places;
  for (const auto& hit : hits) {
    auto standing = paging.standing(hit);
    places.push_back({std::string(standing.repo), std::string(standing.path)});
  }
  return places;
}
std::size_t bytes_of(std::span<const FilePlace> places) {
  std::size_t bytes = 0;
  for (const auto& place : places) bytes += bytes_of(place);
  return bytes;
}

// The files on the pages of several depths, each once.
class DepthPages {
 public:
  DepthPages(const Paging& paging, Showing& showing, const SearchTerms& terms)
      : paging_(paging), showing_(showing), terms_(terms) {}

  // Returns true if the page exceeds the answer's limit of bytes.
  bool add(std::span<const Hit> page, std::size_t depth) {
    std::size_t left = terms_.answer_bytes;
    for (std::size_t begin = 0, end = 0; begin < page.size() && !showing_.is_over(); begin = end) {
      end = paging_.end_of_identical(page, begin);
      const auto& first = file_of(page[begin], true);
      auto bytes =
          bytes_of(first) + bytes_of(places_of(paging_, page.subspan(begin + 1, end - begin - 1)));
      for (auto i = begin; i < end; ++i)
        file_of(page[i], i == begin).depths |= std::uint64_t{1} << depth;
      // The first file that does not fit is sent as well, so that no worse file takes its place.
      if (begin > 0 && (first.is_cut || bytes > left)) return end < page.size();
      left -= std::min(left, bytes);
    }
    return false;
  }

  // Returns them with the best first.
  std::vector<FileMatch> take_files() {
    std::vector<Shown*> order;
    for (auto& [key, one] : shown_)
      if (one.match.depths != 0) order.push_back(&one);
    std::ranges::sort(order, [this](const Shown* a, const Shown* b) {
      return is_before(a->standing, b->standing, terms_.collapses);
    });
    std::vector<FileMatch> files;
    for (auto* one : order) files.push_back(std::move(one->match));
    return files;
  }

 private:
  using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>;
  struct Shown {
    FileMatch match = {};
    bool is_named = false, has_lines = false;
    Standing standing = {};
  };

  FileMatch& file_of(const Hit& hit, bool has_lines) {
    auto& one = shown_[{hit.segment, hit.file, hit.matches}];
    auto depths = one.match.depths;
    if (has_lines && !one.has_lines)
      one.match = showing_.show(hit, terms_.answer_bytes);
    else if (!one.is_named)
      one.match = showing_.name(hit);
    one.match.depths = depths;
    one.is_named = true;
    one.has_lines |= has_lines;
    one.standing = paging_.standing(hit);
    return one.match;
  }

  const Paging& paging_;
  Showing& showing_;
  const SearchTerms& terms_;
  std::map<Key, Shown> shown_;
};

}  // namespace

class Search::Run {
 public:
  Run(std::vector<std::shared_ptr<const Segment>> segments, const ParsedQuery& query,
      SearchTerms terms)
      : segments_(std::move(segments)),
        query_(query),
        terms_(std::move(terms)),
        watch_(earlier(terms_.deadline), terms_.cancelled) {
    if (!terms_.repos.is_all())
      std::erase_if(segments_, [this](const auto& segment) {
        return !terms_.repos.contains(segment->name());
      });
  }

  bool run(Clock::time_point until) {
    auto start = Clock::now();
    if (!is_planned_) {
      is_planned_ = true;
      planned_ = plan();
      if (!planned_) return true;
      answer_.stats.plan = Clock::now() - start;
      start = Clock::now();
    }
    bool is_found = finding_->run(until);
    auto found = Clock::now();
    answer_.stats.find += found - start;
    if (!is_found) return false;
    finish();
    answer_.stats.rank = Clock::now() - found;
    return true;
  }

  std::vector<FileMatch> take_found() {
    std::vector<FileMatch> files;
    if (!finding_ || query_.select == Select::repos) return files;
    auto hits = finding_->take_new();
    paging_->rank(hits);
    for (const auto& hit : hits) {
      if (early_files_ == terms_.most_files || early_bytes_ >= terms_.answer_bytes) break;
      if (showing_->is_over()) break;
      auto file = showing_->show(hit, terms_.answer_bytes - early_bytes_);
      if (file.is_cut && early_files_ > 0) break;
      early_bytes_ += bytes_of(file);
      ++early_files_;
      files.push_back(std::move(file));
    }
    return files;
  }

  Result<Answer> answer() {
    if (!planned_) return std::unexpected(planned_.error());
    return std::move(answer_);
  }

 private:
  // Reserves some of the time for showing the results.
  static Clock::time_point earlier(Clock::time_point deadline) {
    if (deadline == Clock::time_point::max()) return deadline;
    auto rest = deadline - Clock::now();
    if (rest <= Clock::duration::zero()) return deadline;
    return deadline - std::min<Clock::duration>(rest / 5, std::chrono::milliseconds(5));
  }

  Result<> plan() {
    // Compiled patterns do not depend on the client, and clients cannot tell whether one was
    // cached.
    static MatcherCache cache(cached_matchers);
    auto plan = plan_query(query_, cache);
    if (!plan) return std::unexpected(plan.error());
    plan_ = std::move(*plan);
    std::optional<Cursor> after;
    count_versions();
    if (!terms_.after.empty()) {
      auto cursor = parse_cursor(terms_.after, hash_of(query_, terms_));
      if (!cursor) return std::unexpected(cursor.error());
      // A part cannot check this; merge_answers() does.
      auto same = terms_.allows_changes || terms_.is_part
                      ? Result<>(ok)
                      : check_versions(*cursor, answer_.versions);
      if (!same) return same;
      after = std::move(*cursor);
    }
    plan_segments();
    int threads =
        answer_.stats.candidate_blocks < least_blocks_for_threads ? 1 : std::max(1, terms_.threads);
    finding_.emplace(plan_, fits_, query_.count.value_or(terms_.most_matches), threads, watch_);
    paging_.emplace(fits_, terms_, query_.select, std::move(after));
    showing_.emplace(plan_, fits_, terms_, query_.select);
    return ok;
  }

  void count_versions() {
    for (std::size_t i = 0; i < segments_.size(); ++i)
      if (i == 0 || segments_[i]->name() != segments_[i - 1]->name())
        answer_.versions += segments_[i]->identity();
  }

  void plan_segments() {
    std::size_t bytes = 0;  // to be scanned
    fits_.reserve(segments_.size());
    for (const auto& segment : segments_) {
      if (watch_.is_over()) break;  // the remaining segments have no plan, and no chunks
      fits_.push_back(plan_segment(plan_, segment, watch_));
      answer_.stats.blocks += segment->block_count();
      answer_.stats.candidate_blocks += fits_.back().candidate_blocks;
      answer_.stats.keys += fits_.back().keys;
      std::size_t block_bytes =
          segment->is_warm() ? 4096
                             : segment->arena().size() / std::max(1u, segment->block_count());
      bytes += fits_.back().candidate_blocks * block_bytes;
      lacks_symbols_ |= fits_.back().lacks_symbols;
    }
    for (const auto& atom : plan_.atoms)
      if (atom.looks_at_content()) atom.matcher->expect(bytes);
  }

  void finish() {
    auto harvest = finding_->harvest();
    answer_.stats.checked_bytes = finding_->checked_bytes();
    const auto totals = harvest.depths[static_cast<std::size_t>(harvest.last)];
    answer_.match_count = totals.matches;
    answer_.file_count = totals.files;
    answer_.estimated_matches = totals.estimated;
    leave_open(watch_.why());
    if (totals.is_cut) leave_open("matches");
    if (lacks_symbols_) leave_open("symbols");
    harvest.depths.resize(static_cast<std::size_t>(harvest.last) + 1);
    if (terms_.is_part) {
      answer_.depths = std::move(harvest.depths);
      show_depths(paging_->pages(std::move(harvest.hits), answer_.depths));
    } else {
      for (auto& hit : harvest.hits) hit.depth = 0;
      auto depth = totals;
      auto pages = paging_->pages(std::move(harvest.hits), {&depth, 1});
      show_page(pages[0], depth.has_more);
    }
    leave_open(showing_->why());
  }

  void leave_open(Stop why) {
    if (why == Stop::time) leave_open("time");
    if (why == Stop::cancelled) leave_open("cancelled");
  }
  void leave_open(std::string_view why) {
    answer_.is_complete = false;
    if (answer_.why_incomplete.empty()) answer_.why_incomplete = why;
  }

  // Until the bytes are used up. The next page begins with the first file that did not fit.
  void show_page(std::span<const Hit> page, bool has_more) {
    std::size_t left = terms_.answer_bytes, shown = 0;
    while (shown < page.size() && !showing_->is_over()) {
      auto end = paging_->end_of_identical(page, shown);
      auto same = places_of(*paging_, page.subspan(shown + 1, end - shown - 1));
      auto more = bytes_of(same);
      bool is_first = shown == 0;
      auto match = showing_->show(page[shown], is_first ? left : left - std::min(left, more));
      bool fits = !match.is_cut && bytes_of(match) + more <= left;
      if (showing_->why() == Stop::none && !fits) leave_open("bytes");
      if (!fits && !is_first) break;
      match.same = std::move(same);
      left -= std::min(left, bytes_of(match));
      answer_.files.push_back(std::move(match));
      shown = end;
    }
    if (shown == 0 || (!has_more && shown == page.size())) return;
    auto last = showing_->name(page[shown - 1]);
    answer_.next = to_string(Cursor{.asked = hash_of(query_, terms_),
                                    .versions = answer_.versions,
                                    .score = last.score,
                                    .repo = last.repo,
                                    .path = last.path,
                                    .blob = last.blob});
  }

  // Every file that is on the page of some depth, because only merge_answers() knows the final
  // depth. The deepest first, because it is the likeliest, in case time runs out.
  void show_depths(const std::vector<std::vector<Hit>>& pages) {
    DepthPages shown(*paging_, *showing_, terms_);
    for (std::size_t depth = pages.size(); depth-- > 0 && !showing_->is_over();)
      answer_.depths[depth].has_more |= shown.add(pages[depth], depth);
    answer_.files = shown.take_files();
  }

  std::vector<std::shared_ptr<const Segment>> segments_;
  const ParsedQuery& query_;
  SearchTerms terms_;
  Watch watch_;
  Plan plan_;
  std::vector<SegmentPlan> fits_;
  std::optional<Finding> finding_;
  std::optional<Paging> paging_;
  std::optional<Showing> showing_;
  std::size_t early_files_ = 0, early_bytes_ = 0;
  bool lacks_symbols_ = false, is_planned_ = false;
  Result<> planned_ = ok;
  Answer answer_;
};

Search::Search(std::vector<std::shared_ptr<const Segment>> segments, const ParsedQuery& query,
               SearchTerms terms)
    : run_(std::make_unique<Run>(std::move(segments), query, std::move(terms))) {}
Search::~Search() = default;

bool Search::run(Clock::time_point until) { return run_->run(until); }
std::vector<FileMatch> Search::take_found() { return run_->take_found(); }
Result<Answer> Search::answer() { return run_->answer(); }

Result<Answer> search(std::span<const std::shared_ptr<const Segment>> segments,
                      const ParsedQuery& query, const SearchTerms& terms) {
  Search search({segments.begin(), segments.end()}, query, terms);
  search.run(Clock::time_point::max());
  return search.answer();
}

}  // namespace warren::search
