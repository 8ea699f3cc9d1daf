#pragma once
// The parts of a federation and how they hang together.
//
//   follower ──┐                         ┌── places (placing.cc): decisions, pulls
//   leading ───┴──> view <───────────────┤
//      │  ▲                              └── answers (answering.cc): to other clusters
//      v  │ news
//    links: one PeerSession and one Wire per peer (leading.cc, linking.cc)
#include <map>
#include <set>

#include "services/foghorn/federation/advertise.h"
#include "services/foghorn/federation/dialling.h"
#include "services/foghorn/federation/federation.h"
#include "services/foghorn/federation/follower.h"
#include "services/foghorn/federation/session.h"
#include "services/foghorn/federation/wire.h"
#include "services/foghorn/federation/writer.h"

namespace warren::federation {

// A channel that is open.
struct Link {
  Link(const FederationTerms& terms, const std::string& self, const PeerTerms& peer, Hello hello,
       std::shared_ptr<Wire> over, Dialler dialler, const asio::any_io_executor& executor)
      : session(terms, self, peer, std::move(hello), Clock::now()),
        wire(std::move(over)),
        by(dialler),
        wake(executor) {}
  // Once it was greeted, and until it ends.
  std::optional<Greeted> greeted() const {
    if (!session.greeting() || session.over()) return {};
    return Greeted{by, session.greeting()->token};
  }

  PeerSession session;
  std::shared_ptr<Wire> wire;
  Dialler by;
  Event wake;  // there may be something to send
};

struct Peer {
  PeerTerms terms;
  bool is_configured = false;
  // Of the term; both are shared with the task that serves them.
  std::shared_ptr<Link> link;                    // the channel, from its greeting on
  std::shared_ptr<Link> dialled;                 // by us, and not greeted: it may lead nowhere
  Clock::time_point alone_since = Clock::now();  // that there is no channel
  std::string problem;
  std::string hint;                      // an address that its follower gave
  std::optional<std::string> announced;  // by its leader, where it has greeted us; empty: none
  std::string good_address;              // that answered last
  std::size_t next_address = 0;
  std::uint64_t dial = 0;      // the task that dials it; 0: none does
  PeerSession::Counters past;  // of links that are gone

  std::vector<std::shared_ptr<Link>> links() const {
    std::vector<std::shared_ptr<Link>> all;
    for (const auto& each : {link, dialled})
      if (each) all.push_back(each);
    return all;
  }
};

// The tenant of a stream, empty if it has none. No value: this cluster does not know.
using Owner = std::optional<std::string>;

// What a fan-out or a refused pull taught, for a moment.
struct Memo {
  Clock::time_point until;
  std::vector<RemoteChoice> remote;
};

class Federation::Core final : public Answerer {
 public:
  Core(asio::any_io_executor executor, redis::Client& client, LeaseSession& session,
       foghorn::Cluster& cluster, FederationTerms terms);
  ~Core() override;

  void start();
  awaitable<void> close();

  // placing.cc
  std::optional<Placement> place_now(const PlaceQuery& query);
  Async<Placement> place(PlaceQuery query, Clock::time_point deadline);
  std::optional<std::string> source_of(const std::string& stream) const;
  std::vector<RemoteChoice> artifact_at(const std::string& id, double lat, double lon) const;
  std::optional<std::string> ingested_at(const std::string& stream) const;
  std::optional<std::string> stream_of_playback(const std::string& id) const;

  // answering.cc
  Result<StreamAnswer> query(const StreamQuery& query) override;
  void pull(PullRequest request, std::function<void(Result<PullAnswer>)> answer) override;
  Result<ArtifactAnswer> prepare(const ArtifactRequest& request) override;
  void accept(std::shared_ptr<Wire> wire) override;

  const std::string& self() const { return cluster.terms().cluster_id; }
  std::vector<PeerView> peer_views() const;
  std::shared_ptr<void> publish(Metrics& metrics) const;

  asio::any_io_executor executor;
  redis::Client& client;
  LeaseSession& session;
  foghorn::Cluster& cluster;
  const FederationTerms terms;
  View view;
  Election election;
  Event changed;
  std::unique_ptr<grpc::Service> service;

 private:
  // --- leading.cc: what only the leader does -----------------------------------------------------
  Async<> reign(Term term);
  awaitable<void> tell_offers();
  awaitable<void> look_after(Lease& lease);
  awaitable<void> sweep();
  awaitable<void> dial_peers(TaskGroup& dialling);
  awaitable<void> dial_peer(std::string cluster, std::uint64_t dial);
  void write_addresses(const redis::Reply& known);
  void check_pulls(Clock::time_point now);
  void end_term();

  // --- linking.cc: one channel -------------------------------------------------------------------
  awaitable<void> serve(std::shared_ptr<Link> link);
  awaitable<void> receive(std::shared_ptr<Link> link);
  awaitable<void> transmit(std::shared_ptr<Link> link);
  awaitable<void> keep_time(std::shared_ptr<Link> link);
  awaitable<void> greet(std::shared_ptr<Wire> wire);
  Result<> admit(const Wire& wire, const Frame& first);
  bool keep(std::shared_ptr<Link> link);
  void hear_address(Peer& peer, const std::string& address);
  void hear(const std::string& cluster, PeerSession& from);
  void take(Record record);
  void confirm(const std::string& cluster, const PeerSession& from);
  Hello hello() const;
  std::string leader_address() const;

  // --- placing.cc --------------------------------------------------------------------------------
  std::vector<RemoteChoice> known_remotes(Clock::time_point now, const PlaceQuery& query,
                                          const Owner& owner) const;
  std::optional<std::vector<RemoteChoice>> remembered(Clock::time_point now,
                                                      const std::string& stream,
                                                      const Owner& owner) const;
  balance::Query local_query(const PlaceQuery& query) const;
  std::string play_url(const std::string& cluster, const std::string& base_url) const;
  bool can_pull(Clock::time_point now, const std::string& stream, const RemoteChoice& from) const;
  awaitable<void> ask_around(PlaceQuery query, Owner owner, std::string key,
                             Clock::time_point deadline);
  // Answers of peers that were asked and have not said anything yet.
  struct Answers {
    Event came;
    int count = 0;
  };
  awaitable<void> ask_peer(std::string cluster, PlaceQuery query, Owner owner, Memo& memo,
                           Answers& answers, Clock::time_point deadline);
  awaitable<void> arrange(PlaceQuery query, RemoteChoice from, Clock::time_point deadline);
  Async<> try_arrange(PlaceQuery query, RemoteChoice from, Clock::time_point deadline);
  const ActiveReplication* under_way(Clock::time_point now, const std::string& stream,
                                     const balance::RoutingTable& table, const Owner& owner) const;
  std::vector<std::string> addresses_of(const std::string& cluster) const;
  void remember_address(const std::string& cluster, const std::string& address);
  bool shares(const std::string& cluster, const std::string& tenant) const;

  // --- sharing.cc: which peers may have its viewers ----------------------------------------------
  Owner owner_of(const balance::RoutingTable& table, const std::string& stream,
                 const std::string& said) const;
  bool may_serve(const std::string& cluster, const Owner& owner) const;
  bool may_serve(const std::string& cluster, const Owner& owner, const std::string& said) const;

  // --- answering.cc ------------------------------------------------------------------------------
  Async<PullAnswer> answer_pull(PullRequest request);

  // --- peers that a registry lists, at every instance
  // ----------------------------------------------
  awaitable<void> ask_registry();
  void adopt(std::vector<PeerTerms> listed);

  awaitable<void> campaign();
  awaitable<void> forget_what_expired();

  Writer writer_;
  Follower follower_;
  Caller caller_;
  Advertiser advertiser_;
  std::map<std::string, Peer> peers_;
  std::uint64_t dials_ = 0;
  std::map<std::string, std::string> written_addresses_;
  Event announced_;  // an address that is not in Redis yet
  std::shared_ptr<const Offer> offer_;
  FencingToken token_;  // of our last term
  bool is_leading_ = false;
  bool is_closing_ = false;
  std::map<std::string, Clock::time_point> pulls_seen_;
  std::map<std::string, std::shared_ptr<Event>> flights_;  // by what is asked or arranged
  std::map<std::string, Memo> asked_;                      // by owner and stream
  std::map<std::string, Clock::time_point> refused_pulls_;
  TaskGroup tasks_;  // for as long as this lives
  TaskGroup calls_;  // of others, and what they wait for
};

}  // namespace warren::federation
