// How a repository comes into memory, and is kept up to date there.
#include "base/log.h"
#include "search/index/symbols.h"
#include "search/index/warm.h"
#include "search/source/repository.h"
#include "search/store/memory.h"
#include "search/store/verify.h"
#include "services/fleet/node/node.h"

namespace warren::fleet {

namespace {

using search::BuildTerms;
using search::Listing;
using search::SegmentList;
using search::SegmentListPtr;

std::chrono::milliseconds since(Clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
}

struct Source {
  std::string folder, repo;
  std::map<std::string, std::string> commits;
  std::string head;
  search::UpdateTerms terms;
  std::shared_ptr<Warming> warming = {};
  std::function<void()> on_begin = {};  // called on the pool when reading begins
};

// By commit, so that a fetch by somebody else meanwhile changes nothing; shown by the names of refs.
Result<Listing> list(const Source& source) {
  std::vector<std::string> commits, names;
  for (const auto& [ref, commit] : source.commits) {
    commits.push_back(commit);
    auto name = ref == "HEAD" && !source.head.empty() ? source.head : ref;
    if (name.starts_with("refs/heads/")) name = name.substr(11);
    names.push_back(std::move(name));
  }
  auto listing = search::list_repository(source.folder, std::move(commits), source.terms.limits);
  if (!listing) return listing;
  listing->source.name = source.repo;
  listing->source.branches = std::move(names);
  return listing;
}

std::uint64_t text_bytes(const Listing& listing) {
  std::uint64_t bytes = 0;
  for (const auto& entry : listing.entries) bytes += entry.size;
  return bytes;
}

// The files to read, and the memory that building them needs.
struct Survey {
  Listing listing;
  std::uint64_t text_bytes = 0, peak_bytes = 0;
};
Result<Survey> survey(const Source& source, const SegmentListPtr& current) {
  auto listing = list(source);
  if (!listing) return std::unexpected(listing.error());
  Survey found{*std::move(listing)};
  found.text_bytes = text_bytes(found.listing);
  found.peak_bytes = search::forecast_update(found.listing, current, source.terms).peak;
  return found;
}

// Each segment by itself; one that has it already stays. Sealed, so that damage can be seen.
template <class Step>
Result<SegmentListPtr> each_segment(const SegmentListPtr& segments, Step step) {
  auto list = std::make_shared<SegmentList>();
  for (const auto& segment : *segments) {
    auto next = step(segment);
    if (!next) return std::unexpected(next.error());
    list->push_back(search::sealed(*next));
  }
  return SegmentListPtr(std::move(list));
}

Result<SegmentListPtr> read(const Source& source, Listing listing, SegmentListPtr current,
                            BuildTerms build) {
  source.on_begin();
  auto terms = source.terms;
  terms.build = std::move(build);
  const auto all = static_cast<double>(std::max<std::uint64_t>(text_bytes(listing), 1));
  std::uint64_t bytes = 0;
  auto read_texts = [&](std::span<const search::TreeEntry> entries,
                        std::vector<search::Skipped>& skipped, const search::Take& take) {
    auto counted = [&](search::Document&& document) {
      source.warming->on_part(static_cast<double>(bytes += document.text.size()) / all);
      return take(std::move(document));
    };
    return search::read_entries(source.folder, entries, skipped, counted);
  };
  auto updated = search::update_listing(std::move(listing), read_texts, current, terms);
  if (!updated) return updated;
  return each_segment(*updated,
                      [](const auto& segment) -> Result<std::shared_ptr<const search::Segment>> {
                        return segment;
                      });
}

Result<SegmentListPtr> indexed(SegmentListPtr segments, BuildTerms terms) {
  return each_segment(segments,
                      [&](const auto& segment) -> Result<std::shared_ptr<const search::Segment>> {
                        if (segment->has_index()) return segment;
                        return search::SegmentBuilder::with_index(*segment, terms);
                      });
}

Result<SegmentListPtr> with_symbols(SegmentListPtr segments, std::size_t memory) {
  return each_segment(
      segments, [&](const auto& segment) -> Result<std::shared_ptr<const search::Segment>> {
        if (segment->has_symbols()) return segment;
        return search::with_symbols(segment, {.threads = 1, .memory_bytes = memory});
      });
}

Result<SegmentListPtr> cooled(SegmentListPtr segments) {
  return each_segment(segments,
                      [&](const auto& segment) -> Result<std::shared_ptr<const search::Segment>> {
                        if (segment->is_warm()) return segment;
                        return search::cooled(*segment, {.threads = 1});
                      });
}

}  // namespace

Async<> FleetNode::bring(Owned& owned) {
  owned.gone.reset();
  auto remote = RemoteUrl::parse(owned.spec.url, settings_.rules);
  if (!remote && remote.error().code == Errc::not_found) owned.gone = remote.error().what;
  if (!remote) co_return std::unexpected(remote.error());
  auto shown = co_await show_again(owned);
  if (!shown) co_return shown;
  auto fetching = owned.journey.step("fleet.fetch");
  std::optional<Slot> slot;
  if (!owned.is_ready) {
    auto granted = co_await wait_to_fetch(owned, remote->url);
    if (!granted) end_step(fetching, granted);
    if (!granted) co_return std::unexpected(granted.error());
    slot.emplace(*std::move(granted));
  }
  FetchOrder order{remote->url};
  if (!owned.spec.refs.empty()) order.refs = owned.spec.refs;
  order.deadline = Clock::now() + settings_.fetch_time;
  auto resolved = co_await fetcher_->resolve(std::move(order), slot ? &*slot : nullptr);
  if (!resolved) end_step(fetching, resolved);
  if (!resolved && resolved.error().code == Errc::not_found) owned.gone = resolved.error().what;
  if (!resolved) co_return std::unexpected(resolved.error());
  if (resolved->is_moved) co_await follow_move(owned, remote->url, resolved->url);
  if (resolved->commits.empty())
    co_return fail(Errc::not_found, "{} has none of the refs that are wanted", owned.spec.url);
  // A slot belongs to one host, and must not be held while a snapshot is read from disk.
  if (snapshots_ || resolved->is_moved) slot.reset();
  co_await recall(owned);
  auto found = held_.find(owned.repo);
  bool is_current = found != held_.end() && found->second.commits == resolved->commits &&
                    found->second.reindex == owned.spec.reindex && found->second.has_index;
  auto url = resolved->is_moved ? resolved->url : remote->url;
  if (!is_current)
    co_return co_await bring_new(owned, std::move(url), *std::move(resolved), std::move(slot),
                                 std::move(fetching));
  slot.reset();
  fetching.reset();
  owned.peak_bytes = 0;
  if (owned.is_ready) co_return ok;
  auto held = found->second;
  co_return co_await publish(owned, std::move(held));
}

// The row's phase is `waiting` until the slot is granted.
Async<Slot> FleetNode::wait_to_fetch(Owned& owned, RemoteUrl url) {
  enter(owned, Phase::waiting);
  auto slot = co_await fetcher_->wait_for_slot(std::move(url), Clock::now() + settings_.fetch_time);
  if (slot) enter(owned, Phase::fetching);
  co_return slot;
}

// What the last owner showed is still in memory here: it answers at once, whatever its origin does. New
// commits are looked for afterwards, as with everything that is served. Likewise what we show already
// and could not tell the catalog: until it hears of it, no router asks us.
Async<> FleetNode::show_again(Owned& owned) {
  auto found = held_.find(owned.repo);
  if (found == held_.end() || !found->second.segments) co_return ok;
  auto held = found->second;
  bool is_same = held.reindex == owned.spec.reindex &&
                 held.note(Phase::serving).commit_hash == owned.last.commit_hash;
  if (owned.is_ready ? owned.is_told : !is_same) co_return ok;
  co_return co_await publish(owned, std::move(held));
}

Async<> FleetNode::bring_new(Owned& owned, RemoteUrl url, Resolved resolved,
                             std::optional<Slot> slot, std::optional<Span> fetching) {
  if (!owned.journey.is_on()) {
    owned.journey.begin(tracer_, "fleet.update", owned.repo);
    fetching = owned.journey.step("fleet.fetch");
  }
  auto found = held_.find(owned.repo);
  auto held = found == held_.end() ? Held() : found->second;
  if (held.reindex != owned.spec.reindex) held = Held();
  // An older commit is served until the new one is there, if it is in memory at all.
  if (!owned.is_ready && held.segments) {
    auto old = held;
    auto published = co_await publish(owned, std::move(old));
    if (!published) co_return published;
  }
  if (!owned.is_ready && !slot) {
    auto granted = co_await wait_to_fetch(owned, url);
    if (!granted) co_return std::unexpected(granted.error());
    slot.emplace(*std::move(granted));
  }
  // This write fails if another node has the row by now; then nothing is fetched.
  if (!owned.is_ready) {
    auto written = co_await note_phase(owned, Phase::fetching);
    if (!written) co_return written;
  }
  auto begin = Clock::now();
  FetchOrder order{std::move(url)};
  order.refs.clear();
  for (const auto& [ref, commit] : resolved.commits) order.refs.push_back(ref);
  order.deadline = begin + settings_.fetch_time;
  auto fetched = co_await fetcher_->fetch(std::move(order), slot ? &*slot : nullptr);
  slot.reset();
  end_step(fetching, fetched);
  if (!fetched) co_return std::unexpected(fetched.error());
  held.fetch_time = since(begin);
  co_return co_await build(owned, std::move(held), *std::move(fetched));
}

Async<> FleetNode::build(Owned& owned, Held held, Fetched fetched) {
  auto begin = Clock::now();
  enter(owned, Phase::fetched);
  Source source{fetched.folder.string(),      owned.repo,
                fetched.resolved.commits,     fetched.resolved.head,
                {.limits = settings_.limits}, owned.warming};
  source.terms.delta_from = settings_.delta_from;
  // The pool builds in order: the phase is `reading` only when this build's turn comes.
  source.on_begin = [mine = owned.shared_from_this(), executor = executor_] {
    asio::post(executor, [mine] { enter(*mine, Phase::reading); });
  };
  auto reading = owned.journey.step("fleet.read");
  auto surveyed = co_await on_pool(builders_, survey, source, held.segments);
  if (!surveyed) end_step(reading, surveyed);
  if (!surveyed) co_return std::unexpected(surveyed.error());
  auto text = surveyed->text_bytes, peak = surveyed->peak_bytes;
  owned.peak_bytes = shelf_.reserve(owned.repo, peak) ? 0 : peak;
  if (owned.peak_bytes > 0)
    co_return fail(Errc::overloaded, "needs {} bytes, and {} are free", peak, shelf_.free());
  builds_.add();
  bool is_first = !held.has_index;
  BuildTerms terms{.memory_bytes = peak, .threads = 1, .with_index = !is_first};
  auto segments =
      co_await on_pool(builders_, read, source, std::move(surveyed->listing), held.segments, terms);
  end_step(reading, segments);
  if (!segments) co_return std::unexpected(segments.error());
  held.segments = *std::move(segments);
  held.commits = fetched.resolved.commits;
  held.reindex = owned.spec.reindex;
  held.has_index = !is_first;
  held.text_bytes = text;
  held.has_symbols = held.is_warm = false;
  held.indexed_at = iso8601(WallClock::now());
  held.index_time = since(begin);
  auto shown = held;
  auto published = co_await publish(owned, std::move(shown));
  if (!published && owned.leaves) co_return published;  // otherwise the catalog hears of it later

  if (is_first) {
    terms.with_index = true;
    auto indexing = owned.journey.step("fleet.index");
    auto list = co_await on_pool(builders_, indexed, held.segments, terms);
    end_step(indexing, list);
    if (!list) co_return std::unexpected(list.error());
    held.segments = *std::move(list);
    held.has_index = true;
    held.index_time = since(begin);
  }
  if (settings_.with_symbols) {
    auto list = co_await on_pool(builders_, with_symbols, held.segments, std::size_t{peak});
    if (list) {
      held.segments = *std::move(list);
      held.has_symbols = true;
    }
  }
  index_times_.observe(static_cast<double>(held.index_time.count()));
  log::info("fleet.indexed", "repo", owned.repo, "commit_hash",
            held.note(Phase::serving).commit_hash, "fetch_time_ms", held.fetch_time.count(),
            "index_time_ms", held.index_time.count(), "memory_bytes", held.memory_bytes());
  auto complete = co_await publish(owned, std::move(held));
  if (complete) co_await remember(owned);
  co_return complete;
}

// Answers come from it from now on; the catalog hears of it next.
Async<> FleetNode::publish(Owned& owned, Held held) {
  auto seconds = std::chrono::duration<double>(held.fetch_time + held.index_time).count();
  shelf_.put(Clock::now(), owned.repo,
             {.bytes = held.memory_bytes(),
              .is_warm = held.is_warm,
              .is_pinned = owned.spec.is_pinned,
              .rebuild_seconds = std::max(seconds, 0.01)});
  auto note = held.note(held.has_index ? Phase::serving : Phase::indexing);
  held_[owned.repo] = std::move(held);
  owned.is_ready = true;
  owned.is_told = false;
  owned.phase_changed->notify();
  owned.journey.on_ready();
  auto telling = owned.journey.step("fleet.ready");
  // A note about an earlier phase must not arrive after this one.
  while (owned.is_noting) co_await owned.phase_changed->wait();
  auto written = co_await write(owned, RowState::ready, note);
  end_step(telling, written);
  owned.is_told = written.has_value();
  if (written) owned.noted_lacks = 0;
  co_return written;
}

awaitable<void> FleetNode::demote(std::string repo) {
  auto found = held_.find(repo);
  if (found == held_.end() || !found->second.segments) {
    shelf_.remove(repo);
    co_return;
  }
  auto segments = found->second.segments;
  auto mark = repo + " demoted";
  if (!shelf_.reserve(mark, Shelf::room_to_demote(found->second.memory_bytes()))) co_return;
  auto list = co_await on_pool(builders_, cooled, segments);
  shelf_.unreserve(mark);
  found = held_.find(repo);
  if (found == held_.end() || found->second.segments != segments) co_return;  // replaced meanwhile
  if (!list) {
    log::warn("fleet.not_demoted", "repo", repo, "why", list.error().what);
    co_return;
  }
  auto& held = found->second;
  held.segments = *std::move(list);
  held.is_warm = true;
  auto seconds = std::chrono::duration<double>(held.fetch_time + held.index_time).count();
  bool is_pinned = false;
  for (const auto& [key, owned] : owned_)
    is_pinned = is_pinned || (owned->repo == repo && owned->spec.is_pinned);
  shelf_.put(Clock::now(), repo,
             {.bytes = held.memory_bytes(),
              .is_warm = true,
              .is_pinned = is_pinned,
              .rebuild_seconds = std::max(seconds, 0.01)});
  log::info("fleet.demoted", "repo", repo, "memory_bytes", held.memory_bytes());
}

}  // namespace warren::fleet
