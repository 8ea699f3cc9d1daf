#include "primitives/catalog/etcd/keys.h"

#include <doctest/doctest.h>

#include <limits>

namespace warren::etcd {

TEST_CASE("offers sort by rank, the highest first, then by key") {
  Keys keys{"fleet/"};
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  std::vector<std::string> best_first{keys.offer(most, "z"), keys.offer(1, "a"),
                                      keys.offer(1, "b"),    keys.offer(0, "a"),
                                      keys.offer(-1, "a"),   keys.offer(least, "a")};
  CHECK(std::ranges::is_sorted(best_first));
  CHECK(key_of_offer(best_first[0].substr(keys.offers().size())) == "z");
  CHECK(key_of_offer(keys.offer(7, "a/b/c").substr(keys.offers().size())) == "a/b/c");
}

TEST_CASE("all keys of a catalog lie under its root, and none under another kind's prefix") {
  Keys keys{"fleet/"};
  std::vector<std::string> all{keys.row("k"),        keys.node("n/1"),   keys.life("n/1"),
                               keys.own("n/1", "k"), keys.offer(0, "k"), keys.wait("p"),
                               keys.waiting("p"),    keys.length("5"),   keys.last()};
  std::vector<std::string> prefixes{keys.rows(),          keys.nodes(),  keys.lives(),
                                    keys.owned_by("n/1"), keys.offers(), keys.waits(),
                                    keys.waitings(),      keys.lengths()};
  for (auto& key : all) CHECK(key.starts_with("fleet/"));
  for (auto& prefix : prefixes)
    CHECK(std::ranges::count_if(all, [&](auto& key) { return key.starts_with(prefix); }) == 1);
  CHECK(after_prefix("fleet/row/") == "fleet/row0");
}

TEST_CASE("waits of one length sort by when they began, and give back the row's key") {
  CHECK(place_of(5, 9, "b") < place_of(5, 10, "a"));
  CHECK(place_of(5, 16, "b") < place_of(5, 255, "a"));
  CHECK(length_of_place(place_of(5, 9, "a/b")) == length_of_place(place_of(5, 10, "c")));
  CHECK(key_of_place(place_of(5, 9, "a/b")) == "a/b");
}

TEST_CASE("a wait is rounded up to seconds, and a long one to two digits") {
  CHECK(wait_seconds(1ms) == 1);
  CHECK(wait_seconds(1s) == 1);
  CHECK(wait_seconds(1001ms) == 2);
  CHECK(wait_seconds(99s) == 99);
  CHECK(wait_seconds(101s) == 110);
  CHECK(wait_seconds(990s) == 990);
  CHECK(wait_seconds(991s) == 1000);
  CHECK(wait_seconds(1h) == 3600);
  CHECK(wait_seconds(std::chrono::milliseconds::max()) >= 365 * 86400);
}

TEST_CASE("a session names its lease") {
  auto session = session_of("n1", 0xc0ffee);
  CHECK(session == "n1/0000000000c0ffee");
  CHECK(node_name(session) == "n1");
  CHECK(lease_of(session) == 0xc0ffee);
  for (std::string other : {"", "n1", "n1/", "n1/12", "n1/000000000000000g", "n1/0000000000000000",
                            "n1/ffffffffffffffff"})
    CHECK_FALSE(lease_of(other));
}

TEST_CASE("a position is read back, and nothing else is one") {
  Position position{0xffffffffffffffff, 42};
  CHECK(parse_position(to_string(position)) == position);
  for (std::string other : {"", "42", "-", "1-", "1--1", "x-1", "1-1 "})
    CHECK_FALSE(parse_position(other));
}

}  // namespace warren::etcd
