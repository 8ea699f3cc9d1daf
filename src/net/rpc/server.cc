#include "net/rpc/server.h"

#include <grpcpp/grpcpp.h>

#include "net/rpc/connect.h"
#include "net/rpc/log.h"

namespace warren::rpc {

namespace {

Result<std::shared_ptr<grpc::ServerCredentials>> credentials(const TlsFiles& tls) {
  if (!tls.any()) return grpc::InsecureServerCredentials();
  auto texts = read(tls);
  if (!texts) return std::unexpected(texts.error());
  if (texts->key.empty() || texts->certificate.empty())
    return fail(Errc::invalid, "a server with TLS needs a certificate and its key");
  grpc::SslServerCredentialsOptions options(
      texts->authority.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                               : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = texts->authority;
  options.pem_key_cert_pairs.push_back({texts->key, texts->certificate});
  return grpc::SslServerCredentials(options);
}

}  // namespace

Result<std::unique_ptr<Server>> Server::listen(const ServerTerms& terms,
                                               const std::vector<grpc::Service*>& services) {
  take_over_logs();
  auto credentials_of = credentials(terms.tls);
  if (!credentials_of) return std::unexpected(credentials_of.error());
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(terms.address, *credentials_of, &port);
  builder.SetMaxReceiveMessageSize(int(most_message_bytes));
  // Two servers on one port would share its callers between them.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 4096);
  // Both sides ask whether the other is there, and allow that.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
  for (auto* service : services) builder.RegisterService(service);
  auto server = builder.BuildAndStart();
  if (!server || port == 0)
    return fail(Errc::unavailable, "gRPC cannot listen on {}", terms.address);
  return std::unique_ptr<Server>(new Server(std::move(server), static_cast<unsigned short>(port)));
}

Server::Server(std::unique_ptr<grpc::Server> server, unsigned short port)
    : server_(std::move(server)), port_(port) {}

Server::~Server() { ensure(!server_, "a server is closed before it is destroyed"); }

// Shutdown blocks until every call has ended, and calls end on this thread.
awaitable<void> Server::close() {
  if (!server_) co_return;
  asio::thread_pool pool(1);
  auto shut = [](grpc::Server* server) {
    server->Shutdown(std::chrono::system_clock::now());
    return true;
  };
  auto* server = server_.get();
  bool done = co_await on_pool(pool, shut, server);
  ensure(done, "a shutdown returns");
  server_.reset();
}

}  // namespace warren::rpc
