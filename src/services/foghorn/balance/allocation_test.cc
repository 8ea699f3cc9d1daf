// A decision allocates nothing, counted by a program of its own.
#include <doctest/doctest.h>

#include <cstdlib>
#include <new>

#include "services/foghorn/balance/test_tables.h"

namespace {
thread_local std::size_t allocations = 0;
}

// Not inlined: g++ 12 would see only one half of a pair, and warn.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  std::abort();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

using namespace warren::balance;

namespace {

std::shared_ptr<const RoutingTable> some_table() {
  TableBuilder builder;
  for (int i = 0; i < 200; ++i) {
    auto node = an_edge("node-with-a-long-name-" + std::to_string(i));
    node.latitude = i % 80 + 0.5;
    node.longitude = i % 170;
    node.tags = {"a-tag-with-a-long-name-" + std::to_string(i % 90)};
    node.roles = {"a-role-with-a-long-name"};
    node.tenant = i % 3 ? "" : "a-tenant-with-a-long-name";
    node.host = binary_host("10.0.0." + std::to_string(i));
    builder.put_node(node);
    builder.put_holding("a-hot-stream-with-a-long-name", node.id, serving());
  }
  return builder.publish();
}

std::size_t cost(const RoutingTable& table, const Query& query, bool is_found) {
  auto before = allocations;
  auto decision = choose(table, query);
  auto after = allocations;
  CHECK(decision.empty() != is_found);
  return after - before;
}

}  // namespace

TEST_CASE("the counter of allocations counts") {
  auto before = allocations;
  std::string text(100, 'x');
  CHECK(text.size() == 100);
  CHECK(allocations == before + 1);
}

TEST_CASE("a decision allocates nothing, found or not, whatever is asked for") {
  auto table = some_table();
  std::vector<TagAdjustment> adjustments{{"a-tag-with-a-long-name-3, a-tag-with-a-long-name-4", 9},
                                         {"-a-tag-with-a-long-name-89", -9}};
  for (auto policy : {Policy::compat, Policy::fair}) {
    Query query;
    query.policy = policy;
    query.latitude = 52;
    query.longitude = 4;
    CHECK(cost(*table, query, true) == 0);
    query.client = binary_host("10.0.0.9");
    query.adjustments = adjustments;
    query.capabilities = "edge, a-role-with-a-long-name";
    query.tenant = "a-tenant-with-a-long-name";
    query.most = most_choices;
    CHECK(cost(*table, query, true) == 0);
    query.stream = "a-hot-stream-with-a-long-name";
    CHECK(cost(*table, query, true) == 0);
    query.for_source = true;
    CHECK(cost(*table, query, true) == 0);
    query.stream = "a-stream-that-nobody-has-with-a-long-name";
    CHECK(cost(*table, query, false) == 0);
    query.capabilities = "a-role-that-nobody-has";
    CHECK(cost(*table, query, false) == 0);
  }
}
