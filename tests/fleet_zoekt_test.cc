// The routes of zoekt-webserver, on a fleet. What its fields are is compared in
// src/services/fleet/zoekt/answer_test.cc; here, that they say what our own routes say.
#include "base/base64.h"
#include "services/fleet/wire/files.h"
#include "tests/with_router.h"

namespace warren::fleet {

namespace {

namespace json = boost::json;

auto answers = [](Router& router, std::size_t& files) -> awaitable<Result<>> {
  auto found = co_await finds(router, "apple_", files);
  co_return found;
};

awaitable<json::object> zoekt(Router& router, std::string body) {
  auto reply = co_await post(router, "/api/search", std::move(body));
  REQUIRE_MESSAGE(reply.status == 200, reply.body);
  co_return json_of(reply.body).at("Result").as_object();
}
std::size_t count_of(const json::object& result) {
  const auto& files = result.at("Files");
  return files.is_null() ? 0 : files.as_array().size();
}
std::string bytes_of(const json::value& value) {
  return *from_base64(std::string_view(value.as_string()));
}

awaitable<std::string> text_of(Router& router, const json::value& file) {
  auto target = fmt::format("/v1/file?repo={}&path={}",
                            percent_encoded(std::string_view(file.at("Repository").as_string())),
                            percent_encoded(std::string_view(file.at("FileName").as_string())));
  auto reply = co_await get(router, std::move(target));
  REQUIRE(reply.status == 200);
  co_return parse_file_text(reply.body)->text;
}

}  // namespace

TEST_CASE("a client of zoekt finds the same files in the same order, at the right places") {
  Orchard orchard(4);
  orchard.repositories[1].write("dos.txt", "one\r\ntwo apple_dos\r\n\r\nfour \xc3\xa9 apple_dos");
  orchard.repositories[1].commit();
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 4);
    auto& router = fleet.start_router();
    fleet.start_node(fleet.node_settings("n1"));
    fleet.start_node(fleet.node_settings("n2"));
    std::size_t files = 13;
    co_await eventually(60s, "all are served", answers, router, files);
    co_await router.settled();
    auto ours = json_of((co_await post(router, "/v1/search", R"({"q":"apple_"})")).body);
    auto result = co_await zoekt(router, R"({"Q":"apple_","Opts":{"NumContextLines":1}})");
    const auto& expected = ours.at("files").as_array();
    REQUIRE(count_of(result) == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto& file = result.at("Files").at(i);
      CHECK(file.at("Repository") == expected[i].at("repo"));
      CHECK(file.at("FileName") == expected[i].at("path"));
      CHECK(file.at("Version").as_string().size() == 40);
      CHECK(file.at("RepositoryID") ==
            repo_id_of(std::string_view(file.at("Repository").as_string())));
      auto text = co_await text_of(router, file);
      for (const auto& line : file.at("LineMatches").as_array()) {
        auto begin = line.at("LineStart").to_number<std::size_t>();
        auto end = line.at("LineEnd").to_number<std::size_t>();
        CHECK(bytes_of(line.at("Line")) == text.substr(begin, end - begin));
        CHECK((end == text.size() || text[end - 1] == '\n'));
        auto around =
            bytes_of(line.at("Before")) + bytes_of(line.at("Line")) + bytes_of(line.at("After"));
        CHECK(text.contains(around));
        for (const auto& part : line.at("LineFragments").as_array())
          CHECK(text.substr(part.at("Offset").to_number<std::size_t>(), 6) == "apple_");
      }
    }
    auto chunks = co_await zoekt(
        router,
        R"({"Q":"apple_dos","Opts":{"ChunkMatches":true,"Whole":true,"NumContextLines":1}})");
    REQUIRE(count_of(chunks) == 1);
    const auto& file = chunks.at("Files").at(0);
    auto text = co_await text_of(router, file);
    CHECK(bytes_of(file.at("Content")) == text);
    const auto& list = file.at("ChunkMatches").as_array();
    REQUIRE(list.size() == 1);
    CHECK(bytes_of(list[0].at("Content")) == text);
    CHECK(list[0].at("Ranges").as_array().size() == 2);
    CHECK(list[0].at("Ranges").at(1).at("Start").at("Column") == 8);
    CHECK(list[0].at("Ranges").at(1).at("Start").at("LineNumber") == 4);

    CHECK(count_of(co_await zoekt(router, R"({"Q":"apple_","Opts":{"MaxDocDisplayCount":3}})")) ==
          3);
    auto only = fmt::format(R"({{"Q":"apple_","RepoIDs":[{}]}})", repo_id_of("r2"));
    CHECK(count_of(co_await zoekt(router, only)) == 3);
    CHECK(count_of(co_await zoekt(router, R"({"Q":"apple_","RepoIDs":[]})")) == 0);
    CHECK(count_of(co_await zoekt(router, R"({"Q":"r:r3 archived:no apple_"})")) == 3);
    CHECK(count_of(co_await zoekt(router, R"({"Q":"archived:yes apple_"})")) == 0);
    CHECK(count_of(co_await zoekt(router, R"({"Q":"branch:HEAD apple_"})")) == 13);
    auto named = co_await zoekt(router, R"({"Q":"f:dos"})");
    REQUIRE(count_of(named) == 1);
    CHECK(named.at("Files").at(0).at("LineMatches").at(0).at("FileName") == true);
    auto estimate = co_await zoekt(router, R"({"Q":"apple_","Opts":{"EstimateDocCount":true}})");
    CHECK(count_of(estimate) == 0);
    CHECK(estimate.at("ShardFilesConsidered") == 13);
  });
}

TEST_CASE("a client of zoekt lists repositories, by name or by what is in them") {
  Orchard orchard(3);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 3);
    auto& router = fleet.start_router();
    fleet.start_node(fleet.node_settings("n1"));
    std::size_t files = 9;
    co_await eventually(60s, "all are served", answers, router, files);
    co_await router.settled();
    auto names = [](Router& where, std::string body) -> awaitable<std::string> {
      auto reply = co_await post(where, "/api/list", std::move(body));
      REQUIRE_MESSAGE(reply.status == 200, reply.body);
      auto list = json_of(reply.body).at("List").as_object();
      std::string all;
      if (list.at("Repos").is_null()) co_return all;
      for (const auto& entry : list.at("Repos").as_array())
        all += std::string_view(entry.at("Repository").at("Name").as_string());
      co_return all;
    };
    CHECK(co_await names(router, "{}") == "r0r1r2");
    CHECK(co_await names(router, R"({"Q":"r:r1"})") == "r1");
    CHECK(co_await names(router, R"({"Q":"-r:r1"})") == "r0r2");
    CHECK(co_await names(router, R"({"Q":"apple_2"})") == "r2");
    CHECK(co_await names(router, R"({"Q":"fork:yes"})") == "");
    CHECK(co_await names(router, R"({"Q":"nothing_like_it"})") == "");
    auto reply = co_await post(router, "/api/list", R"({"Opts":{"Field":2}})");
    auto id = std::to_string(repo_id_of("r1"));
    CHECK(json_of(reply.body).at("List").at("ReposMap").as_object().contains(id));

    struct Refusal {
      const char *target, *body;
      int status;
    };
    for (auto [target, body, status] :
         std::initializer_list<Refusal>{{"/api/search", "", 400},
                                        {"/api/search", R"({"Q":""})", 400},
                                        {"/api/search", R"({"Q":"meta.x:y"})", 400},
                                        {"/api/search", R"({"Q":"foo("})", 400},
                                        {"/api/search", R"({"Q":".*"})", 400},
                                        {"/api/search", R"({"Q":"x","RepoIDs":"all"})", 400},
                                        {"/api/list", R"({"Q":"("})", 400},
                                        {"/api/list", R"({"Opts":{"Field":9}})", 400},
                                        {"/api/none", "{}", 404}}) {
      CAPTURE(target);
      CAPTURE(body);
      auto refused = co_await post(router, target, body);
      CHECK(refused.status == status);
      CHECK_FALSE(text_at(json_of(refused.body).as_object(), "Error").empty());
    }
    CHECK((co_await get(router, "/api/search")).status == 405);
  });
}

}  // namespace warren::fleet
