#pragma once
// A few connections to one PostgreSQL, shared by many callers, and statements that are repeated until
// they are answered.
//
// Connections are made when they are needed, and those that nobody needed for a while are closed:
// each is a process of the server. A caller that finds none free waits in line.
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/task.h"
#include "primitives/catalog/pg_connection.h"
#include "primitives/catalog/pg_server.h"

namespace warren::pg {

// What is known when the deadline passes and a statement was sent: Errc::timeout, since there was
// nothing to be done, or Errc::unknown_outcome.
enum class Effect { reads, writes };

class Pool {
 public:
  // Both are borrowed. All calls have ended before the pool goes.
  Pool(asio::any_io_executor executor, Server& server, std::size_t most);

  // Statements must bear being run twice: one is run again after a lost connection, a deadlock or a
  // failover, until the deadline. Errc::unavailable: the server could not be reached, nothing was
  // done. Errc::overloaded: the line is too long. And timeout, unknown_outcome, denied, refused.
  Async<Rows> run(const Statement& statement, Parameters parameters, Effect effect,
                  Clock::time_point deadline);
  // Several statements as one transaction, in the same way.
  Async<> execute(std::string sql, Clock::time_point deadline);
  // Closes connections that nobody has used since then.
  void close_unused(Clock::time_point since);
  std::size_t idle() const { return idle_.size(); }

 private:
  struct Idle {
    std::unique_ptr<Connection> connection;
    Clock::time_point since;
  };
  // The right to one of the connections, and that connection once there is one.
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
  // What a call has come to so far, for when its deadline passes.
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
  std::size_t used_ = 0;   // places that are given out
  std::deque<Idle> idle_;  // the one that was used last stands last
  std::deque<Waiter*> line_;
  bool is_away_ = false;
};

}  // namespace warren::pg
