#include "services/foghorn/federation/follower.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "base/log.h"

namespace warren::federation {

namespace {

constexpr auto patience = 2s;

std::string shared_prefix(const std::string& cluster) { return "{" + cluster + "}:"; }

}  // namespace

Follower::Follower(redis::Client& client, std::string cluster, std::string instance,
                   const FederationTerms& terms, View& view)
    : client_(client),
      cluster_(std::move(cluster)),
      instance_(std::move(instance)),
      terms_(terms),
      view_(view),
      subscriber_(client),
      gap_(client.executor()) {
  subscriber_.ssubscribe(federation_channel(cluster_));
}

awaitable<void> Follower::close() { co_await subscriber_.close(); }

awaitable<void> Follower::listen(std::function<void()> changed) {
  for (;;) {
    auto message = co_await subscriber_.next();
    if (!message) co_return;
    if (message->kind == redis::Message::Kind::gap) {
      has_gap_ = true;
      gap_.notify();
      continue;
    }
    auto bulletin = parse_bulletin(message->payload);
    if (!bulletin) {
      log::warn("federation.bulletin_unreadable", "why", bulletin.error().what);
      continue;
    }
    if (bulletin->from == instance_) continue;
    hear(*bulletin);
    changed();
  }
}

void Follower::hear(const Bulletin& bulletin) {
  auto now = Clock::now();
  for (const auto& record : bulletin.records) {
    if (record.value.empty()) {
      view_.erase(record.kind, record.id);
      if (loads_ > 0) erased_.insert(key_of(cluster_, record));
      continue;
    }
    auto put = view_.put(now, record, now + ttl_of(record.kind));
    if (!put) log::debug("federation.record_refused", "why", put.error().what);
  }
  for (const auto& peer : bulletin.kept) view_.refresh(now, peer);
}

awaitable<void> Follower::look_now_and_then(std::function<bool()> is_needed,
                                            std::function<void()> changed) {
  // From when this stands nothing is missed silently.
  for (;;) {
    auto settled = co_await subscriber_.settled(Clock::now() + 10s);
    if (settled) break;
    co_await sleep_for(200ms);
  }
  for (;;) {
    has_gap_ = false;  // one that comes while we load is seen below
    if (is_needed()) {
      auto loaded = co_await load();
      if (!loaded) {
        log::debug("federation.load_failed", "why", loaded.error().what);
        co_await sleep_for(500ms);
        continue;
      }
      changed();
    }
    for (auto until = Clock::now() + terms_.reload_interval; !has_gap_ && Clock::now() < until;)
      co_await gap_.wait(until);
  }
}

Async<> Follower::load() {
  auto began = Clock::now();
  struct Loading {
    int& loads;
    std::set<std::string>& erased;
    ~Loading() {
      if (--loads == 0) erased.clear();
    }
  } loading{++loads_, erased_};
  auto prefix = shared_prefix(cluster_);
  auto options = redis::CallOptions().idempotent().where(prefix);
  std::string cursor = "0";
  do {
    redis::Command scan("SCAN", cursor, "MATCH", prefix + "*", "COUNT", 1000);
    auto reply = co_await client_.ask(std::move(scan), options.within(patience));
    if (!reply) co_return std::unexpected(reply.error());
    if (reply->items.size() != 2) co_return fail(Errc::protocol, "an answer to SCAN");
    cursor = reply->items[0].text;
    std::vector<Record> page;
    for (const auto& key : reply->items[1].items) {
      auto name = std::string_view(key.text).substr(prefix.size());
      for (auto kind : all_kinds)
        if (kind != Kind::playback_index && name.starts_with(folder(kind)))
          page.push_back({kind, std::string(name.substr(folder(kind).size())), {}});
    }
    auto loaded = co_await load_page(std::move(page), began);
    if (!loaded) co_return loaded;
  } while (cursor != "0");
  if (auto count = view_.doubt_unheard(Clock::now(), began); count > 0)
    log::info("federation.records_missed", "count", count);
  co_return ok;
}

Async<> Follower::load_page(std::vector<Record> page, Clock::time_point began) {
  if (page.empty()) co_return ok;
  std::vector<redis::Command> questions;
  for (const auto& record : page) {
    auto key = key_of(cluster_, record);
    if (record.kind == Kind::peer_addresses)
      questions.emplace_back("HGETALL", key);
    else
      questions.emplace_back("GET", key);
    questions.emplace_back("PTTL", key);
  }
  auto options = redis::CallOptions().idempotent().within(patience);
  auto answers = co_await client_.batch(std::move(questions), options);
  if (answers.size() != 2 * page.size()) co_return fail(Errc::protocol, "answers are missing");
  auto now = Clock::now();
  for (std::size_t i = 0; i < page.size(); ++i) {
    auto& record = page[i];
    const auto &value = answers[2 * i], &left = answers[2 * i + 1];
    if (!value) co_return std::unexpected(value.error());
    if (!left) co_return std::unexpected(left.error());
    if (left->number <= 0) continue;  // gone since
    if (record.kind == Kind::peer_addresses) {
      boost::json::object addresses;
      for (std::size_t at = 0; at + 1 < value->items.size(); at += 2)
        addresses[value->items[at].text] = value->items[at + 1].text;
      record.value = boost::json::serialize(addresses);
    } else {
      record.value = value->text;
    }
    if (erased_.contains(key_of(cluster_, record)) ||
        view_.was_heard(record.kind, record.id, began))
      continue;
    auto put = view_.put(now, record, now + std::chrono::milliseconds(left->number));
    if (!put) log::debug("federation.record_refused", "why", put.error().what);
  }
  co_return ok;
}

}  // namespace warren::federation
