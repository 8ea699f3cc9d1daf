#include "redis/topology/cluster.h"

#include <algorithm>
#include <charconv>

#include "base/log.h"
#include "redis/causes.h"
#include "redis/topology/router.h"

namespace warren::redis {

std::uint16_t SlotMap::index_of(const Address& address) {
  auto found = std::ranges::find(nodes_, address);
  if (found == nodes_.end()) found = nodes_.insert(nodes_.end(), address);
  return static_cast<std::uint16_t>(found - nodes_.begin());
}

Result<SlotMap> SlotMap::parse(const Reply& slots, const Address& asked) {
  auto malformed = [] { return fail(Errc::protocol, "CLUSTER SLOTS gave no slot map"); };
  auto address_of = [&asked](const Reply& node) -> std::optional<Address> {
    if (node.items.size() < 2 || node.items[1].number <= 0 || node.items[1].number > 65535)
      return std::nullopt;
    const auto& host = node.items[0].text;
    return Address{host.empty() || host == "?" ? asked.host : host,
                   static_cast<std::uint16_t>(node.items[1].number), ""};
  };
  SlotMap map;
  for (const auto& range : slots.items) {
    if (range.items.size() < 3) return malformed();
    auto first = range.items[0].number;
    auto last = range.items[1].number;
    auto owner = address_of(range.items[2]);
    if (first < 0 || last >= slot_count || first > last || !owner) return malformed();
    auto index = map.index_of(*owner);
    std::fill(map.owners_.begin() + first, map.owners_.begin() + last + 1, index);
    for (std::size_t i = 3; i < range.items.size(); ++i)
      if (auto replica = address_of(range.items[i])) map.replicas_.push_back(*replica);
  }
  std::ranges::sort(map.replicas_);
  auto repeated = std::ranges::unique(map.replicas_);
  map.replicas_.erase(repeated.begin(), repeated.end());
  return map;
}

const Address* SlotMap::owner(int slot) const {
  auto index = owners_[static_cast<std::size_t>(slot)];
  return index == nobody ? nullptr : &nodes_[index];
}

void SlotMap::patch(int slot, const Address& address) {
  owners_[static_cast<std::size_t>(slot)] = index_of(address);
}

std::vector<Address> SlotMap::primaries() const { return nodes_; }

bool SlotMap::has(const Address& address) const {
  auto is_in = [&address](const auto& nodes) {
    return std::ranges::find(nodes, address) != nodes.end();
  };
  return is_in(nodes_) || is_in(replicas_);
}

Opinion newest_of(std::vector<Opinion> heard) {
  auto votes = [&heard](const Opinion& opinion) {
    return std::ranges::count(heard, opinion.map, &Opinion::map);
  };
  auto best = std::ranges::max_element(heard, {}, [&votes](const Opinion& opinion) {
    return std::pair(opinion.epoch, votes(opinion));
  });
  return std::move(*best);
}

Result<Redirection> parse_redirection(std::string_view error, const Address& from) {
  auto malformed = [error] { return fail(Errc::protocol, "cannot follow \"{}\"", error); };
  auto rest = error.substr(std::min(error.size(), error.find(' ') + 1));
  auto space = rest.find(' ');
  if (space == rest.npos) return malformed();
  Redirection to{};
  auto slot = rest.substr(0, space);
  auto [end, problem] = std::from_chars(slot.data(), slot.data() + slot.size(), to.slot);
  if (problem != std::errc() || end != slot.data() + slot.size() || to.slot < 0 ||
      to.slot >= slot_count)
    return malformed();
  // The port follows the last colon. IPv6 addresses come without brackets.
  auto where = rest.substr(space + 1);
  auto colon = where.rfind(':');
  if (colon == where.npos) return malformed();
  auto host = where.substr(0, colon);
  auto port = where.substr(colon + 1);
  auto [port_end, bad_port] =
      std::from_chars(port.data(), port.data() + port.size(), to.address.port);
  if (bad_port != std::errc() || port_end != port.data() + port.size() || to.address.port == 0)
    return malformed();
  to.address.host = host.empty() || host == "?" ? from.host : std::string(host);
  return to;
}

Onward onward_from(const Address& server, const Reply& refusal, const CallOptions& options,
                   std::size_t detours) {
  constexpr std::size_t most_detours = 5;
  using Kind = Onward::Kind;
  auto told = [](Error why) { return Onward{Kind::told, {}, std::move(why)}; };
  auto meaning = classify(refusal.text);
  switch (meaning) {
    case Refusal::moved:
    case Refusal::ask: {
      auto to = parse_redirection(refusal.text, server);
      if (!to) return told(to.error());
      if (detours >= most_detours) return {Kind::astray};
      bool is_moved = meaning == Refusal::moved;
      return {is_moved ? Kind::moved : Kind::asked, *std::move(to), {}, is_moved};
    }
    case Refusal::not_primary:
      return {Kind::later, {}, {}, true};
    case Refusal::later:
      if (options.tells_split() && refusal.text.starts_with("TRYAGAIN"))
        return told(error_of(refusal));
      return {Kind::later, {}, {}, refusal.text.starts_with("CLUSTERDOWN")};
    case Refusal::final:
    case Refusal::denied:
    case Refusal::exhausted:
      break;
  }
  return told(error_of(refusal));
}

namespace {

// Between two refreshes of the map, however many calls ask for one. Longer when nothing is new.
constexpr auto refresh_pause = 50ms;
constexpr auto longest_refresh_pause = 500ms;
constexpr auto longest_without_refresh = 30s;
constexpr auto answer_limit = 1s;
constexpr std::size_t opinions = 3;

// The connections to one server.
class Node final : public Connector {
 public:
  Node(asio::any_io_executor executor, const Dialer& dialer, Address address, LinkOwner& owner)
      : dialer_(dialer),
        address_(std::move(address)),
        tasks_(executor),
        data_(executor, dialer.settings(), *this, owner),
        renewal_(executor, dialer.settings(), *this, owner) {
    tasks_.start("redis.link", data_.run());
  }

  Async<std::unique_ptr<Conversation>> connect(Clock::time_point deadline) override {
    return dialer_.dial(address_, deadline);
  }
  Link& link(Lane lane) {
    if (lane == Lane::data) return data_;
    if (!renewal_runs_) tasks_.start("redis.renewal_link", renewal_.run());
    renewal_runs_ = true;
    return renewal_;
  }
  const Link& data() const { return data_; }
  const Link& renewal() const { return renewal_; }
  const Address& address() const { return address_; }
  std::size_t pending() const { return data_.pending() + renewal_.pending(); }
  TaskGroup& tasks() { return tasks_; }

 private:
  const Dialer& dialer_;
  Address address_;
  TaskGroup tasks_;
  Link data_;
  Link renewal_;
  bool renewal_runs_ = false;
};

class ClusterRouter final : public Router, LinkOwner {
 public:
  ClusterRouter(asio::any_io_executor executor, const Dialer& dialer, TaskGroup& tasks)
      : Router(executor),
        executor_(executor),
        dialer_(dialer),
        parking_(executor, dialer.settings(), *this),
        refresh_wanted_(executor),
        refreshed_(executor) {
    tasks.start("redis.parking", parking_.run());
    tasks.start("redis.cluster", run());
  }

  void submit(Call& call) override;
  Async<std::unique_ptr<Conversation>> dial(int slot, Clock::time_point deadline) override;
  Address owner(int slot) const override;
  bool has(const Address& address) const override { return map_.is_empty() || map_.has(address); }
  void on_moved(const Error& error) override;
  std::optional<Error> problem() const override;
  Topology topology() const override;
  std::uint64_t epoch() const override { return epoch_; }
  void count(Client::Counters& counters) const override;

 private:
  struct Survey {
    explicit Survey(asio::any_io_executor executor) : answered(executor) {}
    std::vector<Opinion> heard;
    std::optional<Error> problem;
    std::size_t missing = 0;
    Event answered;
  };

  awaitable<void> run();
  awaitable<void> refresh_loop();
  awaitable<void> refresh();
  awaitable<void> ask_for_map(Address address, Survey& survey);
  void adopt(Opinion opinion);
  void want_refresh();
  const Address* any_primary() const;
  Node& node(const Address& address);

  void on_refused(Link& link, Call& call, Reply error) override;
  void on_broken(Link&, const Error&) override { want_refresh(); }
  void on_connected(Link&) override { on_change(); }

  asio::any_io_executor executor_;
  const Dialer& dialer_;
  Parking parking_;
  SlotMap map_;
  std::uint64_t epoch_ = 0;
  int older_answers_ = 0;  // in a row
  std::map<Address, std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<Node>> retired_;
  Event refresh_wanted_;
  Event refreshed_;
  bool wants_refresh_ = true;
  bool closed_ = false;
  std::optional<Error> problem_;
};

Node& ClusterRouter::node(const Address& address) {
  auto& node = nodes_[address];
  if (!node)
    node = std::make_unique<Node>(executor_, dialer_, address, static_cast<LinkOwner&>(*this));
  return *node;
}

const Address* ClusterRouter::any_primary() const {
  const Address* some = nullptr;
  for (const auto& [address, node] : nodes_) {
    if (node->data().is_connected()) return &address;
    some = &address;
  }
  return some ? some : map_.owner(0);
}

void ClusterRouter::submit(Call& call) {
  if (closed_) return complete_later(executor_, call, {Errc::cancelled, "the client is closed"});
  int slot = call.options().slot();
  if (slot == CallOptions::by_key) {
    if (!call.command().has_key())
      return complete_later(executor_, call,
                            {Errc::invalid, describe(call.command()) +
                                                " has no key: say where it goes in a cluster, with "
                                                "on_any_node() or where(key)"});
    slot = slot_of(call.command().key());
  }
  const Address* address = slot == CallOptions::any_node ? any_primary() : map_.owner(slot);
  if (!address) {
    want_refresh();
    auto why = problem_.value_or(on_the_way(
        {Errc::unavailable, map_.is_empty() ? "the slot map is not known yet"
                                            : fmt::format("nobody serves slot {}", slot)}));
    bool is_hopeless = why.code == Errc::denied || why.code == Errc::invalid;
    bool is_known = problem_ || !map_.is_empty();
    if (is_hopeless || (call.options().fails_fast() && is_known))
      return complete_later(executor_, call, std::move(why));
    return parking_.park(call, std::move(why));
  }
  node(*address).link(call.options().lane()).submit(call);
}

void ClusterRouter::on_refused(Link& link, Call& call, Reply error) {
  auto detours = call.had_detours() ? call.detours().trail.size() : 0;
  if (call.had_detours()) call.detours().asking = false;
  auto next = onward_from(link.address(), error, call.options(), detours);
  if (next.is_map_old) want_refresh();
  switch (next.kind) {
    case Onward::Kind::told:
      return call.fail(*std::move(next.why));
    case Onward::Kind::moved:
    case Onward::Kind::asked:
    case Onward::Kind::astray:
      break;
    case Onward::Kind::later:
      if (call.had_detours()) call.detours().trail.clear();
      return parking_.park(call, error_of(error));
  }
  auto& trail = call.detours().trail;
  trail.push_back(fmt::format("{} said {}", to_string(link.address()), error.text));
  if (next.kind == Onward::Kind::astray)
    return call.fail(
        {Errc::unavailable, fmt::format("{} was sent from server to server: {}",
                                        describe(call.command()), fmt::join(trail, ", "))});
  call.detours().asking = next.kind == Onward::Kind::asked;
  if (next.kind == Onward::Kind::moved) map_.patch(next.to.slot, next.to.address);
  node(next.to.address).link(call.options().lane()).submit(call);
}

void ClusterRouter::on_moved(const Error& error) {
  if (error.cause == causes::moved)
    if (auto to = parse_redirection(error.subject, {}); to && !to->address.host.empty())
      map_.patch(to->slot, to->address);
  want_refresh();
}

void ClusterRouter::want_refresh() {
  if (wants_refresh_) return;
  wants_refresh_ = true;
  refresh_wanted_.notify();
}

awaitable<void> ClusterRouter::run() {
  co_await until_cancelled(refresh_loop());
  closed_ = true;
  co_await asio::this_coro::throw_if_cancelled(false);
  for (auto& [address, node] : nodes_) node->tasks().stop();
  for (auto& [address, node] : nodes_) co_await node->tasks().join();
  for (auto& node : retired_) co_await node->tasks().join();
}

awaitable<void> ClusterRouter::refresh_loop() {
  Backoff backoff(refresh_pause, longest_refresh_pause);
  for (;;) {
    if (!wants_refresh_) co_await refresh_wanted_.wait(Clock::now() + longest_without_refresh);
    wants_refresh_ = false;
    auto before = map_;
    co_await refresh();
    if (map_.is_empty()) wants_refresh_ = true;
    if (map_ != before) backoff.reset();
    refreshed_.notify();
    co_await sleep_for(backoff.next(random_unit()));
  }
}

// Asks several servers, because any of them may be on the wrong side of a partition, and takes the
// answer with the newest epoch. Does not wait for a slow server.
awaitable<void> ClusterRouter::refresh() {
  std::vector<Address> whom;
  for (const auto& [address, node] : nodes_)
    if (node->data().is_connected()) whom.push_back(address);
  std::vector<Address> others = map_.primaries();
  std::ranges::copy(map_.replicas(), std::back_inserter(others));
  std::ranges::copy(dialer_.settings().addresses, std::back_inserter(others));
  for (const auto& address : others)
    if (std::ranges::find(whom, address) == whom.end()) whom.push_back(address);
  // Any of them may be dead, so ask more servers than the number of opinions needed.
  std::size_t from =
      whom.empty() ? 0 : static_cast<std::size_t>(random_unit() * double(whom.size()));
  std::ranges::rotate(whom, whom.begin() + static_cast<std::ptrdiff_t>(from));
  whom.resize(std::min(whom.size(), opinions * 2));

  Survey survey(executor_);
  survey.missing = whom.size();
  auto ask_all = [](TaskGroup& asking, ClusterRouter& self, Survey& s,
                    std::vector<Address>& servers) -> Async<> {
    for (auto& address : servers) asking.start("redis.ask_for_map", self.ask_for_map(address, s));
    auto deadline = Clock::now() + answer_limit;
    while (s.missing > 0 && s.heard.size() < opinions && Clock::now() < deadline) {
      co_await s.answered.wait(deadline);
      if (!s.heard.empty()) deadline = std::min(deadline, Clock::now() + 50ms);
    }
    co_return ok;
  };
  auto asked = co_await with_group(ask_all, *this, survey, whom);
  if (!asked || survey.heard.empty()) {
    if (survey.problem) problem_ = survey.problem;
    co_return;
  }
  // An older epoch comes from a server that was away. But if no server reports a newer one for
  // long, the cluster was rebuilt.
  auto newest = newest_of(std::move(survey.heard));
  bool is_older = newest.epoch < epoch_;
  older_answers_ = is_older ? older_answers_ + 1 : 0;
  if (is_older && older_answers_ < 10) {
    wants_refresh_ = true;
    co_return;
  }
  adopt(std::move(newest));
}

awaitable<void> ClusterRouter::ask_for_map(Address address, Survey& survey) {
  auto ask = [](const Dialer& dialer, Address whom) -> Async<Opinion> {
    auto deadline = Clock::now() + answer_limit;
    auto dialled = co_await dialer.dial(whom, deadline);
    if (!dialled) co_return std::unexpected(dialled.error());
    std::vector<Command> questions;
    questions.emplace_back("CLUSTER", "SLOTS");
    questions.emplace_back("CLUSTER", "INFO");
    auto answers = co_await (*dialled)->exchange(std::move(questions), deadline);
    if (!answers) co_return std::unexpected(answers.error());
    const auto& slots = (*answers)[0];
    if (slots.is_error())
      co_return fail(Errc::invalid, "{} is not part of a cluster: {}", to_string(whom), slots.text);
    auto map = SlotMap::parse(slots, whom);
    if (!map) co_return std::unexpected(map.error());
    if (map->is_empty())
      co_return fail(Errc::unavailable, "{} knows no owner of any slot", to_string(whom));
    const auto& info = (*answers)[1].text;
    std::string_view field = "cluster_current_epoch:";
    auto at = info.find(field);
    std::uint64_t epoch =
        at == info.npos ? 0 : std::strtoull(info.c_str() + at + field.size(), nullptr, 10);
    co_return Opinion{epoch, std::move(*map)};
  };
  auto opinion = co_await ask(dialer_, address);
  --survey.missing;
  if (opinion)
    survey.heard.push_back(std::move(*opinion));
  else if (opinion.error().code != Errc::cancelled)
    survey.problem = opinion.error();
  survey.answered.notify();
}

void ClusterRouter::adopt(Opinion opinion) {
  problem_.reset();
  bool is_news = std::exchange(epoch_, opinion.epoch) != opinion.epoch;
  map_ = std::move(opinion.map);
  if (is_news) on_change();
  for (const auto& address : map_.primaries()) node(address);

  // Calls that wait for an unreachable server go to the new owner, if there is one.
  CallList again;
  for (auto& [address, node] : nodes_) {
    if (!node->data().is_connected()) node->link(Lane::data).take_waiting(again);
    if (!node->renewal().is_connected() && node->renewal().pending() > 0)
      node->link(Lane::renewal).take_waiting(again);
  }
  while (Call* call = again.pop_front()) submit(*call);

  auto primaries = map_.primaries();
  std::erase_if(retired_, [](const auto& node) { return node->tasks().running() == 0; });
  for (auto it = nodes_.begin(); it != nodes_.end();) {
    bool is_owner = std::ranges::find(primaries, it->first) != primaries.end();
    if (is_owner || it->second->pending() > 0) {
      ++it;
      continue;
    }
    it->second->tasks().stop();
    retired_.push_back(std::move(it->second));
    it = nodes_.erase(it);
  }
}

Async<std::unique_ptr<Conversation>> ClusterRouter::dial(int slot, Clock::time_point deadline) {
  for (;;) {
    const Address* address = slot == CallOptions::any_node ? any_primary() : map_.owner(slot);
    if (address) {
      auto dialled = co_await dialer_.dial(*address, deadline);
      if (!dialled) want_refresh();
      co_return dialled;
    }
    if (Clock::now() >= deadline)
      co_return std::unexpected(
          problem_.value_or(on_the_way({Errc::unavailable, "the slot map is not known yet"})));
    want_refresh();
    co_await refreshed_.wait(deadline);
  }
}

Address ClusterRouter::owner(int slot) const {
  const Address* address = slot == CallOptions::any_node ? any_primary() : map_.owner(slot);
  return address ? *address : Address{};
}

std::optional<Error> ClusterRouter::problem() const { return problem_; }

Topology ClusterRouter::topology() const {
  Topology topology;
  topology.mode = Mode::cluster;
  topology.epoch = epoch_;
  for (const auto& address : map_.primaries()) {
    auto found = nodes_.find(address);
    bool connected = found != nodes_.end() && found->second->data().is_connected();
    auto problem = found == nodes_.end() ? std::nullopt : found->second->data().problem();
    topology.nodes.push_back({address, true, connected, problem ? problem->what : ""});
  }
  for (const auto& address : map_.replicas()) topology.nodes.push_back({address, false, false, ""});
  return topology;
}

void ClusterRouter::count(Client::Counters& counters) const {
  for (const auto& [address, node] : nodes_) {
    count_link(node->data(), counters);
    count_link(node->renewal(), counters);
  }
  counters.pending += parking_.size();
}

}  // namespace

std::unique_ptr<Router> make_cluster_router(asio::any_io_executor executor, const Dialer& dialer,
                                            TaskGroup& tasks) {
  return std::make_unique<ClusterRouter>(executor, dialer, tasks);
}

}  // namespace warren::redis
