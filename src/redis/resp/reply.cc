#include "redis/resp/reply.h"

#include <fmt/format.h>

namespace warren::redis {
namespace {

using Kind = Reply::Kind;

std::string inner_text(const Reply& reply);

std::string list_text(const Reply& reply, char open, char close) {
  std::string text(1, open);
  bool is_map = reply.kind == Kind::map;
  for (std::size_t i = 0; i < reply.items.size(); ++i) {
    if (i > 0) text += is_map && i % 2 == 1 ? ": " : ", ";
    text += inner_text(reply.items[i]);
  }
  return text + close;
}

// Text for an element inside another reply. A number there needs no "(integer)".
std::string inner_text(const Reply& reply) {
  switch (reply.kind) {
    case Kind::null:
      return "nil";
    case Kind::string:
    case Kind::verbatim:
      return quoted(reply.text);
    case Kind::status: {
      std::string text = quoted(reply.text);
      return text.substr(1, text.size() - 2);
    }
    case Kind::error: {
      std::string text = quoted(reply.text);
      return "(error) " + text.substr(1, text.size() - 2);
    }
    case Kind::integer:
      return fmt::format("{}", reply.number);
    case Kind::real:
      return fmt::format("{}", reply.real());
    case Kind::boolean:
      return reply.number ? "true" : "false";
    case Kind::big_number:
      return reply.text;
    case Kind::array:
      return list_text(reply, '[', ']');
    case Kind::set:
    case Kind::map:
      return list_text(reply, '{', '}');
    case Kind::push:
      return "push " + list_text(reply, '[', ']');
  }
  return {};
}

}  // namespace

const Reply* Reply::find(std::string_view key) const {
  if (kind != Kind::map && kind != Kind::array) return nullptr;
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    bool is_text = items[i].kind == Kind::string || items[i].kind == Kind::status ||
                   items[i].kind == Kind::verbatim;
    if (is_text && items[i].text == key) return &items[i + 1];
  }
  return nullptr;
}

std::string to_string(const Reply& reply) {
  switch (reply.kind) {
    case Kind::null:
    case Kind::boolean:
      return "(" + inner_text(reply) + ")";
    case Kind::integer:
    case Kind::big_number:
      return "(integer) " + inner_text(reply);
    case Kind::real:
      return "(double) " + inner_text(reply);
    default:
      return inner_text(reply);
  }
}

std::string quoted(std::string_view bytes) {
  std::string text = "\"";
  for (char c : bytes) {
    switch (c) {
      case '"':
        text += "\\\"";
        break;
      case '\\':
        text += "\\\\";
        break;
      case '\r':
        text += "\\r";
        break;
      case '\n':
        text += "\\n";
        break;
      case '\t':
        text += "\\t";
        break;
      default:
        if (c >= ' ' && c <= '~') {
          text += c;
        } else {
          text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        }
    }
  }
  return text += '"';
}

}  // namespace warren::redis
