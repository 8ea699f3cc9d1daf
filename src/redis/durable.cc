#include "redis/durable.h"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>

#include "base/log.h"

namespace warren::redis {

namespace {

constexpr std::size_t group_limit = 1024;
// A write that cannot reach its replicas delays those behind it by at most this at a time.
constexpr auto longest_wait = 100ms;
constexpr auto retry_pause = 20ms;

}  // namespace

DurableLane::DurableLane(asio::any_io_executor executor, const Settings& settings, Dial dial,
                         Owner owner)
    : settings_(settings), dial_(std::move(dial)), owner_(std::move(owner)), arrived_(executor) {}

Async<Durable> DurableLane::write(Command command, int replicas, CallOptions options) {
  if (closed_) co_return fail(Errc::cancelled, "the client is closed");
  if (callers_ >= settings_.max_calls || bytes_ + command.bytes().size() > settings_.max_call_bytes)
    co_return fail(Errc::overloaded, "{} durable writes of {} bytes wait already", callers_,
                   bytes_);
  auto executor = co_await asio::this_coro::executor;
  auto write = std::make_shared<Write>(
      Write{std::move(command), replicas, Timer(executor, options.deadline())});
  struct Presence {
    DurableLane& lane;
    Write& write;
    ~Presence() { lane.leave(write); }
  } present{*this, *write};
  ++callers_;
  bytes_ += write->command.bytes().size();
  queue_.push_back(write);
  arrived_.notify();
  boost::system::error_code early;
  co_await write->wake.async_wait(asio::redirect_error(asio::use_awaitable, early));
  if (write->error) co_return std::unexpected(*write->error);
  switch (write->state) {
    case State::done:
    case State::answered:
      co_return Durable{std::move(write->reply), write->reached};
    case State::sent:
      co_return fail(Errc::unknown_outcome, "{} was sent and not answered in time",
                     describe(write->command));
    case State::queued:
      break;
  }
  if (early) co_return fail(Errc::cancelled, "the caller left");
  auto words = describe(write->command) + " was not sent in time";
  auto why = problem_.value_or(Error{Errc::timeout, "others came first"});
  co_return std::unexpected(within(words, std::move(why)));
}

void DurableLane::leave(Write& write) {
  write.left = true;
  --callers_;
  bytes_ -= write.command.bytes().size();
  if (write.state != State::queued) return;
  auto found = std::ranges::find(queue_, &write, &std::shared_ptr<Write>::get);
  if (found != queue_.end()) queue_.erase(found);
}

void DurableLane::finish(Write& write) {
  if (write.reply.is_error()) write.error = error_of(write.reply);
  write.state = State::done;
  write.wake.cancel();
}

template <class Writes>
void DurableLane::end(Writes& writes, const Error& why) {
  for (auto& write : writes) {
    write->error = why;
    finish(*write);
  }
  writes.clear();
}

awaitable<void> DurableLane::run() {
  auto work = [](DurableLane& lane) -> awaitable<void> {
    for (;;) {
      if (lane.queue_.empty() && lane.answered_.empty()) co_await lane.arrived_.wait();
      auto committed = co_await lane.commit_round();
      if (committed) continue;
      auto state = co_await asio::this_coro::cancellation_state;
      if (is_cancelled(state)) co_return;
      lane.hang_up(committed.error());
      co_await sleep_for(retry_pause);
    }
  };
  co_await until_cancelled(work(*this));
  closed_ = true;
  conversation_.reset();
  Error closed{Errc::cancelled, "the client is closed"};
  end(queue_, closed);
  end(sent_, closed);
  for (auto& write : answered_) finish(*write);
  answered_.clear();
}

void DurableLane::hang_up(const Error& why) {
  problem_ = why;
  if (!conversation_) end(queue_, why);  // another server may be the right one by now
  end(sent_, {Errc::unknown_outcome, "it was sent, then the connection was lost: " + why.what});
  // Nothing more can be learned about these: the number of replicas so far is the answer.
  for (auto& write : answered_) finish(*write);
  answered_.clear();
  conversation_.reset();
}

void DurableLane::take_group(std::vector<Command>& commands) {
  while (!queue_.empty() && sent_.size() < group_limit) {
    queue_.front()->state = State::sent;
    commands.push_back(queue_.front()->command);
    sent_.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  std::erase_if(answered_, [](const auto& write) { return write->left; });
  if (sent_.empty() && answered_.empty()) return;
  int wanted = 1 << 30;
  auto until = Clock::now() + longest_wait;
  for (const auto* writes : {&sent_, &answered_}) {
    for (const auto& write : *writes) {
      wanted = std::min(wanted, write->wanted);
      until = std::min(until, write->wake.expiry());
    }
  }
  auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
  commands.emplace_back("WAIT", wanted, std::max<std::int64_t>(1, wait.count()));
}

Async<> DurableLane::commit_round() {
  auto owner = owner_();
  if (conversation_ && owner != Address{} && owner != conversation_->address())
    hang_up({Errc::unavailable, to_string(owner) + " is the primary now"});
  if (!conversation_) {
    auto conversation = co_await dial_(Clock::now() + settings_.connect_timeout);
    if (!conversation) co_return std::unexpected(conversation.error());
    conversation_ = std::move(*conversation);
    problem_.reset();
  }

  std::vector<Command> commands;
  take_group(commands);
  if (commands.empty()) co_return ok;
  auto replies =
      co_await conversation_->exchange(std::move(commands), Clock::now() + settings_.silence_limit);
  if (!replies) co_return std::unexpected(replies.error());
  for (std::size_t i = 0; i < sent_.size(); ++i) {
    sent_[i]->reply = std::move((*replies)[i]);
    sent_[i]->state = State::answered;
    answered_.push_back(std::move(sent_[i]));
  }
  sent_.clear();
  const Reply& wait = replies->back();
  if (wait.is_error()) {
    // A replica refuses WAIT, so this is how we learn that another server is the primary now.
    log::warn("redis.wait_refused", "address", to_string(conversation_->address()), "what",
              wait.text);
    co_return fail(Errc::unavailable, "WAIT was refused: {}", wait.text);
  }
  std::erase_if(answered_, [this, &wait](const auto& write) {
    write->reached = std::max(write->reached, static_cast<int>(wait.number));
    bool over = write->reply.is_error() || write->reached >= write->wanted;
    if (over) finish(*write);
    return over;
  });
  co_return ok;
}

}  // namespace warren::redis
