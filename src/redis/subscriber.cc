#include "redis/subscriber.h"

#include <array>

#include "base/log.h"
#include "redis/link.h"

namespace warren::redis {

using namespace asio::experimental::awaitable_operators;

// One connection and what is to be subscribed on it.
class Subscriber::Feed {
 public:
  Feed(Subscriber& owner, int slot)
      : owner_(owner), slot_(slot), changed_(owner.client_.executor()) {}

  void want(Kind kind, std::string name, bool wanted) {
    auto& names = wanted_[static_cast<std::size_t>(kind)];
    if (wanted)
      names.insert(std::move(name));
    else
      names.erase(name);
    changed_.notify();
  }
  bool is_settled() const { return confirmed_ == wanted_; }
  const std::optional<Error>& problem() const { return problem_; }
  awaitable<void> run();

 private:
  using Names = std::array<std::set<std::string>, 3>;  // by Kind

  Async<> listen();
  Async<> read_loop();
  Async<> write_loop();
  Async<> send_changes();
  Result<> take(Reply reply);
  Result<> take_confirmation(Kind kind, const std::string& name, bool subscribed);

  Subscriber& owner_;
  int slot_;
  Names wanted_;
  Names asked_;      // on this connection
  Names confirmed_;  // by the server
  Event changed_;
  bool was_settled_ = false;  // ever, so that what follows is a reconnection
  bool owes_gap_ = false;
  std::optional<Error> problem_;
  std::unique_ptr<Conversation> conversation_;
};

namespace {

struct Words {
  const char* subscribe;
  const char* unsubscribe;
  const char* message;
};
constexpr std::array<Words, 3> words{{{"subscribe", "unsubscribe", "message"},
                                      {"psubscribe", "punsubscribe", "pmessage"},
                                      {"ssubscribe", "sunsubscribe", "smessage"}}};

}  // namespace

awaitable<void> Subscriber::Feed::run() {
  const auto& settings = owner_.client_.settings();
  Backoff backoff(settings.backoff_least, settings.backoff_most);
  for (;;) {
    auto ended = co_await listen();
    if (is_settled()) backoff.reset();
    owes_gap_ = owes_gap_ || was_settled_;
    problem_ = ended.error();
    conversation_.reset();
    asked_ = confirmed_ = {};
    owner_.confirmed_.notify();
    log::debug("redis.subscriber_disconnected", "why", problem_->what);
    co_await sleep_for(backoff.next(random_unit()));
  }
}

Async<> Subscriber::Feed::listen() {
  auto deadline = Clock::now() + owner_.client_.settings().connect_timeout;
  auto dialled = co_await owner_.client_.dial(slot_, deadline);
  if (!dialled) co_return std::unexpected(dialled.error());
  conversation_ = std::move(*dialled);
  auto ended = co_await (read_loop() || write_loop());
  co_return ended.index() == 0 ? std::get<0>(ended) : std::get<1>(ended);
}

Async<> Subscriber::Feed::read_loop() {
  for (;;) {
    auto reply =
        co_await conversation_->next(Clock::now() + owner_.client_.settings().silence_limit);
    if (!reply) co_return std::unexpected(reply.error());
    auto taken = take(std::move(*reply));
    if (!taken) co_return taken;
  }
}

// Makes what is asked for equal to what is wanted, and shows that the connection lives.
Async<> Subscriber::Feed::write_loop() {
  auto interval = owner_.client_.settings().ping_interval;
  auto next_ping = Clock::now() + interval;
  for (;;) {
    auto sent = co_await send_changes();
    if (!sent) co_return sent;
    if (asked_ == wanted_) co_await changed_.wait(next_ping);
    if (Clock::now() < next_ping) continue;
    next_ping = Clock::now() + interval;
    Command ping("PING");
    sent = co_await conversation_->send(std::string(ping.bytes()), next_ping);
    if (!sent) co_return sent;
  }
}

Async<> Subscriber::Feed::send_changes() {
  std::string bytes;
  for (std::size_t kind = 0; kind < wanted_.size(); ++kind) {
    for (const auto& name : wanted_[kind])
      if (!asked_[kind].contains(name)) bytes += Command(words[kind].subscribe, name).bytes();
    for (const auto& name : asked_[kind])
      if (!wanted_[kind].contains(name)) bytes += Command(words[kind].unsubscribe, name).bytes();
  }
  asked_ = wanted_;
  auto deadline = Clock::now() + owner_.client_.settings().command_timeout;
  auto sent = co_await conversation_->send(std::move(bytes), deadline);
  co_return sent;
}

Result<> Subscriber::Feed::take(Reply reply) {
  if (reply.is_error()) {
    Error refused = error_of(reply);
    if (error_word(reply.text) == "MOVED") owner_.client_.on_moved(refused);
    return std::unexpected(refused);
  }
  if (reply.kind != Reply::Kind::push || reply.items.size() < 3) return ok;  // PONG
  auto& items = reply.items;
  const auto& what = items[0].text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    auto kind = static_cast<Kind>(i);
    if (what == words[i].message) {
      bool by_pattern = kind == Kind::pattern;
      if (by_pattern && items.size() < 4) return ok;
      Message message;
      if (by_pattern) message.pattern = std::move(items[1].text);
      message.channel = std::move(items[by_pattern ? 2 : 1].text);
      message.payload = std::move(items[by_pattern ? 3 : 2].text);
      owner_.deliver(std::move(message));
    } else if (what == words[i].subscribe || what == words[i].unsubscribe) {
      return take_confirmation(kind, items[1].text, what == words[i].subscribe);
    }
  }
  return ok;
}

Result<> Subscriber::Feed::take_confirmation(Kind kind, const std::string& name, bool subscribed) {
  auto index = static_cast<std::size_t>(kind);
  if (subscribed)
    confirmed_[index].insert(name);
  else
    confirmed_[index].erase(name);
  if (!subscribed && asked_[index].contains(name)) {
    // Nobody here asked for that: the slot has a new owner.
    Error moved{Errc::unavailable, fmt::format("the channel {} moved to another server", name)};
    owner_.client_.on_moved(moved);
    return std::unexpected(moved);
  }
  if (!is_settled()) return ok;
  problem_.reset();
  was_settled_ = true;
  if (std::exchange(owes_gap_, false)) owner_.deliver(Message{Message::Kind::gap, {}, {}, {}});
  owner_.confirmed_.notify();
  return ok;
}

Subscriber::Subscriber(Client& client, Limits limits)
    : client_(client),
      limits_(limits),
      arrived_(client.executor()),
      confirmed_(client.executor()),
      tasks_(client.executor()) {}

Subscriber::~Subscriber() = default;

Subscriber::Feed& Subscriber::feed(Kind kind, const std::string& name) {
  bool by_slot = kind == Kind::sharded && client_.settings().mode == Mode::cluster;
  int slot = by_slot ? slot_of(name) : CallOptions::any_node;
  auto& feed = feeds_[slot];
  if (!feed) {
    feed = std::make_unique<Feed>(*this, slot);
    tasks_.start("redis.subscriber", feed->run());
  }
  return *feed;
}

void Subscriber::want(Kind kind, std::string name, bool wanted) {
  feed(kind, name).want(kind, name, wanted);
}

void Subscriber::subscribe(std::string channel) { want(Kind::channel, std::move(channel), true); }
void Subscriber::unsubscribe(const std::string& channel) { want(Kind::channel, channel, false); }
void Subscriber::psubscribe(std::string pattern) { want(Kind::pattern, std::move(pattern), true); }
void Subscriber::punsubscribe(const std::string& pattern) { want(Kind::pattern, pattern, false); }
void Subscriber::ssubscribe(std::string channel) { want(Kind::sharded, std::move(channel), true); }
void Subscriber::sunsubscribe(const std::string& channel) { want(Kind::sharded, channel, false); }

void Subscriber::deliver(Message message) {
  std::size_t size = message.channel.size() + message.payload.size() + sizeof(Message);
  if (queue_.size() >= limits_.messages || queued_bytes_ + size > limits_.bytes) {
    log::warn("redis.subscriber_overflowed", "dropped", queue_.size());
    queue_.clear();
    queued_bytes_ = 0;
    message = Message{Message::Kind::gap, {}, {}, {}};
    size = sizeof(Message);
  }
  queued_bytes_ += size;
  queue_.push_back(std::move(message));
  arrived_.notify();
}

Async<Message> Subscriber::next(Clock::time_point deadline) {
  while (queue_.empty()) {
    if (Clock::now() >= deadline) co_return fail(Errc::timeout, "no message came");
    co_await arrived_.wait(deadline);
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return fail(Errc::cancelled, "the caller left");
  }
  Message message = std::move(queue_.front());
  queue_.pop_front();
  queued_bytes_ -= message.channel.size() + message.payload.size() + sizeof(Message);
  co_return message;
}

Async<> Subscriber::settled(Clock::time_point deadline) {
  for (;;) {
    bool all = true;
    std::optional<Error> problem;
    for (const auto& [slot, feed] : feeds_) {
      all = all && feed->is_settled();
      if (feed->problem()) problem = feed->problem();
    }
    if (all) co_return ok;
    if (problem && problem->code == Errc::denied) co_return std::unexpected(*problem);
    if (Clock::now() >= deadline)
      co_return std::unexpected(problem.value_or(Error{Errc::timeout, "not confirmed in time"}));
    co_await confirmed_.wait(deadline);
  }
}

awaitable<void> Subscriber::close() {
  tasks_.stop();
  co_await tasks_.join();
}

}  // namespace warren::redis
