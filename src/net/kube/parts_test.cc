#include <doctest/doctest.h>

#include "net/kube/cache.h"
#include "net/kube/failure.h"
#include "net/kube/frames.h"
#include "net/kube/place.h"

using namespace warren;
using namespace warren::kube;

namespace {

Object object(std::string_view text) {
  auto parsed = parse_object(text);
  REQUIRE_MESSAGE(parsed, parsed.error().what);
  return *std::move(parsed);
}

Object pod(std::string_view name, std::string_view uid, std::string_view version) {
  return object(fmt::format(
      R"({{"metadata":{{"namespace":"n","name":"{}","uid":"{}","resourceVersion":"{}"}}}})", name,
      uid, version));
}

}  // namespace

TEST_CASE("a path has the group, the namespace and the name, and a query what is set") {
  Place place{kinds::stateful_sets, "search", "fleet", "scale"};
  CHECK(*target_of(place) == "/apis/apps/v1/namespaces/search/statefulsets/fleet/scale");
  Place all{kinds::pods};
  CHECK(*target_of(all, {{"limit", "5"}, {"continue", ""}, {"labelSelector", "a=b,c"}}) ==
        "/api/v1/pods?limit=5&labelSelector=a%3Db%2Cc");
  Place space{kinds::namespaces, "", "search"};
  CHECK(*target_of(space) == "/api/v1/namespaces/search");
}

TEST_CASE("a name with which a path would lead elsewhere is refused") {
  for (const char* name : {"..", ".", "a/b", "a?b", "a%2fb", "a b", "a\r\nb", "a#b"}) {
    Place place{kinds::pods, "n", name};
    auto target = target_of(place);
    REQUIRE(!target);
    CHECK(target.error().code == Errc::invalid);
    place = {kinds::pods, name};
    CHECK(!target_of(place));
  }
}

TEST_CASE("a refusal has its reason, its causes and when to come again") {
  auto failure = failure_of(
      409,
      R"({"kind":"Status","code":409,"reason":"Conflict","message":"it has changed","details":{
          "retryAfterSeconds":3,"causes":[{"reason":"FieldManagerConflict","field":".spec.replicas",
          "message":"conflict with \"kubectl\""}]}})",
      "", true);
  CHECK(failure.code == Errc::refused);
  CHECK(failure.reason == Reason::conflict);
  CHECK(failure.what == "it has changed");
  CHECK(failure.retry_after == std::chrono::seconds(3));
  REQUIRE(failure.causes.size() == 1);
  CHECK(failure.causes[0].field == ".spec.replicas");
  auto exists = failure_of(409, R"({"reason":"AlreadyExists","message":"x"})", "", true);
  CHECK(exists.code == Errc::held_elsewhere);
  CHECK(exists.reason == Reason::already_exists);
  auto busy = failure_of(429, "slow down", "Retry-After: 7\r\n", true);
  CHECK(busy.code == Errc::unavailable);
  CHECK(busy.retry_after == std::chrono::seconds(7));
  CHECK(failure_of(401, "", "", false).code == Errc::denied);
  CHECK(failure_of(403, "", "", false).code == Errc::denied);
  CHECK(failure_of(404, "", "", false).code == Errc::not_found);
  CHECK(failure_of(410, "", "", false).reason == Reason::expired);
  CHECK(failure_of(422, "", "", false).code == Errc::invalid);
  CHECK(failure_of_event(R"({"kind":"Status","code":410,"reason":"Expired"})").reason ==
        Reason::expired);
}

TEST_CASE("a server that fails in the middle of a change leaves the outcome unknown") {
  CHECK(failure_of(500, "", "", true).code == Errc::unknown_outcome);
  CHECK(failure_of(504, "", "", true).code == Errc::unknown_outcome);
  CHECK(failure_of(500, "", "", false).code == Errc::unavailable);
  // A proxy in front of the server may answer with anything.
  CHECK(failure_of(502, "<html>", "", false).what == "the API server answered 502");
}

TEST_CASE("a refusal is an error of any function that returns one") {
  auto asks = [](int status) -> Result<> {
    return std::unexpected(failure_of(status, "", "", false));
  };
  CHECK(asks(404).error().code == Errc::not_found);
  auto answers = []() -> Answer<int> { return fail(Errc::timeout, "late"); };
  CHECK(answers().error().code == Errc::timeout);
  CHECK(answers().error().reason == Reason::none);
}

TEST_CASE("values of a stream are found wherever it is cut") {
  const std::string text = "{\"a\":\"}\\\"\"}\n {\"b\":[1,{}]}{\"c\":null}\n";
  for (std::size_t cut = 1; cut <= text.size(); ++cut) {
    JsonFrames frames(100);
    std::vector<std::string> found;
    for (std::size_t at = 0; at < text.size(); at += cut) {
      auto piece = std::string_view(text).substr(at, cut);
      while (!piece.empty()) {
        auto value = frames.take(piece);
        REQUIRE(value);
        if (*value) found.push_back(json::serialize(**value));
      }
    }
    CHECK(frames.is_between());
    CHECK(found == std::vector<std::string>{R"({"a":"}\""})", R"({"b":[1,{}]})", R"({"c":null})"});
  }
}

TEST_CASE("a value of a stream that is too long, or no JSON, ends it") {
  JsonFrames frames(100);
  auto text = "{\"a\":\"" + std::string(200, 'x');
  std::string_view piece = text;
  auto value = frames.take(piece);
  REQUIRE(!value);
  CHECK(value.error().code == Errc::overloaded);
  JsonFrames others(100);
  piece = "{\"a\" oops";
  value = others.take(piece);
  REQUIRE(!value);
  CHECK(value.error().code == Errc::protocol);
}

TEST_CASE("a copy tells what is new, what has changed and what is gone") {
  Cache cache;
  auto first = cache.put(pod("a", "1", "10"));
  REQUIRE(first);
  CHECK(!first->before);
  CHECK(!cache.put(pod("a", "1", "10")));
  auto changed = cache.put(pod("a", "1", "11"));
  REQUIRE(changed);
  CHECK(version_of(*changed->before) == "10");
  CHECK(version_of(*cache.find("n", "a")) == "11");
  // It was replaced by another object, whose creation was reported before its own deletion.
  CHECK(cache.put(pod("a", "2", "13")));
  CHECK(!cache.remove(pod("a", "1", "12")));
  CHECK(cache.find("n", "a"));
  CHECK(cache.remove(pod("a", "2", "14")));
  CHECK(!cache.find("n", "a"));
}

TEST_CASE("what a new list has not is gone, and told") {
  Cache cache;
  cache.put(pod("a", "1", "10"));
  cache.put(pod("b", "2", "11"));
  cache.put(pod("c", "3", "12"));
  std::vector<Object> list{pod("a", "1", "10"), pod("b", "2", "20"), pod("d", "4", "21")};
  auto differences = cache.replace(std::move(list));
  REQUIRE(differences.size() == 3);
  CHECK(version_of(*differences[0].after) == "20");
  CHECK(name_of(*differences[1].after) == "d");
  CHECK(!differences[2].after);
  CHECK(name_of(*differences[2].before) == "c");
  CHECK(cache.size() == 3);
}
