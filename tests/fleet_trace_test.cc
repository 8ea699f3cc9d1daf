// What is seen from outside of how a repository came into memory: traces and metrics of real processes.
#include "proof/testkit/collector.h"
#include "tests/with_fleet_processes.h"

namespace warren::fleet {

namespace {

using Spans = std::map<std::string, CollectedSpan>;  // by name; of several the first

// Of the trace that has a span of this name.
Spans trace_with(const Collector& collector, const std::string& name) {
  const auto& all = collector.spans();
  auto found = std::ranges::find(all, name, &CollectedSpan::name);
  Spans spans;
  for (const auto& span : all)
    if (found != all.end() && span.trace_id == found->trace_id) spans.emplace(span.name, span);
  return spans;
}

auto is_served = [](FleetProcesses& fleet) -> awaitable<Result<>> {
  HttpClient client(co_await asio::this_coro::executor, *parse_http_url(fleet.url()));
  auto answer = co_await ask_for_all(client, fleet.expected());
  co_return answer;
};

awaitable<std::string> metrics_of(std::string url) {
  HttpClient client(co_await asio::this_coro::executor, *parse_http_url(url));
  HttpAsk ask{"GET", "/metrics"};
  ask.headers = "Authorization: Bearer mangrove\r\n";
  auto reply = co_await client.ask(std::move(ask), Clock::now() + 60s);
  REQUIRE(reply);
  CHECK(reply->status == 200);
  co_return reply->body;
}

template <class Body>
void with_collector(Body) {
  auto all = []() -> awaitable<void> {
    FleetProcesses fleet;
    Collector collector(co_await asio::this_coro::executor);
    fleet.environment = {"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.endpoint(),
                         "OTEL_BSP_SCHEDULE_DELAY=50"};
    std::exception_ptr thrown;
    try {
      Body body;
      co_await body(fleet, collector);
    } catch (...) {
      thrown = std::current_exception();
    }
    co_await collector.stop();
    if (thrown) std::rethrow_exception(thrown);
  };
  testkit::run(all(), 300s);
}

}  // namespace

TEST_CASE("a collector sees one trace from the claim over clone and index to the first answer") {
  with_collector([](FleetProcesses& fleet, Collector& collector) -> awaitable<void> {
    fleet.add_small(1);
    fleet.start_router();
    fleet.start_node("n1");
    co_await eventually(120s, "it is served", is_served, fleet);
    auto is_there = [](Collector& by) {
      auto spans = trace_with(by, "fleet.claim");
      return spans.contains("fleet.first_answer") && spans.contains("fleet.index");
    };
    co_await eventually(60s, "the trace is there", is_there, collector);
    auto spans = trace_with(collector, "fleet.claim");
    const auto& claim = spans.at("fleet.claim");
    CHECK(claim.parent_id.empty());
    CHECK(claim.service == "warren-fleet-node");
    CHECK(claim.texts.at("node") == "n1");
    CHECK(claim.texts.at("key") == "r0#0");
    for (const char* name :
         {"fleet.fetch", "fleet.read", "fleet.ready", "fleet.index", "fleet.first_answer"}) {
      CAPTURE(name);
      REQUIRE(spans.contains(name));
      CHECK(spans.at(name).parent_id == claim.span_id);
      CHECK(spans.at(name).texts.at("repo") == "r0");
      CHECK(spans.at(name).error.empty());
    }
    CHECK(spans.at("fleet.fetch").start_ns >= claim.start_ns);
    CHECK(spans.at("fleet.read").start_ns >= spans.at("fleet.fetch").end_ns);
    CHECK(spans.at("fleet.ready").start_ns >= spans.at("fleet.read").end_ns);
    CHECK(spans.at("fleet.first_answer").start_ns >= spans.at("fleet.read").end_ns);
    auto answers =
        std::ranges::count(collector.spans(), "fleet.first_answer", &CollectedSpan::name);
    CHECK(answers == 1);
    CHECK(collector.problems().empty());
  });
}

TEST_CASE("what cannot be brought is a trace that has failed, with the reason") {
  with_collector([](FleetProcesses& fleet, Collector& collector) -> awaitable<void> {
    fleet.add_small(1);
    auto added = fleet.run({"fleet", "repo", "add", fleet.server().url("status/503"), "--as", "x"});
    REQUIRE_MESSAGE(added.first == 0, added.second);
    fleet.start_node("n1");
    auto has_failed = [](Collector& by) {
      return std::ranges::any_of(by.spans(), [](const CollectedSpan& span) {
        return span.name == "fleet.claim" && span.error.contains("503");
      });
    };
    co_await eventually(120s, "the trace is there", has_failed, collector);
    for (const auto& span : collector.spans())
      CHECK((span.error.empty() || span.error.contains("503")));
  });
}

TEST_CASE(
    "index_time_ms, memory_bytes, last_served_at and claim_latency are metrics of each node and "
    "repository") {
  with_collector([](FleetProcesses& fleet, Collector&) -> awaitable<void> {
    fleet.add_small(2);
    fleet.start_router();
    fleet.start_node("n1");
    co_await eventually(120s, "it is served", is_served, fleet);
    auto text = fleet.log("n1");
    auto at = text.find("endpoint=http") + 9;
    auto endpoint = text.substr(at, text.find_first_of(" \n", at) - at);
    auto of_node = co_await metrics_of(endpoint);
    CAPTURE(of_node);
    for (const char* name : {"index_time_ms", "memory_bytes", "last_served_at", "claim_latency_ms"})
      for (const char* repo : {"r0", "r1"})
        CHECK(of_node.contains(fmt::format(
            "\nwarren_fleet_repo_{}{{repo=\"{}\",slot=\"0\",node=\"n1\"}} ", name, repo)));
    for (const char* name : {"warren_fleet_index_time_ms_count", "warren_fleet_memory_bytes",
                             "warren_fleet_last_served_at", "warren_fleet_claim_latency_ms_count"})
      CHECK(of_node.contains(fmt::format("\n{} ", name)));
    CHECK(of_node.contains("\nwarren_fleet_claim_latency_ms_count 2\n"));
    CHECK(!of_node.contains("\nwarren_fleet_last_served_at 0\n"));
    auto of_router = co_await metrics_of(fleet.url());
    for (const char* name : {"index_time_ms", "memory_bytes", "claim_latency_ms"})
      CHECK(of_router.contains(
          fmt::format("\nwarren_fleet_repo_{}{{repo=\"r1\",slot=\"0\",node=\"n1\"}} ", name)));
  });
}

}  // namespace warren::fleet
