#pragma once
// What happens to sessions that nobody asks about: the leader of the replicas looks at all of them now and
// then, ends what is due, starts again what failed, and corrects records.
#include <deque>
#include <optional>

#include "net/http/pool.h"
#include "services/session/keeper/due.h"
#include "services/session/keeper/sessions.h"
#include "services/session/record/scan.h"

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
  // Pauses, stops and starts again what is due, several at a time.
  awaitable<void> end_what_is_due();
  // Corrects the records of these sessions. Returns how many were wrong.
  awaitable<std::size_t> put_records_right(std::vector<std::string> names);

 private:
  // Either something that is due, or a record to look at.
  struct Chore {
    std::optional<Due> due;
    std::string name;
  };
  struct Crew;
  awaitable<void> carry_out(std::deque<Chore> chores, std::size_t& wrong);
  awaitable<void> work(Crew& crew);
  awaitable<void> end(Due what, std::string name);
  awaitable<void> replace(std::string name);
  // False: the rest need not be tried.
  awaitable<bool> look_at_record(std::string name, std::size_t& wrong);
  std::optional<Due> due_for(const Sandbox& sandbox, Clock::time_point now);
  bool is_to_be_replaced(const Sandbox& sandbox, Clock::time_point now);
  awaitable<std::vector<std::string>> names_to_look_at();

  Async<bool> is_still_idle(Sandbox sandbox);
  // What an agent server says of itself.
  struct Agent {
    bool answers = false;
    std::optional<std::chrono::milliseconds> idle = {};  // for how long; nothing: it does not say
  };
  awaitable<Agent> ask_agent(Sandbox sandbox);

  Sessions& sessions_;
  redis::Client* redis_;
  HousekeepingTerms terms_;
  Telling& telling_;
  HttpPool pool_;
  Ages made_, used_;
  std::map<std::string, Clock::time_point> ended_since_ = {};  // by incarnation
  std::optional<RecordScan> scan_ = {};
  std::optional<std::uint64_t> changes_ = {};  // of Redis, at the last look at all records
  Clock::time_point records_at_ = {};
};

}  // namespace warren::session
