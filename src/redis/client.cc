#include "redis/client.h"

#include <algorithm>

#include "redis/causes.h"
#include "redis/topology/cluster.h"
#include "redis/topology/router.h"

namespace warren::redis {

namespace {

constexpr auto pause = 20ms;
constexpr std::size_t blocking_limit = 256;
constexpr std::size_t idle_limit = 32;

std::unique_ptr<Router> make_router(asio::any_io_executor executor, const Dialer& dialer,
                                    TaskGroup& tasks) {
  switch (dialer.settings().mode) {
    case Mode::single:
      return make_single_router(executor, dialer, tasks);
    case Mode::sentinel:
      return make_sentinel_router(executor, dialer, tasks);
    case Mode::cluster:
      return make_cluster_router(executor, dialer, tasks);
  }
  std::abort();
}

int slot_for(const Command& command, const CallOptions& options) {
  if (options.slot() != CallOptions::by_key) return options.slot();
  return command.has_key() ? slot_of(command.key()) : CallOptions::any_node;
}

// Counts a call while its coroutine exists.
class UnderWay {
 public:
  UnderWay(std::size_t& count, Event& ended) : count_(count), ended_(ended) { ++count_; }
  ~UnderWay() {
    if (--count_ == 0) ended_.notify();
  }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;

 private:
  std::size_t& count_;
  Event& ended_;
};

template <class T>
Async<T> unless(awaitable<void> closing, Async<T> work) {
  using namespace asio::experimental::awaitable_operators;
  auto first = co_await (std::move(work) || std::move(closing));
  if (first.index() == 0) co_return std::get<0>(std::move(first));
  co_return fail(Errc::cancelled, "the client is closed");
}

}  // namespace

Result<std::unique_ptr<Client>> Client::create(asio::any_io_executor executor, Settings settings) {
  auto dialer = Dialer::create(settings);
  if (!dialer) return std::unexpected(dialer.error());
  return std::unique_ptr<Client>(new Client(executor, std::move(*dialer)));
}

Client::Client(asio::any_io_executor executor, Dialer dialer)
    : executor_(executor),
      dialer_(std::move(dialer)),
      tasks_(executor),
      router_(make_router(executor, dialer_, tasks_)),
      call_ended_(executor),
      closing_(executor) {}

Client::~Client() {
  ensure(blocking_calls_ + durable_calls_ == 0, "a client is closed before it goes");
}

awaitable<void> Client::close() {
  closed_ = true;
  closing_.notify();
  tasks_.stop();
  co_await tasks_.join();
  bool throws = co_await asio::this_coro::throw_if_cancelled();
  co_await asio::this_coro::throw_if_cancelled(false);
  while (blocking_calls_ + durable_calls_ > 0) co_await call_ended_.wait();
  co_await asio::this_coro::throw_if_cancelled(throws);
  idle_.clear();
}

awaitable<void> Client::closing() {
  while (!closed_) co_await closing_.wait();
}

void Client::submit(Call& call) {
  if (call.command().needs_own_connection())
    return complete_later(
        executor_, call,
        {Errc::invalid, describe(call.command()) + " cannot share a connection: use blocking(), "
                                                   "transaction() or a Subscriber"});
  auto now = Clock::now();
  if (call.deadline() == Clock::time_point{})
    call.set_deadline(now + dialer_.settings().command_timeout);
  if (call.deadline() <= now)
    return complete_later(executor_, call, {Errc::timeout, "the deadline had passed already"});
  router_->submit(call);
}

Async<Reply> Client::ask(Command command, CallOptions options) {
  co_return co_await this->command(std::move(command), options);
}

Async<Reply> Client::run(const Script& script, std::vector<std::string> keys,
                         std::vector<std::string> args, CallOptions options) {
  CommandOperation by_hash(*this, script.by_hash(keys, args), options);
  const Call& first = by_hash;  // an operation is awaited in place: std::move moves nothing
  auto reply = co_await std::move(by_hash);
  if (reply || reply.error().cause != causes::unknown_script) co_return reply;
  CommandOperation by_source(*this, script.by_source(keys, args), options);
  if (first.may_have_run()) by_source.set_may_have_run();
  co_return co_await std::move(by_source);
}

Async<Reply> Client::transaction(std::vector<Command> commands, CallOptions options) {
  for (const auto& command : commands)
    if (options.slot() == CallOptions::by_key && command.has_key())
      options = options.where(command.key());
  CommandOperation operation(*this, Command::transaction(commands), options);
  auto reply = co_await std::move(operation);
  if (reply && reply->is_null())
    co_return fail(Errc::refused, "EXECABORT a watched key was changed");
  co_return reply;
}

Result<Client::Attempts> Client::begin(const Command& command, CallOptions options) const {
  if (closed_) return fail(Errc::cancelled, "the client is closed");
  if (command.answers() != 1)
    return fail(Errc::invalid, "{} has several answers: use transaction()", describe(command));
  auto now = Clock::now();
  if (options.deadline() == Clock::time_point{})
    options = options.by(now + dialer_.settings().command_timeout);
  if (options.deadline() <= now) return fail(Errc::timeout, "the deadline had passed already");
  return Attempts{options, slot_for(command, options)};
}

// What durable, blocking and dialled connections follow. Whatever the shared connection does not
// follow is final for them too.
Refusal Client::to_follow(const Error& error) const {
  auto refusal = refusal_of(error);
  auto mode = dialer_.settings().mode;
  if (refusal == Refusal::denied || refusal == Refusal::exhausted) return Refusal::final;
  bool redirects = refusal == Refusal::moved || refusal == Refusal::ask;
  if (redirects && mode != Mode::cluster) return Refusal::final;
  return refusal;
}

// Learns from the error. If the call did not run, or may run twice, pauses and returns true.
// Otherwise turns the error into the one for the caller.
awaitable<bool> Client::tries_again(Error& error, Attempts& attempts) {
  const auto& options = attempts.options;
  auto refusal = to_follow(error);
  bool unreachable = (error.code == Errc::unavailable || error.code == Errc::timeout) &&
                     refusal_of(error) == Refusal::final;
  bool is_lost = error.code == Errc::unknown_outcome;
  if (is_lost) attempts.may_have_run = true;
  attempts.asks = false;
  if (refusal == Refusal::ask) {
    auto to = parse_redirection(error.subject, attempts.server);
    if (to) attempts.server = to->address;
    attempts.asks = to.has_value();
  }
  bool map_is_old = unreachable && dialer_.settings().mode == Mode::cluster;
  if (refusal == Refusal::moved || refusal == Refusal::not_primary || map_is_old)
    router_->on_moved(error);

  bool again = refusal != Refusal::final || (unreachable && !options.fails_fast()) ||
               (is_lost && options.is_idempotent());
  if (again && Clock::now() + pause < options.deadline()) {
    if (!attempts.asks) co_await sleep_for(pause);
    if (!closed_) co_return true;
    error = {Errc::cancelled, "the client is closed"};
    co_return false;
  }
  if (refusal != Refusal::final) error.code = Errc::unavailable;
  if (attempts.may_have_run) error = in_doubt(std::move(error));
  co_return false;
}

DurableLane& Client::durable_lane(const Address& server) {
  auto& lane = durable_lanes_[server];
  if (!lane) {
    auto dial = [this, server](Clock::time_point deadline) {
      return server == Address{} ? router_->dial(CallOptions::any_node, deadline)
                                 : this->dial(server, deadline);
    };
    auto owner = [this, server] {
      return server == Address{} ? router_->owner(CallOptions::any_node) : server;
    };
    lane = std::make_unique<DurableLane>(executor_, dialer_.settings(), dial, owner);
    tasks_.start("redis.durable_lane", lane->run());
  }
  return *lane;
}

Async<Durable> Client::durable(Command command, int replicas, CallOptions options) {
  UnderWay call(durable_calls_, call_ended_);
  auto attempts = begin(command, options);
  if (!attempts) co_return std::unexpected(attempts.error());
  bool by_server = dialer_.settings().mode == Mode::cluster;
  for (;;) {
    Result<Durable> written;
    if (!attempts->asks && by_server) attempts->server = router_->owner(attempts->slot);
    if (attempts->asks) {
      written = co_await unless(closing(), write_asking(command, replicas, *attempts));
    } else if (by_server && attempts->server == Address{}) {
      written = std::unexpected(router_->problem().value_or(
          on_the_way({Errc::unavailable, "the slot map is not known yet"})));
    } else {
      auto& lane = durable_lane(attempts->server);
      written = co_await lane.write(command, replicas, attempts->options);
    }
    if (written) co_return written;
    bool again = co_await tries_again(written.error(), *attempts);
    if (!again) co_return written;
  }
}

// While a slot moves, both servers have some of its keys for a short time. That does not justify a
// lane, so this write gets a connection of its own.
Async<Durable> Client::write_asking(Command command, int replicas, Attempts attempts) {
  auto now = Clock::now();
  auto deadline = attempts.options.deadline();
  auto dialled =
      co_await dial(attempts.server, std::min(deadline, now + dialer_.settings().connect_timeout));
  if (!dialled) co_return std::unexpected(dialled.error());
  // Even if WAIT reaches too few replicas, its answer must arrive before the deadline.
  auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()) * 3 / 4;
  std::vector<Command> commands;
  commands.emplace_back("ASKING");
  commands.push_back(std::move(command));
  commands.emplace_back("WAIT", replicas, std::max<std::int64_t>(1, left.count()));
  auto replies = co_await (*dialled)->exchange(std::move(commands), deadline);
  if (!replies)
    co_return fail(Errc::unknown_outcome, "it was sent and not answered: {}", replies.error().what);
  auto& reply = (*replies)[1];
  if (reply.is_error()) co_return std::unexpected(error_of(reply));
  co_return Durable{std::move(reply), static_cast<int>((*replies)[2].number)};
}

Async<Reply> Client::blocking(Command command, CallOptions options) {
  if (blocking_calls_ >= blocking_limit)
    co_return fail(Errc::overloaded, "{} commands block a connection already", blocking_calls_);
  UnderWay call(blocking_calls_, call_ended_);
  auto attempts = begin(command, options);
  if (!attempts) co_return std::unexpected(attempts.error());
  co_return co_await unless(closing(), block(std::move(command), *attempts));
}

Async<Reply> Client::block(Command command, Attempts attempts) {
  for (;;) {
    auto reply = co_await block_once(command, attempts);
    if (reply) co_return reply;
    bool again = co_await tries_again(reply.error(), attempts);
    if (!again) co_return reply;
  }
}

Async<Reply> Client::block_once(Command command, Attempts& attempts) {
  auto deadline = attempts.options.deadline();
  Result<std::unique_ptr<Conversation>> conversation;
  if (attempts.asks)
    conversation = co_await dial(
        attempts.server, std::min(deadline, Clock::now() + dialer_.settings().connect_timeout));
  else
    conversation = co_await idle_or_dialled(attempts.slot, deadline);
  if (!conversation) co_return std::unexpected(conversation.error());
  attempts.server = (*conversation)->address();
  std::vector<Command> commands;
  if (attempts.asks) commands.emplace_back("ASKING");
  commands.push_back(std::move(command));
  auto replies = co_await (*conversation)->exchange(std::move(commands), deadline);
  if (!replies && replies.error().code == Errc::cancelled)
    co_return std::unexpected(replies.error());
  if (!replies)
    co_return fail(Errc::unknown_outcome, "it was sent and not answered: {}", replies.error().what);
  Result<Reply> result = std::move(replies->back());
  if (result->is_error()) result = std::unexpected(error_of(*result));
  if (result || to_follow(result.error()) == Refusal::final) {
    idle_.push_back(std::move(*conversation));
    if (idle_.size() > idle_limit) idle_.erase(idle_.begin());
  }
  co_return result;
}

Async<std::unique_ptr<Conversation>> Client::idle_or_dialled(int slot, Clock::time_point deadline) {
  auto limit = dialer_.settings().connect_timeout;
  auto owner = router_->owner(slot);
  auto found = std::ranges::find_if(idle_, [&owner](const auto& conversation) {
    return owner == Address{} || owner == conversation->address();
  });
  if (found != idle_.end()) {
    // It may have died or been demoted in the meantime, and a blocking command would not reveal
    // that.
    auto conversation = std::move(*found);
    idle_.erase(found);
    auto role =
        co_await conversation->ask(Command("ROLE"), std::min(deadline, Clock::now() + limit / 2));
    bool is_primary = role && !role->items.empty() && role->items[0].text == "master";
    if (is_primary) co_return conversation;
  }
  co_return co_await router_->dial(slot, std::min(deadline, Clock::now() + limit));
}

Async<std::unique_ptr<Conversation>> Client::dial(int slot, Clock::time_point deadline) {
  return router_->dial(slot, deadline);
}

Async<std::unique_ptr<Conversation>> Client::dial(Address address, Clock::time_point deadline) {
  return dialer_.dial(std::move(address), deadline);
}

Address Client::owner(int slot) const { return router_->owner(slot); }

bool Client::has(const Address& server) const { return router_->has(server); }

void Client::on_moved(const Error& error) { router_->on_moved(error); }

Async<> Client::ready(Clock::time_point deadline) {
  auto pong =
      co_await command(Command("PING"), CallOptions().by(deadline).idempotent().on_any_node());
  if (!pong) co_return std::unexpected(pong.error());
  co_return ok;
}

Topology Client::topology() const { return router_->topology(); }

std::uint64_t Client::epoch() const { return router_->epoch(); }

bool Client::has_primary() const { return router_->has_primary(); }

std::uint64_t Client::departures() const { return router_->departures(); }

std::uint64_t Client::changes() const { return router_->changes(); }

awaitable<void> Client::changed(std::uint64_t seen) {
  while (changes() <= seen) co_await router_->changed().wait();
}

Client::Counters Client::counters() const {
  Counters counters;
  router_->count(counters);
  return counters;
}

}  // namespace warren::redis
