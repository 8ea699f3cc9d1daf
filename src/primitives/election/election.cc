#include "primitives/election/election.h"

#include <charconv>

#include "base/log.h"

namespace warren {

using namespace asio::experimental::awaitable_operators;

Election::Election(LeaseSession& session, ElectionTerms terms)
    : session_(session), terms_(std::move(terms)), resign_(session.client().executor()) {}

bool Election::is_leader() const {
  return is_alone_ ||
         (lease_ && lease_->state() != LeaseState::ended && Clock::now() < lease_->deadline());
}

Async<> Election::campaign(std::function<Async<>(Term)> reign) {
  for (bool is_over = false;;) {
    // A candidate that may lead alone checks from time to time whether it is alone.
    auto patience = terms_.leads_alone ? Clock::duration(terms_.ttl) : Clock::duration(1h);
    LeaseTerms terms{terms_.key, terms_.candidate, terms_.ttl};
    auto lease = co_await session_.acquire(std::move(terms), Clock::now() + patience);
    Result<> result = ok;
    if (lease) {
      result = co_await lead(std::move(*lease), reign, is_over);
    } else {
      auto code = lease.error().code;
      if (code == Errc::invalid || code == Errc::cancelled)
        co_return std::unexpected(lease.error());
      auto reachable = co_await session_.client().ready(Clock::now());
      if (!reachable && terms_.leads_alone) {
        result = co_await lead_alone(reign, is_over);
      } else if (code != Errc::timeout) {
        log::warn("election.failed", "key", terms_.key, "why", lease.error().what);
        co_await sleep_for(1s);
      }
    }
    if (is_over) co_return result;
  }
}

Async<> Election::lead(Lease lease, const std::function<Async<>(Term)>& reign, bool& is_over) {
  log::info("election.won", "key", terms_.key, "candidate", terms_.candidate, "token",
            to_string(lease.token()));
  lease_ = &lease;
  struct Forget {
    const Lease*& lease;
    ~Forget() { lease = nullptr; }
  } forget{lease_};
  Term term{&lease, lease.token()};
  auto first = co_await (reign(term) || lease.ended() || resigned());
  if (first.index() == 1) {
    log::warn("election.lost", "key", terms_.key, "why", lease.why().what);
    co_return ok;
  }
  log::info("election.resigned", "key", terms_.key);
  lease_ = nullptr;
  auto released = co_await lease.release();
  if (!released) log::warn("election.released_late", "why", released.error().what);
  if (first.index() == 2) co_return ok;
  is_over = true;
  co_return std::get<0>(std::move(first));
}

Async<> Election::lead_alone(const std::function<Async<>(Term)>& reign, bool& is_over) {
  log::warn("election.leads_alone", "key", terms_.key, "candidate", terms_.candidate);
  is_alone_ = true;
  struct Forget {
    bool& is_alone;
    ~Forget() { is_alone = false; }
  } forget{is_alone_};
  Term term{nullptr, {}};
  auto first = co_await (reign(term) || redis_is_back() || resigned());
  if (first.index() != 0) co_return ok;
  is_over = true;
  co_return std::get<0>(std::move(first));
}

awaitable<void> Election::resigned() { co_await resign_.wait(); }

awaitable<void> Election::redis_is_back() {
  Result<> ready = fail(Errc::unavailable, "");
  while (!ready) ready = co_await session_.client().ready(Clock::now() + 1s);
}

void Election::resign() { resign_.notify(); }

Async<std::optional<Leader>> Election::observe() {
  auto& client = session_.client();
  std::vector<redis::Command> questions;
  questions.emplace_back("GET", terms_.key);
  questions.emplace_back("GET", LeaseMachine::fence_key(terms_.key));
  auto answers = co_await client.transaction(std::move(questions));
  if (!answers) co_return std::unexpected(answers.error());
  if (answers->items.size() != 2 || answers->items[0].is_null()) co_return std::nullopt;
  Leader leader{answers->items[0].text, {}, {}};
  // The words are epoch, counter, attempt, session, since, until.
  std::vector<std::uint64_t> numbers;
  const auto& record = answers->items[1].text;
  for (std::size_t at = 0; at < record.size();) {
    auto end = std::min(record.find(' ', at), record.size());
    std::uint64_t number = 0;
    std::from_chars(record.data() + at, record.data() + end, number);
    numbers.push_back(number);
    at = end + 1;
  }
  if (numbers.size() >= 5) {
    leader.token = {numbers[0], numbers[1]};
    leader.since = WallClock::time_point(std::chrono::microseconds(numbers[4]));
  }
  co_return leader;
}

}  // namespace warren
