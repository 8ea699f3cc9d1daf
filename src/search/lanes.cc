#include "search/lanes.h"

#include <algorithm>

namespace warren::search {

Lanes::Lanes(int threads, std::size_t most_waiting)
    : most_waiting_(most_waiting), most_batch_(static_cast<std::size_t>(std::max(1, threads - 1))) {
  for (int i = 0; i < std::max(1, threads); ++i) threads_.emplace_back([this] { run(); });
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
    interactive_.push_back({std::move(work), Clock::now()});
  }
  changed_.notify_one();
  return ok;
}

bool Lanes::takes_batch() const {
  if (!may_begin_batch()) return false;
  return interactive_.empty() || Clock::now() - batch_.front().since > patience;
}

void Lanes::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return is_closed_ || !interactive_.empty() || may_begin_batch(); });
    if (is_closed_) return;
    bool is_batch = takes_batch();
    auto& queue = is_batch ? batch_ : interactive_;
    Job job = std::move(queue.front());
    queue.pop_front();
    batch_running_ += is_batch;
    lock.unlock();
    bool is_done = job.work(is_batch ? Lane::batch : Lane::interactive);
    lock.lock();
    batch_running_ -= is_batch;
    if (!is_done && !is_batch) batch_.push_back({std::move(job.work), Clock::now()});
    // A place in the batch lane is free, or somebody waits for one.
    changed_.notify_one();
  }
}

}  // namespace warren::search
