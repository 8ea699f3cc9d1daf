#include "search/query/lanes.h"

#include <algorithm>

namespace warren::search {

void Lanes::Queue::add(Job job) {
  client_of_.emplace(job.ticket, job.client);
  auto [client, is_new] = clients_.try_emplace(job.client);
  client->second.emplace(job.ticket, std::move(job.work));
  if (is_new) turns_.push_back(std::move(job.client));
}

Lanes::Job Lanes::Queue::take() {
  auto client = clients_.find(turns_.front());
  auto oldest = client->second.extract(client->second.begin());
  Job job{oldest.key(), client->first, std::move(oldest.mapped())};
  client_of_.erase(job.ticket);
  turns_.pop_front();
  if (client->second.empty())
    clients_.erase(client);
  else
    turns_.push_back(job.client);
  return job;
}

std::optional<Lanes::Job> Lanes::Queue::remove(Ticket ticket) {
  auto found = client_of_.extract(ticket);
  if (found.empty()) return std::nullopt;
  auto client = clients_.find(found.mapped());
  auto work = client->second.extract(ticket);
  Job job{ticket, std::move(found.mapped()), std::move(work.mapped())};
  if (client->second.empty()) {
    clients_.erase(client);
    std::erase(turns_, job.client);
  }
  return job;
}

Lanes::Lanes(int threads, LaneLimits limits)
    : limits_(limits), batch_share_(static_cast<std::size_t>(std::max(2, threads) / 2)) {
  for (int i = 0; i < std::max(2, threads); ++i) threads_.emplace_back([this] { run(); });
}

Lanes::~Lanes() {
  {
    std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  changed_.notify_all();
}

Result<Lanes::Ticket> Lanes::submit(Work work, std::string client) {
  Ticket ticket = 0;
  {
    std::lock_guard lock(mutex_);
    if (interactive_.size() + batch_.size() >= limits_.most_waiting)
      return fail(Errc::overloaded, "{} queries are waiting", limits_.most_waiting);
    auto mine = waiting_.find(client);
    if (mine != waiting_.end() && mine->second >= limits_.most_waiting_per_client)
      return fail(Errc::overloaded, "{} queries of this client are waiting",
                  limits_.most_waiting_per_client);
    ticket = ++last_ticket_;
    ++waiting_[client];
    interactive_.add({ticket, std::move(client), std::move(work)});
  }
  changed_.notify_one();
  return ticket;
}

Lanes::Cancelled Lanes::cancel(Ticket ticket) {
  std::optional<Job> job;  // destroyed outside of the lock
  std::lock_guard lock(mutex_);
  auto running = running_.find(ticket);
  if (running != running_.end())
    return std::exchange(running->second, true) ? Cancelled::over : Cancelled::running;
  job = interactive_.remove(ticket);
  if (!job) job = batch_.remove(ticket);
  if (!job) return Cancelled::over;
  forget(job->client);
  return Cancelled::dropped;
}

void Lanes::forget(const std::string& client) {
  auto mine = waiting_.find(client);
  if (--mine->second == 0) waiting_.erase(mine);
}

void Lanes::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return is_closed_ || !is_idle(); });
    if (is_closed_) return;
    bool is_batch =
        !batch_.is_empty() && (batch_running_ < batch_share_ || interactive_.is_empty());
    Job job = (is_batch ? batch_ : interactive_).take();
    forget(job.client);
    running_.emplace(job.ticket, false);
    batch_running_ += is_batch;
    lock.unlock();
    bool is_done = job.work(Clock::now() + slice);
    if (is_done) job.work = nullptr;  // destroyed outside of the lock
    lock.lock();
    batch_running_ -= is_batch;
    bool is_cancelled = running_.extract(job.ticket).mapped();
    if (is_done) continue;
    if (is_cancelled) {
      lock.unlock();
      job.work = nullptr;
      lock.lock();
      continue;
    }
    ++waiting_[job.client];
    batch_.add(std::move(job));
    changed_.notify_one();
  }
}

}  // namespace warren::search
