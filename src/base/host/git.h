#pragma once
// Runs git on repositories made by strangers. Warren runs git only this way.
//
//   what a repository may name               why it does not run
//   hooks, core.fsmonitor                    turned off by settings that stand above its own
//   remotes: ext::, promisor, ssh, vcs,      no transport is allowed, whatever its settings allow,
//     upload packs, credential helpers         and an object that is not there is not fetched
//   pagers, editors, aliases, gpg            no command below has one, or is one
//   filters, textconv, drivers, by any name  no command below looks into files of the working tree
//   core.excludesFile, core.attributesFile   ours stand above them: a pipe there would hold git up
//
// A repository's settings are as hostile as its files: a tool in a container that can write the
// workspace can write .git/config, even while git runs. So nothing depends on what the settings say
// at one moment. Commands that do read files, and would filter them, run with a PrivateGit.
//
// Rejected: turning off each configured filter, because one can be added between listing and use.
// Also rejected: attributes that turn filters off, because .git/info/attributes takes precedence.
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace warren::git {

struct Command {
  std::vector<std::string> argv;                   // the first word is looked up in $PATH
  std::map<std::string, std::string> environment;  // all of it
};

struct Repository {
  std::filesystem::path folder;  // .git (or a file that points to it), or a bare one
  std::filesystem::path tree;    // its working tree; empty for a bare repository
};

// The repository in exactly this folder, never one in a parent. Only git checks that it exists.
Repository repository_in(const std::filesystem::path& folder);
// The nearest repository with a working tree, searching from this folder upwards.
std::optional<Repository> repository_around(std::filesystem::path folder);

// Whose settings are obeyed besides ours. A person's own settings are trusted: the ignore rules, if
// their file has an absolute path and is a regular file, and in a PrivateGit the filters. No setting
// of the repository runs a program in either case, nor names a file of rules.
enum class Obeys { nobody, person };

// Allows cat-file, check-ignore, for-each-ref, ls-files, ls-tree, rev-parse, update-ref, and
// worktree add with --no-checkout. Any other command aborts, because it might read files.
Command command(const Repository& repository, std::vector<std::string> words,
                Obeys obeys = Obeys::nobody);
Command version_command();

// Where the parts of a repository are, and its current commit.
struct Layout {
  std::filesystem::path folder;  // HEAD and index of one working tree
  std::filesystem::path common;  // everything else
  std::string head;              // empty if there is no commit yet
};
Command layout_command(const Repository& repository);
Result<Layout> parse_layout(std::string_view answer);  // the output of that command

// 40 or 64 digits.
bool is_hash(std::string_view text);

// A folder with our own settings that git takes for the repository's. From the repository it takes
// the objects, an index and the rules in info/exclude, but neither settings nor the attributes
// file. No filter is configured, so none runs: a Git LFS file stays the pointer that was committed.
class PrivateGit {
 public:
  static Result<PrivateGit> create(const Layout& layout);
  PrivateGit(PrivateGit&& other) noexcept
      : layout_(std::move(other.layout_)), folder_(std::exchange(other.folder_, {})) {}
  PrivateGit& operator=(PrivateGit&&) = delete;
  ~PrivateGit();  // removes it

  // Checks out the commit into an empty working tree, and writes its index.
  Command checkout(const std::filesystem::path& tree, const std::string& commit) const;
  // Prints something if anything in the tree differs from the commit. Skips submodules, because
  // they have settings of their own.
  Command status(const std::filesystem::path& tree) const;

 private:
  PrivateGit(Layout layout, std::filesystem::path folder)
      : layout_(std::move(layout)), folder_(std::move(folder)) {}
  Command command(const std::filesystem::path& tree, std::vector<std::string> words,
                  Obeys obeys) const;

  Layout layout_;
  std::filesystem::path folder_;  // empty after a move
};

}  // namespace warren::git
