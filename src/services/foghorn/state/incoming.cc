// What other instances wrote, in the order of the log.
#include <algorithm>
#include <boost/asio/post.hpp>
#include <tuple>

#include "base/age.h"
#include "base/log.h"
#include "services/foghorn/state/core.h"
#include "services/foghorn/state/merge.h"

namespace warren::foghorn {

namespace {

constexpr std::size_t slice = 500;  // values, of some 10 us each

constexpr std::array kinds{Kind::node,     Kind::stream, Kind::instance,
                           Kind::artifact, Kind::mode,   Kind::penalty};

// Of two values of a node: by the turn, and of one turn by the time.
bool is_older(const NodeState& a, const NodeState& b) {
  return std::tie(a.owner_epoch, a.last_update) < std::tie(b.owner_epoch, b.last_update);
}

// How long ago a node that is not known here showed life. What is read at the start has nothing but
// its stamp. What comes later has just come: a clock that differs does not make it old.
Clock::duration silence_of(const NodeState& node, bool is_start) {
  if (node.last_heartbeat == WallTime{}) return std::chrono::years(100);  // never
  return is_start ? age_of(node.last_heartbeat) : Clock::duration::zero();
}

}  // namespace

// In slices, between which everything else has its turn: beside 200,000 keys it takes seconds, and a lease
// that is not renewed meanwhile is lost. Nobody is shown a table of which a part is old.
awaitable<void> Cluster::Core::catch_up() {
  while (is_catching_up_) co_await caught_up_.wait();
  auto next = mirror->read();
  if (next == seen_) co_return;
  CatchingUp catching_up(*this, next);
  auto before = catching_up.before();
  std::size_t taken = 0;
  struct Change {
    std::string_view id;
    const Entity *from, *to;
  };
  std::vector<Change> changes;
  for (auto kind : kinds) {
    auto type = static_cast<std::size_t>(kind);
    changes.clear();
    Table::each_change(before->table(type), next->table(type),
                       [&](const Entity* from, const Entity* to) {
                         changes.push_back({(to ? to : from)->id(), from, to});
                       });
    // In the order of the model: at a start there are so many that memory decides how long it takes.
    std::ranges::sort(changes, {}, &Change::id);
    for (const auto& change : changes) {
      take(kind, change.from, change.to);
      if (++taken % slice == 0) co_await asio::post(executor, asio::use_awaitable);
    }
  }
  auto abandoned = std::exchange(abandoned_, {});
  for (const auto& stream : abandoned) {
    settle_stream(stream);
    if (++taken % slice == 0) co_await asio::post(executor, asio::use_awaitable);
  }
  if (is_new_history()) {
    is_rewritten_ = false;
    rewritten_at_.reset();
    if (!kept_.empty()) {
      kept_until_ = Clock::now() + terms.restore_time;
      log::warn("foghorn.lost_values_kept", "count", kept_.size());
    }
  }
  catching_up.finish();
  changed();
}

void Cluster::Core::take(Kind kind, const Entity* before, const Entity* after) {
  if (after) return take_value(kind, *after);
  if (auto key = known_key(kind, before->id())) take_gone(*key);
}

// What was deleted may have been unreadable: so it is found by what we took, not by what it said.
std::optional<EntityKey> Cluster::Core::known_key(Kind kind, std::string_view id) const {
  if (kind != Kind::instance) return EntityKey{kind, std::string(id)};
  for (auto colon = id.find(':'); colon != id.npos; colon = id.find(':', colon + 1)) {
    EntityKey key{kind, std::string(id.substr(0, colon)), std::string(id.substr(colon + 1))};
    if (model.instance(key.first, key.second) || !journal.is_settled(key)) return key;
  }
  return {};
}

void Cluster::Core::skip(Kind kind, std::string_view id, const Error& why) {
  ++skipped;
  auto key = fmt::format("{} {}", static_cast<int>(kind), id);
  if (unreadable_.size() < 10'000 && unreadable_.insert(key).second)
    log::warn("foghorn.value_skipped", "kind", static_cast<int>(kind), "id", id.substr(0, 200),
              "why", why.what);
}

// Each value says itself whose it is, and must stand where that says.
void Cluster::Core::take_value(Kind kind, const Entity& entity) {
  auto take_if = [&](auto parsed, auto key_of_it, auto take_it) {
    if (!parsed) return skip(kind, entity.id(), parsed.error());
    EntityKey key = key_of_it(*parsed);
    if (key.id() != entity.id())
      return skip(kind, entity.id(), {Errc::invalid, "the value is of " + key.id()});
    kept_.erase(key);
    if (journal.is_own(key, entity.value())) return;
    take_it(*std::move(parsed));
  };
  switch (kind) {
    case Kind::node:
      return take_if(
          parse_node(entity.value()), [](auto& v) { return EntityKey{Kind::node, v.node_id}; },
          [this](NodeState v) { take_node(std::move(v)); });
    case Kind::stream:
      return take_if(
          parse_stream(entity.value()),
          [](auto& v) { return EntityKey{Kind::stream, v.internal_name}; },
          [this](StreamState v) { take_stream(std::move(v)); });
    case Kind::instance:
      return take_if(
          parse_instance(entity.value()),
          [](auto& v) { return EntityKey{Kind::instance, v.internal_name, v.node_id}; },
          [this](StreamInstanceState v) { take_instance(std::move(v)); });
    case Kind::artifact:
      return take_if(
          parse_artifact(entity.value()),
          [](auto& v) { return EntityKey{Kind::artifact, v.content_id}; },
          [this](ArtifactState v) { take_artifact(std::move(v)); });
    case Kind::mode:
      return take_if(
          parse_mode(entity.value()), [](auto& v) { return EntityKey{Kind::mode, v.node_id}; },
          [this](NodeModeState v) {
            EntityKey key{Kind::mode, v.node_id};
            if (!journal.is_settled(key)) return;
            auto known = model.modes().find(v.node_id);
            bool is_older = known != model.modes().end() && v.set_at < known->second.set_at;
            if (is_older) return mark(std::move(key));  // the later word was overtaken, or lost
            model.put_mode(std::move(v));
          });
    case Kind::penalty:
      return take_if(
          parse_penalties(entity.value()),
          [](auto& v) { return EntityKey{Kind::penalty, v.instance_id}; },
          [this](PenaltyState v) { take_penalties(std::move(v), Clock::now()); });
  }
}

void Cluster::Core::take_node(NodeState incoming) {
  EntityKey key{Kind::node, incoming.node_id};
  const auto* local = model.node(incoming.node_id);
  // What waits here was said before the node turned to somebody else.
  bool is_early = early_.contains(incoming.node_id);
  if (is_early && take_early(incoming)) return;
  bool has_left = local && (is_early || incoming.owner_epoch > local->state.owner_epoch);
  if (local && !has_left && !journal.is_settled(key)) {
    auto record = *local;
    if (!fill_identity(record.state, incoming)) return;
    mark(key);  // what is on its way does not have it
    return model.put_node(std::move(record));
  }
  if (!local && !journal.is_settled(key)) return;  // it was forgotten here
  NodeRecord record;
  if (local) record = *local;
  // Written by whom it reported to before, and late. (One who does not count epochs says 0.)
  bool is_late = !has_left && incoming.owner_epoch > 0 && is_older(incoming, record.state);
  if (is_late && !is_new_history()) {
    fill_identity(record.state, incoming);
    mark(key);
    return model.put_node(std::move(record));
  }
  bool lives = !local || incoming.last_heartbeat != record.state.last_heartbeat;
  // Who restores what identifies it keeps its times; so this is of whom it reports to now.
  bool is_told_there = lives || incoming.last_update != record.state.last_update;
  bool was_stale = local && record.is_stale();
  bool is_filled = local && fill_identity(incoming, record.state);
  record.state = std::move(incoming);
  if (is_told_there) record.is_own = false;
  auto now = Clock::now();
  if (lives) {
    record.heard_at = local ? now : now - silence_of(record.state, !is_loaded());
    record.is_silent = now - record.heard_at > terms.stale_after;
  }
  if (record.is_stale() && !was_stale) record.stale_since = now;
  auto id = record.state.node_id;
  model.put_node(std::move(record));
  if (is_told_there) viewers.settle(now, id);
  // What is on its way here is older, and comes after it.
  if (is_filled || !journal.is_settled(key)) mark(key);
  if (has_left) yield_carried(id);
}

// What waits of it was said before the node left us: what Redis has of it counts.
void Cluster::Core::yield_carried(const std::string& node) {
  auto carried = model.carried(node).streams;  // a copy: some go
  for (const auto& stream : carried) {
    EntityKey key{Kind::instance, stream, node};
    if (journal.is_settled(key)) continue;
    mark(key);
    const auto* stored = seen_->find(static_cast<std::size_t>(key.kind), key.id());
    auto instance = stored ? parse_instance(stored->value()) : Result<StreamInstanceState>();
    if (stored && instance) {
      model.put_instance(*std::move(instance));
    } else {
      model.erase_instance(stream, node);
      abandoned_.insert(stream);
    }
  }
}

void Cluster::Core::take_stream(StreamState incoming) {
  EntityKey key{Kind::stream, incoming.internal_name};
  const auto* known = model.stream(incoming.internal_name);
  bool is_known = known && known->is_known;
  auto now = Clock::now();
  if (!journal.is_settled(key)) {
    if (!is_known) return;
    auto state = known->state;
    if (!(is_loaded() ? fill_identity(state, incoming) : fill_unsaid(state, incoming))) return;
    mark(key);
    return model.put_stream(std::move(state), now);
  }
  // Written late, by whom a node that carries it has left: what that node said to us counts.
  bool is_late = is_known && !is_new_history() && incoming.last_update < known->state.last_update;
  if (is_late && is_carried_here(*known)) {
    auto state = known->state;
    fill_identity(state, incoming);
    mark(key);
    return model.put_stream(std::move(state), now);
  }
  bool is_filled = is_known && fill_identity(incoming, known->state);
  model.put_stream(std::move(incoming), now);
  if (is_filled) mark(key);
}

void Cluster::Core::take_instance(StreamInstanceState incoming) {
  EntityKey key{Kind::instance, incoming.internal_name, incoming.node_id};
  const auto* known = model.instance(key.first, key.second);
  if (!journal.is_settled(key)) {
    if (!known) return;
    auto instance = *known;
    if (!(is_loaded() ? fill_identity(instance, incoming) : fill_unsaid(instance, incoming)))
      return;
    mark(key);
    return model.put_instance(std::move(instance));
  }
  // Nobody but us hears what this node carries; so this was written before it turned to us.
  const auto* carrier = model.node(key.second);
  if (!known && carrier && carrier->is_own && carrier->lists_streams && !is_new_history()) {
    mark(key);  // it is over, and deleted once more
    abandoned_.insert(key.first);
    return;
  }
  if (known && carrier && carrier->is_own && !is_new_history()) {
    auto ours = *known;
    fill_identity(ours, incoming);
    if (!says_the_same(ours, incoming)) {
      mark(key);
      return model.put_instance(std::move(ours));
    }  // otherwise only its time differs, and all have that of the log
  }
  bool is_filled = known && fill_identity(incoming, *known);
  model.put_instance(std::move(incoming));
  if (is_filled) mark(key);
}

void Cluster::Core::take_artifact(ArtifactState incoming) {
  EntityKey key{Kind::artifact, incoming.content_id};
  if (is_loaded() && !journal.is_settled(key)) return;
  ArtifactState ours;
  if (const auto* known = model.artifact(incoming.content_id)) ours = *known;
  auto is_own = [&](const std::string& node) {
    const auto* record = model.node(node);
    if (!record || !record->is_own) return false;
    // Of its other copies one that reports for the first time has not said anything.
    return is_loaded() || lists_artifacts(node) ||
           std::ranges::count(ours.copies, node, &ArtifactCopy::node_id) > 0;
  };
  auto merged = merge_copies(ours, incoming, is_own);
  if (merged.copies != incoming.copies || merged.type != incoming.type) mark(key);
  if (merged.copies.empty())
    model.erase_artifact(key.first);
  else
    model.put_artifact(std::move(merged));
}

void Cluster::Core::take_gone(const EntityKey& key) {
  if (key.kind == Kind::penalty) return forget_penalties(key.first);
  if (keeps(key)) return;
  if (key.kind == Kind::artifact) {
    ArtifactState nothing;
    nothing.content_id = key.first;
    return take_artifact(std::move(nothing));
  }
  if (!journal.is_settled(key)) return;
  switch (key.kind) {
    case Kind::node: {
      const auto* record = model.node(key.first);
      // Whoever deleted it had not heard of it, and we have.
      if (record && record->is_own && !record->is_stale()) return mark_carried(key.first);
      model.erase_node(key.first);
      viewers.forget(key.first);
      return;
    }
    case Kind::stream:
      return model.erase_stream(key.first);
    case Kind::instance:
      return model.erase_instance(key.first, key.second);
    case Kind::mode:
      // Operators say it once: what a failover lost is said again by whoever heard it.
      return is_new_history() ? mark(key) : model.erase_mode(key.first);
    case Kind::artifact:
    case Kind::penalty:
      return;
  }
}

void Cluster::Core::on_settled(const EntityKey& key, const std::optional<std::string>& sent) {
  const auto* now = mirror->read()->find(static_cast<std::size_t>(key.kind), key.id());
  bool is_as_sent = now ? sent && now->value() == *sent : !sent;
  if (is_as_sent) return;
  if (now)
    take_value(key.kind, *now);
  else
    take_gone(key);
  settle_abandoned();
  changed();
}

std::optional<std::string> Cluster::Core::value_of(const EntityKey& key) const {
  switch (key.kind) {
    case Kind::node:
      if (const auto* record = model.node(key.first)) return to_json(record->state);
      return {};
    case Kind::stream:
      if (const auto* record = model.stream(key.first); record && record->is_known)
        return to_json(model.summed(*record));
      return {};
    case Kind::instance:
      if (const auto* instance = model.instance(key.first, key.second)) return to_json(*instance);
      return {};
    case Kind::artifact:
      if (const auto* artifact = model.artifact(key.first)) return to_json(*artifact);
      return {};
    case Kind::mode:
      if (auto found = model.modes().find(key.first); found != model.modes().end())
        return to_json(found->second);
      return {};
    case Kind::penalty:
      if (key.first != terms.instance_id || shared_penalties_.is_empty() || phase_ == Phase::closed)
        return {};
      return to_json(shared_penalties_);
  }
  return {};
}

void Cluster::Core::mark_carried(const std::string& node) {
  mark({Kind::node, node});
  for (const auto& stream : model.carried(node).streams) {
    mark({Kind::instance, stream, node});
    const auto* record = model.stream(stream);
    if (record && record->is_known) mark({Kind::stream, stream});
  }
  for (const auto& content_id : model.carried(node).artifacts) mark({Kind::artifact, content_id});
}

void Cluster::Core::write_again() {
  for (const auto& [id, record] : model.nodes())
    if (record.is_own && !record.is_stale()) mark_carried(id);
  is_rewritten_ = true;
  rewritten_at_ = mirror->read();
  looks_at_old_ = is_catching_up_;
  if (!shared_penalties_.is_empty()) mark({Kind::penalty, terms.instance_id});
}

}  // namespace warren::foghorn
