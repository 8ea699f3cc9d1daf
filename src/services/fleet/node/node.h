#pragma once
// A node of the fleet: claims repositories, brings them into memory, and answers for them.
//
//   catalog ── offers ──> claim ──> fetch ──> read ──> index          one task for each row
//                           ▲                  │         │
//                           │                  ▼         ▼
//                           │              answers,   answers          from what is in memory: the
//                           │             by scanning                  old one while a new one is made
//                           └── released: failed, evicted; or handed over to another node
//
// It answers for a row only under the epoch that it was claimed with, and only until its lease's
// deadline by its own clock. When the lease is lost the memory stays: claiming the same commit again
// costs neither a fetch nor a build.
//
// One that drains goes on answering for each row until another node has the same in memory, streamed
// from here, and the catalog has made that one the owner (wire/hand_over.h).
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/metrics.h"
#include "net/http/pool.h"
#include "net/http/server.h"
#include "primitives/catalog/node_lease.h"
#include "primitives/catalog/returns.h"
#include "search/query/lanes.h"
#include "services/fleet/fetch/fetcher.h"
#include "services/fleet/node/asked.h"
#include "services/fleet/node/busy.h"
#include "services/fleet/node/held.h"
#include "services/fleet/node/journey.h"
#include "services/fleet/node/snapshots.h"
#include "services/fleet/node/warming.h"
#include "services/fleet/plan/claims.h"
#include "services/fleet/plan/gone.h"
#include "services/fleet/plan/owners.h"
#include "services/fleet/plan/records.h"
#include "services/fleet/plan/repo_samples.h"
#include "services/fleet/plan/shelf.h"
#include "services/fleet/wire/hand_over.h"
#include "services/fleet/wire/wire.h"

namespace warren {
class HttpLines;
}

namespace warren::fleet {

struct NodeSettings {
  NodeTerms lease;
  std::string zone = {};
  std::string endpoint = {};  // where routers reach it; empty: where it listens
  HttpTerms http = {};
  std::string token = {};                   // that routers show; empty: none is asked for
  std::optional<TlsContext> peer_tls = {};  // for nodes whose endpoint is https://
  ShelfTerms shelf = {};
  UrlRules rules = {};
  FetcherSettings fetching = {};
  search::SourceLimits limits = {};
  int builds = 1;   // at once
  int threads = 2;  // that look for matches
  bool with_symbols = true;
  std::size_t delta_from = search::UpdateTerms().delta_from;  // bytes of text
  std::chrono::milliseconds poll = 30s;          // for new commits, plus up to a quarter by chance
  std::chrono::milliseconds look = 1s;           // for rows on offer
  std::chrono::milliseconds verify = 5min;       // all that is in memory, once in so long
  std::chrono::milliseconds fetch_time = 10min;  // of one repository
  int hand_overs = 2;                            // at once, of a node that drains
  // A repository that its host says is gone leaves after so long; 0: never.
  std::chrono::milliseconds gone_after = usual_grace;
  std::size_t repo_metrics = usual_repo_metrics;  // so many of the largest are in /metrics
  std::optional<SnapshotTerms> snapshots = {};    // of very large repositories; none: none are made
  Tracer* tracer = nullptr;                       // outlives it; null: nobody wants traces
};

class FleetNode {
 public:
  // Errc::unavailable: it cannot listen. Errc::denied, invalid: the folder of its mirrors, or of its
  // snapshots. The catalog outlives it.
  static Result<std::unique_ptr<FleetNode>> create(const asio::any_io_executor& executor,
                                                   Catalog& catalog, NodeSettings settings,
                                                   Metrics& metrics);
  ~FleetNode();

  // Until it is cancelled.
  awaitable<void> run();
  // Claims nothing more, hands its rows over to others, and leaves. What nobody has taken at the
  // deadline is free for all, and so is everything at once when there is no other node.
  awaitable<void> drain(Clock::time_point deadline);
  // Gives its rows back as they are, and waits for the queries that are under way.
  awaitable<void> leave(Clock::time_point deadline);

  unsigned short port() const { return http_->port(); }
  const NodeLease& lease() const { return *lease_; }
  const Shelf& shelf() const { return shelf_; }
  NodeInfo info() const;

 private:
  // A row that is ours in this life.
  struct Owned : std::enable_shared_from_this<Owned> {
    Claim claim;
    std::string repo;
    RepoSpec spec;
    std::uint32_t attempts = 0;       // before us
    RepoNote last = {};               // of its previous owner
    std::uint64_t peak_bytes = 0;     // of the build that found no room; 0: none did
    std::uint64_t noted_lacks = 0;    // the same, as the catalog knows it
    std::optional<Phase> noted = {};  // the last phase written to the catalog
    bool is_noting = false;           // a phase is being written
    bool is_ready = false;
    bool is_told = false;                   // the catalog has heard of what is shown
    bool leaves = false;                    // it is to be given back
    std::shared_ptr<Warming> warming = {};  // equal owners: this, and the thread that reads
    bool must_look = false;                 // something is new since its task looked last
    // The last look at its origin said that there is none, in these words.
    std::optional<std::string> gone = {};
    Journey journey = {};
    std::chrono::milliseconds claim_latency = {};  // from when we saw it on offer
    WallClock::time_point served_at = {};          // for people; the epoch: not yet
    std::unique_ptr<Event> changed;
    std::unique_ptr<Event> phase_changed;  // or is_ready, is_noting or the owner has
    // Of one that drains: what the next owner may have, and whether the catalog is being told.
    search::SegmentListPtr offered = nullptr;
    bool is_flipping = false;
    // Of one that another node still owns, and that we are to have: its claim, and how far we are.
    std::optional<Claim> from = {};
    std::optional<Result<>> taken = {};
    bool is_coming() const { return from.has_value(); }
  };
  using OwnedPtr = std::shared_ptr<Owned>;  // of the map, of its task, and of who waits for it

  FleetNode(const asio::any_io_executor& executor, Catalog& catalog, NodeSettings settings,
            std::unique_ptr<Fetcher> fetcher, Metrics& metrics);
  Result<> listen();

  // One life after the other.
  awaitable<void> live();
  awaitable<void> one_life(NodeSession session);
  awaitable<void> follow_offers(TaskGroup& tasks, NodeSession session);
  awaitable<void> look_for_work(TaskGroup& tasks, const NodeSession& session);
  awaitable<void> claim_what_is_due(TaskGroup& tasks, const NodeSession& session);
  void want_work();
  awaitable<void> try_claim(TaskGroup& tasks, NodeSession session, Offer offer);
  awaitable<void> follow_rows(NodeSession session);
  void on_row(const Row& row, const NodeSession& session);
  bool is_known(const std::string& key) const;
  awaitable<void> give_back_what_is_due();
  static void wake(Owned& owned);
  void on_gone(const Changes& changes);
  bool owns(const std::string& repo) const;
  bool make_room(const Offer& offer);
  std::vector<Offer> offers_of(const std::vector<Row>& rows);

  // What becomes of one row.
  awaitable<void> own(OwnedPtr owned);
  awaitable<void> wait_for_reason(Owned& owned);
  Async<> bring(Owned& owned);
  Async<> show_again(Owned& owned);
  Async<> bring_new(Owned& owned, RemoteUrl url, Resolved resolved, std::optional<Slot> slot,
                    std::optional<Span> fetching);
  Async<Slot> wait_to_fetch(Owned& owned, RemoteUrl url);
  Async<> build(Owned& owned, Held held, Fetched fetched);
  Async<> publish(Owned& owned, Held held);
  Async<> write(Owned& owned, RowState state, const RepoNote& note);
  awaitable<void> give_back(Owned& owned, Release how);
  Async<> release(Returns::Due due);
  void forget(const Owned& owned);

  // Notes about rows that are not ready, or lack room for a newer commit: noting.cc.
  static void enter(Owned& owned, Phase phase);
  awaitable<void> note_phases(OwnedPtr owned);
  Async<> note_phase(Owned& owned, Phase phase);
  awaitable<void> note_what_is_lacked(Owned& owned);
  std::uint64_t updates_lack_room() const;
  void wake_who_has_room_now();

  // What its origin said of a repository: leaving.cc.
  void on_gone_row(const Row& row);
  awaitable<void> heed_origin(Owned& owned);
  Async<> count_gone(const Owned& owned, std::string why);
  Async<std::string> note_of(const Claim& claim);
  Async<> let_go(std::string repo, Gone seen);
  awaitable<void> follow_move(Owned& owned, RemoteUrl from, RemoteUrl to);

  // What is on disk for the next start: remembering.cc.
  awaitable<void> recall(Owned& owned);
  awaitable<void> remember(Owned& owned);
  void refuse_snapshot(const std::string& repo, const Error& error);
  void forget_snapshot(const std::string& repo);

  // Giving rows to others: draining.cc.
  struct Successor {
    std::string name;
    NodeSession session;
    std::string endpoint;
  };
  struct Succession {
    std::vector<Successor> order;  // those that have room, the best first
    bool has_others = false;       // there are nodes beside us, with room or without
  };
  void on_drain_wish(const Row& row);
  void on_wish_withdrawn();
  awaitable<void> mind_wishes();
  awaitable<void> empty_out(Clock::time_point deadline);
  bool is_handing_on(const Owned& owned) const;
  awaitable<bool> pass_on(Owned& owned);
  awaitable<bool> pass_on_now(Owned& owned);
  Async<Succession> successors(const Owned& owned);
  Async<HandOver> hand_over_of(Owned& owned);
  Async<> ask_to_take(Successor to, HandOver offer);
  awaitable<bool> flip(Owned& owned, const Successor& to);
  awaitable<void> tell(const Successor& to, HandedOver row);
  Async<HttpReply> ask_peer(std::string endpoint, HttpAsk ask, Clock::time_point deadline);
  std::string token_header() const;
  static bool is_about_hand_over(std::string_view path);
  HttpServer::Work handle_hand_over(const HttpRequest& request, HttpAnswer& answer);
  awaitable<void> answer_segment(const HttpRequest& request, HttpAnswer& answer);

  // Taking rows from others: taking.cc.
  awaitable<void> answer_take(const HttpRequest& request, HttpAnswer& answer);
  void answer_own(const HttpRequest& request, HttpAnswer& answer);
  Result<OwnedPtr> begin_taking(HandOver offer);
  awaitable<void> take_over(OwnedPtr coming, HandOver offer);
  bool is_here(const std::string& repo, const HandOver& offer) const;
  Async<> take(Owned& coming, HandOver offer);
  Async<search::SegmentListPtr> fetch_segments(const HandOver& offer);
  Async<std::shared_ptr<const search::Segment>> fetch_segment(HttpUrl from, const HandOver& offer,
                                                              std::size_t part);
  void on_coming_row(const Row& row, const NodeSession& session);
  void become_owner(const OwnedPtr& coming, FencingToken epoch);
  void stop_taking(const OwnedPtr& coming);
  // Who is asked in the moment in which a row changes hands answers when it knows whose it is.
  awaitable<void> wait_for_flips(const std::vector<AskedRow>& rows, Clock::time_point until);

  awaitable<void> mind_memory();
  awaitable<void> demote(std::string repo);
  void evict(const std::string& repo);
  awaitable<void> verify_memory();
  void drop_damaged(const std::string& repo, const std::shared_ptr<const search::Segment>& segment,
                    const Error& error);

  // For Prometheus: measuring.cc.
  void measure();
  std::string repo_metrics() const;
  Histogram milliseconds_of(const char* name, const char* help);
  Counter snapshots_that(const char* outcome);

  HttpServer::Work handle(const HttpRequest& request, HttpAnswer& answer);
  static void put_error(HttpAnswer& answer, const Error& error);
  awaitable<void> answer_search(const HttpRequest& request, HttpAnswer& answer);
  std::string warming_json() const;  // of rows that are not ready
  // What of the rows is here, and ours under the epoch that the router names.
  struct Rows {
    search::SegmentList segments = {};
    std::vector<Missing> missing = {};
    std::vector<Span> first_answers = {};
  };
  Rows rows_of(const std::vector<AskedRow>& asked, Clock::time_point now);
  Owned* owned_as(const AskedRow& row) const;      // null: it is not
  const Held* held_as(const AskedRow& row) const;  // likewise
  awaitable<void> look_into(const HttpRequest& request,
                            HttpAnswer& answer);  // /v1/file, /v1/skipped
  Async<search::ParsedQuery> read_query(std::string text, std::string client);
  // `early`: where files go that are found before the end; null: nowhere.
  Async<Part> search_rows(SearchAsk ask, HttpLines* early);
  void answer_look(const HttpRequest& request, HttpAnswer& answer);

  asio::any_io_executor executor_;
  Catalog& catalog_;
  NodeSettings settings_;
  std::unique_ptr<Fetcher> fetcher_;
  Metrics& metrics_;
  std::unique_ptr<NodeLease> lease_;
  std::unique_ptr<HttpServer> http_;
  search::Lanes lanes_;
  asio::thread_pool builders_;
  asio::thread_pool checkers_{1};         // of memory, which do not wait for a build
  asio::thread_pool movers_{1};           // sums over segments that come and go, beside builds
  asio::thread_pool savers_{1};           // snapshots, one after the other
  std::unique_ptr<Snapshots> snapshots_;  // null: none are made
  std::map<std::string, Clock::time_point> remembered_;  // when each was written last
  HttpPool peers_;
  AskedLists asked_;
  Claims claims_;
  Shelf shelf_;
  std::map<std::string, Held> held_;        // by repository
  std::map<std::string, OwnedPtr> owned_;   // by key
  std::map<std::string, OwnedPtr> coming_;  // by key: rows of others that we are to have
  std::multiset<std::string> in_call_;      // keys that are being claimed or given back
  Returns returns_;
  Owners owners_;
  std::map<std::string, Row> offered_;  // as of the last look
  std::string position_ = {};           // of the catalog's changes, as far as they were heeded
  std::set<std::string> counted_;       // repositories whose grace counts (plan/gone.h)
  std::uint64_t left_ = 0;              // of those, which we saw leave
  TaskGroup* tasks_ = nullptr;          // of this life
  Event work_wanted_;
  bool work_is_wanted_ = false;
  std::uint64_t running_ = 0;
  BusyMeter busy_;
  bool is_draining_ = false;  // claims nothing
  bool is_leaving_ = false;   // for good
  Clock::time_point drain_until_{};
  std::string wish_ = {};  // the key of the row that asks for it; empty: none does
  std::uint64_t wishes_ = 0;
  std::chrono::milliseconds wished_within_{};
  int handing_over_ = 0;
  Event rows_changed_;  // fewer of them, another hand-over may begin, or the wish has changed
  struct {
    std::uint64_t handed_over = 0, taken_over = 0, given_back = 0;
  } drained_;
  std::map<std::string, Clock::time_point> offered_since_;  // by key, while they are
  WallClock::time_point served_at_ = {};
  std::unique_ptr<Tracer> no_tracer_;  // in place of one that is not given
  Tracer& tracer_;
  Counter damaged_, builds_;
  Counter snapshots_read_, snapshots_written_, snapshots_refused_;
  Histogram index_times_, claim_latencies_;
  std::shared_ptr<void> collecting_;
};

}  // namespace warren::fleet
