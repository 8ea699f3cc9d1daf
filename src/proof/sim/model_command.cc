#include "proof/sim/model_command.h"

#include <algorithm>
#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <charconv>
#include <cmath>

namespace warren::sim {
namespace {

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

using CommandTable = boost::unordered_flat_map<std::string_view, const CommandSpec*>;

CommandTable all_commands() {
  CommandTable table;
  for (auto specs : {string_commands(), key_commands(), hash_commands(), list_commands(),
                     set_commands(), sorted_set_commands(), stream_commands(), server_commands()})
    for (const auto& spec : specs) table.emplace(spec.name, &spec);
  return table;
}

Reply unknown_command(Args args) {
  std::string words;
  for (auto word : args.subspan(1)) {
    if (words.size() >= 128) break;
    words += fmt::format("'{}' ", word.substr(0, 128 - words.size()));
  }
  return error(fmt::format("ERR unknown command '{}', with args beginning with: {}",
                           args[0].substr(0, 128), words));
}

// Matches "[a-c]" and the like at the front of the pattern, and removes it.
bool takes_class(std::string_view& pattern, char c) {
  pattern.remove_prefix(1);
  bool is_negated = pattern.starts_with('^');
  if (is_negated) pattern.remove_prefix(1);
  bool is_in = false;
  while (!pattern.empty() && pattern[0] != ']') {
    if (pattern[0] == '\\' && pattern.size() > 1) {
      is_in |= pattern[1] == c;
      pattern.remove_prefix(2);
    } else if (pattern.size() > 2 && pattern[1] == '-') {
      is_in |= std::min(pattern[0], pattern[2]) <= c && c <= std::max(pattern[0], pattern[2]);
      pattern.remove_prefix(3);
    } else {
      is_in |= pattern[0] == c;
      pattern.remove_prefix(1);
    }
  }
  if (!pattern.empty()) pattern.remove_prefix(1);
  return is_in != is_negated;
}

template <class T>
std::optional<T> to_number(std::string_view word) {
  T value = 0;
  auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (problem != std::errc() || end != word.data() + word.size()) return {};
  return value;
}

}  // namespace

Value* Execution::find(std::string_view key) {
  auto at = keys_.find(key);
  if (at == keys_.end()) return nullptr;
  if (is_alive(at->second)) return &at->second;
  expired_.push_back(at->first);
  keys_.erase(at);
  return nullptr;
}

Value& Execution::put(std::string_view key, Value value) {
  changed();
  auto at = keys_.find(key);
  if (at == keys_.end()) return keys_.emplace(std::string(key), std::move(value)).first->second;
  return at->second = std::move(value);
}

const CommandSpec* find_command(std::string_view name) {
  static const CommandTable table = all_commands();
  std::array<char, 16> capitals;  // no name is longer
  if (name.size() > capitals.size()) return nullptr;
  std::ranges::transform(name, capitals.begin(), upper);
  auto at = table.find(std::string_view(capitals.data(), name.size()));
  return at == table.end() ? nullptr : at->second;
}

bool fits_arity(const CommandSpec& command, std::size_t words) {
  auto count = static_cast<int>(words);
  return command.arity > 0 ? count == command.arity : count >= -command.arity;
}

Reply run_command(Execution& x, const CommandSpec& command, Args args) {
  if (x.refuses == Refuses::nothing || x.was_let_write) return command.run(x, args);
  auto is_in = [&](std::span<const std::string_view> names) {
    return std::ranges::find(names, command.name) != names.end();
  };
  static constexpr std::array<std::string_view, 40> reading{
      "HKEYS",     "HGET",     "HMGET",  "HGETALL", "HEXISTS",       "HLEN",   "HSCAN",
      "EXISTS",    "TYPE",     "PTTL",   "TTL",     "PEXPIRETIME",   "SCAN",   "DBSIZE",
      "LLEN",      "LRANGE",   "LINDEX", "LPOS",    "SMEMBERS",      "SCARD",  "SISMEMBER",
      "ZSCORE",    "ZCARD",    "ZCOUNT", "ZRANGE",  "ZRANGEBYSCORE", "XLEN",   "XRANGE",
      "XREVRANGE", "XREAD",    "XINFO",  "GET",     "MGET",          "STRLEN", "PING",
      "TIME",      "SPUBLISH", "EVAL",   "EVALSHA", "ZRANGEBYLEX"};
  static constexpr std::array<std::string_view, 17> shrinking{
      "HDEL",    "DEL",   "UNLINK", "EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT",
      "PERSIST", "LPOP",  "RPOP",   "LTRIM",  "LREM",    "SREM",     "ZREMRANGEBYSCORE",
      "ZREM",    "XTRIM", "XDEL"};
  if (is_in(reading) || command.name == "PUBLISH") return command.run(x, args);
  switch (x.refuses) {
    case Refuses::growth:
      if (is_in(shrinking)) break;
      return error("OOM command not allowed when used memory > 'maxmemory'.");
    case Refuses::writes:
      return error(
          "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist "
          "to disk.");
    case Refuses::writes_of_replica:
      return error("READONLY You can't write against a read only replica.");
    case Refuses::nothing:
      break;
  }
  x.was_let_write = true;
  return command.run(x, args);
}

Reply execute(Execution& x, Args args) {
  const auto* command = find_command(args[0]);
  if (!command) return unknown_command(args);
  if (!fits_arity(*command, args.size())) return wrong_arity(lower(command->name));
  return run_command(x, *command, args);
}

Reply real(double value) { return {Kind::real, std::bit_cast<std::int64_t>(value), {}, {}}; }

std::string real_text(double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return fmt::format("{:.17g}", value);
}

Reply error(std::string_view what) {
  Reply reply{Kind::error, 0, std::string(what), {}};
  std::ranges::replace_if(reply.text, [](char c) { return c == '\r' || c == '\n'; }, ' ');
  return reply;
}

Reply wrong_arity(std::string_view command) {
  return error(fmt::format("ERR wrong number of arguments for '{}' command", command));
}

Reply would_overflow() { return error("ERR increment or decrement would overflow"); }

std::optional<std::int64_t> to_integer(std::string_view word) {
  auto value = to_number<std::int64_t>(word);
  // Accepts one way to write each number: no leading zeros, no -0.
  bool is_plain = word == "0" || (value && *value != 0 && word[word[0] == '-'] != '0');
  return is_plain ? value : std::nullopt;
}

std::optional<std::uint64_t> to_unsigned(std::string_view word) {
  return to_number<std::uint64_t>(word);
}

std::optional<double> to_real(std::string_view word) {
  std::string copy(word);
  char* end = nullptr;
  if (copy.empty() || std::isspace(static_cast<unsigned char>(copy[0]))) return {};
  errno = 0;
  double value = std::strtod(copy.c_str(), &end);
  bool is_out_of_range = errno == ERANGE && (std::isinf(value) || value == 0);
  if (end != copy.c_str() + copy.size() || std::isnan(value) || is_out_of_range) return {};
  return value;
}

bool is_word(std::string_view word, std::string_view expected) {
  return std::ranges::equal(word, expected, {}, upper);
}

std::string lower(std::string_view word) {
  std::string result(word);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

bool matches(std::string_view pattern, std::string_view text) {
  while (!pattern.empty()) {
    if (pattern[0] == '*') {
      pattern.remove_prefix(1);
      for (std::size_t i = 0; i <= text.size(); ++i) {
        if (matches(pattern, text.substr(i))) return true;
      }
      return false;
    }
    if (text.empty()) return false;
    if (pattern[0] == '[') {
      if (!takes_class(pattern, text[0])) return false;
    } else {
      bool is_escaped = pattern[0] == '\\' && pattern.size() > 1;
      if (is_escaped) pattern.remove_prefix(1);
      if (pattern[0] != text[0] && (is_escaped || pattern[0] != '?')) return false;
      pattern.remove_prefix(1);
    }
    text.remove_prefix(1);
  }
  return text.empty();
}

std::pair<std::size_t, std::size_t> slice(std::int64_t start, std::int64_t stop, std::size_t size) {
  auto count = static_cast<std::int64_t>(size);
  if (start < 0) start = std::max<std::int64_t>(start + count, 0);
  if (stop < 0) stop += count;
  stop = std::min(stop, count - 1);
  if (start > stop) return {0, 0};
  return {static_cast<std::size_t>(start), static_cast<std::size_t>(stop + 1)};
}

std::optional<Reply> parse_cursor(std::string_view word, Scan& scan) {
  auto cursor = to_unsigned(word);
  if (!cursor) return error("ERR invalid cursor");
  scan.cursor = *cursor;
  return {};
}

std::optional<Reply> parse_scan_options(Args options, Scan& scan) {
  for (std::size_t i = 0; i < options.size(); i += 2) {
    if (i + 1 == options.size()) return syntax_error();
    if (is_word(options[i], "COUNT")) {
      auto count = to_integer(options[i + 1]);
      if (!count) return not_an_integer();
      if (*count < 1) return syntax_error();
      scan.count = *count;
    } else if (is_word(options[i], "MATCH")) {
      scan.pattern = options[i + 1];
    } else {
      return syntax_error();
    }
  }
  return {};
}

// By a hash (FNV-1a) of the name: a scan returns what exists from its first to its last portion
// exactly once, whatever is added and removed meanwhile.
std::uint64_t scan_position(std::string_view name) {
  std::uint64_t hash = 14695981039346656037u;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return (hash >> 16) + 1;
}

std::uint64_t take_portion(std::vector<ScanItem>& items, const Scan& scan) {
  std::erase_if(items, [&](const auto& item) { return item.position <= scan.cursor; });
  std::ranges::sort(items, {}, &ScanItem::position);
  auto end = items.begin() + std::min<std::ptrdiff_t>(scan.count, std::ssize(items));
  while (end != items.end() && end->position == std::prev(end)->position) ++end;
  std::uint64_t cursor = end == items.end() ? 0 : std::prev(end)->position;
  items.erase(end, items.end());
  if (scan.pattern)
    std::erase_if(items, [&](const auto& item) { return !matches(*scan.pattern, item.name); });
  return cursor;
}

}  // namespace warren::sim
