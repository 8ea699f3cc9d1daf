#include "redis/client.h"

#include "redis/router.h"

namespace warren::redis {

namespace {

constexpr auto pause = 20ms;
constexpr std::size_t blocking_limit = 256;
constexpr std::size_t idle_limit = 8;

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
      router_(make_router(executor, dialer_, tasks_)) {}

Client::~Client() = default;

awaitable<void> Client::close() {
  tasks_.stop();
  co_await tasks_.join();
  idle_.clear();
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
  auto reply = co_await command(script.by_hash(keys, args), options);
  if (reply || error_word(reply.error().what) != "NOSCRIPT") co_return reply;
  co_return co_await command(script.by_source(keys, args), options);
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

DurableLane& Client::durable_lane(const Address& server) {
  auto& lane = durable_lanes_[server];
  if (!lane) {
    bool fixed = server != Address{};
    auto dial = [this, server, fixed](Clock::time_point deadline) {
      return fixed ? this->dial(server, deadline) : router_->dial(CallOptions::any_node, deadline);
    };
    lane = std::make_unique<DurableLane>(executor_, dialer_.settings(), dial);
    tasks_.start("redis.durable_lane", lane->run());
  }
  return *lane;
}

Async<Durable> Client::durable(Command command, int replicas, CallOptions options) {
  if (options.deadline() == Clock::time_point{})
    options = options.within(dialer_.settings().command_timeout);
  for (;;) {
    auto& lane = durable_lane(router_->owner(slot_for(command, options)));
    auto written = co_await lane.write(command, replicas, options);
    if (written || written.error().code != Errc::refused) co_return written;
    // What a server refused did not run, so it can be tried where, or when, it will be taken.
    auto refusal = classify(written.error().what);
    if (refusal == Refusal::final) co_return written;
    if (refusal != Refusal::later) router_->on_moved(written.error());
    if (Clock::now() + pause > options.deadline())
      co_return fail(Errc::unavailable, "{}", written.error().what);
    co_await sleep_for(pause);
  }
}

Async<Reply> Client::blocking(Command command, CallOptions options) {
  if (options.deadline() == Clock::time_point{})
    options = options.within(dialer_.settings().command_timeout);
  if (blocking_calls_ >= blocking_limit)
    co_return fail(Errc::overloaded, "{} commands block a connection already", blocking_calls_);
  struct Counted {
    std::size_t& count;
    explicit Counted(std::size_t& n) : count(n) { ++count; }
    ~Counted() { --count; }
  } counted(blocking_calls_);

  int slot = slot_for(command, options);
  std::unique_ptr<Conversation> conversation;
  auto& idle = idle_[router_->owner(slot)];
  if (!idle.empty()) {
    // It may have died in the meantime, or been demoted; a blocking command would not tell.
    conversation = std::move(idle.back());
    idle.pop_back();
    auto role = co_await conversation->ask(Command("ROLE"), options.deadline());
    bool is_primary = role && !role->items.empty() && role->items[0].text == "master";
    if (!is_primary) conversation.reset();
  }
  if (!conversation) {
    auto dialled = co_await router_->dial(slot, options.deadline());
    if (!dialled) co_return std::unexpected(dialled.error());
    conversation = std::move(*dialled);
  }
  auto reply = co_await conversation->ask(std::move(command), options.deadline());
  if (!reply) {
    const auto& error = reply.error();
    bool answered = error.code == Errc::refused || error.code == Errc::denied;
    if (answered && classify(error.what) == Refusal::moved) router_->on_moved(error);
    if (!answered && error.code != Errc::cancelled && !options.is_idempotent())
      co_return fail(Errc::unknown_outcome, "{}", error.what);
    if (!answered) co_return std::unexpected(error);
  }
  auto& back = idle_[router_->owner(slot)];
  if (back.size() < idle_limit) back.push_back(std::move(conversation));
  co_return reply;
}

Async<std::unique_ptr<Conversation>> Client::dial(int slot, Clock::time_point deadline) {
  return router_->dial(slot, deadline);
}

Async<std::unique_ptr<Conversation>> Client::dial(Address address, Clock::time_point deadline) {
  return dialer_.dial(std::move(address), deadline);
}

void Client::on_moved(const Error& error) { router_->on_moved(error); }

Address Client::owner(int slot) const { return router_->owner(slot); }

Async<> Client::ready(Clock::time_point deadline) {
  auto pong =
      co_await command(Command("PING"), CallOptions().by(deadline).idempotent().on_any_node());
  if (!pong) co_return std::unexpected(pong.error());
  co_return ok;
}

Topology Client::topology() const { return router_->topology(); }

Client::Counters Client::counters() const {
  Counters counters;
  router_->count(counters);
  return counters;
}

}  // namespace warren::redis
