#include "net/http/origin.h"

#include <algorithm>
#include <charconv>

namespace warren {

namespace {

std::string name_of(const HttpUrl& to, const HttpPeer& peer = {}) {
  auto name = (to.is_tls ? "https://" : "http://") + authority_of(to);
  return peer.id.empty() ? name : name + " " + peer.id;
}

}  // namespace

// A place in the queue for a connection. Leaving it wakes the next one.
struct HttpPool::Core::Place {
  std::list<Event>& line;
  std::list<Event>::iterator at;

  ~Place() {
    line.erase(at);
    if (!line.empty()) line.front().notify();
  }
};

// A connection that is counted but not established yet.
struct HttpPool::Core::Slot {
  Core& core;
  const std::string& name;
  bool is_used = false;

  ~Slot() {
    if (!is_used) core.free_slot(name);
  }
};

HttpPool::Core::Core(asio::any_io_executor executor, HttpPoolTerms terms)
    : executor_(executor), terms_(std::move(terms)), timer_(executor) {}

std::unique_ptr<HttpLink> HttpPool::Core::take_idle(Origin& origin) {
  while (!origin.idle.empty()) {
    auto link = std::move(origin.idle.back());
    origin.idle.pop_back();
    if (link->is_fresh()) return link;
    --origin.open;
  }
  return nullptr;
}

Async<std::unique_ptr<HttpLink>> HttpPool::Core::take(HttpUrl to, HttpPeer peer, bool anew,
                                                      Clock::time_point deadline) {
  auto name = name_of(to, peer);
  auto& origin = origins_[name];
  std::optional<Place> place;
  for (;;) {
    bool is_first = place ? place->at == origin.line.begin() : origin.line.empty();
    if (is_first && anew && !origin.idle.empty() && origin.open == terms_.most_connections) {
      origin.idle.pop_front();
      --origin.open;
    }
    auto link = is_first && !anew ? take_idle(origin) : nullptr;
    if (link) {
      ++reused_;
      co_return link;
    }
    if (is_first && origin.open < terms_.most_connections) break;
    if (!place) {
      if (origin.line.size() >= terms_.most_waiting)
        co_return fail(Errc::overloaded, "too many calls wait for {}", name);
      auto at = origin.line.emplace(origin.line.end(), executor_);
      place.emplace(origin.line, at);
    }
    co_await place->at->wait(deadline);
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return fail(Errc::cancelled, "the caller left");
    if (Clock::now() >= deadline)
      co_return fail(Errc::timeout, "all connections to {} are in use", name);
  }
  ++origin.open;
  Slot slot{*this, name};
  place.reset();
  auto connected = co_await connect(std::move(to), deadline);
  if (connected && peer.confirm)
    if (auto confirmed = peer.confirm(); !confirmed) connected = std::unexpected(confirmed.error());
  slot.is_used = connected.has_value();
  co_return connected;
}

Async<std::unique_ptr<HttpLink>> HttpPool::Core::connect(HttpUrl to, Clock::time_point deadline) {
  if (to.is_tls && !terms_.tls)
    co_return fail(Errc::invalid, "{}: there is no TLS here: see tls_for_client", name_of(to));
  redis::Address address{to.host, 0, ""};
  std::from_chars(to.port.data(), to.port.data() + to.port.size(), address.port);
  auto by = std::min(deadline, Clock::now() + terms_.connect_time);
  const auto* tls = to.is_tls ? &*terms_.tls : nullptr;
  auto transport = co_await redis::Transport::connect(std::move(address), tls, by);
  if (!transport) co_return std::unexpected(transport.error());
  ++connected_;
  co_return std::make_unique<HttpLink>(std::move(*transport), terms_.piece_time);
}

void HttpPool::Core::give_back(const HttpUrl& to, const HttpPeer& peer,
                               std::unique_ptr<HttpLink> link) {
  if (is_stopped_ || !link->is_fresh()) {
    link.reset();
    return gone(to, peer);
  }
  auto& origin = origins_[name_of(to, peer)];
  origin.idle.push_back(std::move(link));
  if (!origin.line.empty()) origin.line.front().notify();
  sweep_later();
}

void HttpPool::Core::gone(const HttpUrl& to, const HttpPeer& peer) { free_slot(name_of(to, peer)); }

void HttpPool::Core::free_slot(const std::string& name) {
  auto found = origins_.find(name);
  auto& origin = found->second;
  --origin.open;
  if (!origin.line.empty())
    origin.line.front().notify();
  else if (origin.open == 0)
    origins_.erase(found);
}

void HttpPool::Core::drop_idle(Clock::time_point used_before) {
  for (auto next = origins_.begin(); next != origins_.end();) {
    auto& origin = next->second;
    while (!origin.idle.empty() && origin.idle.front()->used_at() < used_before) {
      origin.idle.pop_front();
      --origin.open;
    }
    next = origin.open == 0 && origin.line.empty() ? origins_.erase(next) : std::next(next);
  }
  // A loop that has nothing else to do must not wait for the next sweep.
  auto has_idle = [](const auto& each) { return !each.second.idle.empty(); };
  if (std::ranges::any_of(origins_, has_idle)) return;
  timer_.cancel();
  is_sweeping_ = false;
}

void HttpPool::Core::sweep_later() {
  if (std::exchange(is_sweeping_, true)) return;
  timer_.expires_after(terms_.idle_time / 2);
  timer_.async_wait([weak = weak_from_this()](boost::system::error_code error) {
    auto self = weak.lock();
    if (error || !self || self->is_stopped_) return;
    self->is_sweeping_ = false;
    self->drop_idle(Clock::now() - self->terms_.idle_time);
    for (auto& [name, origin] : self->origins_)
      if (!origin.idle.empty()) return self->sweep_later();
  });
}

void HttpPool::Core::stop() {
  is_stopped_ = true;
  timer_.cancel();
  drop_idle(Clock::time_point::max());
}

HttpPool::Counters HttpPool::Core::counters() const {
  Counters counters{.connected = connected_, .reused = reused_};
  for (const auto& [name, origin] : origins_) {
    counters.open += origin.open;
    counters.idle += origin.idle.size();
    counters.waiting += origin.line.size();
  }
  return counters;
}

}  // namespace warren
