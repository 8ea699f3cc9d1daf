#include "services/fleet/router/router.h"

#include "base/log.h"

namespace warren::fleet {

namespace {

// Between two lines of a node that still searches: its deadline is what counts.
constexpr auto most_silence = 65s;
constexpr auto still_loading = "the router has not read the catalog yet: try again";
constexpr std::size_t most_part_bytes = 64u << 20;  // 8 MB of text, as JSON and as base64
constexpr std::size_t most_refusal_bytes = 64u << 10;
// Where there are replicas, a plan is made again after this many queries.
constexpr int most_plan_uses = 16;

// Whether it could hold something that the query asks for.
bool concerns(const search::RepoFilter& filter, const Missing& missing) {
  return filter.says(missing.repo) != search::RepoFilter::Verdict::no;
}

// Counts a search that a node has not answered, for as long as this lives.
class InFlight {
 public:
  InFlight(std::map<NodeSession, std::uint64_t>& all, const NodeSession& session)
      : all_(all), session_(session) {
    ++all_[session_];
  }
  ~InFlight() {
    auto found = all_.find(session_);
    if (--found->second == 0) all_.erase(found);
  }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

 private:
  std::map<NodeSession, std::uint64_t>& all_;
  NodeSession session_;
};

Missing missing_because(std::string repo, const Error& error) {
  switch (error.code) {
    case Errc::timeout:
      return {std::move(repo), "timeout"};
    case Errc::overloaded:
      return {std::move(repo), "overloaded"};
    default:
      return {std::move(repo), "unreachable", {}, error.what};
  }
}

// What `warren search` says about the same query.
void add_notes(search::ParsedQuery& query, const std::vector<Missing>& missing,
               search::Answer& answer) {
  answer.notes = std::move(query.notes);
  bool found_nothing = answer.files.empty() && answer.is_complete && missing.empty();
  if (found_nothing) std::ranges::move(query.guesses, std::back_inserter(answer.notes));
}

// Of a node that answered in time, but did not come to the end.
std::vector<Missing> cut_short_of(const std::vector<Missing>& missing,
                                  const std::vector<std::string>& repos) {
  std::vector<Missing> others;
  for (const auto& repo : repos)
    if (std::ranges::find(missing, repo, &Missing::repo) == missing.end())
      others.push_back({repo, "timeout"});
  return others;
}

}  // namespace

Result<std::unique_ptr<Router>> Router::create(const asio::any_io_executor& executor,
                                               Catalog& catalog, RouterSettings settings,
                                               Metrics& metrics) {
  std::unique_ptr<Router> router(new Router(executor, catalog, std::move(settings), metrics));
  if (auto listens = router->listen(); !listens) return std::unexpected(listens.error());
  return router;
}

Router::Router(const asio::any_io_executor& executor, Catalog& catalog, RouterSettings settings,
               Metrics& metrics)
    : executor_(executor),
      catalog_(catalog),
      settings_(std::move(settings)),
      metrics_(metrics),
      pool_(executor,
            {.most_connections = 64, .piece_time = most_silence, .tls = settings_.node_tls}),
      scaler_(settings_.scale),
      table_changed_(executor),
      queries_(metrics.counter("warren_fleet_queries_total", "Queries that were answered.")),
      incomplete_(metrics.counter("warren_fleet_incomplete_total",
                                  "Answers in which a repository was missing.")) {}

awaitable<void> Router::run() {
  using namespace asio::experimental::awaitable_operators;
  co_await (http_->run() && follow_rows() && follow_nodes() && tell_demand());
}

void Router::on_table_changed() {
  ++table_changes_;
  table_changed_.notify();
}

awaitable<void> Router::follow_rows() {
  std::string position;
  for (;;) {
    auto now = Clock::now();
    auto changes = co_await catalog_.changes(position, now + 10s, now + 20s);
    if (!changes) {
      log::warn("fleet.no_changes", "why", changes.error().what);
      co_await sleep_for(settings_.look);
      continue;
    }
    position = changes->position;
    if (!changes->is_everything && changes->rows.empty() && changes->removed.empty()) continue;
    // Who has just joined may have been given a row already.
    if (!knows_owners_of(changes->rows)) co_await look_at_nodes();
    table_.on_changes(*changes);
    knows_rows_ = true;
    on_table_changed();
  }
}

awaitable<void> Router::follow_nodes() {
  for (;;) {
    bool is_new = co_await look_at_nodes();
    if (is_new) on_table_changed();
    if (is_new && knows_rows_) scaler_.on_load(Clock::now(), load_of(table_));
    co_await sleep_for(settings_.look);
  }
}

awaitable<void> Router::settled() {
  auto is_settled = [this] {
    if (!knows_rows_ || !knows_nodes_) return false;
    for (const auto& [name, repo] : table_.repos())
      for (const auto& [number, slot] : repo.slots)
        if (slot.row.state != RowState::failed &&
            (slot.row.state != RowState::ready || !slot.note.has_index))
          return false;
    return true;
  };
  while (!is_settled()) co_await table_changed_.wait();
}

awaitable<void> Router::wait_until_ready(const SearchAsk& ask, const search::RepoFilter& filter,
                                         Clock::time_point until) {
  for (;;) {
    if (Clock::now() >= until) co_return;
    auto plan = table_.plan(table_.limits_of(ask), settings_.zone);
    auto may_come = [&](const Missing& one) {
      return one.reason != "unknown" && concerns(filter, one);
    };
    if (knows_rows_ && knows_nodes_ && std::ranges::none_of(plan.missing, may_come)) co_return;
    co_await table_changed_.wait(until);
  }
}

Result<Router::ReadQuery> Router::read_query(const std::string& text) {
  auto query = search::parse_query(text);
  if (!query) return std::unexpected(query.error());
  auto filter = search::RepoFilter::of(*query->root);
  if (!filter) return std::unexpected(filter.error());
  return ReadQuery{*std::move(query), *std::move(filter)};
}

Async<Router::ReadQuery> Router::read(std::string text) {
  if (search::parses_quickly(text)) co_return read_query(text);
  co_return co_await on_pool(readers_, &Router::read_query, std::move(text));
}

void Router::limit_by_query(SearchAsk& ask, const search::RepoKinds& kinds) {
  auto narrow = [&ask](std::optional<bool>& limit, std::optional<bool> more) {
    if (!limit) limit = more;
    if (!more || *limit == *more) return;
    // None can be both.
    ask.repos.emplace();
    ask.repo_ids.reset();
  };
  narrow(ask.is_archived, kinds.is_archived);
  narrow(ask.is_fork, kinds.is_fork);
  narrow(ask.is_private, kinds.is_private);
}

Async<search::Answer> Router::search(SearchAsk ask, std::vector<Missing>& missing,
                                     FoundFiles* found) {
  missing.clear();
  auto asked = co_await read(ask.query);
  if (!asked) co_return std::unexpected(asked.error());
  limit_by_query(ask, asked->query.kinds);
  const auto& filter = asked->filter;
  if (ask.wait > 0ms) co_await wait_until_ready(ask, filter, Clock::now() + ask.wait);
  auto deadline = Clock::now() + ask.timeout;
  if (!knows_rows_ || !knows_nodes_) co_return fail(Errc::unavailable, "{}", still_loading);
  auto plan = plan_for(ask);
  missing = plan->missing;
  // One that names no repository asks for none of them in particular.
  for (const auto& one : missing)
    if (ask.repos && one.reason == "unclaimed") demand_.on_asked(Clock::now(), one.repo);
  Gathered into{.found = found};
  auto unanswered = co_await ask_nodes(ask, plan, deadline, into);
  std::ranges::move(take_orphans(missing), std::back_inserter(unanswered));
  if (!unanswered.empty() && !into.refused)
    co_await ask_again(ask, asked_of(*plan), std::move(unanswered), deadline, into, missing);
  if (into.refused) co_return std::unexpected(*std::move(into.refused));
  std::ranges::move(into.cut_short, std::back_inserter(missing));
  // What the query leaves out by its name is not missing.
  std::erase_if(missing, [&](const Missing& one) { return !concerns(filter, one); });
  co_await learn_progress(missing, deadline);
  auto terms = terms_of(ask, Clock::now());
  auto whole = search::merge_answers(std::move(into.parts), asked->query, terms);
  if (whole) add_notes(asked->query, missing, *whole);
  co_return whole;
}

Router::PlanPtr Router::plan_for(const SearchAsk& ask) {
  auto limits = table_.limits_of(ask);
  auto avoided = suspects();
  auto make = [&] {
    return std::make_shared<const Table::Plan>(
        table_.plan(limits, settings_.zone, avoided, loads()));
  };
  if (limits || !avoided.empty()) return make();
  bool is_old = !plan_of_all_ || plan_version_ != table_.version();
  // The loads of nodes change with every query.
  if (is_old || (plan_of_all_->has_choices && plan_uses_ >= most_plan_uses)) {
    plan_of_all_ = make();
    plan_uses_ = 0;
  }
  ++plan_uses_;
  plan_version_ = table_.version();
  return plan_of_all_;
}

awaitable<std::vector<Missing>> Router::ask_nodes(const SearchAsk& ask, PlanPtr plan,
                                                  Clock::time_point deadline, Gathered& into) {
  std::vector<std::vector<Heard>> answers(plan->routes.size());
  struct Call {
    Router& router;
    const SearchAsk& ask;
    PlanPtr plan;
    Clock::time_point deadline;
    std::vector<std::vector<Heard>>& answers;
    FoundFiles* found;
  } call{*this, ask, plan, deadline, answers, into.found};
  auto body = [](TaskGroup& tasks, Call& all) -> awaitable<bool> {
    auto one = [](Call& of, std::size_t place) -> awaitable<void> {
      auto what = of.plan;
      auto heard =
          co_await of.router.ask_route(of.ask, std::move(what), place, of.deadline, of.found);
      of.answers[place] = std::move(heard);
    };
    for (std::size_t i = 0; i < all.answers.size(); ++i) tasks.start("fleet.ask", one(all, i));
    co_await tasks.join();
    co_return true;
  };
  co_await with_group(body, call);
  std::vector<Missing> missing;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].empty())
      answers[i].push_back({plan, i, std::unexpected(Error{Errc::cancelled, "it was not asked"})});
    for (auto& one : answers[i]) add_heard(std::move(one), into, missing);
  }
  co_return missing;
}

void Router::add_heard(Heard heard, Gathered& into, std::vector<Missing>& missing) {
  const auto& route = heard.route();
  if (heard.part) {
    auto& part = *heard.part;
    if (part.answer.why_incomplete == "time")
      std::ranges::move(cut_short_of(part.missing, route.repos),
                        std::back_inserter(into.cut_short));
    into.parts.push_back(std::move(part.answer));
    std::ranges::move(part.missing, std::back_inserter(missing));
    suspects_.erase(route.session);
    return;
  }
  auto& error = heard.part.error();
  if (error.code == Errc::invalid) {
    into.refused = std::move(error);
    return;
  }
  log::warn("fleet.node_failed", "session", route.session, "why", error.what);
  suspects_[route.session] = Clock::now() + settings_.suspicion;
  for (const auto& repo : route.repos) missing.push_back(missing_because(repo, error));
}

std::vector<NodeSession> Router::suspects() {
  auto now = Clock::now();
  std::erase_if(suspects_, [&](const auto& entry) { return entry.second <= now; });
  std::vector<NodeSession> sessions;
  for (const auto& [session, until] : suspects_) sessions.push_back(session);
  return sessions;
}

NodeLoads Router::loads() { return {outstanding_, ++plans_}; }

void Router::put_loading(HttpAnswer& answer) {
  put_missing(answer, {Errc::unavailable, still_loading}, {});
}

std::string Router::node_headers() const {
  if (settings_.node_token.empty()) return "";
  return fmt::format("Authorization: Bearer {}\r\n", settings_.node_token);
}

Async<Part> Router::ask_node(const Table::Route& route, SearchAsk ask, Clock::time_point deadline,
                             FoundFiles* found) {
  auto url = parse_web_url(route.endpoint);
  if (!url) co_return std::unexpected(url.error());
  ask.rows = route.text;
  ask.repos.reset();  // the rows say it
  ask.repo_ids.reset();
  InFlight in_flight(outstanding_, route.session);
  auto now = Clock::now();
  ask.timeout =
      std::max(std::chrono::duration_cast<std::chrono::milliseconds>(deadline - now), 1ms);
  HttpAsk request{"POST", "/v1/search"};
  request.headers = "Content-Type: application/json\r\n" + node_headers();
  if (found) request.headers += "Accept: application/x-ndjson\r\n";
  request.body = to_json(ask);
  // Its own deadline ends a search in time to say so.
  auto call =
      co_await pool_.begin(*std::move(url), std::move(request), std::nullopt, deadline + 250ms);
  if (!call) co_return std::unexpected(call.error());
  auto reply = co_await (*call)->answer();
  if (!reply) co_return std::unexpected(reply.error());
  heard_[route.session] = Clock::now();
  if (reply->status == 429) co_return fail(Errc::overloaded, "the node has too much to do");
  if (reply->status == 400) {
    auto why = co_await (*call)->in().rest(most_refusal_bytes);
    co_return fail(Errc::invalid, "{}", why ? parse_error(*why) : why.error().what);
  }
  if (reply->status != 200)
    co_return fail(Errc::unavailable, "the node answered {}", reply->status);
  if (found) co_return co_await read_lines(**call, *found);
  auto body = co_await (*call)->in().rest(most_part_bytes);
  if (!body) co_return std::unexpected(body.error());
  co_return parse_part(*body);
}

}  // namespace warren::fleet
