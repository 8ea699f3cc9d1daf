#include "redis/sentinel.h"

#include <algorithm>

#include "base/log.h"
#include "redis/router.h"

namespace warren::redis {

namespace {

bool contains(const std::vector<Address>& addresses, const Address& address) {
  return std::ranges::find(addresses, address) != addresses.end();
}

}  // namespace

bool SentinelView::on_report(std::size_t sentinel, const Report& report) {
  reported_[sentinel] = true;
  if (primary_ && report.epoch < epoch_) return false;
  bool is_news = !primary_ || report.epoch > epoch_;
  if (is_news) {
    bool changed = primary_ != report.primary;
    primary_ = report.primary;
    deposed_.reset();
    epoch_ = report.epoch;
    replicas_ = report.replicas;
    return changed;
  }
  // The same configuration: each sentinel may know replicas that the others have not met yet.
  bool changed = false;
  for (const auto& replica : report.replicas) {
    if (contains(replicas_, replica)) continue;
    replicas_.push_back(replica);
    changed = true;
  }
  return changed;
}

void SentinelView::on_promoted(const Address& address) {
  if (primary_ == address) return;
  deposed_ = primary_;
  primary_ = address;
}

bool SentinelView::accepts(const Address& address) const {
  if (deposed_ == address) return false;
  return primary_ == address || contains(replicas_, address);
}

std::vector<Address> SentinelView::candidates() const {
  std::vector<Address> all;
  if (primary_) all.push_back(*primary_);
  for (const auto& replica : replicas_)
    if (!contains(all, replica) && deposed_ != replica) all.push_back(replica);
  return all;
}

bool SentinelView::has_majority() const {
  return std::ranges::count(reported_, true) * 2 > static_cast<std::ptrdiff_t>(reported_.size());
}

namespace {

constexpr auto poll_interval = 1s;     // besides listening for +switch-master
constexpr auto probe_interval = 20ms;  // while there is no primary
constexpr auto answer_limit = 1s;

std::optional<Address> address_in(const Reply& fields) {
  const Reply* ip = fields.find("ip");
  const Reply* port = fields.find("port");
  if (!ip || !port) return std::nullopt;
  auto address =
      parse_address(ip->text.find(':') == std::string::npos ? ip->text + ":" + port->text
                                                            : "[" + ip->text + "]:" + port->text,
                    0);
  if (!address) return std::nullopt;
  return *address;
}

// Follows all sentinels, and finds the primary for whoever wants a connection.
class SentinelConnector : public Connector {
 public:
  SentinelConnector(asio::any_io_executor executor, const Dialer& dialer)
      : executor_(executor),
        dialer_(dialer),
        sentinel_dialer_(dialer.for_sentinels()),
        view_(dialer.settings().addresses.size()),
        problems_(dialer.settings().addresses.size()),
        changed_(executor) {}

  Async<std::unique_ptr<Conversation>> connect(Clock::time_point deadline) override;
  awaitable<void> follow(std::size_t index);

 protected:
  // The sentinels name another primary than before.
  virtual void on_primary_named(const Address& address) = 0;
  const SentinelView& view() const { return view_; }

 private:
  struct Search {
    std::unique_ptr<Conversation> found;
    std::map<Address, std::string> problems;
  };
  Async<> listen(std::size_t index);
  Async<> report(std::size_t index, Conversation& sentinel);
  awaitable<void> look_for_primary(TaskGroup& probes, Search& search, Clock::time_point deadline);
  awaitable<void> probe(Address address, Search& search);
  Error no_primary(const Search& search) const;

  asio::any_io_executor executor_;
  const Dialer& dialer_;
  Dialer sentinel_dialer_;
  SentinelView view_;
  std::vector<std::optional<Error>> problems_;  // by sentinel
  Event changed_;
};

awaitable<void> SentinelConnector::follow(std::size_t index) {
  Backoff backoff(50ms, poll_interval);
  for (;;) {
    auto ended = co_await listen(index);
    problems_[index] = ended.error();
    changed_.notify();
    co_await sleep_for(backoff.next(random_unit()));
  }
}

// Until the connection breaks: asks, then waits for news or for the time to ask again.
Async<> SentinelConnector::listen(std::size_t index) {
  const auto& address = sentinel_dialer_.settings().addresses[index];
  auto dialled = co_await sentinel_dialer_.dial(address, Clock::now() + answer_limit);
  if (!dialled) co_return std::unexpected(dialled.error());
  auto& sentinel = **dialled;
  Command subscribe("SUBSCRIBE", "+switch-master");
  auto sent = co_await sentinel.send(std::string(subscribe.bytes()), Clock::now() + answer_limit);
  if (!sent) co_return sent;
  for (;;) {
    auto reported = co_await report(index, sentinel);
    if (!reported) co_return reported;
    problems_[index].reset();
    auto news = co_await sentinel.next(Clock::now() + poll_interval);
    if (!news && news.error().code != Errc::timeout) co_return std::unexpected(news.error());
  }
}

Async<> SentinelConnector::report(std::size_t index, Conversation& sentinel) {
  const auto& master = dialer_.settings().master_name;
  std::vector<Command> questions;
  questions.emplace_back("SENTINEL", "MASTER", master);
  questions.emplace_back("SENTINEL", "REPLICAS", master);
  auto answers = co_await sentinel.exchange(std::move(questions), Clock::now() + answer_limit);
  if (!answers) co_return std::unexpected(answers.error());
  const auto& primary = (*answers)[0];
  const auto& replicas = (*answers)[1];
  if (primary.is_error())
    co_return fail(Errc::invalid, "sentinel {} knows no primary named \"{}\": {}",
                   to_string(sentinel.address()), master, primary.text);

  auto named = address_in(primary);
  const Reply* epoch = primary.find("config-epoch");
  if (!named || !epoch)
    co_return fail(Errc::protocol, "sentinel {} does not say where the primary is",
                   to_string(sentinel.address()));
  SentinelView::Report report{*named, std::strtoull(epoch->text.c_str(), nullptr, 10), {}};
  for (const auto& replica : replicas.items)
    if (auto known = address_in(replica)) report.replicas.push_back(*known);
  auto before = view_.primary();
  if (view_.on_report(index, report)) {
    log::debug("redis.sentinel_reported", "primary", to_string(*view_.primary()), "epoch",
               view_.epoch());
    if (before && before != view_.primary()) on_primary_named(*view_.primary());
  }
  changed_.notify();
  co_return ok;
}

Async<std::unique_ptr<Conversation>> SentinelConnector::connect(Clock::time_point deadline) {
  Search search;
  auto look = [](TaskGroup& probes, SentinelConnector& self, Search& s,
                 Clock::time_point& until) -> Async<> {
    co_await self.look_for_primary(probes, s, until);
    co_return ok;
  };
  auto looked = co_await with_group(look, *this, search, deadline);
  if (!looked || !search.found) co_return std::unexpected(no_primary(search));
  view_.on_promoted(search.found->address());
  co_return std::move(search.found);
}

awaitable<void> SentinelConnector::look_for_primary(TaskGroup& probes, Search& search,
                                                    Clock::time_point deadline) {
  auto patience = Clock::now() + 300ms;
  std::vector<Address> probed;
  while (!search.found) {
    bool may_probe = view_.has_majority() || Clock::now() >= patience;
    if (may_probe) {
      for (const auto& address : view_.candidates()) {
        if (contains(probed, address)) continue;
        probed.push_back(address);
        probes.start("redis.probe", probe(address, search));
      }
    }
    if (Clock::now() >= deadline) co_return;
    co_await changed_.wait(may_probe ? deadline : std::min(deadline, patience));
  }
}

// Asks one server for its role until it is the primary.
awaitable<void> SentinelConnector::probe(Address address, Search& search) {
  for (;;) {
    auto dialled = co_await dialer_.dial(address, Clock::now() + answer_limit);
    if (!dialled) search.problems[address] = dialled.error().what;
    while (dialled) {
      auto role = co_await (*dialled)->ask(Command("ROLE"), Clock::now() + answer_limit);
      if (!role) {
        search.problems[address] = role.error().what;
        break;
      }
      bool is_primary = !role->items.empty() && role->items[0].text == "master";
      if (is_primary && view_.accepts(address)) {
        if (!search.found) search.found = std::move(*dialled);
        changed_.notify();
        co_return;
      }
      search.problems[address] = is_primary ? to_string(address) + " was replaced as the primary"
                                            : to_string(address) + " is a replica";
      co_await sleep_for(probe_interval);
    }
    co_await sleep_for(probe_interval);
  }
}

Error SentinelConnector::no_primary(const Search& search) const {
  std::string why;
  Errc code = Errc::unavailable;
  for (const auto& [address, problem] : search.problems) why += (why.empty() ? "" : "; ") + problem;
  // Only when nobody could be asked do the sentinels' own troubles matter.
  if (search.problems.empty()) {
    for (const auto& problem : problems_) {
      if (!problem) continue;
      why += (why.empty() ? "" : "; ") + problem->what;
      if (problem->code != Errc::timeout) code = problem->code;
    }
  }
  return {code, fmt::format("no primary \"{}\" can be reached: {}", dialer_.settings().master_name,
                            why.empty() ? "no sentinel has answered yet" : why)};
}

class SentinelRouter final : SentinelConnector, public PrimaryRouter {
 public:
  SentinelRouter(asio::any_io_executor executor, const Dialer& dialer, TaskGroup& tasks)
      : SentinelConnector(executor, dialer),
        PrimaryRouter(executor, dialer.settings(), *this, tasks) {
    for (std::size_t i = 0; i < dialer.settings().addresses.size(); ++i)
      tasks.start("redis.sentinel", follow(i));
  }

  Topology topology() const override {
    auto topology = PrimaryRouter::topology();
    topology.epoch = view().epoch();
    for (const auto& address : view().candidates())
      if (view().primary() != address) topology.nodes.push_back({address, false, false, ""});
    if (view().primary()) topology.nodes.front().address = *view().primary();
    return topology;
  }

 private:
  void on_primary_named(const Address& address) override {
    if (!is_connected_to(address)) reconnect("the sentinels name " + to_string(address));
  }
};

}  // namespace

std::unique_ptr<Router> make_sentinel_router(asio::any_io_executor executor, const Dialer& dialer,
                                             TaskGroup& tasks) {
  return std::make_unique<SentinelRouter>(executor, dialer, tasks);
}

}  // namespace warren::redis
