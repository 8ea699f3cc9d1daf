#include "search/source/repository.h"

#include <charconv>
#include <unordered_map>

#include "search/source/git.h"
#include "search/source/skip.h"

namespace warren::search {

namespace {

// "warren" of /src/warren, /src/warren/.git and /mirrors/warren.git/
std::string name_of(std::string_view path) {
  for (std::string_view end : {"/", "/.git", ".git"})
    while (path.size() > end.size() && path.ends_with(end)) path.remove_suffix(end.size());
  return std::string(path.substr(path.rfind('/') + 1));
}

Result<std::vector<std::string>> commits_of(const std::string& path,
                                            const std::vector<std::string>& refs) {
  // Names go in as input, not as arguments, so that none of them can be an option.
  std::string input;
  for (const auto& ref : refs) {
    if (ref.empty() || ref.starts_with('-') ||
        ref.find_first_of(std::string_view("\n\0", 2)) != ref.npos)
      return fail(Errc::invalid, "\"{}\" is not the name of a ref", ref);
    input += ref + "^{commit}\n";
  }
  auto output = run_child(git_in(path, {"cat-file", "--batch-check"}), input, 1u << 20);
  if (!output) return std::unexpected(output.error());
  std::vector<std::string> commits;
  std::string_view rest = *output;
  for (const auto& ref : refs) {
    auto line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    auto id = line.substr(0, line.find(' '));
    bool is_commit = line.substr(id.size()).starts_with(" commit ") &&
                     id.find_first_not_of("0123456789abcdef") == id.npos;
    if (!is_commit) return fail(Errc::not_found, "{} has no branch, tag or commit {}", path, ref);
    commits.emplace_back(id);
  }
  return commits;
}

std::string joined(const std::vector<std::string>& commits) {
  std::string all;
  for (const auto& commit : commits) all += (all.empty() ? "" : " ") + commit;
  return all;
}

// One line of ls-tree: mode, type, id, size, then a tab and the path.
struct Line {
  std::string_view mode, type, id, size, path;
};

Line parse(std::string_view text) {
  auto word = [&] {
    while (text.starts_with(' ')) text.remove_prefix(1);
    auto found = text.substr(0, text.find_first_of(" \t"));
    text.remove_prefix(found.size());
    return found;
  };
  Line line;
  line.mode = word();
  line.type = word();
  line.id = word();
  line.size = word();
  line.path = text.substr(std::min<std::size_t>(text.size(), 1));
  return line;
}

class Lister {
 public:
  Lister(Listing& listing, const SourceLimits& limits)
      : listing_(listing), limits_(limits), budget_(limits) {}

  Result<> add(const Line& line, std::uint16_t branch) {
    if (line.type == "commit") return skip(line.path, "a submodule");
    if (line.mode == "120000") return skip(line.path, "a symbolic link");
    std::size_t size = 0;
    auto [end, error] =
        std::from_chars(line.size.data(), line.size.data() + line.size.size(), size);
    if (error != std::errc() || end != line.size.data() + line.size.size())
      return fail(Errc::refused, "the repository is damaged: {} has no text", line.path);
    if (size > limits_.file_bytes) return skip(line.path, too_large(size, limits_.file_bytes));
    std::string key(line.id);
    key += line.path;
    auto [place, is_new] = places_.try_emplace(std::move(key), listing_.entries.size());
    if (is_new) {
      listing_.entries.push_back({std::string(line.path), std::string(line.id), size, {}});
      if (auto fits = budget_.add_file(line.path.size()); !fits) return fits;
    }
    listing_.entries[place->second].branches.push_back(branch);
    return budget_.add(2 * sizeof(branch));
  }

 private:
  Result<> skip(std::string_view path, std::string reason) {
    auto& known = skipped_[std::string(path)];
    if (known == reason) return ok;  // the same on another branch
    if (auto fits = budget_.add_file(path.size() + reason.size()); !fits) return fits;
    known = reason;
    listing_.source.skipped.push_back({std::string(path), std::move(reason)});
    return ok;
  }

  Listing& listing_;
  const SourceLimits& limits_;
  ListingBudget budget_;
  std::unordered_map<std::string, std::size_t> places_;
  std::unordered_map<std::string, std::string> skipped_;
};

}  // namespace

Result<Listing> list_repository(const std::string& path, std::vector<std::string> refs,
                                const SourceLimits& limits) {
  if (refs.empty()) refs.emplace_back("HEAD");
  if (refs.size() > UINT16_MAX) return fail(Errc::invalid, "{} refs are too many", refs.size());
  auto commits = commits_of(path, refs);
  if (!commits) return std::unexpected(commits.error());
  Listing listing;
  Lister lister(listing, limits);
  for (std::size_t i = 0; i < refs.size(); ++i) {
    auto terms = git_in(path, {"ls-tree", "-r", "-z", "-l", "--full-tree", (*commits)[i]});
    auto listed = each_record(std::move(terms), limits, [&](std::string_view line) {
      return lister.add(parse(line), static_cast<std::uint16_t>(i));
    });
    if (!listed) return std::unexpected(listed.error());
  }
  listing.source.name = name_of(path);
  listing.source.version = joined(*commits);
  listing.source.branches = std::move(refs);
  return listing;
}

Result<Source> read_repository(const std::string& path, std::vector<std::string> refs,
                               const SourceLimits& limits, const Take& take) {
  auto listing = list_repository(path, std::move(refs), limits);
  if (!listing) return std::unexpected(listing.error());
  auto& source = listing->source;
  auto read = read_entries(path, listing->entries, source.skipped, take);
  if (!read) return std::unexpected(read.error());
  return std::move(source);
}

Result<std::string> repository_version(const std::string& path,
                                       const std::vector<std::string>& refs) {
  auto commits = commits_of(path, refs.empty() ? std::vector<std::string>{"HEAD"} : refs);
  if (!commits) return std::unexpected(commits.error());
  return joined(*commits);
}

}  // namespace warren::search
