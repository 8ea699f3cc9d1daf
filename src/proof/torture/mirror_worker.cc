#include "proof/torture/mirror_worker.h"

#include <fmt/format.h>

#include <boost/asio/signal_set.hpp>
#include <random>

#include "proof/torture/journal.h"

namespace warren::torture {

namespace {

using history::Token;

Token token_of(Version version) { return {version.epoch, version.sequence}; }

class Worker {
 public:
  Worker(const WorkerTerms& terms, Mirror& mirror)
      : terms_(terms), mirror_(mirror), journal_(terms.journal), random_(terms.seed) {
    mirror_.on_history_rewritten([this](const HistoryRewritten& lost) {
      // Everything after this place is gone: recorded from the next place on.
      note().history_rewritten(Clock::now(), terms_.process,
                               {lost.after.epoch, lost.after.sequence + 1});
      journal_.write();
    });
  }

  awaitable<void> write();
  awaitable<void> read();
  void stop_writing() { writes_ = false; }
  void stop_reading() { reads_ = false; }
  void note_contents();

 private:
  double unit() { return std::uniform_real_distribution<>(0, 1)(random_); }
  Clock::duration part_of_ttl(double most) {
    return std::chrono::duration_cast<Clock::duration>(terms_.ttl * (most * unit()));
  }
  history::MirrorHistory& note() { return journal_.mirror(); }
  Batch some_batch();
  std::uint64_t digest_of(const Snapshot& snapshot) const;

  const WorkerTerms& terms_;
  Mirror& mirror_;
  Journal journal_;
  std::mt19937_64 random_;
  std::vector<EntityType> types_ = torture_mirror_terms(terms_.log_entries).types;
  std::uint64_t last_value_ = 0;
  bool writes_ = true, reads_ = true;
};

Batch Worker::some_batch() {
  Batch batch;
  for (auto i = 1 + random_() % 3; i > 0; --i) {
    Change change{random_() % 2, fmt::format("e{}", random_() % 40), {}};
    if (unit() < 0.8) change.value = fmt::format("{}.{}", terms_.process, ++last_value_);
    batch.push_back(std::move(change));
  }
  return batch;
}

awaitable<void> Worker::write() {
  while (writes_) {
    auto batch = some_batch();
    auto deadline = Clock::now() + part_of_ttl(2) + 10ms;
    auto version = co_await mirror_.put(std::move(batch), deadline);
    // Without an answer it may be written later, and does not count.
    if (version) {
      note().acknowledged(Clock::now(), terms_.process, token_of(*version));
      journal_.write();
      if (unit() < 0.5) {
        auto applied = co_await mirror_.applied(*version, Clock::now() + terms_.ttl);
        auto now = Clock::now();
        auto seen = mirror_.read();
        if (applied)
          note().session_read(now, terms_.process, token_of(seen->version()), seen->age(now));
        journal_.write();
      }
    }
    co_await sleep_for(part_of_ttl(0.02));
  }
}

awaitable<void> Worker::read() {
  auto ready = co_await mirror_.ready(Clock::time_point::max());
  while (ready && reads_) {
    auto now = Clock::now();
    auto seen = mirror_.read();
    note().read(now, terms_.process, token_of(seen->version()), seen->age(now), digest_of(*seen));
    journal_.write();
    co_await sleep_for(20ms);
  }
}

std::uint64_t Worker::digest_of(const Snapshot& snapshot) const {
  ContentsDigest digest;
  for (std::size_t type = 0; type < types_.size(); ++type)
    snapshot.table(type).each([&](const Entity& entity) {
      digest.add(types_[type].folder + std::string(entity.id()), entity.value());
    });
  return digest.value();
}

void Worker::note_contents() {
  note().contents(Clock::now(), terms_.process, digest_of(*mirror_.read()));
  journal_.write();
}

}  // namespace

MirrorTerms torture_mirror_terms(std::size_t log_entries) {
  MirrorTerms terms;
  terms.prefix = "{torture}:";
  terms.channel = "{torture}:updates";
  terms.types = {{"node", "nodes:"}, {"stream", "streams:"}};
  terms.log_entries = log_entries;
  terms.resync_pause = 100ms;
  terms.resync_spread = 50ms;
  return terms;
}

std::uint64_t ContentsDigest::of(std::string_view key, std::string_view value) {
  std::uint64_t hash = 0xcbf29ce484222325;
  auto mix = [&](unsigned char c) { hash = (hash ^ c) * 0x100000001b3; };
  for (auto c : key) mix(static_cast<unsigned char>(c));
  mix(0);
  for (auto c : value) mix(static_cast<unsigned char>(c));
  return hash;
}

awaitable<void> run_mirror_worker(redis::Client& client, const WorkerTerms& terms) {
  asio::signal_set quiet(client.executor(), SIGUSR1), term(client.executor(), SIGTERM);
  auto mirror = Mirror::create(client, torture_mirror_terms(terms.log_entries));
  ensure(mirror.has_value(), "the terms of the mirror are right");
  Worker worker(terms, **mirror);
  {
    TaskGroup group(client.executor());
    group.start("torture.writer", worker.write());
    group.start("torture.reader", worker.read());
    co_await quiet.async_wait(asio::use_awaitable);
    worker.stop_writing();
    co_await term.async_wait(asio::use_awaitable);
    worker.stop_reading();
    worker.note_contents();
    group.stop();
    co_await group.join();
  }
  co_await (*mirror)->close();
  co_await client.close();
}

}  // namespace warren::torture
