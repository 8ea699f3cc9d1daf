#include "services/foghorn/state/left_streams.h"

#include <doctest/doctest.h>

using namespace warren::foghorn;

TEST_CASE("streams that were left are kept by node, in the order in which they were left") {
  LeftStreams left;
  CHECK(left.count("n") == 0);
  CHECK(!left.oldest("n"));
  for (auto stream : {"c", "a", "b"}) left.add("n", stream);
  left.add("m", "z");
  CHECK(left.count("n") == 3);
  CHECK(left.count("m") == 1);
  CHECK(*left.oldest("n") == "c");
  left.remove("c");
  CHECK(*left.oldest("n") == "a");
  left.add("n", "a");  // carried again, and left again
  CHECK(left.count("n") == 2);
  CHECK(*left.oldest("n") == "b");
  left.add("m", "b");  // another node was the last to carry it
  CHECK(*left.oldest("n") == "a");
  CHECK(left.count("m") == 2);
  left.remove("unknown");
  for (auto stream : {"a", "b", "z"}) left.remove(stream);
  CHECK(left.count("n") + left.count("m") == 0);
  CHECK(!left.oldest("m"));
}
