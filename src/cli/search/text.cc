#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/printable.h"
#include "cli/search/output.h"

namespace warren::cli {

namespace {

std::string in_colour(const Paint& paint, std::string_view code, std::string_view text) {
  return paint.is_on() ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

}  // namespace

bool is_unsafe(char32_t c) { return c != '\t' && is_unprintable(c); }

void SearchOutput::flush() {
  std::string_view rest = waiting_;
  while (!rest.empty() && !is_closed_) {
    auto wrote = ::write(STDOUT_FILENO, rest.data(), rest.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      is_closed_ = true;
      error_ = errno;
      break;
    }
    rest.remove_prefix(static_cast<std::size_t>(wrote));
  }
  waiting_.clear();
}

Result<> SearchOutput::finish() {
  flush();
  if (is_closed_ && error_ != EPIPE)
    return fail(Errc::unavailable, "standard output cannot be written: {}", std::strerror(error_));
  return ok;
}

std::string safe_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    auto [value, length] = first_code_point(text);
    bool is_broken = value == 0xfffd && length == 1;
    if (is_broken || (is_unsafe(value) && value < 0x100))
      out += fmt::format("\\x{:02x}", is_broken ? std::uint8_t(text[0]) : std::uint32_t(value));
    else if (is_unsafe(value))
      out += fmt::format("\\u{:04x}", std::uint32_t(value));
    else
      out += text.substr(0, length);
    text.remove_prefix(length);
  }
  return out;
}

std::string safe_path(std::string_view path) {
  bool is_plain = true;
  std::string out = "\"";
  while (!path.empty()) {
    auto [value, length] = first_code_point(path);
    bool is_broken = value == 0xfffd && length == 1;
    if (value == '"' || value == '\\') {
      out += '\\';
      out += path[0];
    } else if (value == '\n' || value == '\t') {
      out += value == '\n' ? "\\n" : "\\t";
    } else if (is_broken || is_unsafe(value)) {
      for (char byte : path.substr(0, length)) out += fmt::format("\\{:03o}", std::uint8_t(byte));
    } else {
      out += path.substr(0, length);
      path.remove_prefix(length);
      continue;
    }
    is_plain = false;
    path.remove_prefix(length);
  }
  return is_plain ? out.substr(1) : out + '"';
}

std::string SearchPrinter::name_of(const search::FileMatch& file, bool is_raw) const {
  auto safe = [is_raw](const std::string& path) { return is_raw ? path : safe_path(path); };
  if (file.path.empty()) return safe(file.repo);
  auto path = safe(shown_path(place_, file.path));
  bool is_heading = show_.has_headings && show_.form == SearchShow::Form::lines;
  if (place_.refs.size() < 2 || is_heading) return path;
  return safe_text(fmt::format("{}:", fmt::join(file.branches, ","))) + path;
}

void SearchPrinter::print(const search::FileMatch& file) {
  auto name =
      show_.ends_names ? name_of(file, true) + '\0' : in_colour(paint_, "35", name_of(file, false));
  if (file.is_cut || file.lines.size() > show_.lines_per_file)
    if (cut_files_++ == 0) first_cut_ = name_of(file, false);
  if (show_.form == SearchShow::Form::json)
    return output_.write(json_of(file, shown_path(place_, file.path)) + '\n');
  if (show_.form == SearchShow::Form::files) {
    output_.write(show_.ends_names ? name : name + '\n');
  } else if (show_.form == SearchShow::Form::counts) {
    output_.write(fmt::format("{}{}{}\n", name, show_.ends_names ? "" : ":", file.line_count));
  } else {
    if (!is_first_ && show_.has_headings) output_.write("\n");
    if (!is_first_ && !show_.has_headings && show_.has_context) output_.write("--\n");
    auto branches = place_.refs.size() > 1 && show_.has_headings
                        ? fmt::format("  ({})", fmt::join(file.branches, ", "))
                        : std::string();
    if (show_.has_headings || file.lines.empty())
      output_.write(name + paint_.dim(safe_text(branches)) + '\n');
    if (show_.explains) {
      output_.write(paint_.dim(fmt::format("  score {:.0f}", file.score)) + '\n');
      for (const auto& why : file.explanation)
        output_.write(paint_.dim("    " + safe_text(why)) + '\n');
    }
    print_lines(file, name);
  }
  is_first_ = false;
}

// A context line may belong to several matches. Each line is printed once, in file order.
void SearchPrinter::print_lines(const search::FileMatch& file, const std::string& name) {
  std::uint32_t next = 1;  // the first line that is not printed yet
  auto count = std::min(file.lines.size(), show_.lines_per_file);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& match = file.lines[i];
    auto before = static_cast<std::uint32_t>(match.before.size());
    auto first = match.line - before;
    if (i > 0 && show_.has_context && first > next) output_.write("--\n");
    for (std::uint32_t number = std::max(first, next); number < match.line; ++number)
      print_line(name, number, false, match.before[number - first], {});
    print_line(name, match.line, true, match.text, match.ranges, match.is_cut);
    next = match.line + 1;
    auto end = i + 1 < file.lines.size() ? file.lines[i + 1].line : UINT32_MAX;
    for (const auto& line : match.after)
      if (next < end) print_line(name, next++, false, line, {});
  }
}

void SearchPrinter::print_line(const std::string& name, std::uint32_t number, bool is_match,
                               std::string_view text, std::span<const search::Range> ranges,
                               bool is_cut) {
  auto mark = is_match ? ':' : '-';
  std::string line = show_.has_headings ? std::string() : name;
  if (!show_.has_headings && !show_.ends_names) line += mark;
  line += in_colour(paint_, "32", std::to_string(number)) + mark;
  auto shown = [&](std::string_view part) {
    return show_.is_terminal || paint_.is_on() ? safe_text(part) : std::string(part);
  };
  std::size_t at = 0;
  if (paint_.is_on())
    for (const auto& range : ranges) {
      line += shown(text.substr(at, range.begin - at));
      line += in_colour(paint_, "1;31", shown(text.substr(range.begin, range.end - range.begin)));
      at = range.end;
    }
  line += shown(text.substr(at));
  if (is_cut) line += paint_.dim(" …");
  output_.write(line + '\n');
}

std::string stats_text(const search::Answer& answer, const SearchIndex& index) {
  std::uint64_t files = 0, skipped = 0, bytes = 0, text = 0, symbols = 0;
  for (const auto& segment : *index.segments) {
    files += segment->file_count();
    skipped += segment->skipped().size();
    bytes += segment->memory().total();
    text += segment->arena().size();
    symbols += segment->has_symbols() ? 1 : 0;
  }
  auto ms = [](auto time) { return std::chrono::duration<double, std::milli>(time).count(); };
  const auto& stats = answer.stats;
  return fmt::format(
      "files      {} searched, {} left out (--skipped lists them)\n"
      "text       {:.1f} MB, with index {:.1f} MB, in {} segments, {} with symbols\n"
      "index      {} in {:.1f} ms\n"
      "blocks     {}, of which {} were candidates; {:.1f} MB were looked at, by {} keys\n"
      "query      {:.2f} ms: {:.2f} to plan, {:.2f} to find, {:.2f} to rank and show\n"
      "matches    {} in {} files\n",
      files, skipped, static_cast<double>(text) / 1e6, static_cast<double>(bytes) / 1e6,
      index.segments->size(), symbols, index.origin, ms(index.took), stats.blocks,
      stats.candidate_blocks, static_cast<double>(stats.checked_bytes) / 1e6, stats.keys,
      ms(stats.plan + stats.find + stats.rank), ms(stats.plan), ms(stats.find), ms(stats.rank),
      answer.match_count, answer.file_count);
}

}  // namespace warren::cli
