// Every query of a long list finds the files and lines that ripgrep finds, in the source of git (or
// of another Debian package: WARREN_CORPUS=postgresql-15) and in odd files.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "base/host/child.h"
#include "proof/testkit/temp_folder.h"
#include "search/query/search.h"
#include "search_fetched.h"
#include "search_fuzz_reference.h"
#include "search_kinds.h"
#include "search_odd_files.h"
#include "search_ripgrep_queries.h"

namespace warren::search {
namespace {

namespace fs = std::filesystem;
using Lines = FuzzReference::Lines;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t one_file_in = 10;
#else
constexpr std::size_t one_file_in = 1;
#endif

// A part of the corpus and the odd files, copied, for ripgrep; and read, for us.
struct Corpus {
  TempFolder folder;
  fs::path root = folder.path() / "corpus", path_list = folder.path() / "paths";
  bool is_fetched = true;
  std::vector<Document> documents;
  std::vector<std::string> paths;
  Source source;

  Corpus() {
    auto fetched = fetched_corpus(folder.path() / "log");
    is_fetched = fetched.is_fetched;
    copy_from(fetched.folder);
    write_odd_files(root / "odd");
    auto read = read_directory(root.string(), {}, [&](Document&& document) {
      documents.push_back(std::move(document));
      return Result<>(ok);
    });
    REQUIRE(read);
    source = std::move(*read);
    std::ofstream list(path_list);
    for (const auto& document : documents) {
      paths.push_back(document.path);
      list << document.path << '\n';
    }
  }

  void copy_from(const fs::path& from) const {
    std::size_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(from)) {
      if (entry.is_symlink() || !entry.is_regular_file() || count++ % one_file_in != 0) continue;
      auto to = root / fs::relative(entry.path(), from);
      fs::create_directories(to.parent_path());
      fs::copy_file(entry.path(), to);
    }
  }
};

// What rg prints: path NUL line ":" text.
Lines parsed(std::string_view output) {
  Lines lines;
  while (!output.empty()) {
    auto line = output.substr(0, output.find('\n'));
    output.remove_prefix(std::min(output.size(), line.size() + 1));
    auto end = line.find('\0');
    ensure(end != line.npos, "rg prints a path, NUL and a line");
    auto path = line.substr(0, end);
    if (path.starts_with("./")) path.remove_prefix(2);
    lines[std::string(path)].insert(
        static_cast<std::uint32_t>(std::stoul(std::string(line.substr(end + 1, 12)))));
  }
  return lines;
}

class Ripgrep {
 public:
  explicit Ripgrep(const Corpus& corpus) : corpus_(corpus) {
    for (const auto& document : corpus.documents) is_read_.insert(document.path);
  }

  // Runs what all the cases need, two at a time.
  void prepare(const std::vector<Case>& cases) {
    for (const auto& one : cases) need(one.want);
    std::vector<std::pair<const Run, Lines>*> runs;
    for (auto& run : runs_) runs.push_back(&run);
    std::atomic<std::size_t> next = 0;
    std::vector<std::string> wrong(runs.size());
    auto work = [&] {
      for (std::size_t i; (i = next++) < runs.size();) run(*runs[i], wrong[i]);
    };
    std::jthread other(work);
    work();
    other.join();
    for (const auto& what : wrong) REQUIRE_MESSAGE(what.empty(), what);
  }

  Lines answer(const Want& want) const {
    using Kind = Want::Kind;
    Lines all;
    switch (want.kind) {
      case Kind::in:
      case Kind::across:
      case Kind::path:
        return runs_.at({want.kind, want.pattern});
      case Kind::any:
        return either(runs_.at({Kind::in, want.pattern}), runs_.at({Kind::path, want.pattern}));
      case Kind::re2:
      case Kind::re2_across:
        return by_re2(want.pattern, want.kind == Kind::re2_across);
      case Kind::both:
        return both(answer(want.parts[0]), answer(want.parts[1]));
      case Kind::either:
        return either(answer(want.parts[0]), answer(want.parts[1]));
      case Kind::neither:
        for (const auto& path : corpus_.paths) all[path];
        for (const auto& [path, lines] : answer(want.parts[0])) all.erase(path);
        return all;
    }
    return all;
  }

 private:
  using Run = std::pair<Want::Kind, std::string>;

  void need(const Want& want) {
    using Kind = Want::Kind;
    for (const auto& part : want.parts) need(part);
    if (want.kind == Kind::any || want.kind == Kind::in) runs_[{Kind::in, want.pattern}];
    if (want.kind == Kind::any || want.kind == Kind::path) runs_[{Kind::path, want.pattern}];
    if (want.kind == Kind::across) runs_[{Kind::across, want.pattern}];
  }

  // Hidden files, nothing ignored, all of it text, no encoding guessed: as we read it.
  void run(std::pair<const Run, Lines>& run, std::string& wrong) const {
    const auto& [kind, pattern] = run.first;
    bool is_path = kind == Want::Kind::path;
    ChildTerms terms;
    // 1: no line is found.
    terms.argv = {"/bin/sh", "-c", "cd \"$0\" && rg \"$@\" || [ $? = 1 ]", corpus_.root.string()};
    for (const auto* word : {"--no-config", "-uuu", "--text", "--encoding=none", "--no-heading",
                             "--color=never", "-n", "-H", "--null", "-j1", "--max-filesize=4M"})
      terms.argv.emplace_back(word);
    if (kind == Want::Kind::across) terms.argv.emplace_back("-U");
    terms.argv.insert(terms.argv.end(), {"-e", pattern});
    terms.argv.push_back(is_path ? corpus_.path_list.string() : ".");
    terms.environment = {std::string("PATH=") + std::getenv("PATH")};
    auto output = run_child(terms, "", std::size_t{1} << 30);
    if (!output) {
      wrong = "rg -e " + pattern + ": " + output.error().what;
      return;
    }
    auto found = parsed(*output);
    if (is_path) {
      for (const auto& [list, numbers] : found)
        for (auto number : numbers) run.second[corpus_.paths[number - 1]];
      return;
    }
    std::erase_if(found, [&](const auto& file) { return !is_read_.contains(file.first); });
    run.second = std::move(found);
  }

  Lines by_re2(const std::string& pattern, bool is_across) const {
    std::map<const Query*, Meaning> meanings;
    Query query;
    query.kind = Query::Kind::pattern;
    if (is_across) query.pattern.field = Field::content;
    meanings[&query].is_multi_line = is_across;
    meanings[&query].regex = std::make_unique<RE2>("(?m)" + pattern);
    return FuzzReference(corpus_.documents, meanings).answer(query);
  }

  static Lines both(Lines a, const Lines& b) {
    std::erase_if(a, [&](const auto& file) { return !b.contains(file.first); });
    for (auto& [path, lines] : a) lines.insert(b.at(path).begin(), b.at(path).end());
    return a;
  }
  static Lines either(Lines a, const Lines& b) {
    for (const auto& [path, lines] : b) a[path].insert(lines.begin(), lines.end());
    return a;
  }

  const Corpus& corpus_;
  std::set<std::string> is_read_;
  std::map<Run, Lines> runs_;
};

Lines lines_of(const Answer& answer) {
  Lines lines;
  for (const auto& file : answer.files)
    for (auto& mine = lines[file.path]; const auto& line : file.lines) mine.insert(line.line);
  return lines;
}

std::string first_difference(const Lines& ours, const Lines& theirs) {
  auto missing = [](const Lines& from, const Lines& in) -> std::string {
    for (const auto& [path, lines] : from) {
      auto found = in.find(path);
      if (found == in.end()) return path;
      for (auto line : lines)
        if (!found->second.contains(line)) return fmt::format("{}:{}", path, line);
    }
    return "";
  };
  auto lost = missing(theirs, ours), extra = missing(ours, theirs);
  if (!lost.empty()) return "not found: " + lost;
  return extra.empty() ? "" : "not rg's: " + extra;
}

// Empty: as it must be.
std::string difference(const Case& one, const Answer& answer, Lines theirs) {
  auto ours = lines_of(answer);
  if (one.compare != Compare::some && !answer.is_complete) return answer.why_incomplete;
  switch (one.compare) {
    case Compare::lines:
      return first_difference(ours, theirs);
    case Compare::files: {
      for (auto& [path, lines] : theirs) lines.clear();
      for (auto& [path, lines] : ours)
        if (!lines.empty() && !one.query.contains("content:")) return "lines are shown";
      for (auto& [path, lines] : ours) lines.clear();
      return first_difference(ours, theirs);
    }
    case Compare::one:
      if (answer.files.size() != (theirs.empty() ? 0 : 1)) return "not one entry";
      return answer.files.empty() || answer.files[0].repo == "corpus" ? "" : "another repository";
    case Compare::some:
      break;
  }
  if (answer.is_complete || answer.why_incomplete != "matches") return "the limit is not told";
  auto rest = theirs;
  for (const auto& [path, lines] : ours) {
    if (!theirs.contains(path)) return "not rg's: " + path;
    for (auto line : lines)
      if (!theirs[path].contains(line)) return fmt::format("not rg's: {}:{}", path, line);
  }
  return "";
}

TEST_CASE("files and lines are ripgrep's") {
  Corpus corpus;
  auto cases = ripgrep_cases();
  REQUIRE(cases.size() >= 200);
  Ripgrep ripgrep(corpus);
  ripgrep.prepare(cases);
  auto kinds = kinds_of(corpus.documents, {}, (corpus.folder.path() / "segment").string());
  REQUIRE(kinds);
  std::size_t found = 0, place = 0, compared = 0;
  for (const auto& one : cases) {
    CAPTURE(one.query);
    auto query = parse_query(one.query);
    REQUIRE_MESSAGE(query, (query ? "" : query.error().what));
    auto theirs = ripgrep.answer(one.want);
    found += !theirs.empty();
    // Each in the index, and in one of the other kinds.
    for (auto kind : {std::size_t{0}, 1 + place++ % (kinds->lists.size() - 1)}) {
      const auto& [name, list] = kinds->lists[kind];
      CAPTURE(name);
      SearchTerms terms{.most_matches = 0,
                        .most_files = SIZE_MAX,
                        .lines_per_file = SIZE_MAX,
                        .answer_bytes = SIZE_MAX,
                        .threads = 2};
      auto answer = search(list, *query, terms);
      CHECK_MESSAGE(answer, (answer ? "" : answer.error().what));
      if (!answer) continue;
      auto wrong = difference(one, *answer, theirs);
      CHECK_MESSAGE(wrong.empty(), wrong);
      ++compared;
    }
  }
  MESSAGE(cases.size(), " queries, ", found, " of them with matches; ", compared,
          " answers compared over ", corpus.documents.size(), " files");
  CHECK(found * 10 > cases.size() * (one_file_in == 1 && corpus.is_fetched ? 8 : 6));
}

TEST_CASE("what is left out is what the rules say, and listed") {
  TempFolder folder;
  write_odd_files(folder.path() / "odd");
  auto source = read_directory(folder.path().string(), {}, [](Document&&) { return Result<>(ok); });
  REQUIRE(source);
  std::map<std::string, std::string> skipped;
  for (const auto& one : source->skipped) skipped[one.path] = one.reason;
  CHECK(skipped == std::map<std::string, std::string>{{"odd/nul_early.bin", "binary"},
                                                      {"odd/nul_at_8191.bin", "binary"},
                                                      {"odd/utf16.txt", "binary"},
                                                      {"odd/large.txt", "5 MB, more than 4 MB"}});
}

}  // namespace
}  // namespace warren::search
