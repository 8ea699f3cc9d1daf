#include "redis/topology/router.h"

#include <algorithm>
#include <array>

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

// By Redis' own words and not just the first one: a script may answer with an error of its own that
// begins like one of these, after it has done half of its work.
Refusal classify(std::string_view error) {
  struct Words {
    std::string_view begin;
    Refusal refusal;
  };
  static constexpr std::array<Words, 10> words{
      {{"MOVED ", Refusal::moved},
       {"ASK ", Refusal::ask},
       {"READONLY You can't write against", Refusal::not_primary},
       {"MASTERDOWN Link with MASTER is down", Refusal::not_primary},
       {"LOADING Redis is loading", Refusal::later},
       {"BUSY Redis is busy", Refusal::later},
       {"NOREPLICAS Not enough good replicas", Refusal::later},
       {"TRYAGAIN Multiple keys request", Refusal::later},
       {"CLUSTERDOWN The cluster is down", Refusal::later},
       {"CLUSTERDOWN Hash slot not served", Refusal::later}}};
  for (const auto& [begin, refusal] : words)
    if (error.starts_with(begin)) return refusal;
  return Refusal::final;
}

void Parking::park(Call& call, std::string why) {
  if (stopped_) return complete_later(executor_, call, {Errc::cancelled, "the client is closed"});
  if (calls_.size() >= limit_)
    return complete_later(executor_, call, {Errc::overloaded, "too many calls wait: " + why});
  call.detours().last = std::move(why);
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
  stopped_ = true;
  while (Call* call = calls_.pop_front())
    call->complete(fail(Errc::cancelled, "the client is closed"));
}

void Parking::submit_again() {
  auto now = Clock::now();
  CallList all;
  all.put_before(calls_);
  while (Call* call = all.pop_front()) {
    if (call->deadline() <= now)
      call->complete(fail(Errc::unavailable, "{}", call->detours().last));
    else
      router_.submit(*call);
  }
}

PrimaryRouter::PrimaryRouter(asio::any_io_executor executor, const Settings& settings,
                             Connector& connector, TaskGroup& tasks)
    : Router(executor),
      settings_(settings),
      connector_(connector),
      tasks_(tasks),
      parking_(executor, settings, *this),
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
      return parking_.park(call, std::move(error.text));
    case Refusal::not_primary:
      if (settings_.mode != Mode::sentinel) break;
      link.reconnect("it is no longer the primary: " + error.text);
      return parking_.park(call, std::move(error.text));
    case Refusal::moved:
    case Refusal::ask:
      return call.complete(
          fail(Errc::refused, "this is a Redis Cluster: set REDIS_MODE=cluster ({})", error.text));
    case Refusal::final:
      break;
  }
  call.complete(std::unexpected(error_of(error)));
}

void PrimaryRouter::leave_all_but(const Address& primary) {
  for (Link* link : {&data_, &renewal_})
    if (link->is_connected() && link->address() != primary)
      link->reconnect("the primary is now " + to_string(primary));
}

Async<std::unique_ptr<Conversation>> PrimaryRouter::dial(int, Clock::time_point deadline) {
  return connector_.connect(deadline);
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
