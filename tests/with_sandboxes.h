#pragma once
// Sandboxes of processes, as a replica makes them: real shims, real namespaces, an agent in Python. What
// lives at the end of a test is ended.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "net/http/pool.h"
#include "proof/testkit/run.h"
#include "proof/testkit/temp_folder.h"
#include "services/session/names.h"
#include "services/session/process/process_driver.h"

namespace warren::session {

namespace fs = std::filesystem;

// Ends what is in a yard, however the test ended.
class YardKeeper {
 public:
  explicit YardKeeper(fs::path root) : root_(std::move(root)) {}
  ~YardKeeper() {
    auto yard = Yard::open(root_);
    if (!yard) return;
    auto is_over = [&] {
      bool is_left = false;
      for (const auto& name : yard->names()) {
        if (!yard->is_locked(name)) continue;
        is_left = true;
        if (auto state = yard->state(name))
          std::ignore = yard->tell(name, fmt::format("end {} ended\n", state->incarnation));
      }
      return !is_left;
    };
    for (auto deadline = Clock::now() + 30s; !is_over() && Clock::now() < deadline;)
      ::usleep(20'000);
  }
  const fs::path& root() const { return root_; }

 private:
  fs::path root_;
};

// A file for each session's lock, where sandboxes may look and not write.
inline void add_judge(const fs::path& folder, const std::string& session_id) {
  fs::create_directories(folder);
  auto command = fmt::format("sh -c 'printf %s \"$1\" | sha1sum | cut -c1-40' sh '{}'", session_id);
  std::unique_ptr<FILE, int (*)(FILE*)> out(::popen(command.c_str(), "r"), ::pclose);
  std::array<char, 64> name{};
  REQUIRE(std::fgets(name.data(), name.size(), out.get()));
  std::ofstream(folder / std::string(name.data()).substr(0, 40)) << session_id;
}

inline fs::path agent_file() { return fs::path(WARREN_TESTS) / "session_agent.py"; }

inline SandboxSpec agent_spec(const std::string& session_id,
                              std::vector<std::string> options = {}) {
  SandboxSpec spec{.session_id = session_id,
                   .name = name_of(session_id),
                   .runtime_id = runtime_id_of("default", session_id),
                   .image = "test"};
  spec.command = {"python3", agent_file()};
  for (auto& word : options) spec.command.push_back(std::move(word));
  spec.command.push_back("{port}");
  return spec;
}

inline ProcessTerms terms_in(const fs::path& root) {
  ProcessTerms terms;
  terms.root = root;
  terms.program = WARREN_BINARY;
  terms.shown = {fs::path(WARREN_TESTS)};
  terms.grace = 2s;
  // Tests run beside each other; these ports neither the kernel nor the testkit gives out.
  terms.first_port = static_cast<unsigned short>(61'000 + (::getpid() % 56) * 80);
  terms.last_port = static_cast<unsigned short>(terms.first_port + 79);
  return terms;
}

}  // namespace warren::session
