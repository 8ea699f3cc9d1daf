#include "proof/torture/lease_worker.h"

#include <boost/asio/signal_set.hpp>
#include <random>

#include "primitives/lease/lease.h"
#include "proof/torture/journal.h"

namespace warren::torture {

namespace {

using history::AttemptId;
using history::LockId;
using history::Token;

Token token_of(const Lease& lease) { return {lease.token().epoch, lease.token().counter}; }

class Worker {
 public:
  Worker(const WorkerTerms& options, redis::Client& client, LeaseSession& session)
      : options_(options),
        client_(client),
        session_(session),
        journal_(options.journal),
        random_(options.seed) {}

  awaitable<void> contend();
  void stop() { is_stopping_ = true; }

 private:
  double unit() { return std::uniform_real_distribution<>(0, 1)(random_); }
  Clock::duration part_of_ttl(double most) {
    return std::chrono::duration_cast<Clock::duration>(options_.ttl * (most * unit()));
  }
  history::LeaseHistory& note() { return journal_.lease(); }

  LeaseTerms terms_for(LockId lock, AttemptId attempt);
  awaitable<void> hold(Lease lease, LockId lock, AttemptId attempt, Clock::time_point begun);
  Async<> work(Lease& lease, LockId lock, AttemptId attempt);
  awaitable<void> write_on(LockId lock, AttemptId attempt, Token token);
  awaitable<void> write_late(LockId lock, AttemptId attempt, Token token, Clock::duration pause);
  void note_write(const Result<redis::Reply>& reply, AttemptId attempt, Token token,
                  Clock::time_point since);

  const WorkerTerms& options_;
  redis::Client& client_;
  LeaseSession& session_;
  Journal journal_;
  std::mt19937_64 random_;
  bool is_stopping_ = false;
};

LeaseTerms Worker::terms_for(LockId lock, AttemptId attempt) {
  LeaseTerms terms{lease_key(lock), fmt::format("{}.{}", options_.process, attempt)};
  if (unit() < 0.5) terms.ttl = options_.ttl;
  terms.replicated = options_.replicated;
  return terms;
}

awaitable<void> Worker::contend() {
  while (!is_stopping_) {
    auto lock = static_cast<LockId>(random_() % options_.locks);
    bool waits = unit() < 0.8;
    auto now = Clock::now();
    auto give_up = waits ? now + part_of_ttl(5) : now + client_.settings().command_timeout;
    auto attempt = note().begun(now, options_.process, lock, give_up);
    journal_.write();
    auto terms = terms_for(lock, attempt);
    auto asked = waits ? session_.acquire(std::move(terms), give_up)
                       : session_.try_acquire(std::move(terms));
    auto lease = co_await std::move(asked);
    if (lease) {
      auto held = hold(*std::move(lease), lock, attempt, now);
      co_await std::move(held);
    } else {
      note().ended(Clock::now(), attempt);
      journal_.write();
      co_await sleep_for(part_of_ttl(0.05));
    }
  }
}

awaitable<void> Worker::hold(Lease lease, LockId lock, AttemptId attempt, Clock::time_point begun) {
  auto now = Clock::now();
  auto token = token_of(lease);
  // Not before we asked; and a grant older than one ttl would be over.
  note().granted(
      now, attempt,
      {.token = token, .since = std::max(begun, now - options_.ttl), .deadline = lease.deadline()});
  journal_.write();
  auto task = work(lease, lock, attempt);
  auto worked = co_await while_held(lease, std::move(task));
  bool overslept = Clock::now() >= lease.deadline();
  if (!worked && worked.error().code == Errc::lease_lost) {
    note().lost(Clock::now(), attempt);
    journal_.write();
    if (overslept) co_await write_on(lock, attempt, token_of(lease));
    if (unit() < 0.7) co_await write_late(lock, attempt, token, part_of_ttl(1));
    co_return;
  }
  note().released(Clock::now(), attempt);
  journal_.write();
  if (overslept) co_await write_on(lock, attempt, token_of(lease));
  // An error means that the server could not be told: then the lease expires. Sometimes the worker
  // just leaves.
  if (unit() >= 0.8) co_return;
  auto released = co_await lease.release();
  if (!released) co_return;
}

// Writes from time to time, and records how far the deadline has moved.
Async<> Worker::work(Lease& lease, LockId lock, AttemptId attempt) {
  auto deadline = lease.deadline();
  auto token = token_of(lease);
  auto until = Clock::now() + part_of_ttl(unit() < 0.9 ? 0.05 : 2);
  while (!is_stopping_ && Clock::now() < until) {
    auto now = Clock::now();
    if (lease.deadline() > deadline) note().renewed(now, attempt, deadline = lease.deadline());
    if (token_of(lease) != token)
      note().raised(now, attempt, token = token_of(lease), now - options_.ttl);
    journal_.write();
    if (unit() < 0.3) {
      redis::Command command("RPUSH", log_key(lock), log_entry(token, options_.process, attempt));
      auto reply = co_await lease.guarded(std::move(command));
      note_write(reply, attempt, token, now);
      if (!reply && reply.error().code == Errc::lease_lost)
        co_return std::unexpected(reply.error());
    }
    co_await sleep_for(5ms);
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return fail(Errc::cancelled, "the lease is over");
  }
  co_return ok;
}

// A process that was stopped for longer than its lease lasted continues as if nothing had happened.
awaitable<void> Worker::write_on(LockId lock, AttemptId attempt, Token token) {
  for (int i = 0; i < 3; ++i) co_await write_late(lock, attempt, token, 0s);
}

// Does what a process does that has lost a lease and does not know it.
awaitable<void> Worker::write_late(LockId lock, AttemptId attempt, Token token,
                                   Clock::duration pause) {
  co_await sleep_for(pause);
  auto now = Clock::now();
  redis::Command command("RPUSH", log_key(lock), log_entry(token, options_.process, attempt));
  FencingToken shown{token.epoch, token.counter};
  auto write = options_.is_reckless
                   ? client_.ask(std::move(command))
                   : run_guarded(client_, lease_key(lock) + ":fence", shown, std::move(command));
  auto reply = co_await std::move(write);
  note_write(reply, attempt, token, now);
}

void Worker::note_write(const Result<redis::Reply>& reply, AttemptId attempt, Token token,
                        Clock::time_point since) {
  auto now = Clock::now();
  if (reply) note().accepted(now, attempt, token, since);
  if (!reply && reply.error().code == Errc::lease_lost) note().rejected(now, attempt, token, since);
  journal_.write();
}

}  // namespace

std::string lease_key(LockId lock) { return fmt::format("{{torture-{}}}:lease", lock); }

std::string log_key(LockId lock) { return fmt::format("{{torture-{}}}:log", lock); }

std::string log_entry(Token token, history::ProcessId process, AttemptId attempt) {
  return fmt::format("{} {} {}.{}", token.epoch, token.counter, process, attempt);
}

awaitable<void> run_lease_worker(redis::Client& client, const WorkerTerms& terms) {
  asio::signal_set term(client.executor(), SIGTERM);
  LeaseSession session(client, terms.ttl);
  Worker worker(terms, client, session);
  {
    TaskGroup group(client.executor());
    for (int i = 0; i < 2; ++i) group.start("torture.contender", worker.contend());
    co_await term.async_wait(asio::use_awaitable);
    worker.stop();
    co_await group.join();
  }
  co_await session.close();
  co_await client.close();
}

}  // namespace warren::torture
