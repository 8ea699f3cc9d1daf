// A board on a real server: who may write what, what is told, and what a repetition does.
#include "base/uuid.h"
#include "proof/testkit/faulty_link.h"
#include "redis/subscriber.h"
#include "with_board.h"

using namespace warren;
using namespace warren::board;

namespace {

using Events = std::vector<BoardEvent>;

bool is_end(const BoardEvent& event) {
  const auto* workflow = std::get_if<WorkflowEvent>(&event);
  return workflow && workflow->name == "end";
}

// What the feed tells up to the workflow event called "end", which this sends.
awaitable<Events> events_until_now(Board& board, BoardFeed& feed) {
  WorkflowEvent end{"end", {}};
  value_of(co_await board.announce(end));
  Events events;
  do events.push_back(value_of(co_await feed.next(Clock::now() + 10s)));
  while (!is_end(events.back()));
  events.pop_back();
  co_return events;
}

template <class T>
std::vector<T> only(const Events& events) {
  std::vector<T> found;
  for (const auto& event : events)
    if (auto* each = std::get_if<T>(&event)) found.push_back(*each);
  return found;
}

// Runs the body with a feed that hears everything.
template <class Body, class... Args>
awaitable<void> with_feed(Board& board, Body body, Args&... args) {
  FeedTerms terms;
  terms.all_grants = true;
  BoardFeed feed(board.client(), board.keys(), terms);
  std::exception_ptr thrown;
  try {
    auto settled = co_await feed.settled(Clock::now() + 10s);
    REQUIRE_MESSAGE(settled, settled.error().what);
    co_await body(board, feed, args...);
  } catch (...) {
    thrown = std::current_exception();
  }
  co_await feed.close();
  if (thrown) std::rethrow_exception(thrown);
}

// The same on a server of its own.
template <class Body>
void on_server(Body body) {
  RedisServer server;
  with_board(
      settings_for(server),
      [](Board& board, RedisServer& redis, Body& inner) -> awaitable<void> {
        co_await with_feed(board, inner, redis);
      },
      server, body);
}

std::string text(const Events& events) {
  std::string all;
  for (const auto& event : events) all += std::to_string(event.index());
  return all;
}

// An artefact, a claim on it, a change of that and a bid; `before_each` of them.
awaitable<void> work_once(Board& board, std::function<void()> before_each) {
  auto goal = artefact_of("Code");
  goal.id = goal.logical_id = uuid4();
  before_each();
  auto created = value_of(co_await board.create_next_version(goal));
  CHECK(created.version == 1);
  before_each();
  auto made = value_of(co_await board.create_claim(claim_on(created)));
  auto changed = made.claim;
  changed.status = ClaimStatus::complete;
  WriteTerms terms;
  terms.announcements = {claim_granted("coder", BidType::claim, made.claim.id, "")};
  before_each();
  value_of(co_await board.update_claim(made.claim, changed, terms));
  before_each();
  value_of(co_await board.set_bid(made.claim.id, "coder", BidType::claim));
}

// How often the server was asked to run a script that it has.
int script_calls(RedisServer& redis) {
  auto commands = redis.cli({"INFO", "commandstats"});
  std::string begin = "cmdstat_evalsha:calls=";
  auto at = commands.find(begin);
  return at == commands.npos ? 0 : std::atoi(commands.c_str() + at + begin.size());
}

}  // namespace

TEST_CASE("an artefact is a hash as the Go program has it, told once, and never changes") {
  on_server([](Board& board, BoardFeed& feed, RedisServer& redis) -> awaitable<void> {
    auto goal = artefact_of("GoalDefined", "a \"page\"");
    auto created = value_of(co_await board.create_artefact(goal));
    CHECK(created.version == 1);
    CHECK(created.logical_id == created.id);
    CHECK(created.created_at > UnixTime());
    auto key = "holt:demo:artefact:" + created.id;
    auto read = value_of(co_await board.artefact(created.id));
    CHECK(read == created);
    CHECK(redis.cli({"HGET", key, "source_artefacts"}) == "[]");
    CHECK(redis.cli({"HGET", key, "structural_type"}) == "Standard");
    CHECK(redis.cli({"HLEN", key}) == "9");
    CHECK(redis.cli({"ZSCORE", "holt:demo:thread:" + created.id, created.id}) == "1");

    auto again = created;
    again.created_at = {};  // whoever repeats himself need not know it
    auto repeated = value_of(co_await board.create_artefact(again));
    CHECK(repeated == created);
    repeated = value_of(co_await board.create_artefact(created));
    CHECK(repeated == created);
    auto other = created;
    other.payload = "another page";
    auto refused = error_of(co_await board.create_artefact(other));
    CHECK(refused.code == Errc::refused);
    CHECK(refused.what.contains("payload"));
    other = created;
    other.version = 2;
    refused = error_of(co_await board.create_artefact(other));
    CHECK(refused.what.contains("version"));
    read = value_of(co_await board.artefact(created.id));
    CHECK(read == created);

    auto told = only<Artefact>(co_await events_until_now(board, feed));
    REQUIRE(told.size() == 1);
    CHECK(told[0] == created);
  });
}

TEST_CASE("whatever bytes are in a payload, a type or a role, they come back as they were") {
  on_server([](Board& board, BoardFeed& feed, RedisServer&) -> awaitable<void> {
    std::string bytes;
    for (int c = 0; c < 256; ++c) bytes += static_cast<char>(c);
    for (std::string name :
         {"lock", "a:b", "*", "{x}", "\"\\\n\0\x7f", "'; return 1 --", "ü</script>"}) {
      auto artefact = artefact_of(name, bytes);
      artefact.produced_by_role = name;
      auto created = value_of(co_await board.create_artefact(artefact));
      auto read = value_of(co_await board.artefact(created.id));
      CHECK(read == created);
      CHECK(read.payload == bytes);
      Listing listing;
      listing.type = name;
      auto page = value_of(co_await board.artefacts(listing));
      CHECK(page.items == std::vector{created});
      value_of(co_await board.set_bid(created.id, name, BidType::claim));
      WriteTerms terms;
      terms.announcements = {Grant{name, created.id, BidType::claim}};
      auto claim = value_of(co_await board.create_claim(claim_on(created), terms)).claim;
      auto events = co_await events_until_now(board, feed);
      CHECK(text(events) == "1423");
      CHECK(only<Artefact>(events)[0].type == name);
      CHECK(only<Grant>(events)[0].role == name);
    }
    auto large = artefact_of("Code");
    large.payload.assign(limits::payload, 'x');
    auto created = value_of(co_await board.create_artefact(large));
    auto read = value_of(co_await board.artefact(created.id));
    CHECK(read.payload == large.payload);
    large.payload += 'x';
    auto refused = error_of(co_await board.create_artefact(large));
    CHECK(refused.code == Errc::invalid);
    large.payload.assign(limits::payload, '\x01');
    refused = error_of(co_await board.create_artefact(large));
    CHECK(refused.code == Errc::invalid);
  });
}

TEST_CASE("fifty creators of one thread get fifty versions, and nobody's is taken twice") {
  on_server([](Board& board, BoardFeed& feed, RedisServer& redis) -> awaitable<void> {
    auto first = value_of(co_await board.create_artefact(artefact_of("Code", "0")));
    std::vector<std::int64_t> versions{first.version};
    auto rework = [](Board& b, Artefact next, std::vector<std::int64_t>& all) -> awaitable<void> {
      all.push_back(value_of(co_await b.create_next_version(std::move(next))).version);
    };
    TaskGroup creators(board.client().executor());
    for (int i = 1; i < 50; ++i) {
      auto next = artefact_of("Code", std::to_string(i));
      next.logical_id = first.logical_id;
      creators.start("creator", rework(board, next, versions));
    }
    co_await creators.join();
    std::ranges::sort(versions);
    std::vector<std::int64_t> expected;
    for (int i = 1; i <= 50; ++i) expected.push_back(i);
    CHECK(versions == expected);
    CHECK(redis.cli({"ZCARD", "holt:demo:thread:" + first.logical_id}) == "50");
    auto thread = value_of(co_await board.versions(first.logical_id));
    REQUIRE(thread.size() == 50);
    CHECK(thread[49].version == 50);
    auto latest = value_of(co_await board.latest(first.logical_id));
    CHECK(latest.id == thread[49].artefact_id);
    CHECK(latest.version == 50);
    auto told = only<Artefact>(co_await events_until_now(board, feed));
    CHECK(told.size() == 50);

    auto taken = artefact_of("Code");
    taken.logical_id = first.logical_id;
    taken.version = 50;
    auto refused = error_of(co_await board.create_artefact(taken));
    CHECK(refused.code == Errc::refused);
    CHECK(refused.what.contains(latest.id));
    // Of a goal that the Go program made no thread knows: the caller says what comes next.
    auto orphan = artefact_of("Code");
    orphan.logical_id = uuid4();
    orphan.version = 2;
    auto second = value_of(co_await board.create_next_version(orphan));
    CHECK(second.version == 2);
    auto none = error_of(co_await board.latest(uuid4()));
    CHECK(none.code == Errc::not_found);
  });
}

TEST_CASE("fifty who claim an artefact at once have one claim, told once") {
  on_server([](Board& board, BoardFeed& feed, RedisServer&) -> awaitable<void> {
    auto goal = value_of(co_await board.create_artefact(artefact_of("GoalDefined")));
    std::vector<ClaimCreation> claims;
    auto create = [](Board& b, Claim claim, std::vector<ClaimCreation>& all) -> awaitable<void> {
      all.push_back(value_of(co_await b.create_claim(std::move(claim))));
    };
    TaskGroup creators(board.client().executor());
    for (int i = 0; i < 50; ++i) creators.start("creator", create(board, claim_on(goal), claims));
    co_await creators.join();
    REQUIRE(claims.size() == 50);
    for (const auto& each : claims) CHECK(each.claim == claims[0].claim);
    CHECK(std::ranges::count_if(claims, &ClaimCreation::is_new) == 1);
    auto found = value_of(co_await board.claim_on(goal.id));
    CHECK(found == claims[0].claim);
    auto told = only<Claim>(co_await events_until_now(board, feed));
    REQUIRE(told.size() == 1);
    CHECK(told[0] == claims[0].claim);
    auto counts = value_of(co_await board.counts());
    CHECK(counts.open_claims == 1);
  });
}

TEST_CASE("a feedback claim takes the place of the claim on its artefact, once") {
  on_server([](Board& board, BoardFeed& feed, RedisServer& redis) -> awaitable<void> {
    auto goal = value_of(co_await board.create_artefact(artefact_of("Code")));
    auto first = value_of(co_await board.create_claim(claim_on(goal))).claim;
    auto feedback = claim_on(goal);
    feedback.id = uuid4();
    feedback.status = ClaimStatus::pending_assignment;
    feedback.granted_exclusive_agent = "coder";
    auto made = value_of(co_await board.create_claim(feedback));
    CHECK(made.is_new);
    auto again = value_of(co_await board.create_claim(feedback));
    CHECK(!again.is_new);
    CHECK(again.claim == feedback);
    auto on_goal = value_of(co_await board.claim_on(goal.id));
    CHECK(on_goal.id == feedback.id);
    auto told = only<Claim>(co_await events_until_now(board, feed));
    CHECK(told.size() == 2);

    // A claim that somebody deleted does not stand in the way of the next one.
    redis.cli({"DEL", "holt:demo:claim:" + feedback.id});
    auto next = value_of(co_await board.create_claim(claim_on(goal)));
    CHECK(next.is_new);
    CHECK(next.claim.id != first.id);
    on_goal = value_of(co_await board.claim_on(goal.id));
    CHECK(on_goal.id == next.claim.id);
  });
}

TEST_CASE("a claim is changed only as it was read, and what we do not know is left alone") {
  on_server([](Board& board, BoardFeed& feed, RedisServer& redis) -> awaitable<void> {
    auto goal = value_of(co_await board.create_artefact(artefact_of("Code")));
    auto read = value_of(co_await board.create_claim(claim_on(goal))).claim;
    auto key = "holt:demo:claim:" + read.id;
    redis.cli({"HSET", key, "colour", "red", "last_grant_agent", "somebody"});
    auto granted = read;
    granted.status = ClaimStatus::pending_exclusive;
    granted.granted_exclusive_agent = "coder";
    granted.phase_state = PhaseState{Phase::exclusive, {"coder"}, {}, {}, UnixTime(5ms)};
    WriteTerms terms;
    terms.announcements = {Grant{"coder", read.id, BidType::exclusive},
                           claim_granted("coder", BidType::exclusive, read.id, "")};
    auto updated = value_of(co_await board.update_claim(read, granted, terms));
    CHECK(updated.revision != "");
    CHECK(redis.cli({"HGET", key, "colour"}) == "red");
    CHECK(redis.cli({"HGET", key, "last_grant_agent"}) == "somebody");  // we did not change it
    auto stored = value_of(co_await board.claim(read.id));
    CHECK(stored.phase_state == granted.phase_state);
    CHECK(stored.revision == updated.revision);

    // From what was read before that, nothing is changed and nothing told.
    auto late = error_of(co_await board.update_claim(read, granted, terms));
    CHECK(late.code == Errc::held_elsewhere);
    CHECK(late.what.contains("pending_exclusive"));
    auto unchanged = value_of(co_await board.claim(read.id));
    CHECK(unchanged == stored);
    auto events = co_await events_until_now(board, feed);
    CHECK(only<Grant>(events).size() == 1);
    CHECK(only<WorkflowEvent>(events).size() == 1);

    // The Go program knows no revisions, but it changes the status.
    redis.cli({"HSET", key, "status", "terminated"});
    auto complete = stored;
    complete.status = ClaimStatus::complete;
    late = error_of(co_await board.update_claim(stored, complete));
    CHECK(late.code == Errc::held_elsewhere);
    CHECK(redis.cli({"HGET", key, "status"}) == "terminated");
    redis.cli({"DEL", key});
    late = error_of(co_await board.update_claim(stored, complete));
    CHECK(late.code == Errc::not_found);
    auto moved = stored;
    moved.artefact_id = uuid4();
    late = error_of(co_await board.update_claim(stored, moved));
    CHECK(late.code == Errc::invalid);
  });
}

TEST_CASE("a rejected claim ends and its feedback claim begins in one step, and only once") {
  on_server([](Board& board, BoardFeed& feed, RedisServer&) -> awaitable<void> {
    auto code = value_of(co_await board.create_artefact(artefact_of("Code")));
    auto read = value_of(co_await board.create_claim(claim_on(code))).claim;
    auto rejected = read;
    rejected.status = ClaimStatus::terminated;
    rejected.termination_reason = "reviewed";
    auto feedback = claim_on(code);
    feedback.status = ClaimStatus::pending_assignment;
    feedback.granted_exclusive_agent = "coder";
    feedback.additional_context_ids = {uuid4()};
    std::vector<Claim> made;
    auto reject = [](Board& b, Claim before, Claim after, Claim next,
                     std::vector<Claim>& all) -> awaitable<void> {
      auto created = co_await b.replace_claim(std::move(before), std::move(after), std::move(next));
      if (created) all.push_back(*std::move(created));
    };
    TaskGroup orchestrators(board.client().executor());
    for (int i = 0; i < 10; ++i)
      orchestrators.start("orchestrator", reject(board, read, rejected, feedback, made));
    co_await orchestrators.join();
    REQUIRE(made.size() == 1);
    auto now = value_of(co_await board.claim_on(code.id));
    CHECK(now == made[0]);
    CHECK(now.additional_context_ids == feedback.additional_context_ids);
    auto before = value_of(co_await board.claim(read.id));
    CHECK(before.status == ClaimStatus::terminated);
    auto told = only<Claim>(co_await events_until_now(board, feed));
    REQUIRE(told.size() == 2);
    CHECK(told[1] == made[0]);
    auto counts = value_of(co_await board.counts());
    CHECK(counts.open_claims == 1);

    auto second = made[0];
    second.granted_exclusive_agent = "another";
    auto taken = error_of(co_await board.replace_claim(before, rejected, second));
    CHECK(taken.code == Errc::refused);
    now = value_of(co_await board.claim_on(code.id));
    CHECK(now == made[0]);
    feedback.artefact_id = uuid4();
    auto refused = error_of(co_await board.replace_claim(read, rejected, feedback));
    CHECK(refused.code == Errc::invalid);
  });
}

TEST_CASE("a claim that the Go program left in a form that we would not write can be ended") {
  on_server([](Board& board, BoardFeed&, RedisServer& redis) -> awaitable<void> {
    auto id = uuid4();
    redis.cli({"HSET", "holt:demo:claim:" + id, "id", id, "artefact_id", uuid4(), "status",
               "pending_exclusive", "granted_review_agents", "null", "phase_state",
               R"({"current":"exclusive","granted_agents":[""],"received":{},"all_bids":{}})"});
    auto read = value_of(co_await board.claim(id));
    auto ended = read;
    ended.granted_review_agents = {""};
    auto refused = error_of(co_await board.update_claim(read, ended));
    CHECK(refused.code == Errc::invalid);
    ended = read;
    ended.status = ClaimStatus::terminated;
    value_of(co_await board.update_claim(read, ended));
    CHECK(redis.cli({"HGET", "holt:demo:claim:" + id, "status"}) == "terminated");
    CHECK(redis.cli({"HGET", "holt:demo:claim:" + id, "granted_review_agents"}) == "null");
  });
}

TEST_CASE("of those who change a claim at once, one does") {
  on_server([](Board& board, BoardFeed&, RedisServer&) -> awaitable<void> {
    auto goal = value_of(co_await board.create_artefact(artefact_of("Code")));
    auto read = value_of(co_await board.create_claim(claim_on(goal))).claim;
    int won = 0, lost = 0;
    auto change = [](Board& b, Claim before, int n, int& yes, int& no) -> awaitable<void> {
      auto after = before;
      after.granted_exclusive_agent = "agent-" + std::to_string(n);
      auto updated = co_await b.update_claim(std::move(before), std::move(after));
      ++(updated ? yes : no);
    };
    TaskGroup writers(board.client().executor());
    for (int i = 0; i < 20; ++i) writers.start("writer", change(board, read, i, won, lost));
    co_await writers.join();
    CHECK(won == 1);
    CHECK(lost == 19);
  });
}

TEST_CASE("a write under a token that is no longer the newest is refused, whatever it is") {
  on_server([](Board& board, BoardFeed& feed, RedisServer& redis) -> awaitable<void> {
    WriteTerms old, fresh;
    old.fence = Fence{"holt:demo:lock:fence", {0, 41}};
    fresh.fence = Fence{"holt:demo:lock:fence", {0, 42}};
    auto goal = value_of(co_await board.create_artefact(artefact_of("Code"), old));
    auto claim = value_of(co_await board.create_claim(claim_on(goal), fresh)).claim;
    CHECK(redis.cli({"GET", "holt:demo:lock:fence"}) == "0 42");
    auto changed = claim;
    changed.granted_exclusive_agent = "coder";
    auto refused = error_of(co_await board.update_claim(claim, changed, old));
    CHECK(refused.code == Errc::lease_lost);
    refused = error_of(co_await board.create_artefact(artefact_of("Code"), old));
    CHECK(refused.code == Errc::lease_lost);
    refused = error_of(co_await board.create_claim(claim_on(goal), old));
    CHECK(refused.code == Errc::lease_lost);
    auto stored = value_of(co_await board.claim(claim.id));
    CHECK(stored == claim);
    auto counts = value_of(co_await board.counts());
    CHECK(counts.artefacts == 1);
    value_of(co_await board.update_claim(claim, changed, fresh));
    auto told = co_await events_until_now(board, feed);
    CHECK(text(told) == "12");  // one artefact, one claim
  });
}

TEST_CASE("a bid is told when it is new; a bid that nobody knows is an ignore") {
  on_server([](Board& board, BoardFeed& feed, RedisServer& redis) -> awaitable<void> {
    auto claim = uuid4();
    for (auto bid : {BidType::claim, BidType::claim, BidType::exclusive})
      value_of(co_await board.set_bid(claim, "coder", bid));
    redis.cli({"HSET", "holt:demo:claim:" + claim + ":bids", "tester", "perhaps"});
    auto bids = value_of(co_await board.bids(claim));
    CHECK(bids == Bids{{"coder", BidType::exclusive}, {"tester", BidType::ignore}});
    auto told = only<WorkflowEvent>(co_await events_until_now(board, feed));
    REQUIRE(told.size() == 2);
    CHECK(told[1].name == "bid_submitted");
    CHECK(told[1].data.at("bid_type") == "exclusive");
    auto refused = error_of(co_await board.set_bid(claim, "", BidType::claim));
    CHECK(refused.code == Errc::invalid);
    refused = error_of(co_await board.set_bid("x:y", "a", BidType::claim));
    CHECK(refused.code == Errc::invalid);
  });
}

TEST_CASE("a claim waits in the queue of its role for as long as it says so itself") {
  on_server([](Board& board, BoardFeed&, RedisServer& redis) -> awaitable<void> {
    std::vector<Claim> claims;
    for (int i = 0; i < 3; ++i) {
      auto goal = value_of(co_await board.create_artefact(artefact_of("Code")));
      auto claim = value_of(co_await board.create_claim(claim_on(goal))).claim;
      auto paused = claim;
      paused.grant_queue = GrantQueueEntry{UnixTime(1761900000000ms + i * 1ms), "coder"};
      claims.push_back(value_of(co_await board.update_claim(claim, paused)));
    }
    std::vector<std::string> oldest{"ZRANGE", "holt:demo:grant_queue:coder", "0", "0",
                                    "WITHSCORES"};
    CHECK(redis.cli(oldest) == claims[0].id + "\n1761900000000");
    auto resumed = claims[0];
    resumed.grant_queue.reset();
    resumed.granted_exclusive_agent = "coder";
    value_of(co_await board.update_claim(claims[0], resumed));
    CHECK(redis.cli(oldest) == claims[1].id + "\n1761900000001");
    CHECK(redis.cli({"HGET", "holt:demo:claim:" + resumed.id, "grant_queue"}) == "");
  });
}

TEST_CASE("a call whose answer was lost is repeated, and nothing is done or told twice") {
  RedisServer server;
  FaultyLink link(server.port());
  with_board(
      settings_for(link.port()),
      [](Board& board, RedisServer& redis, FaultyLink& way) -> awaitable<void> {
        auto watch = [](redis::Client& watcher, Board& ours, RedisServer& r,
                        FaultyLink& l) -> awaitable<void> {
          auto watching = value_of(Board::open(watcher, "holt", "demo"));
          auto body = [](Board& theirs, BoardFeed& feed, Board& lossy, RedisServer& s,
                         FaultyLink& link_to_it) -> awaitable<void> {
            std::function<void()> nothing = [] {};
            co_await work_once(theirs, nothing);  // from here on the server has the scripts
            auto told = co_await events_until_now(theirs, feed);
            CHECK(text(told) == "1244");
            value_of(co_await lossy.counts());  // it is connected
            auto calls = script_calls(s);
            std::function<void()> lose_answer = [&link_to_it] {
              link_to_it.cut_after(Direction::to_client, 0);
            };
            co_await work_once(lossy, lose_answer);
            CHECK(script_calls(s) == calls + 8);
            told = co_await events_until_now(theirs, feed);
            CHECK(text(told) == "1244");
            CHECK(s.cli({"ZCARD", "holt:demo:x:claims:complete"}) == "2");
          };
          co_await with_feed(watching, body, ours, r, l);
        };
        co_await run_with_client(settings_for(redis), watch, board, redis, way);
      },
      server, link);
}

TEST_CASE("after its connection broke a feed tells a gap, and what it cannot read it names") {
  RedisServer server;
  FaultyLink link(server.port());
  with_board(
      settings_for(link.port()),
      [](Board& board, RedisServer& redis, FaultyLink& way) -> awaitable<void> {
        auto body = [](Board& b, BoardFeed& feed, RedisServer& s,
                       FaultyLink& l) -> awaitable<void> {
          s.cli({"PUBLISH", "holt:demo:artefact_events", "gibberish"});
          s.cli({"PUBLISH", "holt:demo:claim_events", "{\"id\":[]}"});
          s.cli({"PUBLISH", "holt:demo:agent:coder:events", "{}"});
          s.cli({"PUBLISH", "holt:other:artefact_events", "not ours"});
          auto goal = value_of(co_await b.create_artefact(artefact_of("Code")));
          auto events = co_await events_until_now(b, feed);
          CHECK(only<Malformed>(events).size() == 3);
          CHECK(only<Artefact>(events).size() == 1);
          l.cut();
          s.cli({"PUBLISH", "holt:demo:artefact_events", "unheard"});
          l.heal();
          auto event = co_await feed.next(Clock::now() + 20s);
          REQUIRE(event);
          CHECK(std::holds_alternative<Gap>(*event));
          auto rest = co_await events_until_now(b, feed);
          CHECK(text(rest) == "");
        };
        co_await with_feed(board, body, redis, way);
      },
      server, link);
}
