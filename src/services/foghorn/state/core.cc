#include "services/foghorn/state/core.h"

#include "base/log.h"

namespace warren::foghorn {

namespace {

constexpr auto tick = 200ms;  // at which others are told of our penalties, too

MirrorTerms mirror_terms(const std::string& cluster_id) {
  MirrorTerms terms;
  terms.prefix = "{" + cluster_id + "}:";
  terms.channel = "foghorn:{" + cluster_id + "}:state_updates";
  // A batch may be half a megabyte. Who was away for longer than these reads everything again.
  terms.log_entries = 2000;
  // In the order of Kind.
  terms.types = {{"node", "nodes:"},
                 {"stream", "streams:"},
                 {"stream_instance", "stream_instances:"},
                 {"artifact", "artifacts:"},
                 {"node_mode", "node_mode:"},
                 {"penalty", "penalties:"}};
  return terms;
}

}  // namespace

Cluster::Core::Core(asio::any_io_executor on, redis::Client* with, ClusterTerms how)
    : terms(std::move(how)),
      executor(on),
      client(with),
      model(terms.weights),
      viewers([this](std::string_view node) {
        publish();
        return model.penalty(node);
      }),
      journal(on, {.value = [this](const EntityKey& key) { return value_of(key); },
                   .catch_up = [this] { return catch_up(); },
                   .settled =
                       [this](const EntityKey& key, const std::optional<std::string>& sent) {
                         on_settled(key, sent);
                       }}),
      published(on),
      seen_(std::make_shared<Snapshot>(std::vector<Table>(6), Version{}, Clock::now())),
      caught_up_(on),
      turn_(on),
      id_lost_(on),
      tasks_(on),
      writing_(on) {
  publish();
}

Cluster::Core::~Core() {
  ensure(phase_ == Phase::idle || phase_ == Phase::closed, "a cluster is closed");
}

void Cluster::Core::begin() {
  if (phase_ != Phase::idle) return;
  phase_ = Phase::loading;
  tasks_.start("foghorn.publisher", publish_turns());
  tasks_.start("foghorn.clock", keep_time());
}

Async<> Cluster::Core::start(Clock::time_point deadline) {
  begin();
  if (client) {
    auto claimed = co_await claim_id(deadline);
    if (!claimed) co_return claimed;
    if (!mirror) {
      auto made = Mirror::create(*client, mirror_terms(terms.cluster_id));
      if (!made) co_return std::unexpected(made.error());
      mirror = *std::move(made);
      mirror->on_history_rewritten([this](const HistoryRewritten&) { write_again(); });
    }
    auto ready = co_await mirror->ready(deadline);
    if (!ready) co_return ready;
    co_await catch_up();
    merge_early();
  }
  publish();
  if (std::exchange(phase_, Phase::loaded) == Phase::loaded) co_return ok;
  if (client) {
    tasks_.start("foghorn.follower", follow());
    tasks_.start("foghorn.identity", keep_id());
    writing_.start("foghorn.writer", journal.write(*mirror));
  }
  co_return ok;
}

awaitable<void> Cluster::Core::close() {
  bool was_loaded = std::exchange(phase_, Phase::closed) == Phase::loaded;
  if (was_loaded && !problem && mirror && mirror->health() == MirrorHealth::current) {
    journal.mark({Kind::penalty, terms.instance_id});
    co_await journal.flushed(Clock::now() + 1s);
  }
  tasks_.stop();
  writing_.stop();
  if (mirror) co_await mirror->close();
  co_await tasks_.join();
  co_await writing_.join();
  lease_.reset();
  if (session_) co_await session_->close();
}

awaitable<void> Cluster::Core::follow() {
  for (;;) {
    co_await mirror->changed(seen_);
    co_await catch_up();
  }
}

Cluster::Core::CatchingUp::CatchingUp(Core& core, std::shared_ptr<const Snapshot> next)
    : core_(core), before_(std::exchange(core.seen_, std::move(next))) {
  core_.is_catching_up_ = true;
  core_.looks_at_old_ = core_.is_rewritten_ && core_.seen_ == core_.rewritten_at_;
}

Cluster::Core::CatchingUp::~CatchingUp() {
  core_.seen_ = std::move(before_);
  core_.is_catching_up_ = core_.looks_at_old_ = false;
  core_.caught_up_.notify();
}

awaitable<void> Cluster::Core::publish_turns() {
  for (;;) {
    co_await turn_.wait();
    publish();
  }
}

awaitable<void> Cluster::Core::keep_time() {
  for (;;) {
    auto now = Clock::now();
    look_for_silence(now);
    if (is_whole()) end_kept(now);
    if (mirror && has_id()) share_penalties(now);
    co_await sleep_for(std::min<Clock::duration>(tick, terms.stale_after / 4));
  }
}

void Cluster::Core::publish() {
  if (is_catching_up_) return;
  if (std::exchange(published_revision_, model.revision()) == model.revision()) return;
  show(model.publish());
  published.notify();
}

void Cluster::Core::show(std::shared_ptr<const balance::RoutingTable> next) {
  table_here = next;
  while (locked_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  shown_.swap(next);
  locked_.clear(std::memory_order_release);
}

std::shared_ptr<const balance::RoutingTable> Cluster::Core::table() const {
  while (locked_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  auto copy = shown_;
  locked_.clear(std::memory_order_release);
  return copy;
}

}  // namespace warren::foghorn
