// How a repository comes into the memory of a node, stays there, and goes.
#include "services/fleet/simulate/node.h"

namespace warren::fleet_sim {

using fleet::Phase;
using fleet::RepoNote;

namespace {

constexpr double peak_taken = 0.9;  // a build takes a little less than what was reserved for it
constexpr auto listing_time = 0.02;
constexpr int hand_overs_at_once = 4;

RepoNote note_of(const Repo& repo, Phase phase, std::uint64_t memory, double rebuild) {
  RepoNote note;
  note.phase = phase;
  note.is_ready = phase >= Phase::indexing;
  note.has_index = phase == Phase::serving;
  note.size_bytes = static_cast<std::uint64_t>(repo.bytes);
  note.memory_bytes = memory;
  note.index_ms = static_cast<std::uint64_t>(1000 * rebuild);
  return note;
}

}  // namespace

ModelNode::Owned* ModelNode::current(int row, std::uint64_t task) {
  auto found = process_->owned.find(row);
  return found != process_->owned.end() && found->second.task == task ? &found->second : nullptr;
}

// Refs are looked up first, which takes a slot, too.
void ModelNode::bring(int row, std::uint64_t task) {
  auto host = stage_.repo_of(row).host;
  process_->slots.acquire(host, [this, row, task, host] {
    if (!current(row, task)) return process_->slots.release(host);
    after(seconds(stage_.terms.world.git_round_trip), [this, row, task, host] {
      process_->slots.release(host);
      auto* owned = current(row, task);
      if (!owned) return;
      auto repo = stage_.row(row).repo;
      if (process_->held.contains(repo)) return publish(row, task, true);
      auto session = process_->session;
      auto epoch = owned->epoch;
      call<void>(
          stage_.terms.ttl,
          [this, session, row, epoch] {
            const auto& before = stage_.row(row).note;
            auto note = before;
            note.phase = Phase::fetching;
            return stage_.catalog.write(session, row, epoch, RowState::claimed, note);
          },
          [this, row, task](const Result<>& written) {
            if (!current(row, task)) return;
            if (!written) return fail_to_bring(row, task, written.error().what);
            clone(row, task);
          });
    });
  });
}

void ModelNode::clone(int row, std::uint64_t task) {
  auto host = stage_.repo_of(row).host;
  process_->slots.acquire(host, [this, row, task, host] {
    if (!current(row, task)) return process_->slots.release(host);
    after(seconds(2 * stage_.terms.world.git_round_trip), [this, row, task, host] {
      if (!current(row, task)) return process_->slots.release(host);
      auto& link = *stage_.hosts.at(static_cast<std::size_t>(host));
      auto& counted = stage_.clones.at(static_cast<std::size_t>(stage_.row(row).repo));
      ++counted;
      ++stage_.outcome.clones;
      stage_.outcome.most_clones =
          std::max<std::uint64_t>(stage_.outcome.most_clones, ++stage_.cloning);
      auto bytes = stage_.repo_of(row).bytes * stage_.terms.world.packed;
      auto id = std::make_shared<Link::Id>();
      std::weak_ptr<Process> process = process_;
      *id = link.start(bytes, [this, row, task, host, id, process] {
        --stage_.cloning;
        auto alive = process.lock();
        if (!alive || alive != process_) return;
        alive->clones.erase({host, *id});
        after(0s, [this, row, task, host] {
          process_->slots.release(host);
          if (current(row, task)) build(row, task);
        });
      });
      process_->clones.emplace(host, *id);
    });
  });
}

// Its size is known once it is here, and so is what its build takes.
void ModelNode::build(int row, std::uint64_t task) {
  process_->builders.run(listing_time, nullptr, [this, row, task] {
    if (!current(row, task)) return;
    const auto& repo = stage_.repo_of(row);
    auto peak = stage_.peak_bytes(repo);
    if (!process_->shelf.reserve(repo.name, peak))
      return fail_to_bring(row, task, "needs more memory than is free", peak);
    read(row, task);
  });
}

void ModelNode::read(int row, std::uint64_t task) {
  const auto& repo = stage_.repo_of(row);
  auto id = stage_.row(row).repo;
  auto begin = [this, row, task, id] {
    if (!current(row, task)) return;
    process_->building[id] = static_cast<std::uint64_t>(
        peak_taken * static_cast<double>(stage_.peak_bytes(stage_.repo_of(row))));
    note_memory();
  };
  process_->builders.run(repo.bytes / megabyte / stage_.terms.world.read_mb_s, begin,
                         [this, row, task, id] {
                           if (!current(row, task)) return end_build(id);
                           publish(row, task, false);
                         });
}

void ModelNode::index(int row, std::uint64_t task) {
  const auto& repo = stage_.repo_of(row);
  auto id = stage_.row(row).repo;
  const auto& world = stage_.terms.world;
  process_->builders.run(repo.bytes / megabyte / world.index_mb_s, nullptr, [this, row, task, id] {
    if (!current(row, task)) return end_build(id);
    auto time = stage_.repo_of(row).bytes / megabyte / stage_.terms.world.symbols_mb_s;
    process_->builders.run(time, nullptr, [this, row, task, id] {
      end_build(id);
      if (current(row, task)) publish(row, task, true);
    });
  });
}

void ModelNode::end_build(int repo) { process_->building.erase(repo); }

// By scanning at first; whole: with its index and symbols.
void ModelNode::publish(int row, std::uint64_t task, bool is_whole) {
  auto* owned = current(row, task);
  const auto& repo = stage_.repo_of(row);
  auto id = stage_.row(row).repo;
  auto [held, is_new] = process_->held.try_emplace(id);
  if (is_new)
    held->second.rebuild_seconds = in_seconds(stage_.agenda.now() - owned->since) +
                                   repo.bytes / megabyte / stage_.terms.world.index_mb_s;
  auto bytes = held->second.is_warm ? stage_.warm_bytes(repo) : stage_.hot_bytes(repo);
  process_->shelf.put(clock(), repo.name,
                      {.bytes = bytes,
                       .is_warm = held->second.is_warm,
                       .is_pinned = repo.spec.is_pinned,
                       .rebuild_seconds = held->second.rebuild_seconds});
  note_memory();
  if (!owned->is_ready) --process_->unready;
  owned->is_ready = true;
  believe(row);
  auto note = note_of(repo, is_whole ? Phase::serving : Phase::indexing, stage_.hot_bytes(repo),
                      held->second.rebuild_seconds);
  auto session = process_->session;
  call<void>(
      stage_.terms.ttl,
      [this, session, row, epoch = owned->epoch, note] {
        return stage_.catalog.write(session, row, epoch, RowState::ready, note);
      },
      [this, row, task, is_whole](const Result<>& written) {
        auto* mine = current(row, task);
        if (!mine) return end_build(stage_.row(row).repo);
        if (!written && written.error().code == Errc::lease_lost) mine->leaves = true;
        if (is_whole || !written)
          finish(row, task);
        else
          index(row, task);
      });
}

void ModelNode::fail_to_bring(int row, std::uint64_t task, std::string why, std::uint64_t peak) {
  auto* owned = current(row, task);
  process_->shelf.unreserve(stage_.repo_of(row).name);
  if (owned->is_ready) return finish(row, task);
  ModelCatalog::ModelRelease how{.error = std::move(why),
                                 .wait = process_->claims.pause(owned->attempts)};
  if (peak > 0) {
    ++stage_.outcome.brought_in_vain;
    how.note = fleet::with_peak(stage_.row(row).note, peak);
  }
  give_back(row, std::move(how));
}

// Nothing more to do for it until somebody wants it to go.
void ModelNode::finish(int row, std::uint64_t task) {
  auto* owned = current(row, task);
  if (owned->is_busy) process_->shelf.unreserve(stage_.repo_of(row).name);
  end_build(stage_.row(row).repo);
  owned->is_busy = false;
  if (owned->leaves) give_back(row, {});
}

void ModelNode::give_back(int row, ModelCatalog::ModelRelease how) {
  auto found = process_->owned.find(row);
  auto epoch = found->second.epoch;
  auto session = process_->session;
  disbelieve(row);
  if (!found->second.is_ready) --process_->unready;
  process_->owned.erase(found);
  call<void>(
      stage_.terms.ttl / 3,
      [this, session, row, epoch, how] { return stage_.catalog.release(session, row, epoch, how); },
      [this](const Result<>&) { want_look(250ms); });
}

void ModelNode::believe(int row) {
  auto& all = stage_.believers.at(static_cast<std::size_t>(row));
  for (int other : all)
    if (other != number_ && stage_.nodes.at(static_cast<std::size_t>(other))->would_answer())
      stage_.violated(
          fmt::format("n{} and n{} both answer for {}", other, number_, stage_.row(row).key));
  if (std::ranges::find(all, number_) == all.end()) all.push_back(number_);
}

void ModelNode::disbelieve(int row) {
  std::erase(stage_.believers.at(static_cast<std::size_t>(row)), number_);
}

// --- memory --------------------------------------------------------------------------------------

std::uint64_t ModelNode::memory() const {
  if (!process_) return 0;
  auto bytes = process_->shelf.used() + process_->extra_bytes;
  for (const auto& [repo, taken] : process_->building) {
    const auto& what = stage_.repos.at(static_cast<std::size_t>(repo));
    bytes += taken;
    // What is shown already is a part of it.
    if (process_->held.contains(repo)) bytes -= std::min(taken, stage_.hot_bytes(what));
  }
  return bytes;
}

void ModelNode::note_memory() {
  auto part = static_cast<double>(memory()) / static_cast<double>(stage_.budget_bytes);
  worst_memory_ = std::max(worst_memory_, part);
  if (part > 1.1)
    stage_.violated(fmt::format("n{} takes {:.0f} % of its budget", number_, 100 * part));
}

void ModelNode::mind_memory() {
  auto step = process_->shelf.next(clock());
  if (!step) {
    after(1s, [this] { mind_memory(); });
    return;
  }
  auto repo = stage_.repo_number.at(step->repo);
  if (step->act == fleet::Shelf::Act::demote) return demote(repo);
  evict(repo);
  after(1s, [this] { mind_memory(); });
}

void ModelNode::demote(int id) {
  const auto& repo = stage_.repos.at(static_cast<std::size_t>(id));
  auto warm = stage_.warm_bytes(repo);
  auto mark = repo.name + " demoted";
  if (!process_->shelf.reserve(mark, fleet::Shelf::room_to_demote(stage_.hot_bytes(repo)))) {
    after(1s, [this] { mind_memory(); });
    return;
  }
  auto begin = [this, warm] {
    process_->extra_bytes += warm;  // both are there for a moment
    note_memory();
  };
  process_->builders.run(repo.bytes / megabyte / stage_.terms.world.cool_mb_s, begin,
                         [this, id, warm, mark] {
                           process_->extra_bytes -= warm;
                           process_->shelf.unreserve(mark);
                           auto held = process_->held.find(id);
                           const auto& what = stage_.repos.at(static_cast<std::size_t>(id));
                           if (held != process_->held.end()) {
                             held->second.is_warm = true;
                             process_->shelf.put(clock(), what.name,
                                                 {.bytes = warm,
                                                  .is_warm = true,
                                                  .is_pinned = what.spec.is_pinned,
                                                  .rebuild_seconds = held->second.rebuild_seconds});
                           }
                           after(20ms, [this] { mind_memory(); });
                         });
}

void ModelNode::evict(int id) {
  const auto& repo = stage_.repos.at(static_cast<std::size_t>(id));
  if (repo.spec.is_pinned) stage_.violated(fmt::format("{} is pinned, and evicted", repo.name));
  process_->shelf.on_evicted(clock(), repo.name);
  process_->held.erase(id);
  for (int slot = 0; slot < stage_.terms.replicas; ++slot) {
    auto row = id * stage_.terms.replicas + slot;
    auto owned = process_->owned.find(row);
    if (owned == process_->owned.end()) continue;
    stage_.evicted.at(static_cast<std::size_t>(id)) = stage_.agenda.now();
    disbelieve(row);
    if (owned->second.is_ready) ++process_->unready;
    owned->second.is_ready = false;
    owned->second.leaves = true;
    if (!owned->second.is_busy) finish(row, owned->second.task);
  }
}

// --- drain ---------------------------------------------------------------------------------------

// Each row is streamed to the next node in its order, which then becomes its owner; until the time is up.
// Then the lease ends, and what was not handed over is free.
void ModelNode::drain(Clock::duration time, Act done) {
  if (!process_) return done();
  auto& process = *process_;
  process.is_draining = true;
  process.drained = std::move(done);
  process.to_hand_over = serving();
  after(time, [this] { end_drain(); });
  for (int i = 0; i < hand_overs_at_once && process_; ++i) hand_over_next();
}

void ModelNode::hand_over_next() {
  auto& process = *process_;
  if (process.to_hand_over.empty()) {
    if (process.handing_over == 0) end_drain();
    return;
  }
  auto row = process.to_hand_over.back();
  process.to_hand_over.pop_back();
  ++process.handing_over;
  hand_over(row);
}

void ModelNode::hand_over(int row) {
  auto next = [this] {
    --process_->handing_over;
    hand_over_next();
  };
  auto owned = process_->owned.find(row);
  if (owned == process_->owned.end() || !owned->second.is_ready) return after(0s, next);
  auto id = stage_.row(row).repo;
  const auto& repo = stage_.repo_of(row);
  auto held = process_->held.at(id);
  auto bytes = held.is_warm ? stage_.warm_bytes(repo) : stage_.hot_bytes(repo);
  auto candidates = stage_.catalog.candidates();
  std::erase_if(candidates,
                [&](const auto& one) { return one.name == fmt::format("n{}", number_); });
  ModelNode* heir = nullptr;
  for (const auto& name : fleet::order_for(repo.name, candidates, bytes)) {
    auto& one = *stage_.nodes.at(static_cast<std::size_t>(std::stoi(name.substr(1))));
    if (one.receive(id, bytes)) {
      heir = &one;
      break;
    }
  }
  if (!heir) return after(0s, next);
  auto time = seconds(static_cast<double>(bytes) / megabyte / stage_.terms.world.stream_mb_s) + 5ms;
  auto epoch = owned->second.epoch;
  auto session = process_->session;
  after(time, [this, row, epoch, session, heir, held, next] {
    call<std::uint64_t>(
        stage_.terms.ttl / 3,
        [this, row, epoch, session, heir, held]() -> Result<std::uint64_t> {
          if (!heir->process_) return fail(Errc::not_found, "the next node is gone");
          auto handed = stage_.catalog.hand_over(session, row, epoch, heir->session());
          if (handed) disbelieve(row);
          if (handed) heir->adopt(row, *handed, held);
          return handed;
        },
        [this, row, heir, next](const Result<std::uint64_t>& handed) {
          if (handed) {
            process_->owned.erase(row);
            process_->held.erase(stage_.row(row).repo);
            process_->shelf.remove(stage_.repo_of(row).name);
          } else if (heir->process_) {
            heir->process_->shelf.unreserve(stage_.repo_of(row).name);
          }
          next();
        });
  });
}

bool ModelNode::receive(int repo, std::uint64_t bytes) {
  if (!process_ || is_paused_ || process_->is_draining || process_->session == nobody) return false;
  if (owns(repo) || process_->held.contains(repo)) return false;
  return process_->shelf.reserve(stage_.repos.at(static_cast<std::size_t>(repo)).name, bytes);
}

void ModelNode::adopt(int row, std::uint64_t epoch, HeldRepo held) {
  const auto& repo = stage_.repo_of(row);
  auto id = stage_.row(row).repo;
  process_->shelf.unreserve(repo.name);
  process_->held[id] = held;
  process_->shelf.put(clock(), repo.name,
                      {.bytes = held.is_warm ? stage_.warm_bytes(repo) : stage_.hot_bytes(repo),
                       .is_warm = held.is_warm,
                       .is_pinned = repo.spec.is_pinned,
                       .rebuild_seconds = held.rebuild_seconds});
  note_memory();
  process_->owned[row] = {.epoch = epoch,
                          .task = ++tasks_,
                          .is_ready = true,
                          .is_busy = false,
                          .since = stage_.agenda.now()};
  believe(row);
}

void ModelNode::end_drain() {
  auto session = process_->session;
  auto done = std::move(process_->drained);
  call<void>(
      5s,
      [this, session]() -> Result<> {
        if (session != nobody) stage_.catalog.leave(session);
        return ok;
      },
      [](const Result<>&) {});
  // Nobody is served by it from now on.
  for (const auto& [row, owned] : process_->owned) disbelieve(row);
  kill();
  if (done) done();
}

}  // namespace warren::fleet_sim
