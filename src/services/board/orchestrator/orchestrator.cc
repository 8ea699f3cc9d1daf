// What is heard, and whose turn it is. What a claim needs is in look.cc, what is found without
// having been heard of in sweep.cc.
#include "services/board/orchestrator/orchestrator.h"

#include <utility>

#include "base/log.h"
#include "services/board/store/json_parts.h"

namespace warren {

using namespace board;
using namespace orchestrator;

namespace {

// How many claims wait for Redis at once.
constexpr std::size_t most_looks = 256;

std::string text_in(const WorkflowEvent& event, std::string_view member) {
  return parts::text(event.data.if_contains(member)).value_or("");
}

}  // namespace

Orchestrator::Orchestrator(Board board, Fencing fencing, OrchestratorTerms terms)
    : board_(std::move(board)),
      fencing_(std::move(fencing)),
      terms_(std::move(terms)),
      open_(terms_),
      workflows_(board_),
      over_(board_.client().executor()),
      sweep_wanted_(board_.client().executor()),
      heard_any_(board_.client().executor()),
      time_changed_(board_.client().executor()),
      became_ready_(board_.client().executor()) {}

Async<> Orchestrator::run() {
  struct Ended {
    Orchestrator& self;
    ~Ended() {
      self.tasks_ = nullptr;
      self.is_ready_ = false;
    }
  } ended{*this};
  auto body = [](TaskGroup& tasks, BoardFeed& feed, Orchestrator& self) -> Async<> {
    return self.work(tasks, feed);
  };
  FeedTerms everything;
  auto worked = co_await with_feed(board_.client(), board_.keys(), everything, body, *this);
  co_return worked;
}

awaitable<void> Orchestrator::ready() {
  while (!is_ready_) co_await became_ready_.wait();
}

Async<> Orchestrator::work(TaskGroup& tasks, BoardFeed& feed) {
  tasks_ = &tasks;
  for (;;) {
    auto settled = co_await feed.settled(Clock::now() + 10s);
    if (settled) break;
    if (settled.error().code == Errc::cancelled) co_return settled;
    log::warn("orchestrator.not_subscribed", "what", settled.error().what);
    co_await sleep_for(1s);
  }
  tasks.start("orchestrator.listen", listen(feed));
  tasks.start("orchestrator.sweep", keep_sweeping());
  tasks.start("orchestrator.index", keep_indexed());
  tasks.start("orchestrator.time", keep_time());
  while (!lost_) {
    co_await over_.wait();
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return fail(Errc::cancelled, "the orchestrator was stopped");
  }
  log::warn("orchestrator.lost_its_lease", "what", lost_->what);
  co_return std::unexpected(*lost_);
}

awaitable<void> Orchestrator::listen(BoardFeed& feed) {
  for (;;) {
    auto event = co_await feed.next();
    if (!event && event.error().code == Errc::cancelled) co_return;
    if (!event) continue;
    ++stats_.events;
    on_event(*std::move(event));
    pump();
  }
}

void Orchestrator::on_event(BoardEvent event) {
  if (std::holds_alternative<Gap>(event)) {
    ++stats_.gaps;
    log::info("orchestrator.missed_events");
    open_.doubt_all();
    workflows_.forget();
    needs_reindex_ = true;
    heard_any_.notify();
    sweep_soon();
  } else if (auto* artefact = std::get_if<Artefact>(&event)) {
    on_artefact(std::move(*artefact));
  } else if (auto* claim = std::get_if<Claim>(&event)) {
    if (!is_open(claim->status) || open_.find(claim->id)) return;
    open_.add(*claim).facts.told_at = Clock::now();
    open_.look_at(claim->id);
  } else if (auto* workflow = std::get_if<WorkflowEvent>(&event)) {
    on_workflow_event(*workflow);
  } else if (auto* malformed = std::get_if<Malformed>(&event)) {
    ++stats_.malformed;
    log::warn("orchestrator.ignored_event", "channel", malformed->channel, "why", malformed->why);
  }
}

void Orchestrator::on_artefact(Artefact artefact) {
  auto part = part_of(artefact);
  artefact.payload.clear();
  open_.on_child(part, artefact.source_artefacts);
  workflows_.on_artefact(artefact);
  if (needs_claim(artefact.structural_type) && !open_.has_claim_on(part.id)) claim_soon(part);
  if (heard_.empty()) heard_any_.notify();
  heard_.push_back({std::move(artefact), std::move(part)});
}

void Orchestrator::claim_soon(const Part& target) {
  if (claiming_.insert(target.id).second) unclaimed_.push_back(target);
}

void Orchestrator::on_workflow_event(const WorkflowEvent& event) {
  if (event.name == "bid_submitted") {
    auto bid = parse_bid_type(text_in(event, "bid_type")).value_or(BidType::ignore);
    open_.on_bid(text_in(event, "claim_id"), text_in(event, "agent_name"), bid);
  } else if (event.name == "claim_terminated" || event.name == "claim_completed") {
    open_.doubt(text_in(event, "claim_id"));
  } else if (event.name == "orchestrator_paused") {
    ++switches_heard_;
    is_paused_ = true;
  } else if (event.name == "orchestrator_resumed") {
    ++switches_heard_;
    is_paused_ = false;
    open_.look_at_all();
  } else if (event.name == "goal_cancelled") {
    ++switches_heard_;
    cancelled_[text_in(event, "goal_id")] = text_in(event, "reason");
    open_.look_at_all();
  } else if (event.name == "claim_retried") {
    ++switches_heard_;
    cancelled_.erase(text_in(event, "goal_id"));
  }
}

// Starts as many looks as may go on at once. Before all open claims are known nobody is granted
// anything, since nobody knows who has grants.
void Orchestrator::pump() {
  if (!tasks_ || !is_swept_ || is_pumping_) return;
  is_pumping_ = true;  // a look may end before start() returns
  while (looks_ < most_looks && !unclaimed_.empty()) {
    auto target = std::move(unclaimed_.front());
    unclaimed_.pop_front();
    ++looks_;
    tasks_->start("orchestrator.claim", claim(std::move(target)));
  }
  while (looks_ < most_looks) {
    auto next = open_.next();
    if (!next) break;
    ++looks_;
    tasks_->start("orchestrator.look", look(*std::move(next)));
  }
  is_pumping_ = false;
}

awaitable<void> Orchestrator::keep_time() {
  for (;;) {
    open_.wake(Clock::now());
    pump();
    next_wake_ = open_.next_wake();
    co_await time_changed_.wait(std::min(next_wake_, Clock::now() + 1h));
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return;
  }
}

WriteTerms Orchestrator::writing() const {
  WriteTerms terms;
  terms.fence = fencing_();
  return terms;
}

bool Orchestrator::note(const Error& error, std::string_view what, std::string_view id) {
  if (error.code == Errc::cancelled) return true;
  if (error.code == Errc::lease_lost) {
    if (!lost_) lost_ = error;
    over_.notify();
    return true;
  }
  ++stats_.errors;
  log::warn("orchestrator.failed", "to", what, "id", id, "code", name(error.code), "what",
            error.what);
  return false;
}

void Orchestrator::sweep_soon() {
  needs_sweep_ = true;
  sweep_wanted_.notify();
}

OrchestratorStats Orchestrator::stats() const {
  auto stats = stats_;
  stats.is_ready = is_ready_;
  stats.is_paused = is_paused_;
  stats.open_claims = open_.size();
  stats.waiting_looks = open_.in_line() + unclaimed_.size();
  return stats;
}

std::shared_ptr<void> Orchestrator::publish(Metrics& metrics) const {
  std::string begin = "warren_orchestrator_";
  auto total = [&](const char* what, const char* help) {
    return metrics.counter(begin + what + "_total", help);
  };
  auto collect = [this, ready = metrics.gauge(begin + "is_ready", "1 when it hears everything."),
                  paused = metrics.gauge(begin + "is_paused", "1 when nothing is granted."),
                  open = metrics.gauge(begin + "open_claims", "Claims that are not over."),
                  waiting = metrics.gauge(begin + "waiting_looks", "Whose turn has not come."),
                  events = total("events", "Events heard."),
                  malformed = total("malformed_events", "Events that cannot be read."),
                  gaps = total("gaps", "Times when events may have been missed."),
                  created = total("claims_created", "Claims made."),
                  grants = total("grants", "Grants made."),
                  queued = total("claims_queued", "Claims that had to wait for a worker."),
                  completed = total("claims_completed", "Claims that were completed."),
                  terminated = total("claims_terminated", "Claims that were terminated."),
                  errors = total("errors", "What failed and was tried again.")]() mutable {
    auto now = stats();
    ready.set(now.is_ready ? 1 : 0);
    paused.set(now.is_paused ? 1 : 0);
    open.set(double(now.open_claims));
    waiting.set(double(now.waiting_looks));
    events.raise_to(double(now.events));
    malformed.raise_to(double(now.malformed));
    gaps.raise_to(double(now.gaps));
    created.raise_to(double(now.claims_created));
    grants.raise_to(double(now.grants));
    queued.raise_to(double(now.claims_queued));
    completed.raise_to(double(now.claims_completed));
    terminated.raise_to(double(now.claims_terminated));
    errors.raise_to(double(now.errors));
  };
  return metrics.on_collect(std::move(collect));
}

}  // namespace warren
