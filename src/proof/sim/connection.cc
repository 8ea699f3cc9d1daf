#include "proof/sim/connection.h"

#include <algorithm>

#include "proof/sim/servers.h"
#include "redis/connection/conversation.h"
#include "redis/resp/refusal.h"
#include "redis/topology/cluster.h"

namespace warren::sim {

namespace {

// How long the client waits before it asks a server again that answered "later".
constexpr auto parking_pause = 20ms;

std::size_t size_of(const Words& words) {
  std::size_t bytes = 0;
  for (const auto& word : words) bytes += word.size() + 8;
  return bytes;
}

bool is_aside(Socket socket) { return socket >= Socket::asked_data; }

// The socket that leads to where an ASK points, and back.
Socket asked(Socket socket) {
  constexpr auto step = std::size_t(Socket::asked_data) - std::size_t(Socket::data);
  return is_aside(socket) ? socket : Socket(std::size_t(socket) + step);
}
Socket plain(Socket socket) {
  constexpr auto step = std::size_t(Socket::asked_data) - std::size_t(Socket::data);
  return is_aside(socket) ? Socket(std::size_t(socket) - step) : socket;
}

}  // namespace

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
                                           .options = options,
                                           .done = std::move(done)}));
}

void Connection::durable(Words words, int replicas, Clock::time_point deadline, DurableDone done,
                         redis::CallOptions options) {
  submit(std::make_shared<Request>(Request{.from = *this,
                                           .socket = Socket::durable,
                                           .words = std::make_shared<const Words>(std::move(words)),
                                           .deadline = deadline,
                                           .options = options,
                                           .durable_done = std::move(done),
                                           .wanted = replicas}));
}

void Connection::call_at(int server, Words words, Clock::time_point deadline, Done done,
                         bool is_asking) {
  if (is_closed_) return;
  aim(named_, server);
  submit(std::make_shared<Request>(Request{.from = *this,
                                           .socket = Socket::named,
                                           .words = std::make_shared<const Words>(std::move(words)),
                                           .deadline = deadline,
                                           .options = redis::CallOptions().fail_fast(),
                                           .done = std::move(done),
                                           .is_asking = is_asking}));
}

void Connection::submit(RequestPtr request) {
  if (is_closed_) return;
  at(request->deadline, [request] { request->from.on_deadline(request); });
  if (request->deadline > world_.now()) send_when_connected(request);
}

void Connection::send_when_connected(const RequestPtr& request) {
  if (link(request->socket).is_up) return send(request);
  link(request->socket).waiting.push_back(request);
  connect(request->socket, 0s);
}

void Connection::send(const RequestPtr& request) {
  Link& link = this->link(request->socket);
  auto way = request->ways.size();
  request->is_parked = false;
  request->ways.push_back({request->socket, link.generation, link.server,
                           servers_.at(link.server).life, request->is_asking});
  link.sent.push_back(request);
  link.last_arrival = at_server(link, servers_.is_narrow() ? size_of(*request->words) : 0);
  world_.at(link.last_arrival, [request, way] { request->from.servers_.receive(request, way); });
}

void Connection::on_answer(const RequestPtr& request, std::size_t way) {
  Link& link = this->link(request->ways[way].socket);
  if (is_closed_ || request->ways[way].generation != link.generation) return;
  if (world_.now() < wakes_at_)
    return world_.at(wakes_at_, [request, way] { request->from.on_answer(request, way); });
  if (request->reply.is_error() && is_sent_elsewhere(request)) return;
  request->is_answered = true;
  bool waits_on =
      request->durable_done && !request->reply.is_error() && request->reached < request->wanted;
  if (waits_on) return;
  std::erase(link.sent, request);
  if (!request->is_over) finish(*request, std::move(request->reply));
}

// What a client does with a refusal that is not final.
bool Connection::is_sent_elsewhere(const RequestPtr& request) {
  if (request->socket == Socket::named) return false;
  if (servers_.is_cluster()) return is_sent_onward(request);
  auto refusal = redis::classify(request->reply.text);
  bool is_sentinel = servers_.size() > 1;
  bool is_for_caller = refusal == redis::Refusal::final || refusal == redis::Refusal::denied ||
                       refusal == redis::Refusal::exhausted;
  if (is_for_caller) return false;
  std::erase(link(request->socket).sent, request);
  if (request->is_over) return true;
  if (refusal == redis::Refusal::not_primary && is_sentinel) break_link(request->socket);
  park(request);
  return true;
}

// The same for a cluster's client. Durable writes are redirected as often as necessary.
bool Connection::is_sent_onward(const RequestPtr& request) {
  using Kind = redis::Onward::Kind;
  auto& socket = request->socket;
  auto detours = request->durable_done ? 0 : request->detours++;
  auto next = redis::onward_from(Servers::address_of(link(socket).server), request->reply,
                                 request->options, detours);
  if (next.kind == Kind::told) return false;
  std::erase(link(socket).sent, request);
  if (request->is_over) return true;
  request->is_asking = next.kind == Kind::asked;
  socket = request->is_asking ? asked(socket) : plain(socket);
  switch (next.kind) {
    case Kind::told:
      break;
    case Kind::moved:
      redirect(Servers::server_at(next.to.address));
      send_when_connected(request);
      break;
    case Kind::asked:
      aim(asked_, Servers::server_at(next.to.address));
      send_when_connected(request);
      break;
    case Kind::astray:
      finish(*request, fail(Errc::unavailable, "it was sent from server to server"));
      break;
    case Kind::later:
      request->detours = 0;
      park(request);
      break;
  }
  return true;
}

void Connection::park(const RequestPtr& request) {
  request->is_parked = true;
  after(parking_pause, [request] {
    auto& self = request->from;
    if (!request->is_over) self.send_when_connected(request);
  });
}

void Connection::on_deadline(const RequestPtr& request) {
  if (request->is_over) return;
  std::erase(link(request->socket).waiting, request);
  if (request->is_parked) return finish(*request, fail(Errc::unavailable, "refused for now"));
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
  request->may_have_run = true;
  if (request->is_answered)
    finish(*request, std::move(request->reply));
  else if (!request->options.is_idempotent())
    finish(*request, fail(Errc::unknown_outcome, "it was sent, then the connection was lost"));
  else
    send_when_connected(request);
}

void Connection::finish(Request& request, Result<redis::Reply> reply) {
  request.is_over = true;
  if (reply && reply->is_error()) reply = std::unexpected(redis::error_of(*reply));
  if (!reply && request.may_have_run)
    reply = std::unexpected(redis::in_doubt(std::move(reply).error()));
  if (request.done) return request.done(std::move(reply));
  if (!reply) return request.durable_done(std::unexpected(std::move(reply).error()));
  request.durable_done(redis::Durable{*std::move(reply), request.reached});
}

int Connection::target(Socket socket) const {
  if (socket == Socket::named) return named_;
  return is_aside(socket) ? asked_ : primary_;
}

void Connection::aim(int& target, int server) {
  if (std::exchange(target, server) == server) return;
  for (auto socket : all_links) {
    if (is_aside(socket) && this->target(socket) != link(socket).server) break_link(socket);
  }
}

void Connection::connect(Socket socket, Clock::duration delay) {
  Link& link = this->link(socket);
  if (is_closed_ || link.is_up || link.is_connecting) return;
  link.is_connecting = true;
  after(delay, [this, socket] { try_to_connect(socket); });
}

void Connection::try_to_connect(Socket socket) {
  link(socket).is_connecting = false;
  bool is_cut_off = world_.now() < cut_until_;
  if (is_cut_off || !servers_.accepts(target(socket))) {
    int next = servers_.owner_after(primary_);
    bool finds_primary = !is_cut_off && !is_aside(socket);
    if (finds_primary && next != primary_)
      redirect(next);
    else if (finds_primary)
      learn(servers_.primary(), servers_.epoch());
    return on_not_connected(socket);
  }
  link(socket).is_connecting = true;
  after(servers_.delay() + servers_.delay(),
        [this, socket, server = target(socket)] { establish(socket, server); });
}

void Connection::establish(Socket socket, int server) {
  Link& link = this->link(socket);
  link.is_connecting = false;
  if (server != target(socket) || !servers_.accepts(server) || world_.now() < cut_until_)
    return on_not_connected(socket);
  link.is_up = true;
  link.server = server;
  // A connecting client has asked the sentinels for the primary, and they also gave the epoch.
  if (!servers_.is_cluster() && server == servers_.primary() && epoch_ < servers_.epoch()) {
    epoch_ = servers_.epoch();
    servers_.on_learned(epoch_);
  }
  for (auto waiting = std::exchange(link.waiting, {}); const auto& request : waiting) send(request);
  if (socket == Socket::messages) {
    for (std::size_t i = 0; i < subscriptions_.size(); ++i) ask_for(i);
  } else if (plain(socket) < Socket::durable && on_connected) {
    on_connected();
  }
}

void Connection::on_not_connected(Socket socket) {
  if (!is_aside(socket)) connect(socket, world_.between(0s, servers_.weather_.reconnect_most));
  std::deque<RequestPtr> hasty;
  std::erase_if(link(socket).waiting, [&](const RequestPtr& request) {
    bool is_hasty = request->options.fails_fast();
    if (is_hasty) hasty.push_back(request);
    return is_hasty;
  });
  if (is_aside(socket) && !link(socket).waiting.empty())
    connect(socket, world_.between(0s, servers_.weather_.reconnect_most));
  for (auto& request : hasty) finish(*request, fail(Errc::unavailable, "not connected"));
}

void Connection::learn(int primary, std::uint64_t epoch) {
  if (epoch <= epoch_) return;
  primary_ = primary;
  epoch_ = epoch;
  servers_.on_learned(epoch);
  leave_all_but(primary);
  if (on_connected) on_connected();
}

// From other processes, which do not reach it while it is cut off.
void Connection::hear_of(int primary, std::uint64_t epoch) {
  if (world_.now() < cut_until_)
    return at(cut_until_, [this, primary, epoch] { hear_of(primary, epoch); });
  learn(primary, epoch);
}

// By the old server, which says where but not in which epoch.
void Connection::redirect(int primary) {
  if (std::exchange(primary_, primary) == primary) return;
  leave_all_but(primary);
  if (on_connected) on_connected();
}

void Connection::leave_all_but(int primary) {
  for (auto socket : all_sockets) {
    if (link(socket).is_up && link(socket).server != primary) break_link(socket);
  }
}

Clock::time_point Connection::arrival(Clock::time_point last, std::size_t bytes,
                                      Clock::time_point cut_from) const {
  auto arrival = std::max(last, world_.now() + servers_.delay());
  if (world_.now() >= cut_from) arrival = std::max(arrival, cut_until_);
  return servers_.is_narrow() ? arrival + servers_.transfer(bytes) : arrival;
}

void Connection::cut_off(Clock::duration duration) {
  fall_silent(duration, 0s);
  for (auto socket : all_links) break_link(socket);
}

void Connection::fall_silent(Clock::duration duration, Clock::duration still_heard) {
  cut_until_ = std::max(cut_until_, world_.now() + duration);
  unheard_from_ = world_.now() + still_heard;
}

void Connection::break_link(Socket socket) {
  Link& link = this->link(socket);
  if (!link.is_up) return;
  link.is_up = false;
  ++link.generation;
  auto sent = std::exchange(link.sent, {});
  // Of the requests that have not arrived yet, the first few do.
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
  if (!is_aside(socket)) connect(socket, world_.between(0s, servers_.weather_.reconnect_most));
}

void Connection::pause(Clock::duration duration) {
  wakes_at_ = std::max(wakes_at_, world_.now() + duration);
}

void Connection::close() {
  for (auto socket : all_links) break_link(socket);
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
  link.last_arrival = at_server(link, subscriptions_[subscription].channel.size());
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
  link.last_return = at_process(link, subscriptions_[subscription].channel.size());
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

// From the server to which the link leads.
void Connection::deliver(const Message& message) {
  bool stands = std::ranges::any_of(subscriptions_, [&](const auto& subscription) {
    return subscription.stands && subscription.channel == message.channel &&
           subscription.is_sharded == message.is_sharded;
  });
  if (!stands) return;
  Link& link = this->link(Socket::messages);
  link.last_return = at_process(link, message.payload.size());
  at(link.last_return, [this, message, generation = link.generation] {
    if (this->link(Socket::messages).generation == generation && on_message) on_message(message);
  });
}

}  // namespace warren::sim
