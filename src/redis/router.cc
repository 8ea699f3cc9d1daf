#include "redis/router.h"

#include <algorithm>

#include "base/log.h"

namespace warren::redis {

namespace {

// Short enough to be unnoticed after a failover, long enough not to burden a server that loads.
constexpr auto pause = 20ms;

class FixedConnector : public Connector {
 public:
  explicit FixedConnector(const Dialer& dialer) : dialer_(dialer) {}
  Async<std::unique_ptr<Conversation>> connect(Clock::time_point deadline) override {
    return dialer_.dial(dialer_.settings().addresses.front(), deadline);
  }

 private:
  const Dialer& dialer_;
};

// Owns the connector that its base refers to.
class SingleRouter final : FixedConnector, public PrimaryRouter {
 public:
  SingleRouter(asio::any_io_executor executor, const Dialer& dialer, TaskGroup& tasks)
      : FixedConnector(dialer), PrimaryRouter(executor, dialer.settings(), *this, tasks) {}
};

}  // namespace

Refusal classify(std::string_view error) {
  auto word = error_word(error);
  if (word == "MOVED") return Refusal::moved;
  if (word == "ASK") return Refusal::ask;
  if (word == "READONLY" || word == "MASTERDOWN") return Refusal::not_primary;
  if (word == "LOADING" || word == "BUSY" || word == "NOREPLICAS" || word == "TRYAGAIN" ||
      word == "CLUSTERDOWN")
    return Refusal::later;
  return Refusal::final;
}

void Parking::park(Call& call, Error why) {
  why_ = std::move(why);
  why_.code = Errc::unavailable;
  calls_.push_back(call);
  arrived_.notify();
}

awaitable<void> Parking::run() {
  auto work = [](Parking& parking) -> awaitable<void> {
    for (;;) {
      if (parking.calls_.empty()) co_await parking.arrived_.wait();
      auto until = Clock::now() + pause;
      for (Call* call = parking.calls_.front(); call; call = CallList::next(*call))
        until = std::min(until, call->deadline());
      co_await sleep_until(until);
      parking.submit_again();
    }
  };
  co_await until_cancelled(work(*this));
  while (Call* call = calls_.pop_front())
    call->complete(fail(Errc::cancelled, "the client is closed"));
}

void Parking::submit_again() {
  auto now = Clock::now();
  CallList all;
  all.put_before(calls_);
  while (Call* call = all.pop_front()) {
    if (call->deadline() <= now)
      call->complete(std::unexpected(why_));
    else
      router_.submit(*call);
  }
}

PrimaryRouter::PrimaryRouter(asio::any_io_executor executor, const Settings& settings,
                             Connector& connector, TaskGroup& tasks)
    : settings_(settings),
      connector_(connector),
      tasks_(tasks),
      parking_(executor, *this),
      data_(executor, settings, connector, *this),
      renewal_(executor, settings, connector, *this) {
  tasks_.start("redis.parking", parking_.run());
  tasks_.start("redis.link", data_.run());
}

void PrimaryRouter::submit(Call& call) {
  if (call.options().lane() == Lane::data) return data_.submit(call);
  if (!renewal_runs_) {
    renewal_runs_ = true;
    tasks_.start("redis.renewal_link", renewal_.run());
  }
  renewal_.submit(call);
}

void PrimaryRouter::on_refused(Link& link, Call& call, Reply error) {
  switch (classify(error.text)) {
    case Refusal::later:
      return parking_.park(call, error_of(error));
    case Refusal::not_primary:
      if (settings_.mode != Mode::sentinel) break;
      link.reconnect("it is no longer the primary: " + error.text);
      return parking_.park(call, error_of(error));
    case Refusal::moved:
    case Refusal::ask:
      return call.complete(
          fail(Errc::refused, "this is a Redis Cluster: set REDIS_MODE=cluster ({})", error.text));
    case Refusal::final:
      break;
  }
  call.complete(std::unexpected(error_of(error)));
}

void PrimaryRouter::reconnect(const std::string& why) {
  data_.reconnect(why);
  renewal_.reconnect(why);
}

bool PrimaryRouter::is_connected_to(const Address& address) const {
  return data_.is_connected() && data_.address() == address;
}

Async<std::unique_ptr<Conversation>> PrimaryRouter::dial(int, Clock::time_point deadline) {
  return connector_.connect(deadline);
}

void PrimaryRouter::on_moved(const Error& error) {
  if (settings_.mode == Mode::sentinel) reconnect("it is no longer the primary: " + error.what);
}

std::optional<Error> PrimaryRouter::problem() const {
  if (data_.is_connected()) return std::nullopt;
  return data_.problem() ? *data_.problem() : Error{Errc::unavailable, "not connected yet"};
}

Topology PrimaryRouter::topology() const {
  Topology topology;
  topology.mode = settings_.mode;
  auto problem = data_.problem();
  topology.nodes.push_back({data_.is_connected() ? data_.address() : settings_.addresses.front(),
                            true, data_.is_connected(), problem ? problem->what : ""});
  return topology;
}

void PrimaryRouter::count(Client::Counters& counters) const {
  count_link(data_, counters);
  count_link(renewal_, counters);
  counters.pending += parking_.size();
}

void count_link(const Link& link, Client::Counters& counters) {
  counters.calls += link.pipeline().counters();
  counters.connects += link.counters().connects;
  counters.connect_failures += link.counters().connect_failures;
  counters.pending += link.pending();
}

std::unique_ptr<Router> make_single_router(asio::any_io_executor executor, const Dialer& dialer,
                                           TaskGroup& tasks) {
  return std::make_unique<SingleRouter>(executor, dialer, tasks);
}

}  // namespace warren::redis
