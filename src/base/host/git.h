#pragma once
// git on repositories that strangers made: the one way in which any part of Warren runs it.
//
//   what a repository may name               why it does not run
//   hooks, core.fsmonitor                    turned off by settings that stand above its own
//   remotes: ext::, promisor, ssh, vcs,      no transport is allowed, whatever its settings allow,
//     upload packs, credential helpers         and an object that is not there is not fetched
//   pagers, editors, aliases, gpg            no command below has one, or is one
//   filters, textconv, drivers, by any name  no command below looks into files of the working tree
//   core.excludesFile, core.attributesFile   ours stand above them: a pipe there would hold git up
//
// A repository's settings are hostile input like its files: a tool in a container that may write
// the workspace may write .git/config, also while git runs. So nothing depends on what they say at
// one moment. Commands that do look into files, and would filter them, run with a PrivateGit.
//
// Rejected: turning off each filter that is configured. Between the list and its use there is time
// to add one. Also rejected: attributes that turn filters off, for .git/info/attributes is above.
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace warren::git {

struct Command {
  std::vector<std::string> argv;                   // the first is looked up in $PATH
  std::map<std::string, std::string> environment;  // all of it
};

struct Repository {
  std::filesystem::path folder;  // .git, which may be a file that names the folder; or a bare one
  std::filesystem::path tree;    // its working tree; empty when it is bare
};

// The one in exactly this folder, never one around it. That it is one is found out by git.
Repository repository_in(const std::filesystem::path& folder);
// That of the nearest folder, from this one upwards, which has a working tree.
std::optional<Repository> repository_around(std::filesystem::path folder);

// Whose settings are obeyed besides ours. A person's own settings are trusted: the ignore rules, if
// their file has an absolute path and is a regular file, and in a PrivateGit the filters. No setting
// of the repository runs a program in either case, nor names a file of rules.
enum class Obeys { nobody, person };

// cat-file, check-ignore, for-each-ref, ls-files, ls-tree, rev-parse, update-ref, and worktree add
// with --no-checkout. Others may read texts, and are a broken invariant.
Command command(const Repository& repository, std::vector<std::string> words,
                Obeys obeys = Obeys::nobody);
Command version_command();

// Where a repository has its parts, and its commit.
struct Layout {
  std::filesystem::path folder;  // HEAD and index: those of one working tree
  std::filesystem::path common;  // everything else
  std::string head;              // empty: there is no commit yet
};
Command layout_command(const Repository& repository);
Result<Layout> parse_layout(std::string_view answer);  // of that command

// 40 or 64 digits.
bool is_hash(std::string_view text);

// A folder with settings of ours that git takes for the repository's. Of the repository it has the
// objects, an index and the rules of info/exclude; neither its settings nor its attributes file.
// No filter is configured, so none runs: a file of Git LFS is the pointer that was committed.
class PrivateGit {
 public:
  static Result<PrivateGit> create(const Layout& layout);
  PrivateGit(PrivateGit&& other) noexcept
      : layout_(std::move(other.layout_)), folder_(std::exchange(other.folder_, {})) {}
  PrivateGit& operator=(PrivateGit&&) = delete;
  ~PrivateGit();  // removes it

  // Makes the files of the commit in an empty working tree, and its index.
  Command checkout(const std::filesystem::path& tree, const std::string& commit) const;
  // Says something if anything in the tree is not as committed. Submodules, which have settings of
  // their own, are not looked at.
  Command status(const std::filesystem::path& tree) const;

 private:
  PrivateGit(Layout layout, std::filesystem::path folder)
      : layout_(std::move(layout)), folder_(std::move(folder)) {}
  Command command(const std::filesystem::path& tree, std::vector<std::string> words,
                  Obeys obeys) const;

  Layout layout_;
  std::filesystem::path folder_;  // empty: moved from
};

}  // namespace warren::git
