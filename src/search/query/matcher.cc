#include "search/query/matcher.h"

#include <hs/hs.h>
#include <re2/re2.h>

#include <algorithm>
#include <cstring>
#include <functional>

namespace warren::search {
namespace {

// For less text, compiling for Hyperscan takes longer than RE2 needs for the whole scan.
constexpr std::size_t least_for_hyperscan = 700'000;
constexpr std::int64_t most_re2_memory = 16 << 20;
constexpr std::size_t bytes_per_clock = 256 << 10;
constexpr std::size_t bytes_per_look = 200;  // the cost of one RE2 attempt
constexpr std::size_t few_stretches = 64;

Span whole(std::string_view text) { return {0, static_cast<std::uint32_t>(text.size())}; }

bool is_ascii_text(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// As RE2 defines it. RE2 accepts no other pattern.
bool is_utf8(std::string_view text) {
  RE2::Options options;
  options.set_log_errors(false);
  return RE2(RE2::QuoteMeta(re2::StringPiece(text.data(), text.size())), options).ok();
}

RE2::Options options_of(bool is_multi_line) {
  RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(most_re2_memory);
  options.set_never_nl(!is_multi_line);
  return options;
}

// For patterns that our parser does not understand.
bool says_newline(std::string_view pattern) {
  for (std::string_view word : {"\\n", "\n", "(?s", "\\x0", "\\x{", "\\C", "\\0"})
    if (pattern.find(word) != std::string_view::npos) return true;
  return false;
}

struct LineScan {
  std::string_view text;
  const std::function<bool(std::string_view line, std::size_t begin)>& take;
  std::size_t line_end = 0;  // of the last line taken
};

int on_match(unsigned, unsigned long long, unsigned long long to, unsigned, void* context) {
  auto& scan = *static_cast<LineScan*>(context);
  if (to <= scan.line_end) return 0;
  std::size_t last = to - 1;
  const char* data = scan.text.data();
  const void* before = memrchr(data, '\n', last);
  std::size_t begin = before == nullptr ? 0 : static_cast<const char*>(before) - data + 1;
  std::size_t end = std::min(scan.text.find('\n', last), scan.text.size());
  scan.line_end = end;
  return scan.take(scan.text.substr(begin, end - begin), begin) ? 0 : 1;
}

struct CoreScan {
  Stretches stretches;
  const std::function<bool(Span)>& take;
  std::size_t last_end = 0, count = 0;
  bool is_in_order = true, is_dense = false;
};

int on_core(unsigned, unsigned long long, unsigned long long to, unsigned, void* context) {
  auto& scan = *static_cast<CoreScan*>(context);
  // Hyperscan does not guarantee the order.
  scan.is_in_order = to >= scan.last_end;
  if (!scan.is_in_order) return 1;
  scan.last_end = to;
  auto stretch = scan.stretches.add(to);
  if (!stretch) return 0;
  if (!scan.take(*stretch)) return 1;
  ++scan.count;
  scan.is_dense = scan.count > few_stretches && to < scan.count * bytes_per_look;
  return scan.is_dense ? 1 : 0;
}

int on_any_match(unsigned, unsigned long long, unsigned long long, unsigned, void* context) {
  *static_cast<bool*>(context) = true;
  return 1;
}

}  // namespace

Result<std::shared_ptr<const Matcher>> Matcher::compile(const Pattern& pattern) {
  auto matcher = std::shared_ptr<Matcher>(new Matcher);
  std::string text = pattern.text;
  if (!pattern.is_regex) {
    if (!pattern.ignores_case || is_ascii_text(text) || !is_utf8(text)) {
      matcher->literal_.emplace(text, pattern.ignores_case);
      matcher->formula_ = formula_of(text);
      matcher->is_multi_line_ = text.find('\n') != std::string::npos;
      return matcher;
    }
    text = RE2::QuoteMeta(text);
  }
  auto regex = parse_regex(text, pattern.ignores_case);
  if (regex) {
    matcher->is_multi_line_ = regex->is_multi_line;
    matcher->matches_everything_ = search::matches_everything(regex->root);
    matcher->formula_ = formula_of(*regex);
    matcher->hyperscan_ = for_hyperscan(*regex);
    if (matcher->hyperscan_ && regex->is_multi_line) matcher->core_ = core_of(*regex);
    if (matcher->core_) matcher->hyperscan_ = for_hyperscan(matcher->core_->regex);
    text = for_re2(*regex);
  } else {
    matcher->is_multi_line_ = says_newline(text);
    text = (pattern.ignores_case ? "(?mi)" : "(?m)") + text;
  }
  matcher->re2_ = std::make_unique<RE2>(text, options_of(matcher->is_multi_line_));
  if (!matcher->re2_->ok() && regex)  // ours is longer and may exceed a limit
    return fail(Errc::invalid, "{}: the pattern is too large", pattern.text);
  if (!matcher->re2_->ok()) return fail(Errc::invalid, "{}", matcher->re2_->error());
  return matcher;
}

Matcher::~Matcher() {
  if (void* database = database_.load()) hs_free_database(static_cast<hs_database_t*>(database));
}

void Matcher::expect(std::size_t bytes) const {
  if (!hyperscan_ || bytes < least_for_hyperscan) return;
  std::lock_guard lock(mutex_);
  if (was_tried_) return;
  was_tried_ = true;
  hs_database_t* database = nullptr;
  hs_compile_error_t* error = nullptr;
  unsigned flags = HS_FLAG_MULTILINE | (is_multi_line_ && !core_ ? HS_FLAG_SINGLEMATCH : 0);
  if (hs_compile(hyperscan_->text.c_str(), flags, HS_MODE_BLOCK, nullptr, &database, &error) ==
      HS_SUCCESS)
    database_ = database;
  else
    hs_free_compile_error(error);
}

bool LookedAt::add(std::size_t more) {
  if (watch == nullptr) return false;
  bytes += more + bytes_per_look;
  if (bytes < bytes_per_clock) return false;
  bytes = 0;
  return watch->is_over();
}

void Matcher::find(std::string_view text, Span within, std::vector<Span>& into, std::size_t most,
                   LookedAt& looked_at) const {
  re2::StringPiece piece(text.data(), text.size()), found;
  std::size_t line_end = 0;  // of a line that already has an empty match
  for (std::size_t at = within.begin; at < within.end && most > 0;) {
    if (looked_at.add(within.end - at)) return;  // an upper bound
    if (!re2_->Match(piece, at, within.end, RE2::UNANCHORED, &found, 1)) return;
    auto begin = static_cast<std::size_t>(found.data() - text.data());
    // After the last line end there is no further line.
    if (begin == text.size() && text.back() == '\n') return;
    if (found.empty() && begin < line_end) {
      at = begin + 1;
      continue;
    }
    into.push_back(
        {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(begin + found.size())});
    --most;
    at = begin + found.size();
    if (!found.empty()) continue;
    line_end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    // A match across lines may still begin in the rest of the line.
    at = is_multi_line_ ? begin + 1 : line_end;
  }
}

Finder::Finder(std::shared_ptr<const Matcher> matcher, Watch* watch)
    : matcher_(std::move(matcher)), looked_at_{.watch = watch} {}
Finder::~Finder() {
  if (scratch_ != nullptr) hs_free_scratch(static_cast<hs_scratch_t*>(scratch_));
}
Finder::Finder(Finder&& other) noexcept
    : matcher_(std::move(other.matcher_)),
      looked_at_(other.looked_at_),
      scratch_(std::exchange(other.scratch_, nullptr)),
      made_for_(std::exchange(other.made_for_, nullptr)) {}

bool Finder::has_scratch(void* database) {
  if (made_for_ == database) return true;
  auto* scratch = static_cast<hs_scratch_t*>(scratch_);
  if (hs_alloc_scratch(static_cast<hs_database_t*>(database), &scratch) != HS_SUCCESS) return false;
  scratch_ = scratch;
  made_for_ = database;
  return true;
}

void Finder::find_all(std::string_view text, bool is_ascii, std::vector<Span>& into,
                      std::size_t most) {
  if (text.empty()) return;
  const auto& matcher = *matcher_;
  if (matcher.literal_) return matcher.literal_->find_all(text, into, most);
  void* database = matcher.database_.load(std::memory_order_acquire);
  bool can_help = database != nullptr && (is_ascii || !matcher.hyperscan_->is_for_ascii) &&
                  has_scratch(database);
  if (can_help && matcher.core_) return find_around_cores(text, into, most);
  if (can_help && !matcher.is_multi_line_) return find_in_lines(text, into, most);
  bool may_be_there = true;
  if (can_help) {
    may_be_there = false;
    scan(text, on_any_match, &may_be_there);
  }
  if (may_be_there) matcher.find(text, whole(text), into, most, looked_at_);
}

// Hyperscan reports each match. A handler that returns 1 ends the scan.
void Finder::scan(std::string_view text, MatchHandler handler, void* context) {
  hs_scan(static_cast<hs_database_t*>(made_for_), text.data(), static_cast<unsigned>(text.size()),
          0, static_cast<hs_scratch_t*>(scratch_), handler, context);
}

void Finder::find_in_lines(std::string_view text, std::vector<Span>& into, std::size_t most) {
  std::function<bool(std::string_view, std::size_t)> take = [&](std::string_view line,
                                                                std::size_t begin) {
    std::size_t before = into.size();
    matcher_->find(line, whole(line), into, most, looked_at_);
    for (std::size_t i = before; i < into.size(); ++i) {
      into[i].begin += static_cast<std::uint32_t>(begin);
      into[i].end += static_cast<std::uint32_t>(begin);
    }
    most -= into.size() - before;
    return most > 0 && !is_over();
  };
  LineScan lines{.text = text, .take = take};
  scan(text, on_match, &lines);
}

void Finder::find_around_cores(std::string_view text, std::vector<Span>& into, std::size_t most) {
  const std::size_t begin = into.size(), end = most < SIZE_MAX - begin ? begin + most : SIZE_MAX;
  std::function<bool(Span)> take = [&](Span stretch) {
    matcher_->find(text, stretch, into, end - into.size(), looked_at_);
    return into.size() < end && !is_over();
  };
  CoreScan cores{.stretches = Stretches(*matcher_->core_, text), .take = take};
  scan(text, on_core, &cores);
  if (!cores.is_in_order) into.resize(begin);
  auto last = cores.is_in_order ? cores.stretches.last() : whole(text);
  if (!last || into.size() == end || is_over()) return;
  // Many small stretches take longer than one large one.
  if (cores.is_dense) last->end = static_cast<std::uint32_t>(text.size());
  take(*last);
}

bool Finder::finds(std::string_view text, bool is_ascii) {
  spans_.clear();
  find_all(text, is_ascii, spans_, 1);
  return !spans_.empty();
}

Result<std::shared_ptr<const Matcher>> MatcherCache::get(const Pattern& pattern) {
  std::string key = pattern.text;
  key += pattern.is_regex ? 'r' : 'l';
  key += pattern.ignores_case ? 'i' : 'c';
  auto take = [&]() -> std::shared_ptr<const Matcher> {
    auto found = std::ranges::find(entries_, key, &Entry::key);
    if (found == entries_.end()) return nullptr;
    std::rotate(found, found + 1, entries_.end());
    return entries_.back().matcher;
  };
  {
    std::lock_guard lock(mutex_);
    if (auto matcher = take()) return matcher;
  }
  auto matcher = Matcher::compile(pattern);
  if (!matcher) return matcher;
  std::lock_guard lock(mutex_);
  if (take() == nullptr) {
    if (entries_.size() >= most_) entries_.erase(entries_.begin());
    entries_.push_back({std::move(key), *matcher});
  }
  return matcher;
}

}  // namespace warren::search
