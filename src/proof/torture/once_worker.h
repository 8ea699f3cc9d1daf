#pragma once
// One process that wants things, creates them, changes and removes them. A thing is a file: its
// name can be created once, and every process can see what exists.
#include "base/task.h"
#include "primitives/once/terms.h"
#include "proof/history/once_history.h"
#include "proof/torture/worker.h"
#include "redis/client.h"

namespace warren::torture {

// All processes want the same thing most of the time, and occasionally another one: in the same
// order in all processes of a machine.
history::ThingId thing_wanted(Clock::time_point now);
std::string thing_called(history::ThingId thing);
OnceTerms once_terms(std::chrono::milliseconds ttl);

// The things of a round, in a folder.
class Things {
 public:
  explicit Things(std::filesystem::path folder) : folder_(std::move(folder)) {}
  // Returns the number of the existing thing: this one, or one made before. 0: unknown.
  std::uint64_t make(history::ThingId thing, std::uint64_t number) const;
  // Removes only this one.
  void remove(history::ThingId thing, std::uint64_t number) const;
  std::uint64_t number_of(history::ThingId thing) const;  // 0: there is none

 private:
  std::filesystem::path file(history::ThingId thing) const;
  std::filesystem::path folder_;
};

// Runs until SIGTERM; closes the client.
awaitable<void> run_once_worker(redis::Client& client, const WorkerTerms& terms);

}  // namespace warren::torture
