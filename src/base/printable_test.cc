#include "base/printable.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace warren {

namespace {

std::string utf8_of(char32_t c) {
  auto tail = [c](int shift) { return static_cast<char>(0x80 | ((c >> shift) & 0x3f)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xc0 | (c >> 6)), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xe0 | (c >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xf0 | (c >> 18)), tail(12), tail(6), tail(0)};
}

}  // namespace

TEST_CASE("no control, line end, turn of direction or hidden mark is printable") {
  for (char32_t c = 0; c < 0x20; ++c) CHECK(printable("a" + utf8_of(c) + "b") == "a?b");
  for (char32_t c = 0x7f; c < 0xa0; ++c) CHECK(printable("a" + utf8_of(c) + "b") == "a?b");
  for (int number : {0x61c,  0x180e, 0x200b, 0x200e, 0x200f, 0x2028,  0x2029,  0x202a,
                     0x202b, 0x202c, 0x202d, 0x202e, 0x2060, 0x2064,  0x2066,  0x2067,
                     0x2068, 0x2069, 0xfeff, 0xfff9, 0xfffb, 0xe0001, 0xe0041, 0xe007f}) {
    CAPTURE(number);
    CHECK(printable("a" + utf8_of(static_cast<char32_t>(number)) + "b") == "a?b");
  }
}

TEST_CASE("what is no UTF-8 is told, and everything else stays as it is") {
  CHECK(printable("a\xff"
                  "b\x9b\xc2") == "a\uFFFDb\uFFFD\uFFFD");
  CHECK(printable("\xed\xa0\x80") == "\uFFFD\uFFFD\uFFFD");
  CHECK(printable("").empty());
  for (std::string_view text : {"plain words", "grün 日本 🎉", "नमस्ते क्‍ष",
                                "👨‍👩‍👧", "e\u0301 \u00a0 \uFFFD", "\u2192 …"})
    CHECK(printable(text) == text);
}

}  // namespace warren
