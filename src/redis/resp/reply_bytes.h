#pragma once
// The bytes that a server would send for a reply. Only tests need this direction.
#include <fmt/format.h>

#include <string>

#include "redis/resp/reply.h"

namespace warren::redis {

// Encodes as RESP2 if possible, otherwise as RESP3.
inline std::string reply_bytes(const Reply& reply) {
  using Kind = Reply::Kind;
  auto line = [](char type, std::string_view text) { return fmt::format("{}{}\r\n", type, text); };
  auto bulk = [&](char type, std::string_view text) {
    return fmt::format("{}{}\r\n{}\r\n", type, text.size(), text);
  };
  auto aggregate = [&](char type, std::size_t length) {
    std::string bytes = line(type, std::to_string(length));
    for (auto& item : reply.items) bytes += reply_bytes(item);
    return bytes;
  };
  switch (reply.kind) {
    case Kind::null:
      return "$-1\r\n";
    case Kind::string:
      return bulk('$', reply.text);
    case Kind::status:
      return line('+', reply.text);
    case Kind::error:
      return reply.text.find('\r') == reply.text.npos ? line('-', reply.text)
                                                      : bulk('!', reply.text);
    case Kind::integer:
      return line(':', std::to_string(reply.number));
    case Kind::real:
      return line(',', fmt::format("{}", reply.real()));
    case Kind::boolean:
      return line('#', reply.number ? "t" : "f");
    case Kind::big_number:
      return line('(', reply.text);
    case Kind::verbatim:
      return bulk('=', "txt:" + reply.text);
    case Kind::array:
      return aggregate('*', reply.items.size());
    case Kind::set:
      return aggregate('~', reply.items.size());
    case Kind::map:
      return aggregate('%', reply.items.size() / 2);
    case Kind::push:
      return aggregate('>', reply.items.size());
  }
  return {};
}

}  // namespace warren::redis
