#pragma once
// A command that a real server runs, and whose answer is lost.
//
//   client  ── SET ───▶ ┐                     Both wait for a server that is paused, in this order.
//   killer  ── KILL ──▶ ┘ server, resumed     It reads both at once, runs the first, and ends its
//                                             connection before the answer is written.
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "with_client.h"

namespace warren {

// A connection that is accepted already, so that what is written to it is read with all the rest.
class Killer {
 public:
  Killer(asio::any_io_executor executor, const RedisServer& server) : socket_(executor) {
    socket_.connect({asio::ip::address_v4::loopback(), server.port()});
    write(redis::Command("PING").bytes());
    std::array<char, 7> pong;
    asio::read(socket_, asio::buffer(pong));
  }
  void write(std::string_view bytes) { asio::write(socket_, asio::buffer(bytes)); }

 private:
  asio::ip::tcp::socket socket_;
};

// The server runs the call on the client's shared connection, loses the answer, and does `next`
// before anything can be sent again. In a cluster `key` says which server is asked.
template <class T>
Async<T> lose_answer(redis::Client& client, RedisServer& server, std::string key, Async<T> call,
                     std::vector<redis::Command> next) {
  using namespace asio::experimental::awaitable_operators;
  auto options = redis::CallOptions().within(20s).where(key);
  auto id = co_await client.command(redis::Command("CLIENT", "ID"), options);
  REQUIRE(id);
  Killer killer(client.executor(), server);
  std::string orders(redis::Command("CLIENT", "KILL", "ID", id->number).bytes());
  for (const auto& command : next) orders += command.bytes();

  server.cli(
      {"PING"});  // it has slept since it heard of either, so that it wakes up in their order
  server.pause();
  auto kill = [](redis::Client& c, RedisServer& s, Killer& k, std::string& bytes) -> Async<> {
    auto sent = c.counters().calls.bytes_out + redis::Command("PING").bytes().size();
    co_await eventually(
        20s, "the command is sent",
        [](redis::Client& x, std::uint64_t& at_least) {
          return x.counters().calls.bytes_out > at_least;
        },
        c, sent);
    k.write(bytes);
    s.resume();
    co_return ok;
  };
  // First the order to look, so that it sees the command leave.
  auto [killed, result] = co_await (kill(client, server, killer, orders) && std::move(call));
  REQUIRE(killed);
  co_return std::move(result);
}

}  // namespace warren
