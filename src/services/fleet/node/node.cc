#include "services/fleet/node/node.h"

#include <set>

#include "base/log.h"
#include "base/utf8.h"
#include "services/fleet/node/in_call.h"
#include "services/fleet/plan/drain_request.h"

namespace warren::fleet {

namespace {

// However much changes, the catalog is not looked at more often than that.
constexpr auto least_look = 250ms;
// After this, the catalog is told once more of what is shown and what it could not be told of.
constexpr auto tell_again = 1s;

std::unique_ptr<Tracer> off(const asio::any_io_executor& executor) {
  auto tracer = Tracer::from_environment(executor, {});
  ensure(tracer.has_value(), "without an endpoint nothing can be wrong");
  return *std::move(tracer);
}

std::vector<Candidate> candidates_of(const std::vector<Node>& nodes) {
  std::vector<Candidate> candidates;
  for (const auto& node : nodes) {
    auto info = parse_info(node.info);
    if (!info || info->is_draining) continue;
    candidates.push_back({std::string(node_name(node.session)), info->budget_bytes,
                          info->free_bytes(), info->zone, info->hot_bytes});
  }
  return candidates;
}

}  // namespace

Result<std::unique_ptr<FleetNode>> FleetNode::create(const asio::any_io_executor& executor,
                                                     Catalog& catalog, NodeSettings settings,
                                                     Metrics& metrics) {
  auto fetching = settings.fetching;
  auto fetcher = Fetcher::open(executor, std::move(fetching));
  if (!fetcher) return std::unexpected(fetcher.error());
  std::unique_ptr<FleetNode> node(
      new FleetNode(executor, catalog, std::move(settings), *std::move(fetcher), metrics));
  if (node->settings_.snapshots) {
    auto snapshots = Snapshots::open(*node->settings_.snapshots);
    if (!snapshots) return std::unexpected(snapshots.error());
    node->snapshots_ = std::make_unique<Snapshots>(*std::move(snapshots));
  }
  if (auto listens = node->listen(); !listens) return std::unexpected(listens.error());
  return node;
}

FleetNode::FleetNode(const asio::any_io_executor& executor, Catalog& catalog, NodeSettings settings,
                     std::unique_ptr<Fetcher> fetcher, Metrics& metrics)
    : executor_(executor),
      catalog_(catalog),
      settings_(std::move(settings)),
      fetcher_(std::move(fetcher)),
      metrics_(metrics),
      lanes_(std::max(settings_.threads, 2)),
      builders_(static_cast<std::size_t>(std::max(settings_.builds, 1))),
      peers_(executor, {.most_body = std::uint64_t{1} << 40, .tls = settings_.peer_tls}),
      claims_({.node = settings_.lease.name,
               .seed = static_cast<std::uint64_t>(Clock::now().time_since_epoch().count())}),
      shelf_(settings_.shelf),
      work_wanted_(executor),
      rows_changed_(executor),
      no_tracer_(settings_.tracer ? nullptr : off(executor)),
      tracer_(settings_.tracer ? *settings_.tracer : *no_tracer_),
      damaged_(metrics.counter("warren_fleet_damaged_total",
                               "Repositories that changed in memory and were built anew.")),
      builds_(metrics.counter("warren_fleet_builds_total",
                              "Repositories whose texts were read from git.")),
      snapshots_read_(snapshots_that("read")),
      snapshots_written_(snapshots_that("written")),
      snapshots_refused_(snapshots_that("refused")),
      index_times_(milliseconds_of("warren_fleet_index_time_ms", "How long indexes took.")),
      claim_latencies_(milliseconds_of("warren_fleet_claim_latency_ms",
                                       "From when a row was seen on offer to its claim.")) {
  lease_ = std::make_unique<NodeLease>(executor, catalog, settings_.lease,
                                       [this] { return to_json(info()); });
}

FleetNode::~FleetNode() {
  builders_.join();
  checkers_.join();
  movers_.join();
  savers_.join();
}

NodeInfo FleetNode::info() const {
  NodeInfo info{.endpoint = settings_.endpoint, .zone = settings_.zone};
  info.budget_bytes = shelf_.budget();
  info.used_bytes = shelf_.used();
  info.reserved_bytes = shelf_.reserved();
  info.hot_bytes = shelf_.hot();
  info.repos = owned_.size();
  info.running = running_;
  info.busy_percent = busy_.percent();
  info.is_draining = is_draining_;
  return info;
}

awaitable<void> FleetNode::run() {
  using namespace asio::experimental::awaitable_operators;
  co_await (lease_->run() && http_->run() && live() && mind_memory() && verify_memory() &&
            mind_wishes());
}

awaitable<void> FleetNode::live() {
  using namespace asio::experimental::awaitable_operators;
  for (;;) {
    while (lease_->session().empty()) co_await lease_->session_changed("");
    auto session = lease_->session();
    co_await (one_life(session) || lease_->session_changed(session));
    // The rows are no longer ours; what they were is still in memory. Builds that were under way have
    // ended, since their tasks have waited for them: so nothing needs what is reserved.
    tasks_ = nullptr;
    for (const auto* rows : {&owned_, &coming_}) {
      for (const auto& [key, owned] : *rows) {
        shelf_.unreserve(owned->repo);
        owned->leaves = true;
        owned->changed->notify();
      }
    }
    owned_.clear();
    coming_.clear();
    rows_changed_.notify();
  }
}

awaitable<void> FleetNode::one_life(NodeSession session) {
  auto body = [](TaskGroup& tasks, FleetNode& self, NodeSession& life) -> awaitable<bool> {
    using namespace asio::experimental::awaitable_operators;
    self.tasks_ = &tasks;
    co_await (self.follow_offers(tasks, life) && self.follow_rows(life));
    co_return true;
  };
  co_await with_group(body, *this, session);
}

awaitable<void> FleetNode::follow_offers(TaskGroup& tasks, NodeSession session) {
  for (;;) {
    auto looked = Clock::now();
    auto next_look = looked + settings_.look;
    if (!is_draining_ && lease_->may_claim()) co_await look_for_work(tasks, session);
    // Between two looks turns come, and changes tell which rows are taken.
    while (Clock::now() < next_look) {
      auto wake = std::min(next_look, std::max(claims_.wake_at(), Clock::now() + 20ms));
      co_await work_wanted_.wait(wake);
      if (work_is_wanted_ || claims_.wants_look())
        next_look = std::min(next_look, looked + least_look);
      work_is_wanted_ = false;
      if (!is_draining_ && lease_->may_claim()) co_await claim_what_is_due(tasks, session);
    }
  }
}

void FleetNode::want_work() {
  work_is_wanted_ = true;
  work_wanted_.notify();
}

awaitable<void> FleetNode::look_for_work(TaskGroup& tasks, const NodeSession& session) {
  auto deadline = Clock::now() + settings_.lease.ttl / 3;
  auto nodes = co_await catalog_.nodes(deadline);
  auto rows = co_await catalog_.claimable(claims_.wanted_offers(), deadline);
  if (!nodes || !rows) {
    log::warn("fleet.no_offers", "why", (nodes ? rows.error() : nodes.error()).what);
    co_return;
  }
  claims_.on_nodes(candidates_of(*nodes));
  claims_.on_offers(Clock::now(), offers_of(*rows));
  shelf_.want_room(std::max(claims_.lacks_room(), updates_lack_room()));
  co_await claim_what_is_due(tasks, session);
}

awaitable<void> FleetNode::claim_what_is_due(TaskGroup& tasks, const NodeSession& session) {
  while (lease_->may_claim() && !is_draining_) {
    auto unready =
        std::ranges::count_if(owned_, [](const auto& entry) { return !entry.second->is_ready; });
    auto has_room = [this](const Offer& one) {
      return room_for(Clock::now(), shelf_, one).has_value();
    };
    auto offer = claims_.next(Clock::now(), has_room, static_cast<std::size_t>(unready));
    if (!offer) co_return;
    co_await try_claim(tasks, session, *std::move(offer));
  }
}

bool FleetNode::owns(const std::string& repo) const {
  auto is_it = [&](const auto& entry) { return entry.second->repo == repo; };
  return std::ranges::any_of(owned_, is_it) || std::ranges::any_of(coming_, is_it);
}

std::vector<Offer> FleetNode::offers_of(const std::vector<Row>& rows) {
  std::vector<Offer> offers;
  offered_.clear();
  auto before = std::exchange(offered_since_, {});
  auto now = Clock::now();
  for (const auto& row : rows) {
    auto parts = parse_row_key(row.key);
    auto note = parse_note(row.note);
    auto spec = parse_spec(row.spec);
    if (!parts || !note || !spec) continue;
    auto offer = offer_of(row.key, std::string(parts->repo), row.rank, *note);
    offer.is_here = held_.contains(offer.repo);
    offer.is_ours = owns(offer.repo);
    offer.is_pinned = spec->is_pinned;
    offer.was_evicted = shelf_.was_evicted(now, offer.repo);
    offer.zones = claims_.zones_of(owners_.beside(row.key));
    offered_[row.key] = row;
    auto seen = before.find(row.key);
    if (seen == before.end()) {  // only then it is decided when its turn comes
      auto remote = RemoteUrl::parse(spec->url, settings_.rules);
      offer.has_mirror = remote && fetcher_->mirrors().has(remote->url);
    }
    offered_since_[row.key] = seen == before.end() ? now : seen->second;
    offers.push_back(std::move(offer));
  }
  return offers;
}

bool FleetNode::make_room(const Offer& offer) {
  auto going = room_for(Clock::now(), shelf_, offer);
  if (!going) return false;
  for (const auto& repo : *going) evict(repo);
  return offer.is_here || shelf_.reserve(offer.repo, offer.bytes);
}

awaitable<void> FleetNode::try_claim(TaskGroup& tasks, NodeSession session, Offer offer) {
  // Two replicas may be on offer in one look.
  if (owns(offer.repo)) {
    claims_.on_answer(offer.key);
    co_return;
  }
  if (!make_room(offer)) {
    claims_.on_answer(offer.key);
    co_return;
  }
  InCall call(in_call_, offer.key);
  auto claim = co_await catalog_.claim(session, offer.key, Clock::now() + settings_.lease.ttl / 3);
  claims_.on_answer(offer.key);
  if (!claim) {
    shelf_.unreserve(offer.repo);
    if (claim.error().code == Errc::lease_lost) lease_->on_lost(session);
    co_return;
  }
  const auto& row = offered_.at(offer.key);
  auto owned = std::make_shared<Owned>();
  owned->claim = *std::move(claim);
  owned->repo = offer.repo;
  owned->spec = *parse_spec(row.spec);
  owned->attempts = row.attempts;
  owned->last = parse_note(row.note).value_or(RepoNote());
  owned->warming = std::make_shared<Warming>(std::chrono::milliseconds(owned->last.fetch_ms),
                                             std::chrono::milliseconds(owned->last.index_ms));
  owned->changed = std::make_unique<Event>(executor_);
  owned->phase_changed = std::make_unique<Event>(executor_);
  auto latency = Clock::now() - offered_since_.at(offer.key);
  owned->claim_latency = std::chrono::duration_cast<std::chrono::milliseconds>(latency);
  claim_latencies_.observe(static_cast<double>(owned->claim_latency.count()));
  owned->journey.begin(tracer_, "fleet.claim", owned->repo);
  owned->journey.set("key", offer.key);
  owned->journey.set("epoch", to_string(owned->claim.epoch));
  owned->journey.set("node", settings_.lease.name);
  owned->journey.set("claim_latency_ms", owned->claim_latency.count());
  owned_[offer.key] = owned;
  log::info("fleet.claimed", "repo", owned->repo, "key", offer.key, "epoch",
            to_string(owned->claim.epoch));
  tasks.start("fleet.own", own(owned));
  tasks.start("fleet.note", note_phases(owned));
}

// What others change in our rows: a pin, another ref, the wish to have it indexed again, its removal.
awaitable<void> FleetNode::follow_rows(NodeSession session) {
  position_.clear();
  for (;;) {
    auto now = Clock::now();
    auto wait = returns_.owes_nothing() ? std::chrono::milliseconds(10s) : settings_.look;
    auto position = position_;
    auto changes = co_await catalog_.changes(std::move(position), now + wait, now + 20s);
    if (!changes) {
      co_await sleep_for(settings_.look);
      continue;
    }
    position_ = changes->position;
    if (changes->is_everything) counted_.clear();
    bool is_one_free = false;
    auto moved = owners_.on_changes(*changes);
    for (const auto& row : changes->rows) {
      on_gone_row(row);
      is_one_free = is_one_free || row.owner.empty();
      if (!row.owner.empty()) claims_.on_taken(row.key);
      on_row(row, session);
    }
    on_gone(*changes);
    for (const auto& repo : moved) {
      auto slots = repo + "#";
      for (auto at = offered_.lower_bound(slots);
           at != offered_.end() && at->first.starts_with(slots); ++at)
        claims_.on_beside(Clock::now(), at->first, owners_.beside(at->first));
    }
    if (is_one_free) want_work();
    returns_.on_changes(*changes, session);
    co_await give_back_what_is_due();
  }
}

void FleetNode::on_gone(const Changes& changes) {
  std::set<std::string_view> seen;
  for (const auto& row : changes.rows) seen.insert(row.key);
  auto is_gone = [&](const std::string& key) {
    return (changes.is_everything && !seen.contains(key)) ||
           std::ranges::find(changes.removed, key) != changes.removed.end();
  };
  for (const auto& key : changes.removed)
    if (auto repo = repo_of_gone(key)) counted_.erase(std::string(*repo));
  for (auto& [key, owned] : owned_) {
    if (!is_gone(key)) continue;
    owned->leaves = true;
    owned->changed->notify();
    forget_snapshot(owned->repo);
  }
  auto coming = coming_;
  for (const auto& [key, row] : coming)
    if (is_gone(key)) stop_taking(row);
  if (!wish_.empty() && is_gone(wish_)) on_wish_withdrawn();
}

bool FleetNode::is_known(const std::string& key) const {
  return owned_.contains(key) || coming_.contains(key) || in_call_.contains(key);
}

// Rows whose release failed, and those that the catalog says are ours and that we know nothing of: the
// answer to a claim was lost. Nobody else may have them for as long as we live.
awaitable<void> FleetNode::give_back_what_is_due() {
  auto all = returns_.due([this](const std::string& key) { return is_known(key); });
  for (auto& due : all) {
    if (is_known(due.claim.key)) continue;
    log::warn("fleet.row_returned", "key", due.claim.key, "epoch", to_string(due.claim.epoch));
    auto released = co_await release(std::move(due));
    if (!released && released.error().code != Errc::lease_lost) co_return;
  }
}

void FleetNode::on_row(const Row& row, const NodeSession& session) {
  if (row.key == drain_key(session)) return on_drain_wish(row);
  if (coming_.contains(row.key)) return on_coming_row(row, session);
  auto found = owned_.find(row.key);
  if (found == owned_.end()) return;
  auto& owned = *found->second;
  // Told late, of before our claim.
  if (row.epoch < owned.claim.epoch) return;
  if (row.owner != session || row.epoch != owned.claim.epoch) {
    owned.leaves = true;
    owned.changed->notify();
    return;
  }
  auto spec = parse_spec(row.spec);
  if (!spec || to_json(*spec) == to_json(owned.spec)) return;
  owned.spec = *std::move(spec);
  shelf_.on_pinned(owned.repo, owned.spec.is_pinned);
  wake(owned);
}

// Also while its task is busy with what was known before.
void FleetNode::wake(Owned& owned) {
  owned.must_look = true;
  owned.changed->notify();
}

awaitable<void> FleetNode::own(OwnedPtr owned) {
  for (;;) {
    owned->must_look = false;
    if (!is_draining_) {
      auto brought = co_await bring(*owned);
      owned->journey.end(brought);
      shelf_.unreserve(owned->repo);
      co_await heed_origin(*owned);
      co_await note_what_is_lacked(*owned);
      if (!brought) {
        log::warn("fleet.not_served", "repo", owned->repo, "why", brought.error().what);
        // What is served already goes on being served: the next poll may do better.
        if (!owned->is_ready) {
          Release how{.error = valid_utf8(brought.error().what),
                      .wait = claims_.pause(owned->attempts)};
          if (owned->peak_bytes > 0) how.note = to_json(with_peak({}, owned->peak_bytes));
          co_await give_back(*owned, std::move(how));
          co_return;
        }
      }
    }
    if (!is_draining_) co_await wait_for_reason(*owned);
    if (is_draining_ && owned->is_ready && !owned->leaves) {
      bool is_passed = co_await pass_on(*owned);
      if (is_passed) co_return;
    }
    bool stays = owned->is_ready || !is_draining_;
    if (stays && !owned->leaves) continue;
    Release how;
    co_await give_back(*owned, std::move(how));
    co_return;
  }
}

awaitable<void> FleetNode::wait_for_reason(Owned& owned) {
  auto quarter = settings_.poll / 4;
  auto chance = std::hash<std::string>{}(owned.repo) % 1000;
  auto next = Clock::now() + settings_.poll + quarter * static_cast<long>(chance) / 1000;
  if (owned.is_ready && !owned.is_told) next = std::min(next, Clock::now() + tell_again);
  if (!owned.leaves && !owned.must_look) co_await owned.changed->wait(next);
}

// The task's own reference keeps it alive.
void FleetNode::forget(const Owned& owned) {
  auto found = owned_.find(owned.claim.key);
  if (found == owned_.end() || found->second.get() != &owned) return;
  owned_.erase(found);
  owned.phase_changed->notify();
  rows_changed_.notify();
}

awaitable<void> FleetNode::give_back(Owned& owned, Release how) {
  if (owned_.contains(owned.claim.key)) ++drained_.given_back;
  owned.is_ready = false;
  forget(owned);
  Returns::Due due{owned.claim, std::move(how)};
  returns_.owe(due.claim, due.how);
  static_cast<void>(co_await release(std::move(due)));  // what fails is made again
  want_work();
}

Async<> FleetNode::release(Returns::Due due) {
  InCall call(in_call_, due.claim.key);
  auto released = co_await catalog_.release(due.claim, std::move(due.how),
                                            Clock::now() + settings_.lease.ttl / 3);
  returns_.on_released(due.claim, released);
  if (!released && released.error().code != Errc::lease_lost)
    log::warn("fleet.not_released", "key", due.claim.key, "why", released.error().what);
  co_return released;
}

Async<> FleetNode::write(Owned& owned, RowState state, const RepoNote& note) {
  if (owned.is_coming()) co_return ok;  // it is not ours to write yet
  auto claim = owned.claim;
  auto said = note;
  said.claim_ms = static_cast<std::uint64_t>(owned.claim_latency.count());
  auto text = to_json(said);
  auto written = co_await catalog_.write(std::move(claim), state, std::move(text),
                                         Clock::now() + settings_.lease.ttl);
  if (!written && written.error().code == Errc::lease_lost) owned.leaves = true;
  co_return written;
}

awaitable<void> FleetNode::mind_memory() {
  bool is_demoting = false;  // one after the other: a build may wait for the room
  for (;;) {
    co_await sleep_for(is_demoting ? 20ms : 1s);
    busy_.look(Clock::now());
    wake_who_has_room_now();
    auto demoted = shelf_.counters().demoted;
    auto step = shelf_.next(Clock::now());
    is_demoting = false;
    if (!step) continue;
    if (step->act == Shelf::Act::demote)
      co_await demote(step->repo);
    else
      evict(step->repo);
    is_demoting = shelf_.counters().demoted > demoted;
  }
}

// Gone from memory at once; its row is given back by its task.
void FleetNode::evict(const std::string& repo) {
  log::info("fleet.evicted", "repo", repo, "used_bytes", shelf_.used());
  shelf_.on_evicted(Clock::now(), repo);
  held_.erase(repo);
  auto coming = coming_;
  for (const auto& [key, row] : coming)
    if (row->repo == repo) stop_taking(row);
  for (auto& [key, owned] : owned_) {
    if (owned->repo != repo) continue;
    owned->is_ready = false;
    owned->leaves = true;
    owned->changed->notify();
  }
}

}  // namespace warren::fleet
