#include "services/fleet/node/asked.h"

#include <doctest/doctest.h>

namespace warren::fleet {

TEST_CASE("a list of rows is read once, however often it is named") {
  AskedLists lists;
  auto first = lists.read("h/a#0@3-17 h/b#0@3-18");
  REQUIRE(first);
  REQUIRE((*first)->size() == 2);
  CHECK((*first)->at(1).key == "h/b#0");
  for (int i = 0; i < 10; ++i) CHECK(lists.read(fmt::format("h/c#0@3-{}", i)));
  CHECK(*lists.read("h/a#0@3-17 h/b#0@3-18") == *first);
  auto newer = lists.read("h/a#0@3-17 h/b#0@3-19");
  REQUIRE(newer);
  CHECK((*newer)->at(1).epoch == FencingToken{3, 19});
}

TEST_CASE("lists that nobody names any more are forgotten, while they are in use they stay") {
  AskedLists lists;
  auto first = lists.read("h/a#0@3-17");
  for (int i = 0; i < 100; ++i) CHECK(lists.read(fmt::format("h/c#0@3-{}", i)));
  auto again = lists.read("h/a#0@3-17");
  CHECK(*again != *first);
  CHECK((*first)->at(0).key == "h/a#0");
}

TEST_CASE("what is no list of rows is refused each time") {
  AskedLists lists;
  for (int i = 0; i < 2; ++i) {
    auto read = lists.read("h/a#0");
    REQUIRE_FALSE(read);
    CHECK(read.error().code == Errc::invalid);
  }
}

}  // namespace warren::fleet
