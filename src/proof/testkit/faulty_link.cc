#include "proof/testkit/faulty_link.h"

#include <array>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/packaged_task.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/write.hpp>
#include <deque>
#include <set>
#include <thread>

#include "base/task.h"

namespace warren::inline testkit {

using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::size_t most_held = 1 << 20;  // bytes under way in one direction of one connection

struct Chunk {
  Clock::time_point arrived;
  std::string bytes;  // empty: the sender has closed its side
};

// One direction of a connection: what was read and not yet delivered.
struct Flow {
  std::deque<Chunk> chunks;
  std::size_t held = 0;
  Clock::time_point next_write = {};  // kept by throttle
};

struct Faults {
  bool cut = false;
  bool half_open = false;
  struct OneWay {
    Clock::duration delay = {};
    std::size_t bytes_per_second = 0;
    bool drop = false;
    std::optional<std::size_t> cut_after;
  };
  std::array<OneWay, 2> ways;

  OneWay& way(Direction direction) { return ways[static_cast<std::size_t>(direction)]; }
};

class Connection {
 public:
  explicit Connection(tcp::socket accepted)
      : client(std::move(accepted)),
        server(client.get_executor()),
        changed(client.get_executor()) {}

  tcp::socket& sender(Direction d) { return d == Direction::to_server ? client : server; }
  tcp::socket& receiver(Direction d) { return d == Direction::to_server ? server : client; }
  Flow& flow(Direction d) { return flows[static_cast<std::size_t>(d)]; }

  void end(Ending ending) {
    closed = true;
    error_code ignored;
    for (auto* socket : {&client, &server}) {
      if (ending == Ending::reset)
        socket->set_option(asio::socket_base::linger(true, 0), ignored);
      else
        socket->shutdown(tcp::socket::shutdown_send, ignored);
      socket->close(ignored);
    }
    changed.notify();
  }

  tcp::socket client, server;
  Event changed;  // a chunk came or went, the faults changed, or this has ended
  std::array<Flow, 2> flows;
  bool closed = false;
  bool has_hole = false;
};

}  // namespace

// All of it lives on the link's own thread, except the counters.
class FaultyLink::Proxy {
 public:
  Proxy(unsigned short port, unsigned short target)
      : here_(asio::ip::address_v4::loopback(), port),
        target_(asio::ip::address_v4::loopback(), target),
        acceptor_(io_),
        changed_(io_.get_executor()) {
    listen();
    asio::co_spawn(io_, serve(), [](std::exception_ptr thrown) {
      ensure(!thrown, "the link's coroutines do not throw");
    });
    thread_ = std::thread([this] { io_.run(); });
  }

  ~Proxy() {
    order([&](Faults& faults) {
      stopping_ = true;
      faults.cut = true;
    });
    thread_.join();
  }

  // Changes the faults on the link's thread and returns when they are in force.
  template <class Change>
  void order(Change change, Ending ending = Ending::reset) {
    auto task = [&] {
      change(faults_);
      if (faults_.cut) {
        error_code ignored;
        acceptor_.close(ignored);
      } else if (!acceptor_.is_open()) {
        listen();
      }
      // Ending a connection only wakes its coroutines, so the set does not change meanwhile.
      for (auto* connection : connections_) {
        bool is_broken = connection->has_hole && !is_dropping();
        if (faults_.cut || is_broken) connection->end(ending);
        connection->changed.notify();
      }
      changed_.notify();
    };
    asio::post(io_, std::packaged_task<void()>(task)).get();
  }

  void set_target(unsigned short port) { target_.port(port); }

  Counters counters() const { return {accepted_, open_, delivered_[0], delivered_[1]}; }

 private:
  void listen() {
    error_code error;
    acceptor_.open(tcp::v4(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(here_, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    ensure(!error, fmt::format("port {}: {}", here_.port(), error.message()));
  }

  bool is_dropping() const {
    return std::ranges::any_of(faults_.ways, [](auto& way) { return way.drop; });
  }

  awaitable<void> serve() {
    TaskGroup connections(io_.get_executor());
    while (!stopping_) {
      if (!acceptor_.is_open()) {
        co_await changed_.wait();
        continue;
      }
      tcp::socket socket(io_);
      error_code error;
      co_await acceptor_.async_accept(socket, asio::redirect_error(asio::use_awaitable, error));
      if (error) {
        co_await sleep_for(1ms);  // perhaps out of descriptors, which come back
        continue;
      }
      ++accepted_;
      ++open_;
      connections.start("testkit.link", carry(std::move(socket)));
    }
    co_await connections.join();
  }

  // Carries one connection from its beginning to its end.
  awaitable<void> carry(tcp::socket socket) {
    using namespace asio::experimental::awaitable_operators;
    Connection connection(std::move(socket));
    connections_.insert(&connection);
    while (faults_.half_open && !connection.closed) co_await connection.changed.wait();
    error_code error;
    if (!faults_.cut && !connection.closed)
      co_await connection.server.async_connect(target_,
                                               asio::redirect_error(asio::use_awaitable, error));
    if (faults_.cut || error) connection.end(Ending::reset);
    if (!connection.closed) {
      error_code ignored;
      for (auto* end : {&connection.client, &connection.server})
        end->set_option(tcp::no_delay(true), ignored);
      co_await (
          receive(connection, Direction::to_server) && deliver(connection, Direction::to_server) &&
          receive(connection, Direction::to_client) && deliver(connection, Direction::to_client));
    }
    connections_.erase(&connection);
    connection.end(Ending::close);
    --open_;
  }

  awaitable<void> receive(Connection& connection, Direction direction) {
    Flow& flow = connection.flow(direction);
    std::array<char, 16384> buffer;
    for (error_code error; !error;) {
      auto count = co_await connection.sender(direction).async_read_some(
          asio::buffer(buffer), asio::redirect_error(asio::use_awaitable, error));
      if (connection.closed) co_return;
      if (error && error != asio::error::eof) {
        connection.end(Ending::reset);
        co_return;
      }
      flow.chunks.push_back({Clock::now(), std::string(buffer.data(), count)});
      flow.held += count;
      connection.changed.notify();
      while (flow.held > most_held && !connection.closed) co_await connection.changed.wait();
    }
  }

  // When the first chunk may go on, or never while it is held.
  Clock::time_point due(Connection& connection, Direction direction) {
    Flow& flow = connection.flow(direction);
    if (faults_.half_open || flow.chunks.empty()) return Clock::time_point::max();
    auto arrives = flow.chunks.front().arrived + faults_.way(direction).delay;
    if (faults_.way(direction).bytes_per_second == 0) return arrives;
    return std::max(arrives, flow.next_write);
  }

  awaitable<void> deliver(Connection& connection, Direction direction) {
    Flow& flow = connection.flow(direction);
    for (;;) {
      while (!connection.closed && due(connection, direction) > Clock::now())
        co_await connection.changed.wait(due(connection, direction));
      if (connection.closed) co_return;
      auto& way = faults_.way(direction);
      if (flow.chunks.front().bytes.empty()) {
        error_code ignored;
        connection.receiver(direction).shutdown(tcp::socket::shutdown_send, ignored);
        co_return;
      }
      if (way.drop) {
        connection.has_hole = true;
        take(connection, flow, flow.chunks.front().bytes.size());
        continue;
      }
      // Claimed and counted before the write: other connections go on meanwhile, and the count must
      // never lack what the receiver already has.
      auto bytes = next_bytes(flow, way);
      bool is_last = way.cut_after && (*way.cut_after -= bytes.size()) == 0;
      if (is_last) way.cut_after.reset();
      delivered_[static_cast<std::size_t>(direction)] += bytes.size();
      error_code error;
      co_await asio::async_write(connection.receiver(direction), asio::buffer(bytes),
                                 asio::redirect_error(asio::use_awaitable, error));
      if (connection.closed) co_return;
      if (error || is_last) {
        connection.end(error ? Ending::reset : Ending::close);
        co_return;
      }
      take(connection, flow, bytes.size());
    }
  }

  static std::string next_bytes(Flow& flow, const Faults::OneWay& way) {
    auto size = flow.chunks.front().bytes.size();
    if (way.cut_after) size = std::min(size, *way.cut_after);
    if (way.bytes_per_second > 0) {
      size = std::min(size, std::max<std::size_t>(1, way.bytes_per_second / 100));
      flow.next_write = Clock::now() + size * Clock::duration(1s) / way.bytes_per_second;
    }
    return flow.chunks.front().bytes.substr(0, size);
  }

  static void take(Connection& connection, Flow& flow, std::size_t size) {
    flow.held -= size;
    flow.chunks.front().bytes.erase(0, size);
    if (flow.chunks.front().bytes.empty()) flow.chunks.pop_front();
    connection.changed.notify();
  }

  asio::io_context io_{1};
  tcp::endpoint here_, target_;
  tcp::acceptor acceptor_;
  Event changed_;
  Faults faults_;
  bool stopping_ = false;
  std::set<Connection*> connections_;
  std::atomic<std::size_t> accepted_ = 0, open_ = 0;
  std::array<std::atomic<std::size_t>, 2> delivered_ = {};
  std::thread thread_;
};

FaultyLink::FaultyLink(unsigned short target_port)
    : proxy_(std::make_unique<Proxy>(port_.number(), target_port)) {}

FaultyLink::~FaultyLink() = default;

void FaultyLink::delay(Direction direction, Clock::duration time) {
  proxy_->order([&](Faults& faults) { faults.way(direction).delay = time; });
}

void FaultyLink::throttle(Direction direction, std::size_t bytes_per_second) {
  proxy_->order([&](Faults& faults) { faults.way(direction).bytes_per_second = bytes_per_second; });
}

void FaultyLink::half_open() {
  proxy_->order([](Faults& faults) { faults.half_open = true; });
}

void FaultyLink::drop(Direction direction) {
  proxy_->order([&](Faults& faults) { faults.way(direction).drop = true; });
}

void FaultyLink::cut(Ending ending) {
  proxy_->order([](Faults& faults) { faults.cut = true; }, ending);
}

void FaultyLink::cut_after(Direction direction, std::size_t bytes) {
  proxy_->order([&](Faults& faults) { faults.way(direction).cut_after = bytes; });
}

void FaultyLink::lead_to(unsigned short target_port) {
  proxy_->order([&](Faults&) { proxy_->set_target(target_port); });
}

void FaultyLink::heal() {
  proxy_->order([](Faults& faults) { faults = {}; });
}

FaultyLink::Counters FaultyLink::counters() const { return proxy_->counters(); }

}  // namespace warren::inline testkit
