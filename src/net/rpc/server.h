#pragma once
// The gRPC server of a process: any number of services on one port.
//
//   auto server = rpc::Server::listen(executor, {.address = "0.0.0.0:18019"}, {&a, &b});
//   co_await (*server)->close();      // ~Server ensures that this was done
//
// gRPC has threads of its own. Services hand what they are asked to the executor's thread and touch
// nothing else, so that our code stays on one.
#include <memory>
#include <string>
#include <vector>

#include "base/task.h"
#include "net/rpc/terms.h"

namespace grpc {
class Server;
class Service;
}  // namespace grpc

namespace warren::rpc {

struct ServerTerms {
  std::string address = "0.0.0.0:18019";  // port 0: any that is free
  TlsFiles tls = {};
};

class Server {
 public:
  // Errc::unavailable: the port cannot be had. Errc::invalid: a file cannot be read. The services
  // outlive the server.
  static Result<std::unique_ptr<Server>> listen(const ServerTerms& terms,
                                                const std::vector<grpc::Service*>& services);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  unsigned short port() const { return port_; }
  // Cancels calls that are under way and waits for them; meanwhile this thread goes on.
  awaitable<void> close();

 private:
  Server(std::unique_ptr<grpc::Server> server, unsigned short port);
  std::unique_ptr<grpc::Server> server_;
  unsigned short port_;
};

}  // namespace warren::rpc
