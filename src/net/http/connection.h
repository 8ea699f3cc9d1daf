#pragma once
// One connection of an HttpServer.
//
// At most one read and one write are in progress. While a request is worked on, we keep reading as
// far as there is room, to notice when the client leaves. Meanwhile nothing in the buffer moves,
// except what a BodyReader has finished with.
#include <list>

#include "net/http/exchange.h"
#include "net/http/server.h"

namespace warren {

class HttpConnection final : public std::enable_shared_from_this<HttpConnection>,
                             public HttpExchange,
                             private HttpWire {
 public:
  using Place = HttpServer::Connections::iterator;

  HttpConnection(HttpServer& server, asio::ip::tcp::socket socket, asio::ip::address client);
  void start(Place place);
  // Closes the connection, removes it from the server's list, and cancels the work for its request.
  void leave();
  Clock::time_point since() const { return since_; }
  const asio::ip::address& client() const { return client_; }
  bool is_late(Clock::time_point now) const;

  BodyReader& in() override;
  BodyWriter& begin(std::optional<std::uint64_t> length) override;
  Async<> upgrade(std::string protocol) override;
  BodyWriter& out() override;

 private:
  enum class Phase { idle, receiving, working, sending, refusing };

  void enter(Phase phase);
  static HttpServer::Doing doing(Phase phase);
  void receive();
  void start_receiving();
  void make_room();
  void on_received(boost::system::error_code error, std::size_t count);
  // Answers all complete requests in the buffer, then sends, or waits for more.
  void proceed();
  // Returns false if there is no complete request, or if the request is being worked on.
  bool serve_one();
  bool serve_streamed(std::uint64_t most);
  void keep_head();
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
  void close_after_sending();

  // While work is in progress: see exchange.cc.
  void watch();
  void on_received_ahead(boost::system::error_code error, std::size_t count);
  void finish_streaming();
  void cut_off();
  std::string_view arrived() const override;
  void consume(std::size_t bytes) override;
  Async<bool> more() override;
  Async<> send(std::string_view bytes) override;
  awaitable<void> wait_writable();

  // See tls.cc. Without TLS, write_some writes to the socket.
  std::size_t write_some(std::string_view bytes, boost::system::error_code& error);
  void shake_hands();
  void start_receiving_tls();
  void receive_tls();
  std::size_t write_some_tls(std::string_view bytes, boost::system::error_code& error);
  asio::ip::tcp::socket::wait_type awaited_for_writing() const;

  HttpServer* server_;  // null after leave()
  asio::ip::tcp::socket socket_;
  asio::ip::address client_;
  Place place_ = {};
  Phase phase_ = Phase::idle;
  Clock::time_point since_ = {};
  std::string in_;  // buffer; the bytes from begin_ to end_ are not answered yet
  std::size_t begin_ = 0, end_ = 0;
  std::string out_;
  std::size_t sent_ = 0;
  HttpHead head_ = {};
  bool is_head_whole_ = false;  // of the request that is being received
  HttpAnswer answer_ = {};
  bool was_told_to_continue_ = false;
  bool ends_after_sending_ = false;
  bool was_refused_ = false;
  bool is_receiving_ = false;
  bool has_ended_ = false;  // the client will send nothing more

  std::uint64_t task_ = 0;  // of the work; 0 if there is none
  std::string kept_ = {};   // the head of a request, moved out of in_ to make room
  std::optional<BodyReader> reader_ = {};
  std::optional<BodyWriter> writer_ = {};
  std::optional<Event> changed_ = {};  // more was received, or the client has ended
  bool keeps_alive_ = false;           // after writer_'s answer
  bool is_upgraded_ = false;
  std::optional<Clock::time_point> reads_since_ = {}, writes_since_ = {};  // while work waits

  struct Tls {
    redis::TlsStream stream;
    bool may_hold_bytes = true;     // it reads ahead, and the socket does not know those bytes
    bool write_wants_read = false;  // it may have to read before it can write
  };
  std::unique_ptr<Tls> tls_ = nullptr;  // destroyed before the socket is closed
};

}  // namespace warren
