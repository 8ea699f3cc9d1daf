#pragma once
// One connection of an HttpServer. At most one operation of it is under way.
#include <list>

#include "net/http/server.h"

namespace warren {

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Place = std::list<std::shared_ptr<HttpConnection>>::iterator;

  HttpConnection(HttpServer& server, asio::ip::tcp::socket socket, asio::ip::address client);
  void start(Place place);
  // Closes it and takes it off the server's list.
  void leave();
  // Nothing is under way but the wait for a request.
  bool is_idle() const { return phase_ == Phase::idle; }
  Clock::time_point since() const { return since_; }
  const asio::ip::address& client() const { return client_; }
  bool is_late(Clock::time_point now) const;

 private:
  enum class Phase { idle, receiving, working, sending, refusing };

  void enter(Phase phase);
  void receive();
  void make_room();
  void on_received(boost::system::error_code error, std::size_t count);
  // Answers all whole requests that are there; then sends, or waits for more.
  void proceed();
  // False: there is no whole request, or it is being worked on.
  bool serve_one();
  void refuse(int status, std::string_view what);
  void dispatch();
  HttpServer::Work handled();
  void failed(const std::exception& thrown);
  static awaitable<void> finish(std::shared_ptr<HttpConnection> self, awaitable<void> work);
  void answered();
  void flush();
  void send();
  void on_sent(boost::system::error_code error, std::size_t count);
  void after_sending();

  HttpServer* server_;  // null: it has left
  asio::ip::tcp::socket socket_;
  asio::ip::address client_;
  Place place_ = {};
  Phase phase_ = Phase::idle;
  Clock::time_point since_ = {};
  std::string in_;  // room for bytes; those from begin_ to end_ are not answered yet
  std::size_t begin_ = 0, end_ = 0;
  std::string out_;
  std::size_t sent_ = 0;
  HttpHead head_ = {};
  HttpAnswer answer_ = {};
  bool was_told_to_continue_ = false;
  bool ends_after_sending_ = false;
  bool was_refused_ = false;
};

}  // namespace warren
