#include "search/query/finding.h"

#include <algorithm>

#include "search/parallel.h"

namespace warren::search {
namespace {

constexpr std::uint32_t chunk_files = 32;
constexpr std::uint64_t bytes_per_clock = 256 << 10;

std::uint64_t sum(std::uint64_t a, std::uint64_t b) {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

}  // namespace

Finding::Finding(const Plan& plan, std::span<const SegmentPlan> fits, std::uint64_t most_matches,
                 int threads, Watch& watch)
    : plan_(plan), fits_(fits), depths_(most_matches), threads_(threads), watch_(watch) {
  auto count = static_cast<std::uint32_t>(fits.size());
  for (std::uint32_t first = 0, end = 0; first < count; first = end) {
    const auto& name = fits[first].segment->name();
    for (end = first + 1; end < count && fits[end].segment->name() == name;) ++end;
    add_repo(first, end);
  }
}

void Finding::add_repo(std::uint32_t first_segment, std::uint32_t end_segment) {
  Repo repo{.first = chunks_.size()};
  for (auto i = first_segment; i < end_segment; ++i)
    add_chunks(i, true, static_cast<std::uint32_t>(fits_[i].first.size()), repo.files);
  for (auto i = first_segment; i < end_segment; ++i)
    if (fits_[i].root.kind != PlanNode::Kind::no)
      add_chunks(i, false, fits_[i].count(), repo.files);
  repo.end = chunks_.size();
  if (repo.first == repo.end) return;
  repo.next = repo.settled = repo.first;
  repos_.push_back(std::move(repo));
}

// Increases `place` by the number of files to examine. Files in `first` are not examined twice.
void Finding::add_chunks(std::uint32_t segment, bool is_first, std::uint32_t count,
                         std::uint32_t& place) {
  const auto& fit = fits_[segment];
  auto looked_at_before = [&](std::uint32_t at) {
    if (is_first || fit.first.empty()) return std::uint32_t{0};
    if (at == count) return static_cast<std::uint32_t>(fit.first.size());
    auto found = std::ranges::lower_bound(fit.first, fit.file_at(at));
    return static_cast<std::uint32_t>(found - fit.first.begin());
  };
  for (std::uint32_t at = 0; at < count; at += chunk_files)
    chunks_.push_back({.segment = segment,
                       .is_first = is_first,
                       .begin = at,
                       .end = std::min(at + chunk_files, count),
                       .next = at,
                       .place = place + at - looked_at_before(at)});
  place += count - looked_at_before(count);
}

bool Finding::run(Clock::time_point until) {
  for (;;) {
    if (todo_.empty() && !begin_round()) return true;
    at_ = join_ = 0;
    if (threads_ == 1) {
      work(until);
    } else {
      auto done = in_parallel(threads_, [this, until](int) -> Result<> {
        work(until);
        return ok;
      });
      // Without memory for another thread, the results so far stay valid, and the rest is left
      // undecided.
      if (!done) watch_.stop(Stop::time);
    }
    if (watch_.why() != Stop::none) return true;
    std::erase_if(todo_, [this](std::size_t repo) { return !is_wanted(repos_[repo]); });
    if (!todo_.empty() && Clock::now() >= until) return false;
  }
}

// The most matches that searching all repositories down to this depth could give.
std::uint64_t Finding::possible_at(int depth) const {
  std::uint64_t all = 0;
  for (const auto& repo : repos_) {
    auto wanted = depths_.wanted(depth);
    all = sum(all, is_exhausted(repo) ? std::min(matches_of(repo), wanted) : wanted);
  }
  return all;
}

// Returns false if there are enough matches, or nothing more to search. Skips depths that cannot
// give enough.
bool Finding::begin_round() {
  if (depth_ >= 0) {
    std::uint64_t sure = 0;
    for (const auto& repo : repos_)
      sure = sum(sure, std::min(matches_of(repo), depths_.wanted(depth_)));
    if (depths_.are_limited() && sure >= depths_.most()) return false;
  }
  const int last = depths_.count() - 1;
  while (todo_.empty() && depth_ < last) {
    do ++depth_;
    while (depth_ < last && possible_at(depth_) < depths_.most());
    for (std::size_t i = 0; i < repos_.size(); ++i)
      if (is_wanted(repos_[i])) todo_.push_back(i);
  }
  return !todo_.empty();
}

void Finding::work(Clock::time_point until) {
  std::optional<FileSearch> search;
  std::uint32_t segment = UINT32_MAX;
  std::uint64_t bytes = 0;
  std::size_t repo = SIZE_MAX;
  // At least one file, however short the slice is.
  for (bool is_over = false; watch_.why() == Stop::none && !is_over;) {
    auto mine = claim(repo);
    if (!mine) break;
    repo = mine->repo;
    if (chunks_[mine->chunk].segment != segment) {
      if (search) bytes += search->checked_bytes();
      segment = chunks_[mine->chunk].segment;
      search.emplace(plan_, fits_[segment], watch_, true);
    }
    look(*search, *mine, until);
    is_over = Clock::now() >= until;
    give_back(*mine);
  }
  if (search) bytes += search->checked_bytes();
  checked_bytes_ += bytes;
}

// Prefers the same repository, then one that no thread is working on, then one that others work on.
std::optional<Finding::Claim> Finding::claim(std::size_t last_repo) {
  std::lock_guard lock(mutex_);
  Claim claim;
  if (last_repo != SIZE_MAX && try_claim(last_repo, claim)) return claim;
  while (at_ < todo_.size())
    if (try_claim(todo_[at_++], claim)) return claim;
  for (; join_ < todo_.size(); ++join_)
    if (try_claim(todo_[join_], claim)) return claim;
  return std::nullopt;
}

bool Finding::try_claim(std::size_t place, Claim& claim) {
  auto& repo = repos_[place];
  if (!is_wanted(repo) || (repo.open.empty() && repo.next == repo.end)) return false;
  claim.repo = place;
  if (repo.open.empty()) {
    claim.chunk = repo.next++;
  } else {
    auto first = std::ranges::min_element(repo.open);
    claim.chunk = *first;
    repo.open.erase(first);
  }
  auto wanted = depths_.wanted(depth_);
  claim.enough = claim.chunk == repo.settled ? wanted - repo.matches : wanted;
  return true;
}

void Finding::look(FileSearch& search, const Claim& claim, Clock::time_point until) {
  auto& chunk = chunks_[claim.chunk];
  const auto& fit = fits_[chunk.segment];
  std::uint64_t matches = chunk.matches, checked = search.checked_bytes();
  Hit hit{.segment = chunk.segment};
  while (chunk.next < chunk.end && matches < claim.enough) {
    std::uint32_t file = chunk.is_first ? fit.first[chunk.next] : fit.file_at(chunk.next);
    if (!chunk.is_first && !fit.first.empty() && std::ranges::binary_search(fit.first, file)) {
      ++chunk.next;
      continue;
    }
    bool is_hit = search.look(file, hit);
    if (!is_hit && watch_.why() != Stop::none) break;  // undecided
    ++chunk.next;
    hit.place = chunk.place++;
    if (is_hit) {
      if (chunk.hits.empty()) chunk.hits.reserve(chunk.end - chunk.next + 1);
      chunk.hits.push_back(hit);
      matches += hit.matches;
    }
    if (search.checked_bytes() - checked < bytes_per_clock) continue;
    checked = search.checked_bytes();
    if (Clock::now() >= until) break;
  }
}

void Finding::give_back(const Claim& claim) {
  std::lock_guard lock(mutex_);
  auto& repo = repos_[claim.repo];
  auto& chunk = chunks_[claim.chunk];
  chunk.matches = 0;
  for (const auto& hit : chunk.hits) chunk.matches += hit.matches;
  chunk.is_done = chunk.next == chunk.end;
  if (!chunk.is_done) repo.open.push_back(claim.chunk);
  while (repo.settled < repo.end && chunks_[repo.settled].is_done)
    repo.matches += chunks_[repo.settled++].matches;
}

Finding::Harvest Finding::harvest() {
  Harvest harvest;
  bool was_stopped = watch_.why() != Stop::none;
  // Beyond the last round nothing is known, unless everything was examined.
  bool is_all =
      std::ranges::all_of(repos_, [this](const Repo& repo) { return is_exhausted(repo); });
  int known = is_all || was_stopped ? depths_.count() - 1 : depth_;
  harvest.depths.resize(static_cast<std::size_t>(known) + 1);
  for (const auto& repo : repos_) count(repo, harvest);
  harvest.last = known;
  for (int depth = known; depth >= 0; --depth)
    if (harvest.depths[static_cast<std::size_t>(depth)].matches >= depths_.most())
      harvest.last = depth;
  std::erase_if(harvest.hits, [&](const Hit& hit) { return hit.depth > harvest.last; });
  return harvest;
}

namespace {

// What a repository has down to a depth.
struct Reached {
  std::uint64_t matches = 0, files = 0;
  std::uint64_t last = 0;  // in the last file
  std::uint32_t seen = 0;

  void add(const Hit& hit) {
    matches += hit.matches;
    ++files;
    last = hit.matches;
    seen = hit.place + 1;
  }
  // Extrapolates from the examined files to all files. The last file is left out of the rate,
  // because the search ended with it: it is likelier than others to have many matches.
  std::uint64_t estimated(std::uint32_t looked, std::uint32_t all, bool is_full) const {
    if (looked == 0 || looked >= all) return matches;
    bool is_biased = is_full && looked > 1;
    auto rate = static_cast<double>(matches - (is_biased ? last : 0)) /
                static_cast<double>(looked - (is_biased ? 1 : 0));
    return matches + static_cast<std::uint64_t>(rate * static_cast<double>(all - looked));
  }
};

}  // namespace

// Adds what a repository has at each depth.
void Finding::count(const Repo& repo, Harvest& harvest) {
  std::vector<Reached> steps(harvest.depths.size());  // difference to the previous depth
  std::uint64_t matches = 0;
  std::uint32_t seen = 0;
  for (std::size_t i = repo.first; i < repo.end; ++i) {
    auto& chunk = chunks_[i];
    seen += chunk.next - chunk.begin;
    for (auto& hit : chunk.hits) {
      auto depth =
          matches < depths_.most() ? static_cast<std::size_t>(depths_.of(matches)) : SIZE_MAX;
      if (depth >= steps.size()) break;
      hit.depth = static_cast<std::uint8_t>(depth);
      steps[depth].add(hit);
      matches += hit.matches;
      harvest.hits.push_back(hit);
    }
  }
  Reached so_far;
  for (std::size_t depth = 0; depth < steps.size(); ++depth) {
    const auto& step = steps[depth];
    so_far.matches += step.matches;
    so_far.files += step.files;
    if (step.files > 0) so_far.last = step.last, so_far.seen = step.seen;
    bool is_full = so_far.matches >= depths_.wanted(static_cast<int>(depth));
    auto looked = is_full              ? so_far.seen
                  : is_exhausted(repo) ? repo.files
                                       : std::min(seen, repo.files);
    auto& totals = harvest.depths[depth];
    totals.matches += so_far.matches;
    totals.files += so_far.files;
    totals.is_cut |= is_full && looked < repo.files;
    totals.estimated += so_far.estimated(looked, repo.files, is_full);
  }
}

std::vector<Hit> Finding::take_new() {
  std::vector<Hit> hits;
  for (auto& chunk : chunks_) {
    hits.insert(hits.end(), chunk.hits.begin() + static_cast<std::ptrdiff_t>(chunk.told),
                chunk.hits.end());
    chunk.told = chunk.hits.size();
  }
  return hits;
}

}  // namespace warren::search
