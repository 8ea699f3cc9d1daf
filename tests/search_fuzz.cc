// Compares the search engine with RE2 on random queries over random and real texts, in every kind
// of segment, until the time is over or an answer is wrong:
//
//   search_fuzz [--seconds 60] [--seed N] [--texts FOLDER]
//
// Every round has a seed of its own, which a wrong answer names: --seed N begins with that round.
#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <optional>

#include "base/clock.h"
#include "proof/testkit/temp_folder.h"
#include "search/query/matcher.h"
#include "search_fuzz_queries.h"
#include "search_fuzz_reference.h"
#include "search_kinds.h"

namespace warren::search {
namespace {

struct Options {
  std::uint64_t seconds = 60;
  std::uint64_t seed = 1;
  std::string texts = WARREN_TEXTS;
};

struct Tally {
  std::uint64_t rounds = 0, queries = 0, answers = 0, found = 0, refused = 0, slow = 0;
};

class Round {
 public:
  Round(std::uint64_t seed, const std::vector<std::string>& real, const std::string& file,
        Tally& tally)
      : dice_(seed), seed_(seed), tally_(tally) {
    // From 700 KB on regular expressions are compiled for Hyperscan, from 512 KB there is an index.
    documents_ = random_documents(dice_, real, 300'000 + dice_.below(1'500'000));
    constexpr std::size_t block_sizes[] = {64, 512, 512, 4096};
    BuildTerms terms{.threads = 1, .block_bytes = dice_.of(block_sizes)};
    auto kinds = kinds_of(documents_, terms, file);
    ensure(kinds.has_value(), "segments can be made");
    kinds_ = std::move(*kinds);
  }

  // False: an answer was wrong, and said so.
  bool run(Clock::time_point until) {
    for (int i = 0; i < 40 && Clock::now() < until; ++i)
      if (!ask()) return false;
    return true;
  }

 private:
  QueryPtr random_pattern() {
    auto query = std::make_unique<Query>();
    query->kind = Query::Kind::pattern;
    auto& pattern = query->pattern;
    auto& meaning = meanings_[query.get()];
    RandomTwin twins(dice_, documents_);
    constexpr Field fields[] = {Field::any, Field::any, Field::content, Field::content,
                                Field::path};
    pattern.field = dice_.of(fields);
    pattern.ignores_case = meaning.folds = dice_.one_in(2);
    pattern.is_regex = dice_.below(3) != 0;
    RE2::Options options;
    options.set_log_errors(false);
    options.set_max_mem(64 << 20);
    if (pattern.is_regex) {
      meaning.is_multi_line = dice_.one_in(6);
      auto twin = twins.regex(meaning.folds, meaning.is_multi_line);
      pattern.text = twin.text;
      meaning.regex = std::make_unique<RE2>("(?m)" + twin.meaning, options);
    } else {
      pattern.text = dice_.one_in(3) ? random_line(dice_, 8, 6) : twins.sample(10);
      if (pattern.text.empty()) pattern.text = "foo";
      meaning.is_multi_line = pattern.text.contains('\n');
      meaning.literal = pattern.text;
      auto folded = twins.folded_literal(pattern.text);
      if (meaning.folds && folded) meaning.regex = std::make_unique<RE2>(*folded, options);
    }
    return query;
  }

  QueryPtr random_query(int depth) {
    if (depth == 0 || dice_.one_in(3)) return random_pattern();
    auto query = std::make_unique<Query>();
    constexpr Query::Kind kinds[] = {Query::Kind::both, Query::Kind::both, Query::Kind::either,
                                     Query::Kind::neither};
    query->kind = dice_.of(kinds);
    auto count = query->kind == Query::Kind::neither ? 1 : 2 + dice_.below(2);
    for (; count > 0; --count) query->parts.push_back(random_query(depth - 1));
    return query;
  }

  bool ask() {
    meanings_.clear();
    ParsedQuery query;
    query.root = random_query(static_cast<int>(dice_.below(3)));
    for (const auto& [part, meaning] : meanings_)
      if (meaning.regex && !meaning.regex->ok()) return true;  // too large for RE2 itself
    // From each of its matches a pattern may look ahead to the end of the text: some take hours.
    auto until = Clock::now() + std::chrono::seconds(2);
    Watch watch(until, nullptr);
    for (auto& [part, meaning] : meanings_) meaning.watch = &watch;
    ++tally_.queries;
    bool is_right = ask_all(query, until, watch);
    tally_.slow += watch.why() != Stop::none;
    return is_right;
  }

  bool ask_all(const ParsedQuery& query, Clock::time_point until, Watch& watch) {
    auto terms = everything_;
    terms.threads = 1 + static_cast<int>(dice_.below(2));
    terms.deadline = until;
    std::optional<FuzzReference::Lines> expected;
    for (const auto& [name, list] : kinds_.lists) {
      auto answer = search(list, query, terms);
      if (!answer && answer.error().what.contains("would list everything")) {
        ++tally_.refused;
        return true;
      }
      if (!answer) return is_wrong(*query.root, name, answer.error().what);
      if (!expected) expected = FuzzReference(documents_, meanings_).answer(*query.root);
      if (answer->why_incomplete == "time") watch.stop(Stop::time);
      if (watch.is_over()) return true;
      ++tally_.answers;
      auto why = difference(*answer, *expected);
      if (why.empty()) why = difference_of_marks(*answer, *query.root);
      if (watch.is_over()) return true;
      if (!why.empty()) return is_wrong(*query.root, name, why);
    }
    tally_.found += !expected->empty();
    return std::ranges::all_of(meanings_, [&](const auto& one) {
      return !one.second.is_multi_line || !one.second.regex ||
             is_right_in_much_text(*one.first, watch);
    });
  }

  // Texts of a fuzzer are too small for Hyperscan to look for a pattern across lines.
  bool is_right_in_much_text(const Query& query, Watch& watch) {
    auto plain = Matcher::compile(query.pattern), fast = Matcher::compile(query.pattern);
    ensure(plain && fast, "it was compiled for the answer");
    (*fast)->expect(SIZE_MAX);
    Finder plain_finder(*plain, &watch), fast_finder(*fast, &watch);
    for (const auto& document : documents_) {
      std::vector<Span> expected, found;
      bool is_ascii = std::ranges::all_of(document.text, [](char c) { return c >= 0; });
      plain_finder.find_all(document.text, is_ascii, expected);
      fast_finder.find_all(document.text, is_ascii, found);
      if (watch.is_over()) return true;
      if (found != expected) return is_wrong(query, "much text, " + document.path, "other matches");
    }
    return true;
  }

  // A line, or its begin.
  std::string shown(const std::string& path, std::uint32_t number) const {
    for (const auto& document : documents_) {
      if (document.path != path) continue;
      std::string_view rest = document.text;
      while (--number > 0) rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
      return std::string(rest.substr(0, std::min<std::size_t>(rest.find('\n'), 500)));
    }
    return "";
  }

  std::string difference(const Answer& answer, const FuzzReference::Lines& expected) const {
    if (!answer.is_complete) return "not complete: " + answer.why_incomplete;
    FuzzReference::Lines lines;
    for (const auto& file : answer.files)
      for (auto& mine = lines[file.path]; const auto& line : file.lines) mine.insert(line.line);
    if (lines == expected && answer.file_count == expected.size()) return "";
    for (const auto& [path, mine] : expected) {
      if (!lines.contains(path)) return fmt::format("{} is not found", path);
      for (auto line : mine)
        if (!lines[path].contains(line))
          return fmt::format("{}:{} is not found: {}", path, line, shown(path, line));
      for (auto line : lines[path])
        if (!mine.contains(line))
          return fmt::format("{}:{} does not match: {}", path, line, shown(path, line));
    }
    for (const auto& [path, mine] : lines)
      if (!expected.contains(path)) return fmt::format("{} does not match", path);
    return fmt::format("{} files, not {}", answer.file_count, expected.size());
  }

  std::string difference_of_marks(const Answer& answer, const Query& query) const {
    if (query.kind != Query::Kind::pattern || meanings_.at(&query).is_multi_line) return "";
    std::map<std::string_view, const Document*> by_path;
    for (const auto& document : documents_) by_path[document.path] = &document;
    for (const auto& file : answer.files) {
      if (query.pattern.field == Field::path) continue;
      auto marks = marks_by_line(meanings_.at(&query), by_path.at(file.path)->text);
      for (const auto& line : file.lines) {
        std::vector<std::pair<std::size_t, std::size_t>> mine;
        for (const auto& range : line.ranges) mine.emplace_back(range.begin, range.end);
        if (mine != marks[line.line])
          return fmt::format("{}:{} has other ranges", file.path, line.line);
      }
    }
    return "";
  }

  bool is_wrong(const Query& query, const std::string& kind, const std::string& why) {
    fmt::print(stderr,
               "wrong: {}\n  query    {}\n  segment  {}\n  again    search_fuzz --seed {}\n", why,
               to_string(query), kind, seed_);
    for (const auto& [part, meaning] : meanings_) print_alone(*part, meaning);
    return false;
  }

  // Whether a pattern is wrong by itself, and where.
  void print_alone(const Query& part, const Meaning& meaning) {
    fmt::print(stderr, "  {} means {}\n", to_string(part),
               meaning.regex ? meaning.regex->pattern() : "itself");
    ParsedQuery alone;
    alone.root = std::make_unique<Query>();
    alone.root->kind = Query::Kind::pattern;
    alone.root->pattern = part.pattern;
    auto expected = FuzzReference(documents_, meanings_).answer(part);
    for (const auto& [name, list] : kinds_.lists) {
      auto answer = search(list, alone, everything_);
      auto why = answer ? difference(*answer, expected) : answer.error().what;
      if (!why.empty()) fmt::print(stderr, "    by itself in {}: {}\n", name, why);
    }
  }

  const SearchTerms everything_{.most_matches = 0,
                                .most_files = SIZE_MAX,
                                .lines_per_file = SIZE_MAX,
                                .answer_bytes = SIZE_MAX,
                                .line_bytes = SIZE_MAX};
  Dice dice_;
  std::uint64_t seed_;
  Tally& tally_;
  std::vector<Document> documents_;
  SegmentKinds kinds_;
  std::map<const Query*, Meaning> meanings_;
};

bool number(std::string_view text, std::uint64_t& into) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc() && end == text.data() + text.size();
}

std::optional<Options> options_of(const std::vector<std::string_view>& words) {
  Options options;
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
    bool is_good = words[i] == "--seconds" ? number(words[i + 1], options.seconds)
                   : words[i] == "--seed"  ? number(words[i + 1], options.seed)
                                           : words[i] == "--texts";
    if (!is_good) return std::nullopt;
    if (words[i] == "--texts") options.texts = words[i + 1];
  }
  if (words.size() % 2 != 0) return std::nullopt;
  return options;
}

int run(const Options& options) {
  TempFolder folder;
  auto real = read_texts(options.texts, 40u << 20);
  fmt::print("search_fuzz --seconds {} --seed {} --texts {} ({} texts)\n", options.seconds,
             options.seed, options.texts, real.size());
  Tally tally;
  auto until = Clock::now() + std::chrono::seconds(options.seconds);
  bool is_right = true;
  for (auto seed = options.seed; is_right && Clock::now() < until; ++seed, ++tally.rounds)
    is_right = Round(seed, real, (folder.path() / "segment").string(), tally).run(until);
  fmt::print(
      "{} texts in 5 kinds of segments, {} queries ({} refused, {} with matches, {} too "
      "slow), {} answers: {}\n",
      tally.rounds, tally.queries, tally.refused, tally.found, tally.slow, tally.answers,
      is_right ? "all right" : "one is wrong");
  // A fuzzer that finds nothing to compare would be content with anything.
  if (is_right && tally.queries > 200 &&
      (tally.found * 5 < tally.queries || tally.slow * 10 > tally.queries)) {
    fmt::print(stderr, "too few queries have matches, or too many are slow\n");
    return 1;
  }
  return is_right ? 0 : 1;
}

}  // namespace
}  // namespace warren::search

int main(int count, char** words) {
  auto options = warren::search::options_of({words + 1, words + count});
  if (!options) {
    fmt::print(stderr, "search_fuzz [--seconds 60] [--seed N] [--texts FOLDER]\n");
    return 2;
  }
  return warren::search::run(*options);
}
