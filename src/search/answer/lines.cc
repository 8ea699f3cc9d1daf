#include "search/answer/lines.h"

#include <algorithm>
#include <cstring>

#include "search/index/parts.h"

namespace warren::search {
namespace {

struct Line {
  std::size_t begin = 0, end = 0;  // without its line end
};

std::size_t line_begin(std::string_view text, std::size_t at) {
  if (at == 0) return 0;
  const void* before = memrchr(text.data(), '\n', at);
  return before == nullptr
             ? 0
             : static_cast<std::size_t>(static_cast<const char*>(before) - text.data()) + 1;
}

Line line_at(std::string_view text, std::size_t at) {
  return {line_begin(text, at), std::min(text.find('\n', at), text.size())};
}

// CR LF ends a line just as LF does. The CR is visible only if line ends are kept.
std::string_view shown(std::string_view text, Line line, const SearchTerms& terms) {
  if (terms.keeps_line_ends) return text.substr(line.begin, line.end + 1 - line.begin);
  auto whole = text.substr(line.begin, line.end - line.begin);
  if (whole.ends_with('\r')) whole.remove_suffix(1);
  return whole;
}

bool is_inside_character(std::string_view text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

// The part of a long line to show: around the first match, and only complete characters.
Line window(std::string_view line, Range first, std::size_t most) {
  if (line.size() <= most) return {0, line.size()};
  std::size_t length = std::min<std::size_t>(first.end - first.begin, most);
  std::size_t before = (most - length) / 2;
  std::size_t begin = first.begin > before ? first.begin - before : 0;
  begin = std::min(begin, line.size() - most);
  std::size_t end = begin + most;
  for (int i = 0; i < 3 && is_inside_character(line, begin); ++i) ++begin;
  for (int i = 0; i < 3 && is_inside_character(line, end); ++i) --end;
  return {begin, std::max(begin, end)};
}

std::string cut(std::string_view line, std::size_t most) {
  auto part = window(line, {}, most);
  return std::string(line.substr(part.begin, part.end - part.begin));
}

class LineNumbers {
 public:
  LineNumbers(const Segment& segment, std::uint32_t file) : parts_(segment.parts()) {
    auto files = parts_.files();
    offset_ = files[file].offset;
    blocks_ = parts_.blocks().subspan(files[file].first_block,
                                      files[file + 1].first_block - files[file].first_block);
  }
  // The number of the line that begins here. Call it in ascending order.
  std::uint32_t of(std::string_view text, std::size_t begin) {
    auto next = std::ranges::upper_bound(blocks_, begin + offset_, {},
                                         [](const BlockEntry& block) { return block.offset(); });
    const auto& block = *(next - 1);
    std::size_t start = block.offset() - offset_;
    if (start > counted_) {
      counted_ = start;
      line_ = block.first_line;
    }
    line_ += static_cast<std::uint32_t>(count_newlines(text.substr(counted_, begin - counted_)));
    counted_ = begin;
    return line_;
  }

 private:
  const Segment::Parts& parts_;
  std::uint64_t offset_ = 0;
  std::span<const BlockEntry> blocks_;
  std::size_t counted_ = 0;
  std::uint32_t line_ = 1;
};

void add_context(std::string_view text, Line line, const SearchTerms& terms, LineMatch& match) {
  Line one = line;
  for (int i = 0; i < terms.context_lines && one.begin > 0; ++i) {
    one = line_at(text, one.begin - 1);
    one.begin = line_begin(text, one.end);
    match.before.insert(match.before.begin(), cut(shown(text, one, terms), terms.line_bytes));
  }
  one = line;
  for (int i = 0; i < terms.context_lines && one.end + 1 < text.size(); ++i) {
    one = {one.end + 1, std::min(text.find('\n', one.end + 1), text.size())};
    match.after.push_back(cut(shown(text, one, terms), terms.line_bytes));
  }
}

// In bytes of the shown part. A range that overlaps the previous one is merged into it.
void add_range(const Range& range, Line part, LineMatch& match) {
  auto begin = std::clamp<std::size_t>(range.begin, part.begin, part.end) - part.begin;
  auto end = std::clamp<std::size_t>(range.end, part.begin, part.end) - part.begin;
  if (begin == end) return;
  if (!match.ranges.empty() && begin < match.ranges.back().end)
    match.ranges.back().end = std::max(match.ranges.back().end, static_cast<std::uint32_t>(end));
  else
    match.ranges.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
}

// The part of a span that lies in one line.
struct Piece {
  Line line;
  Range range;
};

std::vector<Piece> pieces_of(std::string_view text, std::span<const Span> spans,
                             std::size_t most_lines) {
  std::vector<Piece> pieces;
  Line line{.begin = 1, .end = 0};
  std::size_t lines = 0;
  bool is_sorted = true;
  for (const auto& span : spans) {
    for (std::size_t at = span.begin;; at = line.end + 1) {
      if (at < line.begin || at > line.end) {
        if (is_sorted && ++lines > most_lines) return pieces;
        is_sorted = is_sorted && (pieces.empty() || at > line.end);
        line = line_at(text, at);
      }
      auto end = std::min<std::size_t>(span.end, line.end);
      pieces.push_back({line,
                        {static_cast<std::uint32_t>(std::min(at, end) - line.begin),
                         static_cast<std::uint32_t>(end - line.begin)}});
      if (span.end <= line.end + 1) break;
    }
  }
  // A span of several lines precedes others that begin in its second line.
  if (!is_sorted)
    std::ranges::sort(pieces, {}, [](const Piece& piece) {
      return std::pair(piece.line.begin, piece.range.begin);
    });
  return pieces;
}

}  // namespace

std::size_t bytes_of(const LineMatch& match) {
  std::size_t bytes = match.text.size() + match.ranges.size() * sizeof(Range) + 16;
  for (const auto& line : match.before) bytes += line.size() + 4;
  for (const auto& line : match.after) bytes += line.size() + 4;
  return bytes;
}

bool add_lines(const Segment& segment, std::uint32_t file, std::span<const Span> spans,
               const SearchTerms& terms, std::size_t& bytes, std::vector<LineMatch>& into) {
  if (spans.empty()) return true;
  auto text = segment.text(file);
  LineNumbers numbers(segment, file);
  auto pieces = pieces_of(text, spans, terms.lines_per_file);
  for (std::size_t i = 0; i < pieces.size() && into.size() < terms.lines_per_file;) {
    const Line line = pieces[i].line;
    auto whole = shown(text, line, terms);
    auto part = window(whole, pieces[i].range, terms.line_bytes);
    LineMatch match{.line = numbers.of(text, line.begin),
                    .offset = line.begin + part.begin,
                    .text = std::string(whole.substr(part.begin, part.end - part.begin)),
                    .is_cut = part.end - part.begin < whole.size()};
    for (; i < pieces.size() && pieces[i].line.begin == line.begin; ++i)
      add_range(pieces[i].range, part, match);
    add_context(text, line, terms, match);
    std::size_t size = bytes_of(match);
    if (size > bytes) return false;
    bytes -= size;
    into.push_back(std::move(match));
  }
  return true;
}

std::uint64_t touched_lines(std::string_view text, std::span<const Span> spans) {
  std::uint64_t lines = 0;
  std::size_t next = 0;  // the first byte after the counted lines
  for (const auto& span : spans)
    // An empty span after the counted lines has a line of its own.
    while (span.begin >= next || span.end > next) {
      auto at = std::max<std::size_t>(span.begin, next);
      next = std::min(text.find('\n', at), text.size()) + 1;
      ++lines;
    }
  return lines;
}

}  // namespace warren::search
