#include "redis/subscriber.h"

#include <array>
#include <set>

#include "base/log.h"
#include "redis/topology/router.h"

namespace warren::redis {

using namespace asio::experimental::awaitable_operators;

namespace {

struct Words {
  std::string_view subscribe;
  std::string_view unsubscribe;
  std::string_view message;
};
constexpr std::array<Words, 3> words{{{"subscribe", "unsubscribe", "message"},
                                      {"psubscribe", "punsubscribe", "pmessage"},
                                      {"ssubscribe", "sunsubscribe", "smessage"}}};
constexpr std::string_view ping = "ping";
constexpr std::string_view cut_off = "cluster_state:fail";
constexpr std::string_view in_touch = "cluster_state:ok";

}  // namespace

// The subscriptions wanted on one connection, and that connection while any are wanted.
class Subscriber::Feed {
 public:
  Feed(Subscriber& owner, int slot)
      : owner_(owner), slot_(slot), changed_(owner.client_.executor()) {}

  void want(Kind kind, std::string text, bool wanted);
  // The server has answered every request, and the result is what is wanted.
  bool is_settled() const {
    if (wanted_.empty()) return !conversation_;
    return conversation_ && asked_ == wanted_ && questions_.empty();
  }
  const std::optional<Error>& problem() const { return problem_; }
  const Error* refusal() const { return refused_.empty() ? nullptr : &refused_.begin()->second; }
  awaitable<void> run();

 private:
  using Name = std::pair<Kind, std::string>;
  struct Question {
    std::string_view word;
    Name name;
    bool operator==(const Question&) const = default;
  };
  static const Words& words_for(Kind kind) { return words[static_cast<std::size_t>(kind)]; }

  Async<> listen();
  Async<> read_loop();
  Async<> write_loop();
  Async<> send_changes();
  bool follows_slot() const { return slot_ != CallOptions::any_node; }
  bool is_anywhere() const {
    return owner_.client_.settings().mode == Mode::cluster && !follows_slot();
  }
  bool is_misplaced() const;
  Command are_you_there() const;
  awaitable<bool> finds_refuge();
  void ask(std::string& bytes, std::string_view word, const Name& name);
  Result<> take(Reply reply);
  Result<> take_answer(const Question& answer);
  Result<> take_refusal(const Reply& reply);
  void end_question();

  Subscriber& owner_;
  int slot_;
  std::set<Name> wanted_;
  Event changed_;
  bool was_settled_ = false;  // since something is wanted, so the next connection is a reconnection
  bool owes_gap_ = false;
  std::optional<Error> problem_;
  std::optional<Address> refuge_;  // where to connect next, instead of anywhere
  Backoff backoff_{owner_.client_.settings().backoff_least, owner_.client_.settings().backoff_most};

  // State of the current connection:
  std::unique_ptr<Conversation> conversation_;
  std::uint64_t departures_ = 0;  // of the client, when the connection was made
  Clock::time_point heard_;
  std::set<Name> asked_;
  std::deque<Question> questions_;  // unanswered; the server answers each once, in order
  std::map<Name, Error> refused_;
  bool is_cut_off_ = false;  // as the server itself reports
};

void Subscriber::Feed::want(Kind kind, std::string text, bool wanted) {
  Name name(kind, std::move(text));
  bool was_refused = refused_.erase(name) > 0;
  if (wanted && was_refused) asked_.erase(name);
  if (wanted)
    wanted_.insert(std::move(name));
  else
    wanted_.erase(name);
  changed_.notify();
  owner_.confirmed_.notify();  // the server may already have confirmed what is wanted
}

awaitable<void> Subscriber::Feed::run() {
  for (;;) {
    while (wanted_.empty()) {
      was_settled_ = false;  // without subscriptions nothing can be missed
      co_await changed_.wait();
    }
    owes_gap_ = was_settled_;
    auto ended = co_await listen();
    conversation_.reset();
    asked_.clear();
    questions_.clear();
    refused_.clear();
    is_cut_off_ = false;
    problem_.reset();
    if (!ended) problem_ = ended.error();
    owner_.confirmed_.notify();
    if (ended) continue;
    log::debug("redis.subscriber_disconnected", "why", problem_->what);
    co_await sleep_for(backoff_.next(random_unit()));
  }
}

// Runs until the connection breaks. Returns without an error when nothing is wanted any more.
Async<> Subscriber::Feed::listen() {
  auto deadline = Clock::now() + owner_.client_.settings().connect_timeout;
  departures_ = owner_.client_.departures();
  auto refuge = std::exchange(refuge_, std::nullopt);
  auto dialling =
      refuge ? owner_.client_.dial(*refuge, deadline) : owner_.client_.dial(slot_, deadline);
  auto dialled = co_await std::move(dialling);
  if (!dialled) co_return std::unexpected(dialled.error());
  conversation_ = std::move(*dialled);
  heard_ = Clock::now();
  auto ended = co_await (read_loop() || write_loop());
  co_return ended.index() == 0 ? std::get<0>(ended) : std::get<1>(ended);
}

Async<> Subscriber::Feed::read_loop() {
  for (;;) {
    auto reply = co_await conversation_->next(Clock::time_point::max());
    if (!reply) co_return std::unexpected(reply.error());
    heard_ = Clock::now();
    auto taken = take(std::move(*reply));
    if (!taken) co_return taken;
  }
}

// Makes the requested subscriptions equal to the wanted ones, and checks that the connection works.
Async<> Subscriber::Feed::write_loop() {
  auto interval = owner_.client_.settings().ping_interval;
  auto patience = owner_.client_.settings().silence_limit;
  auto next_ping = Clock::now() + interval;
  while (!wanted_.empty()) {
    auto sent = co_await send_changes();
    if (!sent) co_return sent;
    if (asked_ == wanted_) co_await changed_.wait(std::min(next_ping, heard_ + patience));
    auto now = Clock::now();
    if (now >= heard_ + patience)
      co_return fail(Errc::timeout, "{} does not answer", to_string(conversation_->address()));
    bool leaves = false;
    if (std::exchange(is_cut_off_, false)) leaves = co_await finds_refuge();
    if (!leaves && now < next_ping) continue;
    if (leaves || is_misplaced())
      co_return fail(Errc::unavailable, "{} is no longer the right server",
                     to_string(conversation_->address()));
    next_ping = Clock::now() + interval;
    questions_.push_back({ping, {}});
    auto command = are_you_there();
    sent = co_await conversation_->send(std::string(command.bytes()), next_ping);
    if (!sent) co_return sent;
  }
  co_return ok;
}

// A server that was replaced while the others could not reach it does not report that.
bool Subscriber::Feed::is_misplaced() const {
  const auto& client = owner_.client_;
  if (is_anywhere()) return !client.has(conversation_->address());
  if (client.departures() != departures_) return true;
  auto right = client.owner(slot_);
  return right != Address{} && right != conversation_->address();
}

// Any server will do, as long as it is still part of the cluster. A server that was reset, or is
// cut off from the others, hears nothing that is published there. It does not report that by
// itself, but it answers when asked.
Command Subscriber::Feed::are_you_there() const {
  return is_anywhere() ? Command("CLUSTER", "INFO") : Command("PING");
}

// Looks for another server that is in touch with the cluster. If none is, the whole cluster is in
// trouble, and moving would not help.
awaitable<bool> Subscriber::Feed::finds_refuge() {
  auto& client = owner_.client_;
  std::vector<Address> others;
  for (const auto& node : client.topology().nodes)
    if (node.is_primary && node.address != conversation_->address()) others.push_back(node.address);
  if (others.empty()) co_return false;
  auto& other = others[static_cast<std::size_t>(random_unit() * double(others.size()))];
  auto deadline = Clock::now() + client.settings().connect_timeout;
  auto dialled = co_await client.dial(other, deadline);
  if (!dialled) co_return false;
  auto info = co_await (*dialled)->ask(Command("CLUSTER", "INFO"), deadline);
  if (!info || !info->text.contains(in_touch)) co_return false;
  client.on_moved({Errc::unavailable, to_string(conversation_->address()) + " is cut off"});
  refuge_ = other;
  co_return true;
}

Async<> Subscriber::Feed::send_changes() {
  std::string bytes;
  for (const auto& name : wanted_)
    if (!asked_.contains(name)) ask(bytes, words_for(name.first).subscribe, name);
  for (const auto& name : asked_)
    if (!wanted_.contains(name)) ask(bytes, words_for(name.first).unsubscribe, name);
  asked_ = wanted_;
  auto deadline = Clock::now() + owner_.client_.settings().command_timeout;
  auto sent = co_await conversation_->send(std::move(bytes), deadline);
  co_return sent;
}

void Subscriber::Feed::ask(std::string& bytes, std::string_view word, const Name& name) {
  bytes += Command(word, name.second).bytes();
  questions_.push_back({word, name});
}

Result<> Subscriber::Feed::take(Reply reply) {
  if (reply.is_error()) return take_refusal(reply);
  if (reply.kind != Reply::Kind::push) {
    is_cut_off_ = reply.text.contains(cut_off);
    if (is_cut_off_) changed_.notify();
    return take_answer({ping, {}});
  }
  auto& items = reply.items;
  if (items.size() < 3) return ok;
  const auto& what = items[0].text;
  for (auto kind : {Kind::channel, Kind::pattern, Kind::sharded}) {
    const auto& [subscribe, unsubscribe, message_word] = words_for(kind);
    if (what == message_word) {
      bool by_pattern = kind == Kind::pattern;
      if (by_pattern && items.size() < 4) return ok;
      Message message;
      if (by_pattern) message.pattern = std::move(items[1].text);
      message.channel = std::move(items[by_pattern ? 2 : 1].text);
      message.payload = std::move(items[by_pattern ? 3 : 2].text);
      owner_.deliver(std::move(message));
      return ok;
    }
    if (what == subscribe || what == unsubscribe)
      return take_answer({what == subscribe ? subscribe : unsubscribe, {kind, items[1].text}});
  }
  return ok;
}

Result<> Subscriber::Feed::take_answer(const Question& answer) {
  if (questions_.empty() || questions_.front() != answer) {
    // We did not ask for this: it is how a server reports that a slot has a new owner.
    Error ended{Errc::unavailable,
                fmt::format("{} ended the subscription of {}", to_string(conversation_->address()),
                            answer.name.second)};
    if (follows_slot()) owner_.client_.on_moved(ended);
    return std::unexpected(ended);
  }
  refused_.erase(answer.name);
  end_question();
  return ok;
}

Result<> Subscriber::Feed::take_refusal(const Reply& reply) {
  Error error = error_of(reply);
  auto refusal = classify(reply.text);
  bool is_about_channel = refusal == Refusal::final || refusal == Refusal::denied;
  if (questions_.empty() || !is_about_channel) {
    if (follows_slot()) owner_.client_.on_moved(error);
    return std::unexpected(error);
  }
  const auto& [word, name] = questions_.front();
  if (word != ping && wanted_.contains(name)) {
    error.what = fmt::format("cannot {} {}: {}", word, name.second, reply.text);
    log::warn("redis.subscription_refused", "channel", name.second, "why", reply.text);
    refused_.insert_or_assign(name, std::move(error));
  }
  end_question();
  return ok;
}

void Subscriber::Feed::end_question() {
  questions_.pop_front();
  if (!is_settled()) return;
  backoff_.reset();
  problem_.reset();
  was_settled_ = true;
  if (std::exchange(owes_gap_, false)) owner_.deliver(Message{Message::Kind::gap, {}, {}, {}});
  owner_.confirmed_.notify();
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
  if (closed_) return;
  auto& target = feed(kind, name);
  target.want(kind, std::move(name), wanted);
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
  for (;;) {
    if (closed_) co_return fail(Errc::cancelled, "the subscriber is closed");
    if (!queue_.empty()) break;
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
    if (closed_) co_return fail(Errc::cancelled, "the subscriber is closed");
    bool all = true;
    std::optional<Error> problem;
    const Error* refusal = nullptr;
    for (const auto& [slot, feed] : feeds_) {
      all = all && feed->is_settled();
      if (feed->problem()) problem = feed->problem();
      if (feed->refusal()) refusal = feed->refusal();
    }
    if (all && refusal) co_return std::unexpected(*refusal);
    if (all) co_return ok;
    if (problem && problem->code == Errc::denied) co_return std::unexpected(*problem);
    if (Clock::now() >= deadline)
      co_return std::unexpected(problem.value_or(Error{Errc::timeout, "not confirmed in time"}));
    co_await confirmed_.wait(deadline);
  }
}

awaitable<void> Subscriber::close() {
  closed_ = true;
  arrived_.notify();
  confirmed_.notify();
  tasks_.stop();
  co_await tasks_.join();
}

}  // namespace warren::redis
