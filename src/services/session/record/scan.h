#pragma once
// The sessions that have a record in Redis. No index is kept: whoever leads looks through the keys now and
// then, a bounded part of them at a time.
#include <string>
#include <vector>

#include "base/task.h"
#include "redis/client.h"

namespace warren::session {

class RecordScan {
 public:
  // The client outlives it.
  RecordScan(redis::Client& client, const std::string& name_space);

  // Begins again. In a cluster it goes through each primary.
  void begin();
  bool is_over() const { return servers_.empty(); }
  // The names found in the next part of the keys. A name may be found twice.
  Async<std::vector<std::string>> next(Clock::time_point deadline);

 private:
  Async<redis::Reply> ask(redis::Command command, Clock::time_point deadline);

  redis::Client& client_;
  std::string before_, after_;           // what stands around a name in its key
  std::vector<redis::Address> servers_;  // still to be scanned; an empty address is the only one
  std::string cursor_ = "0";
};

}  // namespace warren::session
