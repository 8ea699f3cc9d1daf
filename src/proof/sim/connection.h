#pragma once
// What one simulated process has of Redis: it behaves as redis::Client and redis::Subscriber do.
//
//   process ── Connection ──┬── data ──────┐
//                           ├── renewal ───┤      Each socket delays and breaks for itself. On one
//                           ├── durable ───┼──▶   socket nothing overtakes anything; between two
//                           └── messages ──┘      everything may.
//
// Where a slot moves, a cluster's client has three more, to the server that an ASK names, and one to
// a server that somebody asks by its name.
//
// Nothing is answered before call() returns, and no function of a process runs while it is paused,
// or ever after it was closed.
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
  asked_data,  // these are connected when they are needed, and not again before that
  asked_renewal,
  asked_durable,
  named
};
// To the primary; and all of them.
inline constexpr std::array all_sockets{Socket::data, Socket::renewal, Socket::durable,
                                        Socket::messages};
inline constexpr std::array all_links{
    Socket::data,       Socket::renewal,       Socket::durable,       Socket::messages,
    Socket::asked_data, Socket::asked_renewal, Socket::asked_durable, Socket::named};

class Connection {
 public:
  // Made by Servers::connect(), which keeps it.
  Connection(World& world, Servers& servers);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  using Done = std::function<void(Result<redis::Reply>)>;
  using DurableDone = std::function<void(Result<redis::Durable>)>;
  // As Client::command; of the options, all but where() count. What was never sent is
  // `unavailable` at its deadline; what was sent, and neither answered nor sent again, is
  // `unknown_outcome`, and may yet run. So is what was sent again, however the last attempt ends
  // without an answer to the command itself: the first may have run.
  void call(Words words, Clock::time_point deadline, Done done, redis::CallOptions options = {});
  // As Client::durable: fewer replicas than asked for when the deadline comes first, or the
  // connection breaks after the write was answered.
  void durable(Words words, int replicas, Clock::time_point deadline, DurableDone done,
               redis::CallOptions options = {});

  // One attempt, at this server, on a connection of its own.
  void call_at(int server, Words words, Clock::time_point deadline, Done done,
               bool is_asking = false);

  // As of Subscriber.
  void subscribe(std::string channel) { want(std::move(channel), false); }
  void ssubscribe(std::string channel) { want(std::move(channel), true); }
  std::function<void(const Message&)> on_message;
  // All that is wanted stands: for the first time, or again after something was added.
  std::function<void()> on_settled;
  // All that is wanted stands again after a reconnection; messages may have been missed.
  std::function<void()> on_gap;

  // There is a new connection for calls, or another primary: what was acknowledged may be gone.
  std::function<void()> on_connected;
  // Of the primary that this process believes in. It may learn of another one late.
  std::uint64_t epoch() const { return epoch_; }
  bool is_connected(Socket socket = Socket::data) const { return link(socket).is_up; }

  // A timer of this process.
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

  // As SIGSTOP and SIGCONT.
  void pause(Clock::duration duration);
  // As kill -9: some of what was sent may still run.
  void close();
  bool is_closed() const { return is_closed_; }
  // The process notices at once. Of what is on its way the first few arrive, or none, or all.
  void break_link(Socket socket);
  // Nothing goes through for so long: the sockets break, and no new one can be had.
  void cut_off(Clock::duration duration);
  // The same, and nobody notices: what is sent meanwhile arrives when it is over. What the process
  // sends at first may still arrive, and only the answers do not.
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
    Socket socket;                       // by which it goes next
    std::shared_ptr<const Words> words;  // of the changes that they make, too
    Clock::time_point deadline;
    redis::CallOptions options{};
    Done done{};
    DurableDone durable_done{};
    int wanted = 0;                                 // replicas
    boost::container::small_vector<Way, 1> ways{};  // none: it was never sent
    redis::Reply reply{};
    int reached = 0;
    bool is_answered = false;   // but perhaps not by enough replicas
    bool is_over = false;       // the caller knows
    bool is_parked = false;     // refused, and to be sent again
    bool may_have_run = false;  // before the last attempt
    bool is_asking = false;     // is announced with ASKING
    std::size_t detours = 0;    // that it was sent on
  };
  // Equal owners: the actions in the world, the link and the server that have it in hand.
  using RequestPtr = std::shared_ptr<Request>;

  struct Link {
    bool is_up = false, is_connecting = false;
    int server = 0;
    std::uint64_t generation = 0;  // grows when it breaks: what belongs to an earlier one is void
    Clock::time_point last_arrival{}, last_return{};
    std::deque<RequestPtr> sent, waiting;
  };
  struct Subscription {
    std::string channel;
    bool is_sharded;
    bool stands = false;        // the server sends
    bool is_confirmed = false;  // and we know
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

  // Where the links of this kind lead.
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
  // When what is sent now comes to the other end.
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
  Clock::time_point cut_until_{}, unheard_from_{};  // the latter by the servers
  bool is_closed_ = false;
};

}  // namespace warren::sim
