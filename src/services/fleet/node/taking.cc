// How a node takes a row over from one that drains: everything is in memory before it is the owner.
#include "base/log.h"
#include "net/http/target.h"
#include "search/store/stream.h"
#include "services/fleet/node/node.h"

namespace warren::fleet {

namespace {

using SegmentPtr = std::shared_ptr<const search::Segment>;

// Besides the segment itself: pieces that are under way.
constexpr std::uint64_t besides = 1u << 20;

Result<SegmentPtr> finished(std::shared_ptr<search::SegmentReceiver> receiver) {
  return receiver->finish();
}

}  // namespace

// Answers when it could serve the row, or not take it.
awaitable<void> FleetNode::answer_take(const HttpRequest& request, HttpAnswer& answer) {
  auto offer = parse_hand_over(request.body);
  if (!offer) co_return put_error(answer, offer.error());
  auto begun = begin_taking(*std::move(offer));
  if (!begun) {
    put_error(answer, begun.error());
    if (begun.error().code == Errc::held_elsewhere) answer.status = 409;
    co_return;
  }
  auto coming = *std::move(begun);
  while (!coming->taken && !coming->leaves) co_await coming->changed->wait();
  if (coming->taken && !*coming->taken) co_return put_error(answer, coming->taken->error());
  if (coming->leaves)
    co_return put_error(answer, {Errc::unavailable, "the row has changed hands otherwise"});
  answer.body = "{\"status\":\"ready\"}";
}

Result<FleetNode::OwnedPtr> FleetNode::begin_taking(HandOver offer) {
  auto parts = parse_row_key(offer.key);
  auto spec = parse_spec(offer.spec);
  if (!parts || !spec) return fail(Errc::invalid, "{} is no row of a repository", offer.key);
  Claim from{offer.session, offer.key, offer.epoch};
  std::string repo(parts->repo);
  if (auto found = coming_.find(offer.key); found != coming_.end()) {
    const auto& there = *found->second->from;
    if (there.session == from.session && there.epoch == from.epoch) return found->second;
    stop_taking(OwnedPtr(found->second));
  }
  if (owns(repo)) return fail(Errc::held_elsewhere, "this node has a replica of {}", repo);
  if (is_draining_ || !lease_->may_claim() || !tasks_)
    return fail(Errc::unavailable, "this node claims nothing now");
  if (!is_here(repo, offer) && !shelf_.reserve(repo, offer.bytes() + besides))
    return fail(Errc::overloaded, "{} takes {} bytes, and {} are free", repo, offer.bytes(),
                shelf_.free());
  auto coming = std::make_shared<Owned>();
  coming->claim = {lease_->session(), offer.key, {}};
  coming->repo = repo;
  coming->spec = *std::move(spec);
  coming->warming = std::make_shared<Warming>(0ms, 0ms);
  coming->changed = std::make_unique<Event>(executor_);
  coming->phase_changed = std::make_unique<Event>(executor_);
  coming->from = std::move(from);
  coming_[offer.key] = coming;
  tasks_->start("fleet.take", take_over(coming, std::move(offer)));
  return coming;
}

// Stands by until the catalog has made us the owner, or somebody else. Nothing here is a matter of time:
// the old owner may be slow, and whoever has the row when it is gone, the catalog tells.
awaitable<void> FleetNode::take_over(OwnedPtr coming, HandOver offer) {
  auto begin = Clock::now();
  auto bytes = offer.bytes();
  coming->journey.begin(tracer_, "fleet.take_over", coming->repo);
  coming->journey.set("node", settings_.lease.name);
  auto taken = co_await take(*coming, std::move(offer));
  coming->journey.end(taken);
  shelf_.unreserve(coming->repo);
  if (!taken)
    log::warn("fleet.not_taken_over", "repo", coming->repo, "why", taken.error().what);
  else
    log::info("fleet.standing_by", "repo", coming->repo, "bytes", bytes, "time_ms",
              std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count());
  coming->taken = taken;
  coming->changed->notify();
  if (!taken) co_return stop_taking(coming);
  while (coming->is_coming() && !coming->leaves) co_await coming->changed->wait();
  if (coming->is_coming()) co_return;
  if (auto held = held_.find(coming->repo); held != held_.end()) {
    auto note = held->second.note(Phase::serving);
    auto written = co_await write(*coming, RowState::ready, note);
    coming->is_told = written.has_value();
    if (!written) log::warn("fleet.not_written", "repo", coming->repo, "why", written.error().what);
    co_await remember(*coming);
  }
  co_await own(coming);
}

// From when it was ours before.
bool FleetNode::is_here(const std::string& repo, const HandOver& offer) const {
  auto found = held_.find(repo);
  return found != held_.end() && found->second.has_index &&
         found->second.commits == offer.commits && found->second.reindex == offer.reindex;
}

Async<> FleetNode::take(Owned& coming, HandOver offer) {
  if (is_here(coming.repo, offer)) {
    auto held = held_.at(coming.repo);
    co_return co_await publish(coming, std::move(held));
  }
  auto segments = co_await fetch_segments(offer);
  if (segments) co_return co_await publish(coming, held_of(offer, *std::move(segments)));
  if (segments.error().code != Errc::invalid) co_return std::unexpected(segments.error());
  // Damaged on the way, or of another version of this program: the origin has it, too.
  log::warn("fleet.segment_refused", "repo", coming.repo, "why", segments.error().what);
  co_return co_await bring(coming);
}

Async<search::SegmentListPtr> FleetNode::fetch_segments(const HandOver& offer) {
  // Where the catalog says that it is, not where somebody else does: what is shown there is secret.
  auto nodes = co_await catalog_.nodes(Clock::now() + settings_.lease.ttl / 3);
  if (!nodes) co_return std::unexpected(nodes.error());
  auto from = std::ranges::find(*nodes, offer.session, &Node::session);
  auto info =
      from == nodes->end() ? Result<NodeInfo>(fail(Errc::not_found, "")) : parse_info(from->info);
  if (!info) co_return fail(Errc::not_found, "there is no node {}", offer.session);
  auto url = parse_web_url(info->endpoint);
  if (!url) co_return fail(Errc::not_found, "{}", url.error().what);
  auto list = std::make_shared<search::SegmentList>();
  for (std::size_t part = 0; part < offer.sizes.size(); ++part) {
    auto segment = co_await fetch_segment(*url, offer, part);
    if (!segment) co_return std::unexpected(segment.error());
    list->push_back(*std::move(segment));
  }
  co_return search::SegmentListPtr(std::move(list));
}

Async<SegmentPtr> FleetNode::fetch_segment(HttpUrl from, const HandOver& offer, std::size_t part) {
  HttpAsk ask{"GET", fmt::format("/v1/segments?key={}&epoch={}&part={}", percent_encoded(offer.key),
                                 to_string(offer.epoch), part)};
  ask.headers = token_header();
  auto call = co_await peers_.begin(std::move(from), std::move(ask), std::nullopt,
                                    Clock::now() + settings_.fetch_time);
  if (!call) co_return std::unexpected(call.error());
  auto reply = co_await (*call)->answer();
  if (!reply) co_return std::unexpected(reply.error());
  if (reply->status != 200)
    co_return fail(Errc::unavailable, "the old owner answered {}", reply->status);
  // Owners: this, and the pool while it looks through what was received.
  auto receiver = std::make_shared<search::SegmentReceiver>(offer.sizes[part]);
  for (;;) {
    auto piece = co_await (*call)->in().read();
    if (!piece) co_return std::unexpected(piece.error());
    if (piece->empty()) break;
    auto taken = receiver->take(std::as_bytes(std::span(piece->data(), piece->size())));
    if (!taken) co_return fail(Errc::invalid, "{}", taken.error().what);
  }
  auto segment = co_await on_pool(movers_, finished, std::move(receiver));
  if (segment && (*segment)->name() != parse_row_key(offer.key)->repo)
    co_return fail(Errc::invalid, "it is a segment of {}", (*segment)->name());
  co_return segment;
}

void FleetNode::answer_own(const HttpRequest& request, HttpAnswer& answer) {
  auto row = parse_handed_over(request.body);
  if (!row) return put_error(answer, row.error());
  answer.body = "{\"status\":\"ok\"}";
  auto owned = owned_.find(row->key);
  if (owned != owned_.end() && owned->second->claim.epoch == row->epoch) return;
  auto found = coming_.find(row->key);
  if (found == coming_.end())
    return put_error(answer, {Errc::not_found, "this row is not on its way here"});
  auto coming = found->second;
  if (row->epoch > coming->from->epoch)
    become_owner(coming, row->epoch);
  else
    stop_taking(coming);
}

// What the catalog says of a row that we stand by for.
void FleetNode::on_coming_row(const Row& row, const NodeSession& session) {
  auto coming = coming_.at(row.key);
  if (row.epoch <= coming->from->epoch && row.owner == coming->from->session) return;
  if (row.owner == session && row.epoch > coming->from->epoch)
    become_owner(coming, row.epoch);
  else if (row.epoch >= coming->from->epoch)
    stop_taking(coming);
}

void FleetNode::become_owner(const OwnedPtr& coming, FencingToken epoch) {
  auto key = coming->claim.key;
  ++drained_.taken_over;
  coming->claim.epoch = epoch;
  coming->from.reset();
  owned_[key] = coming;
  coming_.erase(key);
  log::info("fleet.taken_over", "repo", coming->repo, "epoch", to_string(epoch));
  coming->changed->notify();
}

void FleetNode::stop_taking(const OwnedPtr& coming) {
  auto found = coming_.find(coming->claim.key);
  if (found != coming_.end() && found->second == coming) coming_.erase(found);
  coming->leaves = true;
  coming->changed->notify();
  rows_changed_.notify();
}

awaitable<void> FleetNode::wait_for_flips(const std::vector<AskedRow>& rows,
                                          Clock::time_point until) {
  for (const auto& row : rows) {
    while (Clock::now() < until) {
      auto owned = owned_.find(row.key), coming = coming_.find(row.key);
      OwnedPtr who;
      if (owned != owned_.end() && owned->second->is_flipping) who = owned->second;
      if (coming != coming_.end() && row.epoch > coming->second->from->epoch) who = coming->second;
      if (!who) break;
      co_await who->changed->wait(until);
    }
  }
}

}  // namespace warren::fleet
