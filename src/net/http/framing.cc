#include "net/http/framing.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "net/http/message.h"

namespace warren {

namespace {

constexpr std::size_t most_digits = 15;  // so that no sum of such sizes overflows soon

}  // namespace

BodyParser::BodyParser(BodyEnd end) : state_(State::open), left_(end.length) {
  if (end.kind == BodyEnd::by_chunks) state_ = State::chunk_size;
  if (end.kind == BodyEnd::by_length) state_ = end.length == 0 ? State::whole : State::data;
}

Result<BodyParser::Step> BodyParser::take(std::string_view bytes) {
  Step step;
  for (;;) {
    auto rest = bytes.substr(step.used);
    switch (state_) {
      case State::whole:
        return step;
      case State::open:
        step = {step.used + rest.size(), rest};
        return step;
      case State::data:
      case State::chunk_data:
        step.piece = rest.substr(0, std::min<std::uint64_t>(rest.size(), left_));
        step.used += step.piece.size();
        left_ -= step.piece.size();
        if (left_ == 0) state_ = state_ == State::data ? State::whole : State::chunk_end;
        return step;
      case State::chunk_size:
      case State::chunk_end:
      case State::trailer:
        auto taken = take_line(rest, step);
        if (!taken) return std::unexpected(taken.error());
        if (!*taken) return step;
    }
  }
}

// Returns false if the line is not complete yet.
Result<bool> BodyParser::take_line(std::string_view bytes, Step& step) {
  auto longest = state_ == State::chunk_end    ? 0
                 : state_ == State::chunk_size ? most_digits
                                               : most_head_bytes - trailer_bytes_;
  auto at = bytes.substr(0, longest + 2).find("\r\n");
  if (at == bytes.npos) {
    if (bytes.size() < longest + 2) return false;
    return fail(Errc::protocol, "a line of the chunked body is too long");
  }
  auto line = bytes.substr(0, at);
  step.used += at + 2;
  if (state_ == State::chunk_end) {
    state_ = State::chunk_size;
    return true;
  }
  if (state_ == State::chunk_size) {
    const auto* begin = line.data();
    const auto* end = begin + line.size();
    auto read = std::from_chars(begin, end, left_, 16);
    if (line.empty() || read.ec != std::errc() || read.ptr != end)
      return fail(Errc::protocol, "the size of a chunk is a hexadecimal number");
    state_ = left_ == 0 ? State::trailer : State::chunk_data;
    return true;
  }
  trailer_bytes_ += at + 2;
  if (!line.empty() && !is_header(line))
    return fail(Errc::protocol, "a trailer is a name, a colon and a value");
  if (line.empty()) state_ = State::whole;
  return true;
}

void write_chunk(std::string& out, std::string_view piece) {
  if (piece.empty()) return;
  std::array<char, 16> digits{};
  auto written = std::to_chars(digits.data(), digits.data() + digits.size(), piece.size(), 16);
  out.append(digits.data(), written.ptr).append("\r\n").append(piece).append("\r\n");
}

}  // namespace warren
