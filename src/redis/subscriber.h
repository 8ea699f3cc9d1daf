#pragma once
// Messages from Redis channels, and a report when some were missed.
//
//   Subscriber news(client);
//   news.subscribe("updates");
//   co_await news.settled(deadline);           // from here on nothing is missed silently
//   for (;;) {
//     auto message = co_await news.next();
//     if (message->kind == Message::Kind::gap) co_await resync();
//     …
//   }
//
// Redis forgets a message once it is sent, so whatever is published while the connection is down is
// lost. After every reconnection, as soon as all subscriptions are restored, a `gap` tells the
// owner to read the state itself. A gap also follows when messages arrive faster than they are
// taken.
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "base/task.h"
#include "redis/client.h"

namespace warren::redis {

struct Message {
  enum class Kind { message, gap };
  Kind kind = Kind::message;
  std::string channel;
  std::string payload;
  std::string pattern;  // the pattern that matched, for psubscribe
};

class Subscriber {
 public:
  struct Limits {
    std::size_t messages = 64u << 10;
    std::size_t bytes = 32u << 20;
  };
  // The client must outlive it.
  explicit Subscriber(Client& client) : Subscriber(client, Limits{}) {}
  Subscriber(Client& client, Limits limits);
  ~Subscriber();
  Subscriber(const Subscriber&) = delete;
  Subscriber& operator=(const Subscriber&) = delete;

  // Changes what is wanted. It takes effect now and after every reconnection. Sharded channels
  // belong to the slot of their name, and follow it through a cluster.
  void subscribe(std::string channel);
  void unsubscribe(const std::string& channel);
  void psubscribe(std::string pattern);
  void punsubscribe(const std::string& pattern);
  void ssubscribe(std::string channel);
  void sunsubscribe(const std::string& channel);

  // Waits until the server has confirmed everything that is wanted; the error says why it has not.
  // If the server refuses a channel, the error names it. The other channels keep working. The
  // refused one is requested again after a reconnection, and when it is subscribed again.
  Async<> settled(Clock::time_point deadline);
  // The next message or gap. Errors: timeout, cancelled.
  Async<Message> next(Clock::time_point deadline = Clock::time_point::max());

  // Ends all connections. Present and later calls of settled() and next() return Errc::cancelled.
  awaitable<void> close();

 private:
  class Feed;
  enum class Kind { channel, pattern, sharded };
  Feed& feed(Kind kind, const std::string& name);
  void want(Kind kind, std::string name, bool wanted);
  void deliver(Message message);

  Client& client_;
  Limits limits_;
  std::deque<Message> queue_;
  std::size_t queued_bytes_ = 0;
  Event arrived_;
  Event confirmed_;
  bool closed_ = false;
  TaskGroup tasks_;
  std::map<int, std::unique_ptr<Feed>> feeds_;  // by slot; one for everything that is not sharded
};

}  // namespace warren::redis
