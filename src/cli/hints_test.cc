#include "cli/hints.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "base/causes.h"
#include "redis/causes.h"

namespace warren::cli {

namespace {

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// As the modules declare them.
std::vector<std::string> declared_causes() {
  std::vector<std::string> words;
  static const std::regex declaration(R"re(inline constexpr Cause \w+\(\s*"([^"]+)"\))re");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(WARREN_SOURCES)) {
    if (entry.path().extension() != ".h") continue;
    auto text = text_of(entry.path());
    for (std::sregex_iterator each(text.begin(), text.end(), declaration), end; each != end; ++each)
      words.push_back((*each)[1]);
  }
  return words;
}

}  // namespace

TEST_CASE("every cause that a module declares is in the table of hints") {
  auto words = declared_causes();
  CHECK(words.size() >= 30);
  for (const auto& word : words) CHECK_MESSAGE(cause_named(word), word);
  CHECK(!cause_named("nobody.declares_this"));
}

TEST_CASE("only what Redis did has a hint about Redis") {
  using namespace redis::causes;
  Error away{Errc::unavailable, unreachable, "h:1", "h:1: the connection was refused"};
  CHECK(hint_for(away).starts_with("start it (redis-server)"));
  CHECK(exit_for(away) == Exit::unreachable);

  // The same code, but not about Redis.
  CHECK(hint_for({Errc::unavailable, "the fleet is down"}) == "");
  Error full{Errc::unavailable, warren::causes::no_resources, "/tmp", "No space left on device"};
  CHECK(hint_for(full) == "");
  CHECK(exit_for(full) == Exit::failed);

  Error password{Errc::denied, wrong_password, "h:1", "no"};
  CHECK(hint_for(password).contains("REDIS_PASSWORD_FILE"));
  CHECK(exit_for(password) == Exit::denied);
  CHECK(hint_for({Errc::denied, not_permitted, "", "NOPERM"}).contains("ACL LOG"));
}

TEST_CASE("a call whose outcome nobody knows is not repeated blindly, whatever its cause") {
  Error lost{Errc::unknown_outcome, redis::causes::unreachable, "", "it was sent and not answered"};
  CHECK(hint_for(lost).contains("look before you repeat it"));
}

TEST_CASE("words that do not fit lead to the help of their own command") {
  Error words{Errc::invalid, warren::causes::bad_setting, "", "x"};
  CHECK(hint_for(words, "warren up").contains("--help` lists the settings"));
  CHECK(exit_for(words) == Exit::usage);
}

TEST_CASE("an error that a child met is the same in its parent") {
  Error taken{Errc::held_elsewhere, cause_named("instance.name_taken"), "a b", "it's\nin use"};
  REQUIRE(taken.cause);
  auto told = line_of(taken);
  CHECK(!told.contains('\n'));
  auto heard = error_in(told);
  CHECK(heard.code == taken.code);
  CHECK(heard.cause == taken.cause);
  CHECK(heard.subject == "a b");
  CHECK(heard.what == "it's?in use");

  auto plain = error_in(line_of({Errc::timeout, "late"}));
  CHECK(plain.code == Errc::timeout);
  CHECK(!plain.cause);
  CHECK(plain.what == "late");
}

}  // namespace warren::cli
