#pragma once
// How `warren search` prints its results.
#include <optional>
#include <string>
#include <string_view>

#include "cli/cli.h"
#include "cli/search/index.h"
#include "search/query/search.h"

namespace warren::cli {

// Standard output. If its reader closes it early, the rest is not written.
class SearchOutput {
 public:
  void write(std::string_view text) {
    waiting_ += text;
    if (waiting_.size() > 64u << 10) flush();
  }
  void flush();
  bool is_closed() const { return is_closed_; }
  // Lets the reader see the end now, although this process continues. Returns an error if something
  // could not be written, unless the reader closed the output.
  Result<> finish();

 private:
  std::string waiting_;
  bool is_closed_ = false;
  int error_ = 0;
};

struct SearchShow {
  enum class Form { lines, files, counts, json };
  Form form = Form::lines;
  bool has_headings = false;  // file names above their lines, instead of in each line
  bool is_terminal = false;
  bool explains = false;
  bool has_context = false;
  bool ends_names = false;  // NUL-terminated and unescaped, for xargs -0 and the like
  std::size_t lines_per_file = 0;
};

// Unprintable, and not a tab.
bool is_unsafe(char32_t c);
// Makes foreign text safe: it can neither move the cursor nor reverse the reading direction.
std::string safe_text(std::string_view text);
// The same for a path. Escapes control characters, quotes and backslashes as git does.
std::string safe_path(std::string_view path);

// Prints the files of one answer after the other.
class SearchPrinter {
 public:
  SearchPrinter(SearchOutput& output, const SearchPlace& place, const SearchShow& show, Paint paint)
      : output_(output), place_(place), show_(show), paint_(paint) {}
  void print(const search::FileMatch& file);
  // The number of files with omitted lines.
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
// For all printed pages: the last answer, with totals over all pages.
std::string json_summary(const search::Answer& answer, const SearchIndex& index);
// For people, on standard error.
std::string stats_text(const search::Answer& answer, const SearchIndex& index);

}  // namespace warren::cli
