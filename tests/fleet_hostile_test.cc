// What strangers send to a router: it answers or refuses, and others do not notice.
#include "tests/with_router.h"

namespace warren::fleet {

namespace {

namespace json = boost::json;

auto is_served = [](Router& router, std::size_t& files) -> awaitable<Result<>> {
  auto found = co_await finds(router, "apple_", files);
  co_return found;
};

std::string ask_of(std::string_view query, std::string_view more = "") {
  return fmt::format("{{\"q\":{}{}}}", json::serialize(json::string(query)), more);
}

// An answer, or a refusal that says why.
void check_is_typed(const HttpReply& reply) {
  CHECK((reply.status == 200 || (reply.status >= 400 && reply.status < 500)));
  if (reply.status == 200 || reply.status == 413) return;
  auto body = json_of(reply.body).as_object();
  CHECK_FALSE(text_at(body, body.contains("Error") ? "Error" : "error").empty());
}

}  // namespace

TEST_CASE("queries of strangers are answered or refused, and nodes are not blamed for them") {
  Orchard orchard(2);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 2);
    auto& router = fleet.start_router();
    fleet.start_node(fleet.node_settings("n1", 60s));
    std::size_t files = 6;
    co_await eventually(60s, "both are served", is_served, router, files);
    auto repeated = [](std::string_view text, int times) {
      std::string all;
      for (int i = 0; i < times; ++i) all += text;
      return all;
    };
    struct Case {
      std::string query;
      int status;  // 0: an answer or a refusal
    };
    std::vector<Case> cases{
        {std::string(1u << 20, 'a'), 400},
        {std::string(1'000'000, '('), 400},
        {std::string(4'096, 'a'), 200},
        {std::string(4'097, 'a'), 400},
        {"(a{1000}){1000}", 400},
        {"((((a{100}){100}){100}){100}){100}", 400},
        {"(x+x+)+y", 0},
        {"(a|aa)+$", 0},
        {"(.*)*(.*)*(.*)*z", 0},
        {repeated("(a?)", 500) + repeated("a", 500), 0},
        {"\\pL{1000}", 400},
        {"(?i)\\pL{100}", 0},
        {repeated("(?i)\\pL{50} ", 100), 400},
        {repeated("\\pL{90} ", 400), 400},
        {repeated("[[:alpha:]]{1,1000} ", 100), 0},
        {repeated("(a|b|", 500) + "c" + repeated(")", 500), 0},
        {repeated("-(x ", 200), 400},
        {repeated("-", 4'000) + "x", 400},
        {repeated("a or ", 800) + "b", 0},
        {".*", 400},
        {".", 0},
        {"", 400},
        {"   ", 400},
        {"-foo", 400},
        {"\"", 400},
        {"\\", 400},
        {"[", 400},
        {"(?P<n>", 400},
        {"\\C", 0},
        {"foo\n\r\t bar", 0},
        {std::string("nul\0nul", 7), 0},
        {"case:", 400},
        {"count:-1 x", 400},
        {"count:999999999999999999999 x", 400},
        {"\xf0\x9f\x92\xa9 \xe2\x80\xae", 0},
    };
    for (const auto& [query, status] : cases) {
      CAPTURE(query.substr(0, 60));
      auto reply = co_await post(router, "/v1/search", ask_of(query));
      check_is_typed(reply);
      if (status != 0) CHECK(reply.status == status);
      check_is_typed(
          co_await post(router, "/v1/search", ask_of(query), "Accept: application/x-ndjson\r\n"));
      check_is_typed(
          co_await post(router, "/api/search",
                        fmt::format("{{\"Q\":{}}}", json::serialize(json::string(query)))));
      auto others = co_await finds(router, "apple_", files);
      CHECK_MESSAGE(others, (others ? "" : others.error().what));
    }
    // Bytes that are no UTF-8 are no JSON; in a URL they are looked for as they are.
    auto bad = co_await post(router, "/v1/search", "{\"q\":\"\xff\xfe\"}");
    CHECK(bad.status == 400);
    auto bytes = co_await get(router, "/v1/search?q=caf%e9%ff");
    CHECK(bytes.status == 200);
    CHECK(json_of(bytes.body).at("complete") == true);
    auto others = co_await finds(router, "apple_", files);
    CHECK(others);
  });
}

TEST_CASE("bodies that are no requests are refused, however they are wrong") {
  Orchard orchard(1);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 1);
    auto& router = fleet.start_router();
    fleet.start_node(fleet.node_settings("n1", 60s));
    std::size_t files = 3;
    co_await eventually(60s, "it is served", is_served, router, files);
    std::string deep(500'000, '['), deep_objects;
    for (int i = 0; i < 10'000; ++i) deep_objects += "{\"q\":";
    for (const auto& body : std::vector<std::string>{"",
                                                     "null",
                                                     "7",
                                                     "[]",
                                                     "\"q\"",
                                                     "{",
                                                     "{\"q\":",
                                                     deep,
                                                     deep_objects,
                                                     ask_of("x") + "x",
                                                     ask_of("x", ",\"limit\":-1"),
                                                     ask_of("x", ",\"limit\":1e300"),
                                                     ask_of("x", ",\"limit\":\"7\""),
                                                     ask_of("x", ",\"limit\":[]"),
                                                     ask_of("x", ",\"context\":99999999999"),
                                                     ask_of("x", ",\"explain\":1"),
                                                     ask_of("x", ",\"timeout_ms\":{}"),
                                                     ask_of("x", ",\"cursor\":7"),
                                                     ask_of("x", ",\"cursor\":\"zz\""),
                                                     ask_of("x", ",\"cursor\":\"00ff\""),
                                                     ask_of("x", ",\"repos\":[[[]]]"),
                                                     ask_of("x", ",\"repos\":{}"),
                                                     ask_of("x", ",\"repo_ids\":[1e99]"),
                                                     ask_of("x", ",\"rows\":7"),
                                                     "{\"q\":{\"a\":[1,2,3]}}",
                                                     std::string("{\"q\":\"x\0\"}", 10)}) {
      CAPTURE(body.substr(0, 60));
      auto reply = co_await post(router, "/v1/search", body);
      CHECK(reply.status == 400);
      check_is_typed(reply);
    }
    auto long_one = co_await post(router, "/v1/search", std::string(1'500'000, ' '));
    CHECK(long_one.status == 400);
    auto longer = co_await post(router, "/v1/search", std::string(5'000'000, ' '));
    CHECK(longer.status == 413);
    // Rows are for nodes: nobody reaches one of them past the table.
    auto rows =
        co_await post(router, "/v1/search", ask_of("apple_", R"(,"rows":"r0#0@9-9","repos":[])"));
    CHECK(rows.status == 200);
    CHECK(json_of(rows.body).at("files").as_array().empty());
    for (const char* target : {"/v1/nothing", "/", "/v1/../metrics", "/v1/search/", "/api", "//",
                               "/v1/file/etc/passwd"}) {
      auto reply = co_await get(router, target);
      CHECK_MESSAGE(reply.status == 404, target);
    }
    HttpAsk put{"PUT", "/v1/search", "", ask_of("x")};
    auto wrong_method = co_await call(router, std::move(put));
    CHECK(wrong_method.status == 405);
    auto others = co_await finds(router, "apple_", files);
    CHECK(others);
  });
}

TEST_CASE("while queries of one client take long, those of others are answered") {
  Orchard orchard(1);
  std::string text;
  for (int i = 0; i < 2'000; ++i) text += fmt::format("{:x} abababababababababababababab\n", i * i);
  for (int i = 0; i < 200; ++i)
    orchard.repositories[0].write(fmt::format("thicket/{}.txt", i), text);
  orchard.repositories[0].commit();
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 1);
    auto& router = fleet.start_router();
    auto& node = fleet.start_node(fleet.node_settings("n1", 60s));
    std::size_t files = 3;
    co_await eventually(60s, "it is served", is_served, router, files);
    struct Seen {
      int ended = 0, answered = 0;
    } seen;
    auto body = [](TaskGroup& tasks, Router& where, FleetNode& owner, Seen& by) -> awaitable<bool> {
      auto slow = [](Router& of, Seen& tell) -> awaitable<void> {
        auto reply =
            co_await post(of, "/v1/search",
                          R"({"q":"(?:[ab][^c]{300}|plum)\\s","timeout_ms":60000,"matches":0})");
        check_is_typed(reply);
        ++tell.ended;
      };
      for (int i = 0; i < 6; ++i) tasks.start("test.slow", slow(where, by));
      auto all_run = [](FleetNode& who) { return who.info().running == 6; };
      co_await eventually(30s, "all of them run", all_run, owner);
      for (int i = 0; i < 5; ++i) {
        std::size_t count = 3;
        auto found = co_await finds(where, "apple_", count);
        CHECK_MESSAGE(found, (found ? "" : found.error().what));
        by.answered += found && by.ended < 6 ? 1 : 0;
      }
      co_return true;
    };
    co_await with_group(body, router, *node.part, seen);
    CHECK(seen.answered == 5);
    auto is_idle = [](FleetNode& who) { return who.info().running == 0; };
    co_await eventually(30s, "who left costs nothing", is_idle, *node.part);
  });
}

}  // namespace warren::fleet
