#include "services/session/names.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace warren;
using namespace warren::session;

namespace {

bool is_label_of_dns(const std::string& name) {
  auto is_fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  return name.size() <= 63 && std::ranges::all_of(name, is_fine) && !name.ends_with('-');
}

}  // namespace

TEST_CASE("an id that is legal for a pod is kept as it is") {
  CHECK(name_of("session-123") == "openhands-runtime-session-123");
  std::string uuid = "8f14e45f-ceea-467f-9575-25b5cb6f0b7a";
  CHECK(name_of(uuid) == "openhands-runtime-" + uuid);
}

TEST_CASE("every id gives a name that is legal for a pod and its services") {
  for (std::string id : {"../../etc/passwd", "Capitals", "-", "..", "/", "ümlaut", "a b", "a--b",
                         "{sid}", "agent-server-8f14e45f-ceea-467f-9575-25b5cb6f0b7a"})
    CHECK_MESSAGE(is_label_of_dns(name_of(id) + "-svc-code"), id);
  CHECK(is_label_of_dns(name_of(std::string(200, 'a')) + "-svc-code"));
  CHECK(is_label_of_dns(name_of(std::string(256, 'Z')) + "-svc-code"));
}

TEST_CASE("ids that differ only in what is illegal, or far behind, stay two") {
  std::set<std::string> names;
  for (std::string id : {"abc", "ABC", "Abc", "a/bc", "a.bc", "a-bc"}) names.insert(name_of(id));
  names.insert(name_of(std::string(200, 'a') + "1"));
  names.insert(name_of(std::string(200, 'a') + "2"));
  CHECK(names.size() == 8);
}

TEST_CASE("no id passes for the shortened form of another") {
  auto shortened = name_of("ABC").substr(std::string("openhands-runtime-").size());
  CHECK(name_of(shortened) != name_of("ABC"));
}

TEST_CASE("a session id that is no text is refused, and the error says what is allowed") {
  CHECK(check_session_id("a"));
  CHECK(check_session_id("../x y ü"));
  for (const std::string& id : {std::string(), std::string(257, 'a'), std::string("a\nb"),
                                std::string("a\0b", 3), std::string("\xff")}) {
    auto checked = check_session_id(id);
    REQUIRE(!checked);
    CHECK(checked.error().code == Errc::invalid);
  }
}

TEST_CASE("a runtime id is a function of namespace and session, and keys are not guessed") {
  CHECK(runtime_id_of("default", "a") == runtime_id_of("default", "a"));
  CHECK(runtime_id_of("default", "a") != runtime_id_of("other", "a"));
  CHECK(is_runtime_id(runtime_id_of("default", "../a")));
  CHECK(!is_runtime_id("../a"));
  CHECK(new_session_key().size() == 64);
  CHECK(new_session_key() != new_session_key());
}

TEST_CASE("keys in Redis are called as OpenHands calls them") {
  CHECK(resource_of("default", name_of("session-123")) ==
        "k8s-pod:default:openhands-runtime-session-123");
}
