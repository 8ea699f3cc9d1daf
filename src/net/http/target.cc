#include "net/http/target.h"

#include <algorithm>

namespace warren {

namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool stays(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("-._~+").contains(c);
}

// Calls visit(whole, name, value) for each pair, until it returns false.
template <class Visit>
void each_pair(std::string_view query, Visit visit) {
  while (!query.empty()) {
    auto whole = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), whole.size() + 1));
    auto equals = whole.find('=');
    auto value = equals == whole.npos ? std::string_view() : whole.substr(equals + 1);
    if (!whole.empty() && !visit(whole, whole.substr(0, equals), value)) return;
  }
}

}  // namespace

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded.push_back(text[i]);
    } else {
      auto high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
      auto low = high >= 0 ? hex_digit(text[i + 2]) : -1;
      if (low < 0 || high + low == 0) return std::nullopt;
      decoded.push_back(static_cast<char>(high * 16 + low));
      i += 2;
    }
  }
  return decoded;
}

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string encoded;
  for (unsigned char c : text) {
    if (stays(static_cast<char>(c))) {
      encoded.push_back(static_cast<char>(c));
    } else {
      encoded.push_back('%');
      encoded.push_back(digits[c >> 4]);
      encoded.push_back(digits[c & 15]);
    }
  }
  return encoded;
}

std::string_view next_part(std::string_view& path) {
  if (path.starts_with('/')) path.remove_prefix(1);
  auto part = path.substr(0, path.find('/'));
  path.remove_prefix(part.size());
  return part;
}

std::optional<std::string> query_value(std::string_view query, std::string_view name) {
  std::optional<std::string> found;
  each_pair(query, [&](std::string_view, std::string_view key, std::string_view value) {
    // Only plain names match: our names need no percent-encoding.
    if (key == name) found = percent_decoded(value).value_or("");
    return !found;
  });
  return found;
}

std::vector<std::optional<std::string>> query_values(std::string_view query,
                                                     std::string_view name) {
  std::vector<std::optional<std::string>> found;
  each_pair(query, [&](std::string_view, std::string_view key, std::string_view value) {
    if (key == name) found.push_back(percent_decoded(value));
    return true;
  });
  return found;
}

std::string query_without(std::string_view query, std::string_view name) {
  std::string rest;
  each_pair(query, [&](std::string_view whole, std::string_view key, std::string_view) {
    if (key != name) rest.append(rest.empty() ? "" : "&").append(whole);
    return true;
  });
  return rest;
}

}  // namespace warren
