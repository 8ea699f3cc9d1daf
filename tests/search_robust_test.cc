// Very large input, little memory and little time: answers within bounds, and all of it counted.
//
// WARREN_FILES=200000 makes the large repository as large as that.
#include "search_robust.h"

#include <mutex>
#include <random>
#include <thread>

#include "proof/testkit/process.h"
#include "search/index/symbols.h"

namespace warren::search {
namespace {

// Children of the engine may not write files, and these have to.
void shell(const Repository& repository, const std::string& command) {
  Process process({.argv = {"/bin/sh", "-c", "cd \"$0\" && " + command, repository.path.string()},
                   .log = repository.folder.path() / "log"});
  int code = process.wait(5min);
  REQUIRE_MESSAGE(code == 0, process.log_text());
}

TEST_CASE("a line of 50 MB is listed as left out, or searched within bounds when it may be") {
  Repository repository;
  std::string line = "first_word " + std::string(50u << 20, 'x') + " last_word";
  std::mt19937 random(1);
  for (std::size_t i = 20; i + 20 < line.size(); ++i)
    line[i] = static_cast<char>(random() % 6 == 0 ? ' ' : 'a' + random() % 26);
  repository.write("line.json", line);
  repository.write("a.c", "int first_word;\n");
  shell(repository, "git add -A && git -c user.name=a -c user.email=a@b commit -q -m x");
  auto usual = read_all(repository.path);
  REQUIRE(usual);
  CHECK(usual->documents.size() == 1);
  CHECK(usual->skipped["line.json"] == "50 MB, more than 4 MB");
  auto all = read_all(repository.path, {.file_bytes = 64u << 20});
  REQUIRE(all);
  REQUIRE(all->documents.size() == 2);
  auto segment = segment_of(all->documents, {});
  REQUIRE(segment);
  SegmentList list{*segment};
  auto found = timed(list, "last_word", {}, 10s).answer;
  REQUIRE(found.files.size() == 1);
  REQUIRE(found.files[0].lines.size() == 1);
  CHECK(found.files[0].lines[0].is_cut);
  CHECK(found.files[0].lines[0].text.size() <= 512);
  CHECK(found.files[0].lines[0].text.ends_with("last_word"));
  for (const char* query : {"a", "first_word.*last_word", "content:(?s)q.q.*_word",
                            "[a-e]{9}x?[^q]*$", "(a|b)c.*d.*_word$", "\\bzq\\b"}) {
    auto [answer, ms] = timed(list, query, {}, 100ms);
    MESSAGE(std::string(query), ": asked for 100 ms, took ", ms, " ms of CPU, ", answer.match_count,
            " matches, ", (answer.is_complete ? "complete" : answer.why_incomplete));
    for (const auto& file : answer.files)
      for (const auto& one : file.lines) CHECK(one.text.size() <= 512);
  }
}

TEST_CASE("a repository of very many files is read, counted and searched") {
  const char* wanted = std::getenv("WARREN_FILES");
  auto count = wanted == nullptr ? 20'000 : std::strtol(wanted, nullptr, 10);
  Repository repository;
  std::string stream = "commit refs/heads/main\ncommitter a <a@b> 0 +0000\ndata 1\nx\n";
  for (long i = 0; i < count; ++i) {
    auto text = fmt::format("int value_{};\nint common;\n", i);
    stream += fmt::format("M 644 inline d{}/e{}/f{}.c\ndata {}\n{}\n", i / 5000, i / 100 % 50, i,
                          text.size(), text);
  }
  std::ofstream(repository.folder.path() / "stream", std::ios::binary) << stream;
  shell(repository, "git fast-import --quiet < ../stream");
  auto start = Clock::now();
  auto list = update_repository(repository.path.string(), {"main"}, nullptr);
  REQUIRE_MESSAGE(list, (list ? "" : list.error().what));
  auto built = Clock::now();
  const auto& segment = *(**list)[0];
  CHECK(segment.file_count() == static_cast<std::uint32_t>(count));
  auto last = fmt::format("value_{}", count - 1);
  auto one = timed(**list, last, {}, 10s);
  CHECK(one.answer.match_count == 1);
  auto all = timed(**list, "common count:all", {.most_matches = 0}, 10s);
  CHECK(all.answer.match_count == static_cast<std::uint64_t>(count));
  auto path = timed(**list, fmt::format("file:f{}\\.c$", count - 1), {}, 10s);
  CHECK(path.answer.file_count == 1);
  MESSAGE(count, " files: read and indexed in ",
          duration_cast<std::chrono::milliseconds>(built - start).count(), " ms; one found in ",
          one.cpu_ms, " ms, all in ", all.cpu_ms, " ms, a path in ", path.cpu_ms, " ms of CPU; ",
          segment.memory().total() / static_cast<std::size_t>(count), " bytes for each");
  auto too_many = read_all(repository.path, {.files = 1000});
  REQUIRE(!too_many);
  CHECK(too_many.error().code == Errc::overloaded);
}

TEST_CASE("symbols that need more memory than they may leave the segment as it was") {
  std::vector<Document> documents;
  for (int i = 0; i < 200; ++i) {
    std::string text;
    for (int line = 0; line < 50; ++line) text += fmt::format("int f_{}_{}(void) {{}}\n", i, line);
    documents.push_back(doc(fmt::format("f{}.c", i), text));
  }
  auto segment = build(documents);
  auto refused = with_symbols(segment, {.memory_bytes = 100'000});
  REQUIRE(!refused);
  CHECK(refused.error().code == Errc::overloaded);
  CHECK(refused.error().what.contains("symbols need more than"));
  CHECK(!segment->has_symbols());
  CHECK(!has_children());
  CHECK(timed({segment}, "f_3_4", {}, 10s).answer.match_count > 0);
}

TEST_CASE("the index of paths is counted, shared by what comes of a segment, and goes with it") {
  std::vector<Document> documents;
  for (int i = 0; i < 5000; ++i)
    documents.push_back(doc(fmt::format("dir{}/file{}.c", i % 70, i), "x\n"));
  auto segment = build(documents);
  auto before = segment->memory();
  auto found = timed({segment}, "file:dir7/", {}, 10s).answer.file_count;
  CHECK(found > 0);
  CHECK(segment->memory().files == before.files);  // for one query it does not pay
  for (int i = 0; i < 3; ++i)
    CHECK(timed({segment}, "file:dir7/", {}, 10s).answer.file_count == found);
  auto after = segment->memory();
  CHECK(after.files > before.files + (1u << 20));  // a word for each key
  auto warm = cooled(*segment, {});
  REQUIRE(warm);
  CHECK((*warm)->memory().files == after.files);
}

// How late an answer is, in CPU time, where no clock is looked at for a while.
TEST_CASE("deadlines hold in long lists, many choices and patterns across lines") {
  std::mt19937 random(5);
  std::vector<Document> documents;
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz_ \n";
  for (int i = 0; i < 8; ++i) {
    std::string text(4u << 20, ' ');
    for (char& c : text) c = letters[random() % letters.size()];
    documents.push_back(doc(fmt::format("f{}.c", i), text));
  }
  auto segment = segment_of(documents, {});
  REQUIRE(segment);
  std::string choices = "(";
  for (int i = 0; i < 400; ++i)
    choices += fmt::format("{}{}{}{}", i == 0 ? "" : "|", static_cast<char>('a' + i % 26),
                           static_cast<char>('a' + i / 26), "qx[a-m]");
  choices += ")";
  std::string lists = "(";
  for (int i = 0; i < 300; ++i)
    lists += fmt::format("{}{}{}{}", i == 0 ? "" : "|", static_cast<char>('a' + i % 26),
                         static_cast<char>('a' + i / 26), static_cast<char>('a' + i % 7));
  lists += ")";
  const std::pair<std::string, std::string> queries[] = {
      {"many lists", lists},
      {"many choices", choices},
      {"across lines", "content:q[^z]*\\n[^z]*qqqq"},
      {"across lines, many states", "content:(a|b)[\\s\\S]{200}(c|d)[\\s\\S]{100}\\nqq"},
      {"many states", "(a|b).{60}(c|d).{60}(e|f)zz"},
      {"nested", "((a*b?)*c){3}(d|e.*f.*g.*h)+zzz"},
      {"every byte", "[a-z] count:all"}};
  for (const auto& [name, query] : queries) {
    auto [answer, ms] = timed({*segment}, query, {}, 20ms);
    MESSAGE(name, ": asked for 20 ms, took ", ms, " ms of CPU, of the clock ",
            duration_cast<std::chrono::milliseconds>(answer.stats.plan).count(), " + ",
            duration_cast<std::chrono::milliseconds>(answer.stats.find).count(), ", ",
            (answer.is_complete ? "complete" : answer.why_incomplete));
    CHECK(ms < 5000);
  }
}

TEST_CASE("a pattern that looks to the end of a long line from each of its matches ends in time") {
  auto segment = segment_of({doc("long.js", std::string(3 << 20, 'a') + "\nb\n")}, {});
  REQUIRE(segment);
  for (const char* query :
       {"content:a(?:.*z)?", "content:a(?:(?s:.)*z)?", "content:a(?:[^;]*z)?b*"}) {
    auto [answer, ms] = timed({*segment}, query, {.most_matches = 0}, 50ms);
    CAPTURE(query);
    CHECK(answer.why_incomplete == "time");
    CHECK(ms < 5000);  // to its end it would take hours
  }
}

TEST_CASE("a pattern across lines with very many places to look at ends in time") {
  std::string text;
  while (text.size() < 40u << 20) {
    for (int i = 0; i < 350; ++i) text += "foo\n";
    text += ";";
  }
  auto segment = segment_of({doc("many.c", text)}, {});
  REQUIRE(segment);
  auto [answer, ms] = timed({*segment}, "content:foo\\n(?:[^;]*z)?", {.most_matches = 0}, 50ms);
  CHECK(answer.why_incomplete == "time");
  CHECK(ms < 5000);  // to its end it would take four times as long
}

TEST_CASE("queries go on while segments are made, swapped and dropped") {
  std::mt19937 random(6);
  std::mutex mutex;
  auto make = [&](int number) {
    std::vector<Document> documents;
    for (int i = 0; i < 40; ++i)
      documents.push_back(
          doc(fmt::format("f{}.c", i), fmt::format("common\nversion_{}\n", number)));
    documents.push_back(doc("large.c", std::string(600'000, 'x') + "\ncommon\n"));
    auto kinds = segment_of(documents, {.threads = 1});
    REQUIRE(kinds);
    auto warm = cooled(**kinds, {});
    REQUIRE(warm);
    return std::make_shared<const SegmentList>(SegmentList{number % 2 == 0 ? *kinds : *warm});
  };
  SegmentListPtr current = make(0);
  std::atomic<bool> is_over = false;
  std::atomic<int> wrong = 0, asked = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&, i] {
      const char* texts[] = {"common count:all", "file:f1 common", "^common$"};
      auto query = parse_query(texts[i]);
      while (!is_over) {
        SegmentListPtr list;
        {
          std::lock_guard lock(mutex);
          list = current;
        }
        auto answer = search(*list, *query, {.most_matches = 0, .threads = 2});
        wrong += !answer || !answer->is_complete || answer->file_count != (i == 1 ? 11 : 41);
        ++asked;
      }
    });
  for (int number = 1; number < 20; ++number) {
    auto next = make(number);
    std::lock_guard lock(mutex);
    current = std::move(next);
  }
  while (asked < 30) std::this_thread::yield();
  is_over = true;
  threads.clear();
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace warren::search
