#include "services/fleet/simulate/node.h"

namespace warren::fleet_sim {

using fleet::Offer;

namespace {

fleet::ShelfTerms shelf_terms(const Stage& stage) {
  auto terms = stage.terms.shelf;
  terms.budget_bytes = stage.budget_bytes;
  return terms;
}

fleet::ClaimTerms claim_terms(const Stage& stage, int number, std::uint64_t seed) {
  auto terms = stage.terms.claims;
  terms.node = fmt::format("n{}", number);
  terms.seed = seed;
  return terms;
}

}  // namespace

Stage::Stage(const Terms& given)
    : terms(given), chance(given.seed), catalog(agenda, terms, Chance(given.seed + 1)) {}

std::uint64_t Stage::hot_bytes(const Repo& repo) const {
  return static_cast<std::uint64_t>(repo.bytes * (terms.world.hot + terms.world.symbols)) + 65536;
}
std::uint64_t Stage::warm_bytes(const Repo& repo) const {
  return static_cast<std::uint64_t>(repo.bytes * (terms.world.warm + terms.world.symbols)) + 65536;
}
std::uint64_t Stage::peak_bytes(const Repo& repo) const {
  return static_cast<std::uint64_t>(repo.bytes * terms.world.peak + terms.world.peak_at_least);
}
double Stage::clone_seconds(const Repo& repo) const {
  return 3 * terms.world.git_round_trip +
         repo.bytes * terms.world.packed / (terms.world.clone_mb_s * megabyte);
}
double Stage::build_seconds(const Repo& repo) const {
  const auto& world = terms.world;
  return repo.bytes / megabyte *
         (1 / world.read_mb_s + 1 / world.index_mb_s + 1 / world.symbols_mb_s);
}

void Stage::violated(std::string what) {
  if (outcome.violations.size() < 20)
    outcome.violations.push_back(
        fmt::format("{:.1f} s: {}", in_seconds(agenda.now().time_since_epoch()), what));
}

ModelNode::Process::Process(const Stage& stage, int number, std::uint64_t seed,
                            Builders::After after)
    : lease(stage.terms.ttl),
      claims(claim_terms(stage, number, seed)),
      shelf(shelf_terms(stage)),
      slots(stage.terms.clones, stage.terms.clones_of_one_host),
      builders(stage.terms.builds, std::move(after)) {}

ModelNode::ModelNode(Stage& stage, int number)
    : stage_(stage),
      number_(number),
      drift_(stage.chance.between(-stage.terms.world.drift, stage.terms.world.drift)) {}

Time ModelNode::clock() const {
  auto since = stage_.agenda.now().time_since_epoch();
  return Time(1h + since + seconds(in_seconds(since) * drift_));
}

Time ModelNode::real(Time local) const {
  if (local > Time(1000h)) return local;
  auto since = local.time_since_epoch() - 1h;
  return Time(seconds(in_seconds(since) / (1 + drift_))) + 1us;
}

void ModelNode::at(Time real_time, Act act) {
  std::weak_ptr<Process> process = process_;
  stage_.agenda.at(real_time, [this, process, act = std::move(act)] {
    auto alive = process.lock();
    if (!alive || alive != process_) return;
    if (is_paused_)
      alive->deferred.push_back(act);
    else
      act();
  });
}

void ModelNode::after(Clock::duration wait, Act act) {
  at(stage_.agenda.now() + wait, std::move(act));
}

template <class T>
void ModelNode::call(Clock::duration patience, std::function<Result<T>()> work,
                     std::function<void(Result<T>)> answer) {
  if (is_cut_) {
    after(std::min<Clock::duration>(patience, 1s),
          [answer] { answer(fail(Errc::timeout, "the catalog cannot be reached")); });
    return;
  }
  std::weak_ptr<Process> process = process_;
  stage_.catalog.call<T>(patience, std::move(work),
                         [this, process, answer = std::move(answer)](Result<T> result) {
                           auto alive = process.lock();
                           if (!alive || alive != process_) return;
                           if (is_paused_)
                             alive->deferred.push_back([answer, result] { answer(result); });
                           else
                             answer(result);
                         });
}

// --- its life ------------------------------------------------------------------------------------

void ModelNode::start() {
  auto seed =
      stage_.terms.seed * 1'000'003 + static_cast<std::uint64_t>(number_) * 1009 + ++processes_;
  process_ = std::make_shared<Process>(
      stage_, number_, seed,
      [this](Clock::duration wait, Act act) { after(wait, std::move(act)); });
  is_paused_ = false;
  pump_lease();
  after(seconds(stage_.chance.unit()), [this] { mind_memory(); });
}

void ModelNode::kill() {
  if (!process_) return;
  for (const auto& [row, owned] : process_->owned) disbelieve(row);
  for (const auto& [host, id] : process_->clones) {
    stage_.hosts.at(static_cast<std::size_t>(host))->cancel(id);
    --stage_.cloning;
  }
  before_ = counters();
  process_.reset();
  is_paused_ = false;
}

void ModelNode::resume() {
  if (!process_) return;
  is_paused_ = false;
  auto deferred = std::move(process_->deferred);
  process_->deferred.clear();
  for (auto& act : deferred) act();
}

fleet::NodeInfo ModelNode::info() const {
  fleet::NodeInfo info;
  info.budget_bytes = process_->shelf.budget();
  info.used_bytes = process_->shelf.used();
  info.reserved_bytes = process_->shelf.reserved();
  info.hot_bytes = process_->shelf.hot();
  info.repos = process_->owned.size();
  info.is_draining = process_->is_draining;
  info.busy_percent = static_cast<std::uint64_t>(100 * busy_);
  return info;
}

void ModelNode::pump_lease() {
  auto intent = process_->lease.next(clock());
  auto patience = stage_.terms.ttl / 3;
  if (!intent) {
    auto wake = process_->lease.wake_at();
    if (wake != Time::max()) at(real(wake), [this] { pump_lease(); });
    return;
  }
  if (*intent == NodeMachine::Intent::join) {
    call<int>(
        patience, [this, info = info()] { return stage_.catalog.join(number_, info); },
        [this](Result<int> session) {
          if (session) {
            process_->session = *session;
            process_->lease.on_joined(clock(), stage_.catalog.session(*session).name);
            want_look(0s);
          } else {
            process_->lease.on_joined(clock(), std::unexpected(session.error()));
          }
          pump_lease();
        });
    return;
  }
  auto session = process_->session;
  call<void>(
      patience, [this, session, info = info()] { return stage_.catalog.beat(session, info); },
      [this, session](Result<> beaten) {
        bool was_silent = !process_->lease.may_serve(clock());
        process_->lease.on_beat(clock(), beaten);
        if (process_->lease.session().empty() && process_->session == session) on_session_lost();
        if (beaten && was_silent)
          for (const auto& [row, owned] : process_->owned)
            if (owned.is_ready) believe(row);
        pump_lease();
      });
}

void ModelNode::on_session_lost() {
  process_->session = nobody;
  for (const auto& [row, owned] : process_->owned) {
    disbelieve(row);
    process_->shelf.unreserve(stage_.repo_of(row).name);
  }
  process_->owned.clear();
  process_->unready = 0;
}

bool ModelNode::would_answer() const {
  return process_ && !is_paused_ && process_->lease.may_serve(clock());
}

int ModelNode::session() const { return process_ ? process_->session : nobody; }

std::vector<int> ModelNode::serving() const {
  std::vector<int> rows;
  if (!process_) return rows;
  for (const auto& [row, owned] : process_->owned)
    if (owned.is_ready) rows.push_back(row);
  return rows;
}

fleet::Shelf::Counters ModelNode::counters() const {
  auto all = before_;
  if (!process_) return all;
  const auto& now = process_->shelf.counters();
  all.demoted += now.demoted;
  all.evicted += now.evicted;
  return all;
}

ModelNode::Answer ModelNode::ask(int row, std::uint64_t epoch) {
  if (!process_ || is_paused_) return Answer::silence;
  auto owned = process_->owned.find(row);
  const auto& repo = stage_.repo_of(row);
  bool is_ours = owned != process_->owned.end() && owned->second.epoch == epoch &&
                 owned->second.is_ready && process_->lease.may_serve(clock());
  if (!is_ours) return Answer::moved;
  process_->shelf.on_served(clock(), repo.name);
  return Answer::served;
}

// --- claiming ------------------------------------------------------------------------------------

void ModelNode::on_change(int row) {
  if (!process_ || is_paused_ || is_cut_) return;
  const auto& now = stage_.row(row);
  if (now.owner == nobody)
    want_look(250ms);
  else
    process_->claims.on_taken(now.key);
  auto owned = process_->owned.find(row);
  if (owned == process_->owned.end() || now.epoch <= owned->second.epoch) return;
  owned->second.leaves = true;
  if (!owned->second.is_busy) finish(row, owned->second.task);
}

void ModelNode::want_look(Clock::duration within) {
  auto soonest = std::max(stage_.agenda.now(), process_->looked + within);
  process_->next_look = std::min(std::max(process_->next_look, stage_.agenda.now()), soonest);
  plan_look();
}

void ModelNode::plan_look() {
  auto turn = process_->claims.wake_at();
  auto wake = process_->next_look;
  if (turn != Time::max()) wake = std::min(wake, std::max(real(turn), stage_.agenda.now() + 20ms));
  auto plan = ++process_->look_plan;
  at(wake, [this, plan] {
    if (plan == process_->look_plan) look();
  });
}

void ModelNode::look() {
  auto& process = *process_;
  if (process.is_looking || process.is_claiming) return;  // whoever is at it plans the next
  if (process.is_draining || !process.lease.may_claim(clock())) {
    process.next_look = stage_.agenda.now() + stage_.terms.look;
    return plan_look();
  }
  if (stage_.agenda.now() < process.next_look) return claim_next();
  process.is_looking = true;
  process.looked = stage_.agenda.now();
  process.next_look = process.looked + stage_.terms.look;
  struct Looked {
    std::vector<int> rows;
    std::vector<fleet::Candidate> nodes;
  };
  call<Looked>(
      stage_.terms.ttl / 3,
      [this, most = process.claims.wanted_offers()]() -> Result<Looked> {
        Looked looked{stage_.catalog.claimable(most), {}};
        if (!looked.rows.empty()) looked.nodes = stage_.catalog.candidates();
        return looked;
      },
      [this](Result<Looked> looked) {
        process_->is_looking = false;
        if (looked)
          on_offers(std::move(looked->rows), std::move(looked->nodes));
        else
          plan_look();
      });
}

void ModelNode::on_offers(std::vector<int> rows, std::vector<fleet::Candidate> nodes) {
  auto& process = *process_;
  if (!rows.empty()) process.claims.on_nodes(std::move(nodes));
  std::vector<Offer> offers;
  for (int id : rows) {
    const auto& row = stage_.row(id);
    auto offer = fleet::offer_of(row.key, stage_.repo_of(id).name, row.rank, row.note);
    offer.is_here = process.held.contains(row.repo);
    offer.is_ours = stage_.terms.replicas > 1 && owns(row.repo);
    offer.is_pinned = stage_.repo_of(id).spec.is_pinned;
    offer.was_evicted = process.shelf.was_evicted(clock(), offer.repo);
    offers.push_back(std::move(offer));
  }
  process.claims.on_offers(clock(), std::move(offers));
  process.shelf.want_room(process.claims.lacks_room());
  claim_next();
}

bool ModelNode::owns(int repo) const {
  for (int slot = 0; slot < stage_.terms.replicas; ++slot)
    if (process_->owned.contains(repo * stage_.terms.replicas + slot)) return true;
  return false;
}

void ModelNode::claim_next() {
  auto& process = *process_;
  process.is_claiming = false;
  if (!process.lease.may_claim(clock()) || process.is_draining) return plan_look();
  auto has_room = [this](const Offer& offer) {
    return fleet::room_for(clock(), process_->shelf, offer).has_value();
  };
  auto offer = process.claims.next(clock(), has_room, process.unready);
  if (!offer && process.claims.wants_look()) return want_look(250ms);
  if (!offer) return plan_look();
  auto row = stage_.row_of.at(offer->key);
  auto repo = stage_.row(row).repo;
  if (owns(repo) || (!offer->is_here && !make_room(*offer))) {
    process.claims.on_answer(offer->key);
    return claim_next();
  }
  process.is_claiming = true;
  auto session = process.session;
  call<std::uint64_t>(
      stage_.terms.ttl / 3, [this, session, row] { return stage_.catalog.claim(session, row); },
      [this, session, offer = *offer](Result<std::uint64_t> epoch) {
        on_claimed(session, offer, std::move(epoch));
      });
}

bool ModelNode::make_room(const Offer& offer) {
  auto going = fleet::room_for(clock(), process_->shelf, offer);
  if (!going) return false;
  for (const auto& name : *going) evict(stage_.repo_number.at(name));
  return process_->shelf.reserve(offer.repo, offer.bytes);
}

void ModelNode::on_claimed(int session, const Offer& offer, Result<std::uint64_t> epoch) {
  auto& process = *process_;
  process.claims.on_answer(offer.key);
  auto row = stage_.row_of.at(offer.key);
  const auto& now = stage_.row(row);
  bool is_of_this_life = epoch && now.owner == process.session;
  if (!is_of_this_life) {
    process.shelf.unreserve(offer.repo);
    if (!epoch && epoch.error().code == Errc::lease_lost && session == process.session) {
      process.lease.on_lost(clock(), process.lease.session());
      on_session_lost();
      pump_lease();
    }
    return claim_next();
  }
  auto task = ++tasks_;
  process.owned[row] = {
      .epoch = *epoch, .task = task, .attempts = now.attempts, .since = stage_.agenda.now()};
  ++process.unready;
  bring(row, task);
  claim_next();
}

std::string ModelNode::why_not(int row) const {
  if (!process_) return "it does not run";
  return process_->claims.why_not(clock(), stage_.row(row).key, process_->shelf.free());
}

}  // namespace warren::fleet_sim
