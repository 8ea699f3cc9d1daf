// libFuzzer target (scripts/fuzz): arbitrary bytes from a peer, and what must hold for all of them.
//
// The first byte chooses how the rest is cut into pieces. The parser's result must not depend on
// that. Every reply it returns must survive being encoded and parsed again.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "redis/resp/parser.h"
#include "redis/resp/reply_bytes.h"

using namespace warren::redis;

namespace {

constexpr ParserLimits limits{.depth = 8, .bulk_bytes = 4096, .items = 4096, .line_bytes = 64};

struct Outcome {
  std::vector<Reply> replies;
  std::string problem;
  std::size_t needed = 0;
  bool operator==(const Outcome&) const = default;
};

void hold(bool condition) {
  if (!condition) __builtin_trap();
}

// Copies each piece, with the rest of the last one, into memory of exactly that size, so that the
// address sanitizer detects any read beyond it.
Outcome parse(std::string_view bytes, std::size_t piece) {
  Parser parser(limits);
  Outcome outcome;
  std::vector<char> buffer;
  while (!bytes.empty()) {
    std::string_view next = bytes.substr(0, piece);
    bytes.remove_prefix(next.size());
    buffer.insert(buffer.end(), next.begin(), next.end());
    for (;;) {
      buffer.shrink_to_fit();
      Reply reply;
      auto progress = parser.parse({buffer.data(), buffer.size()}, reply);
      hold(progress.consumed <= buffer.size());
      buffer.erase(buffer.begin(), buffer.begin() + progress.consumed);
      if (progress.status != Parser::Status::complete) {
        hold(reply == Reply{});
        hold((progress.status == Parser::Status::broken) == !parser.problem().empty());
        hold(parser.needed() > buffer.size());
        break;
      }
      outcome.replies.push_back(std::move(reply));
    }
  }
  outcome.problem = parser.problem();
  outcome.needed = parser.needed();
  return outcome;
}

// The limits also hold for the replies that were built.
void check_bounds(const Reply& reply, std::size_t depth) {
  hold(depth <= limits.depth);
  hold(reply.text.size() <= limits.bulk_bytes);
  hold(reply.items.size() <= limits.items);
  for (auto& item : reply.items) check_bounds(item, item.items.empty() ? depth : depth + 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  Outcome whole = parse(bytes, std::max<std::size_t>(bytes.size(), 1));
  hold(parse(bytes, 1 + data[0] % 16) == whole);
  for (auto& reply : whole.replies) {
    check_bounds(reply, 1);
    std::string again = reply_bytes(reply);
    Parser parser;
    Reply reread;
    auto progress = parser.parse(again, reread);
    hold(progress.status == Parser::Status::complete && progress.consumed == again.size());
    hold(reread == reply);
    hold(!to_string(reply).empty() || reply.kind == Reply::Kind::status);
  }
  return 0;
}
