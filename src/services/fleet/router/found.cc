#include "services/fleet/router/found.h"

#include "services/fleet/wire/wire.h"

namespace warren::fleet {

namespace {

constexpr std::size_t most_waiting_bytes = 1u << 20;

}  // namespace

void FoundFiles::add(const search::FileMatch& file) {
  if (files_ == 0 || file.is_cut || waiting_.size() > most_waiting_bytes) return;
  if (file.path.empty()) return;  // a repository: how often it matches is known at the end
  // As many as a page has are better.
  if (best_.size() == files_ && file.score < best_.top()) return;
  if (!places_.try_emplace(key_of(file), places_.size()).second) return;
  if (best_.size() == files_) best_.pop();
  best_.push(file.score);
  waiting_ += file_line(file);
  changed_.notify();
}

void FoundFiles::end() {
  has_ended_ = true;
  changed_.notify();
}

awaitable<std::string> FoundFiles::next() {
  while (waiting_.empty() && !has_ended_) {
    co_await changed_.wait();
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) break;
  }
  co_return std::exchange(waiting_, {});
}

std::size_t FoundFiles::place_of(const search::FileMatch& file, std::string& out) {
  auto [place, is_new] = places_.try_emplace(key_of(file), places_.size());
  if (is_new) out += file_line(file);
  return place->second;
}

}  // namespace warren::fleet
