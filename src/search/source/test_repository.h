#pragma once
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/host/child.h"
#include "proof/testkit/temp_folder.h"

namespace warren::search {

namespace fs = std::filesystem;

// A repository made for a test.
struct Repository {
  TempFolder folder;
  fs::path path = folder.path() / "work";

  Repository() {
    fs::create_directory(path);
    run({"init", "-q", "-b", "main"});
  }
  std::string run(std::vector<std::string> arguments) const {
    ChildTerms terms;
    terms.argv = {"git", "-C", path.string()};
    terms.argv.insert(terms.argv.end(), arguments.begin(), arguments.end());
    terms.environment = {std::string("PATH=") + std::getenv("PATH"),
                         "HOME=/nonexistent",
                         "GIT_AUTHOR_NAME=a",
                         "GIT_AUTHOR_EMAIL=a@b",
                         "GIT_COMMITTER_NAME=a",
                         "GIT_COMMITTER_EMAIL=a@b",
                         "GIT_CONFIG_NOSYSTEM=1"};
    auto output = run_child(terms, "", 1u << 20);
    REQUIRE_MESSAGE(output, (output ? "" : output.error().what));
    return *output;
  }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name, std::ios::binary) << text;
  }
  void commit() const {
    run({"add", "-A"});
    run({"commit", "-q", "--allow-empty", "-m", "x"});
  }
};

}  // namespace warren::search
