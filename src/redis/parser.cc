#include "redis/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

namespace warren::redis {
namespace {

using Kind = Reply::Kind;
using Result = TokenResult::Status;

TokenResult incomplete(std::size_t needed) { return {Result::incomplete, needed}; }
TokenResult broken(const char* problem) { return {Result::broken, 0, problem}; }

enum class Form : std::uint8_t {
  unknown,
  text,
  number,
  null,
  boolean,
  real,
  big_number,
  bulk,       // a length, then that many bytes
  aggregate,  // a length, then that many elements
};

struct Type {
  Form form = Form::unknown;
  Kind kind = Kind::null;
};

constexpr std::array<Type, 256> types = [] {
  std::array<Type, 256> all{};
  all['+'] = {Form::text, Kind::status};
  all['-'] = {Form::text, Kind::error};
  all[':'] = {Form::number, Kind::integer};
  all['_'] = {Form::null, Kind::null};
  all['#'] = {Form::boolean, Kind::boolean};
  all[','] = {Form::real, Kind::real};
  all['('] = {Form::big_number, Kind::big_number};
  all['$'] = {Form::bulk, Kind::string};
  all['!'] = {Form::bulk, Kind::error};
  all['='] = {Form::bulk, Kind::verbatim};
  all['*'] = {Form::aggregate, Kind::array};
  all['~'] = {Form::aggregate, Kind::set};
  all['>'] = {Form::aggregate, Kind::push};
  all['%'] = {Form::aggregate, Kind::map};
  all['|'] = {Form::aggregate, Kind::map};
  return all;
}();

// Lines are mostly a few bytes long: a loop finds their end before a call of memchr has begun.
inline std::size_t find_cr(const char* bytes, std::size_t size) {
  std::size_t near = std::min<std::size_t>(size, 8);
  for (std::size_t i = 0; i < near; ++i) {
    if (bytes[i] == '\r') return i;
  }
  auto* found = static_cast<const char*>(std::memchr(bytes + near, '\r', size - near));
  return found ? found - bytes : size;
}

// Only the one way of writing a number that Redis uses.
inline bool read_number(std::string_view text, std::int64_t& number) {
  bool negative = !text.empty() && text[0] == '-';
  if (negative) text.remove_prefix(1);
  if (text.empty() || text.size() > 19) return false;  // 19 digits fit into 64 unsigned bits
  if (text[0] == '0' && (negative || text.size() > 1)) return false;
  std::uint64_t value = 0;
  for (char c : text) {
    unsigned digit = static_cast<unsigned char>(c) - '0';
    if (digit > 9) return false;
    value = value * 10 + digit;
  }
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  if (value > most + negative) return false;
  number = static_cast<std::int64_t>(negative ? 0 - value : value);
  return true;
}

bool read_real(std::string_view text, double& real) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (text == "inf") return real = infinity, true;
  if (text == "-inf") return real = -infinity, true;
  if (text == "nan" || text == "-nan") {  // the sign means nothing; printf may add it
    return real = std::numeric_limits<double>::quiet_NaN(), true;
  }
  // from_chars knows more spellings of infinity than we accept; numbers start with a digit.
  std::size_t digits = text.starts_with('-') ? 1 : 0;
  if (text.size() <= digits || text[digits] < '0' || text[digits] > '9') return false;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), real);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(real);
}

bool is_whole_number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// The length of a bulk or an aggregate. A null of RESP2 ($-1, *-1) changes the token's kind.
inline const char* read_length(char type, std::string_view line, std::size_t most, Token& token) {
  if (!read_number(line, token.number)) {
    return line == "?" ? "a streamed type, which is not supported" : "not a length";
  }
  if (token.number < 0) {
    if (token.number != -1 || (type != '$' && type != '*')) return "a negative length";
    token.kind = Kind::null;
    token.number = 0;
    return nullptr;
  }
  return static_cast<std::size_t>(token.number) > most ? "longer than allowed" : nullptr;
}

// The bytes that a bulk's line, which ends before `start`, has announced.
inline TokenResult read_bulk(std::string_view bytes, std::size_t start, Token& token) {
  std::size_t end = start + token.number;
  if (bytes.size() < end + 2) return incomplete(end + 2);
  if (bytes[end] != '\r' || bytes[end + 1] != '\n')
    return broken("a string without CR LF behind it");
  token.text = bytes.substr(start, token.number);
  token.number = 0;
  if (token.kind == Kind::verbatim) {
    if (token.text.size() < 4 || token.text[3] != ':')
      return broken("a verbatim string without format");
    token.text.remove_prefix(4);
  }
  return {Result::complete, end + 2};
}

// Inlined into the parser's loop, where its results stay in registers.
[[gnu::always_inline]] inline TokenResult read(std::string_view bytes, const ParserLimits& limits,
                                               Token& token) {
  if (bytes.empty()) return incomplete(1);
  Type type = types[static_cast<unsigned char>(bytes[0])];
  if (type.form == Form::unknown) return broken("not a type of RESP");

  std::size_t room = std::min(bytes.size() - 1, limits.line_bytes + 1);
  std::size_t length = find_cr(bytes.data() + 1, room);
  if (length == room) {
    if (length > limits.line_bytes) return broken("a line longer than allowed");
    return incomplete(bytes.size() + 2);
  }
  std::size_t end = length + 3;
  if (bytes.size() < end) return incomplete(end);
  if (bytes[end - 1] != '\n') return broken("CR without LF");
  std::string_view line = bytes.substr(1, length);

  token = Token{};
  token.kind = type.kind;
  switch (type.form) {
    case Form::text:
      token.text = line;
      break;
    case Form::number:
      if (!read_number(line, token.number)) return broken("not an integer of 64 bits");
      break;
    case Form::bulk:
      if (auto* problem = read_length(bytes[0], line, limits.bulk_bytes, token))
        return broken(problem);
      if (token.kind != Kind::null) return read_bulk(bytes, end, token);
      break;
    case Form::aggregate: {
      std::size_t per_length = type.kind == Kind::map ? 2 : 1;
      if (auto* problem = read_length(bytes[0], line, limits.items / per_length, token)) {
        return broken(problem);
      }
      token.number *= per_length;
      token.is_attribute = bytes[0] == '|';
      break;
    }
    case Form::null:
      if (!line.empty()) return broken("not a null");
      break;
    case Form::boolean:
      if (line != "t" && line != "f") return broken("not a boolean");
      token.number = line == "t";
      break;
    case Form::real: {
      double real = 0;
      if (!read_real(line, real)) return broken("not a double");
      token.number = std::bit_cast<std::int64_t>(real);
      break;
    }
    case Form::big_number:
      if (!is_whole_number(line)) return broken("not a big number");
      token.text = line;
      break;
    case Form::unknown:
      break;
  }
  return {Result::complete, end};
}

bool is_aggregate(Kind kind) { return kind >= Kind::array; }

}  // namespace

TokenResult read_token(std::string_view bytes, const ParserLimits& limits, Token& token) {
  return read(bytes, limits, token);
}

Parser::Progress Parser::parse(std::string_view bytes) {
  if (bytes.size() < needed_) {
    return {problem_.empty() ? Status::incomplete : Status::broken, 0};
  }
  std::size_t consumed = 0;
  for (;;) {
    Token token;
    std::string_view rest = bytes.substr(consumed);
    TokenResult result = read(rest, limits_, token);
    if (result.status != Result::complete) return stop(result, rest, consumed);
    consumed += result.size;
    if (is_aggregate(token.kind) && token.number > 0) {
      if (open_.size() == limits_.depth)
        return stop(broken("nested deeper than allowed"), rest, consumed);
      open_.push_back({Reply{token.kind, 0, {}, {}}, token.number, token.is_attribute});
      // What is claimed is not yet there: beyond this the vector grows with what arrives.
      open_.back().reply.items.reserve(std::min<std::size_t>(token.number, 1024));
      continue;
    }
    if (token.is_attribute) continue;
    if (open_.empty()) {
      done_.kind = token.kind;
      done_.number = token.number;
      done_.text.assign(token.text);
      done_.items.clear();
    } else {
      open_.back().reply.items.emplace_back(token.kind, token.number, std::string(token.text));
      if (!close_full()) continue;
    }
    needed_ = 1;
    return {Status::complete, consumed};
  }
}

// An element was added to the innermost aggregate. Closes it if that was the last one, and those
// around it whose last element it was. True when the outermost is closed: the reply is complete.
bool Parser::close_full() {
  while (--open_.back().missing == 0) {
    Open full = std::move(open_.back());
    open_.pop_back();
    if (full.is_attribute) return false;  // what it was about is still to come
    if (open_.empty()) {
      done_ = std::move(full.reply);
      return true;
    }
    open_.back().reply.items.push_back(std::move(full.reply));
  }
  return false;
}

Parser::Progress Parser::stop(const TokenResult& result, std::string_view rest,
                              std::size_t consumed) {
  if (result.status == Result::incomplete) {
    needed_ = result.size;
    return {Status::incomplete, consumed};
  }
  problem_ = fmt::format("{}, at type byte {}", result.problem, quoted(rest.substr(0, 1)));
  needed_ = std::numeric_limits<std::size_t>::max();  // however much comes, it is not looked at
  return {Status::broken, consumed};
}

}  // namespace warren::redis
