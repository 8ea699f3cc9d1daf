// How an agent bids: its filter, its script, its strategy.
#include "services/board/agent/agent.h"
#include "services/board/agent/contract.h"
#include "services/board/agent/insist.h"
#include "services/board/agent/job.h"
#include "services/board/store/encoding.h"

namespace warren {

using namespace board;
using agent::insist;

awaitable<void> Agent::bid(Bidding bidding) {
  // When we are cancelled, the container of a script is put away first.
  co_await asio::this_coro::throw_if_cancelled(false);
  auto chosen = co_await choose_bid(bidding);
  Result<> done = ok;
  if (chosen && *chosen) {
    auto set = [&] { return board_.set_bid(bidding.claim_id, role_.name, **chosen); };
    done = co_await insist(set);
  }
  bool is_there = chosen && done;
  if (is_there) {
    bid_on_.insert(bidding.claim_id);
    stats_.bids += chosen->has_value();
    if (*chosen)
      log::debug("agent.bid", "role", role_.name, "claim", bidding.claim_id, "bid", name(**chosen));
  } else {
    const auto& why = chosen ? done.error() : chosen.error();
    if (why.code != Errc::cancelled)
      log::warn("agent.bid_failed", "role", role_.name, "claim", bidding.claim_id, "why", why.what);
  }
  bidding_.erase(bidding.claim_id);
  --bids_running_;
  pump();
}

// None: this role has bid already, and a script need not be asked again.
Async<std::optional<BidType>> Agent::choose_bid(const Bidding& bidding) {
  if (!role_.bid_script.empty()) {
    auto read = [&] { return board_.bids(bidding.claim_id); };
    auto bids = co_await insist(read);
    if (!bids) co_return std::unexpected(bids.error());
    if (bids->contains(role_.name)) co_return std::nullopt;
  }
  auto read = [&] { return board_.artefact(bidding.artefact_id); };
  auto artefact = co_await insist(read);
  if (!artefact) {
    auto code = artefact.error().code;
    bool is_unreadable = code == Errc::not_found || code == Errc::protocol;
    if (!is_unreadable) co_return std::unexpected(artefact.error());
    co_return BidType::ignore;
  }
  if (!crew::admits(role_, *artefact)) co_return BidType::ignore;
  if (!role_.bid_script.empty()) {
    auto asked = co_await ask_script(*artefact);
    if (asked || asked.error().code == Errc::cancelled) co_return asked;
    log::warn("agent.bid_script_failed", "role", role_.name, "why", asked.error().what);
  }
  co_return role_.bidding_strategy.value_or(BidType::ignore);
}

Async<BidType> Agent::ask_script(Artefact artefact) {
  auto terms = agent::terms_for_role(role_, terms_.workspace);
  terms.argv = role_.bid_script;
  terms.input = to_json(artefact) + "\n";
  terms.timeout = role_.bid_timeout;
  auto end = co_await agent::run_for_role(role_, std::move(terms));
  if (!end) co_return std::unexpected(end.error());
  auto wrong = agent::complaint(*end, role_.bid_timeout);
  if (!wrong.empty()) co_return fail(Errc::refused, "{}", wrong);
  co_return agent::parse_bid(end->out);
}

}  // namespace warren
