// What a router says to its clients: lines as they are found, single files, and what is left out.
#include "net/http/test_client.h"
#include "services/fleet/wire/files.h"
#include "tests/with_router.h"

namespace warren::fleet {

namespace {

namespace json = boost::json;
const std::string as_lines = "Accept: application/x-ndjson\r\n";

auto serves = [](Router& router, std::size_t& files) -> awaitable<Result<>> {
  auto found = co_await finds(router, "apple_", files);
  co_return found;
};

// Files of the page, in the order of the page.
std::vector<json::object> page_of(const std::vector<json::object>& lines) {
  std::vector<json::object> files;
  for (const auto& place : lines.back().at("page").as_array())
    files.push_back(lines.at(place.to_number<std::size_t>()));
  for (auto& file : files) file.erase("type");
  return files;
}

// Many lines without a match, in many files, under a pattern that takes long for each of them.
void grow_thicket(const search::Repository& repository, int files) {
  std::string text;
  for (int i = 0; i < 2'000; ++i) text += fmt::format("{:x} abababababababababababababab\n", i * i);
  for (int i = 0; i < files; ++i)
    repository.write(fmt::format("thicket/{}.txt", i), text + fmt::format("plum {}\n", i));
  repository.commit();
}
// The automaton of this has more states than RE2 keeps.
const std::string slow = R"((?:[ab][^c]{300}|plum)\\s)";

}  // namespace

TEST_CASE("lines of an answer are the same files in the same order as the answer in one piece") {
  Orchard orchard(6);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 6);
    auto& router = fleet.start_router();
    fleet.start_node(fleet.node_settings("n1"));
    fleet.start_node(fleet.node_settings("n2"));
    std::size_t files = 18;
    co_await eventually(60s, "every repository is served", serves, router, files);
    for (const char* body :
         {R"({"q":"apple_"})", R"({"q":"apple_","limit":5})", R"({"q":"tree","collapse":true})",
          R"({"q":"nothing_like_it"})", R"({"q":"apple_","limit":4,"context":1,"explain":true})",
          R"({"q":"select:repo apple_"})", R"({"q":"apple_2","repos":["r2","r3"]})"}) {
      CAPTURE(body);
      auto whole = co_await post(router, "/v1/search", body);
      REQUIRE(whole.status == 200);
      auto answer = json_of(whole.body).as_object();
      auto reply = co_await post(router, "/v1/search", body, as_lines);
      REQUIRE(reply.status == 200);
      CHECK(reply.header("content-type") == "application/x-ndjson");
      auto lines = lines_of(reply);
      auto page = page_of(lines);
      const auto& expected = answer.at("files").as_array();
      REQUIRE(page.size() == expected.size());
      for (std::size_t i = 0; i < page.size(); ++i) CHECK(page[i] == expected[i]);
      const auto& summary = lines.back();
      CHECK(text_at(summary, "type") == "summary");
      for (const char* name : {"matches", "file_count", "complete", "why", "incomplete", "next"})
        CHECK(summary.at(name) == answer.at(name));
    }
    // A page and the next, by lines.
    auto first =
        lines_of(co_await post(router, "/v1/search", R"({"q":"apple_","limit":10})", as_lines));
    auto next = text_at(first.back(), "next");
    REQUIRE_FALSE(next.empty());
    auto second =
        lines_of(co_await get(router, "/v1/search?q=apple_&limit=10&cursor=" + next, as_lines));
    CHECK(page_of(first).size() + page_of(second).size() == 18);
    CHECK(text_at(second.back(), "next").empty());

    auto refused = co_await post(router, "/v1/search", R"({"q":"foo("})", as_lines);
    CHECK(refused.status == 400);
    CHECK(refused.header("content-type") == "application/json");
    CHECK(text_at(json_of(refused.body).as_object(), "code") == "invalid");
  });
}

TEST_CASE("an answer notes what a query hardly means as it was written") {
  Orchard orchard(1);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 1);
    auto& router = fleet.start_router();
    fleet.start_node(fleet.node_settings("n1"));
    std::size_t files = 3;
    co_await eventually(60s, "it is served", serves, router, files);
    auto notes = [](const json::object& answer) { return json::serialize(answer.at("notes")); };
    auto reply = co_await post(router, "/v1/search", R"({"q":"apple_"})");
    CHECK(notes(json_of(reply.body).as_object()) == "[]");
    reply = co_await post(router, "/v1/search", R"({"q":"apple_ lang:pyhton"})");
    REQUIRE(reply.status == 200);
    auto said = notes(json_of(reply.body).as_object());
    CHECK_MESSAGE(said.contains(R"(no file is of a language \"pyhton\")"), said);
    reply = co_await post(router, "/v1/search", R"({"q":"apple_ lang:pyhton"})", as_lines);
    CHECK(notes(lines_of(reply).back()) == said);
    reply = co_await get(router, "/v1/search?q=apple_%20lang:pyhton");
    CHECK(notes(json_of(reply.body).as_object()) == said);
    // A guess is worth a word only when nothing was found.
    reply = co_await post(router, "/v1/search", R"({"q":"file:nothing*.go"})");
    CHECK_MESSAGE(notes(json_of(reply.body).as_object()) != "[]", reply.body);
  });
}

TEST_CASE("a list of repositories limits a request, and a broken list is no list") {
  Orchard orchard(3);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 3);
    auto& router = fleet.start_router();
    fleet.start_node(fleet.node_settings("n1"));
    std::size_t files = 9;
    co_await eventually(60s, "every repository is served", serves, router, files);
    auto count = [](const HttpReply& reply) {
      REQUIRE(reply.status == 200);
      return json_of(reply.body).at("files").as_array().size();
    };
    CHECK(count(co_await get(router, "/v1/search?q=apple_&repos=r0&repos=r2")) == 6);
    CHECK(count(co_await get(router, "/v1/search?q=apple_&repos=")) == 0);
    CHECK(count(co_await post(router, "/v1/search", R"({"q":"apple_","repos":["r1","r1"]})")) == 3);
    auto id = repo_id_of("r2");
    auto by_id = fmt::format(R"({{"q":"apple_","repo_ids":[{},7]}})", id);
    CHECK(count(co_await post(router, "/v1/search", by_id)) == 3);
    CHECK(count(co_await post(router, "/v1/search", R"({"q":"apple_","repo_ids":[]})")) == 0);
    CHECK(count(co_await post(router, "/v1/search", R"({"q":"apple_","archived":true})")) == 0);
    CHECK(count(co_await post(router, "/v1/search", R"({"q":"apple_","fork":false})")) == 9);
    // The query says it as well, and both have to hold.
    CHECK(count(co_await post(router, "/v1/search", R"({"q":"apple_ archived:yes"})")) == 0);
    CHECK(count(co_await post(router, "/v1/search", R"({"q":"apple_ fork:no public:yes"})")) == 9);
    CHECK(count(co_await get(router, "/v1/search?q=apple_+public:no")) == 0);
    auto both = R"({"q":"apple_ archived:no","archived":true,"repo_ids":[1]})";
    CHECK(count(co_await post(router, "/v1/search", both)) == 0);
    for (const char* body :
         {R"({"q":"apple_","repos":null})", R"({"q":"apple_","repos":"r1"})",
          R"({"q":"apple_","repo_ids":null})", R"({"q":"apple_","repo_ids":[-1]})"})
      CHECK_MESSAGE((co_await post(router, "/v1/search", body)).status == 400, body);
    CHECK((co_await get(router, "/v1/search?q=apple_&repos=%zz")).status == 400);
  });
}

TEST_CASE("files are sent before the search ends, and a client who leaves ends it") {
  Orchard orchard(1);
  grow_thicket(orchard.repositories[0], 200);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 1);
    auto& router = fleet.start_router();
    auto& node = fleet.start_node(fleet.node_settings("n1", 30s));
    std::size_t files = 3;
    co_await eventually(60s, "it is served", serves, router, files);
    asio::ip::tcp::socket socket(fleet.executor);
    asio::ip::tcp::endpoint endpoint(asio::ip::make_address("127.0.0.1"), router.port());
    co_await socket.async_connect(endpoint, asio::use_awaitable);
    Client client{std::move(socket)};
    auto body = fmt::format(R"({{"q":"{}","timeout_ms":60000,"matches":0}})", slow);
    co_await client.say(fmt::format(
        "POST /v1/search HTTP/1.1\r\nHost: localhost\r\nAccept: application/x-ndjson\r\n"
        "Content-Length: {}\r\n\r\n{}",
        body.size(), body));
    CHECK(co_await client.hears("\"type\":\"file\""));
    CHECK_FALSE(client.bytes.contains("\"type\":\"summary\""));
    CHECK(node.part->info().running == 1);
    client.socket.close();
    auto is_idle = [](FleetNode& who) { return who.info().running == 0; };
    co_await eventually(30s, "the node has stopped", is_idle, *node.part);
    // And answers others.
    auto found = co_await finds(router, "apple_", files);
    CHECK(found);
  });
}

TEST_CASE("a repository that was searched in part when the time was over is named") {
  Orchard orchard(1);
  grow_thicket(orchard.repositories[0], 200);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 1);
    auto& router = fleet.start_router();
    fleet.start_node(fleet.node_settings("n1", 30s));
    std::size_t files = 3;
    co_await eventually(60s, "it is served", serves, router, files);
    for (const char* repos : {"", R"(,"repos":["r0"])"}) {
      auto body = fmt::format(R"({{"q":"{}","timeout_ms":200,"matches":0{}}})", slow, repos);
      auto reply = co_await post(router, "/v1/search", body);
      CHECK(reply.status == 200);
      std::vector<Missing> missing;
      auto answer = parse_answer(reply.body, missing);
      REQUIRE(answer);
      CHECK_FALSE(answer->is_complete);
      REQUIRE(missing.size() == 1);
      CHECK(missing[0].repo == "r0");
      CHECK(missing[0].reason == "timeout");
    }
  });
}

TEST_CASE("a file is read from its owner's memory, whole or in part") {
  Orchard orchard(2);
  orchard.repositories[0].write("odd/a b&c.txt", "one\ntwo\r\nthree \xe9\nfour");
  orchard.repositories[0].write("blob.bin", std::string("\0\1\2", 3));
  orchard.repositories[0].commit();
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 2);
    auto& router = fleet.start_router();
    fleet.start_node(fleet.node_settings("n1"));
    fleet.start_node(fleet.node_settings("n2"));
    std::size_t files = 6;
    co_await eventually(60s, "both are served", serves, router, files);
    co_await router.settled();
    const std::string target = "/v1/file?repo=r0&path=odd%2Fa%20b%26c.txt";
    auto reply = co_await get(router, target);
    REQUIRE(reply.status == 200);
    auto file = parse_file_text(reply.body);
    REQUIRE(file);
    CHECK(file->text == "one\ntwo\r\nthree \xe9\nfour");
    CHECK(file->lines == 4);
    CHECK(file->size == file->text.size());
    CHECK(file->first_line == 1);
    CHECK(file->last_line == 4);
    CHECK(file->branch == "main");
    CHECK_FALSE(file->is_cut);
    CHECK(file->commit == router.table().repos().at("r0").slots.at(0).note.commit_hash);

    auto part_of = [](Router& where, std::string what) -> awaitable<FileText> {
      auto got = co_await get(where, std::move(what));
      REQUIRE(got.status == 200);
      auto parsed = parse_file_text(got.body);
      REQUIRE(parsed);
      co_return *std::move(parsed);
    };
    auto part = co_await part_of(router, target + "&lines=2-3");
    CHECK(part.text == "two\r\nthree \xe9\n");
    CHECK(part.first_line == 2);
    CHECK(part.last_line == 3);
    part = co_await part_of(router, target + "&lines=4");
    CHECK(part.text == "four");
    part = co_await part_of(router, target + "&lines=9-");
    CHECK(part.text.empty());
    CHECK(part.last_line < part.first_line);
    CHECK(part.lines == 4);
    part = co_await part_of(router, target + "&bytes=6");
    CHECK(part.text == "one\n");
    CHECK(part.is_cut);
    CHECK(part.last_line == 1);
    part = co_await part_of(router, target + "&bytes=2&commit=" + file->commit.substr(0, 10));
    CHECK(part.text == "on");
    CHECK(part.is_cut);
    auto raw = co_await get(router, target + "&lines=2", "Accept: text/plain\r\n");
    CHECK(raw.body == "two\r\n");
    CHECK(raw.header("x-lines") == "2-2/4");
    CHECK(raw.header("content-type").starts_with("text/plain"));

    struct Refusal {
      const char* target;
      int status;
      const char* says;
    };
    for (auto [what, status, says] : std::initializer_list<Refusal>{
             {"/v1/file?repo=r0", 400, "path"},
             {"/v1/file?path=a", 400, "repo"},
             {"/v1/file?repo=r0&repo=r1&path=a", 400, "repo"},
             {"/v1/file?repo=r0&path=src/f0.c&lines=x", 400, "lines"},
             {"/v1/file?repo=r0&path=src/f0.c&commit=12", 400, "commit"},
             {"/v1/file?repo=r0&path=src/f0.c&commit=1234567890", 404, "not in memory"},
             {"/v1/file?repo=r0&path=src/f0.c&branch=other", 404, "branch"},
             {"/v1/file?repo=r0&path=none", 404, "no file none"},
             {"/v1/file?repo=r0&path=../../etc/passwd", 404, "no file"},
             {"/v1/file?repo=r0&path=blob.bin", 404, "left out: binary"},
             {"/v1/file?repo=nobody&path=a", 404, "no repository"},
             {"/v1/file?repo=r0&path=src/f0.c&repos=r1", 404, "no repository"},
             {"/v1/file?repo=r0&path=src/f0.c&repos=", 404, "no repository"},
             {"/v1/file?repo=r0&path=src/f0.c&repos=%z", 400, "repos"},
             {"/v1/skipped?repo=r0&repos=r1", 404, "no repository"},
             {"/v1/skipped", 400, "repo"},
         }) {
      CAPTURE(what);
      auto refused = co_await get(router, what);
      CHECK(refused.status == status);
      CHECK_MESSAGE(refused.body.contains(says), refused.body);
      CHECK_FALSE(text_at(json_of(refused.body).as_object(), "code").empty());
    }
    CHECK((co_await get(router, "/v1/file?repo=r0&path=src/f0.c&repos=r1&repos=r0")).status == 200);
    CHECK((co_await post(router, "/v1/file?repo=r0&path=src/f0.c", "")).status == 405);
  });
}

TEST_CASE("what is not searched is listed with its reason, a page at a time") {
  Orchard orchard(1);
  for (int i = 0; i < 5; ++i)
    orchard.repositories[0].write(fmt::format("bin/{}.o", i), std::string("\0x", 2));
  orchard.repositories[0].write("huge.txt", std::string((4u << 20) + 1, 'x'));
  orchard.repositories[0].commit();
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 1);
    auto& router = fleet.start_router();
    fleet.start_node(fleet.node_settings("n1"));
    std::size_t files = 3;
    co_await eventually(60s, "it is served", serves, router, files);
    auto whole = json_of((co_await get(router, "/v1/skipped?repo=r0")).body).as_object();
    CHECK(whole.at("total") == 6);
    const auto& list = whole.at("skipped").as_array();
    REQUIRE(list.size() == 6);
    CHECK(list[0].at("path") == "bin/0.o");
    CHECK(list[0].at("reason") == "binary");
    CHECK(text_at(list[5].as_object(), "reason").contains("more than"));
    CHECK(text_at(whole, "next").empty());
    auto page = json_of((co_await get(router, "/v1/skipped?repo=r0&limit=4")).body).as_object();
    CHECK(page.at("skipped").as_array().size() == 4);
    CHECK(text_at(page, "next") == "bin/3.o");
    page = json_of((co_await get(router, "/v1/skipped?repo=r0&limit=4&after=bin/3.o")).body)
               .as_object();
    CHECK(page.at("skipped").as_array().size() == 2);
    CHECK(text_at(page, "next").empty());
  });
}

TEST_CASE("a file of a repository that nobody serves yet is awaited, or told to be missing") {
  Orchard orchard(1);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 1);
    auto& router = fleet.start_router();
    auto says_so = [](Router& where) -> awaitable<bool> {
      auto reply = co_await get(where, "/v1/file?repo=r0&path=src/f0.c");
      co_return reply.status == 503 && reply.header("retry-after") == "1" &&
          reply.body.contains("\"unclaimed\"");
    };
    co_await eventually(30s, "the router says that nobody has it", says_so, router);
    auto node = [](Fleet& of) -> awaitable<void> {
      of.start_node(of.node_settings("n1"));
      co_return;
    };
    co_await node(fleet);
    auto reply = co_await get(router, "/v1/file?repo=r0&path=src/f0.c&wait_ms=60000");
    CHECK(reply.status == 200);
  });
}

TEST_CASE(
    "a repository on its way says in which phase it is, and 503 when nothing else was asked for") {
  Orchard orchard(1);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    // A server that takes connections and says nothing.
    asio::ip::tcp::acceptor silent(fleet.executor, {asio::ip::make_address("127.0.0.1"), 0});
    std::vector<Row> rows;
    auto url = fmt::format("http://127.0.0.1:{}/x.git", silent.local_endpoint().port());
    rows.push_back({.key = "slow#0", .spec = to_json(RepoSpec{.url = url})});
    auto added = co_await fleet.catalog.add(std::move(rows), Clock::now() + 10s);
    REQUIRE(added);
    co_await fleet.add(0, 1);
    auto& router = fleet.start_router();
    auto settings = fleet.node_settings("n1", 30s);
    settings.rules.allows_http = true;
    settings.fetching.mirrors.remote.rules = settings.rules;
    fleet.start_node(std::move(settings));
    auto is_fetching = [](Router& where) -> awaitable<bool> {
      auto reply = co_await post(where, "/v1/search", R"({"q":"apple_"})");
      if (reply.status != 200) co_return false;
      auto answer = json_of(reply.body).as_object();
      const auto& missing = answer.at("incomplete").as_array();
      if (missing.size() != 1 || answer.at("files").as_array().size() != 3) co_return false;
      CHECK(answer.at("complete") == false);
      CHECK(missing[0].at("repo") == "slow");
      co_return missing[0].at("reason") == "warming" && missing[0].at("phase") == "fetching";
    };
    co_await eventually(60s, "the other is served, and this one is being fetched", is_fetching,
                        router);
    auto only = co_await post(router, "/v1/search", R"({"q":"apple_","repos":["slow"]})");
    CHECK(only.status == 503);
    CHECK(only.header("retry-after") == "1");
    CHECK(only.body.contains("\"warming\""));
    auto file = co_await get(router, "/v1/file?repo=slow&path=a");
    CHECK(file.status == 503);
    CHECK(file.body.contains("\"fetching\""));
    // Who leaves it out by its name misses nothing.
    auto others = co_await post(router, "/v1/search", R"({"q":"apple_ -repo:slow"})");
    CHECK(others.status == 200);
    CHECK(json_of(others.body).at("complete") == true);
    auto unknown = co_await post(router, "/v1/search", R"({"q":"apple_","repos":["nobody"]})");
    CHECK(unknown.status == 200);
    CHECK(json_of(unknown.body).at("incomplete").at(0).at("reason") == "unknown");
  });
}

TEST_CASE("repositories, nodes and routes are listed, as far as a request may see them") {
  Orchard orchard(3);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 3, 2);
    auto& router = fleet.start_router();
    fleet.start_node(fleet.node_settings("n1", 30s));
    fleet.start_node(fleet.node_settings("n2", 30s));
    std::size_t files = 9;
    co_await eventually(60s, "all are served", serves, router, files);
    co_await router.settled();
    auto list = [](Router& where, std::string target, const char* name) -> awaitable<json::array> {
      auto reply = co_await get(where, std::move(target));
      REQUIRE(reply.status == 200);
      co_return json_of(reply.body).at(name).as_array();
    };
    auto repos = co_await list(router, "/v1/repos", "repos");
    REQUIRE(repos.size() == 3);
    CHECK(repos[0].at("id") == repo_id_of("r0"));
    CHECK(repos[0].at("private") == false);
    CHECK(repos[0].at("slots").as_array().size() == 2);
    CHECK(repos[0].at("slots").at(1).at("ready") == true);
    CHECK((co_await list(router, "/v1/repos?repos=r1", "repos")).size() == 1);
    CHECK((co_await list(router, "/v1/repos?repos=", "repos")).empty());
    CHECK((co_await list(router, "/v1/nodes", "nodes")).size() == 2);
    auto routes = co_await list(router, "/v1/routes", "routes");
    REQUIRE(routes.size() == 3);
    for (const auto& route : routes) {
      CHECK(parse_epoch(text_at(route.as_object(), "epoch")));
      CHECK(text_at(route.as_object(), "endpoint").starts_with("http://"));
      CHECK(route.at("replicas").as_array().size() == 2);
    }
    auto one = co_await list(router, "/v1/routes?repo=r2", "routes");
    REQUIRE(one.size() == 1);
    CHECK(one[0].at("repo") == "r2");
    CHECK((co_await list(router, "/v1/routes?repo=r2&repos=r1", "routes")).empty());
    CHECK((co_await get(router, "/v1/routes?repos=%")).status == 400);
  });
}

}  // namespace warren::fleet
