// The allocations made by parsing and building, counted in a separate program.
#include <doctest/doctest.h>

#include <cstdlib>
#include <new>
#include <string>

#include "redis/resp/command.h"
#include "redis/resp/parser.h"

namespace {

std::size_t allocations = 0;
std::size_t allocated_bytes = 0;

void* count(std::size_t size) {
  ++allocations;
  allocated_bytes += size;
  if (void* memory = std::malloc(size)) return memory;
  std::abort();
}

}  // namespace

void* operator new(std::size_t size) { return count(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

using namespace warren::redis;

TEST_CASE("a scalar costs no allocation but that of its own string") {
  Parser parser;
  auto cost = [&](std::string_view bytes) {
    Reply reply;
    std::size_t before = allocations;
    bool complete = parser.parse(bytes, reply).status == Parser::Status::complete;
    std::size_t after = allocations;
    REQUIRE(complete);
    return after - before;
  };
  CHECK(cost("+OK\r\n") == 0);
  CHECK(cost(":123456\r\n") == 0);
  CHECK(cost("$-1\r\n") == 0);
  CHECK(cost("$15\r\n0123456789abcde\r\n") == 0);  // fits into the string object
  CHECK(cost("$16\r\n0123456789abcdef\r\n") == 1);
  CHECK(cost("-ERR a longer error\r\n") == 1);
  CHECK(cost("#t\r\n") == 0);
  CHECK(cost(",1.5\r\n") == 0);
}

TEST_CASE("an array costs one allocation and those of its strings") {
  Parser parser;
  Reply reply;
  REQUIRE(parser.parse("*1\r\n:1\r\n", reply).status == Parser::Status::complete);  // warm up
  std::size_t before = allocations;
  bool complete = parser.parse("*3\r\n:1\r\n+OK\r\n$16\r\n0123456789abcdef\r\n", reply).status ==
                  Parser::Status::complete;
  std::size_t after = allocations;
  CHECK(complete);
  CHECK(after - before == 2);
}

TEST_CASE("lengths that are only claimed take no memory") {
  auto cost = [](std::string_view bytes) {
    Parser parser;
    std::size_t before = allocated_bytes;
    parser.parse(bytes);
    return allocated_bytes - before;
  };
  CHECK(cost("$536870912\r\nabc") == 0);
  CHECK(cost("*16777216\r\n") < 64 << 10);
  CHECK(cost("%8388608\r\n") < 64 << 10);
  std::string nested;
  for (int i = 0; i < 64; ++i) nested += "*16777216\r\n";
  CHECK(cost(nested) < 2 << 20);
}

TEST_CASE("a command costs one allocation, of the size that it needs") {
  std::string key(16, 'k'), value(1000, 'v');
  std::size_t before = allocations, bytes_before = allocated_bytes;
  Command command("SET", key, value, "PX", 5000);
  std::size_t after = allocations, bytes_after = allocated_bytes;
  CHECK(after - before == 1);
  CHECK(bytes_after - bytes_before == command.bytes().size() + 1);
}
