#include "services/fleet/fetch/trouble.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <string>

using namespace warren;
using namespace warren::fleet;

namespace {

RemoteUrl some_url() {
  auto remote = RemoteUrl::parse("https://host/x", {});
  REQUIRE(remote);
  return remote->url;
}

Errc kind(std::string_view errors, int code = 128) {
  return trouble(code, errors, some_url(), {}).code;
}

}  // namespace

TEST_CASE("what ssh says is told apart") {
  // Of a server that the tests cannot start: these are the texts of OpenSSH 9.
  constexpr std::string_view rest =
      "fatal: Could not read from remote repository.\n\nPlease make sure you have the correct "
      "access "
      "rights\nand the repository exists.\n";
  auto with_rest = [&](std::string_view text) {
    return kind(std::string(text) + std::string(rest));
  };
  CHECK(with_rest("git@github.com: Permission denied (publickey).\n") == Errc::denied);
  CHECK(with_rest("Host key verification failed.\n") == Errc::denied);
  CHECK(with_rest("ERROR: Repository not found.\n") == Errc::not_found);
  CHECK(with_rest("fatal: '/x' does not appear to be a git repository\n") == Errc::not_found);
  CHECK(with_rest("ssh: Could not resolve hostname host: Name or service not known\n") ==
        Errc::unavailable);
  CHECK(with_rest("ssh: connect to host host port 22: Connection refused\n") == Errc::unavailable);
  CHECK(with_rest("kex_exchange_identification: read: Connection reset by peer\n") ==
        Errc::unavailable);
}

TEST_CASE("what a server says does not decide what its error is") {
  CHECK(kind("remote: fatal: Authentication failed for x\nfatal: early EOF\n") ==
        Errc::unavailable);
  CHECK(kind("remote: Connection refused\nfatal: repository said nonsense\n") == Errc::protocol);
}

TEST_CASE("the name of a repository does not decide what its error is") {
  auto remote = RemoteUrl::parse("https://host/fsck+error/expected/inflate", {});
  REQUIRE(remote);
  auto text = "fatal: unable to access '" + remote->url.text() + "/': Could not resolve host: host";
  CHECK(trouble(128, text, remote->url, {}).code == Errc::unavailable);
}

TEST_CASE("a command that our limits end is too large") {
  CHECK(kind("", 128 + SIGXFSZ) == Errc::overloaded);
  // git was made to complain until it had no memory left, and of that the end was not kept.
  std::string flood;
  while (flood.size() < 64'000) flood += "warning: ignoring capabilities after first line ''\n";
  CHECK(kind(flood) == Errc::overloaded);
  CHECK(kind("error: index-pack died of signal 25\nfatal: index-pack failed\n") ==
        Errc::overloaded);
  CHECK(kind("fatal: Out of memory, malloc failed (tried to allocate 9 bytes)\n") ==
        Errc::overloaded);
  CHECK(kind("fatal: write error: File too large\n") == Errc::overloaded);
}

TEST_CASE("no error repeats a token, in whatever spelling, nor what stands before @ in a URL") {
  Credential credential{"anna", Secret("s3cr/t+token")};
  for (const char* text :
       {"fatal: s3cr/t+token is wrong", "fatal: 'https://anna:s3cr/t+token@host/x' is wrong",
        "fatal: https://anna:s3cr%2Ft%2Btoken@host/x",
        "fatal: https://anna:s3cr%2ft%2btoken@host/x",
        "remote: Authorization: Basic YW5uYTpzM2NyL3QrdG9rZW4=",
        "remote: czNjci90K3Rva2Vu is not known"}) {
    CAPTURE(text);
    auto error = trouble(128, text, some_url(), credential);
    CAPTURE(error.what);
    for (const char* part : {"s3cr", "t+token", "YW5uYTpzM2Ny", "czNjci90", "anna"})
      CHECK(!error.what.contains(part));
  }
  CHECK(scrubbed("see https://u:p@host/x and http://v@host y", {}) ==
        "see https://host/x and http://host y");
}

TEST_CASE("an error is one short line, with its end") {
  auto error = trouble(128, std::string(5000, 'x') + "\n\x1b[2J\nfatal: the end\n", some_url(), {});
  CHECK(error.what.size() < 600);
  CHECK(error.what.ends_with("fatal: the end"));
  CHECK(error.what.find_first_of("\n\x1b") == std::string::npos);
  CHECK(trouble(1, "", some_url(), {}).what.contains("git ended with 1"));
}

TEST_CASE("where a server redirects to is what the headers of its last answer say") {
  CHECK(is_redirected("fatal: unable to access 'x': The requested URL returned error: 301\n"));
  CHECK(!is_redirected("fatal: unable to access 'x': The requested URL returned error: 401\n"));
  CHECK(!is_redirected("remote: The requested URL returned error: 301\n"));
  auto head = [](std::string_view text) {
    return fmt::format("07:02:51.096 http.c:684   <= Recv header: {}\n", text);
  };
  auto moved = redirection(head("HTTP/1.1 401 Unauthorized") + head("Location: /other") +
                           "<= Send header: Location: /ours\n" + head("HTTP/2 308") +
                           head("location: https://host/y/"));
  REQUIRE(moved);
  CHECK(moved->to == "https://host/y/");
  CHECK(moved->is_permanent);
  auto for_now = redirection(head("HTTP/1.1 302 Found") + head("Location: /y"));
  REQUIRE(for_now);
  CHECK(!for_now->is_permanent);
  CHECK(!redirection(head("HTTP/1.1 301 Moved") + head("Location: /x") + head("HTTP/1.1 404 No")));
  CHECK(!redirection(head("HTTP/1.1 301 Moved")));
  CHECK(!redirection("Location: /x\n"));
}
