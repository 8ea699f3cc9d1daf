#include "net/http/message.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace warren {

namespace {

char small(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

// The characters allowed in methods and header names.
constexpr auto token_letters = [] {
  std::array<bool, 256> is{};
  for (unsigned char c : std::string_view("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                          "ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    is[c] = true;
  return is;
}();

bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return token_letters[static_cast<unsigned char>(c)];
  });
}

bool is_text(std::string_view text) {
  return std::ranges::none_of(text, [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
  });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

HeadState wrong(HttpHead& head, int status, std::string_view what) {
  head.problem = status;
  head.what = what;
  head.keeps_alive = false;
  return HeadState::wrong;
}

// Strips the authority from http://host/path, the form used with proxies.
std::string_view without_authority(std::string_view target) {
  for (std::string_view scheme : {"http://", "https://"})
    if (target.starts_with(scheme)) {
      auto slash = target.find_first_of("/?", scheme.size());
      return slash == target.npos ? "/" : target.substr(slash);
    }
  return target;
}

HeadState parse_first_line(std::string_view line, HttpHead& head) {
  auto first = line.find(' '), last = line.rfind(' ');
  if (first == line.npos || first == last) return wrong(head, 400, "this is no request");
  auto& request = head.request;
  request.method = line.substr(0, first);
  auto version = line.substr(last + 1);
  auto target = without_authority(line.substr(first + 1, last - first - 1));
  if (!is_token(request.method) || target.empty() || target.contains(' ') || !is_text(target))
    return wrong(head, 400, "this is no request");
  // The HTTP/2 preface gets an answer, and nothing more.
  bool is_preface = request.method == "PRI" && version == "HTTP/2.0";
  if (version != "HTTP/1.1" && version != "HTTP/1.0" && !is_preface)
    return wrong(head, version.starts_with("HTTP/") ? 505 : 400, "HTTP/1.1 is spoken here");
  head.keeps_alive = version == "HTTP/1.1";
  head.is_old = version == "HTTP/1.0";
  if (target.front() != '/' && target.front() != '?' && target != "*")
    return wrong(head, 400, "a path begins with a slash");
  auto mark = target.find('?');
  request.path = target.substr(0, mark);
  if (request.path.empty()) request.path = "/";
  request.query = mark == target.npos ? std::string_view() : target.substr(mark + 1);
  return HeadState::whole;
}

// Whether a list such as "close, TE" contains this word.
bool names(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    auto each = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), each.size() + 1));
    if (same_word(trimmed(each), word)) return true;
  }
  return false;
}

bool read_length(std::string_view text, std::uint64_t& length) {
  const auto* begin = text.data();
  const auto* end = begin + text.size();
  auto read = std::from_chars(begin, end, length);
  return !text.empty() && read.ec == std::errc() && read.ptr == end;
}

struct Seen {
  bool length = false, host = false;
};

// Handles headers that say where the request ends, what happens to the connection, or which host is
// meant.
HeadState obey(const HttpHeader& header, HttpHead& head, Seen& seen) {
  if (same_word(header.name, "host")) {
    // With two Host headers, one program on the way may use the first and another the last.
    if (std::exchange(seen.host, true)) return wrong(head, 400, "there is one Host at most");
  } else if (same_word(header.name, "content-length")) {
    if (seen.length || head.is_chunked || !read_length(header.value, head.body_size))
      return wrong(head, 400, "Content-Length is one whole number");
    seen.length = true;
  } else if (same_word(header.name, "transfer-encoding")) {
    bool is_plain = same_word(header.value, "chunked") && !head.is_old;
    if (seen.length || head.is_chunked || !is_plain)
      return wrong(head, 411, "a body needs a Content-Length");
    head.is_chunked = true;
  } else if (same_word(header.name, "connection")) {
    if (names(header.value, "close"))
      head.keeps_alive = false;
    else if (head.is_old && names(header.value, "keep-alive"))
      head.keeps_alive = true;
  } else if (same_word(header.name, "expect")) {
    head.waits_for_continue = same_word(header.value, "100-continue");
  } else if (same_word(header.name, "upgrade")) {
    head.wants_upgrade = !head.is_old;
  }
  return HeadState::whole;
}

}  // namespace

bool same_word(std::string_view one, std::string_view other) {
  return std::ranges::equal(one, other, {}, small, small);
}

std::string_view HttpRequest::header(std::string_view name) const {
  for (std::size_t i = 0; i < header_count; ++i)
    if (same_word(headers[i].name, name)) return headers[i].value;
  return {};
}

bool HttpAnswer::add(std::string_view name, std::string_view value) {
  if (!is_text(value)) return false;
  headers.append(name).append(": ").append(value).append("\r\n");
  return true;
}

void HttpAnswer::clear() {
  constexpr std::size_t much = 64u << 10;
  status = 200;
  type = "text/plain; charset=utf-8";
  if (body.capacity() > much) body = {};
  body.clear();
  headers.clear();
}

HeadState parse_head(std::string_view bytes, HttpHead& head) {
  head.body_size = 0;
  head.waits_for_continue = head.is_chunked = head.wants_upgrade = false;
  head.request.header_count = 0;  // the rest of the array may come from an earlier request
  head.request.body = {};
  auto end = bytes.find("\r\n\r\n");
  if (end == bytes.npos)
    return bytes.size() < most_head_bytes ? HeadState::partial
                                          : wrong(head, 431, "the head of the request is too long");
  if (end + 4 > most_head_bytes) return wrong(head, 431, "the head of the request is too long");
  head.size = end + 4;
  auto rest = bytes.substr(0, end + 2);
  auto next_line = [&rest] {
    auto at = rest.find("\r\n");
    auto line = rest.substr(0, at);
    rest.remove_prefix(at + 2);
    return line;
  };
  auto state = parse_first_line(next_line(), head);
  Seen seen;
  while (state == HeadState::whole && !rest.empty()) {
    auto line = next_line();
    auto colon = line.find(':');
    auto& request = head.request;
    if (colon == line.npos || !is_token(line.substr(0, colon)) || !is_text(line.substr(colon)))
      return wrong(head, 400, "a header is a name, a colon and a value");
    if (request.header_count == request.headers.size())
      return wrong(head, 431, "there are too many headers");
    HttpHeader header{line.substr(0, colon), trimmed(line.substr(colon + 1))};
    request.headers[request.header_count++] = header;
    state = obey(header, head, seen);
  }
  return state;
}

bool is_header(std::string_view line) {
  auto colon = line.find(':');
  return colon != line.npos && is_token(line.substr(0, colon)) && is_text(line.substr(colon));
}

bool has_body(int status) { return status >= 200 && status != 204 && status != 304; }

namespace {

HeadState wrong(HttpReplyHead& head, std::string_view what) {
  head.what = what;
  head.keeps_alive = false;
  return HeadState::wrong;
}

// HTTP/1.1 307 Temporary Redirect
HeadState parse_status_line(std::string_view line, HttpReplyHead& head, bool& is_old) {
  is_old = line.starts_with("HTTP/1.0 ");
  if (!is_old && !line.starts_with("HTTP/1.1 ")) return wrong(head, "this is no HTTP/1.1");
  line.remove_prefix(9);
  std::uint64_t status = 0;
  bool is_number = read_length(line.substr(0, 3), status) && status >= 100 && status < 600;
  if (line.size() < 3 || !is_number || !is_text(line) || (line.size() > 3 && line[3] != ' '))
    return wrong(head, "an answer begins with its status");
  head.status = static_cast<int>(status);
  head.keeps_alive = !is_old;
  return HeadState::whole;
}

// Handles headers that say where the answer ends, or what happens to the connection.
HeadState obey(const HttpHeader& header, HttpReplyHead& head, bool is_old) {
  bool has_end = head.end.kind != BodyEnd::by_close;
  if (same_word(header.name, "content-length")) {
    std::uint64_t length = 0;
    if (has_end || !read_length(header.value, length))
      return wrong(head, "Content-Length is one whole number");
    head.end = body_of(length);
  } else if (same_word(header.name, "transfer-encoding")) {
    if (has_end || is_old || !same_word(header.value, "chunked"))
      return wrong(head, "a body is chunked or has a length");
    head.end = chunked;
  } else if (same_word(header.name, "connection")) {
    if (names(header.value, "close"))
      head.keeps_alive = false;
    else if (is_old && names(header.value, "keep-alive"))
      head.keeps_alive = true;
  }
  return HeadState::whole;
}

}  // namespace

HeadState parse_reply_head(std::string_view bytes, HttpReplyHead& head) {
  head = {};
  auto end = bytes.substr(0, most_head_bytes).find("\r\n\r\n");
  if (end == bytes.npos)
    return bytes.size() < most_head_bytes ? HeadState::partial
                                          : wrong(head, "the head of the answer is too long");
  head.size = end + 4;
  auto rest = bytes.substr(0, end + 2);
  auto next_line = [&rest] {
    auto at = rest.find("\r\n");
    auto line = rest.substr(0, at);
    rest.remove_prefix(at + 2);
    return line;
  };
  bool is_old = false;
  auto state = parse_status_line(next_line(), head, is_old);
  head.headers = rest;
  while (state == HeadState::whole && !rest.empty()) {
    auto line = next_line();
    if (!is_header(line)) return wrong(head, "a header is a name, a colon and a value");
    auto colon = line.find(':');
    state = obey({line.substr(0, colon), trimmed(line.substr(colon + 1))}, head, is_old);
  }
  return state;
}

BodyEnd body_end(const HttpReplyHead& head, std::string_view method) {
  return method == "HEAD" || !has_body(head.status) ? body_of(0) : head.end;
}

std::string_view header_in(std::string_view lines, std::string_view name) {
  while (!lines.empty()) {
    auto line = lines.substr(0, lines.find("\r\n"));
    lines.remove_prefix(std::min(lines.size(), line.size() + 2));
    auto colon = line.find(':');
    if (colon != line.npos && same_word(line.substr(0, colon), name))
      return trimmed(line.substr(colon + 1));
  }
  return {};
}

std::string_view reason_of(int status) {
  switch (status) {
    case 101:
      return "Switching Protocols";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 206:
      return "Partial Content";
    case 302:
      return "Found";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 411:
      return "Length Required";
    case 412:
      return "Precondition Failed";
    case 413:
      return "Content Too Large";
    case 416:
      return "Range Not Satisfiable";
    case 421:
      return "Misdirected Request";
    case 422:
      return "Unprocessable Content";
    case 426:
      return "Upgrade Required";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Unknown";
  }
}

void write_answer(std::string& out, const HttpAnswer& answer, std::string_view date,
                  std::string_view fixed, bool with_body, bool keeps_alive) {
  fmt::format_int status(answer.status), length(answer.body.size());
  out.append("HTTP/1.1 ").append(status.data(), status.size()).append(" ");
  out.append(reason_of(answer.status)).append("\r\nDate: ").append(date);
  out.append("\r\nContent-Type: ").append(answer.type).append("\r\nContent-Length: ");
  out.append(length.data(), length.size()).append("\r\n").append(fixed).append(answer.headers);
  if (!keeps_alive) out.append("Connection: close\r\n");
  out.append("\r\n");
  if (with_body) out.append(answer.body);
}

void write_head(std::string& out, const HttpAnswer& answer, std::string_view date,
                std::string_view fixed, BodyEnd end, bool keeps_alive) {
  fmt::format_int status(answer.status);
  out.append("HTTP/1.1 ").append(status.data(), status.size()).append(" ");
  out.append(reason_of(answer.status)).append("\r\nDate: ").append(date).append("\r\n");
  if (!answer.type.empty()) out.append("Content-Type: ").append(answer.type).append("\r\n");
  if (end.kind == BodyEnd::by_chunks) out.append("Transfer-Encoding: chunked\r\n");
  if (end.kind == BodyEnd::by_length && has_body(answer.status))
    out.append("Content-Length: ").append(fmt::format_int(end.length).str()).append("\r\n");
  out.append(fixed).append(answer.headers);
  if (!keeps_alive) out.append("Connection: close\r\n");
  out.append("\r\n");
}

}  // namespace warren
