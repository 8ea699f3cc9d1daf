#pragma once
// How `warren search` shows what it found.
#include <optional>
#include <string>
#include <string_view>

#include "cli/cli.h"
#include "cli/search/index.h"
#include "search/query/search.h"

namespace warren::cli {

// Standard output. Whoever reads it may have enough before the end: then the rest is not written.
class SearchOutput {
 public:
  void write(std::string_view text) {
    waiting_ += text;
    if (waiting_.size() > 64u << 10) flush();
  }
  void flush();
  bool is_closed() const { return is_closed_; }
  // Lets the reader see the end now, though this process has more to do. What was not written is an
  // error, unless nobody wanted it.
  Result<> finish();

 private:
  std::string waiting_;
  bool is_closed_ = false;
  int error_ = 0;
};

struct SearchShow {
  enum class Form { lines, files, counts, json };
  Form form = Form::lines;
  bool has_headings = false;  // a file's name above its lines, and not in front of each
  bool is_terminal = false;
  bool explains = false;
  bool has_context = false;
  bool ends_names = false;  // each with a NUL and as it is, for xargs -0 and its like
  std::size_t lines_per_file = 0;
};

// Unprintable, and no tab.
bool is_unsafe(char32_t c);
// A text of strangers that can neither move the cursor nor turn the direction of reading.
std::string safe_text(std::string_view text);
// The same for a path. Control characters, quotes and backslashes are written as git writes them.
std::string safe_path(std::string_view path);

// Writes files of one answer after the other.
class SearchPrinter {
 public:
  SearchPrinter(SearchOutput& output, const SearchPlace& place, const SearchShow& show, Paint paint)
      : output_(output), place_(place), show_(show), paint_(paint) {}
  void print(const search::FileMatch& file);
  // Files of which lines were left out.
  std::size_t cut_files() const { return cut_files_; }
  const std::string& first_cut() const { return first_cut_; }

 private:
  std::string name_of(const search::FileMatch& file, bool is_raw) const;
  void print_lines(const search::FileMatch& file, const std::string& name);
  void print_line(const std::string& name, std::uint32_t number, bool is_match,
                  std::string_view text, std::span<const search::Range> ranges,
                  bool is_cut = false);

  SearchOutput& output_;
  const SearchPlace& place_;
  SearchShow show_;
  Paint paint_;
  bool is_first_ = true;
  std::size_t cut_files_ = 0;
  std::string first_cut_;
};

std::string json_of(const search::FileMatch& file, const std::string& shown);
std::string json_of(const search::Skipped& skipped);
// Of all pages that were shown: the last one, with the sums over all.
std::string json_summary(const search::Answer& answer, const SearchIndex& index);
// For people, on standard error.
std::string stats_text(const search::Answer& answer, const SearchIndex& index);

}  // namespace warren::cli
