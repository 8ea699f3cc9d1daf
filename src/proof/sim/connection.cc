#include "proof/sim/connection.h"

#include <algorithm>

#include "proof/sim/servers.h"
#include "redis/connection/conversation.h"

namespace warren::sim {

Connection::Connection(World& world, Servers& servers)
    : world_(world), servers_(servers), primary_(servers.primary()), epoch_(servers.epoch()) {
  connect(Socket::data, 0s);
}

void Connection::call(Words words, Clock::time_point deadline, Done done,
                      redis::CallOptions options) {
  auto socket = options.lane() == redis::Lane::renewal ? Socket::renewal : Socket::data;
  submit(std::make_shared<Request>(Request{.from = *this,
                                           .socket = socket,
                                           .words = std::make_shared<const Words>(std::move(words)),
                                           .deadline = deadline,
                                           .is_idempotent = options.is_idempotent(),
                                           .done = std::move(done)}));
}

void Connection::durable(Words words, int replicas, Clock::time_point deadline, DurableDone done,
                         redis::CallOptions options) {
  submit(std::make_shared<Request>(Request{.from = *this,
                                           .socket = Socket::durable,
                                           .words = std::make_shared<const Words>(std::move(words)),
                                           .deadline = deadline,
                                           .is_idempotent = options.is_idempotent(),
                                           .durable_done = std::move(done),
                                           .wanted = replicas}));
}

void Connection::submit(RequestPtr request) {
  if (is_closed_) return;
  at(request->deadline, [request] { request->from.on_deadline(request); });
  if (request->deadline <= world_.now()) return;
  if (link(request->socket).is_up) return send(request);
  link(request->socket).waiting.push_back(request);
  connect(request->socket, 0s);
}

void Connection::send(const RequestPtr& request) {
  Link& link = this->link(request->socket);
  auto way = request->ways.size();
  request->ways.push_back({link.generation, link.server, servers_.at(link.server).life});
  link.sent.push_back(request);
  link.last_arrival = std::max(link.last_arrival, world_.now() + servers_.delay());
  world_.at(link.last_arrival, [request, way] { request->from.servers_.receive(request, way); });
}

void Connection::on_answer(const RequestPtr& request, std::size_t way) {
  Link& link = this->link(request->socket);
  if (is_closed_ || request->ways[way].generation != link.generation) return;
  if (world_.now() < wakes_at_)
    return world_.at(wakes_at_, [request, way] { request->from.on_answer(request, way); });
  request->is_answered = true;
  bool waits_on =
      request->durable_done && !request->reply.is_error() && request->reached < request->wanted;
  if (waits_on) return;
  std::erase(link.sent, request);
  if (!request->is_over) finish(*request, std::move(request->reply));
}

void Connection::on_deadline(const RequestPtr& request) {
  if (request->is_over) return;
  std::erase(link(request->socket).waiting, request);
  if (request->is_answered)
    finish(*request, std::move(request->reply));
  else if (!request->ways.empty())
    finish(*request, fail(Errc::unknown_outcome, "it was sent and not answered in time"));
  else if (is_connected(request->socket))
    finish(*request, fail(Errc::timeout, "the deadline had passed already"));
  else
    finish(*request, fail(Errc::unavailable, "it was not sent in time: not connected"));
}

void Connection::on_lost(const RequestPtr& request) {
  if (request->is_over) return;
  if (request->is_answered)
    finish(*request, std::move(request->reply));
  else if (!request->is_idempotent)
    finish(*request, fail(Errc::unknown_outcome, "it was sent, then the connection was lost"));
  else if (is_connected(request->socket))
    send(request);
  else
    link(request->socket).waiting.push_back(request);
}

void Connection::finish(Request& request, Result<redis::Reply> reply) {
  request.is_over = true;
  if (reply && reply->is_error()) reply = std::unexpected(redis::error_of(*reply));
  if (request.done) return request.done(std::move(reply));
  if (!reply) return request.durable_done(std::unexpected(std::move(reply).error()));
  request.durable_done(redis::Durable{*std::move(reply), request.reached});
}

void Connection::connect(Socket socket, Clock::duration delay) {
  Link& link = this->link(socket);
  if (is_closed_ || link.is_up || link.is_connecting) return;
  link.is_connecting = true;
  after(delay, [this, socket] { try_to_connect(socket); });
}

void Connection::try_to_connect(Socket socket) {
  link(socket).is_connecting = false;
  if (!servers_.accepts(primary_)) {
    learn(servers_.primary(), servers_.epoch());
    return connect(socket, world_.between(0s, servers_.weather_.reconnect_most));
  }
  link(socket).is_connecting = true;
  after(servers_.delay() + servers_.delay(),
        [this, socket, server = primary_] { establish(socket, server); });
}

void Connection::establish(Socket socket, int server) {
  Link& link = this->link(socket);
  link.is_connecting = false;
  if (server != primary_ || !servers_.accepts(server))
    return connect(socket, world_.between(0s, servers_.weather_.reconnect_most));
  link.is_up = true;
  link.server = server;
  for (auto waiting = std::exchange(link.waiting, {}); const auto& request : waiting) send(request);
  if (socket == Socket::messages) {
    for (std::size_t i = 0; i < subscriptions_.size(); ++i) ask_for(i);
  } else if (socket != Socket::durable && on_connected) {
    on_connected();
  }
}

void Connection::learn(int primary, std::uint64_t epoch) {
  if (epoch <= epoch_) return;
  primary_ = primary;
  epoch_ = epoch;
  for (auto socket : all_sockets) {
    if (link(socket).is_up && link(socket).server != primary) break_link(socket);
  }
  if (on_connected) on_connected();
}

void Connection::break_link(Socket socket) {
  Link& link = this->link(socket);
  if (!link.is_up) return;
  link.is_up = false;
  ++link.generation;
  auto sent = std::exchange(link.sent, {});
  // Of what has not arrived yet, the first few do.
  auto on_its_way =
      std::ranges::find(sent, false, [](auto& r) { return r->ways.back().has_arrived; });
  auto arriving = world_.below(static_cast<std::uint64_t>(sent.end() - on_its_way) + 1);
  for (auto lost = on_its_way + static_cast<std::ptrdiff_t>(arriving); lost != sent.end(); ++lost)
    (*lost)->ways.back().is_lost = true;
  for (auto& request : sent) after(0s, [request] { request->from.on_lost(request); });
  if (socket == Socket::messages) {
    owes_gap_ = owes_gap_ || was_settled_;
    for (auto& subscription : subscriptions_)
      subscription.stands = subscription.is_confirmed = false;
  }
  connect(socket, world_.between(0s, servers_.weather_.reconnect_most));
}

void Connection::pause(Clock::duration duration) {
  wakes_at_ = std::max(wakes_at_, world_.now() + duration);
}

void Connection::close() {
  for (auto socket : all_sockets) break_link(socket);
  is_closed_ = true;
}

void Connection::want(std::string channel, bool is_sharded) {
  for (const auto& known : subscriptions_) {
    if (known.channel == channel && known.is_sharded == is_sharded) return;
  }
  subscriptions_.push_back({std::move(channel), is_sharded});
  if (is_connected(Socket::messages))
    ask_for(subscriptions_.size() - 1);
  else
    connect(Socket::messages, 0s);
}

void Connection::ask_for(std::size_t subscription) {
  Link& link = this->link(Socket::messages);
  link.last_arrival = std::max(link.last_arrival, world_.now() + servers_.delay());
  world_.at(link.last_arrival, [this, subscription, generation = link.generation] {
    on_subscribed(subscription, generation);
  });
}

// At the server.
void Connection::on_subscribed(std::size_t subscription, std::uint64_t generation) {
  Link& link = this->link(Socket::messages);
  if (link.generation != generation) return;
  if (servers_.is_stopped(link.server)) {
    return world_.at(servers_.at(link.server).stopped_until,
                     [this, subscription, generation] { on_subscribed(subscription, generation); });
  }
  subscriptions_[subscription].stands = true;
  link.last_return = std::max(link.last_return, world_.now() + servers_.delay());
  at(link.last_return,
     [this, subscription, generation] { on_confirmed(subscription, generation); });
}

void Connection::on_confirmed(std::size_t subscription, std::uint64_t generation) {
  if (link(Socket::messages).generation != generation) return;
  subscriptions_[subscription].is_confirmed = true;
  if (!std::ranges::all_of(subscriptions_, &Subscription::is_confirmed)) return;
  was_settled_ = true;
  auto& tell = std::exchange(owes_gap_, false) ? on_gap : on_settled;
  if (tell) tell();
}

// From the server to which the link goes.
void Connection::deliver(const Message& message) {
  bool stands = std::ranges::any_of(subscriptions_, [&](const auto& subscription) {
    return subscription.stands && subscription.channel == message.channel &&
           subscription.is_sharded == message.is_sharded;
  });
  if (!stands) return;
  Link& link = this->link(Socket::messages);
  link.last_return = std::max(link.last_return, world_.now() + servers_.delay());
  at(link.last_return, [this, message, generation = link.generation] {
    if (this->link(Socket::messages).generation == generation && on_message) on_message(message);
  });
}

}  // namespace warren::sim
