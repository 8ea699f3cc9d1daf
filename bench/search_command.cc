#include "search_command.h"

#include <charconv>
#include <cstdlib>

#include "base/host/child.h"
#include "measure.h"

namespace warren::bench {

namespace {

std::vector<std::string> environment() {
  std::vector<std::string> words{"LC_ALL=C.UTF-8", "GIT_CONFIG_NOSYSTEM=1",
                                 "GIT_CONFIG_GLOBAL=/dev/null"};
  for (const char* name : {"PATH", "HOME", "XDG_CACHE_HOME"})
    if (const char* value = std::getenv(name)) words.push_back(fmt::format("{}={}", name, value));
  return words;
}

}  // namespace

Result<Outcome> run_command(const Command& command) {
  Outcome outcome;
  auto start = Clock::now();
  // Ours writes its index.
  auto child = Child::start(
      {.argv = command.argv, .environment = environment(), .file_bytes = std::size_t{8} << 30});
  if (!child) return std::unexpected(child.error());
  std::vector<char> bytes(1u << 16);
  std::string_view nothing;
  for (;;) {
    auto size = child->exchange(nothing, true, bytes.data(), bytes.size(), start + command.longest);
    if (!size) return std::unexpected(size.error());
    if (*size == 0) break;
    outcome.output.append(bytes.data(), *size);
  }
  outcome.code = child->wait();
  outcome.seconds = seconds_since(start);
  // 1 means that nothing was found. xargs reports that as 123.
  if (outcome.code > 1 && outcome.code != 123)
    return fail(Errc::refused, "{}: {}", command.argv[0], child->complaint());
  return outcome;
}

Counts read_counts(const Command& command, std::string_view output) {
  Counts counts;
  bool is_path = command.prints == Command::Prints::paths;
  while (!output.empty()) {
    auto path = output.substr(0, output.find(is_path ? '\n' : '\0'));
    output.remove_prefix(std::min(output.size(), path.size() + 1));
    if (path.starts_with("./")) path.remove_prefix(2);
    std::uint64_t count = 1;
    if (!is_path) {
      auto number = output.substr(0, output.find('\n'));
      std::from_chars(number.data(), number.data() + number.size(), count);
      output.remove_prefix(std::min(output.size(), number.size() + 1));
    }
    counts.emplace(path, count);
  }
  return counts;
}

std::string difference(const Counts& ours, const Counts& theirs) {
  std::size_t files = 0;
  std::string example;
  auto look = [&](const Counts& here, const Counts& there, bool is_ours) {
    for (const auto& [path, count] : here) {
      auto found = there.find(path);
      std::uint64_t other = found == there.end() ? 0 : found->second;
      if (count == other || (!is_ours && other != 0)) continue;  // already seen from the other side
      if (++files == 1)
        example = fmt::format("{}: ours {}, theirs {}", path, is_ours ? count : other,
                              is_ours ? other : count);
    }
  };
  look(ours, theirs, true);
  look(theirs, ours, false);
  return files == 0 ? "" : fmt::format("{} files differ; {}", files, example);
}

}  // namespace warren::bench
