// Elections on a real server: one leader, another one soon after it is gone, none without Redis.
#include "primitives/election/election.h"

#include "proof/testkit/faulty_link.h"
#include "with_sessions.h"

using namespace warren;

namespace {

// Counts its terms and leads until it is cancelled.
struct Candidate {
  Candidate(LeaseSession& session, std::string name, bool leads_alone = false)
      : election(session, {"{c}:leader:role", std::move(name), 1s, leads_alone}) {}

  static Async<> run(Candidate& self) {
    return self.election.campaign([&self](Term term) { return reign(self, term); });
  }
  static Async<> reign(Candidate& self, Term term) {
    self.tokens.push_back(term.token);
    self.has_lease = term.lease != nullptr;
    co_await sleep_until(Clock::time_point::max());
    co_return ok;
  }

  Election election;
  std::vector<FencingToken> tokens;
  bool has_lease = false;
};

bool leads(Candidate& candidate) { return candidate.election.is_leader(); }

}  // namespace

TEST_CASE("one candidate leads; when it resigns the other does, under a higher token") {
  RedisServer server;
  with_sessions({settings_for(server), settings_for(server)}, 1s,
                [](Sessions& sessions) -> awaitable<void> {
                  Candidate alice(*sessions[0], "alice"), bob(*sessions[1], "bob");
                  TaskGroup campaigns(sessions[0]->client().executor());
                  campaigns.start("alice", Candidate::run(alice));
                  co_await eventually(10s, "alice leads", leads, alice);
                  campaigns.start("bob", Candidate::run(bob));
                  auto leader = co_await bob.election.observe();
                  REQUIRE(leader);
                  REQUIRE(*leader);
                  CHECK((*leader)->candidate == "alice");
                  CHECK((*leader)->token == alice.tokens.at(0));
                  auto age = WallClock::now() - (*leader)->since;
                  CHECK(age < 10s);
                  CHECK(age > -1s);
                  CHECK(!bob.election.is_leader());

                  // In line, so that the resignation hands over instead of freeing.
                  auto waits = [](LeaseSession& session) {
                    return session.machine().leases() == 1 &&
                           session.machine().state(1) == LeaseState::waiting;
                  };
                  co_await eventually(10s, "bob is in line", waits, *sessions[1]);
                  alice.election.resign();
                  co_await eventually(10s, "bob leads", leads, bob);
                  CHECK(!alice.election.is_leader());
                  CHECK(bob.tokens.at(0) > alice.tokens.at(0));
                  bob.election.resign();
                  co_await eventually(10s, "alice leads again", leads, alice);
                  CHECK(alice.tokens.size() == 2);
                  campaigns.stop();
                  co_await campaigns.join();
                });
}

TEST_CASE("a leader that is cut off stops leading before the next one begins") {
  RedisServer server;
  FaultyLink link(server.port());
  with_sessions(
      {settings_for(link.port()), settings_for(server)}, 1s,
      [](Sessions& sessions, FaultyLink& way) -> awaitable<void> {
        Candidate alice(*sessions[0], "alice"), bob(*sessions[1], "bob");
        TaskGroup campaigns(sessions[0]->client().executor());
        campaigns.start("alice", Candidate::run(alice));
        co_await eventually(10s, "alice leads", leads, alice);
        campaigns.start("bob", Candidate::run(bob));
        way.half_open();
        bool both = false;
        auto bob_alone_leads = [](Candidate& a, Candidate& b, bool& two) {
          two = two || (a.election.is_leader() && b.election.is_leader());
          return b.election.is_leader();
        };
        co_await eventually(20s, "bob leads", bob_alone_leads, alice, bob, both);
        CHECK(!both);
        CHECK(!alice.election.is_leader());
        way.heal();
        campaigns.stop();
        co_await campaigns.join();
      },
      link);
}

TEST_CASE("a campaign ends with the reign that returns by itself, and lets the next one lead") {
  RedisServer server;
  with_sessions({settings_for(server)}, 1s, [](Sessions& sessions) -> awaitable<void> {
    Election election(*sessions[0], {"{c}:leader:role", "alice", 1s});
    auto work = [](Term) -> Async<> { co_return fail(Errc::invalid, "done badly"); };
    auto done = co_await election.campaign(work);
    REQUIRE(!done);
    CHECK(done.error().what == "done badly");
    CHECK(!election.is_leader());
    auto leader = co_await election.observe();
    REQUIRE(leader);
    CHECK(!*leader);
  });
}

TEST_CASE("without Redis nobody leads, except a lone instance that was told to") {
  RedisServer server;
  FaultyLink link(server.port());
  link.cut();
  with_sessions(
      {settings_for(link.port()), settings_for(link.port())}, 1s,
      [](Sessions& sessions, FaultyLink& way) -> awaitable<void> {
        Candidate usual(*sessions[0], "usual"), lone(*sessions[1], "lone", true);
        TaskGroup campaigns(sessions[0]->client().executor());
        campaigns.start("usual", Candidate::run(usual));
        campaigns.start("lone", Candidate::run(lone));
        co_await eventually(20s, "the lone one leads", leads, lone);
        CHECK(!lone.has_lease);
        CHECK(!usual.election.is_leader());
        way.heal();
        // For a moment there may be two: the lone one stops only when it reaches Redis itself.
        auto one_with_a_lease = [](Candidate& a, Candidate& b) {
          auto holds = [](Candidate& c) { return c.election.is_leader() && c.has_lease; };
          return (holds(a) && !b.election.is_leader()) || (holds(b) && !a.election.is_leader());
        };
        co_await eventually(20s, "one leads, with a lease", one_with_a_lease, usual, lone);
        campaigns.stop();
        co_await campaigns.join();
      },
      link);
}
