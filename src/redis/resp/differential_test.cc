// Compares our parser with hiredis' reader: the same bytes, each cut into random pieces, must give
// the same replies, for valid and for damaged streams.
//
// Allowed differences:
//   - hiredis 0.14 does not know the RESP3 types and nests only 7 deep: it stops where we continue.
//   - We require LF after every CR and CR LF after every string, which hiredis skips unchecked, and
//     we limit lengths: we stop where it continues.
// Up to the point where one stops, both must have given the same replies.
#include <doctest/doctest.h>
#include <hiredis/read.h>

#include <algorithm>
#include <array>
#include <random>

#include "redis/resp/parser.h"
#include "redis/resp/reply_bytes.h"

using namespace warren::redis;
using Kind = Reply::Kind;

namespace {

// Gives the same numbers on every machine, unlike the standard library's distributions.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::size_t below(std::size_t bound) { return engine_() % bound; }
  bool once_in(std::size_t n) { return below(n) == 0; }
  char of(std::string_view chars) { return chars[below(chars.size())]; }

 private:
  std::mt19937_64 engine_;
};

struct Outcome {
  std::vector<Reply> replies;
  std::string problem;  // empty: not broken
};

std::vector<std::string_view> cut(std::string_view bytes, Random& random) {
  std::vector<std::string_view> pieces;
  std::size_t most = random.once_in(2) ? 3 : 64;
  while (!bytes.empty()) {
    pieces.push_back(bytes.substr(0, 1 + random.below(most)));
    bytes.remove_prefix(pieces.back().size());
  }
  return pieces;
}

Outcome ours(const std::vector<std::string_view>& pieces) {
  Parser parser;
  Outcome outcome;
  std::string buffer;
  for (auto piece : pieces) {
    buffer += piece;
    for (;;) {
      Reply reply;
      auto progress = parser.parse(buffer, reply);
      buffer.erase(0, progress.consumed);
      if (progress.status != Parser::Status::complete) break;
      outcome.replies.push_back(std::move(reply));
    }
  }
  outcome.problem = parser.problem();
  return outcome;
}

// hiredis calls these to build replies. An element is appended to its parent. Pointing to it is
// safe, because the parent does not grow before this element is complete.
Reply* place(const redisReadTask* task, Kind kind) {
  Reply* reply =
      task->parent ? &static_cast<Reply*>(task->parent->obj)->items.emplace_back() : new Reply;
  reply->kind = kind;
  return reply;
}
void* create_string(const redisReadTask* task, char* text, size_t size) {
  Reply* reply = place(task, task->type == REDIS_REPLY_STATUS  ? Kind::status
                             : task->type == REDIS_REPLY_ERROR ? Kind::error
                                                               : Kind::string);
  reply->text.assign(text, size);
  return reply;
}
void* create_array(const redisReadTask* task, int) { return place(task, Kind::array); }
void* create_integer(const redisReadTask* task, long long number) {
  Reply* reply = place(task, Kind::integer);
  reply->number = number;
  return reply;
}
void* create_nil(const redisReadTask* task) { return place(task, Kind::null); }
void free_object(void* reply) { delete static_cast<Reply*>(reply); }

Outcome theirs(const std::vector<std::string_view>& pieces) {
  redisReplyObjectFunctions functions{create_string, create_array, create_integer, create_nil,
                                      free_object};
  redisReader* reader = redisReaderCreateWithFunctions(&functions);
  Outcome outcome;
  for (auto piece : pieces) {
    redisReaderFeed(reader, piece.data(), piece.size());
    void* taken = nullptr;
    while (redisReaderGetReply(reader, &taken) == REDIS_OK && taken) {
      outcome.replies.push_back(std::move(*static_cast<Reply*>(taken)));
      free_object(taken);
    }
  }
  if (reader->err) outcome.problem = reader->errstr;
  redisReaderFree(reader);
  return outcome;
}

// A value that RESP2 can express, nested at most `depth` deep.
Reply random_reply(Random& random, std::size_t depth) {
  Reply reply;
  auto text = [&](std::size_t most, std::string_view chars) {
    for (std::size_t n = random.below(most); n > 0; --n) reply.text += random.of(chars);
  };
  switch (random.below(depth > 0 ? 7 : 5)) {
    case 0:
      break;
    case 1:
      reply.kind = Kind::string;
      text(random.once_in(10) ? 3000 : 40, {"\r\n$*:+-01aZ\0\xff \n\r", 16});
      break;
    case 2:
      reply.kind = random.once_in(2) ? Kind::status : Kind::error;
      text(30, "OK ERR\n$:*");
      break;
    case 3:
      reply.kind = Kind::integer;
      reply.number =
          static_cast<std::int64_t>(random.below(1ull << 32) << 32 | random.below(1ull << 32)) >>
          random.below(64);
      break;
    case 4:
      reply.kind = Kind::integer;
      reply.number = std::int64_t(random.below(3)) - 1;
      break;
    default:
      reply.kind = Kind::array;
      for (std::size_t n = random.below(5); n > 0; --n) {
        reply.items.push_back(random_reply(random, depth - 1));
      }
  }
  return reply;
}

void damage(std::string& bytes, Random& random) {
  constexpr std::string_view telling{"\r\n\r\n\r\n0123456789-+-:$*$*?_#,(!=~%>| x\0", 38};
  for (std::size_t n = 1 + random.below(3); n > 0 && !bytes.empty(); --n) {
    std::size_t at = random.below(bytes.size());
    switch (random.below(6)) {
      case 0:
      case 1:
        bytes[at] = random.of(telling);
        break;
      case 2:
        bytes.insert(at, 1, random.of(telling));
        break;
      case 3:
        bytes.erase(at, 1 + random.below(3));
        break;
      case 4:
        bytes.insert(at, bytes.substr(random.below(bytes.size()), 1 + random.below(12)));
        break;
      default:
        bytes[at] = static_cast<char>(random.below(256));
        break;
    }
  }
}

bool is_prefix(const std::vector<Reply>& shorter, const std::vector<Reply>& longer) {
  return shorter.size() <= longer.size() &&
         std::equal(shorter.begin(), shorter.end(), longer.begin());
}

bool we_are_stricter(std::string_view problem) {
  return problem.ends_with("a CR without LF") || problem.ends_with("no CR LF behind it") ||
         problem.ends_with("longer than allowed");
}

bool hiredis_knows_less(std::string_view problem) {
  constexpr std::string_view got = "Protocol error, got \"";
  if (problem.starts_with(got)) return std::string_view("_#,(!=~%>|").contains(problem[got.size()]);
  return problem.starts_with("No support for nested multi bulk replies");
}

enum Verdict { same, both_broken, stricter, knows_less };

Verdict compare(const Outcome& our, const Outcome& their) {
  if (our.replies == their.replies && our.problem.empty() == their.problem.empty()) {
    return our.problem.empty() ? same : both_broken;
  }
  CAPTURE(our.problem);
  CAPTURE(their.problem);
  CAPTURE(our.replies.size());
  CAPTURE(their.replies.size());
  if (we_are_stricter(our.problem) && is_prefix(our.replies, their.replies)) return stricter;
  REQUIRE(hiredis_knows_less(their.problem));
  REQUIRE(is_prefix(their.replies, our.replies));
  return knows_less;
}

}  // namespace

TEST_CASE("valid streams give the same replies as hiredis, however they are cut") {
  Random random(20240611);
  for (int round = 0; round < 10000; ++round) {
    CAPTURE(round);
    std::vector<Reply> sent;
    std::string bytes;
    for (std::size_t n = 1 + random.below(8); n > 0; --n) {
      sent.push_back(random_reply(random, 7));
      bytes += sent.back().is_null() && random.once_in(2) ? "*-1\r\n" : reply_bytes(sent.back());
    }
    Outcome our = ours(cut(bytes, random));
    REQUIRE(our.problem == "");
    REQUIRE(our.replies == sent);
    REQUIRE(compare(our, theirs(cut(bytes, random))) == same);
  }
}

TEST_CASE("damaged streams give the same replies and the same refusals as hiredis") {
  Random random(20240612);
  std::array<int, 4> verdicts{};
  for (int round = 0; round < 60000; ++round) {
    CAPTURE(round);
    std::string bytes;
    for (std::size_t n = 1 + random.below(4); n > 0; --n) {
      bytes += reply_bytes(random_reply(random, 3));
    }
    damage(bytes, random);
    CAPTURE(bytes);
    ++verdicts[compare(ours(cut(bytes, random)), theirs(cut(bytes, random)))];
  }
  // Every verdict must occur often, otherwise the test proves nothing.
  for (Verdict verdict : {same, both_broken, stricter, knows_less}) {
    CAPTURE(verdict);
    CHECK(verdicts[verdict] > 100);
  }
}

TEST_CASE("numbers are accepted and refused as hiredis accepts and refuses them") {
  Random random(20240613);
  for (int round = 0; round < 60000; ++round) {
    std::string number;
    for (std::size_t n = random.below(round % 2 ? 4 : 22); n > 0; --n) {
      number += random.once_in(8) ? random.of("+-0 .x") : random.of("0123456789");
    }
    if (random.once_in(3)) number.insert(0, "-");
    if (random.once_in(8))
      number = random.once_in(2) ? "9223372036854775807" : "-9223372036854775808";
    if (random.once_in(8) && !number.empty()) number.back() = random.of("0123456789");
    std::string bytes = ":" + number + "\r\n";
    CAPTURE(bytes);
    Outcome our = ours({bytes}), their = theirs({bytes});
    REQUIRE(our.replies == their.replies);
    REQUIRE(our.problem.empty() == their.problem.empty());
  }
}

TEST_CASE("at hiredis' limits the two part as this file says") {
  auto nested = [](int depth) {
    std::string bytes;
    for (int i = 0; i < depth; ++i) bytes += "*1\r\n";
    return bytes + ":1\r\n";
  };
  std::string seven = nested(7), nine = nested(9);
  CHECK(compare(ours({seven}), theirs({seven})) == same);
  CHECK(compare(ours({nine}), theirs({nine})) == knows_less);
  CHECK(compare(ours({"+a\r\n%0\r\n"}), theirs({"+a\r\n%0\r\n"})) == knows_less);
  CHECK(compare(ours({"+a\rb\r\n"}), theirs({"+a\rb\r\n"})) == stricter);
  CHECK(compare(ours({"$1\r\nabc"}), theirs({"$1\r\nabc"})) == stricter);
  CHECK(compare(ours({"*2147483647\r\n"}), theirs({"*2147483647\r\n"})) == stricter);
}
