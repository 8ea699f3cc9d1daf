#include "base/base64.h"

#include <doctest/doctest.h>

namespace warren {

TEST_CASE("base64 is that of RFC 4648, and is read back") {
  constexpr std::pair<std::string_view, std::string_view> vectors[] = {{"", ""},
                                                                       {"f", "Zg=="},
                                                                       {"fo", "Zm8="},
                                                                       {"foo", "Zm9v"},
                                                                       {"foob", "Zm9vYg=="},
                                                                       {"fooba", "Zm9vYmE="},
                                                                       {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    CHECK(to_base64(bytes) == text);
    CHECK(from_base64(text) == bytes);
  }
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  CHECK(from_base64(to_base64(all)) == all);
  CHECK(from_base64("Zm8") == "fo");
  CHECK_FALSE(from_base64("Zm 8"));
  CHECK_FALSE(from_base64("*"));
}

}  // namespace warren
