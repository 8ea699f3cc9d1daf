#include "torture/lease_worker.h"

#include <fmt/ranges.h>

#include <boost/asio/signal_set.hpp>
#include <charconv>
#include <random>

#include "base/log.h"
#include "lease/lease.h"
#include "torture/journal.h"

namespace warren::torture {

namespace {

using history::AttemptId;
using history::LockId;
using history::Token;

Token token_of(const Lease& lease) { return {lease.token().epoch, lease.token().counter}; }

class Worker {
 public:
  Worker(const LeaseWorker& options, redis::Client& client, LeaseSession& session)
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
  awaitable<void> write_late(LockId lock, AttemptId attempt, Token token);
  void note_write(const Result<redis::Reply>& reply, AttemptId attempt, Token token,
                  Clock::time_point since);

  const LeaseWorker& options_;
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
  // Not before we asked, and what is older than one ttl would be over.
  note().granted(
      now, attempt,
      {.token = token, .since = std::max(begun, now - options_.ttl), .deadline = lease.deadline()});
  journal_.write();
  auto task = work(lease, lock, attempt);
  auto worked = co_await while_held(lease, std::move(task));
  if (!worked && worked.error().code == Errc::lease_lost) {
    note().lost(Clock::now(), attempt);
    journal_.write();
    if (unit() < 0.7) co_await write_late(lock, attempt, token);
    co_return;
  }
  note().released(Clock::now(), attempt);
  journal_.write();
  // An error means that nobody could be told: then it ends by itself. Now and then we just go.
  if (unit() >= 0.8) co_return;
  auto released = co_await lease.release();
  if (!released) co_return;
}

// Writes now and then, and notes how far the deadline has moved.
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

// Who lost a lease and does not know it would do this.
awaitable<void> Worker::write_late(LockId lock, AttemptId attempt, Token token) {
  co_await sleep_for(part_of_ttl(1));
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

awaitable<void> run_until(asio::signal_set& term, const LeaseWorker& options,
                          redis::Client& client) {
  LeaseSession session(client, options.ttl);
  Worker worker(options, client, session);
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

template <class T>
bool read_number(const std::string& text, T& into) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string lease_key(LockId lock) { return fmt::format("{{torture-{}}}:lease", lock); }

std::string log_key(LockId lock) { return fmt::format("{{torture-{}}}:log", lock); }

std::string log_entry(Token token, history::ProcessId process, AttemptId attempt) {
  return fmt::format("{} {} {}.{}", token.epoch, token.counter, process, attempt);
}

std::vector<std::string> words_of(const LeaseWorker& worker) {
  std::vector<std::string> addresses;
  for (auto& address : worker.servers.addresses) addresses.push_back(to_string(address));
  auto mode = static_cast<int>(worker.servers.mode);
  return {lease_worker_word,
          std::to_string(mode),
          fmt::format("{}", fmt::join(addresses, ",")),
          worker.servers.master_name.empty() ? "-" : worker.servers.master_name,
          std::to_string(worker.process),
          std::to_string(worker.seed),
          std::to_string(worker.locks),
          std::to_string(worker.ttl.count()),
          worker.replicated ? "1" : "0",
          worker.is_reckless ? "1" : "0",
          worker.journal.string()};
}

Result<LeaseWorker> lease_worker_from(std::span<const std::string> words) {
  LeaseWorker worker;
  int mode = 0, replicated = 0, reckless = 0;
  std::chrono::milliseconds::rep ttl = 0;
  if (words.size() != 11 || words[0] != lease_worker_word || !read_number(words[1], mode) ||
      mode < 0 || mode > 2 || !read_number(words[4], worker.process) ||
      !read_number(words[5], worker.seed) || !read_number(words[6], worker.locks) ||
      !read_number(words[7], ttl) || !read_number(words[8], replicated) ||
      !read_number(words[9], reckless))
    return fail(Errc::invalid, "these are not the words of a worker");
  worker.servers.mode = static_cast<redis::Mode>(mode);
  worker.servers.addresses.clear();
  std::string_view rest = words[2];
  while (!rest.empty()) {
    auto end = std::min(rest.find(','), rest.size());
    auto address = redis::parse_address(rest.substr(0, end), 6379);
    if (!address) return std::unexpected(address.error());
    worker.servers.addresses.push_back(*address);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (words[3] != "-") worker.servers.master_name = words[3];
  worker.ttl = std::chrono::milliseconds(ttl);
  worker.replicated = replicated == 1;
  worker.is_reckless = reckless == 1;
  worker.journal = words[10];
  return worker;
}

int run(const LeaseWorker& options) {
  log::Options quiet;
  quiet.levels = "info";
  if (!log::configure(quiet)) return 1;
  asio::io_context io(1);
  auto servers = options.servers;
  servers.command_timeout = options.ttl;
  servers.connect_timeout = options.ttl;
  servers.ping_interval = options.ttl / 2;
  servers.silence_limit = options.ttl;
  servers.backoff_most = 100ms;
  auto client = redis::Client::create(io.get_executor(), servers);
  if (!client) return 1;
  asio::signal_set term(io, SIGTERM);
  asio::co_spawn(io, run_until(term, options, **client),
                 [](std::exception_ptr thrown) { ensure(!thrown, "a worker returns its errors"); });
  io.run();
  return 0;
}

}  // namespace warren::torture
