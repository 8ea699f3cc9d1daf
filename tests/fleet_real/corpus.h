#pragma once
// Repositories cut from the source of a Debian package, of very different sizes, and what is to be found
// in them: an oracle of plain code that looks through every line.
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace warren::fleet {

struct CutFile {
  std::string path, text;
};

struct CutRepo {
  std::string name;  // in the folder of the git server
  std::vector<CutFile> files = {};
  std::uint64_t bytes = 0;
};

// Of one repository: a path, and the number of a line.
using Hits = std::set<std::pair<std::string, std::uint64_t>>;

// A literal, and every line that has it: by the repository's place.
struct Word {
  std::string text;
  std::map<std::size_t, Hits> hits = {};
};

class Corpus {
 public:
  // So many repositories, of at most so many bytes together: of the files in the folder every n-th.
  // Neighbours stay together. The same for the same seed.
  static Corpus cut(const std::filesystem::path& source, std::size_t repos, std::uint64_t bytes,
                    std::uint64_t seed);

  const std::vector<CutRepo>& repos() const { return repos_; }
  // Identifiers that stand in a few lines each.
  const std::vector<Word>& words() const { return words_; }
  // Those that stand in that repository.
  const std::vector<std::size_t>& words_in(std::size_t repo) const { return words_in_[repo]; }
  std::uint64_t bytes() const;

  // Makes bare repositories of them in this folder, with one commit each.
  void write(const std::filesystem::path& folder) const;

 private:
  void choose_words(std::uint64_t seed);

  std::vector<CutRepo> repos_;
  std::vector<Word> words_;
  std::vector<std::vector<std::size_t>> words_in_;
};

}  // namespace warren::fleet
