#pragma once
// RESP2 and RESP3, byte by byte as they arrive.
//
//   bytes ──▶ read_token ──▶ tokens (views into the bytes) ──▶ Parser ──▶ replies (owned)
//
// Nothing is parsed twice: a token that is not complete yet is left in the buffer, and the caller
// presents it again with more bytes behind it. Every length is bounded before memory is taken for
// it, and so is what all elements of a reply take together, since a peer that is not Redis, or is
// hostile, may claim anything.
//
// Numbers are read as hiredis reads them: decimal, no leading '+', no leading zeros, no "-0".
// Stricter than hiredis: a CR is always followed by LF, also behind a bulk string; only "$-1" and
// "*-1" are null. Refused, since no Redis sends them: the streamed types of RESP3 ($?, *?, …).
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redis/resp/reply.h"

namespace warren::redis {

struct ParserLimits {
  std::size_t depth = 64;               // arrays in arrays
  std::size_t bulk_bytes = 512u << 20;  // Redis' own proto-max-bulk-len
  std::size_t items = 4u << 20;         // elements of one aggregate; a pair of a map counts as two
  std::size_t line_bytes = 64u << 10;   // a status, an error; at least the 20 of a number
  // Memory of one reply with elements: its texts, and for each element what a Reply takes in a vector
  // that grows by doubling. On the wire an element may be four bytes.
  std::size_t reply_bytes = 256u << 20;
};

// One element of the protocol: a scalar with its text, or the head of an aggregate.
struct Token {
  Reply::Kind kind = Reply::Kind::null;
  bool is_attribute = false;  // |n: that many elements about the reply, which are dropped
  std::int64_t number = 0;    // as in Reply; for an aggregate, how many elements follow
  std::string_view text;      // into the bytes that were given
};

struct TokenResult {
  enum class Status : std::uint8_t { complete, incomplete, broken } status;
  std::size_t size = 0;           // complete: bytes taken. incomplete: bytes needed at least
  const char* problem = nullptr;  // broken: what is wrong
};

// The first token of `bytes`.
TokenResult read_token(std::string_view bytes, const ParserLimits& limits, Token& token);

class Parser {
 public:
  explicit Parser(ParserLimits limits = {}) : limits_(limits) {}

  enum class Status : std::uint8_t { complete, incomplete, broken };
  struct Progress {
    Status status;
    std::size_t consumed;  // bytes the caller may forget, whatever the status
  };

  // Goes on where the last call stopped: `bytes` starts with what was not consumed then.
  // complete: the reply is in `into`, which is otherwise untouched. broken: problem() says why,
  // and this parser is finished.
  Progress parse(std::string_view bytes, Reply& into);
  // The same with the reply left in the parser, where take() gets it: one move slower.
  Progress parse(std::string_view bytes) { return parse(bytes, done_); }
  Reply take() { return std::move(done_); }
  // After incomplete: how many bytes parse() needs to see before it can go on (a lower bound). It
  // is what the peer claims: let the buffer grow with what arrives, up to this.
  std::size_t needed() const { return needed_; }
  // The reply that is incomplete is a push.
  bool is_within_push() const {
    return !open_.empty() && open_.front().reply.kind == Reply::Kind::push;
  }
  const std::string& problem() const { return problem_; }
  // After broken: the reply was larger than reply_bytes.
  bool is_too_large() const { return is_too_large_; }

 private:
  // An aggregate that is still waiting for elements. Pointers into vectors would move, so the
  // half-built aggregates live here and are put into their parents when they are full.
  struct Open {
    Reply reply;
    std::int64_t missing;
    bool is_attribute;
  };

  bool close_full(Reply& into);
  Progress stop(const TokenResult& result, std::string_view rest, std::size_t consumed);
  Progress stop_large(std::string_view rest, std::size_t consumed);

  ParserLimits limits_;
  std::vector<Open> open_;
  Reply done_;
  std::size_t needed_ = 1;
  std::size_t held_ = 0;  // of the reply that is being read, as reply_bytes counts
  bool is_too_large_ = false;
  std::string problem_;
};

}  // namespace warren::redis
