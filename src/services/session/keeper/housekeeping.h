#pragma once
// What happens to sessions that nobody asks about: whoever leads looks at all of them now and then.
#include "net/http/pool.h"
#include "services/session/keeper/due.h"
#include "services/session/keeper/sessions.h"

namespace warren::session {

struct HousekeepingTerms {
  DueTerms due = {};
  std::chrono::milliseconds every = 10s;
  std::chrono::milliseconds records_every = 15min;  // and whenever Redis may have lost something
};

class Housekeeping {
 public:
  // Redis is null where replicas do not coordinate. Both outlive it.
  Housekeeping(const asio::any_io_executor& executor, Sessions& sessions, redis::Client* redis,
               HousekeepingTerms terms, Telling& telling);

  // Until it is cancelled.
  Async<> run();
  // Pauses and stops what is due.
  awaitable<void> end_what_is_due();
  // Makes every record say what is there. How many did not.
  awaitable<std::size_t> put_records_right();

 private:
  awaitable<void> end(Due what, std::string name);
  // By what the agent itself says; none: it says nothing of it.
  awaitable<std::optional<std::chrono::milliseconds>> idle_time(Sandbox sandbox);

  Sessions& sessions_;
  redis::Client* redis_;
  HousekeepingTerms terms_;
  Telling& telling_;
  HttpPool pool_;
  Ages made_, used_;
};

}  // namespace warren::session
