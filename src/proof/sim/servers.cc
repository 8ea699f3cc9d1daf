#include "proof/sim/servers.h"

#include <fmt/format.h>

#include <algorithm>

namespace warren::sim {

namespace {

// What the wall clocks show when a schedule begins: some day in 2023, in microseconds.
constexpr std::int64_t wall_at_begin_us = 1'700'000'000'000'000;
// How long a durable write waits for its replicas before the client hears that it was done at all.
constexpr auto longest_silence = 100ms;

std::int64_t in_us(Clock::duration duration) {
  return std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
}

}  // namespace

Servers::Servers(World& world, Options options)
    : world_(world),
      weather_(options.weather),
      begin_(world.now()),
      servers_(static_cast<std::size_t>(options.replicas) + 1) {
  for (auto& server : servers_) {
    server.clock_us = in_us(world_.between(-weather_.skew_most, weather_.skew_most));
    server.is_following = true;
  }
  servers_[0].is_primary = true;
  servers_[0].is_following = false;
}

Connection& Servers::connect() {
  return *connections_.emplace_back(std::make_unique<Connection>(world_, *this));
}

std::int64_t Servers::wall_us(int server) const {
  return wall_at_begin_us + in_us(world_.now() - begin_) + at(server).clock_us;
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

Clock::duration Servers::delay() {
  auto most = world_.chance(weather_.slow) ? weather_.slow_most : weather_.delay_most;
  return world_.between(weather_.delay_least, most);
}

Clock::duration Servers::lag() {
  auto most = world_.chance(weather_.long_lag) ? weather_.long_lag_most : weather_.lag_most;
  return world_.between(weather_.lag_least, most);
}

void Servers::receive(const Connection::RequestPtr& request, std::size_t way) {
  auto& [generation, server, life, is_lost, has_arrived] = request->ways[way];
  if (is_lost || !at(server).is_up || at(server).life != life) return;
  if (is_stopped(server))
    return world_.at(at(server).stopped_until,
                     [request, way] { request->from.servers_.receive(request, way); });
  has_arrived = true;
  auto reply = execute(server, request->words);
  // Nobody hears the answer to what arrived although its connection broke.
  if (request->from.link(request->socket).generation != generation) return;
  request->reply = std::move(reply);
  auto offset = at(server).model.changes().size();
  request->reached = replicas_with(server, offset);
  if (!request->durable_done || request->reply.is_error() || request->reached >= request->wanted)
    return answer(request, way);
  at(server).waits.push_back({request, way, offset});
  world_.after(longest_silence, [this, request, way] { answer(request, way); });
}

redis::Reply Servers::execute(int server, const std::shared_ptr<const Words>& words) {
  if (words->front() == "ROLE") return role(server);
  ModelRedis& model = at(server).model;
  auto before = model.changes().size();
  auto reply = model.run(words, wall_us(server));
  for (const auto& message : model.take_messages()) {
    for (auto& connection : connections_) {
      const auto& link = connection->link(Socket::messages);
      if (link.is_up && link.server == server) connection->deliver(message);
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

void Servers::answer(const Connection::RequestPtr& request, std::size_t way) {
  auto& link = request->from.link(request->socket);
  if (link.generation != request->ways[way].generation) return;
  if (is_stopped(link.server))
    return world_.at(at(link.server).stopped_until, [this, request, way] { answer(request, way); });
  link.last_return = std::max(link.last_return, world_.now() + delay());
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

// Fetches all that there is now; what comes meanwhile is fetched next.
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
    replica.model = at(primary_).model;
    replica.offset = replica.model.changes().size();
    replica.source = primary_;
    replica.is_following = true;
  });
}

void Servers::failover(int replica, Clock::duration old_answers_for) {
  ensure(replica != primary_ && is_following(replica), "a replica is promoted");
  Server& promoted = at(replica);
  take_changes(promoted);
  int old = std::exchange(primary_, replica);
  ++epoch_;
  promoted.is_primary = true;
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
        [c = connection.get(), primary = primary_, epoch = epoch_] { c->learn(primary, epoch); });
  }
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
    for (auto socket : all_sockets) {
      const auto& link = connection->link(socket);
      if (link.is_up && link.server == server) connection->break_link(socket);
    }
  }
}

void Servers::restart(int server, Clock::duration down, bool keeps_data) {
  Server& restarted = at(server);
  restarted.is_up = restarted.is_following = restarted.is_pulling = false;
  restarted.is_primary = server == primary_;
  restarted.stopped_until = {};
  ++restarted.sync;
  break_links(server);
  if (!keeps_data) {
    for (auto& replica : servers_) {
      if (!replica.is_following || replica.source != server) continue;
      take_changes(replica);  // it keeps them until it follows again
      ++replica.sync;         // what was on its way is gone
      replica.is_pulling = false;
    }
    restarted.model = {};
  }
  world_.after(down, [this, server, life = restarted.life, keeps_data] {
    if (at(server).life != life) return;
    at(server).is_up = true;
    if (server != primary_) return follow(server);
    for (int i = 0; i < size() && !keeps_data; ++i) {
      if (at(i).source == server && at(i).is_following) follow(i);
    }
  });
}

void Servers::stop(int server, Clock::duration duration) {
  at(server).stopped_until = std::max(at(server).stopped_until, world_.now() + duration);
}

void Servers::step_clock(int server, Clock::duration step) { at(server).clock_us += in_us(step); }

void Servers::begin_faults() {
  ensure(!has_faults_, "faults begin once");
  has_faults_ = true;
  repeat(weather_.breaks, &Servers::any_break);
  repeat(weather_.pauses, &Servers::any_pause);
  repeat(weather_.failovers, &Servers::any_failover);
  repeat(weather_.restarts, &Servers::any_restart);
  repeat(weather_.stops, &Servers::any_stop);
  repeat(weather_.clock_steps, &Servers::any_clock_step);
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
  if (connection) connection->break_link(all_sockets[world_.below(all_sockets.size())]);
}

void Servers::any_pause() {
  auto* connection = any_connection();
  if (connection) connection->pause(world_.between(0s, weather_.pause_most));
}

void Servers::any_failover() {
  int replica = any_server();
  if (!is_following(replica) || !at(replica).is_up) return;
  // What makes others give up on a primary is mostly that it does not answer.
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

}  // namespace warren::sim
