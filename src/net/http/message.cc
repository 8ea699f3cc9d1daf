#include "net/http/message.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace warren {

namespace {

char small(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

// What a method or the name of a header may be made of.
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

// http://host/path, as one asks a proxy.
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
  // The preface of HTTP/2 is answered and left at that.
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

// Whether a list like "close, TE" has this word.
bool names(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    auto each = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), each.size() + 1));
    if (same_word(trimmed(each), word)) return true;
  }
  return false;
}

// Headers that say where the request ends, or what becomes of the connection.
HeadState obey(const HttpHeader& header, HttpHead& head, bool& has_length) {
  if (same_word(header.name, "content-length")) {
    const auto* begin = header.value.data();
    const auto* end = begin + header.value.size();
    auto read = std::from_chars(begin, end, head.body_size);
    if (has_length || header.value.empty() || read.ec != std::errc() || read.ptr != end)
      return wrong(head, 400, "Content-Length is one whole number");
    has_length = true;
  } else if (same_word(header.name, "transfer-encoding")) {
    return wrong(head, 411, "a body needs a Content-Length");
  } else if (same_word(header.name, "connection")) {
    if (names(header.value, "close"))
      head.keeps_alive = false;
    else if (head.is_old && names(header.value, "keep-alive"))
      head.keeps_alive = true;
  } else if (same_word(header.name, "expect")) {
    head.waits_for_continue = same_word(header.value, "100-continue");
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
  head.waits_for_continue = false;
  head.request.header_count = 0;  // the rest of the array may be of another request
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
  bool has_length = false;
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
    state = obey(header, head, has_length);
  }
  return state;
}

std::string_view reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 202:
      return "Accepted";
    case 302:
      return "Found";
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
    case 409:
      return "Conflict";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 421:
      return "Misdirected Request";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
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

}  // namespace warren
