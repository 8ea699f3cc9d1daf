#pragma once
// A request and its answer, and how they look as bytes. Opens no socket.
#include <array>
#include <boost/asio/ip/address.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "net/http/framing.h"

namespace warren {

namespace asio = boost::asio;

struct HttpHeader {
  std::string_view name, value;
};

class HttpExchange;

// Views of the bytes that came: valid until it is answered.
struct HttpRequest {
  std::string_view method;
  std::string_view path;   // from the first slash, as it was sent: see target.h
  std::string_view query;  // behind the question mark, if there is one
  std::string_view body = {};
  asio::ip::address client = {};
  std::array<HttpHeader, 64> headers = {};
  std::size_t header_count = 0;
  HttpExchange* exchange = nullptr;  // for work that streams: see exchange.h

  // Empty when there is none. The name in small letters.
  std::string_view header(std::string_view name) const;
};

struct HttpAnswer {
  int status = 200;
  // Of a literal, or of what lives until the head is written. A streamed answer may have none.
  std::string_view type = "text/plain; charset=utf-8";
  std::string body = {};
  std::string headers = {};  // further lines

  // False: a value that would end the line is not sent.
  bool add(std::string_view name, std::string_view value);
  // As new, but for the memory that it has.
  void clear();
};

// What stands before the body.
struct HttpHead {
  HttpRequest request = {};
  std::size_t size = 0;  // bytes, with the empty line
  std::size_t body_size = 0;
  bool is_chunked = false;  // then body_size says nothing
  bool keeps_alive = true;
  bool is_old = false;  // HTTP/1.0: a connection that stays open is said to
  bool waits_for_continue = false;
  bool wants_upgrade = false;
  int problem = 0;             // the status to refuse it with
  std::string_view what = {};  // is wrong with it
};

inline constexpr std::size_t most_head_bytes = 16u << 10;

enum class HeadState { partial, whole, wrong };
// Strict, since what two programs read differently is how requests are smuggled past one of them:
// lines end with CR LF, no header is folded, there is one length at most, and none beside chunks.
HeadState parse_head(std::string_view bytes, HttpHead& head);

// What stands before the body of an answer. Views of the bytes that came.
struct HttpReplyHead {
  int status = 0;
  std::string_view headers = {};  // lines, each with its end
  std::size_t size = 0;           // bytes, with the empty line
  BodyEnd end = until_close;      // unless the request or the status says that there is no body
  bool keeps_alive = true;
  std::string_view what = {};  // is wrong with it
};
// As strict as parse_head, since answers of strangers are passed on to others.
HeadState parse_reply_head(std::string_view bytes, HttpReplyHead& head);
// How the body of this answer to such a request ends. There is none for HEAD, 1xx, 204 and 304.
BodyEnd body_end(const HttpReplyHead& head, std::string_view method);
// Among lines of headers; empty when there is none.
std::string_view header_in(std::string_view lines, std::string_view name);
// A token, a colon, and text without control characters.
bool is_header(std::string_view line);
bool has_body(int status);

std::string_view reason_of(int status);

// Appends the answer. `date` and `fixed` (lines that each answer has) are the server's.
void write_answer(std::string& out, const HttpAnswer& answer, std::string_view date,
                  std::string_view fixed, bool with_body, bool keeps_alive);

// Appends the head of an answer whose body follows in pieces.
void write_head(std::string& out, const HttpAnswer& answer, std::string_view date,
                std::string_view fixed, BodyEnd end, bool keeps_alive);

bool same_word(std::string_view one, std::string_view other);  // but for the case of letters

}  // namespace warren
