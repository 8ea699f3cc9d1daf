#include "cli/terminal.h"

#include <doctest/doctest.h>

namespace warren::cli {
namespace {

std::string through(std::string_view text) { return TerminalFilter().take(text); }

TEST_CASE(
    "a terminal is sent text, line ends, tabs and our own colours, and nothing else that moves") {
  CHECK(through("plain\tgrün 日本\n") == "plain\tgrün 日本\n");
  CHECK(through("\x1b[31merror:\x1b[0m \x1b[1;31mmatch\x1b[0m") ==
        "\x1b[31merror:\x1b[0m \x1b[1;31mmatch\x1b[0m");
  CHECK(through("\r\x1b[K[###]  40 %") == "\r\x1b[K[###]  40 %");
  for (std::string_view hostile : {"\x1b]0;owned\a",
                                   "\x1b[8m hidden",
                                   "\x1b[2J",
                                   "\x1b[1A",
                                   "\x1b[38;5;1m",
                                   "\x1bP",
                                   "\x1b(0",
                                   "\033c",
                                   "\x1b[31;1mx",
                                   "\b",
                                   "\v",
                                   "\f",
                                   "\x7f",
                                   "\a",
                                   "over\rwrite",
                                   "\r\x1b[1K",
                                   "\302\2332J",
                                   "\xc2\x85",
                                   "\xe2\x80\xae",
                                   "\xe2\x81\xa6",
                                   "\xe2\x80\xa8",
                                   "\xef\xbb\xbf",
                                   "\2332J"}) {
    CAPTURE(hostile);
    auto shown = through(std::string(hostile) + "|");
    CHECK(shown.ends_with('|'));
    for (char c : shown) CHECK_FALSE((static_cast<unsigned char>(c) < 0x20 || c == 0x7f));
    for (std::string_view mark :
         {"\xc2\x9b", "\xc2\x85", "\xe2\x80\xae", "\xe2\x81\xa6", "\xe2\x80\xa8", "\xef\xbb\xbf"})
      CHECK_FALSE(shown.contains(mark));
  }
}

TEST_CASE("pieces are one text, wherever they are cut") {
  std::string text = "a\x1b[31mred\x1b[0m é日🎉 \r\x1b[K \x1b[9m \xff \xe2\x80\xae \xc2\x9b.";
  auto whole = through(text);
  for (std::size_t first = 0; first <= text.size(); ++first)
    for (std::size_t second = first; second <= text.size(); ++second) {
      TerminalFilter filter;
      auto shown = filter.take(text.substr(0, first));
      shown += filter.take(text.substr(first, second - first));
      shown += filter.take(text.substr(second));
      CHECK(shown == whole);
    }
}

}  // namespace
}  // namespace warren::cli
