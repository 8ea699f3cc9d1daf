#include "primitives/mirror/entry.h"

#include <doctest/doctest.h>

using namespace warren;
using namespace warren::mirror;

TEST_CASE("versions are ordered by epoch, then by sequence, and written as Redis does") {
  CHECK(Version{5, 12} > Version{5, 2});
  CHECK(Version{6, 0} > Version{5, 12});
  CHECK(to_string(Version{5, 12}) == "5-12");
  CHECK(parse_version("18446744073709551615-0") == Version{18446744073709551615u, 0});
  for (auto text : {"", "5", "5-", "-5", "5-x", "5-1 ", "x-1", "5-1-1"})
    CHECK(!parse_version(text));
}

TEST_CASE("a tail is a version, its stamp, and the stamp with which history began") {
  auto tail = parse_tail("5-12 w:7 x:1");
  REQUIRE(tail);
  CHECK(tail->at == Position{{5, 12}, "w:7"});
  CHECK(tail->born == "x:1");
  for (auto text : {"5-12 w:7", "5-12 w:7 "}) {
    tail = parse_tail(text);
    REQUIRE(tail);
    CHECK(tail->at.stamp == "w:7");
    CHECK(tail->born.empty());
  }
  for (auto text : {"", "5-12", "5-12 ", " w:7", "x w:7"}) CHECK(!parse_tail(text));
}

TEST_CASE("what is packed is unpacked byte for byte, and a value is where the packer says") {
  std::string odd("a b\0\r\n=", 7);
  Packer packer;
  auto first = packer.add({"nodes:1", odd});
  auto second = packer.add({"nodes:2", {}});
  auto third = packer.add({"nodes:" + odd, ""});
  REQUIRE(first);
  CHECK(!second);
  REQUIRE(third);
  auto packed = packer.take();
  CHECK(packed.substr(first->first - 1, first->last - first->first + 1) == odd);
  CHECK(third->first == third->last + 1);
  auto changes = unpack(packed);
  REQUIRE(changes);
  REQUIRE(changes->size() == 3);
  CHECK(changes->at(0).key == "nodes:1");
  CHECK(changes->at(0).value == odd);
  CHECK(changes->at(1).key == "nodes:2");
  CHECK(!changes->at(1).value);
  CHECK(changes->at(2).key == "nodes:" + odd);
  CHECK(changes->at(2).value == "");
}

TEST_CASE("what no packer wrote is not unpacked") {
  Packer packer;
  packer.add({"key", "value"});
  auto packed = packer.take();
  for (std::size_t size = 1; size < packed.size(); ++size)
    CHECK(!unpack(std::string_view(packed).substr(0, size)));
  for (auto text : {"?1 1 kv", "=x 1 kv", "=1 18446744073709551615 kv", "=2 1 kv"})
    CHECK(!unpack(text));
}

TEST_CASE("a push says what it is, where it stands and what it follows") {
  auto entry = parse_push("5-13 a:1 b:7 =1 1 kv");
  REQUIRE(entry);
  CHECK(entry->at == Position{{5, 13}, "b:7"});
  CHECK(entry->before == "a:1");
  CHECK(entry->packed == "=1 1 kv");
  for (auto text : {"", "5-13", "5-13 a:1", "5-13 a:1 b:7", "x a:1 b:7 =1 1 kv"})
    CHECK(!parse_push(text));
}
