#include "services/session/record/scan.h"

#include "primitives/once/terms.h"
#include "services/session/names.h"

namespace warren::session {

namespace {

constexpr int keys_at_once = 1000;
constexpr int most_questions = 20;  // for one part

}  // namespace

RecordScan::RecordScan(redis::Client& client, const std::string& name_space) : client_(client) {
  bool is_cluster = client.settings().mode == redis::Mode::cluster;
  auto pattern = once_keys(std::string(key_prefix), resource_of(name_space, "*"), is_cluster).state;
  auto star = pattern.find('*');
  before_ = pattern.substr(0, star);
  after_ = pattern.substr(star + 1);
}

void RecordScan::begin() {
  servers_.clear();
  cursor_ = "0";
  if (client_.settings().mode != redis::Mode::cluster) {
    servers_.emplace_back();
    return;
  }
  for (const auto& node : client_.topology().nodes)
    if (node.is_primary) servers_.push_back(node.address);
}

Async<redis::Reply> RecordScan::ask(redis::Command command, Clock::time_point deadline) {
  if (client_.settings().mode != redis::Mode::cluster) {
    auto options = redis::CallOptions().idempotent().by(deadline);
    co_return co_await client_.ask(std::move(command), options);
  }
  auto address = servers_.back();
  auto conversation = co_await client_.dial(std::move(address), deadline);
  if (!conversation) co_return std::unexpected(conversation.error());
  co_return co_await (*conversation)->ask(std::move(command), deadline);
}

Async<std::vector<std::string>> RecordScan::next(Clock::time_point deadline) {
  std::vector<std::string> names;
  for (int question = 0; question < most_questions && !is_over(); ++question) {
    redis::Command scan("SCAN", cursor_, "MATCH", before_ + "*" + after_, "COUNT", keys_at_once);
    auto reply = co_await ask(std::move(scan), deadline);
    if (!reply) co_return std::unexpected(reply.error());
    if (reply->items.size() != 2) co_return fail(Errc::protocol, "SCAN has another answer");
    cursor_ = reply->items[0].text;
    for (const auto& key : reply->items[1].items) {
      std::string_view name = key.text;
      bool is_one = name.size() > before_.size() + after_.size() && name.starts_with(before_) &&
                    name.ends_with(after_);
      if (!is_one) continue;
      name.remove_prefix(before_.size());
      name.remove_suffix(after_.size());
      names.emplace_back(name);
    }
    if (cursor_ == "0") servers_.pop_back();
  }
  co_return names;
}

}  // namespace warren::session
