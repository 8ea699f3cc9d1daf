#pragma once
// What one simulated process has of Redis: it behaves like redis::Client and redis::Subscriber.
//
//   process ── Connection ──┬── data ──────┐
//                           ├── renewal ───┤      Each socket delays and breaks by itself. On one
//                           ├── durable ───┼──▶   socket nothing overtakes anything; between two
//                           └── messages ──┘      sockets anything may.
//
// While a slot moves, a cluster's client has three more sockets, to the server that an ASK names,
// and one to a server that the caller names.
//
// No answer comes before call() returns. No function of a process runs while it is paused, or after
// it was closed.
#include <array>
#include <boost/container/small_vector.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "proof/sim/model_redis.h"
#include "proof/sim/world.h"
#include "redis/call.h"
#include "redis/durable.h"

namespace warren::sim {

class Servers;

enum class Socket : std::uint8_t {
  data,
  renewal,
  durable,
  messages,
  asked_data,  // these connect on demand only, and reconnect on demand
  asked_renewal,
  asked_durable,
  named
};
// The sockets to the primary; and all of them.
inline constexpr std::array all_sockets{Socket::data, Socket::renewal, Socket::durable,
                                        Socket::messages};
inline constexpr std::array all_links{
    Socket::data,       Socket::renewal,       Socket::durable,       Socket::messages,
    Socket::asked_data, Socket::asked_renewal, Socket::asked_durable, Socket::named};

class Connection {
 public:
  // Made by Servers::connect(), which owns it.
  Connection(World& world, Servers& servers);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  using Done = std::function<void(Result<redis::Reply>)>;
  using DurableDone = std::function<void(Result<redis::Durable>)>;
  // As Client::command; all options except where() apply. A command that was never sent ends with
  // `unavailable` at its deadline. One that was sent, and neither answered nor sent again, ends
  // with `unknown_outcome`, and may still run. So does one that was sent again, if the last attempt
  // ends without an answer to the command itself: the first attempt may have run.
  void call(Words words, Clock::time_point deadline, Done done, redis::CallOptions options = {});
  // As Client::durable: reports fewer replicas than requested if the deadline comes first, or if
  // the connection breaks after the write was answered.
  void durable(Words words, int replicas, Clock::time_point deadline, DurableDone done,
               redis::CallOptions options = {});

  // One attempt, at this server, on a connection of its own.
  void call_at(int server, Words words, Clock::time_point deadline, Done done,
               bool is_asking = false);

  // As in Subscriber.
  void subscribe(std::string channel) { want(std::move(channel), false); }
  void ssubscribe(std::string channel) { want(std::move(channel), true); }
  std::function<void(const Message&)> on_message;
  // Everything wanted is subscribed: for the first time, or again after an addition.
  std::function<void()> on_settled;
  // Everything wanted is subscribed again after a reconnection; messages may have been missed.
  std::function<void()> on_gap;

  // There is a new connection for calls, or another primary: acknowledged writes may be gone.
  std::function<void()> on_connected;
  // The epoch of the primary that this process believes in. It may learn of a new one late.
  std::uint64_t epoch() const { return epoch_; }
  bool is_connected(Socket socket = Socket::data) const { return link(socket).is_up; }

  // Sets a timer of this process.
  template <class Action>
  void at(Clock::time_point time, Action action) {
    world_.at(time, [this, run = std::move(action)]() mutable {
      if (is_closed_) return;
      if (world_.now() < wakes_at_)
        at(wakes_at_, std::move(run));
      else
        run();
    });
  }
  template <class Action>
  void after(Clock::duration delay, Action action) {
    at(world_.now() + delay, std::move(action));
  }

  // Like SIGSTOP and SIGCONT.
  void pause(Clock::duration duration);
  // Like kill -9: some of what was sent may still run.
  void close();
  bool is_closed() const { return is_closed_; }
  // The process notices at once. Some of the requests under way arrive: the first few, none, or
  // all.
  void break_link(Socket socket);
  // Nothing goes through for this long: the sockets break, and no new one can be opened.
  void cut_off(Clock::duration duration);
  // The same, but unnoticed: what is sent meanwhile arrives afterwards. At first the process's
  // requests may still arrive while only the answers do not.
  void fall_silent(Clock::duration duration, Clock::duration still_heard);

 private:
  friend class Servers;
  // One journey of a request to a server.
  struct Way {
    Socket socket;
    std::uint64_t generation;  // of the link
    int server;
    std::uint64_t life;  // of the server
    bool is_asking;      // announced with ASKING
    bool is_lost = false, has_arrived = false;
  };
  struct Request {
    Connection& from;
    Socket socket;                       // the one it takes next
    std::shared_ptr<const Words> words;  // shared with the changes that they make
    Clock::time_point deadline;
    redis::CallOptions options{};
    Done done{};
    DurableDone durable_done{};
    int wanted = 0;                                 // the requested number of replicas
    boost::container::small_vector<Way, 1> ways{};  // empty: it was never sent
    redis::Reply reply{};
    int reached = 0;
    bool is_answered = false;   // but perhaps not by enough replicas
    bool is_over = false;       // the caller has its answer
    bool is_parked = false;     // refused, and to be sent again
    bool may_have_run = false;  // before the last attempt
    bool is_asking = false;     // to be announced with ASKING
    std::size_t detours = 0;    // how often it was redirected
  };
  // Equal owners: the actions in the world, and the link and the server that are handling it.
  using RequestPtr = std::shared_ptr<Request>;

  struct Link {
    bool is_up = false, is_connecting = false;
    int server = 0;
    std::uint64_t generation = 0;  // grows when it breaks: earlier requests are void
    Clock::time_point last_arrival{}, last_return{};
    std::deque<RequestPtr> sent, waiting;
  };
  struct Subscription {
    std::string channel;
    bool is_sharded;
    bool stands = false;        // the server sends
    bool is_confirmed = false;  // and the process knows
  };

  Link& link(Socket socket) { return links_[static_cast<std::size_t>(socket)]; }
  const Link& link(Socket socket) const { return links_[static_cast<std::size_t>(socket)]; }
  void submit(RequestPtr request);
  void send(const RequestPtr& request);
  void on_answer(const RequestPtr& request, std::size_t way);
  void on_deadline(const RequestPtr& request);
  void on_lost(const RequestPtr& request);
  void send_when_connected(const RequestPtr& request);
  bool is_sent_elsewhere(const RequestPtr& request);
  bool is_sent_onward(const RequestPtr& request);
  void park(const RequestPtr& request);
  void finish(Request& request, Result<redis::Reply> reply);

  // The server to which links of this kind lead.
  int target(Socket socket) const;
  void aim(int& target, int server);
  void connect(Socket socket, Clock::duration delay);
  void try_to_connect(Socket socket);
  void establish(Socket socket, int server);
  void on_not_connected(Socket socket);
  void learn(int primary, std::uint64_t epoch);
  void hear_of(int primary, std::uint64_t epoch);
  void redirect(int primary);
  void leave_all_but(int primary);
  // When a message sent now arrives at the other end.
  Clock::time_point arrival(Clock::time_point last, std::size_t bytes,
                            Clock::time_point cut_from) const;
  Clock::time_point at_server(const Link& link, std::size_t bytes) const {
    return arrival(link.last_arrival, bytes, unheard_from_);
  }
  Clock::time_point at_process(const Link& link, std::size_t bytes) const {
    return arrival(link.last_return, bytes, Clock::time_point{});
  }

  void want(std::string channel, bool is_sharded);
  void ask_for(std::size_t subscription);
  void on_subscribed(std::size_t subscription, std::uint64_t generation);
  void on_confirmed(std::size_t subscription, std::uint64_t generation);
  void deliver(const Message& message);

  World& world_;
  Servers& servers_;
  std::array<Link, all_links.size()> links_;
  std::vector<Subscription> subscriptions_;
  bool was_settled_ = false, owes_gap_ = false;
  int primary_;
  int asked_ = -1, named_ = -1;  // servers
  std::uint64_t epoch_;
  Clock::time_point wakes_at_{};
  Clock::time_point cut_until_{}, unheard_from_{};  // unheard_from_: by the servers
  bool is_closed_ = false;
};

}  // namespace warren::sim
