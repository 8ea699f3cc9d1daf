#pragma once
// Messages for people, on standard error.
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace warren::cli {

// Ignores write errors, which would make fmt::print throw.
template <class... Values>
void say(fmt::format_string<Values...> format, Values&&... values) {
  auto text = fmt::format(format, std::forward<Values>(values)...);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace warren::cli
