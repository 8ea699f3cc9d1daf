#include "search/source/git.h"

#include <cstdlib>
#include <filesystem>

namespace warren::search {

ChildTerms git(const std::string& path, std::initializer_list<std::string> arguments) {
  ChildTerms terms;
  std::error_code ignored;
  auto folder = std::filesystem::canonical(path, ignored);
  if (exists(folder / ".git", ignored)) folder /= ".git";
  // Named, it is not looked for. GIT_CEILING_DIRECTORIES would end the way up too, but not where a
  // path has a colon.
  terms.argv = {"git", "--no-pager", "--git-dir=" + folder.string(), "-C", path};
  terms.argv.insert(terms.argv.end(), arguments);
  const char* programs = std::getenv("PATH");
  terms.environment = {
      std::string("PATH=") + (programs == nullptr ? "/usr/local/bin:/usr/bin:/bin" : programs),
      "LC_ALL=C",
      "HOME=/nonexistent",
      "GIT_CONFIG_NOSYSTEM=1",
      "GIT_CONFIG_GLOBAL=/dev/null",
      "GIT_ATTR_NOSYSTEM=1",
      "GIT_TERMINAL_PROMPT=0",
      "GIT_OPTIONAL_LOCKS=0",
      "GIT_NO_REPLACE_OBJECTS=1",
      "GIT_NO_LAZY_FETCH=1",
      "GIT_ALLOW_PROTOCOL=none",  // for a git that does not know the line above
      "GIT_CONFIG_COUNT=3",
      "GIT_CONFIG_KEY_0=safe.directory",
      "GIT_CONFIG_VALUE_0=*",
      "GIT_CONFIG_KEY_1=core.hooksPath",
      "GIT_CONFIG_VALUE_1=/dev/null",
      "GIT_CONFIG_KEY_2=core.fsmonitor",
      "GIT_CONFIG_VALUE_2=false",
  };
  return terms;
}

ChildTerms git_of_user(const std::string& path, std::initializer_list<std::string> arguments) {
  auto terms = git(path, arguments);
  std::erase_if(terms.environment, [](const std::string& variable) {
    return variable.starts_with("HOME=") || variable.starts_with("GIT_CONFIG_GLOBAL=");
  });
  for (const char* name : {"HOME", "XDG_CONFIG_HOME"})
    if (const char* value = std::getenv(name))
      terms.environment.push_back(fmt::format("{}={}", name, value));
  return terms;
}

}  // namespace warren::search
