#pragma once
// One process that wants things, creates them, changes and removes them. A thing is a file: its name
// can be made once, and whoever asks sees what there is.
#include "base/task.h"
#include "primitives/once/terms.h"
#include "proof/history/once_history.h"
#include "proof/torture/worker.h"
#include "redis/client.h"

namespace warren::torture {

// Everybody wants the same, and now and then something else: in this order, in all processes of a
// machine.
history::ThingId thing_wanted(Clock::time_point now);
std::string thing_called(history::ThingId thing);
OnceTerms once_terms(std::chrono::milliseconds ttl);

// The things of a round, in a folder.
class Things {
 public:
  explicit Things(std::filesystem::path folder) : folder_(std::move(folder)) {}
  // The number of what is there now: this one, or what somebody made before. 0: it cannot be said.
  std::uint64_t make(history::ThingId thing, std::uint64_t number) const;
  // Only this one.
  void remove(history::ThingId thing, std::uint64_t number) const;
  std::uint64_t number_of(history::ThingId thing) const;  // 0: there is none

 private:
  std::filesystem::path file(history::ThingId thing) const;
  std::filesystem::path folder_;
};

// Until SIGTERM; closes the client.
awaitable<void> run_once_worker(redis::Client& client, const WorkerTerms& terms);

}  // namespace warren::torture
