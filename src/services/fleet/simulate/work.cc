#include "services/fleet/simulate/work.h"

namespace warren::fleet_sim {

double Link::speed() const {
  return jobs_.empty() ? 0 : std::min(one_, all_ / static_cast<double>(jobs_.size()));
}

void Link::advance() {
  sent_ += speed() * in_seconds(agenda_.now() - as_of_);
  as_of_ = agenda_.now();
}

Link::Id Link::start(double bytes, Act done) {
  advance();
  auto id = ++last_;
  jobs_[id] = {sent_ + bytes, std::move(done)};
  ends_.emplace(sent_ + bytes, id);
  plan();
  return id;
}

void Link::cancel(Id id) {
  auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  advance();
  ends_.erase({found->second.end, id});
  jobs_.erase(found);
  plan();
}

void Link::set_speed(double all) {
  advance();
  all_ = all;
  plan();
}

void Link::plan() {
  auto plan = ++plan_;
  if (ends_.empty()) return;
  auto rest = std::max(0.0, ends_.begin()->first - sent_);
  agenda_.after(seconds(rest / speed()) + 1us, [this, plan] { finish(plan); });
}

void Link::finish(std::uint64_t plan) {
  if (plan != plan_) return;
  advance();
  std::vector<Act> done;
  while (!ends_.empty() && ends_.begin()->first <= sent_) {
    auto id = ends_.begin()->second;
    ends_.erase(ends_.begin());
    done.push_back(std::move(jobs_.at(id).done));
    jobs_.erase(id);
  }
  this->plan();
  for (auto& act : done) act();
}

void CloneSlots::acquire(int host, Act granted) {
  waiting_.push_back({host, std::move(granted)});
  grant();
}

void CloneSlots::release(int host) {
  --taken_;
  --hosts_[host];
  grant();
}

void CloneSlots::grant() {
  if (is_granting_) return;  // whoever is granted one may give it back at once
  is_granting_ = true;
  for (auto place = waiting_.begin(); place != waiting_.end() && taken_ < running_;) {
    if (hosts_[place->host] >= of_one_host_) {
      ++place;
      continue;
    }
    ++taken_;
    ++hosts_[place->host];
    auto granted = std::move(place->granted);
    waiting_.erase(place);
    granted();
    place = waiting_.begin();
  }
  is_granting_ = false;
}

void Builders::run(double for_seconds, Act begin, Act end) {
  waiting_.push_back({for_seconds, std::move(begin), std::move(end)});
  pump();
}

void Builders::pump() {
  while (busy_ < threads_ && !waiting_.empty()) {
    auto job = std::move(waiting_.front());
    waiting_.pop_front();
    ++busy_;
    if (job.begin) job.begin();
    after_(seconds(job.seconds), [this, end = std::move(job.end)] {
      --busy_;
      end();
      pump();
    });
  }
}

}  // namespace warren::fleet_sim
