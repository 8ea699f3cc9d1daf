#pragma once
// How an instance that does not lead knows what the leader heard: it hears every write, and looks
// at the keys themselves at first, after a gap, and now and then.
#include <functional>
#include <set>
#include <string>

#include "redis/subscriber.h"
#include "services/foghorn/federation/terms.h"
#include "services/foghorn/federation/view.h"
#include "services/foghorn/federation/writer.h"

namespace warren::federation {

class Follower {
 public:
  Follower(redis::Client& client, std::string cluster, std::string instance,
           const FederationTerms& terms, View& view);

  // Both until they are cancelled.
  awaitable<void> listen(std::function<void()> changed);
  awaitable<void> look_now_and_then(std::function<bool()> is_needed, std::function<void()> changed);
  // Reads all keys. What was heard meanwhile is newer, and stays. A record whose key is gone is in
  // doubt.
  Async<> load();
  awaitable<void> close();

 private:
  void hear(const Bulletin& bulletin);
  Async<> load_page(std::vector<Record> page, Clock::time_point began);

  redis::Client& client_;
  std::string cluster_, instance_;
  const FederationTerms& terms_;
  View& view_;
  redis::Subscriber subscriber_;
  Event gap_;
  bool has_gap_ = false;          // since the last look
  int loads_ = 0;                 // under way: of a follower, and of one that begins to lead
  std::set<std::string> erased_;  // heard to be gone while loading; keys
};

}  // namespace warren::federation
