#pragma once
// Test cases that are meant to fail, or to be killed. An ordinary run skips them; other test cases
// run them in a process of their own.
#include <doctest/doctest.h>

#include <filesystem>

#include "proof/testkit/process.h"
#include "proof/testkit/temp_folder.h"

namespace warren::inline testkit {

struct Victim {
  TempFolder folder;
  std::filesystem::path temp;  // contains the victim's own folders, which a failed test keeps
  Process process;

  explicit Victim(const std::string& test_case, std::vector<std::string> environment = {})
      : temp(folder.path() / "temp"), process(program(test_case, std::move(environment))) {}

  bool said(const std::string& text) const {
    return process.log_text().find(text) != std::string::npos;
  }

 private:
  Program program(const std::string& test_case, std::vector<std::string> environment) const {
    std::filesystem::create_directory(temp);
    environment.push_back("TMPDIR=" + temp.string());
    return {.argv = {std::filesystem::read_symlink("/proc/self/exe"), "--no-skip",
                     "--test-case=" + test_case},
            .log = folder.path() / "victim.log",
            .environment = std::move(environment)};
  }
};

}  // namespace warren::inline testkit
