#include "redis/durable.h"

#include <algorithm>

namespace warren::redis {

namespace {

constexpr std::size_t group_limit = 1024;
// A write that cannot get its replicas holds up those behind it no longer than this at a time.
constexpr auto longest_wait = 100ms;
constexpr auto pause = 20ms;

}  // namespace

DurableLane::DurableLane(asio::any_io_executor executor, const Settings& settings, Dial dial)
    : settings_(settings), dial_(std::move(dial)), arrived_(executor) {}

Async<Durable> DurableLane::write(Command command, int replicas, CallOptions options) {
  if (queue_.size() >= settings_.max_calls)
    co_return fail(Errc::overloaded, "{} durable writes wait already", queue_.size());
  auto executor = co_await asio::this_coro::executor;
  auto write = std::make_shared<Write>(
      Write{std::move(command), replicas, Timer(executor, options.deadline())});
  queue_.push_back(write);
  arrived_.notify();
  boost::system::error_code early;
  co_await write->wake.async_wait(asio::redirect_error(asio::use_awaitable, early));
  write->left = true;
  if (write->error) co_return std::unexpected(*write->error);
  switch (write->state) {
    case State::done:
    case State::answered:
      co_return Durable{std::move(write->reply), write->reached};
    case State::sent:
      co_return fail(options.is_idempotent() ? Errc::timeout : Errc::unknown_outcome,
                     "{} was sent and not answered in time", describe(write->command));
    case State::queued:
      break;
  }
  if (early) co_return fail(Errc::cancelled, "the caller left");
  co_return fail(problem_ ? problem_->code : Errc::timeout, "{} was not sent in time: {}",
                 describe(write->command), problem_ ? problem_->what : "others came first");
}

void DurableLane::finish(Write& write) {
  if (write.reply.is_error()) write.error = error_of(write.reply);
  write.state = State::done;
  write.wake.cancel();
}

awaitable<void> DurableLane::run() {
  auto work = [](DurableLane& lane) -> awaitable<void> {
    for (;;) {
      if (lane.queue_.empty() && lane.answered_.empty()) co_await lane.arrived_.wait();
      auto committed = co_await lane.commit_round();
      if (committed) continue;
      lane.problem_ = committed.error();
      lane.conversation_.reset();
      // Nothing more can be learnt about them: what they reached so far is the answer.
      for (auto& write : lane.answered_) lane.finish(*write);
      lane.answered_.clear();
      co_await sleep_for(pause);
    }
  };
  co_await until_cancelled(work(*this));
  problem_ = Error{Errc::cancelled, "the client is closed"};
  for (auto& write : queue_) {
    write->error = problem_;
    finish(*write);
  }
  queue_.clear();
  for (auto& write : answered_) finish(*write);
  answered_.clear();
}

Async<> DurableLane::commit_round() {
  if (!conversation_) {
    auto conversation = co_await dial_(Clock::now() + settings_.connect_timeout);
    if (!conversation) co_return std::unexpected(conversation.error());
    conversation_ = std::move(*conversation);
    problem_.reset();
  }

  Group group;
  std::vector<Command> commands;
  while (!queue_.empty() && group.size() < group_limit) {
    auto write = std::move(queue_.front());
    queue_.pop_front();
    if (write->left) continue;
    write->state = State::sent;
    commands.push_back(write->command);
    group.push_back(std::move(write));
  }
  std::erase_if(answered_, [](const auto& write) { return write->left; });
  int wanted = 1 << 30;
  auto until = Clock::now() + longest_wait;
  for (const auto* writes : {&group, &answered_}) {
    for (const auto& write : *writes) {
      wanted = std::min(wanted, write->wanted);
      until = std::min(until, write->wake.expiry());
    }
  }
  if (group.empty() && answered_.empty()) co_return ok;
  auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
  commands.emplace_back("WAIT", wanted, std::max<std::int64_t>(1, wait.count()));

  auto replies =
      co_await conversation_->exchange(std::move(commands), Clock::now() + settings_.silence_limit);
  if (!replies) {
    for (auto& write : group) {
      write->error =
          Error{Errc::unknown_outcome, fmt::format("{} was sent, then the connection was lost: {}",
                                                   describe(write->command), replies.error().what)};
      finish(*write);
    }
    co_return std::unexpected(replies.error());
  }
  for (std::size_t i = 0; i < group.size(); ++i) {
    group[i]->reply = std::move((*replies)[i]);
    group[i]->state = State::answered;
    answered_.push_back(std::move(group[i]));
  }
  int reached = static_cast<int>(replies->back().number);
  std::erase_if(answered_, [&](const auto& write) {
    write->reached = std::max(write->reached, reached);
    bool over = write->reply.is_error() || write->reached >= write->wanted;
    if (over) finish(*write);
    return over;
  });
  co_return ok;
}

}  // namespace warren::redis
