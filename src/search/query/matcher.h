#pragma once
// Finds a pattern's matches in text.
//
// A literal is searched for directly. For a regular expression RE2 defines what a match is. In
// large texts, Hyperscan, which is several times faster, first finds the lines that RE2 should
// examine. We do without Hyperscan if compiling for it would not pay, if it rejects the pattern,
// and in non-ASCII text if part of the pattern may match more than a byte (a "." or a "[^x]"). For
// a pattern across lines, Hyperscan finds the core (see search/text/core.h), and RE2 searches
// around it.
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "search/query/formula.h"
#include "search/query/query.h"
#include "search/query/watch.h"
#include "search/text/core.h"
#include "search/text/literal.h"
#include "search/text/regex.h"

namespace re2 {
class RE2;
}

namespace warren::search {

class Finder;

// Checks the clock now and then.
struct LookedAt {
  Watch* watch = nullptr;
  std::size_t bytes = 0;  // since the last check
  // Returns true if the watch is over.
  bool add(std::size_t more);
};

class Matcher {
 public:
  // Errc::invalid: RE2 rejects it.
  static Result<std::shared_ptr<const Matcher>> compile(const Pattern& pattern);
  ~Matcher();

  const Formula& formula() const { return formula_; }
  bool is_multi_line() const { return is_multi_line_; }
  const Literal* literal() const { return literal_ ? &*literal_ : nullptr; }
  bool matches_everything() const { return matches_everything_; }
  // Announces how much text will be scanned. Compiles for Hyperscan, once, if that pays.
  void expect(std::size_t bytes) const;

 private:
  friend class Finder;
  Matcher() = default;
  // Uses only RE2.
  void find(std::string_view text, Span within, std::vector<Span>& into, std::size_t most,
            LookedAt& looked_at) const;

  Formula formula_;
  bool is_multi_line_ = false, matches_everything_ = false;
  std::optional<Literal> literal_;
  std::unique_ptr<re2::RE2> re2_;
  std::optional<Core> core_;                   // of a multi-line pattern
  std::optional<HyperscanPattern> hyperscan_;  // of the core, if there is one
  mutable std::mutex mutex_;
  mutable bool was_tried_ = false;                 // guarded by the mutex
  mutable std::atomic<void*> database_ = nullptr;  // hs_database_t; null until compiled
};

// One thread's access to a matcher.
class Finder {
 public:
  // From every match a pattern may look ahead to the end of its line, which may be the whole file.
  // The watch ends even that. When it is over, the results are incomplete.
  explicit Finder(std::shared_ptr<const Matcher> matcher, Watch* watch = nullptr);
  ~Finder();
  Finder(Finder&& other) noexcept;
  Finder(const Finder&) = delete;
  Finder& operator=(const Finder&) = delete;

  // Appends matches that do not overlap, from left to right; at most `most`. The text must be whole
  // lines, or a whole file if the pattern is multi-line. An empty match counts for its whole line.
  void find_all(std::string_view text, bool is_ascii, std::vector<Span>& into,
                std::size_t most = SIZE_MAX);
  bool finds(std::string_view text, bool is_ascii);
  const Matcher& matcher() const { return *matcher_; }

 private:
  using MatchHandler = int (*)(unsigned, unsigned long long, unsigned long long, unsigned, void*);
  bool has_scratch(void* database);
  void scan(std::string_view text, MatchHandler handler, void* context);
  void find_in_lines(std::string_view text, std::vector<Span>& into, std::size_t most);
  void find_around_cores(std::string_view text, std::vector<Span>& into, std::size_t most);

  bool is_over() const {
    return looked_at_.watch != nullptr && looked_at_.watch->why() != Stop::none;
  }

  std::shared_ptr<const Matcher> matcher_;
  LookedAt looked_at_;
  void* scratch_ = nullptr;   // hs_scratch_t
  void* made_for_ = nullptr;  // the database that scratch_ fits
  std::vector<Span> spans_;
};

// Recently used matchers, so that a repeated query is not compiled again. Any thread may use it.
class MatcherCache {
 public:
  explicit MatcherCache(std::size_t most) : most_(most) {}
  Result<std::shared_ptr<const Matcher>> get(const Pattern& pattern);

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const Matcher> matcher;
  };
  std::mutex mutex_;
  std::vector<Entry> entries_;  // the most recent last
  std::size_t most_;
};

}  // namespace warren::search
