#pragma once
// Why a sandbox is as it is, for answers that may not wait: its log and its events are fetched in the
// background, once at a time for each sandbox, and the last result is kept.
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/task.h"
#include "services/session/drivers/driver.h"

namespace warren::session {

struct Account {
  std::string log = {};
  std::vector<SandboxEvent> events = {};
};

struct AccountTerms {
  std::chrono::milliseconds fresh = 2s;     // an older one is fetched again, in the background
  std::chrono::milliseconds stale = 10s;    // a caller waits for a newer one
  std::chrono::milliseconds patience = 1s;  // at most so long
  std::size_t most = 1000;                  // sandboxes
};

class Accounts {
 public:
  using Fetch = std::function<awaitable<Account>(std::string name)>;

  Accounts(const asio::any_io_executor& executor, Fetch fetch, AccountTerms terms = {});

  // The last account of this incarnation; empty while there is none.
  awaitable<Account> of(TaskGroup& tasks, std::string name, std::string incarnation);

 private:
  struct Entry {
    std::string incarnation = {};
    Account account = {};
    std::optional<Clock::time_point> fetched_at = {};
    bool is_under_way = false;
  };
  awaitable<void> fetch_one(std::string name, std::string incarnation);
  void make_room(Clock::time_point now);

  Fetch fetch_;
  AccountTerms terms_;
  std::map<std::string, Entry> entries_ = {};
  Event news_;
};

}  // namespace warren::session
