#include "services/fleet/fetch/credentials.h"

#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>

#include "proof/testkit/temp_folder.h"

using namespace warren;
using namespace warren::fleet;
namespace fs = std::filesystem;

namespace {

RemoteUrl url(const char* text) {
  auto remote = RemoteUrl::parse(text, {.allows_http = true});
  REQUIRE(remote);
  return remote->url;
}

// "user:password", "none", or the name of the error.
std::string found(const Credentials& credentials, const char* text) {
  auto credential = credentials.find(url(text), Clock::now() + 30s);
  if (!credential) return std::string(name(credential.error().code));
  if (!*credential) return "none";
  return (*credential)->user + ":" + (*credential)->password.reveal();
}

void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

}  // namespace

TEST_CASE("a credential is a token in one line, or what a helper of git writes") {
  auto parsed = [](std::string_view text) {
    auto credential = parse_credential(text, "it");
    return credential ? credential->user + ":" + credential->password.reveal()
                      : std::string(name(credential.error().code));
  };
  CHECK(parsed("abc") == "x-access-token:abc");
  CHECK(parsed("abc=\r\n") == "x-access-token:abc=");
  CHECK(parsed("\nabc\n\n") == "x-access-token:abc");
  CHECK(parsed("username=anna\npassword=a=b\n") == "anna:a=b");
  CHECK(parsed("protocol=https\nhost=x\nusername=anna\npassword=b\n") == "anna:b");
  CHECK(parsed("password=b") == "x-access-token:b");
  CHECK(parsed("") == "invalid");
  CHECK(parsed("\n\n") == "invalid");
  CHECK(parsed("username=anna\n") == "invalid");
  CHECK(parsed("a\nb\n") == "invalid");
  CHECK(parsed("a\tb") == "invalid");
}

TEST_CASE(
    "the file of a host is read anew for every fetch, through the links of a mounted secret") {
  TempFolder folder;
  Credentials credentials(CredentialSources{.folder = folder.path()});
  CHECK(found(credentials, "https://host/x") == "none");
  write(folder.path() / "first", "token-1\n");
  write(folder.path() / "second", "token-2\n");
  fs::create_symlink("first", folder.path() / "host");
  CHECK(found(credentials, "https://host/x") == "x-access-token:token-1");
  CHECK(found(credentials, "https://host:444/x") == "none");
  CHECK(found(credentials, "https://other/x") == "none");
  CHECK(found(credentials, "git@host:x") == "none");
  fs::remove(folder.path() / "host");
  fs::create_symlink("second", folder.path() / "host");
  CHECK(found(credentials, "https://host/x") == "x-access-token:token-2");
  write(folder.path() / "second", "");
  CHECK(found(credentials, "https://host/x") == "invalid");
  fs::create_directory(folder.path() / "odd");
  CHECK(found(credentials, "https://odd/x") == "invalid");
  REQUIRE(mkfifo((folder.path() / "pipe").c_str(), 0600) == 0);
  CHECK(found(credentials, "https://pipe/x") == "invalid");
}

TEST_CASE("a file comes before a variable, and a variable before a helper") {
  TempFolder folder;
  CredentialSources sources;
  sources.folder = folder.path();
  sources.variables["host"] = "WARREN_TEST_GIT_TOKEN";
  auto answer = folder.path() / "answer";
  write(answer, "username=bob\npassword=from-helper\n");
  sources.helpers["*"] = "!f() { test \"$1\" = get && cat " + answer.string() + "; }; f";
  sources.helpers["silent"] = "!true";
  sources.helpers["broken"] = "!exit 3";
  sources.helpers["missing"] = "/nonexistent/helper";
  Credentials credentials(sources);
  CHECK(found(credentials, "https://host/x") == "bob:from-helper");
  setenv("WARREN_TEST_GIT_TOKEN", "from-variable", 1);
  CHECK(found(credentials, "https://host/x") == "x-access-token:from-variable");
  CHECK(found(credentials, "https://other/x") == "bob:from-helper");
  write(folder.path() / "host", "from-file");
  CHECK(found(credentials, "https://host/x") == "x-access-token:from-file");
  unsetenv("WARREN_TEST_GIT_TOKEN");
  write(answer, "username=bob\npassword=rotated\n");
  CHECK(found(credentials, "https://other/x") == "bob:rotated");
  CHECK(found(credentials, "https://silent/x") == "none");
  CHECK(found(credentials, "https://broken/x") == "none");
  CHECK(found(credentials, "https://missing/x") == "none");
}

TEST_CASE("a helper is told whom it is asked for, and is not waited for beyond the deadline") {
  TempFolder folder;
  auto question = folder.path() / "question";
  CredentialSources sources;
  sources.helpers["host:444"] =
      "!f() { cat > " + question.string() + "; echo username=a; echo password=b; }; f";
  sources.helpers["slow"] = "!f() { sleep 600; }; f";
  Credentials credentials(sources);
  CHECK(found(credentials, "https://host:444/owner/name") == "a:b");
  std::ifstream file(question);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  CHECK(text.contains("protocol=https\n"));
  CHECK(text.contains("host=host:444\n"));
  auto late = credentials.find(url("https://slow/x"), Clock::now() + 200ms);
  REQUIRE(!late);
  CHECK(late.error().code == Errc::timeout);
}

TEST_CASE("a credential that came with a URL is kept as a file that only its owner reads") {
  TempFolder folder;
  Credentials credentials(CredentialSources{.folder = folder.path()});
  auto remote = RemoteUrl::parse("https://anna:s3cret@host/x", {});
  REQUIRE(remote);
  REQUIRE(credentials.save(remote->url, *remote->credential));
  CHECK(found(credentials, "https://host/x") == "anna:s3cret");
  CHECK((fs::status(folder.path() / "host").permissions() & fs::perms::all) ==
        (fs::perms::owner_read | fs::perms::owner_write));
  CHECK(!Credentials({}).save(remote->url, *remote->credential));
}
