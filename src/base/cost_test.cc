// A feature that is switched off costs almost nothing. Above all, it does not allocate.
#include <doctest/doctest.h>

#include <cstdlib>
#include <new>

#include "base/log.h"
#include "base/trace/trace.h"

namespace {
thread_local std::size_t allocations = 0;
}

// Not inlined: g++ 12 would see only one half of a new/delete pair, and warn.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  std::abort();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

using namespace warren;

TEST_CASE("the counter of allocations counts") {
  auto before = allocations;
  std::string text(100, 'x');
  CHECK(text.size() == 100);
  CHECK(allocations == before + 1);
}

TEST_CASE("an event below its level allocates nothing") {
  std::string text(100, 'x');
  CHECK_FALSE(log::enabled(log::Level::debug, "first.call"));  // creates the output
  auto before = allocations;
  for (int i = 0; i < 1000; ++i) log::debug("redis.command_sent", "text", text, "number", i);
  CHECK(allocations == before);
}

TEST_CASE("a span allocates nothing while traces are off") {
  asio::io_context io(1);
  auto tracer = Tracer::from_environment(io.get_executor(), {});
  REQUIRE(tracer);
  std::string text(100, 'x');
  auto before = allocations;
  for (int i = 0; i < 1000; ++i) {
    auto span = (*tracer)->start("redis.command", SpanKind::client);
    span.set("text", text);
    span.set("number", i);
    span.fail(text);
    auto child = (*tracer)->start("redis.child", SpanKind::internal, span.context());
  }
  CHECK(allocations == before);
}
