#include "search/lanes.h"

#include <algorithm>

namespace warren::search {

Lanes::Lanes(int threads, std::size_t most_waiting)
    : most_waiting_(most_waiting),
      batch_share_(static_cast<std::size_t>(std::max(2, threads) / 2)) {
  for (int i = 0; i < std::max(2, threads); ++i) threads_.emplace_back([this] { run(); });
}

Lanes::~Lanes() {
  {
    std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  changed_.notify_all();
}

Result<> Lanes::submit(Work work) {
  {
    std::lock_guard lock(mutex_);
    if (interactive_.size() + batch_.size() >= most_waiting_)
      return fail(Errc::overloaded, "{} queries are waiting", most_waiting_);
    interactive_.push_back(std::move(work));
  }
  changed_.notify_one();
  return ok;
}

void Lanes::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return is_closed_ || !is_idle(); });
    if (is_closed_) return;
    bool is_batch = !batch_.empty() && (batch_running_ < batch_share_ || interactive_.empty());
    auto& queue = is_batch ? batch_ : interactive_;
    Work work = std::move(queue.front());
    queue.pop_front();
    batch_running_ += is_batch;
    lock.unlock();
    bool is_done = work(Clock::now() + slice);
    if (is_done) work = nullptr;  // what it holds goes outside of the lock
    lock.lock();
    batch_running_ -= is_batch;
    if (is_done) continue;
    // The oldest goes on first, so that it is done rather than all of them a little.
    if (is_batch)
      batch_.push_front(std::move(work));
    else
      batch_.push_back(std::move(work));
    changed_.notify_one();
  }
}

}  // namespace warren::search
