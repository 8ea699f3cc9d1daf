// What is found by looking, because it happened while nobody listened, or was never told.
#include "base/log.h"
#include "services/board/orchestrator/orchestrator.h"

namespace warren {

using namespace board;
using namespace orchestrator;
using redis::Command;

namespace {

constexpr auto sweep_again_after = 1s;
constexpr auto between_sweeps = 20ms;
constexpr auto between_reindexings = 10s;
constexpr auto heard_for = 200ms;
constexpr std::size_t page_size = 1000;

Listing oldest_first() {
  Listing listing;
  listing.order = Order::oldest_first;
  listing.limit = page_size;
  return listing;
}

void report(const std::vector<Error>& unreadable) {
  for (const auto& error : unreadable) log::warn("orchestrator.skipped", "what", error.what);
}

}  // namespace

awaitable<void> Orchestrator::keep_sweeping() {
  for (;;) {
    needs_sweep_ = false;
    auto done = co_await sweep();
    if (!done && note(done.error(), "sweep", "")) co_return;
    if (done) {
      ++stats_.sweeps;
      if (!is_ready_) log::info("orchestrator.ready", "open_claims", open_.size());
      is_ready_ = true;
      became_ready_.notify();
    }
    auto next = Clock::now() + (done ? Clock::duration(terms_.sweep_every) : sweep_again_after);
    if (!done || !needs_sweep_) co_await sweep_wanted_.wait(next);
    co_await sleep_for(between_sweeps);
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return;
  }
}

Async<> Orchestrator::sweep() {
  if (!is_swept_) {
    auto indexed = co_await begin_indexing();
    if (!indexed) co_return indexed;
  }
  auto done = co_await read_switches();
  if (done) done = co_await find_open_claims();
  if (!done) co_return done;
  is_swept_ = true;
  pump();
  co_return co_await find_unclaimed();
}

// Who was here before may have been the Go program. Where there is nothing in the indexes they are
// made first; otherwise that can wait, since it takes longer the more there is on the board.
Async<> Orchestrator::begin_indexing() {
  Command look("EXISTS", board_.keys().artefact_ids());
  auto options = redis::CallOptions().idempotent();
  auto exists = co_await board_.client().ask(std::move(look), options);
  if (!exists) co_return std::unexpected(exists.error());
  if (exists->number == 1) {
    needs_reindex_ = true;
    heard_any_.notify();
    co_return ok;
  }
  auto reindexed = co_await board_.reindex();
  if (!reindexed) co_return std::unexpected(reindexed.error());
  report(reindexed->unreadable);
  co_return ok;
}

// What users may switch at any time.
Async<> Orchestrator::read_switches() {
  auto heard = switches_heard_;
  std::vector<Command> commands;
  commands.emplace_back("EXISTS", board_.keys().paused());
  commands.emplace_back("SMEMBERS", board_.keys().cancelled());
  commands.emplace_back("HGETALL", board_.keys().cancel_reasons());
  auto options = redis::CallOptions().idempotent();
  auto replies = co_await board_.client().batch(std::move(commands), options);
  for (auto& reply : replies)
    if (!reply) co_return std::unexpected(reply.error());
  if (heard != switches_heard_) co_return ok;  // what was heard is newer than these answers
  bool is_paused = replies[0]->number == 1;
  if (is_paused != is_paused_)
    log::info(is_paused ? "orchestrator.paused" : "orchestrator.resumed");
  is_paused_ = is_paused;
  cancelled_.clear();
  for (const auto& item : replies[1]->items) {
    const auto* reason = replies[2]->find(item.text);
    cancelled_[item.text] = reason ? reason->text : "";
  }
  co_return ok;
}

Async<> Orchestrator::find_open_claims() {
  std::set<std::string> gone;
  for (auto& id : open_.ids()) gone.insert(std::move(id));
  for (auto status : claim_statuses) {
    if (!is_open(status)) continue;
    auto listing = oldest_first();
    do {
      auto page = co_await board_.claims(status, listing);
      if (!page) co_return std::unexpected(page.error());
      report(page->unreadable);
      for (const auto& claim : page->items) {
        gone.erase(claim.id);
        if (!open_.find(claim.id)) open_.add(claim);
        open_.check(claim.id);
      }
      listing.after = page->next;
    } while (listing.after);
  }
  for (const auto& id : gone) open_.check(id);
  co_return ok;
}

Async<> Orchestrator::find_unclaimed() {
  auto listing = oldest_first();
  listing.limit = 50;  // with their payloads, which may be large
  do {
    auto page = co_await board_.unclaimed(listing);
    if (!page) co_return std::unexpected(page.error());
    report(page->unreadable);
    // Also those that have a claim, and were put back while it was made: that takes them out.
    for (const auto& artefact : page->items) claim_soon(part_of(artefact));
    pump();
    listing.after = page->next;
  } while (listing.after);
  co_return ok;
}

// Has the indexes follow what the Go program writes: at once what is heard of, and after a time
// during which nothing was heard, everything.
awaitable<void> Orchestrator::keep_indexed() {
  auto reindexed_at = Clock::now() - between_reindexings;
  for (;;) {
    if (heard_.empty() && !needs_reindex_) co_await heard_any_.wait();
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return;
    if (needs_reindex_ && Clock::now() > reindexed_at + between_reindexings) {
      needs_reindex_ = false;
      reindexed_at = Clock::now();
      auto reindexed = co_await board_.reindex();
      if (reindexed) {
        report(reindexed->unreadable);
        sweep_soon();
      } else if (note(reindexed.error(), "reindex", "")) {
        co_return;
      } else {
        needs_reindex_ = true;
      }
    }
    co_await sleep_for(heard_for);
    auto adopted = co_await adopt(std::exchange(heard_, {}));
    if (!adopted && note(adopted.error(), "adopt", "")) co_return;
    if (!adopted) needs_reindex_ = true;
  }
}

Async<> Orchestrator::adopt(std::vector<Heard> heard) {
  for (std::size_t from = 0; from < heard.size(); from += page_size) {
    auto to = std::min(heard.size(), from + page_size);
    Words words{"ZMSCORE", board_.keys().artefacts()};
    for (auto i = from; i < to; ++i) words.push_back(heard[i].artefact.id);
    Command look(words);
    auto options = redis::CallOptions().idempotent();
    auto reply = co_await board_.client().ask(std::move(look), options);
    if (!reply) co_return std::unexpected(reply.error());
    for (auto i = from; i < to && i - from < reply->items.size(); ++i) {
      if (!reply->items[i - from].is_null()) continue;
      auto adopted = co_await board_.adopt(heard[i].artefact);
      if (!adopted) co_return adopted;
      // A claim that was read before the artefact was in the index does not know it.
      open_.on_child(heard[i].part, heard[i].artefact.source_artefacts);
      pump();
    }
  }
  co_return ok;
}

}  // namespace warren
