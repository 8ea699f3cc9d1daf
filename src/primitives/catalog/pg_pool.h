#pragma once
// A few connections to one PostgreSQL server, shared by many callers; repeats statements until they
// are answered.
//
// Connections are opened on demand and closed after a while without use, because each is a process
// of the server. A caller that finds none free waits in line.
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/task.h"
#include "primitives/catalog/pg_connection.h"
#include "primitives/catalog/pg_server.h"

namespace warren::pg {

// Which error a statement gets that was sent but not answered by the deadline: reads end with
// Errc::timeout, since they change nothing, writes with Errc::unknown_outcome.
enum class Effect { reads, writes };

class Pool {
 public:
  // Both are borrowed. All calls must have ended before the pool is destroyed.
  Pool(asio::any_io_executor executor, Server& server, std::size_t most);

  // A statement must be safe to run twice: it is run again after a lost connection, a deadlock or a
  // failover, until the deadline. Errc::unavailable: the server could not be reached, nothing was
  // done. Errc::overloaded: the line is too long. Also timeout, unknown_outcome, denied, refused.
  Async<Rows> run(const Statement& statement, Parameters parameters, Effect effect,
                  Clock::time_point deadline);
  // Runs several statements as one transaction, in the same way.
  Async<> execute(std::string sql, Clock::time_point deadline);
  // Closes connections that have not been used since then.
  void close_unused(Clock::time_point since);
  std::size_t idle() const { return idle_.size(); }

 private:
  struct Idle {
    std::unique_ptr<Connection> connection;
    Clock::time_point since;
  };
  // The right to one of the connections, and that connection once it exists.
  class Place {
   public:
    explicit Place(Pool& pool) : pool_(&pool) {}
    Place(Place&& other) noexcept;
    Place& operator=(Place&&) = delete;
    ~Place();
    std::unique_ptr<Connection> connection;

   private:
    Pool* pool_;
  };
  struct Waiter {
    explicit Waiter(asio::any_io_executor executor) : wake(executor) {}
    Event wake;
    std::optional<Place> place;
  };
  class InLine;
  // How far a call has come, for when its deadline passes.
  struct Progress {
    bool may_have_run = false;
    bool is_sent = false;
    std::optional<Error> last;
  };

  template <class T, class Action>
  Async<T> repeat(Action action, Progress& progress);
  template <class T, class Action>
  Async<T> attempt(Action action, Progress& progress);
  template <class T, class Action>
  Async<T> within(Action action, Effect effect, Clock::time_point deadline);
  Async<Place> enter();
  void give_back(std::unique_ptr<Connection> connection);
  std::unique_ptr<Connection> take_idle();
  void on_outcome(const Error* problem);

  asio::any_io_executor executor_;
  Server& server_;
  std::size_t most_;
  std::size_t used_ = 0;   // places in use
  std::deque<Idle> idle_;  // the most recently used one is last
  std::deque<Waiter*> line_;
  bool is_away_ = false;
};

}  // namespace warren::pg
