#include "proof/sim/servers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "proof/sim/model_slot.h"

namespace warren::sim {

namespace {

// What the wall clocks show when a schedule begins: a day in 2023, in microseconds.
constexpr std::int64_t wall_at_begin_us = 1'700'000'000'000'000;
// How long a durable write waits for its replicas before the client hears that it was done at all.
constexpr auto longest_silence = 100ms;

// From this length on, a delay counts as a fault.
constexpr auto felt = 1ms;

std::size_t size_of(const redis::Reply& reply) {
  auto bytes = reply.text.size() + 8;
  for (const auto& item : reply.items) bytes += size_of(item);
  return bytes;
}

redis::Reply error_of(std::string text) {
  return {redis::Reply::Kind::error, 0, std::move(text), {}};
}

std::int64_t in_us(Clock::duration duration) {
  return std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
}

}  // namespace

Servers::Servers(World& world, Options options)
    : world_(world),
      weather_(options.weather),
      begin_(world.now()),
      servers_(static_cast<std::size_t>(options.replicas) + 1),
      is_cluster_(options.is_cluster),
      slots_(std::move(options.slots)) {
  for (auto& server : servers_) {
    server.clock_us = in_us(world_.between(-weather_.skew_most, weather_.skew_most));
    server.is_following = true;
    if (weather_.drift_most > 0) server.drift = (2 * world_.unit() - 1) * weather_.drift_most;
  }
  servers_[0].is_primary = true;
  servers_[0].is_following = false;
}

Connection& Servers::connect() {
  return *connections_.emplace_back(std::make_unique<Connection>(world_, *this));
}

std::int64_t Servers::wall_us(int server) const {
  auto passed = in_us(world_.now() - begin_);
  auto drifted = static_cast<std::int64_t>(static_cast<double>(passed) * at(server).drift);
  return wall_at_begin_us + passed + drifted + at(server).clock_us;
}

std::size_t Servers::offset(int server) const {
  return at(server).is_following ? at(server).offset : at(server).model.changes().size();
}

int Servers::replicas_with(int server, std::size_t offset) const {
  return static_cast<int>(std::ranges::count_if(servers_, [&](const Server& replica) {
    return replica.is_following && replica.is_up && replica.source == server &&
           replica.offset >= offset;
  }));
}

ModelRedis& Servers::model(int server) {
  take_changes(at(server));
  return at(server).model;
}

bool Servers::accepts(int server) const {
  return at(server).is_up && at(server).is_primary && !is_stopped(server);
}

int Servers::owner_after(int server) const {
  while (at(server).moved_to >= 0) server = at(server).moved_to;
  return server;
}

SlotState Servers::slots_of(int server) const {
  if (!move_ || !serves(server)) return SlotState::whole;
  return server == primary_ ? SlotState::leaving : SlotState::arriving;
}

redis::Address Servers::address_of(int server) {
  return {fmt::format("server-{}", server), 6379, ""};
}

int Servers::server_at(const redis::Address& address) {
  int server = 0;
  auto number = std::string_view(address.host).substr(std::string_view("server-").size());
  std::from_chars(number.data(), number.data() + number.size(), server);
  return server;
}

std::vector<std::string> Servers::keys() const {
  auto all = at(primary_).model.keys();
  if (!move_) return all;
  std::ranges::move(at(move_->to).model.keys(), std::back_inserter(all));
  std::ranges::sort(all);
  return all;
}

bool Servers::has(const std::string& key) const {
  auto has = [&](int server) { return at(server).model.has(key, wall_us(server)); };
  return has(primary_) || (move_ && has(move_->to));
}

Clock::duration Servers::transfer(std::size_t bytes) {
  auto time = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(static_cast<double>(bytes) / weather_.bandwidth));
  if (time >= felt) {
    if (!narrow_) {
      narrow_ = happened_.size();
      note(FaultKind::narrow_link);
    }
    happened_[*narrow_].until = world_.now();
  }
  return time;
}

Happened& Servers::note(FaultKind fault, Clock::duration duration) {
  return happened_.emplace_back(Happened{fault, world_.now(), world_.now() + duration});
}

// The deciding clock was set, or is another one; `before_us` is what it showed a moment ago. A time
// that was set by a clock ahead lasts until that time comes, however often clocks have gone back
// since.
void Servers::note_clock(int server, std::int64_t before_us) {
  auto now_us = wall_us(server);
  latest_us_ = std::max(latest_us_, before_us);
  if (now_us > before_us) note(FaultKind::clock_forward);
  if (now_us < before_us)
    note(FaultKind::clock_back, std::chrono::microseconds(latest_us_ - now_us));
}

void Servers::on_learned(std::uint64_t epoch) {
  for (auto [made, index] : changes_of_epoch_)
    if (made <= epoch) happened_[index].until = world_.now();
}

Clock::duration Servers::delay() {
  auto most = world_.chance(weather_.slow) ? weather_.slow_most : weather_.delay_most;
  return world_.between(weather_.delay_least, most);
}

Clock::duration Servers::lag() {
  auto most = world_.chance(weather_.long_lag) ? weather_.long_lag_most : weather_.lag_most;
  return world_.between(weather_.lag_least, most);
}

void Servers::receive(const Connection::RequestPtr& request, std::size_t way) {
  auto& [socket, generation, server, life, is_asking, is_lost, has_arrived] = request->ways[way];
  if (is_lost || !at(server).is_up || at(server).life != life) return;
  if (is_stopped(server))
    return world_.at(at(server).stopped_until,
                     [request, way] { request->from.servers_.receive(request, way); });
  has_arrived = true;
  if (!serves(server) && at(server).is_primary && stale_) {
    happened_[*stale_].until = world_.now();
    happened_[*stale_].acted = true;
  }
  auto refused = refusal_of(server, *request->words, is_asking);
  auto reply = refused ? *std::move(refused) : execute(server, request->words);
  // The answer to a request that arrived although its connection broke is lost.
  if (request->from.link(socket).generation != generation) return;
  request->reply = std::move(reply);
  auto offset = at(server).model.changes().size();
  request->reached = replicas_with(server, offset);
  if (!request->durable_done || request->reply.is_error() || request->reached >= request->wanted)
    return answer(request, way);
  at(server).waits.push_back({request, way, offset});
  world_.after(longest_silence, [this, request, way] { answer(request, way); });
}

std::optional<redis::Reply> Servers::refusal_of(int server, const Words& words, bool is_asking) {
  Server& refusing = at(server);
  bool refuses = world_.now() < refusing.refuses_until;
  auto acted = [&] { happened_[refusing.refusal_noted].acted = true; };
  if (refuses && refusing.refusal == FaultKind::no_permission) {
    acted();
    return error_of(
        fmt::format("NOPERM this user has no permissions to run the '{}' command", words[0]));
  }
  if (auto elsewhere = redirection_of(server, words, is_asking)) return elsewhere;
  if (refuses && refusing.refusal == FaultKind::loading) {
    acted();
    return error_of("LOADING Redis is loading the dataset in memory");
  }
  return std::nullopt;
}

std::optional<redis::Reply> Servers::redirection_of(int server, const Words& words,
                                                    bool is_asking) {
  auto to = [&](const char* how, int other) {
    return error_of(fmt::format("{} 0 {}", how, redis::to_string(address_of(other))));
  };
  auto slots = slots_of(server);
  if (at(server).moved_to >= 0) {
    boost::container::small_vector<std::string_view, 16> args(words.begin(), words.end());
    if (keys_of(Args(args.data(), args.size())).empty()) return std::nullopt;
    return to("MOVED", owner_after(server));
  }
  if (slots == SlotState::whole) return std::nullopt;
  auto place = at(server).model.place_of(words, wall_us(server), slots, is_asking);
  if (place != Place::here) happened_[move_->noted].acted = true;
  switch (place) {
    case Place::here:
      break;
    case Place::other:
      return to("MOVED", primary_);
    case Place::other_by_ask:
      return to("ASK", move_->to);
    case Place::both:
      return error_of("TRYAGAIN Multiple keys request during rehashing of slot");
  }
  return std::nullopt;
}

redis::Reply Servers::execute(int server, const std::shared_ptr<const Words>& words) {
  if (words->front() == "ROLE") return role(server);
  if (words->front() == "CLUSTER") return cluster_nodes(server);
  ModelRedis nothing;  // a server whose slots are elsewhere has no data
  ModelRedis& model = at(server).moved_to >= 0 ? nothing : at(server).model;
  auto before = model.changes().size();
  auto refuses = Refuses::nothing;
  if (world_.now() < at(server).refuses_until) {
    if (at(server).refusal == FaultKind::out_of_memory) refuses = Refuses::growth;
    if (at(server).refusal == FaultKind::cannot_save) refuses = Refuses::writes;
    if (at(server).refusal == FaultKind::read_only) refuses = Refuses::writes_of_replica;
  }
  auto reply = model.run(words, wall_us(server), refuses, slots_of(server));
  if (refuses != Refuses::nothing && reply.is_error())
    happened_[at(server).refusal_noted].acted = true;
  if (on_executed) on_executed(server, *words, reply);
  for (const auto& message : model.take_messages()) {
    if (on_published) on_published(*words, message);
    for (auto& connection : connections_) {
      const auto& link = connection->link(Socket::messages);
      // In a cluster all servers forward unsharded messages.
      bool is_heard = link.server == server || (is_cluster_ && !message.is_sharded);
      if (link.is_up && is_heard) connection->deliver(message);
    }
  }
  if (model.changes().size() > before) {
    for (int i = 0; i < size(); ++i) {
      if (at(i).source == server) replicate(i);
    }
  }
  return reply;
}

redis::Reply Servers::role(int server) const {
  using redis::Reply;
  Reply replicas{Reply::Kind::array, 0, {}, {}};
  for (int i = 0; i < size(); ++i) {
    if (!at(i).is_following || !at(i).is_up || at(i).source != server) continue;
    Reply name{Reply::Kind::string, 0, fmt::format("server-{}", i), {}};
    replicas.items.push_back({Reply::Kind::array, 0, {}, {std::move(name)}});
  }
  auto offset = static_cast<std::int64_t>(at(server).model.changes().size());
  return {Reply::Kind::array,
          0,
          {},
          {{Reply::Kind::string, 0, "master", {}},
           {Reply::Kind::integer, offset, {}, {}},
           std::move(replicas)}};
}

// As this server sees it: only the owner of a slot says whether it moves.
redis::Reply Servers::cluster_nodes(int server) const {
  auto name = [](int i) { return fmt::format("server-{}", i); };
  std::string nodes;
  for (int i = 0; i < size(); ++i) {
    nodes += fmt::format("{} {}@16379 {}master - 0 0 {} connected", name(i),
                         redis::to_string(address_of(i)), i == server ? "myself," : "",
                         at(i).config_epoch);
    if (i == primary_) nodes += " 0-16383";
    for (int slot : slots_) {
      if (i != server || !move_) break;
      if (i == primary_) nodes += fmt::format(" [{}->-{}]", slot, name(move_->to));
      if (i == move_->to) nodes += fmt::format(" [{}-<-{}]", slot, name(primary_));
    }
    nodes += '\n';
  }
  return {redis::Reply::Kind::verbatim, 0, std::move(nodes), {}};
}

void Servers::answer(const Connection::RequestPtr& request, std::size_t way) {
  auto& link = request->from.link(request->ways[way].socket);
  if (link.generation != request->ways[way].generation) return;
  if (is_stopped(link.server))
    return world_.at(at(link.server).stopped_until, [this, request, way] { answer(request, way); });
  link.last_return = request->from.at_process(link, is_narrow() ? size_of(request->reply) : 0);
  world_.at(link.last_return, [request, way] { request->from.on_answer(request, way); });
}

void Servers::answer_waits(int server) {
  std::erase_if(at(server).waits, [&](const Wait& wait) {
    auto& reached = wait.request->reached;
    reached = std::max(reached, replicas_with(server, wait.offset));
    bool is_enough = reached >= wait.request->wanted;
    if (is_enough) answer(wait.request, wait.way);
    return is_enough;
  });
}

// Fetches all current changes; later ones are fetched next.
void Servers::replicate(int replica) {
  Server& server = at(replica);
  auto offset = at(server.source).model.changes().size();
  if (!server.is_following || server.is_pulling || server.offset >= offset) return;
  server.is_pulling = true;
  world_.after(lag(),
               [this, replica, sync = server.sync, offset] { on_pulled(replica, sync, offset); });
}

void Servers::on_pulled(int replica, std::uint32_t sync, std::size_t offset) {
  Server& server = at(replica);
  if (server.sync != sync) return;
  if (is_stopped(replica))
    return world_.at(server.stopped_until,
                     [this, replica, sync, offset] { on_pulled(replica, sync, offset); });
  server.is_pulling = false;
  server.offset = offset;
  answer_waits(server.source);
  replicate(replica);
}

void Servers::take_changes(Server& replica) {
  if (!replica.is_following || replica.model.changes().size() == replica.offset) return;
  const ModelRedis& source = at(replica.source).model;
  if (replica.offset == source.changes().size()) {  // a copy is cheaper than all those scripts
    replica.model = source;
    return;
  }
  for (auto i = replica.model.changes().size(); i < replica.offset; ++i)
    replica.model.replay(source.changes()[i]);
}

void Servers::lose_data(Server& server) {
  if (on_forget) on_forget(server.model);
  server.model = {};
  server.data_id = ++last_data_id_;
}

// Becomes a copy of the primary, and follows it from there.
void Servers::follow(int server) {
  at(server).is_following = at(server).is_pulling = false;
  world_.after(lag(), [this, server, sync = ++at(server).sync] {
    Server& replica = at(server);
    if (replica.sync != sync) return;
    if (!accepts(primary_) || is_stopped(server))
      return world_.after(world_.between(0s, weather_.reconnect_most), [this, server, sync] {
        if (at(server).sync == sync) follow(server);
      });
    if (on_forget) on_forget(replica.model);
    replica.model = at(primary_).model;
    replica.offset = replica.model.changes().size();
    replica.data_id = at(primary_).data_id;
    replica.source = primary_;
    replica.is_following = true;
  });
}

void Servers::failover(int replica, Clock::duration old_answers_for) {
  ensure(replica != primary_ && is_following(replica) && !move_, "a replica is promoted");
  Server& promoted = at(replica);
  take_changes(promoted);
  int old = std::exchange(primary_, replica);
  changes_of_epoch_.emplace_back(++epoch_, happened_.size());
  promoted.config_epoch = epoch_;
  note(FaultKind::failover);
  if (promoted.offset < at(old).model.changes().size()) note(FaultKind::lost_writes);
  note_clock(primary_, wall_us(old));
  if (at(old).is_up && old_answers_for > 0s) {
    stale_ = happened_.size();
    note(FaultKind::stale_primary).acted = false;
  }
  promoted.is_primary = true;
  promoted.moved_to = -1;
  promoted.is_following = promoted.is_pulling = false;
  ++promoted.sync;
  for (int i = 0; i < size(); ++i) {
    if (i != old && i != replica && at(i).is_up && !at(i).is_primary) follow(i);
  }
  if (!at(old).is_up)
    at(old).is_primary = false;
  else if (old_answers_for == 0s)
    restart(old, world_.between(0s, weather_.down_most), true);
  else
    world_.after(old_answers_for, [this, old] { demote(old); });
  for (auto& connection : connections_) {
    connection->after(
        world_.between(0s, weather_.news_most),
        [c = connection.get(), primary = primary_, epoch = epoch_] { c->hear_of(primary, epoch); });
  }
}

bool Servers::can_move_to(int server) const {
  return !move_ && server != primary_ && is_following(server) && at(server).is_up;
}

void Servers::move_slots(int to) {
  open_slots(to);
  hand_over();
}

void Servers::open_slots(int to) {
  ensure(is_cluster_ && can_move_to(to), "slots move to another server");
  Server& next = at(to);
  take_changes(next);
  lose_data(next);
  next.is_primary = true;
  next.is_following = next.is_pulling = false;
  next.moved_to = -1;
  ++next.sync;
  move_ = {to, 0};
}

void Servers::begin_move(int to) {
  open_slots(to);
  move_->noted = happened_.size();
  note(FaultKind::half_moved_slots).acted = false;
  // Keys keep their remaining ttl, but times in their values stay as they are.
  if (wall_us(to) < wall_us(primary_)) note_clock(to, wall_us(primary_));
}

void Servers::migrate(std::span<const std::string> keys) {
  for (const auto& key : keys)
    at(primary_).model.move_to(at(move_->to).model, key, wall_us(primary_), wall_us(move_->to));
  for (int i = 0; i < size(); ++i)
    if (at(i).source == primary_) replicate(i);
}

void Servers::end_move() {
  auto& until = happened_[move_->noted].until;
  until = std::max(until, world_.now());
  hand_over();
}

void Servers::hand_over() {
  migrate(at(primary_).model.keys());
  int to = std::exchange(move_, std::nullopt)->to;
  int from = std::exchange(primary_, to);
  at(from).is_primary = false;
  at(from).moved_to = to;
  changes_of_epoch_.emplace_back(++epoch_, happened_.size());
  at(to).config_epoch = epoch_;
  note(FaultKind::moved_slots);
  // Times in the values of keys stay as they are.
  if (wall_us(to) < wall_us(from)) note_clock(to, wall_us(from));
  for (int i = 0; i < size(); ++i) {
    if (i != to && at(i).is_up) follow(i);
  }
  for (auto& connection : connections_) {
    // A subscriber to a shard's channel is unsubscribed by the server.
    const auto& messages = connection->link(Socket::messages);
    if (messages.is_up && messages.server == from) connection->break_link(Socket::messages);
    connection->after(world_.between(0s, weather_.news_most),
                      [c = connection.get(), to, epoch = epoch_] { c->hear_of(to, epoch); });
  }
}

void Servers::move_key_by_key(int to, Clock::duration time) {
  begin_move(to);
  happened_[move_->noted].until = world_.now() + time;
  go_on_moving(world_.now() + time, time / static_cast<int>(1 + world_.below(8)));
}

// Moves keys in random batches; nothing else waits for either server.
void Servers::go_on_moving(Clock::time_point end, Clock::duration pause) {
  auto next = std::min(world_.now() + world_.between(0s, 2 * pause), std::max(end, world_.now()));
  if (!accepts(primary_) || !accepts(move_->to))
    next = world_.now() + world_.between(1ms, weather_.reconnect_most);
  auto& until = happened_[move_->noted].until;
  until = std::max(until, next);
  world_.at(next, [this, end, pause, noted = move_->noted] {
    if (!move_ || move_->noted != noted) return;
    if (!accepts(primary_) || !accepts(move_->to)) return go_on_moving(end, pause);
    if (world_.now() >= end) return end_move();
    auto left = at(primary_).model.keys();
    std::vector<std::string> batch;
    for (auto i = std::max(1uz, left.size() / 8); i > 0 && !left.empty(); --i) {
      auto any = left.begin() + static_cast<std::ptrdiff_t>(world_.below(left.size()));
      batch.push_back(std::move(*any));
      left.erase(any);
    }
    migrate(batch);
    go_on_moving(end, pause);
  });
}

void Servers::demote(int server) {
  if (server == primary_ || !at(server).is_primary) return;
  if (is_stopped(server))
    return world_.at(at(server).stopped_until + world_.between(0s, weather_.stale_most),
                     [this, server] { demote(server); });
  at(server).is_primary = false;
  break_links(server);
  follow(server);
}

void Servers::break_links(int server) {
  ++at(server).life;
  at(server).waits.clear();
  for (auto& connection : connections_) {
    for (auto socket : all_links) {
      const auto& link = connection->link(socket);
      if (link.is_up && link.server == server) connection->break_link(socket);
    }
  }
}

void Servers::restart(int server, Clock::duration down, bool keeps_data) {
  Server& restarted = at(server);
  restarted.is_up = restarted.is_following = restarted.is_pulling = false;
  restarted.is_primary = serves(server);
  restarted.stopped_until = {};
  ++restarted.sync;
  break_links(server);
  if (!keeps_data) {
    for (auto& replica : servers_) {
      if (!replica.is_following || replica.source != server) continue;
      take_changes(replica);  // it keeps them until it follows again
      ++replica.sync;         // what was under way is gone
      replica.is_pulling = false;
    }
    lose_data(restarted);
  }
  bool loses = !keeps_data && serves(server);
  note(loses ? FaultKind::wiped : FaultKind::restarted, down).was_primary = serves(server);
  world_.after(down, [this, server, life = restarted.life] {
    if (at(server).life != life) return;  // it restarted again
    at(server).is_up = true;
    if (!serves(server)) return follow(server);
    for (int i = 0; i < size(); ++i) {
      bool is_followed = at(i).source == server && at(i).is_following;
      if (is_followed && at(i).data_id != at(server).data_id) follow(i);
    }
  });
}

void Servers::restore(int server, Clock::duration down, ModelRedis copy) {
  restart(server, down, false);
  at(server).model = std::move(copy);
  happened_.back().fault = FaultKind::restored;
}

void Servers::refuse(int server, FaultKind how, Clock::duration duration) {
  ensure(how >= FaultKind::out_of_memory, "a server refuses with an error");
  at(server).refusal = how;
  at(server).refuses_until = world_.now() + duration;
  at(server).refusal_noted = happened_.size();
  auto& noted = note(how, duration);
  noted.was_primary = server == primary_;
  noted.acted = false;
}

bool Servers::evict(const std::vector<std::string>& keys) {
  std::map<int, Words> by_server;  // two servers, while a slot moves
  for (const auto& key : keys) {
    bool has_moved = move_ && at(move_->to).model.has(key, wall_us(move_->to));
    auto& words =
        by_server.try_emplace(has_moved ? move_->to : primary_, Words{"DEL"}).first->second;
    words.push_back(key);
  }
  bool has_any = false;
  for (auto& [server, words] : by_server)
    has_any =
        execute(server, std::make_shared<const Words>(std::move(words))).number > 0 || has_any;
  if (has_any) note(FaultKind::evicted);
  return has_any;
}

void Servers::stop(int server, Clock::duration duration) {
  note(FaultKind::stopped, duration).was_primary = serves(server);
  at(server).stopped_until = std::max(at(server).stopped_until, world_.now() + duration);
}

void Servers::step_clock(int server, Clock::duration step) {
  auto before_us = wall_us(server);
  at(server).clock_us += in_us(step);
  if (serves(server)) note_clock(server, before_us);
}

void Servers::begin_faults() {
  ensure(!has_faults_, "faults begin once");
  has_faults_ = true;
  repeat(weather_.breaks, &Servers::any_break);
  repeat(weather_.pauses, &Servers::any_pause);
  repeat(weather_.failovers, &Servers::any_failover);
  repeat(weather_.restarts, &Servers::any_restart);
  repeat(weather_.stops, &Servers::any_stop);
  repeat(weather_.clock_steps, &Servers::any_clock_step);
  repeat(weather_.cut_offs, &Servers::any_cut_off);
  repeat(weather_.refusals, &Servers::any_refusal);
  repeat(weather_.restores, &Servers::any_restore);
  repeat(weather_.moves, &Servers::any_move);
  repeat(weather_.half_moves, &Servers::any_half_move);
}

void Servers::repeat(double per_second, Fault fault) {
  if (per_second <= 0) return;
  auto most =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(2 / per_second));
  world_.after(world_.between(0s, most), [this, per_second, fault] {
    if (!has_faults_) return;
    (this->*fault)();
    repeat(per_second, fault);
  });
}

Connection* Servers::any_connection() {
  if (connections_.empty()) return nullptr;
  auto& connection = connections_[world_.below(connections_.size())];
  return connection->is_closed() ? nullptr : connection.get();
}

void Servers::any_break() {
  auto* connection = any_connection();
  if (!connection) return;
  note(FaultKind::broken_link);
  connection->break_link(all_sockets[world_.below(all_sockets.size())]);
}

void Servers::any_pause() {
  auto* connection = any_connection();
  if (!connection) return;
  auto time = world_.between(0s, weather_.pause_most);
  note(FaultKind::paused, time);
  connection->pause(time);
}

void Servers::any_failover() {
  int replica = any_server();
  if (!is_following(replica) || !at(replica).is_up || move_) return;
  // A client of a cluster that stays connected to a server which is replaced and becomes primary
  // again never hears of the epochs between, and only clocks keep its tokens apart from those of
  // the other primary: docs/guarantees.md says so. Such a return is not simulated.
  auto believes = [replica](const auto& connection) {
    return !connection->is_closed() && connection->primary_ == replica;
  };
  if (is_cluster_ && std::ranges::any_of(connections_, believes)) return;
  // Usually a primary is replaced because it does not answer.
  if (weather_.stops > 0 && world_.chance(0.5))
    stop(primary_, world_.between(0s, weather_.stop_most));
  bool is_stale = world_.chance(weather_.stale);
  failover(replica, is_stale ? world_.between(1ms, weather_.stale_most) : 0s);
}

void Servers::any_restart() {
  int server = any_server();
  if (!at(server).is_up) return;
  bool keeps_data = !world_.chance(weather_.loses_data);
  restart(server, world_.between(0s, weather_.down_most), keeps_data);
}

void Servers::any_stop() { stop(any_server(), world_.between(0s, weather_.stop_most)); }

void Servers::any_clock_step() {
  step_clock(any_server(), world_.between(-weather_.step_most, weather_.step_most));
}

void Servers::any_cut_off() {
  auto* connection = any_connection();
  if (!connection) return;
  auto time = world_.between(0s, weather_.cut_most);
  note(FaultKind::cut_off, time);
  if (world_.chance(0.5))
    connection->cut_off(time);
  else
    connection->fall_silent(time, world_.between(0s, time));
}

void Servers::any_refusal() {
  static const std::vector<FaultKind> all{FaultKind::out_of_memory, FaultKind::cannot_save,
                                          FaultKind::no_permission, FaultKind::loading,
                                          FaultKind::read_only};
  const auto& kinds = weather_.refusal_kinds.empty() ? all : weather_.refusal_kinds;
  refuse(primary_, kinds[world_.below(kinds.size())], world_.between(0s, weather_.refusal_most));
}

// Alternates between making a copy and restoring it.
void Servers::any_restore() {
  if (!at(primary_).is_up || move_) return;  // half of the keys are no copy of the data
  if (!copy_) {
    copy_ = at(primary_).model;
    return;
  }
  restore(primary_, world_.between(0s, weather_.down_most), *std::exchange(copy_, std::nullopt));
}

void Servers::any_move() {
  int to = any_server();
  if (can_move_to(to) && accepts(primary_)) move_slots(to);
}

void Servers::any_half_move() {
  int to = any_server();
  if (can_move_to(to) && accepts(primary_))
    move_key_by_key(to, world_.between(1ms, weather_.half_moved_most));
}

}  // namespace warren::sim
