#include "tests/fleet_real/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <random>
#include <unordered_map>

#include "proof/testkit/process.h"
#include "proof/testkit/run.h"
#include "proof/testkit/temp_folder.h"

// Last: it defines macros.
#include <doctest/doctest.h>

namespace warren::fleet {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t most_file = 512u << 10;
constexpr std::size_t most_lines = 40;  // that a word stands in: an answer shows them all

bool is_plain(std::string_view path) {
  auto is_fine = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::string_view("/._-+").contains(c);
  };
  // What git itself reads would change what it stores.
  return std::ranges::all_of(path, is_fine) && path.find(".git") == path.npos;
}

std::vector<CutFile> files_in(const fs::path& source) {
  std::vector<CutFile> files;
  for (const auto& entry : fs::recursive_directory_iterator(source)) {
    if (entry.is_symlink() || !entry.is_regular_file()) continue;
    auto path = fs::relative(entry.path(), source).string();
    if (!is_plain(path) || entry.file_size() == 0 || entry.file_size() > most_file) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    if (text.contains('\0')) continue;  // neither searched nor looked through
    files.push_back({std::move(path), std::move(text)});
  }
  std::ranges::sort(files, {}, &CutFile::path);
  return files;
}

std::uint64_t bytes_of(const std::vector<CutFile>& files) {
  std::uint64_t bytes = 0;
  for (const auto& file : files) bytes += file.text.size();
  return bytes;
}

// Of the files every n-th, so that there are at most so many bytes.
std::vector<CutFile> thinned(std::vector<CutFile> files, std::uint64_t bytes) {
  auto step = std::max<std::uint64_t>(1, (bytes_of(files) + bytes - 1) / bytes);
  std::vector<CutFile> some;
  for (std::size_t i = 0; i < files.size(); i += step) some.push_back(std::move(files[i]));
  return some;
}

// Log-normal, as sizes of repositories are; their sum is 1.
std::vector<double> shares_of(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, 1.3);
  std::vector<double> shares(count);
  double sum = 0;
  for (auto& share : shares) sum += share = std::exp(normal(random));
  for (auto& share : shares) share /= sum;
  return shares;
}

template <class Take>
void each_line(std::string_view text, Take take) {
  for (std::uint64_t number = 1; !text.empty(); ++number) {
    auto line = text.substr(0, text.find('\n'));
    take(number, line);
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
}

template <class Take>
void each_identifier(std::string_view text, Take take) {
  auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (std::size_t at = 0; at < text.size(); ++at) {
    auto end = at;
    while (end < text.size() && is_letter(text[end])) ++end;
    if (end > at && !std::isdigit(static_cast<unsigned char>(text[at])))
      take(text.substr(at, end - at));
    at = std::max(at, end);
  }
}

}  // namespace

Corpus Corpus::cut(const fs::path& source, std::size_t repos, std::uint64_t bytes,
                   std::uint64_t seed) {
  auto files = thinned(files_in(source), bytes);
  REQUIRE_MESSAGE(files.size() >= repos, files.size() << " files");
  Corpus corpus;
  auto all = static_cast<double>(bytes_of(files));
  auto left = files.size();
  for (auto share : shares_of(repos, seed)) {
    auto number = corpus.repos_.size();
    auto& repo = corpus.repos_.emplace_back(CutRepo{fmt::format("r{}", number)});
    bool is_last = number + 1 == repos;
    // At least one file for each of those that follow.
    auto others = repos - corpus.repos_.size();
    while (left > others &&
           (repo.files.empty() || is_last || static_cast<double>(repo.bytes) < share * all)) {
      auto& file = files[files.size() - left--];
      repo.bytes += file.text.size();
      repo.files.push_back(std::move(file));
    }
  }
  corpus.choose_words(seed);
  return corpus;
}

std::uint64_t Corpus::bytes() const {
  std::uint64_t sum = 0;
  for (const auto& repo : repos_) sum += repo.bytes;
  return sum;
}

void Corpus::choose_words(std::uint64_t seed) {
  std::unordered_map<std::string_view, std::size_t> counts;
  for (const auto& repo : repos_)
    for (const auto& file : repo.files)
      each_identifier(file.text, [&](std::string_view word) {
        if (word.size() >= 10 && word.size() <= 40) ++counts[word];
      });
  std::vector<std::string_view> rare;
  for (const auto& [word, count] : counts)
    if (count >= 2 && count <= most_lines / 2) rare.push_back(word);
  std::ranges::sort(rare);
  std::ranges::shuffle(rare, std::mt19937_64(seed));
  rare.resize(std::min<std::size_t>(rare.size(), 80));
  words_in_.resize(repos_.size());
  for (auto text : rare) {
    Word word{std::string(text)};
    std::size_t lines = 0;
    for (std::size_t place = 0; place < repos_.size(); ++place)
      for (const auto& file : repos_[place].files) {
        // Most files have none: then no line is looked at.
        if (file.text.find(word.text) == file.text.npos) continue;
        each_line(file.text, [&](std::uint64_t number, std::string_view line) {
          if (line.find(word.text) == line.npos) return;
          word.hits[place].emplace(file.path, number);
          ++lines;
        });
      }
    if (lines > most_lines) continue;  // as a part of longer ones
    for (const auto& [place, hits] : word.hits) words_in_[place].push_back(words_.size());
    words_.push_back(std::move(word));
  }
  REQUIRE_MESSAGE(words_.size() >= 20, words_.size() << " words");
}

void Corpus::write(const fs::path& folder) const {
  TempFolder temporary;
  for (const auto& repo : repos_) {
    std::ofstream out(temporary.path() / repo.name, std::ios::binary);
    out << "commit refs/heads/main\ncommitter a <a@b> 1700000000 +0000\ndata 1\nx\n";
    for (const auto& file : repo.files)
      out << "M 100644 inline " << file.path << "\ndata " << file.text.size() << '\n'
          << file.text << '\n';
  }
  auto script = fmt::format(
      "set -e; git init -q --bare -b main --template= '{0}/.new'; "
      "git -C '{0}/.new' config uploadpack.allowFilter true; "
      "cd '{1}'; for name in *; do cp -r '{0}/.new' \"{0}/$name\"; "
      "git --git-dir=\"{0}/$name\" fast-import --quiet < \"$name\"; done; rm -r '{0}/.new'",
      folder.string(), temporary.path().string());
  Process process({.argv = {"sh", "-c", script}, .log = folder.parent_path() / "cut.log"});
  int code = process.wait(5min);
  REQUIRE_MESSAGE(code == 0, process.log_text());
}

}  // namespace warren::fleet
