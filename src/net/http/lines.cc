#include "net/http/lines.h"

namespace warren {

bool wants_lines(const HttpRequest& request) {
  return request.header("accept").contains("application/x-ndjson");
}

Async<> HttpLines::send(std::string lines) {
  if (!out_) out_ = &exchange_.begin();
  co_return co_await out_->write(lines);
}

Async<> HttpLines::end() {
  if (!out_) out_ = &exchange_.begin();
  co_return co_await out_->end();
}

Async<std::optional<std::string>> LineReader::next() {
  for (;;) {
    auto end = rest_.find('\n', looked_at_);
    if (end != std::string::npos) {
      std::optional<std::string> line(rest_.substr(0, end));
      rest_.erase(0, end + 1);
      looked_at_ = 0;
      co_return line;
    }
    looked_at_ = rest_.size();
    if (rest_.size() > most_) co_return fail(Errc::overloaded, "a line is too long");
    auto piece = co_await from_.read();
    if (!piece) co_return std::unexpected(piece.error());
    if (!piece->empty()) {
      rest_ += *piece;
      continue;
    }
    if (!rest_.empty()) co_return fail(Errc::protocol, "the body ends within a line");
    co_return std::optional<std::string>();
  }
}

}  // namespace warren
