#include "proof/torture/catalog_worker.h"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/signal_set.hpp>
#include <random>

#include "base/log.h"
#include "primitives/catalog/node_lease.h"
#include "primitives/catalog/open.h"
#include "primitives/catalog/redis.h"
#include "proof/torture/catalog_keeper.h"
#include "proof/torture/journal.h"

namespace warren::torture {

namespace {

using history::RowId;

constexpr auto step = 5ms;
constexpr RowId passing_rows = 4;
constexpr std::size_t most_held = 4;  // so that others also get some

enum class Stage { torment, settle, still };

class Worker {
 public:
  Worker(Catalog& catalog, const asio::any_io_executor& executor, const WorkerTerms& terms)
      : catalog_(catalog),
        terms_(terms),
        lease_(executor, catalog, {fmt::format("n{}", terms.process), terms.ttl},
               [] { return std::string("{}"); }),
        journal_(terms.journal),
        keeper_(journal_.catalog(), terms.process),
        random_(terms.seed) {}

  // Runs until it is cancelled.
  awaitable<void> run() {
    using namespace asio::experimental::awaitable_operators;
    co_await (lease_.run() && watch() && work() && work() && follow());
  }
  void settle() { stage_ = std::max(stage_, Stage::settle); }
  void be_still() { stage_ = Stage::still; }
  awaitable<void> leave();
  // Compares what the catalog has with what the changes reported, until they agree or never will.
  awaitable<void> compare();

 private:
  double unit() { return std::uniform_real_distribution<>(0, 1)(random_); }
  Clock::duration part_of_ttl(double most) {
    return std::chrono::duration_cast<Clock::duration>(terms_.ttl * (most * unit()));
  }
  Clock::time_point soon() const { return Clock::now() + terms_.ttl / 2; }
  template <class T>
  const T* one_of(const T* begin, std::size_t count) {
    return count == 0 ? nullptr : begin + random_() % count;
  }

  void look_at_lease();
  awaitable<void> watch();
  awaitable<void> work();
  awaitable<void> follow();
  awaitable<void> do_something();
  awaitable<void> mind_strays();
  awaitable<void> add_rows();
  awaitable<void> look_for_work();
  awaitable<void> write_somewhere();
  awaitable<void> write_late();
  awaitable<void> give_back(Claim claim);
  awaitable<void> hand_over(Claim claim);
  awaitable<void> change_passing_rows();

  Catalog& catalog_;
  const WorkerTerms& terms_;
  NodeLease lease_;
  Journal journal_;
  CatalogKeeper keeper_;
  std::mt19937_64 random_;
  Stage stage_ = Stage::torment;
};

// With the planted mistake it believes for three times as long.
void Worker::look_at_lease() {
  auto deadline = lease_.deadline();
  if (terms_.is_reckless && !lease_.session().empty()) deadline += 2 * terms_.ttl;
  keeper_.on_lease(Clock::now(), lease_.session(), deadline);
}

awaitable<void> Worker::watch() {
  for (;;) {
    look_at_lease();
    // Taken first: the process may stand still for any time between this and the next line.
    auto now = Clock::now();
    if (lease_.may_serve()) keeper_.serve(now);
    journal_.write();
    co_await sleep_for(step);
  }
}

awaitable<void> Worker::work() {
  co_await add_rows();
  while (stage_ != Stage::still) {
    co_await sleep_for(part_of_ttl(0.03));
    look_at_lease();
    if (lease_.may_claim()) co_await do_something();
    journal_.write();
  }
}

awaitable<void> Worker::do_something() {
  co_await mind_strays();
  auto claims = keeper_.idle_claims();
  const auto* some = one_of(claims.data(), claims.size());
  auto chance = unit();
  bool adds = stage_ == Stage::settle ? chance < 0.1 : chance >= 0.95 && chance < 0.97;
  if (adds)
    co_await add_rows();
  else if (chance < 0.35 || (stage_ == Stage::settle && chance >= 0.65))
    co_await look_for_work();
  else if (chance < 0.65)
    co_await write_somewhere();
  else if (chance < 0.78 && some)
    co_await give_back(*some);
  else if (chance < 0.86 && some)
    co_await hand_over(*some);
  else if (chance < 0.95)
    co_await write_late();
  else
    co_await change_passing_rows();
}

awaitable<void> Worker::mind_strays() {
  for (const auto& stray : keeper_.strays()) {
    if (stray.may_be_kept) {
      keeper_.keep(Clock::now(), stray);
      continue;
    }
    if (keeper_.is_idle(stray.claim.key) && !keeper_.holds(stray.claim.key))
      co_await give_back(stray.claim);
  }
}

// A server may have lost them.
awaitable<void> Worker::add_rows() {
  std::vector<Row> rows;
  for (RowId row = 0; row < wanted_rows; ++row) rows.push_back({.key = wanted_row(row)});
  auto added = co_await catalog_.add(std::move(rows), soon());
  if (!added) log::info("torture.not_added", "why", added.error().what);
}

awaitable<void> Worker::look_for_work() {
  auto since = Clock::now();
  auto rows = co_await catalog_.claimable(10, soon());
  if (!rows) co_return;
  keeper_.on_offered(Clock::now(), since, *rows);
  journal_.write();
  for (const auto& row : *rows) {
    bool is_greedy = stage_ == Stage::settle || keeper_.held() < most_held;
    if (!is_wanted(row.key) || !is_greedy || stage_ == Stage::still) continue;
    if (!keeper_.is_idle(row.key) || keeper_.holds(row.key) || !lease_.may_claim()) continue;
    keeper_.begin(row.key);
    since = Clock::now();
    auto session = lease_.session();
    auto claim = co_await catalog_.claim(session, row.key, soon());
    look_at_lease();
    keeper_.on_claimed(Clock::now(), since, row.key, claim);
    journal_.write();
    if (!claim && claim.error().code == Errc::lease_lost) lease_.on_lost(session);
  }
}

awaitable<void> Worker::write_somewhere() {
  auto claims = keeper_.idle_claims();
  const auto* some = one_of(claims.data(), claims.size());
  if (!some) co_return;
  auto claim = *some;
  keeper_.begin(claim.key);
  auto number = keeper_.next_note();
  auto since = Clock::now();
  auto state = unit() < 0.7 ? RowState::ready : RowState::draining;
  auto written = co_await catalog_.write(claim, state, std::to_string(number), soon());
  look_at_lease();
  keeper_.done(claim.key);
  keeper_.on_written(Clock::now(), since, claim, number, written);
}

// Does what a process does that has lost a row and does not know it.
awaitable<void> Worker::write_late() {
  if (keeper_.over().empty()) co_return;
  auto claim = keeper_.over()[random_() % keeper_.over().size()];
  for (int i = 0; i < 2; ++i) {
    auto number = keeper_.next_note();
    auto since = Clock::now();
    auto written = co_await catalog_.write(claim, RowState::ready, std::to_string(number), soon());
    keeper_.on_written(Clock::now(), since, claim, number, written);
    journal_.write();
  }
}

awaitable<void> Worker::give_back(Claim claim) {
  keeper_.let_go(Clock::now(), claim);
  journal_.write();
  Release how;
  if (stage_ == Stage::torment && unit() < 0.3) {
    how.error = "planted";
    how.wait = std::chrono::duration_cast<std::chrono::milliseconds>(part_of_ttl(0.3));
  }
  auto since = Clock::now();
  auto released = co_await catalog_.release(claim, how, soon());
  keeper_.on_released(Clock::now(), since, claim, released);
}

awaitable<void> Worker::hand_over(Claim claim) {
  auto nodes = co_await catalog_.nodes(soon());
  if (!nodes) co_return;
  std::erase_if(*nodes, [&](const Node& node) { return node.session == claim.session; });
  const auto* some = one_of(nodes->data(), nodes->size());
  if (!some || !keeper_.is_idle(claim.key) || !keeper_.holds(claim.key)) co_return;
  keeper_.let_go(Clock::now(), claim);
  journal_.write();
  auto since = Clock::now();
  auto next = co_await catalog_.hand_over(claim, some->session, soon());
  Result<> answer = ok;
  if (!next) answer = std::unexpected(next.error());
  keeper_.on_released(Clock::now(), since, claim, answer);
}

awaitable<void> Worker::change_passing_rows() {
  auto key = passing_row(static_cast<RowId>(random_() % passing_rows));
  auto chance = unit();
  Result<> done = ok;
  if (chance < 0.4) {
    std::vector<Row> rows{{.key = key, .rank = -1000}};
    auto added = co_await catalog_.add(std::move(rows), soon());
    if (!added) done = std::unexpected(added.error());
  } else if (chance < 0.7) {
    RowChange change{.spec = std::to_string(random_() % 1000)};
    done = co_await catalog_.change(key, std::move(change), soon());
  } else {
    std::vector<std::string> keys{key};
    auto removed = co_await catalog_.remove(std::move(keys), soon());
    if (!removed) done = std::unexpected(removed.error());
  }
  if (!done && done.error().code != Errc::not_found)
    log::info("torture.not_changed", "key", key, "why", done.error().what);
}

awaitable<void> Worker::follow() {
  std::string position;
  for (;;) {
    auto since = Clock::now();
    auto changes = co_await catalog_.changes(position, since + terms_.ttl, since + 2 * terms_.ttl);
    if (changes) {
      position = changes->position;
      look_at_lease();
      keeper_.on_changes(Clock::now(), since, *changes);
      journal_.write();
    } else {
      co_await sleep_for(part_of_ttl(0.1));
    }
  }
}

awaitable<void> Worker::compare() {
  std::uint64_t theirs = 0;
  for (auto end = Clock::now() + 5 * terms_.ttl; Clock::now() < end;) {
    auto listed = co_await catalog_.changes("", Clock::now(), Clock::now() + terms_.ttl);
    if (listed) theirs = digest_of(listed->rows);
    if (listed && theirs == keeper_.digest()) break;
    co_await sleep_for(10 * step);
  }
  keeper_.note_contents(Clock::now(), theirs);
  journal_.write();
}

awaitable<void> Worker::leave() {
  keeper_.on_lease(Clock::now(), "", {});
  journal_.write();
  auto left = co_await lease_.leave(Clock::now() + terms_.ttl);
  if (!left) log::info("torture.not_left", "why", left.error().what);
}

Async<std::unique_ptr<Catalog>> open(redis::Client& client, const WorkerTerms& terms) {
  if (terms.catalog.empty())
    co_return std::make_unique<RedisCatalog>(client, std::string(catalog_prefix));
  // Its server may be away just now.
  for (;;) {
    CatalogPlace place{.url = terms.catalog, .prefix = catalog_prefix};
    auto catalog = co_await open_catalog(std::move(place), Clock::now() + 2 * terms.ttl);
    if (catalog) co_return catalog;
    log::info("torture.not_opened", "why", catalog.error().what);
    co_await sleep_for(terms.ttl / 10);
  }
}

}  // namespace

awaitable<void> run_catalog_worker(redis::Client& client, const WorkerTerms& terms) {
  asio::signal_set signals(client.executor(), SIGTERM, SIGUSR1, SIGUSR2);
  auto catalog = co_await open(client, terms);
  Worker worker(**catalog, client.executor(), terms);
  {
    TaskGroup group(client.executor());
    group.start("torture.node", worker.run());
    for (int signal = 0; signal != SIGTERM;) {
      signal = co_await signals.async_wait(asio::use_awaitable);
      if (signal == SIGUSR1) worker.settle();
      if (signal != SIGUSR2) continue;
      worker.be_still();
      co_await sleep_for(terms.ttl);  // until all are still
      co_await worker.compare();
    }
    co_await worker.leave();
    group.stop();
    co_await group.join();
  }
  co_await (*catalog)->close();
  co_await client.close();
}

}  // namespace warren::torture
