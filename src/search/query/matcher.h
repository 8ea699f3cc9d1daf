#pragma once
// Finds a pattern's matches in text.
//
// A literal is looked for as such. For a regular expression RE2 says what a match is; in much text
// Hyperscan, which is several times faster, says first in which lines RE2 should look. Hyperscan
// is left out when it would not pay to compile for it, when it refuses the pattern, and in text
// beyond ASCII when the pattern has something that is there more than a byte (a "." or a "[^x]").
// Of a pattern across lines it looks for the core (see search/text/core.h), and RE2 around that.
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

// Looks at the clock now and then.
struct LookedAt {
  Watch* watch = nullptr;
  std::size_t bytes = 0;  // since the last time
  // True: the watch is over.
  bool add(std::size_t more);
};

class Matcher {
 public:
  // Errc::invalid: RE2 does not take it.
  static Result<std::shared_ptr<const Matcher>> compile(const Pattern& pattern);
  ~Matcher();

  const Formula& formula() const { return formula_; }
  bool is_multi_line() const { return is_multi_line_; }
  const Literal* literal() const { return literal_ ? &*literal_ : nullptr; }
  bool matches_everything() const { return matches_everything_; }
  // So much text will be looked at: the place to compile for Hyperscan, once, if it pays.
  void expect(std::size_t bytes) const;

 private:
  friend class Finder;
  Matcher() = default;
  // By RE2 alone.
  void find(std::string_view text, Span within, std::vector<Span>& into, std::size_t most,
            LookedAt& looked_at) const;

  Formula formula_;
  bool is_multi_line_ = false, matches_everything_ = false;
  std::optional<Literal> literal_;
  std::unique_ptr<re2::RE2> re2_;
  std::optional<Core> core_;                   // of a multi-line pattern
  std::optional<HyperscanPattern> hyperscan_;  // of the core, if there is one
  mutable std::mutex mutex_;
  mutable bool was_tried_ = false;                 // under the mutex
  mutable std::atomic<void*> database_ = nullptr;  // hs_database_t, once it is there
};

// A thread's way to use a matcher.
class Finder {
 public:
  // From every match a pattern may look ahead to the end of its line, which may be all of a file:
  // a watch ends even that. When it is over, what was found is not all.
  explicit Finder(std::shared_ptr<const Matcher> matcher, Watch* watch = nullptr);
  ~Finder();
  Finder(Finder&& other) noexcept;
  Finder(const Finder&) = delete;
  Finder& operator=(const Finder&) = delete;

  // Appends matches that do not overlap, from left to right; at most `most`. The text is whole
  // lines, or a whole file if the pattern is multi-line. An empty match is one for its whole line.
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
  void* made_for_ = nullptr;  // the database
  std::vector<Span> spans_;
};

// The matchers of late, so that a query that comes again need not be compiled again. Any thread.
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
  std::vector<Entry> entries_;  // the latest last
  std::size_t most_;
};

}  // namespace warren::search
