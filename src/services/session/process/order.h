#pragma once
// What a shim is told to do, on its standard input; and what it answers, once, on its output.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "services/session/drivers/driver.h"

namespace warren::session {

// The same for all sandboxes of a machine.
struct ProcessTerms {
  std::filesystem::path root;                        // see yard.h
  std::filesystem::path program = "/proc/self/exe";  // the one that has the shim in it
  bool is_isolated = true;
  std::vector<std::filesystem::path> shown = {};  // to isolated sandboxes, read only
  std::string path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  unsigned short first_port = 20'000, last_port = 29'999;
  std::uint64_t memory = 2ull << 30;      // of data, for each process; times the resource factor
  int processes = 1024;                   // likewise
  std::uint64_t log_bytes = 8u << 20;     // kept of what it writes
  std::chrono::milliseconds grace = 10s;  // between SIGTERM and SIGKILL
  // How often the driver looks for shims that were killed, since those say nothing. Not part of an order.
  std::chrono::milliseconds look_at_locks = 1s;
};

struct Order {
  SandboxSpec spec = {};
  std::uint64_t generation = 0;
  std::string incarnation = {};
  ProcessTerms terms = {};
};
std::string to_json(const Order& order);
Result<Order> order_from(std::string_view json);

// Of a shim, one line: none when the sandbox starts.
std::string answer_json(const std::optional<Error>& error);
Result<> answer_from(std::string_view json);

// What the processes of a sandbox find in their environment: all of it. Nothing of the service's own
// is in it, and of what the request asks for nothing that names the sandbox can be overridden.
std::map<std::string, std::string> environment_of(const Order& order,
                                                  const std::map<Door, Endpoint>& endpoints);
// The words to execute. A word, or a part of one, that is {port}, {vscode_port}, {work_1_port} or
// {work_2_port} becomes the port that the sandbox has; so does a word that is just the number which a
// program would find in a pod (60000, 60001, 12000, 12001).
std::vector<std::string> words_of(const SandboxSpec& spec,
                                  const std::map<Door, Endpoint>& endpoints);

}  // namespace warren::session
