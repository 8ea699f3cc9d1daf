#pragma once
// A request, its answer, and their wire format. Opens no socket.
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

// Views of the received bytes: valid until the request is answered.
struct HttpRequest {
  std::string_view method;
  std::string_view path;   // from the first slash, as it was sent: see target.h
  std::string_view query;  // after the question mark, if there is one
  std::string_view body = {};
  asio::ip::address client = {};
  std::array<HttpHeader, 64> headers = {};
  std::size_t header_count = 0;
  HttpExchange* exchange = nullptr;  // for work that streams: see exchange.h

  // Returns "" if the header is missing. Give the name in lowercase.
  std::string_view header(std::string_view name) const;
};

struct HttpAnswer {
  int status = 200;
  // Must point to a literal, or to something that outlives the writing of the head. A streamed
  // answer may leave it empty.
  std::string_view type = "text/plain; charset=utf-8";
  std::string body = {};
  std::string headers = {};  // additional lines

  // Returns false, and adds nothing, if the value contains a line end.
  bool add(std::string_view name, std::string_view value);
  // Resets it but keeps its memory.
  void clear();
};

// Everything before the body.
struct HttpHead {
  HttpRequest request = {};
  std::size_t size = 0;  // bytes, including the empty line
  std::size_t body_size = 0;
  bool is_chunked = false;  // then ignore body_size
  bool keeps_alive = true;
  bool is_old = false;  // HTTP/1.0: the answer must say if the connection stays open
  bool waits_for_continue = false;
  bool wants_upgrade = false;
  int problem = 0;             // the status to refuse it with
  std::string_view what = {};  // what is wrong with it
};

inline constexpr std::size_t most_head_bytes = 16u << 10;

enum class HeadState { partial, whole, wrong };
// Strict, because two programs that parse a request differently let attackers smuggle another one
// past one of them: lines end with CR LF, headers are not folded, and there is at most one length,
// and none beside chunks.
HeadState parse_head(std::string_view bytes, HttpHead& head);

// Everything before the body of an answer. Views of the received bytes.
struct HttpReplyHead {
  int status = 0;
  std::string_view headers = {};  // lines, each with its line end
  std::size_t size = 0;           // bytes, including the empty line
  BodyEnd end = until_close;      // unless request or status exclude a body
  bool keeps_alive = true;
  std::string_view what = {};  // what is wrong with it
};
// As strict as parse_head, because we forward answers of unknown servers.
HeadState parse_reply_head(std::string_view bytes, HttpReplyHead& head);
// How the body of this answer ends, given the request's method. HEAD, 1xx, 204 and 304 have no
// body.
BodyEnd body_end(const HttpReplyHead& head, std::string_view method);
// Finds a header in these lines. Returns "" if it is missing.
std::string_view header_in(std::string_view lines, std::string_view name);
// Whether the line is a token, a colon, and text without control characters.
bool is_header(std::string_view line);
bool has_body(int status);

std::string_view reason_of(int status);

// Appends the answer. `date` and `fixed` (lines that every answer has) come from the server.
void write_answer(std::string& out, const HttpAnswer& answer, std::string_view date,
                  std::string_view fixed, bool with_body, bool keeps_alive);

// Appends the head of an answer whose body follows in pieces.
void write_head(std::string& out, const HttpAnswer& answer, std::string_view date,
                std::string_view fixed, BodyEnd end, bool keeps_alive);

bool same_word(std::string_view one, std::string_view other);  // ignores case

}  // namespace warren
