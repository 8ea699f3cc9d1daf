#include "proof/torture/catalog_torture.h"

#include <signal.h>

#include "proof/history/catalog_checkers.h"
#include "proof/torture/catalog_worker.h"
#include "proof/torture/journal.h"

namespace warren::torture {

namespace {

using history::CatalogEvent;
using history::CatalogHistory;
using history::CatalogJudge;
using history::ProcessId;
using history::Verdict;
using history::Violation;

constexpr std::chrono::milliseconds fault_unit = 1000ms;

std::unique_ptr<Place> place_for(const RoundOptions& options, CatalogEngine engine) {
  switch (engine) {
    case CatalogEngine::postgres:
      return make_postgres_place({worker_count, fault_unit});
    case CatalogEngine::etcd:
      return make_etcd_place({worker_count, fault_unit});
    case CatalogEngine::redis:
      return make_arena(arena_of(options.seed),
                        {.workers = worker_count,
                         .ttl = fault_unit,
                         .clock_shim = options.clock_shim,
                         .keys = {std::string("{") + catalog_prefix + "}:rows"}});
  }
  std::abort();
}

// gRPC waits by the kernel's time of day, which cannot be falsified for a process: its clock and
// the kernel's would differ, which they never do.
RoundOptions honest_for(RoundOptions options, CatalogEngine engine) {
  if (engine == CatalogEngine::etcd) options.clock_shim.clear();
  return options;
}

class CatalogRound : public Round {
 public:
  CatalogRound(const RoundOptions& options, CatalogEngine engine)
      : Round(honest_for(options, engine), place_for(options, engine)), engine_(engine) {}

 private:
  std::vector<std::string> words_for(std::size_t slot, ProcessId process) override;
  void calm_down() override;
  Verdict judge() override;
  void count(const CatalogHistory& history);
  // etcd counts in seconds, and accepts none below two.
  std::chrono::milliseconds node_ttl() const {
    return engine_ == CatalogEngine::etcd ? 2000ms : 1000ms;
  }

  CatalogEngine engine_;
  Clock::time_point settled_{};
};

std::vector<std::string> CatalogRound::words_for(std::size_t slot, ProcessId process) {
  WorkerTerms worker{.what = catalog_worker,
                     .servers = {},
                     .process = process,
                     .seed = random_.next(),
                     .ttl = node_ttl(),
                     .is_reckless = options_.is_reckless,
                     .journal = journal_of(process)};
  if (engine_ == CatalogEngine::redis)
    worker.servers = arena().settings(slot);
  else
    worker.catalog = dynamic_cast<LinkedPlace&>(place()).url(slot);
  return words_of(worker);
}

// Long enough for rows of dead nodes to get new owners, even on a busy machine; etcd may keep them
// for one ttl more.
void CatalogRound::calm_down() {
  signal_workers(SIGUSR1);
  let_pass((engine_ == CatalogEngine::etcd ? 3 : 2) * node_ttl() + 6s + slack());
  settled_ = Clock::now();
  signal_workers(SIGUSR2);
  let_pass(2 * node_ttl() + slack());
}

void CatalogRound::count(const CatalogHistory& history) {
  using Kind = CatalogEvent::Kind;
  auto& counts = report_.counts;
  for (auto& event : history.events()) {
    if (event.kind == Kind::claimed) ++counts["rows claimed"];
    if (event.kind == Kind::ended) ++counts["lives of nodes"];
    if (event.kind == Kind::served) ++counts["rows served"];
    if (event.kind == Kind::released) ++counts["rows given back"];
    if (event.kind == Kind::written) ++counts["writes taken"];
    if (event.kind == Kind::refused) ++counts["old epochs refused"];
    if (event.kind == Kind::offered) ++counts["rows offered"];
    if (event.kind == Kind::seen) ++counts["changes seen"];
    if (event.kind == Kind::restarts) ++counts["followers began anew"];
    if (event.kind == Kind::contents) ++counts["contents compared"];
  }
}

Verdict CatalogRound::judge() {
  CatalogHistory all;
  for (ProcessId process = 1; process <= last_process_; ++process) {
    auto history = load_catalog_history(journal_of(process));
    if (!history) return Violation{"the journals", history.error().what, {}};
    all.add(*history);
  }
  for (auto& event : ours_.events())
    if (event.kind == history::LeaseEvent::Kind::killed)
      all.note({.at = event.at, .kind = CatalogEvent::Kind::killed, .process = event.process});
  // If a clock was set back, leases of dead nodes may outlast the round.
  if (!has_aftermath_)
    all.note({.at = settled_, .kind = CatalogEvent::Kind::settled, .since = settled_ - node_ttl()});
  all.sort();
  count(all);
  // A node that was misled at the end of a fault believes for one ttl more.
  auto lossy = lossy_;
  for (auto& window : lossy) window.until += node_ttl();
  for (auto name : {"I13", "I14", "I15", "I16", "I17", "I18"}) report_.checked.push_back(name);
  return CatalogJudge(all, {.rows = wanted_rows, .lossy = lossy}).first_violation();
}

}  // namespace

RoundReport torture_catalog(const RoundOptions& options, CatalogEngine engine) {
  return CatalogRound(options, engine).run();
}

}  // namespace warren::torture
