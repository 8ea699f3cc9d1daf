#include "redis/topology/sentinel.h"

#include <algorithm>
#include <tuple>

#include "base/log.h"
#include "redis/resp/refusal.h"
#include "redis/topology/router.h"

namespace warren::redis {

namespace {

bool contains(const std::vector<Address>& addresses, const Address& address) {
  return std::ranges::find(addresses, address) != addresses.end();
}

}  // namespace

const SentinelView::Report* SentinelView::newest() const {
  const Report* newest = nullptr;
  for (const auto& report : reports_)
    if (report && (!newest || report->epoch > newest->epoch)) newest = &*report;
  return newest;
}

void SentinelView::on_report(std::size_t sentinel, Report report) {
  auto before = newest() ? std::optional(*newest()) : std::nullopt;
  reports_[sentinel] = std::move(report);
  const auto& now = *newest();
  bool is_news = !before || before->epoch != now.epoch || before->primary != now.primary;
  if (is_news) seen_as_replica_.clear();
  // The sentinels agree on a promotion within seconds, or at the end of their failover-timeout.
  bool is_stale = promoted_ && ++doubts_ > 200 * reports_.size();
  if (is_news || is_stale || promoted_ == now.primary) promoted_.reset();
}

void SentinelView::on_silence(std::size_t sentinel) {
  if (reports_[sentinel]) reports_[sentinel]->down.clear();
}

bool SentinelView::on_role(const Address& address, bool says_primary) {
  if (!says_primary) {
    seen_as_replica_.insert(address);
    if (promoted_ == address) promoted_.reset();
    return false;
  }
  if (!promoted_ && seen_as_replica_.contains(address) && primary() != address &&
      contains(candidates(), address)) {
    promoted_ = address;
    doubts_ = 0;
  }
  return primary() == address;
}

std::vector<Address> SentinelView::candidates() const {
  std::vector<Address> all;
  if (!newest()) return all;
  all.push_back(*primary());
  for (const auto& report : reports_) {
    if (!report || report->epoch != newest()->epoch) continue;
    for (const auto& replica : report->replicas)
      if (!contains(all, replica)) all.push_back(replica);
  }
  return all;
}

std::optional<Address> SentinelView::primary() const {
  if (promoted_) return promoted_;
  if (!newest()) return std::nullopt;
  return newest()->primary;
}

std::uint64_t SentinelView::epoch() const {
  // A promotion that we observed has a newer configuration, which the sentinels have yet to report.
  return (newest() ? newest()->epoch : 0) + (promoted_ ? 1 : 0);
}

bool SentinelView::is_down(const Address& address) const {
  if (promoted_) return false;  // the reports are still about the configuration before
  std::size_t sentinels = reports_.size();
  std::set<std::string> say_so;
  for (const auto& report : reports_) {
    if (!report || report->epoch != newest()->epoch) continue;
    sentinels = std::max(sentinels, report->sentinels);
    if (!report->id.empty() && contains(report->down, address)) say_so.insert(report->id);
  }
  return say_so.size() * 2 > sentinels;
}

bool SentinelView::has_majority() const {
  auto heard = std::ranges::count_if(reports_, [](const auto& report) { return bool(report); });
  return heard * 2 > static_cast<std::ptrdiff_t>(reports_.size());
}

namespace {

constexpr auto poll_interval = 1s;     // besides listening for +switch-master
constexpr auto probe_interval = 20ms;  // while there is no primary
constexpr auto sentinel_limit = 1s;

std::optional<Address> address_of(const std::string& host, const std::string& port) {
  bool is_v6 = host.find(':') != std::string::npos;
  auto address = parse_address(is_v6 ? "[" + host + "]:" + port : host + ":" + port, 0);
  if (!address) return std::nullopt;
  return *address;
}

// By the flags of an instance, such as "slave,s_down,disconnected".
bool is_considered_down(const Reply& instance) {
  const Reply* flags = instance.find("flags");
  return flags && (flags->text.contains("s_down") || flags->text.contains("o_down"));
}

void read_replicas(const Reply& replicas, SentinelView::Report& into) {
  for (const auto& replica : replicas.items) {
    const Reply* ip = replica.find("ip");
    const Reply* port = replica.find("port");
    auto known = ip && port ? address_of(ip->text, port->text) : std::nullopt;
    if (!known || *known == into.primary) continue;
    into.replicas.push_back(*known);
    if (is_considered_down(replica)) into.down.push_back(*known);
  }
}

// Follows all sentinels and finds the primary for each new connection.
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
  // Another server may be the primary now.
  virtual void on_view_changed() = 0;
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
    view_.on_silence(index);
    problems_[index] = ended.error();
    changed_.notify();
    co_await sleep_for(backoff.next(random_unit()));
  }
}

// Runs until the connection breaks: asks, then waits for news or for the time to ask again.
Async<> SentinelConnector::listen(std::size_t index) {
  const auto& address = sentinel_dialer_.settings().addresses[index];
  auto dialled = co_await sentinel_dialer_.dial(address, Clock::now() + sentinel_limit);
  if (!dialled) co_return std::unexpected(dialled.error());
  auto& sentinel = **dialled;
  Command subscribe("SUBSCRIBE", "+switch-master");
  auto sent = co_await sentinel.send(std::string(subscribe.bytes()), Clock::now() + sentinel_limit);
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
  // MASTER may already have the new epoch with the old address. This command has the new address.
  questions.emplace_back("SENTINEL", "GET-MASTER-ADDR-BY-NAME", master);
  questions.emplace_back("SENTINEL", "MASTER", master);
  questions.emplace_back("SENTINEL", "REPLICAS", master);
  questions.emplace_back("SENTINEL", "MYID");
  auto answers = co_await sentinel.exchange(std::move(questions), Clock::now() + sentinel_limit);
  if (!answers) co_return std::unexpected(answers.error());
  const auto& primary = (*answers)[0].items;
  const auto& details = (*answers)[1];
  if (details.is_error())
    co_return fail(Errc::invalid, "sentinel {} knows no primary named \"{}\": {}",
                   to_string(sentinel.address()), master, details.text);

  auto named = primary.size() == 2 ? address_of(primary[0].text, primary[1].text) : std::nullopt;
  const Reply* epoch = details.find("config-epoch");
  if (!named || !epoch)
    co_return fail(Errc::protocol, "sentinel {} does not say where the primary is",
                   to_string(sentinel.address()));
  SentinelView::Report report{*named, std::strtoull(epoch->text.c_str(), nullptr, 10), {}};
  read_replicas((*answers)[2], report);
  if (!(*answers)[3].is_error()) report.id = (*answers)[3].text;
  if (const Reply* others = details.find("num-other-sentinels"))
    report.sentinels = std::strtoull(others->text.c_str(), nullptr, 10) + 1;
  if (is_considered_down(details)) report.down.clear();  // a failover may begin
  view_.on_report(index, std::move(report));
  on_view_changed();
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
  // While the other probes ended, a sentinel may have reported a newer primary.
  if (view_.primary() != search.found->address())
    co_return fail(Errc::unavailable, "{} was replaced as the primary",
                   to_string(search.found->address()));
  on_view_changed();
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
    auto dialled = co_await dialer_.dial(address, Clock::now() + sentinel_limit);
    if (!dialled) search.problems[address] = dialled.error().what;
    while (dialled) {
      auto role = co_await (*dialled)->ask(Command("ROLE"), Clock::now() + sentinel_limit);
      if (!role) {
        search.problems[address] = role.error().what;
        break;
      }
      bool is_primary = !role->items.empty() && role->items[0].text == "master";
      if (view_.on_role(address, is_primary)) {
        if (!search.found) search.found = std::move(*dialled);
        changed_.notify();
        co_return;
      }
      search.problems[address] = is_primary
                                     ? to_string(address) + " is not the primary that is named"
                                     : to_string(address) + " is a replica";
      co_await sleep_for(probe_interval);
    }
    co_await sleep_for(probe_interval);
  }
}

Error SentinelConnector::no_primary(const Search& search) const {
  std::string why;
  Error all{Errc::unavailable, ""};
  for (const auto& [address, problem] : search.problems) why += (why.empty() ? "" : "; ") + problem;
  // The sentinels' own problems matter only if no server could be asked.
  if (search.problems.empty()) {
    for (const auto& problem : problems_) {
      if (!problem) continue;
      why += (why.empty() ? "" : "; ") + problem->what;
      if (problem->code == Errc::timeout) continue;
      std::tie(all.code, all.cause) = std::tie(problem->code, problem->cause);
    }
  }
  all.what = fmt::format("no primary \"{}\" can be reached: {}", dialer_.settings().master_name,
                         why.empty() ? "no sentinel has answered yet" : why);
  return on_the_way(std::move(all));
}

class SentinelRouter final : SentinelConnector, public PrimaryRouter {
 public:
  SentinelRouter(asio::any_io_executor executor, const Dialer& dialer, TaskGroup& tasks)
      : SentinelConnector(executor, dialer),
        PrimaryRouter(executor, dialer.settings(), *this, tasks) {
    for (std::size_t i = 0; i < dialer.settings().addresses.size(); ++i)
      tasks.start("redis.sentinel", follow(i));
  }

  Address owner(int) const override { return view().primary().value_or(Address{}); }

  std::uint64_t epoch() const override { return view().epoch(); }

  Topology topology() const override {
    auto topology = PrimaryRouter::topology();
    topology.epoch = epoch();
    for (const auto& address : view().candidates())
      if (view().primary() != address)
        topology.nodes.push_back({address, false, false, "", view().is_down(address)});
    if (view().primary()) topology.nodes.front().address = *view().primary();
    return topology;
  }

 private:
  void on_demoted(Link& link, const std::string& words) override {
    link.reconnect("it is no longer the primary: " + words);
  }
  void on_view_changed() override {
    if (view().primary()) leave_all_but(*view().primary());
    if (std::exchange(known_epoch_, epoch()) != epoch()) on_change();
  }

  std::uint64_t known_epoch_ = 0;
};

}  // namespace

std::unique_ptr<Router> make_sentinel_router(asio::any_io_executor executor, const Dialer& dialer,
                                             TaskGroup& tasks) {
  return std::make_unique<SentinelRouter>(executor, dialer, tasks);
}

}  // namespace warren::redis
