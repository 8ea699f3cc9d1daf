#include "cli/terminal.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/printable.h"

namespace warren::cli {

namespace {

using namespace std::string_view_literals;
constexpr std::array ours{"\x1b[0m"sv,  "\x1b[1m"sv,  "\x1b[2m"sv,  "\x1b[31m"sv,   "\x1b[32m"sv,
                          "\x1b[33m"sv, "\x1b[35m"sv, "\x1b[36m"sv, "\x1b[1;31m"sv, "\r\x1b[K"sv};

// The length of one of our sequences at the beginning of the text, or 0. Sets `is_begun` if the
// text ends within one.
std::size_t length_of_ours(std::string_view text, bool& is_begun) {
  for (auto sequence : ours) {
    if (text.starts_with(sequence)) return sequence.size();
    is_begun = is_begun || sequence.starts_with(text);
  }
  return 0;
}

// The text ends within a character.
bool is_begun_character(std::string_view text) {
  auto first = static_cast<unsigned char>(text[0]);
  std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  bool is_first = first >= 0xc2 && first <= 0xf4;
  return is_first && text.size() < length &&
         std::ranges::all_of(text.substr(1), [](char c) { return (c & 0xc0) == 0x80; });
}

struct Guarded {
  int file;
  TerminalFilter filter = {};
};

// fopencookie requires 0 for an error.
ssize_t write_guarded(void* cookie, const char* bytes, std::size_t size) {
  auto& guarded = *static_cast<Guarded*>(cookie);
  auto text = guarded.filter.take({bytes, size});
  for (std::string_view rest = text; !rest.empty();) {
    auto wrote = ::write(guarded.file, rest.data(), rest.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return 0;
    rest.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return static_cast<ssize_t>(size);
}

void guard(FILE*& stream, int file, int buffering) {
  if (isatty(file) == 0) return;
  cookie_io_functions_t functions{};
  functions.write = write_guarded;
  // Never freed: output written during exit still passes through it. Leak checkers see it here.
  static std::array<Guarded*, STDERR_FILENO + 1> kept{};
  auto* guarded = new Guarded{file};
  kept[static_cast<std::size_t>(file)] = guarded;
  auto* through = fopencookie(guarded, "w", functions);
  if (!through) {
    delete std::exchange(kept[static_cast<std::size_t>(file)], nullptr);
    return;
  }
  std::fflush(stream);
  std::setvbuf(through, nullptr, buffering, BUFSIZ);
  stream = through;
}

}  // namespace

std::string TerminalFilter::take(std::string_view piece) {
  waiting_ += piece;
  std::string out;
  std::string_view rest = waiting_;
  while (!rest.empty()) {
    bool is_begun = false;
    auto length = length_of_ours(rest, is_begun);
    if (length > 0) {
      out += rest.substr(0, length);
      rest.remove_prefix(length);
      continue;
    }
    if (is_begun || is_begun_character(rest)) break;
    auto [value, bytes] = first_code_point(rest);
    bool is_layout = value == '\n' || value == '\t';
    out += is_layout ? std::string(1, rest[0]) : printable(rest.substr(0, bytes));
    rest.remove_prefix(bytes);
  }
  waiting_.erase(0, waiting_.size() - rest.size());
  return out;
}

void guard_terminals() {
  guard(stdout, STDOUT_FILENO, _IOLBF);
  guard(stderr, STDERR_FILENO, _IONBF);
}

}  // namespace warren::cli
