#include "net/http/body.h"

#include <utility>

namespace warren {

namespace {

// With its chunk framing, a piece is at most most_piece long.
constexpr std::size_t most_in_frame = most_piece - 32;

}  // namespace

BodyReader::BodyReader(HttpWire& wire, BodyEnd end, std::uint64_t most)
    : wire_(wire), parser_(end), most_(most) {}

Result<BodyParser::Step> BodyReader::next_step() {
  wire_.consume(std::exchange(used_, 0));
  auto step = parser_.take(wire_.arrived());
  if (!step) return step;
  if (step->piece.size() > most_ - bytes_)
    return fail(Errc::overloaded, "the body is longer than {} bytes", most_);
  bytes_ += step->piece.size();
  used_ = step->used;
  return step;
}

Async<std::string_view> BodyReader::read() {
  if (is_lost_) co_return fail(Errc::unknown_outcome, "the body was lost before");
  is_lost_ = true;  // unless this ends well: a cancelled read never returns here
  for (;;) {
    auto step = next_step();
    if (!step) co_return std::unexpected(step.error());
    if (!step->piece.empty() || parser_.is_whole()) {
      is_lost_ = false;
      co_return step->piece;
    }
    wire_.consume(std::exchange(used_, 0));
    auto more = co_await wire_.more();
    if (!more) co_return std::unexpected(more.error());
    if (*more) continue;
    if (!parser_.may_end())
      co_return fail(Errc::unknown_outcome, "the connection ended after {} bytes of the body",
                     bytes_);
    is_lost_ = false;
    co_return std::string_view();
  }
}

Async<std::string> BodyReader::rest(std::size_t most) {
  std::string all;
  for (;;) {
    auto piece = co_await read();
    if (!piece) co_return std::unexpected(piece.error());
    if (piece->empty()) co_return all;
    if (piece->size() > most - all.size())
      co_return fail(Errc::overloaded, "the body is longer than {} bytes", most);
    all += *piece;
  }
}

bool BodyReader::skip_arrived() {
  while (!is_lost_ && !parser_.is_whole()) {
    auto step = next_step();
    if (!step) is_lost_ = true;
    if (!step || step->used == 0) return false;
  }
  wire_.consume(std::exchange(used_, 0));
  return !is_lost_;
}

BodyWriter::BodyWriter(HttpWire& wire, BodyEnd end, std::string head)
    : wire_(wire), end_(end), out_(std::move(head)) {}

BodyWriter BodyWriter::without_body(HttpWire& wire, std::string head) {
  BodyWriter writer(wire, body_of(0), std::move(head));
  writer.swallows_ = true;
  return writer;
}

Async<> BodyWriter::write(std::string_view bytes) {
  if (state_ != State::ready) co_return fail(Errc::unknown_outcome, "the body ended before");
  if (swallows_) co_return ok;
  if (end_.kind == BodyEnd::by_length && bytes.size() > end_.length)
    co_return fail(Errc::invalid, "the body is longer than its Content-Length");
  while (!bytes.empty()) {
    auto room = out_.size() < most_in_frame ? most_in_frame - out_.size() : most_in_frame;
    auto piece = bytes.substr(0, room);
    bytes.remove_prefix(piece.size());
    if (end_.kind == BodyEnd::by_chunks)
      write_chunk(out_, piece);
    else
      out_.append(piece);
    if (end_.kind == BodyEnd::by_length) end_.length -= piece.size();
    auto sent = co_await send();
    if (!sent) co_return sent;
  }
  co_return ok;
}

Async<> BodyWriter::flush() {
  if (state_ != State::ready) co_return fail(Errc::unknown_outcome, "the body ended before");
  co_return co_await send();
}

Async<> BodyWriter::end() {
  if (state_ == State::ended) co_return ok;
  if (state_ != State::ready) co_return fail(Errc::unknown_outcome, "the body was cut off before");
  if (end_.kind == BodyEnd::by_length && end_.length > 0)
    co_return fail(Errc::invalid, "the body is {} bytes shorter than its Content-Length",
                   end_.length);
  if (end_.kind == BodyEnd::by_chunks) out_.append(last_chunk);
  auto sent = co_await send();
  if (sent) state_ = State::ended;
  co_return sent;
}

Async<> BodyWriter::send() {
  if (out_.empty()) co_return ok;
  state_ = State::busy;
  auto sent = co_await wire_.send(out_);
  if (!sent) co_return sent;
  out_.clear();
  state_ = State::ready;
  co_return ok;
}

Async<> copy_body(BodyReader& from, BodyWriter& to) {
  for (;;) {
    auto piece = co_await from.read();
    if (!piece) co_return std::unexpected(piece.error());
    if (piece->empty()) co_return co_await to.end();
    auto written = co_await to.write(*piece);
    if (!written) co_return written;
  }
}

}  // namespace warren
