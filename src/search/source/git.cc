#include "search/source/git.h"

namespace warren::search {

namespace {

// git opens files of the repository, any of which may be a pipe.
constexpr std::chrono::seconds longest_idleness{5};
// git maps packs, which takes address space and no memory.
constexpr std::size_t mapped_bytes = std::size_t{16} << 30;
constexpr std::size_t most_record_bytes = 1u << 20;
// An entry in a list that grows by doubling and is moved into another, with its id and branches,
// and its place in a map of keys.
constexpr std::size_t file_bytes = 768;

}  // namespace

ChildTerms child_of(const git::Command& command) {
  ChildTerms terms;
  terms.argv = command.argv;
  terms.idle = longest_idleness;
  for (const auto& [name, value] : command.environment)
    terms.environment.push_back(fmt::format("{}={}", name, value));
  return terms;
}

ChildTerms git_in(const std::string& path, std::vector<std::string> words, git::Obeys obeys) {
  return child_of(git::command(git::repository_in(path), std::move(words), obeys));
}

Result<> each_record(ChildTerms terms, const SourceLimits& limits,
                     const std::function<Result<>(std::string_view)>& take) {
  terms.memory_bytes = limits.memory_bytes + mapped_bytes;
  std::string unfinished;
  auto done = run_child(terms, "", [&](std::string_view piece) -> Result<> {
    for (;;) {
      auto end = piece.find('\0');
      if (unfinished.size() + std::min(end, piece.size()) > most_record_bytes)
        return fail(Errc::overloaded, "the repository has a path of more than a megabyte");
      if (end == piece.npos) break;
      // Nearly all of them are whole.
      auto record = piece.substr(0, end);
      if (!unfinished.empty()) unfinished += record;
      if (auto taken = take(unfinished.empty() ? record : unfinished); !taken) return taken;
      unfinished.clear();
      piece.remove_prefix(end + 1);
    }
    unfinished += piece;
    return ok;
  });
  if (!done || unfinished.empty()) return done;
  return fail(Errc::refused, "git ended in the midst of a path");
}

Result<> ListingBudget::add_file(std::size_t text_bytes) {
  if (files_.fetch_add(1) >= limits_.files)
    return fail(Errc::overloaded, "there are more than {} files", limits_.files);
  return add(file_bytes + 3 * text_bytes);
}

Result<> ListingBudget::add(std::size_t bytes) {
  if (bytes_.fetch_add(bytes) + bytes <= limits_.memory_bytes) return ok;
  return fail(Errc::overloaded, "the list of files alone takes more than {} MB",
              limits_.memory_bytes >> 20);
}

}  // namespace warren::search
