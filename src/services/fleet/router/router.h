#pragma once
// A router of the fleet: stateless, any number of them. Knows from the catalog who serves what, asks
// each node once for all of its repositories, and puts the answers together.
//
//   POST /v1/search   {q, repos?, limit, context, cursor, timeout_ms, wait_ms, …}; NDJSON on request
//   GET  /v1/search?q=…&limit=…
//   GET  /v1/file?repo=…&path=…, /v1/skipped?repo=…
//   GET  /v1/repos, /v1/nodes, /v1/routes (repository -> endpoint, epoch: for other proxies)
//   POST /api/search, /api/list: as those of zoekt-webserver
//   POST /hooks/push  signed: a repository has a new commit
//   GET  /v1/scale: how many nodes there should be
//   GET  /healthz, /readyz, /metrics
//
// A node that fails costs its repositories, never the query: the answer names what is missing, and
// says that it is complete only when nothing is.
#include <memory>
#include <set>
#include <string>

#include "base/metrics.h"
#include "net/http/pool.h"
#include "net/http/server.h"
#include "primitives/catalog/catalog.h"
#include "search/query/repo_filter.h"
#include "services/fleet/plan/demand.h"
#include "services/fleet/plan/repo_samples.h"
#include "services/fleet/plan/scaler.h"
#include "services/fleet/router/found.h"
#include "services/fleet/router/table.h"
#include "services/fleet/zoekt/api.h"
#include "services/fleet/zoekt/query.h"

namespace warren::fleet {

// What autoscaling goes by.
FleetLoad load_of(const Table& table);

struct RouterSettings {
  ScaleTerms scale = {};
  HttpTerms http = {};
  std::string zone = {};
  std::string token = {};                   // that clients show; empty: none is asked for
  std::string node_token = {};              // shown to nodes
  std::optional<TlsContext> node_tls = {};  // for nodes whose endpoint is https://
  std::string hook_secret = {};         // that push hooks are signed with; empty: none are taken
  std::chrono::milliseconds look = 1s;  // at the nodes
  // If a node has not answered by then, the replicas are asked as well: see hedging.cc. For
  // `suspicion` after a failure another node is asked first.
  std::chrono::milliseconds hedge = 1s;
  std::chrono::milliseconds suspicion = 5s;
  std::size_t repo_metrics =
      usual_repo_metrics;  // so many of the largest repositories are in /metrics
};

class Router {
 public:
  // Errc::unavailable: it cannot listen. The catalog outlives it.
  static Result<std::unique_ptr<Router>> create(const asio::any_io_executor& executor,
                                                Catalog& catalog, RouterSettings settings,
                                                Metrics& metrics);

  ~Router() { readers_.join(); }

  // Until it is cancelled.
  awaitable<void> run();
  awaitable<void> drain(Clock::time_point deadline) { return http_->drain(deadline); }
  std::string url() const { return http_->url(); }
  unsigned short port() const { return http_->port(); }

  // What POST /v1/search does. Errc::invalid: the query. Everything else is in `missing`. `found`
  // hears of files before the end, and of more than the answer has; null: nobody does.
  Async<search::Answer> search(SearchAsk ask, std::vector<Missing>& missing,
                               FoundFiles* found = nullptr);
  // Returns when every repository is served or has failed; when the caller is cancelled.
  awaitable<void> settled();
  const Table& table() const { return table_; }

 private:
  Router(const asio::any_io_executor& executor, Catalog& catalog, RouterSettings settings,
         Metrics& metrics);
  Result<> listen();
  awaitable<void> follow_rows();
  awaitable<void> follow_nodes();
  awaitable<void> tell_demand();
  void on_table_changed();

  HttpServer::Work handle(const HttpRequest& request, HttpAnswer& answer);
  HttpServer::Work handle_search(const HttpRequest& request, HttpAnswer& answer);
  static void put_refusal(HttpAnswer& answer, const Error& error);
  void count_answer(const std::vector<Missing>& missing);
  awaitable<void> answer_search(SearchAsk ask, HttpAnswer& answer);
  HttpServer::Work handle_push(const HttpRequest& request, HttpAnswer& answer);
  awaitable<void> answer_push(std::vector<std::string> repos, HttpAnswer& answer);
  awaitable<void> stream_search(const HttpRequest& request, SearchAsk ask, HttpAnswer& answer);
  Async<search::Answer> search_into(SearchAsk ask, std::vector<Missing>& missing,
                                    FoundFiles& found);
  struct ReadQuery {
    search::ParsedQuery query;
    search::RepoFilter filter;
  };
  static Result<ReadQuery> read_query(const std::string& text);
  // Here, or where nobody else waits if it may take long.
  Async<ReadQuery> read(std::string text);
  // What the query says of kinds of repositories, beside what the request says.
  static void limit_by_query(SearchAsk& ask, const search::RepoKinds& kinds);
  awaitable<void> wait_until_ready(const SearchAsk& ask, const search::RepoFilter& filter,
                                   Clock::time_point until);
  // What comes together for one query.
  struct Gathered {
    std::vector<search::Answer> parts = {};
    FoundFiles* found = nullptr;          // hears of files before the end; null: nobody does
    std::optional<Error> refused = {};    // what is wrong with the request, if a node says so
    std::vector<Missing> cut_short = {};  // searched, but not to the end: the time was over
  };
  // Of all repositories it is made anew only when the table has changed.
  using PlanPtr = std::shared_ptr<const Table::Plan>;
  PlanPtr plan_for(const SearchAsk& ask);
  // Adds what the nodes say; gives what none of them did.
  awaitable<std::vector<Missing>> ask_nodes(const SearchAsk& ask, PlanPtr plan,
                                            Clock::time_point deadline, Gathered& into);
  // What one node answered to one route of a plan.
  struct Heard {
    PlanPtr plan;
    std::size_t place;
    Result<Part> part;
    const Table::Route& route() const { return plan->routes[place]; }
  };
  void add_heard(Heard heard, Gathered& into, std::vector<Missing>& missing);
  // Asks the node of this route, and the replicas too if it takes long: hedging.cc.
  struct Race;
  awaitable<std::vector<Heard>> ask_route(const SearchAsk& ask, PlanPtr plan, std::size_t place,
                                          Clock::time_point deadline, FoundFiles* found);
  awaitable<void> ask_racing(Race& all, std::size_t number);
  awaitable<void> race(TaskGroup& tasks, Race& all);
  PlanPtr plan_without(const Table::Route& route);
  std::vector<Heard> outcome_of(Race& all);
  // What was not answered, once more with what is known by then: see again.cc.
  using Asked = std::map<std::string, AskedRow, std::less<>>;  // by repository
  static Asked asked_of(const Table::Plan& plan);
  static std::vector<Missing> take_orphans(std::vector<Missing>& missing);
  awaitable<void> ask_again(const SearchAsk& ask, Asked asked, std::vector<Missing> unanswered,
                            Clock::time_point deadline, Gathered& into,
                            std::vector<Missing>& missing);
  awaitable<Table::Plan> plan_again(const std::vector<Missing>& unanswered, const Asked& asked,
                                    Clock::time_point deadline);
  awaitable<bool> look_at_nodes();
  bool knows_owners_of(const std::vector<Row>& rows) const;
  Async<Part> ask_node(const Table::Route& route, SearchAsk ask, Clock::time_point deadline,
                       FoundFiles* found);
  static Async<Part> read_lines(HttpCall& call, FoundFiles& found);
  std::string node_headers() const;
  // The repository that a request names, if it may: Errc::invalid, not_found.
  Result<std::string> one_repo(const HttpRequest& request) const;
  // One request to whoever serves it; `target` has a query. Errc::unavailable: nobody, see `missing`.
  Async<HttpReply> ask_owner(std::string repo, std::string target, Clock::time_point deadline,
                             std::vector<Missing>& missing);
  awaitable<void> answer_look(const HttpRequest& request, HttpAnswer& answer);
  static void put_loading(HttpAnswer& answer);
  static void put_missing(HttpAnswer& answer, const Error& error,
                          const std::vector<Missing>& missing);
  std::vector<NodeSession> suspects();
  NodeLoads loads();
  void watch_scale();
  std::string scale_json() const;
  HttpServer::Work handle_zoekt(const HttpRequest& request, HttpAnswer& answer);
  awaitable<void> answer_zoekt_search(ZoektSearch asked, std::string client, HttpAnswer& answer);
  awaitable<void> answer_zoekt_list(ZoektList asked, std::string client, HttpAnswer& answer);
  Result<ZoektQuery> zoekt_query(const std::string& text) const;
  awaitable<void> add_texts(ZoektAnswer& whole, Clock::time_point deadline);
  void put_listing(const HttpRequest& request, HttpAnswer& answer) const;
  static bool is_all_missing(const SearchAsk& ask, const std::vector<Missing>& missing);
  // Adds to what warms up how far it is.
  awaitable<void> learn_progress(std::vector<Missing>& missing, Clock::time_point deadline);
  awaitable<void> look_at_owner(std::string endpoint, Clock::time_point deadline);
  std::set<std::string> owners_of(const std::vector<Missing>& missing) const;

  asio::any_io_executor executor_;
  Catalog& catalog_;
  RouterSettings settings_;
  Metrics& metrics_;
  HttpPool pool_;
  asio::thread_pool readers_{1};  // of queries that take long to read
  std::unique_ptr<HttpServer> http_;
  Table table_;
  PlanPtr plan_of_all_;             // null: none was made yet
  std::uint64_t plan_version_ = 0;  // of the table that it was made of
  int plan_uses_ = 0;
  std::uint64_t plans_ = 0;  // made so far: the seed of the next one
  bool knows_rows_ = false, knows_nodes_ = false;
  std::uint64_t looks_ = 0, newest_look_ = 0;  // at the nodes: begun, and shown in the table
  std::map<NodeSession, Clock::time_point> suspects_;  // and until when
  std::map<NodeSession, std::uint64_t> outstanding_;   // searches without an answer yet
  std::map<NodeSession, Clock::time_point> heard_;     // the time of the last answer
  std::map<std::string, Missing> warming_;             // by repository, as of the last look
  Clock::time_point looked_at_warming_ = {};
  Scaler scaler_;
  std::shared_ptr<void> scaling_;
  Demand demand_;
  std::set<std::string> told_;  // repositories, and not served since
  Event table_changed_;
  std::uint64_t table_changes_ = 0;
  Counter queries_, incomplete_;
};

// A row that has just moved is in the change feed a moment later.
inline constexpr auto news_time = 300ms;

// Each `name=` of a query, decoded; none: there is none. Errc::invalid: one that cannot be decoded,
// for a list that limits must not become a longer one.
Result<std::optional<std::vector<std::string>>> list_of_query(std::string_view query,
                                                              const char* name);

}  // namespace warren::fleet
