#include "redis/resp/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace warren::redis {
namespace {

using Kind = Reply::Kind;
using Result = TokenResult::Status;

// A vector that has just doubled is twice as large as its content.
constexpr std::size_t item_bytes = 2 * sizeof(Reply);

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

bool is_aggregate(Kind kind) {
  return kind == Kind::array || kind == Kind::set || kind == Kind::map || kind == Kind::push;
}

inline bool has_crlf(std::string_view bytes, std::size_t at) {
  return bytes.size() >= at + 2 && bytes[at] == '\r' && bytes[at + 1] == '\n';
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

// "123\r\n": the size of that, or 0 for anything unusual, which is looked at more closely.
inline std::size_t read_plain_number(std::string_view text, std::int64_t& number) {
  std::size_t most = std::min<std::size_t>(text.size(), 18);
  std::size_t i = 0;
  std::int64_t value = 0;
  for (; i < most; ++i) {
    unsigned digit = static_cast<unsigned char>(text[i]) - '0';
    if (digit > 9) break;
    value = value * 10 + digit;
  }
  if (!has_crlf(text, i) || i == 0 || (i > 1 && text[0] == '0')) return 0;
  number = value;
  return i + 2;
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

// What stands in one line, into the token; or what is wrong with it.
const char* read_scalar(Form form, std::string_view line, Token& token) {
  switch (form) {
    case Form::number:
      return read_number(line, token.number) ? nullptr : "not an integer of 64 bits";
    case Form::null:
      return line.empty() ? nullptr : "not a null";
    case Form::boolean:
      token.number = line == "t";
      return line == "t" || line == "f" ? nullptr : "neither t nor f";
    case Form::real: {
      double real = 0;
      if (!read_real(line, real)) return "not a double";
      token.number = std::bit_cast<std::int64_t>(real);
      return nullptr;
    }
    case Form::big_number:
      token.text = line;
      return is_whole_number(line) ? nullptr : "not a big number";
    default:
      token.text = line;
      return nullptr;
  }
}

// The length of a bulk or an aggregate. The nulls of RESP2, $-1 and *-1, change the token's kind.
const char* read_length(char type, std::string_view line, std::size_t most, Token& token) {
  if (!read_number(line, token.number)) {
    return line == "?" ? "streamed, which is not supported" : "not a length";
  }
  if (token.number == -1 && (type == '$' || type == '*')) {
    token.kind = Kind::null;
    token.number = 0;
    return nullptr;
  }
  if (token.number < 0) return "a negative length";
  return static_cast<std::size_t>(token.number) > most ? "longer than allowed" : nullptr;
}

// The bytes that a bulk's line, which ends before `start`, has announced.
inline TokenResult read_bulk(std::string_view bytes, std::size_t start, Token& token) {
  std::size_t end = start + token.number;
  if (bytes.size() < end + 2) return incomplete(end + 2);
  if (bytes[end] != '\r' || bytes[end + 1] != '\n') return broken("no CR LF behind it");
  token.text = bytes.substr(start, token.number);
  token.number = 0;
  if (token.kind == Kind::verbatim) {
    if (token.text.size() < 4 || token.text[3] != ':') return broken("without a format");
    token.text.remove_prefix(4);
  }
  return {Result::complete, end + 2};
}

[[gnu::always_inline]] inline void fill(Reply& reply, const Token& token) {
  reply.kind = token.kind;
  reply.number = token.number;
  reply.text.assign(token.text);
}

// The tokens that nearly all traffic consists of, when they are whole and plain: their size. 0 for
// anything else, which read_token looks at more closely. Inlined into the parser's loop, where
// the token stays in registers.
[[gnu::always_inline]] inline std::size_t read_common(std::string_view bytes,
                                                      const ParserLimits& limits, Token& token) {
  switch (bytes[0]) {
    case '+': {
      // Mostly "OK": a loop finds the end of a short line before a call of memchr has begun.
      std::size_t most = std::min<std::size_t>(bytes.size(), 9);
      std::size_t end = 1;
      while (end < most && bytes[end] != '\r') ++end;
      if (!has_crlf(bytes, end)) return 0;
      token.kind = Kind::status;
      token.text = bytes.substr(1, end - 1);
      return end + 2;
    }
    case ':': {
      token.kind = Kind::integer;
      std::size_t size = read_plain_number(bytes.substr(1), token.number);
      return size == 0 ? 0 : 1 + size;
    }
    case '$': {
      std::int64_t length = 0;
      std::size_t size = read_plain_number(bytes.substr(1), length);
      std::size_t end = 1 + size + length;
      if (size == 0 || std::size_t(length) > limits.bulk_bytes || !has_crlf(bytes, end)) return 0;
      token.kind = Kind::string;
      token.text = bytes.substr(1 + size, length);
      return end + 2;
    }
    default:
      return 0;
  }
}

}  // namespace

TokenResult read_token(std::string_view bytes, const ParserLimits& limits, Token& token) {
  if (bytes.empty()) return incomplete(1);
  Type type = types[static_cast<unsigned char>(bytes[0])];
  if (type.form == Form::unknown) return broken("unknown; is this a Redis server?");

  std::size_t room = bytes.size() - 1;
  if (room > limits.line_bytes) room = limits.line_bytes + 1;
  std::size_t length = bytes.substr(1, room).find('\r');
  if (length == bytes.npos) {
    return room > limits.line_bytes ? broken("a line longer than allowed")
                                    : incomplete(bytes.size() + 1);
  }
  std::size_t end = length + 3;
  if (bytes.size() < end) return incomplete(end);
  if (bytes[end - 1] != '\n') return broken("a CR without LF");
  std::string_view line = bytes.substr(1, length);

  token = Token{};
  token.kind = type.kind;
  const char* problem = nullptr;
  if (type.form == Form::bulk) {
    problem = read_length(bytes[0], line, limits.bulk_bytes, token);
    if (!problem && token.kind != Kind::null) return read_bulk(bytes, end, token);
  } else if (type.form == Form::aggregate) {
    std::size_t elements = type.kind == Kind::map ? 2 : 1;
    problem = read_length(bytes[0], line, limits.items / elements, token);
    token.number *= elements;
    token.is_attribute = bytes[0] == '|';
  } else {
    problem = read_scalar(type.form, line, token);
  }
  return problem ? broken(problem) : TokenResult{Result::complete, end};
}

Parser::Progress Parser::parse(std::string_view bytes, Reply& into) {
  if (bytes.size() < needed_) {
    return {problem_.empty() ? Status::incomplete : Status::broken, 0};
  }
  std::size_t consumed = 0;
  for (;;) {
    Token token;
    std::string_view rest = bytes.substr(consumed);
    std::size_t size = rest.empty() ? 0 : read_common(rest, limits_, token);
    if (size == 0) {
      Token other;
      TokenResult result = read_token(rest, limits_, other);
      // A string that does not fit is refused before its bytes fill the caller's buffer.
      if (result.status == Result::incomplete && !open_.empty() &&
          held_ + static_cast<std::size_t>(other.number) > limits_.reply_bytes)
        return stop_large(rest, consumed);
      if (result.status != Result::complete) return stop(result, rest, consumed);
      size = result.size;
      token = other;
    }
    consumed += size;
    if (is_aggregate(token.kind) && token.number > 0) {
      if (open_.size() == limits_.depth) {
        return stop(broken("nested deeper than allowed"), rest, consumed);
      }
      held_ += item_bytes;
      if (held_ > limits_.reply_bytes) return stop_large(rest, consumed);
      open_.push_back({Reply{token.kind, 0, {}, {}}, token.number, token.is_attribute});
      // What is claimed is not yet there: beyond this the vector grows with what arrives.
      open_.back().reply.items.reserve(std::min<std::size_t>(token.number, 256));
      continue;
    }
    if (token.is_attribute) continue;
    if (open_.empty()) {
      fill(into, token);
      into.items.clear();
    } else {
      held_ += item_bytes + token.text.size();
      if (held_ > limits_.reply_bytes) return stop_large(rest, consumed);
      fill(open_.back().reply.items.emplace_back(), token);
      if (--open_.back().missing > 0 || !close_full(into)) continue;
    }
    needed_ = 1;
    held_ = 0;
    return {Status::complete, consumed};
  }
}

// An element was added to the innermost aggregate. Closes it if that was the last one, and those
// around it whose last element it was. True when the outermost is closed: the reply is complete.
bool Parser::close_full(Reply& into) {
  do {
    Open full = std::move(open_.back());
    open_.pop_back();
    if (full.is_attribute) return false;  // what it was about is still to come
    if (open_.empty()) {
      into = std::move(full.reply);
      return true;
    }
    open_.back().reply.items.push_back(std::move(full.reply));
  } while (--open_.back().missing == 0);
  return false;
}

Parser::Progress Parser::stop(const TokenResult& result, std::string_view rest,
                              std::size_t consumed) {
  if (result.status == Result::incomplete) {
    needed_ = result.size;
    return {Status::incomplete, consumed};
  }
  // Only the type: what comes behind it may be a secret.
  problem_ = fmt::format("RESP type {}: {}", quoted(rest.substr(0, 1)), result.problem);
  needed_ = std::numeric_limits<std::size_t>::max();  // however much comes, it is not looked at
  open_ = {};
  return {Status::broken, consumed};
}

Parser::Progress Parser::stop_large(std::string_view rest, std::size_t consumed) {
  is_too_large_ = true;
  return stop(broken("more in one reply than allowed"), rest, consumed);
}

}  // namespace warren::redis
