#pragma once
// A connection used by one coroutine at a time: question, answer, question, answer.
//
// For what may not share a connection: the prologue of every connection, questions to sentinels,
// commands that block, writes with WAIT, subscriptions. The shared one is a Link.
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/task.h"
#include "redis/connection/transport.h"
#include "redis/resp/command.h"
#include "redis/resp/parser.h"
#include "redis/resp/refusal.h"
#include "redis/settings.h"

namespace warren::redis {

class Conversation {
 public:
  // Sends commands and waits for their answers, in order; an error reply is an answer like any
  // other. After any Error the conversation is over, except `next` past its deadline.
  Async<std::vector<Reply>> exchange(std::vector<Command> commands, Clock::time_point deadline);
  // The same for one command; an error reply becomes what error_of() says.
  Async<Reply> ask(Command command, Clock::time_point deadline);
  // The two halves, for a connection on which messages arrive by themselves. A late `next` may be
  // called again. Without a deadline it is cheaper.
  Async<> send(std::string bytes, Clock::time_point deadline);
  Async<Reply> next(Clock::time_point deadline);

  const Address& address() const { return address_; }
  // Ends the conversation and hands its connection on.
  std::unique_ptr<Transport> release() { return std::move(transport_); }

  Conversation(Address address, std::unique_ptr<Transport> transport)
      : address_(std::move(address)), transport_(std::move(transport)) {}

 private:
  Async<Reply> receive(Clock::time_point deadline);
  Error broken(std::string_view unread) const;

  Address address_;
  std::unique_ptr<Transport> transport_;
  Parser parser_;
  std::deque<Reply> early_;  // pushes that came between the answers of an exchange
  std::string in_;
  std::size_t in_begin_ = 0;
  std::size_t in_turn_ = 0;  // bytes that were read since others had their turn
};

// Makes conversations: everything that servers of one kind have in common.
class Dialer {
 public:
  // Loads the certificates: Errc::invalid names the file.
  static Result<Dialer> create(const Settings& settings);
  // The same for the sentinels: other credentials, no database.
  Dialer for_sentinels() const;

  // Connects, shakes hands, and goes through the prologue (HELLO 3 with credentials and client
  // name, SELECT). Errc::denied, protocol and invalid will not mend by trying again.
  Async<std::unique_ptr<Conversation>> dial(Address address, Clock::time_point deadline) const;

  const Settings& settings() const { return settings_; }

 private:
  explicit Dialer(Settings settings) : settings_(std::move(settings)) {}
  Settings settings_;
  std::optional<TlsContext> tls_;
};

}  // namespace warren::redis
