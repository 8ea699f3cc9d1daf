#include "services/fleet/fetch/url.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>

#include "proof/testkit/temp_folder.h"

using namespace warren;
using namespace warren::fleet;
namespace fs = std::filesystem;

namespace {

UrlRules all_of_the_net() { return {.allows_http = true, .allows_git = true}; }

std::string id_of(const std::string& text) {
  auto remote = RemoteUrl::parse(text, all_of_the_net());
  return remote ? remote->url.repo_id() : "error: " + remote.error().what;
}

Errc code_of(const std::string& text, const UrlRules& rules = all_of_the_net()) {
  auto remote = RemoteUrl::parse(text, rules);
  REQUIRE_MESSAGE(!remote, text);
  CHECK(!remote.error().what.empty());
  return remote.error().code;
}

}  // namespace

TEST_CASE("a repository has one id, however its URL is spelled") {
  for (const char* text :
       {"https://github.com/owner/name", "https://github.com/owner/name.git",
        "HTTPS://GitHub.COM:443/owner//name.git/", "http://github.com:80/owner/name",
        "ssh://git@github.com/owner/name.git", "ssh://git@github.com:22/owner/name",
        "git@github.com:owner/name.git", "github.com:owner/name", "git@github.com:/owner/name",
        "git://github.com/owner/name", "https://anna:secret@github.com/owner/name",
        "https://github.com/owner/name/.git"}) {
    CAPTURE(text);
    CHECK(id_of(text) == "github.com/owner/name");
  }
  CHECK(id_of("https://host:8443/a/b/c.git") == "host:8443/a/b/c");
  CHECK(id_of("https://[2001:DB8::1]/x") == "[2001:db8::1]/x");
  CHECK(id_of("https://[::1]:8080/x") == "[::1]:8080/x");
  CHECK(id_of("https://github.com/Owner/Name") == "github.com/Owner/Name");
  CHECK(id_of("https://host/~anna/caf%C3%A9") == "host/~anna/caf%C3%A9");
}

TEST_CASE("the URL that git gets has the user of ssh and no password") {
  auto parsed = [](const char* text) { return RemoteUrl::parse(text, all_of_the_net()); };
  auto ssh = parsed("git@GitHub.com:owner/name.git");
  REQUIRE(ssh);
  CHECK(ssh->url.text() == "git@github.com:owner/name.git");
  CHECK(ssh->url.transport() == Transport::ssh);
  CHECK(ssh->url.host() == "github.com");
  CHECK(!ssh->credential);
  auto web = parsed("https://anna:s%40cret:x@host:444/a");
  REQUIRE(web);
  CHECK(web->url.text() == "https://host:444/a");
  CHECK(web->url.host() == "host:444");
  REQUIRE(web->credential);
  CHECK(web->credential->user == "anna");
  CHECK(web->credential->password.reveal() == "s@cret:x");
  auto token = parsed("https://ghp_0123456789abcdefghij@github.com/o/n");
  REQUIRE(token);
  CHECK(token->url.text() == "https://github.com/o/n");
  REQUIRE(token->credential);
  CHECK(token->credential->password.reveal() == "ghp_0123456789abcdefghij");
  auto name = parsed("https://git@github.com/o/n");
  REQUIRE(name);
  CHECK(name->url.text() == "https://github.com/o/n");
  CHECK(!name->credential);
}

TEST_CASE("a URL with options, helpers, control characters or odd parts in it is refused") {
  for (std::string text : {"",
                           "--upload-pack=touch /tmp/x",
                           "-u",
                           "ext::sh -c 'touch /tmp/x'",
                           "ext::x",
                           "fd::17",
                           "https::https://host/x",
                           "file::/x",
                           "x-y.z+1::a",
                           "::a",
                           "ssh://-oProxyCommand=x/y",
                           "ssh://git@-oProxyCommand=x/y",
                           "-oProxyCommand=x:y",
                           "git@-host:x",
                           "-git@host:x",
                           "ssh://-git@host/x",
                           "git@host:--upload-pack=x",
                           "git@host:-x",
                           "https://host/--upload-pack=x",
                           "git@host:",
                           "https://host",
                           "https://host/",
                           "https:///x",
                           "https://host/.git",
                           "https://host/../x",
                           "https://host/a/./b",
                           "https://host/%2e%2e/x",
                           "https://host/a%2fb",
                           "https://host/%41",
                           "https://host/%0a",
                           "https://host/%zz",
                           "https://host/%",
                           "https://host/a b",
                           "https://host/a?b",
                           "https://host/a#b",
                           "https://host/a\\b",
                           "https://ho$st/a",
                           "https://host:0/a",
                           "https://host:65536/a",
                           "https://host:x/a",
                           "https://[::1/a",
                           "https://[x]/a",
                           "https://.host/a",
                           "https://a..b/c",
                           "https://host/a\nb",
                           "https://host/\x1b[2J",
                           "ssh://anna:secret@host/x",
                           "anna:secret@host:x",
                           "ssh://a b@host/x",
                           "ftp://host/x",
                           "rsync://host/x",
                           "javascript:alert(1)//x y",
                           "name",
                           "./name",
                           "../name",
                           "a/b:c",
                           "https://a%0ab:c@host/x"}) {
    CAPTURE(text);
    CHECK(code_of(text) == Errc::invalid);
  }
  CHECK(code_of("https://host/" + std::string(3000, 'x')) == Errc::invalid);
  CHECK(code_of("https://host/" + std::string(300, 'x')) == Errc::invalid);
  CHECK(code_of(std::string("https://host/a\0b", 16)) == Errc::invalid);
}

TEST_CASE("no refusal repeats a password") {
  for (const char* text :
       {"ftp://anna:secret@host/x", "ssh://anna:secret@host/x", "https://anna:secret@ho st/x",
        "https://anna:secret@host:0/x", "http://anna:secret@host/x", "git://anna:secret@host/x",
        "https://anna:secret@host", "anna:secret@host:x", "https://anna:secret@host/--x"}) {
    auto remote = RemoteUrl::parse(text, {});
    REQUIRE(!remote);
    CAPTURE(remote.error().what);
    CHECK(!remote.error().what.contains("secret"));
  }
}

TEST_CASE("http, git and local paths are refused unless they are allowed, and the text says so") {
  CHECK(code_of("http://host/x", {}) == Errc::denied);
  CHECK(code_of("git://host/x", {}) == Errc::denied);
  CHECK(code_of("/etc", {}) == Errc::denied);
  CHECK(code_of("file:///etc", {}) == Errc::denied);
  auto refused = RemoteUrl::parse("http://host/x", {});
  REQUIRE(!refused);
  CHECK(refused.error().what.contains("allowed are https://"));
  CHECK(RemoteUrl::parse("https://host/x", {}));
  CHECK(RemoteUrl::parse("git@host:x", {}));
}

TEST_CASE("a local path lies below an allowed folder, wherever links in it lead") {
  TempFolder folder;
  auto root = fs::canonical(folder.path());
  fs::create_directories(root / "git/team/one.git");
  fs::create_directories(root / "gitother");
  fs::create_directories(root / "secret.git");
  fs::create_directory_symlink(root / "secret.git", root / "git/out");
  fs::create_directory_symlink(root / "git/team", root / "git/in");
  UrlRules rules{.folders = {root / "git"}};
  auto id = [&](const std::string& text) {
    auto remote = RemoteUrl::parse(text, rules);
    return remote ? remote->url.repo_id() : std::string(name(remote.error().code));
  };
  auto one = (root / "git/team/one.git").string();
  CHECK(id(one) == one);
  CHECK(id("file://" + one) == one);
  CHECK(id("file://localhost" + one) == one);
  CHECK(id((root / "git/in/one.git").string()) == one);
  CHECK(id((root / "git/out").string()) == "denied");
  CHECK(id((root / "git/../secret.git").string()) == "denied");
  CHECK(id((root / "gitother").string()) == "denied");
  CHECK(id((root / "secret.git").string()) == "denied");
  CHECK(id((root / "nothing").string()) == "denied");
  CHECK(id((root / "git/nothing").string()) == "not_found");
  CHECK(id("file://elsewhere" + one) == "invalid");
  CHECK(id("file://relative") == "invalid");
}

TEST_CASE("a local repository is looked at again before git reads it") {
  TempFolder folder;
  auto root = fs::canonical(folder.path());
  UrlRules rules{.folders = {root / "git"}};
  auto write = [](const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  };
  auto opened = [&](const fs::path& path) {
    auto remote = RemoteUrl::parse(path.string(), rules);
    REQUIRE(remote);
    auto file = open_local(remote->url, rules);
    if (file) ::close(*file);
    return file ? "opened" : std::string(name(file.error().code));
  };
  auto bare = root / "git/bare.git";
  write(bare / "HEAD", "");
  fs::create_directories(bare / "objects/info");
  write(root / "secret/objects/info/packs", "");
  write(root / "git/other/objects/info/packs", "");
  CHECK(opened(bare) == "opened");
  write(bare / "objects/info/alternates", (root / "git/other/objects").string() + "\n");
  CHECK(opened(bare) == "opened");
  write(bare / "objects/info/alternates", (root / "secret/objects").string() + "\n");
  CHECK(opened(bare) == "denied");
  write(bare / "objects/info/alternates", "../../../secret/objects\n");
  CHECK(opened(bare) == "denied");
  fs::remove_all(bare / "objects");
  fs::create_directory_symlink(root / "secret/objects", bare / "objects");
  CHECK(opened(bare) == "denied");
  fs::remove(bare / "objects");
  write(bare / "commondir", (root / "secret").string() + "\n");
  CHECK(opened(bare) == "denied");

  auto tree = root / "git/tree";
  write(tree / ".git", "gitdir: " + (root / "git/other").string() + "\n");
  CHECK(opened(tree) == "opened");
  write(tree / ".git", "gitdir: ../../secret\n");
  CHECK(opened(tree) == "denied");
  fs::remove(tree / ".git");
  fs::create_directory_symlink(root / "git/other", tree / ".git");
  CHECK(opened(tree) == "denied");

  // One that becomes a link after it was parsed.
  auto remote = RemoteUrl::parse((root / "git/other").string(), rules);
  REQUIRE(remote);
  fs::rename(root / "git/other", root / "git/moved");
  fs::create_directory_symlink(root / "secret", root / "git/other");
  auto file = open_local(remote->url, rules);
  REQUIRE(!file);
  CHECK(file.error().code == Errc::denied);
}

TEST_CASE("a ref has a name that git allows and that is no option") {
  for (const char* ref : {"HEAD", "main", "refs/heads/main", "feature/x", "v1.0", "a+b%c", "ünï"})
    CHECK_MESSAGE(check_ref(ref), ref);
  for (std::string ref : {"",       "-x",       "--upload-pack=x",
                          "a b",    "a..b",     "a~1",
                          "a^",     "a:b",      "+a:b",
                          "a?",     "a*",       "a[",
                          "a\\b",   "@",        "a@{1}",
                          "/a",     "a/",       "a//b",
                          "a.lock", "a.lock/b", ".a",
                          "a/.b",   "a.",       "a\nb"})
    CHECK_MESSAGE(!check_ref(ref), ref);
  CHECK(!check_ref(std::string(300, 'x')));
}

TEST_CASE("different ids have different file names, which name no folder") {
  CHECK(file_name("github.com/owner/name") == "github.com+owner+name");
  CHECK(file_name("a/b+c") == "a+b%2Bc");
  CHECK(file_name("a/b%2Bc") == "a+b%252Bc");
  CHECK(file_name("/srv/x") == "+srv+x");
}
