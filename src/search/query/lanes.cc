#include "search/query/lanes.h"

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
    interactive_.push_back({++last_number_, std::move(work)});
  }
  changed_.notify_one();
  return ok;
}

Lanes::Job Lanes::take(bool is_batch) {
  if (is_batch) {
    auto oldest = batch_.extract(batch_.begin());
    return {oldest.key(), std::move(oldest.mapped())};
  }
  Job job = std::move(interactive_.front());
  interactive_.pop_front();
  return job;
}

void Lanes::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return is_closed_ || !is_idle(); });
    if (is_closed_) return;
    bool is_batch = !batch_.empty() && (batch_running_ < batch_share_ || interactive_.empty());
    Job job = take(is_batch);
    batch_running_ += is_batch;
    lock.unlock();
    bool is_done = job.work(Clock::now() + slice);
    if (is_done) job.work = nullptr;  // what it holds goes outside of the lock
    lock.lock();
    batch_running_ -= is_batch;
    if (is_done) continue;
    batch_.emplace(job.number, std::move(job.work));
    changed_.notify_one();
  }
}

}  // namespace warren::search
