#include "search_queries.h"

#include <fmt/format.h>

#include <initializer_list>

#include "search_peer.h"

namespace warren::bench {

namespace {

using Words = std::vector<std::string>;

// How a pattern is meant.
enum class Form : std::uint8_t { literal, any_case, regex };

struct Patterns {
  Form form = Form::literal;
  Words all = {};
};

class Asker {
 public:
  explicit Asker(const Corpus& corpus) : corpus_(corpus) {}

  // With our file limits: 2 MB, nothing ignored, hidden files included.
  Command rg(const Patterns& patterns, const Words& more = {},
             const std::string& where = ".") const {
    Words argv = rg_in_folder();
    argv.insert(argv.end(), {"-c", "-0", "-H"});
    argv.insert(argv.end(), more.begin(), more.end());
    if (patterns.form == Form::literal) argv.emplace_back("-F");
    if (patterns.form == Form::any_case) argv.insert(argv.end(), {"-F", "-i"});
    for (const auto& pattern : patterns.all) argv.insert(argv.end(), {"-e", pattern});
    argv.insert(argv.end(), {"--", where});
    return {.argv = std::move(argv)};
  }
  // In the working tree, without larger files.
  Command git(const Patterns& patterns, const Words& where = {}, const Words& more = {}) const {
    Words argv = git_in_folder();
    argv.insert(argv.end(), {"grep", "--threads", "2", "-c", "-z", "-I"});
    argv.insert(argv.end(), more.begin(), more.end());
    if (patterns.form == Form::literal) argv.emplace_back("-F");
    if (patterns.form == Form::any_case) argv.insert(argv.end(), {"-F", "-i"});
    if (patterns.form == Form::regex) argv.emplace_back("-P");
    for (const auto& pattern : patterns.all) argv.insert(argv.end(), {"-e", pattern});
    argv.emplace_back("--");
    argv.insert(argv.end(), where.begin(), where.end());
    argv.insert(argv.end(), larger_.begin(), larger_.end());
    return {.argv = std::move(argv)};
  }
  // On the folder, so that changed files would be seen. The index is next to the corpus.
  Command ours(const std::string& query) const {
    auto cache = corpus_.folder.substr(0, corpus_.folder.rfind('/')) + "/.search";
    return {.argv = {"env", "XDG_CACHE_HOME=" + cache, WARREN_BINARY, "search", "-c",
                     "--max-file-size", "2M", corpus_.folder, query}};
  }
  void leave_out(const Words& paths) {
    for (const auto& path : paths) larger_.push_back(":(top,literal,exclude)" + path);
  }
  // A shell runs `text` in the folder. "RG" stands for rg with the file limits.
  Command shell(std::string text, Command::Prints prints = Command::Prints::counts) const {
    constexpr std::string_view name = "RG";
    std::string flags = "rg";
    for (const auto& flag : limits_) flags += " " + flag;
    for (auto at = text.find(name); at != text.npos; at = text.find(name, at + flags.size()))
      text.replace(at, name.size(), flags);
    return {.argv = {"env", "-C", corpus_.folder, "sh", "-c", text}, .prints = prints};
  }
  std::string git_words() const {
    return fmt::format("git --git-dir={} --work-tree=.", corpus_.repository);
  }

 private:
  Words rg_in_folder() const {
    Words argv{"env", "-C", corpus_.folder, "rg"};
    argv.insert(argv.end(), limits_.begin(), limits_.end());
    return argv;
  }
  Words git_in_folder() const {
    return {"env", "-C", corpus_.folder, "git", "--git-dir=" + corpus_.repository, "--work-tree=."};
  }

  const Corpus& corpus_;
  Words limits_{"--no-config", "--no-ignore", "--hidden", "-j2", "--max-filesize", "2M"};
  Words larger_;
};

std::string with_case(const std::string& query, bool is_any) {
  return query + (is_any ? " case:no" : " case:yes");
}

// What a class searches for in either corpus.
struct Plain {
  const char* name;
  Form form;
  const char *in_linux, *in_postgresql;
  std::optional<double> target_ms = {};
};

const Plain plain_classes[] = {
    {"01_no_match", Form::literal, "zqxjkvbnw", "zqxjkvbnw", 0.05},
    {"02_rare_word", Form::literal, "crazy", "crazy"},
    {"03_rare_identifier", Form::literal, "hrtimer_start_range_ns", "heap_abort_speculative", 0.2},
    {"04_common_identifier", Form::literal, "copy_from_user", "ereport", 2},
    {"05_very_common_word", Form::literal, "return", "return", 60},
    {"06_phrase", Form::literal, "static int", "static int"},
    {"07_three_characters", Form::literal, "err", "err"},
    {"07_signs", Form::literal, "i++", "i++"},
    {"08_two_characters", Form::literal, "fo", "fo", 80},
    {"09_any_case_kmalloc", Form::any_case, "kmalloc", "palloc"},
    {"10_any_case_mutex_lock", Form::any_case, "mutex_lock", "lwlockacquire", 8},
    {"11_any_case_linus", Form::any_case, "linus", "stonebraker"},
    {"12_regex_two_literals", Form::regex, R"(kmalloc\([^,]+,\s*GFP_ATOMIC\))",
     R"(ereport\([^,]+,\s*errcode\()"},
    {"13_regex_alternation", Form::regex, "(read|write)_seq(lock|unlock)",
     "(heap|index)_(open|close)", 2},
    {"14_regex_class_between", Form::regex, R"(struct\s+\w+_operations\s+\w+\s*=)",
     R"(static\s+\w+Data\s+\w+\s*=)"},
    {"15_regex_anchored", Form::regex, R"(^#define\s+[A-Z_]+_MAX\b)",
     R"(^#define\s+[A-Z_]+_MAX\b)"},
    {"16_regex_no_literal", Form::regex, "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}",
     "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}", 150},
    {"17_regex_weak_literal", Form::regex, R"(\bint\s+\w+\s*=\s*0;)", R"(\bint\s+\w+\s*=\s*0;)"},
};

QueryClass plain_class(const Asker& asker, const Plain& plain, bool is_linux) {
  std::string pattern = is_linux ? plain.in_linux : plain.in_postgresql;
  bool is_regex = plain.form == Form::regex;
  bool is_quoted = !is_regex && pattern.find_first_of(" +") != pattern.npos;
  Patterns patterns{plain.form, {pattern}};
  bool is_any = plain.form == Form::any_case;
  return {.name = plain.name,
          .query = with_case(is_quoted ? "\"" + pattern + "\"" : pattern, is_any),
          .peer_query = is_quoted ? with_case(zoekt_literal(pattern), is_any) : "",
          .rg = asker.rg(patterns),
          .git = asker.git(patterns),
          .target_ms = plain.target_ms};
}

// Classes with filters and operators.
std::vector<QueryClass> joined_classes(const Asker& asker, bool is_linux) {
  auto pick = [&](const char* in_linux, const char* in_postgresql) -> std::string {
    return is_linux ? in_linux : in_postgresql;
  };
  std::vector<QueryClass> classes;
  auto word = pick("netif_rx", "palloc");
  auto folder = pick("drivers/net", "src/backend");
  classes.push_back({.name = "18_in_files",
                     .query = with_case(word + " file:" + folder + R"(/.*\.c$)", false),
                     .rg = asker.rg({.all = {word}}, {"-g", "**/" + folder + "/**/*.c"}),
                     .git = asker.git({.all = {word}}, {":(glob)**/" + folder + "/**/*.c"})});
  auto first = pick("mutex_lock", "LWLockAcquire"),
       second = pick("mutex_trylock", "LWLockHeldByMe");
  classes.push_back({.name = "19_both",
                     .query = with_case(first + " " + second, false),
                     .rg = asker.shell(fmt::format("RG -F -l -0 {0} . | xargs -0 rg -F -l -0 {1} | "
                                                   "xargs -0 rg -F -c -0 -H -e {0} -e {1}",
                                                   first, second)),
                     .git = asker.git({.all = {first, second}}, {}, {"--all-match"})});
  word = pick("kmalloc", "palloc");
  folder = pick("drivers", "contrib");
  classes.push_back({.name = "20_not_in_files",
                     .query = with_case(word + " -file:" + folder, false),
                     .rg = asker.rg({.all = {word}}, {"-g", "!*" + folder + "*"}),
                     .git = asker.git({.all = {word}}, {":(exclude,glob)**/*" + folder + "*",
                                                        ":(exclude,glob)**/*" + folder + "*/**"})});
  classes.push_back(
      {.name = "21_symbol",
       .query = with_case("sym:" + pick("hrtimer_start_range_ns", "heap_insert"), false),
       .over = Over::symbols});
  std::string lines = R"(\{\n\s*return\s0;\n\})";
  classes.push_back({.name = "22_lines",
                     .query = with_case(lines, false),
                     .rg = asker.rg({Form::regex, {lines}}, {"-U", "--count-matches"}),
                     .counts_matches = true});
  std::string path = pick(R"(sched.*\.c$)", R"(heap.*\.c$)");
  classes.push_back(
      {.name = "23_file_name",
       .query = with_case("file:" + path, false),
       .rg = asker.shell(fmt::format("RG --files . | rg '{}'", path), Command::Prints::paths),
       .git = asker.shell(fmt::format("{} ls-files | grep -E '{}'", asker.git_words(), path),
                          Command::Prints::paths)});
  Words eight = is_linux
                    ? Words{"kmalloc",  "kzalloc",  "vmalloc",      "kcalloc",
                            "kvmalloc", "krealloc", "devm_kzalloc", "kmemdup"}
                    : Words{"palloc",  "palloc0",  "repalloc",           "pfree",
                            "pstrdup", "psprintf", "MemoryContextAlloc", "MemoryContextDelete"};
  std::string either;
  for (const auto& one : eight) either += (either.empty() ? "" : " or ") + one;
  classes.push_back({.name = "24_either_of_eight",
                     .query = with_case("(" + either + ")", false),
                     .rg = asker.rg({.all = eight}),
                     .git = asker.git({.all = eight})});
  return classes;
}

std::vector<QueryClass> repo_classes(const Asker& asker, bool is_linux) {
  std::string word = is_linux ? "copy_from_user" : "ereport", repo = is_linux ? "fs" : "contrib";
  Patterns patterns{.all = {word}};
  return {{.name = "25_repo_filter",
           .query = with_case(fmt::format("{} repo:^{}(/|$)", word, repo), false),
           .rg = asker.rg(patterns, {}, repo),
           .git = asker.git(patterns, {repo}),
           .over = Over::repos},
          {.name = "25_all_repos",
           .query = with_case(word, false),
           .rg = asker.rg(patterns),
           .git = asker.git(patterns),
           .over = Over::repos},
          {.name = "26_everything", .query = ".*", .is_refused = true},
          {.name = "26_nothing", .query = "", .is_refused = true}};
}

}  // namespace

std::vector<QueryClass> query_classes(const Corpus& corpus, const Words& larger) {
  Asker asker(corpus);
  asker.leave_out(larger);
  std::vector<QueryClass> classes;
  for (const auto& plain : plain_classes)
    classes.push_back(plain_class(asker, plain, corpus.is_linux()));
  for (auto& more : joined_classes(asker, corpus.is_linux())) classes.push_back(std::move(more));
  for (auto& more : repo_classes(asker, corpus.is_linux())) classes.push_back(std::move(more));
  for (auto& one : classes) {
    if (!corpus.is_linux()) one.target_ms.reset();  // targets are for a GB of text
    if (one.over == Over::one && !one.is_refused) one.ours = asker.ours(one.query);
  }
  return classes;
}

}  // namespace warren::bench
