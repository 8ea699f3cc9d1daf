#include "services/session/proxy/rewrite.h"

#include <doctest/doctest.h>

using namespace warren;
using namespace warren::session;

namespace {

const std::string id(32, 'a');
const Route route{id, Door::runtime, "/"};

HttpHead head_of(std::string_view text) {
  HttpHead head;
  REQUIRE(parse_head(text, head) == HeadState::whole);
  return head;
}

}  // namespace

TEST_CASE(
    "a path of the proxy names a runtime and one of its services, and the rest is kept as sent") {
  auto found = route_of("/" + id + "/vscode/a%2Fb/c", "x=1&y=%20");
  REQUIRE(found);
  CHECK(found->runtime_id == id);
  CHECK(found->door == Door::vscode);
  CHECK(found->target == "/a%2Fb/c?x=1&y=%20");
  CHECK(found->prefix() == "/" + id + "/vscode");
  CHECK(route_of("/" + id + "/work-2", "")->target == "/");
  CHECK(!route_of("/" + id, ""));
  CHECK(!route_of("/" + id + "/other/x", ""));
  CHECK(!route_of("/start", ""));
  CHECK(!route_of("/" + std::string(32, 'A') + "/runtime/x", ""));
}

TEST_CASE("a path with dots leaves neither its prefix nor its sandbox") {
  auto found = route_of("/" + id + "/runtime/../../start", "");
  REQUIRE(found);
  CHECK(found->runtime_id == id);
  CHECK(found->target == "/../../start");
}

TEST_CASE("what is for one connection stays on it, and the sandbox hears who asked") {
  auto head = head_of(
      "POST /x HTTP/1.1\r\nHost: here\r\nConnection: close, X-Mine\r\nX-Mine: 1\r\nX-Other: 2\r\n"
      "Content-Length: 0\r\nX-Forwarded-For: 10.1.1.1\r\nX-Forwarded-Prefix: /evil\r\n\r\n");
  head.request.client = asio::ip::make_address("10.2.2.2");
  auto lines = headers_to_sandbox(head.request, route, false);
  CHECK(!lines.contains("X-Mine"));
  CHECK(!lines.contains("Content-Length"));
  CHECK(!lines.contains("/evil"));
  CHECK(!lines.contains("Connection"));
  CHECK(lines.contains("X-Other: 2\r\n"));
  CHECK(lines.contains("X-Forwarded-For: 10.1.1.1, 10.2.2.2\r\n"));
  CHECK(lines.contains("X-Forwarded-Prefix: /" + id + "/runtime\r\n"));
}

TEST_CASE("an upgrade is asked for in the words of the client") {
  auto head = head_of(
      "GET /x HTTP/1.1\r\nHost: here\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
      "Sec-WebSocket-Key: abc\r\n\r\n");
  auto lines = headers_to_sandbox(head.request, route, true);
  CHECK(lines.contains("Connection: Upgrade\r\n"));
  CHECK(lines.contains("Upgrade: websocket\r\n"));
  CHECK(lines.contains("Sec-WebSocket-Key: abc\r\n"));
}

TEST_CASE(
    "places and cookies of the sandbox are put below its prefix, and those of others are not") {
  auto prefix = route.prefix();
  auto of = [&](const std::string& line) {
    return headers_to_client(line + "\r\n", route, "here:8080", false);
  };
  CHECK(of("Location: /login?x=1") == "Location: " + prefix + "/login?x=1\r\n");
  CHECK(of("Location: http://here:8080/a") == "Location: http://here:8080" + prefix + "/a\r\n");
  CHECK(of("Location: https://elsewhere/a") == "Location: https://elsewhere/a\r\n");
  CHECK(of("Location: //elsewhere/a") == "Location: //elsewhere/a\r\n");
  CHECK(of("Location: " + prefix + "/a") == "Location: " + prefix + "/a\r\n");
  CHECK(of("Location: a/b") == "Location: a/b\r\n");
  CHECK(of("Set-Cookie: a=b; Path=/; HttpOnly") ==
        "Set-Cookie: a=b; Path=" + prefix + "/; HttpOnly\r\n");
  CHECK(of("Set-Cookie: a=b; path=/x") == "Set-Cookie: a=b; Path=" + prefix + "/x\r\n");
  CHECK(of("Transfer-Encoding: chunked").empty());
  CHECK(of("Content-Type: text/plain").empty());
}

TEST_CASE("a session key is shown in a header, or in the query of a browser") {
  auto with = [](const std::string& target, const std::string& header) {
    auto text = "GET " + target + " HTTP/1.1\r\nHost: here\r\n" + header + "\r\n";
    auto head = head_of(text);
    return key_shown(head.request);
  };
  CHECK(with("/x", "X-Session-API-Key: k1\r\n") == "k1");
  CHECK(with("/x?session_api_key=k2", "") == "k2");
  CHECK(with("/x?a=b&tkn=k3", "") == "k3");
  CHECK(with("/x", "") == "");
}
