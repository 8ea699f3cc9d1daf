#include "search/query/search.h"

#include <algorithm>
#include <mutex>

#include "search/parallel.h"
#include "search/query/cursor.h"
#include "search/query/evaluate.h"
#include "search/query/lines.h"
#include "search/query/plan.h"

namespace warren::search {
namespace {

constexpr std::uint32_t chunk_files = 32;
// With less to look at a second thread costs more than it brings.
constexpr std::uint64_t least_blocks_for_threads = 512;
constexpr std::size_t cached_matchers = 32;
constexpr std::uint64_t bytes_per_clock = 256 << 10;

// A piece of work, in the order in which results are worth having.
struct Chunk {
  std::uint32_t segment = 0;
  bool is_first = false;  // of SegmentPlan::first
  std::uint32_t begin = 0, end = 0, next = begin;
  bool is_done = false;
  std::vector<Hit> hits = {};
};

}  // namespace

class Search::Run {
 public:
  Run(std::vector<std::shared_ptr<const Segment>> segments, const ParsedQuery& query,
      SearchTerms terms)
      : segments_(std::move(segments)),
        query_(query),
        terms_(std::move(terms)),
        most_matches_(query.count.value_or(terms_.most_matches)),
        watch_(earlier(terms_.deadline), terms_.cancelled) {}

  bool run(Clock::time_point until) {
    auto start = Clock::now();
    if (!is_planned_) {
      is_planned_ = true;
      planned_ = plan();
      if (!planned_) return true;
      make_chunks();
      answer_.stats.plan = Clock::now() - start;
      start = Clock::now();
    }
    find(until);
    bool is_found = is_enough() || (next_chunk_ == chunks_.size() && open_.empty());
    if (is_found) settle();
    auto found = Clock::now();
    answer_.stats.find += found - start;
    if (!is_found) return false;
    show();
    answer_.stats.rank = Clock::now() - found;
    return true;
  }

  Result<Answer> answer() {
    if (!planned_) return std::unexpected(planned_.error());
    return std::move(answer_);
  }

 private:
  // Some of the time is for showing what was found.
  static Clock::time_point earlier(Clock::time_point deadline) {
    if (deadline == Clock::time_point::max()) return deadline;
    auto rest = deadline - Clock::now();
    if (rest <= Clock::duration::zero()) return deadline;
    return deadline - std::min<Clock::duration>(rest / 5, std::chrono::milliseconds(5));
  }

  Result<> plan() {
    // What was compiled is the same for everybody; nobody sees whether it was there before.
    static MatcherCache cache(cached_matchers);
    auto plan = plan_query(query_, cache);
    if (!plan) return std::unexpected(plan.error());
    plan_ = std::move(*plan);
    asked_ = hash_of(to_string(*query_.root), static_cast<std::uint64_t>(query_.select));
    if (!query_.below.empty()) asked_ = hash_of(query_.below, asked_);
    for (const auto& segment : segments_) {
      asked_ = hash_of(segment->name(), asked_);
      asked_ = hash_of(segment->version(), asked_);
    }
    if (!terms_.after.empty()) {
      auto cursor = parse_cursor(terms_.after, asked_);
      if (!cursor) return std::unexpected(cursor.error());
      after_ = *cursor;
    }
    std::size_t bytes = 0;  // that will be looked at
    for (const auto& segment : segments_) {
      if (watch_.is_over()) break;  // the others have no plan, and no chunks
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
    return ok;
  }

  void make_chunks() {
    auto add = [&](std::uint32_t segment, bool is_first, std::uint32_t count) {
      for (std::uint32_t at = 0; at < count; at += chunk_files)
        chunks_.push_back({segment, is_first, at, std::min(at + chunk_files, count)});
    };
    for (std::uint32_t i = 0; i < fits_.size(); ++i)
      add(i, true, static_cast<std::uint32_t>(fits_[i].first.size()));
    for (std::uint32_t i = 0; i < fits_.size(); ++i)
      if (fits_[i].root.kind != PlanNode::Kind::no) add(i, false, fits_[i].count());
  }

  void find(Clock::time_point until) {
    int threads =
        answer_.stats.candidate_blocks < least_blocks_for_threads ? 1 : std::max(1, terms_.threads);
    if (threads == 1) return work(until);
    auto done = in_parallel(threads, [this, until](int) -> Result<> {
      work(until);
      return ok;
    });
    // Without memory for another thread what was found is still true, and the rest is left open.
    if (!done) watch_.stop(Stop::time);
  }

  bool is_enough() const {
    return watch_.why() != Stop::none || (most_matches_ != 0 && matches_ >= most_matches_);
  }

  void work(Clock::time_point until) {
    std::optional<FileSearch> search;
    std::uint32_t segment = UINT32_MAX;
    std::uint64_t bytes = 0;
    // One file at least, however short the slice.
    for (bool is_over = false; !is_enough() && !is_over;) {
      auto place = next_chunk();
      if (!place) break;
      auto& chunk = chunks_[*place];
      if (chunk.segment != segment) {
        if (search) bytes += search->checked_bytes();
        segment = chunk.segment;
        search.emplace(plan_, fits_[segment], watch_, true);
      }
      look(*search, chunk, until);
      is_over = Clock::now() >= until;
      if (chunk.next == chunk.end) continue;
      std::lock_guard lock(mutex_);
      open_.push_back(*place);
    }
    if (search) bytes += search->checked_bytes();
    checked_bytes_ += bytes;
  }

  std::optional<std::size_t> next_chunk() {
    std::lock_guard lock(mutex_);
    if (!open_.empty()) {
      auto place = open_.back();
      open_.pop_back();
      return place;
    }
    if (next_chunk_ == chunks_.size()) return std::nullopt;
    return next_chunk_++;
  }

  void look(FileSearch& search, Chunk& chunk, Clock::time_point until) {
    const auto& fit = fits_[chunk.segment];
    std::uint64_t matches = 0, checked = search.checked_bytes();
    Hit hit{.segment = chunk.segment};
    while (chunk.next < chunk.end) {
      std::uint32_t file = chunk.is_first ? fit.first[chunk.next] : fit.file_at(chunk.next);
      ++chunk.next;
      if (!chunk.is_first && !fit.first.empty() && std::ranges::binary_search(fit.first, file))
        continue;
      if (search.look(file, hit)) {
        if (chunk.hits.empty()) chunk.hits.reserve(chunk.end - chunk.next + 1);
        chunk.hits.push_back(hit);
        matches += hit.matches;
      }
      if (search.checked_bytes() - checked < bytes_per_clock) continue;
      checked = search.checked_bytes();
      if (Clock::now() >= until) break;
    }
    matches_ += matches;
    chunk.is_done = chunk.next == chunk.end && watch_.why() == Stop::none;
  }

  // What counts is the same for any number of threads: chunks in order, up to the limit.
  void settle() {
    std::uint64_t files_seen = 0, files_in_all = 0;
    bool is_cut = false;
    for (auto& chunk : chunks_) {
      files_in_all += chunk.end - chunk.begin;
      files_seen += chunk.next - chunk.begin;
      for (const auto& hit : chunk.hits) {
        is_cut = is_cut || (most_matches_ != 0 && answer_.match_count >= most_matches_);
        if (is_cut) break;
        hits_.push_back(hit);
        answer_.match_count += hit.matches;
      }
      is_cut =
          is_cut || (!chunk.is_done && most_matches_ != 0 && answer_.match_count >= most_matches_);
      chunk.hits = {};
    }
    answer_.file_count = hits_.size();
    answer_.stats.checked_bytes = checked_bytes_;
    if (watch_.why() == Stop::time)
      leave_open("time");
    else if (watch_.why() == Stop::cancelled)
      leave_open("cancelled");
    else if (is_cut)
      leave_open("matches");
    else if (lacks_symbols_)
      leave_open("symbols");
    answer_.estimated_matches = answer_.match_count;
    if (!answer_.is_complete && files_seen > 0)  // of those that were seen, some may not count
      answer_.estimated_matches = std::max(
          answer_.match_count, static_cast<std::uint64_t>(static_cast<double>(matches_) *
                                                          static_cast<double>(files_in_all) /
                                                          static_cast<double>(files_seen)));
  }

  void leave_open(std::string_view why) {
    answer_.is_complete = false;
    if (answer_.why_incomplete.empty()) answer_.why_incomplete = why;
  }

  // The best first; equal ones by repository and path.
  bool is_before(const Hit& a, const Hit& b) const {
    if (a.score != b.score) return a.score > b.score;
    if (a.segment != b.segment) {
      const auto &first = segments_[a.segment]->name(), &second = segments_[b.segment]->name();
      if (first != second) return first < second;
    }
    auto first = segments_[a.segment]->file(a.file).path;
    auto second = segments_[b.segment]->file(b.file).path;
    if (first != second) return first < second;
    return a.segment != b.segment ? a.segment < b.segment : a.file < b.file;
  }

  void one_for_each_repository() {
    std::ranges::sort(hits_, [this](const Hit& a, const Hit& b) {
      if (a.segment != b.segment) return a.segment < b.segment;
      return is_before(a, b);
    });
    std::vector<Hit> repos;
    for (const auto& hit : hits_) {
      if (!repos.empty() &&
          segments_[repos.back().segment]->name() == segments_[hit.segment]->name())
        repos.back().matches += hit.matches;
      else
        repos.push_back(hit);
    }
    hits_ = std::move(repos);
  }

  void show() {
    if (query_.select == Select::repos) one_for_each_repository();
    auto before = [this](const Hit& a, const Hit& b) { return is_before(a, b); };
    if (after_) {
      Hit last{.segment = after_->segment, .file = after_->file, .score = after_->score};
      bool is_known =
          last.segment < segments_.size() && last.file < segments_[last.segment]->file_count();
      std::erase_if(hits_, [&](const Hit& hit) { return is_known && !is_before(last, hit); });
    }
    std::size_t count = std::min(hits_.size(), terms_.most_files);
    std::ranges::partial_sort(hits_, hits_.begin() + static_cast<std::ptrdiff_t>(count), before);
    std::size_t bytes = terms_.answer_bytes;
    Watch watch(terms_.deadline, terms_.cancelled);
    std::vector<std::optional<FileSearch>> searches(fits_.size());
    std::size_t shown = 0;
    for (; shown < count && !watch.is_over(); ++shown) {
      auto& search = searches[hits_[shown].segment];
      if (!search) search.emplace(plan_, fits_[hits_[shown].segment], watch);
      if (!show_file(*search, hits_[shown], bytes, shown == 0)) break;
    }
    // The last one may have been cut off as well.
    if (watch.why() == Stop::time)
      leave_open("time");
    else if (watch.why() == Stop::cancelled)
      leave_open("cancelled");
    else if (shown < count)
      leave_open("bytes");
    if (shown > 0 && shown < hits_.size()) {
      const auto& last = hits_[shown - 1];
      answer_.next = to_string(Cursor{asked_, last.score, last.segment, last.file});
    }
  }

  // False: no room for it, so that the next page begins with it.
  bool show_file(FileSearch& search, const Hit& hit, std::size_t& bytes, bool is_first) {
    const auto& segment = *segments_[hit.segment];
    auto file = segment.file(hit.file);
    FileMatch match{.repo = segment.name(), .match_count = hit.matches, .score = hit.score};
    std::size_t size = match.repo.size() + file.path.size() + 100;
    if (size > bytes && !is_first) return false;
    std::size_t left = bytes > size ? bytes - size : 0;
    if (query_.select != Select::repos) {
      match.path = file.path;
      match.language = file.language;
      for (std::size_t i = 0; i < segment.branches().size(); ++i)
        if (segment.is_on_branch(hit.file, static_cast<std::uint16_t>(i)))
          match.branches.push_back(segment.branches()[i]);
      match.is_cut = !look_again(search, hit, match, left);
      if (match.is_cut && !is_first) return false;
    }
    bytes = left;
    answer_.files.push_back(std::move(match));
    return true;
  }

  bool look_again(FileSearch& search, const Hit& hit, FileMatch& match, std::size_t& bytes) {
    for (const auto& span : search.path_spans(match.path))
      match.path_ranges.push_back({span.begin, span.end});
    bool has_lines = query_.select != Select::files && query_.select != Select::paths;
    if (!has_lines && !terms_.explains) return true;
    Hit again;
    if (!search.look(hit.file, again)) return false;
    if (terms_.explains) search.explain(hit.file, hit, match.explanation);
    if (!has_lines) return true;
    auto spans = search.content_spans();
    if (terms_.counts_lines) {
      if (!spans.empty())
        match.line_count = touched_lines(segments_[hit.segment]->text(hit.file), spans);
      return true;
    }
    if (add_lines(*segments_[hit.segment], hit.file, spans, terms_, bytes, match.lines))
      return true;
    leave_open("bytes");
    return false;
  }

  std::vector<std::shared_ptr<const Segment>> segments_;
  const ParsedQuery& query_;
  SearchTerms terms_;
  std::uint64_t most_matches_;
  Watch watch_;
  Plan plan_;
  std::uint64_t asked_ = 0;
  std::optional<Cursor> after_;
  std::vector<SegmentPlan> fits_;
  std::vector<Chunk> chunks_;
  std::mutex mutex_;
  std::size_t next_chunk_ = 0;     // under the mutex, as is the next
  std::vector<std::size_t> open_;  // chunks in which a slice ended
  std::atomic<std::uint64_t> matches_ = 0, checked_bytes_ = 0;
  std::vector<Hit> hits_;
  bool lacks_symbols_ = false, is_planned_ = false;
  Result<> planned_ = ok;
  Answer answer_;
};

Search::Search(std::vector<std::shared_ptr<const Segment>> segments, const ParsedQuery& query,
               SearchTerms terms)
    : run_(std::make_unique<Run>(std::move(segments), query, std::move(terms))) {}
Search::~Search() = default;

bool Search::run(Clock::time_point until) { return run_->run(until); }
Result<Answer> Search::answer() { return run_->answer(); }

Result<Answer> search(std::span<const std::shared_ptr<const Segment>> segments,
                      const ParsedQuery& query, const SearchTerms& terms) {
  Search search({segments.begin(), segments.end()}, query, terms);
  search.run(Clock::time_point::max());
  return search.answer();
}

}  // namespace warren::search
