// What is on a board, listed and found: from indexes, whatever else is on the server.
#include <algorithm>
#include <set>

#include "base/uuid.h"
#include "with_board.h"

using namespace warren;
using namespace warren::board;

namespace {

// As the Go program creates it: a hash and nothing else.
std::string go_artefact(RedisServer& redis, const std::string& type, const std::string& created) {
  auto id = uuid4();
  redis.cli({"HSET",
             "holt:demo:artefact:" + id,
             "id",
             id,
             "logical_id",
             uuid4(),
             "version",
             "1",
             "structural_type",
             "Standard",
             "type",
             type,
             "payload",
             "a goal",
             "source_artefacts",
             "null",
             "produced_by_role",
             "user",
             "created_at_ms",
             created});
  return id;
}

std::string go_claim(RedisServer& redis, const std::string& artefact, const std::string& status) {
  auto id = uuid4();
  redis.cli({"HSET", "holt:demo:claim:" + id, "id", id, "artefact_id", artefact, "status", status,
             "granted_review_agents", "[]", "granted_parallel_agents", "[]",
             "granted_exclusive_agent", "", "additional_context_ids", "null"});
  redis.cli({"HSET", "holt:demo:claim:" + id + ":bids", "coder", "exclusive"});
  redis.cli({"SET", "holt:demo:claim_by_artefact:" + artefact, id});
  return id;
}

awaitable<std::vector<std::string>> all_payloads(Board& board, Listing listing) {
  std::vector<std::string> payloads;
  do {
    auto page = value_of(co_await board.artefacts(listing));
    for (auto& artefact : page.items) payloads.push_back(artefact.payload);
    listing.after = page.next;
  } while (listing.after);
  co_return payloads;
}

awaitable<Artefact> create(Board& board, std::string type, int at_ms, std::string payload) {
  auto artefact = artefact_of(std::move(type), std::move(payload));
  artefact.created_at = UnixTime(std::chrono::milliseconds(at_ms));
  co_return value_of(co_await board.create_artefact(artefact));
}

}  // namespace

TEST_CASE("claims of every status are one list, by time and page by page") {
  RedisServer server;
  with_board(settings_for(server), [](Board& board) -> awaitable<void> {
    std::vector<std::string> made;
    for (int i = 0; i < 12; ++i) {
      auto artefact = co_await create(board, "T", 1000 + i, "");
      auto claim = value_of(co_await board.create_claim(claim_on(artefact))).claim;
      made.push_back(claim.id);
      auto changed = claim;
      changed.status = claim_statuses[i % 6];
      value_of(co_await board.update_claim(claim, changed));
    }
    Listing whole;
    auto all = value_of(co_await board.all_claims(whole));
    std::vector<std::string> newest_first;
    for (auto& [claim, created_at] : all.items) {
      newest_first.push_back(claim.id);
      CHECK(created_at > UnixTime{});
    }
    CHECK(std::set(newest_first.begin(), newest_first.end()) == std::set(made.begin(), made.end()));
    CHECK(std::ranges::is_sorted(all.items, std::ranges::greater{}, &DatedClaim::created_at));
    for (auto order : {Order::newest_first, Order::oldest_first})
      for (std::size_t limit : {1u, 5u, 12u}) {
        Listing listing;
        listing.order = order;
        listing.limit = limit;
        std::vector<std::string> seen;
        do {
          auto page = value_of(co_await board.all_claims(listing));
          for (auto& item : page.items) seen.push_back(item.claim.id);
          listing.after = page.next;
        } while (listing.after);
        if (order == Order::oldest_first) std::ranges::reverse(seen);
        CHECK(seen == newest_first);
      }
  });
}

TEST_CASE("artefacts are listed by time, by type and page by page, also those of one moment") {
  RedisServer server;
  with_board(settings_for(server), [](Board& board) -> awaitable<void> {
    for (int i = 0; i < 10; ++i)
      co_await create(board, i % 2 ? "Odd" : "Even", 1000 + i / 3, std::to_string(i / 3));
    std::vector<std::string> oldest_first{"0", "0", "0", "1", "1", "1", "2", "2", "2", "3"};
    std::vector<std::string> newest_first(oldest_first.rbegin(), oldest_first.rend());
    for (std::size_t limit : {1u, 2u, 3u, 10u, 11u}) {
      Listing listing;
      listing.limit = limit;
      auto seen = co_await all_payloads(board, listing);
      CHECK(seen == newest_first);
      listing.order = Order::oldest_first;
      seen = co_await all_payloads(board, listing);
      CHECK(seen == oldest_first);
      listing.since = UnixTime(1001ms);
      listing.until = UnixTime(1002ms);
      seen = co_await all_payloads(board, listing);
      CHECK(seen == std::vector<std::string>{"1", "1", "1", "2", "2", "2"});
      listing.type = "Odd";
      seen = co_await all_payloads(board, listing);
      CHECK(seen == std::vector<std::string>{"1", "1", "2"});
      listing.type = "None";
      seen = co_await all_payloads(board, listing);
      CHECK(seen.empty());
    }
    auto types = value_of(co_await board.types());
    CHECK(types == std::vector<std::string>{"Even", "Odd"});
    Listing too_many;
    too_many.limit = 1001;
    auto refused = error_of(co_await board.artefacts(too_many));
    CHECK(refused.code == Errc::invalid);
  });
}

TEST_CASE("a cursor keeps its place when what it points at has left the index") {
  RedisServer server;
  with_board(
      settings_for(server),
      [](Board& board, RedisServer& redis) -> awaitable<void> {
        for (int i = 0; i < 5; ++i) co_await create(board, "Code", 1000, "");
        for (auto order : {Order::oldest_first, Order::newest_first}) {
          Listing listing;
          listing.order = order;
          auto all = value_of(co_await board.artefacts(listing)).items;
          REQUIRE(all.size() == 5);
          listing.limit = 3;
          listing.after = value_of(co_await board.artefacts(listing)).next;
          REQUIRE(listing.after);
          redis.cli({"ZREM", "holt:demo:x:artefacts", listing.after->id});
          auto rest = value_of(co_await board.artefacts(listing));
          CHECK(rest.items == std::vector{all[3], all[4]});
          value_of(co_await board.adopt(all[2]));
        }
      },
      server);
}

TEST_CASE("claims are listed by status, also while they leave it") {
  RedisServer server;
  with_board(
      settings_for(server),
      [](Board& board, RedisServer& redis) -> awaitable<void> {
        std::set<std::string> created;
        for (int i = 0; i < 20; ++i) {
          auto goal = value_of(co_await board.create_artefact(artefact_of("Code")));
          created.insert(value_of(co_await board.create_claim(claim_on(goal))).claim.id);
        }
        Listing listing;
        listing.limit = 3;
        listing.order = Order::oldest_first;
        std::set<std::string> seen;
        do {  // each is completed as soon as it is seen, so the cursor's claim is not there either
          auto page = value_of(co_await board.claims(ClaimStatus::pending_review, listing));
          for (auto& claim : page.items) {
            CHECK(seen.insert(claim.id).second);
            auto complete = claim;
            complete.status = ClaimStatus::complete;
            value_of(co_await board.update_claim(claim, complete));
          }
          listing.after = page.next;
        } while (listing.after);
        CHECK(seen == created);
        auto counts = value_of(co_await board.counts());
        CHECK(counts.artefacts == 20);
        CHECK(counts.open_claims == 0);
        listing = {};
        auto complete = value_of(co_await board.claims(ClaimStatus::complete, listing));
        CHECK(complete.items.size() == 20);

        // What the Go program changed without telling the index is not shown as what it was.
        redis.cli({"HSET", "holt:demo:claim:" + *seen.begin(), "status", "terminated"});
        complete = value_of(co_await board.claims(ClaimStatus::complete, listing));
        CHECK(complete.items.size() == 19);
      },
      server);
}

TEST_CASE("artefacts that nobody claimed yet are listed, those that need no claim are not") {
  RedisServer server;
  with_board(
      settings_for(server),
      [](Board& board, RedisServer& redis) -> awaitable<void> {
        auto first = co_await create(board, "Code", 1, "first");
        auto second = co_await create(board, "Code", 2, "second");
        auto review = artefact_of("Verdict");
        review.structural_type = StructuralType::review;
        value_of(co_await board.create_artefact(review));
        Listing listing;
        listing.order = Order::oldest_first;
        auto page = value_of(co_await board.unclaimed(listing));
        REQUIRE(page.items.size() == 2);
        CHECK(page.items[0] == first);
        value_of(co_await board.create_claim(claim_on(first)));
        page = value_of(co_await board.unclaimed(listing));
        REQUIRE(page.items.size() == 1);
        CHECK(page.items[0] == second);

        // One that the Go program claimed leaves the list when we try to claim it.
        auto claim = go_claim(redis, second.id, "pending_review");
        auto found = value_of(co_await board.create_claim(claim_on(second)));
        CHECK(found.claim.id == claim);
        page = value_of(co_await board.unclaimed(listing));
        CHECK(page.items.empty());
        auto unheard = go_artefact(redis, "GoalDefined", "3");
        value_of(co_await board.reindex());
        page = value_of(co_await board.unclaimed(listing));
        REQUIRE(page.items.size() == 1);
        CHECK(page.items[0].id == unheard);
      },
      server);
}

TEST_CASE("what came of an artefact is listed as it was heard of, also what the Go program wrote") {
  RedisServer server;
  with_board(
      settings_for(server),
      [](Board& board, RedisServer& redis) -> awaitable<void> {
        auto goal = value_of(co_await board.create_artefact(artefact_of("GoalDefined")));
        auto other = value_of(co_await board.create_artefact(artefact_of("GoalDefined")));
        std::vector<Artefact> children;
        for (const auto* type : {"Plan", "Code"}) {
          auto child = artefact_of(type);
          child.source_artefacts = {goal.id, other.id};
          children.push_back(value_of(co_await board.create_artefact(child)));
        }
        auto none = value_of(co_await board.children(children[1].id));
        CHECK(none.items.empty());
        CHECK(none.last_place == 0);
        auto all = value_of(co_await board.children(goal.id));
        CHECK(all.items == children);
        CHECK(all.last_place == 2);
        auto of_other = value_of(co_await board.children(other.id));
        CHECK(of_other.items == children);

        auto go = go_artefact(redis, "Tests", "1");
        redis.cli(
            {"HSET", "holt:demo:artefact:" + go, "source_artefacts", "[\"" + goal.id + "\"]"});
        auto written = value_of(co_await board.artefact(go));
        value_of(co_await board.adopt(written));
        value_of(co_await board.adopt(written));
        auto later = value_of(co_await board.children(goal.id, all.last_place));
        CHECK(later.items == std::vector{written});
        CHECK(later.last_place == 3);
        redis.cli({"DEL", "holt:demo:x:children:" + goal.id});
        value_of(co_await board.reindex());
        all = value_of(co_await board.children(goal.id));
        CHECK(all.items.size() == 3);
        redis.cli({"HSET", "holt:demo:artefact:" + go, "version", "first"});
        all = value_of(co_await board.children(goal.id));
        CHECK(all.items.size() == 2);
        CHECK(all.unreadable.size() == 1);
        CHECK(all.last_place == 3);
      },
      server);
}

TEST_CASE("an id is found by its beginning, and several are all named") {
  RedisServer server;
  with_board(settings_for(server), [](Board& board) -> awaitable<void> {
    for (int i = 0; i < 12; ++i) {
      auto artefact = artefact_of("Code");
      artefact.id = fmt::format("abcd{:04x}-0000-4000-8000-000000000000", i);
      value_of(co_await board.create_artefact(artefact));
    }
    auto id = value_of(co_await board.find_artefact("ABCD0003"));
    CHECK(id == "abcd0003-0000-4000-8000-000000000000");
    id = value_of(co_await board.find_artefact("abcd0003-00"));
    CHECK(id == "abcd0003-0000-4000-8000-000000000000");
    id = value_of(co_await board.find_artefact("{ABCD0003-0000-4000-8000-000000000000}"));
    CHECK(id == "abcd0003-0000-4000-8000-000000000000");
    auto several = error_of(co_await board.find_artefact("abcd"));
    CHECK(several.code == Errc::invalid);
    CHECK(several.what.starts_with("12 ids begin with abcd: abcd0000-"));
    CHECK(several.what.ends_with("abcd0009-0000-4000-8000-000000000000 ...and 2 more"));
    auto none = error_of(co_await board.find_artefact("abce"));
    CHECK(none.code == Errc::not_found);
    none = error_of(co_await board.find_artefact("abcd0003-0000-4000-8000-000000000001"));
    CHECK(none.code == Errc::not_found);
    none = error_of(co_await board.find_claim("abcd"));
    CHECK(none.code == Errc::not_found);
    for (std::string bad : {"", "abc", "ab*d", "abcd\n", "abcd\xff", "[abcd", "xyzxyz"}) {
      auto refused = error_of(co_await board.find_artefact(bad));
      CHECK(refused.code == Errc::invalid);
    }
  });
}

TEST_CASE("what the Go program wrote is readable at once, and listed once it is indexed") {
  RedisServer server;
  with_board(
      settings_for(server),
      [](Board& board, RedisServer& redis) -> awaitable<void> {
        auto first = go_artefact(redis, "GoalDefined", "1761900000001");
        auto second = go_artefact(redis, "lock", "garbage");
        auto claim = go_claim(redis, first, "pending_exclusive");
        go_claim(redis, second, "complete");
        auto read = value_of(co_await board.artefact(first));
        CHECK(read.payload == "a goal");
        auto on_goal = value_of(co_await board.claim_on(first));
        CHECK(on_goal.id == claim);
        auto counts = value_of(co_await board.counts());
        CHECK(counts.artefacts == 0);

        value_of(co_await board.adopt(read));
        Listing listing;
        auto page = value_of(co_await board.artefacts(listing));
        CHECK(page.items.size() == 1);

        redis.cli({"SET", "holt:demo:artefact:" + uuid4(), "not a hash"});
        redis.cli({"HSET", "holt:demo:claim:" + uuid4(), "status", "pending_consensus"});
        auto seen = value_of(co_await board.reindex());
        CHECK(seen.artefacts == 2);
        CHECK(seen.claims == 2);
        CHECK(seen.removed == 0);
        CHECK(seen.unreadable.size() == 2);
        page = value_of(co_await board.artefacts(listing));
        REQUIRE(page.items.size() == 2);
        CHECK(page.items[0].id == first);
        counts = value_of(co_await board.counts());
        CHECK(counts.artefacts == 2);
        CHECK(counts.open_claims == 1);
        auto found = value_of(co_await board.find_claim(claim.substr(0, 13)));
        CHECK(found == claim);

        // What is gone leaves the indexes, and what the Go program moved is moved.
        redis.cli({"DEL", "holt:demo:artefact:" + second});
        redis.cli({"HSET", "holt:demo:claim:" + claim, "status", "terminated"});
        seen = value_of(co_await board.reindex());
        CHECK(seen.removed == 1);
        counts = value_of(co_await board.counts());
        CHECK(counts.artefacts == 1);
        CHECK(counts.open_claims == 0);
        // A lock is looked for by this glob.
        CHECK(redis.cli({"KEYS", "holt:*:lock"}) == "");
      },
      server);
}

TEST_CASE("a value that cannot be read is reported in its page, and the others are shown") {
  RedisServer server;
  with_board(
      settings_for(server),
      [](Board& board, RedisServer& redis) -> awaitable<void> {
        std::vector<std::string> ids;
        for (int i = 0; i < 4; ++i)
          ids.push_back((co_await create(board, "Code", 1000 + i, std::to_string(i))).id);
        redis.cli({"HSET", "holt:demo:artefact:" + ids[0], "version", "first"});
        redis.cli({"DEL", "holt:demo:artefact:" + ids[1]});
        redis.cli({"DEL", "holt:demo:artefact:" + ids[2]});
        redis.cli({"SET", "holt:demo:artefact:" + ids[2], "not a hash"});
        Listing listing;
        auto page = value_of(co_await board.artefacts(listing));
        REQUIRE(page.items.size() == 1);
        CHECK(page.items[0].id == ids[3]);
        REQUIRE(page.unreadable.size() == 2);
        CHECK(page.unreadable[0].what.contains(ids[2]));
        CHECK(page.unreadable[1].what.contains("version is \"first\""));
        auto unreadable = error_of(co_await board.artefact(ids[0]));
        CHECK(unreadable.code == Errc::protocol);
        auto refused = co_await board.artefact(ids[2]);
        CHECK(!refused);
      },
      server);
}

TEST_CASE("a key of a type that it should not have stops a write before it begins") {
  RedisServer server;
  with_board(
      settings_for(server),
      [](Board& board, RedisServer& redis) -> awaitable<void> {
        for (std::string key :
             {"x:artefacts", "x:type:Code:artefacts", "x:types", "x:artefact_ids"}) {
          redis.cli({"SET", "holt:demo:" + key, "in the way"});
          auto refused = error_of(co_await board.create_artefact(artefact_of("Code")));
          CHECK(refused.code == Errc::refused);
          CHECK(redis.cli({"DBSIZE"}) == "1");
          redis.cli({"FLUSHALL"});
        }
        auto artefact = artefact_of("Code");
        artefact.id = artefact.logical_id = uuid4();
        for (std::string score : {"inf", "1e300", "9007199254740992"}) {
          redis.cli({"ZADD", "holt:demo:thread:" + artefact.id, score, "x"});
          auto refused = error_of(co_await board.create_next_version(artefact));
          CHECK(refused.code == Errc::refused);
          CHECK(redis.cli({"DBSIZE"}) == "1");
        }
        redis.cli({"SET", "holt:demo:x:claims:pending_review", "in the way"});
        auto refused = error_of(co_await board.create_claim(claim_on(artefact)));
        CHECK(refused.code == Errc::refused);
        CHECK(redis.cli({"DBSIZE"}) == "2");
      },
      server);
}

TEST_CASE("boards of other names and prefixes are other boards, and no call looks at their keys") {
  RedisServer server;
  with_board(
      settings_for(server),
      [](Board& board, RedisServer& redis) -> awaitable<void> {
        auto& client = board.client();
        auto sett = value_of(Board::open(client, "sett", "demo"));
        auto demo1 = value_of(Board::open(client, "holt", "demo-1"));
        for (int i = 0; i < 5; ++i) {
          value_of(co_await sett.create_artefact(artefact_of("Code")));
          value_of(co_await demo1.create_artefact(artefact_of("Code")));
        }
        redis.cli({"DEBUG", "POPULATE", "100000", "foreign"});
        auto goal = value_of(co_await board.create_artefact(artefact_of("Code")));
        auto claim = value_of(co_await board.create_claim(claim_on(goal))).claim;
        Listing listing;
        auto page = value_of(co_await board.artefacts(listing));
        CHECK(page.items.size() == 1);
        auto claims = value_of(co_await board.claims(ClaimStatus::pending_review, listing));
        CHECK(claims.items.size() == 1);
        value_of(co_await board.find_artefact(goal.id.substr(0, 8)));
        auto counts = value_of(co_await board.counts());
        CHECK(counts.artefacts == 1);
        auto commands = redis.cli({"INFO", "commandstats"});
        CHECK(!commands.contains("cmdstat_keys"));
        CHECK(!commands.contains("cmdstat_scan"));
        auto seen = value_of(co_await board.reindex());
        CHECK(seen.artefacts == 1);
        CHECK(seen.claims == 1);
      },
      server);
}

TEST_CASE("in a cluster all of a board is in one slot, and everything works") {
  RedisCluster cluster;
  with_board(
      settings_for(cluster),
      [](Board& board, RedisCluster& servers) -> awaitable<void> {
        CHECK(board.keys().root() == "holt:{demo}:");
        BoardFeed feed(board.client(), board.keys());
        auto settled = co_await feed.settled(Clock::now() + 10s);
        CHECK(settled);
        auto first = value_of(co_await board.create_artefact(artefact_of("Code")));
        auto event = co_await feed.next(Clock::now() + 10s);
        CHECK((event && std::holds_alternative<Artefact>(*event)));
        co_await feed.close();

        auto rework = [](Board& b, Artefact next, std::set<std::int64_t>& all) -> awaitable<void> {
          all.insert(value_of(co_await b.create_next_version(std::move(next))).version);
        };
        auto claim = [](Board& b, Artefact on, std::set<std::string>& all) -> awaitable<void> {
          all.insert(value_of(co_await b.create_claim(claim_on(on))).claim.id);
        };
        std::set<std::int64_t> versions{1};
        std::set<std::string> claims;
        TaskGroup tasks(board.client().executor());
        for (int i = 1; i < 50; ++i) {
          auto next = artefact_of("Code");
          next.logical_id = first.id;
          tasks.start("creator", rework(board, next, versions));
          tasks.start("claimer", claim(board, first, claims));
        }
        co_await tasks.join();
        CHECK(versions.size() == 50);
        CHECK(*versions.rbegin() == 50);
        CHECK(claims.size() == 1);

        auto read = value_of(co_await board.claim_on(first.id));
        auto paused = read;
        paused.grant_queue = GrantQueueEntry{UnixTime(7ms), "coder"};
        WriteTerms terms;
        terms.fence = Fence{"holt:{demo}:lock:fence", {1, 2}};
        terms.announcements = {Grant{"coder", read.id, BidType::exclusive}};
        value_of(co_await board.update_claim(read, paused, terms));
        value_of(co_await board.set_bid(read.id, "coder", BidType::claim));
        auto& keeper = servers.owner(servers.slot("demo"));
        CHECK(keeper.cli({"ZRANGE", "holt:{demo}:grant_queue:coder", "0", "-1"}) == read.id);
        auto found = value_of(co_await board.find_claim(read.id.substr(0, 6)));
        CHECK(found == read.id);

        auto& owner = servers.owner(servers.slot("demo"));
        CHECK(owner.cli({"DBSIZE"}) == "63");
        owner.cli({"DEL", "holt:{demo}:x:artefacts", "holt:{demo}:x:claims:pending_review"});
        auto seen = value_of(co_await board.reindex());
        CHECK(seen.artefacts == 50);
        auto counts = value_of(co_await board.counts());
        CHECK(counts.artefacts == 50);
        CHECK(counts.open_claims == 1);
      },
      cluster);
}
