#include "services/board/agent/agent.h"

#include <algorithm>

#include "base/log.h"
#include "services/board/agent/worktree.h"

namespace warren {

using namespace board;

namespace {

constexpr std::size_t page = 500;
// To index a board means to look at all keys of its server.
constexpr int sweeps_between_indexings = 10;
// Scripts are processes; other bids are two round trips, and share a connection.
constexpr std::size_t scripts_at_once = 8, bids_at_once = 128;

bool awaits_bids(ClaimStatus status) {
  return is_open(status) && status != ClaimStatus::pending_assignment;
}

}  // namespace

Agent::Agent(Board board, AgentTerms terms)
    : board_(std::move(board)),
      terms_(std::move(terms)),
      sweep_wanted_(board_.client().executor()),
      became_ready_(board_.client().executor()) {}

AgentStats Agent::stats() const {
  auto stats = stats_;
  stats.running = running_.size();
  stats.queued = queue_.size();
  return stats;
}

Async<> Agent::run() {
  struct Ended {
    Agent& self;
    ~Ended() {
      self.is_ready_ = false;
      log::info("agent.stopped", "role", self.role_.name);
    }
  } ended{*this};
  FeedTerms hears;
  hears.artefacts = hears.workflow = false;
  hears.grants_to = {role_.name};
  auto body = [](TaskGroup& tasks, BoardFeed& feed, Agent& self) -> Async<> {
    return self.work(tasks, feed);
  };
  auto worked = co_await with_feed(board_.client(), board_.keys(), hears, body, *this);
  co_return worked;
}

awaitable<void> Agent::ready() {
  while (!is_ready_) co_await became_ready_.wait();
}

Async<> Agent::work(TaskGroup& tasks, BoardFeed& feed) {
  // However this ends, nothing new is begun afterwards.
  struct Begun {
    TaskGroup*& tasks;
    ~Begun() { tasks = nullptr; }
  } begun{tasks_};
  tasks_ = &tasks;
  if (role_.workspace == crew::WorkspaceMode::worktree) {
    auto pruned = co_await agent::prune_worktrees(terms_.workspace);
    if (!pruned) log::warn("agent.trees_left", "why", pruned.error().what);
  }
  for (;;) {
    auto settled = co_await feed.settled(Clock::now() + 10s);
    if (settled) break;
    auto code = settled.error().code;
    if (code == Errc::cancelled || code == Errc::denied) co_return settled;
    log::warn("agent.not_listening", "role", role_.name, "why", settled.error().what);
    co_await sleep_for(1s);
  }
  log::info("agent.started", "role", role_.name);
  tasks.start("agent.sweep", keep_sweeping());
  for (;;) {
    auto event = co_await feed.next();
    if (!event) co_return std::unexpected(event.error());
    on_event(*event);
  }
}

void Agent::on_event(const BoardEvent& event) {
  if (std::holds_alternative<Gap>(event)) {
    // What we wrote may be lost with a server.
    std::erase_if(taken_, [this](const std::string& id) { return !is_at(id); });
    needs_sweep_ = true;
    sweeps_until_index_ = 0;
    sweep_wanted_.notify();
  } else if (const auto* claim = std::get_if<Claim>(&event)) {
    // It may be told again because somebody misses our bid.
    bid_on_.erase(claim->id);
    consider(*claim);
  } else if (const auto* grant = std::get_if<Grant>(&event)) {
    if (grant->role != role_.name) return;
    // Told again: somebody misses our result.
    if (!is_at(grant->claim_id)) taken_.erase(grant->claim_id);
    want_work(grant->claim_id);
  } else if (const auto* malformed = std::get_if<Malformed>(&event)) {
    log::warn("agent.misheard", "channel", malformed->channel, "why", malformed->why);
  }
}

awaitable<void> Agent::keep_sweeping() {
  for (;;) {
    needs_sweep_ = false;
    auto swept = co_await sweep();
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return;
    if (!swept) log::warn("agent.sweep_failed", "role", role_.name, "why", swept.error().what);
    if (swept && !std::exchange(is_ready_, true)) became_ready_.notify();
    auto next = Clock::now() + (swept ? terms_.sweep_every : 1s);
    if (!needs_sweep_) co_await sweep_wanted_.wait(next);
  }
}

// The orchestrator of the Go program keeps no indexes. Where none of ours has the board, claims from
// before we came are found only in the data.
Async<> Agent::make_true() {
  redis::Command held("EXISTS", board_.keys().orchestrator());
  auto is_kept = co_await board_.client().ask(std::move(held));
  if (!is_kept) co_return std::unexpected(is_kept.error());
  if (is_kept->number == 1 || --sweeps_until_index_ >= 0) co_return ok;
  auto indexed = co_await board_.reindex();
  if (indexed) sweeps_until_index_ = sweeps_between_indexings;
  if (!indexed) log::warn("agent.not_indexed", "role", role_.name, "why", indexed.error().what);
  co_return ok;
}

Async<> Agent::sweep() {
  auto indexed = co_await make_true();
  if (!indexed) co_return indexed;
  std::set<std::string> open;
  for (auto status : claim_statuses) {
    if (!is_open(status)) continue;
    Listing listing;
    listing.order = Order::oldest_first;
    listing.limit = page;
    do {
      auto claims = co_await board_.claims(status, listing);
      if (!claims) co_return std::unexpected(claims.error());
      for (const auto& claim : claims->items) {
        open.insert(claim.id);
        consider(claim);
      }
      listing.after = claims->next;
    } while (listing.after);
  }
  // What is over need not be remembered.
  auto is_over = [&](const std::string& id) { return !open.contains(id); };
  std::erase_if(bid_on_, is_over);
  std::erase_if(taken_, [&](const std::string& id) { return is_over(id) && !is_at(id); });
  co_return ok;
}

bool Agent::is_at(const std::string& claim_id) const {
  return running_.contains(claim_id) || std::ranges::find(queue_, claim_id) != queue_.end();
}

void Agent::consider(const Claim& claim) {
  if (awaits_bids(claim.status) && !bid_on_.contains(claim.id))
    want_bid({claim.id, claim.artefact_id});
  if (agent::granted_as(claim, role_.name)) want_work(claim.id);
}

void Agent::want_bid(Bidding bidding) {
  if (!bidding_.insert(bidding.claim_id).second) return;
  bids_wanted_.push_back(std::move(bidding));
  pump();
}

void Agent::want_work(const std::string& claim_id) {
  if (!taken_.insert(claim_id).second) return;
  queue_.push_back(claim_id);
  pump();
}

void Agent::pump() {
  auto most_bids = role_.bid_script.empty() ? bids_at_once : scripts_at_once;
  while (tasks_ && !bids_wanted_.empty() && bids_running_ < most_bids) {
    auto bidding = std::move(bids_wanted_.front());
    bids_wanted_.pop_front();
    ++bids_running_;
    tasks_->start("agent.bid", bid(std::move(bidding)));
  }
  auto most_tools = static_cast<std::size_t>(role_.max_concurrent);
  while (tasks_ && !queue_.empty() && running_.size() < most_tools) {
    auto claim_id = std::move(queue_.front());
    queue_.pop_front();
    running_.insert(claim_id);
    tasks_->start("agent.work", perform(std::move(claim_id)));
  }
}

}  // namespace warren
