#include "redis/topology/router.h"

#include <algorithm>

#include "base/log.h"
#include "redis/resp/refusal.h"

namespace warren::redis {

namespace {

// Short enough to go unnoticed after a failover, long enough not to burden a server that is
// loading.
constexpr auto pause = 20ms;
constexpr auto longest_search_pause = 500ms;

class FixedConnector : public Connector {
 public:
  explicit FixedConnector(const Dialer& dialer) : dialer_(dialer) {}
  const Settings& settings() const { return dialer_.settings(); }
  Async<std::unique_ptr<Conversation>> connect(Clock::time_point deadline) override {
    return dialer_.dial(dialer_.settings().addresses.front(), deadline);
  }

 private:
  const Dialer& dialer_;
};

// Owns the connector that its base refers to.
//
// Behind one address (a name, a virtual IP) there may be several servers, and something else
// decides which one is the primary. The connected server does not report its demotion until it
// refuses a write. From then on we open new connections until one leads to a primary, and leave the
// old server only then: reads keep working while writes cannot.
class SingleRouter final : FixedConnector, public PrimaryRouter {
 public:
  SingleRouter(asio::any_io_executor executor, const Dialer& dialer, TaskGroup& tasks)
      : FixedConnector(dialer),
        PrimaryRouter(executor, dialer.settings(), *this, tasks),
        demoted_(executor) {
    tasks.start("redis.find_primary", find_primary());
  }

  void on_moved(const Error& error) override {
    if (refusal_of(error) == Refusal::not_primary) search(error.subject);
  }
  Topology topology() const override {
    auto topology = PrimaryRouter::topology();
    auto& node = topology.nodes.front();
    node.is_primary = !demotion_;
    if (demotion_ && node.problem.empty()) node.problem = *demotion_;
    return topology;
  }
  std::uint64_t departures() const override { return departures_; }
  bool has_primary() const override { return !demotion_; }

 private:
  void on_demoted(Link&, const std::string& words) override { search(words); }

  void search(const std::string& words) {
    if (demotion_) return;
    log::warn("redis.demoted", "address", to_string(settings().addresses.front()), "what", words);
    demotion_ = words;
    demoted_.notify();
  }

  awaitable<void> find_primary() {
    Backoff backoff(pause, longest_search_pause);
    for (;;) {
      while (!demotion_) {
        backoff.reset();
        co_await demoted_.wait();
      }
      auto leads_to_primary = co_await reaches_primary();
      if (leads_to_primary && *leads_to_primary) {
        demotion_.reset();
        ++departures_;
        leave_all("a primary answers there now");
      } else {
        co_await sleep_for(backoff.next(random_unit()));
      }
    }
  }

  Async<bool> reaches_primary() {
    auto deadline = Clock::now() + settings().connect_timeout;
    auto dialled = co_await connect(deadline);
    if (!dialled) co_return std::unexpected(dialled.error());
    auto hello =
        co_await (*dialled)->ask(Command("HELLO", 3), deadline);  // ROLE needs a permission
    if (!hello) co_return std::unexpected(hello.error());
    const Reply* role = hello->find("role");
    co_return role && role->text == "master";
  }

  std::optional<std::string> demotion_;  // what a server answered, until a primary is found
  Event demoted_;
  std::uint64_t departures_ = 0;
};

}  // namespace

void Parking::park(Call& call, Error why) {
  if (stopped_) return complete_later(executor_, call, {Errc::cancelled, "the client is closed"});
  if (calls_.size() >= limit_)
    return complete_later(executor_, call, {Errc::overloaded, "too many calls wait: " + why.what});
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
  while (Call* call = calls_.pop_front()) call->fail({Errc::cancelled, "the client is closed"});
}

void Parking::submit_again() {
  auto now = Clock::now();
  CallList all;
  all.put_before(calls_);
  while (Call* call = all.pop_front()) {
    if (call->deadline() > now) {
      router_.submit(*call);
      continue;
    }
    auto why = call->detours().last;
    why.code = Errc::unavailable;
    call->fail(std::move(why));
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
      return parking_.park(call, error_of(error));
    case Refusal::not_primary:
      on_demoted(link, error.text);
      return parking_.park(call, error_of(error));
    case Refusal::moved:
    case Refusal::ask:
      return call.fail(
          {Errc::refused, "this is a Redis Cluster: set REDIS_MODE=cluster (" + error.text + ")"});
    case Refusal::final:
    case Refusal::denied:
    case Refusal::exhausted:
      break;
  }
  call.fail(error_of(error));
}

void PrimaryRouter::leave_all_but(const Address& primary) {
  for (Link* link : {&data_, &renewal_})
    if (link->is_connected() && link->address() != primary)
      link->reconnect("the primary is now " + to_string(primary));
}

void PrimaryRouter::leave_all(const std::string& why) {
  for (Link* link : {&data_, &renewal_}) link->reconnect(why);
}

Async<std::unique_ptr<Conversation>> PrimaryRouter::dial(int, Clock::time_point deadline) {
  return connector_.connect(deadline);
}

std::optional<Error> PrimaryRouter::problem() const {
  if (data_.is_connected()) return std::nullopt;
  return data_.problem().value_or(on_the_way({Errc::unavailable, "not connected yet"}));
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
