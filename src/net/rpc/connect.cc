#include "net/rpc/connect.h"

#include <openssl/crypto.h>

#include <fstream>
#include <sstream>

#include "net/rpc/causes.h"
#include "net/rpc/log.h"

namespace warren::rpc {

namespace {

Result<std::string> text_of(const std::string& file) {
  if (file.empty()) return std::string();
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) return fail(Errc::invalid, "{} cannot be read", file);
  return text.str();
}

}  // namespace

Result<TlsTexts> read(const TlsFiles& files) {
  auto certificate = text_of(files.certificate);
  if (!certificate) return std::unexpected(certificate.error());
  auto key = text_of(files.key);
  if (!key) return std::unexpected(key.error());
  auto authority = text_of(files.authority);
  if (!authority) return std::unexpected(authority.error());
  return TlsTexts{std::move(*certificate), std::move(*key), std::move(*authority)};
}

Result<std::shared_ptr<grpc::Channel>> connect(const std::string& address, const TlsFiles& tls) {
  take_over_logs();
  auto credentials = grpc::InsecureChannelCredentials();
  if (tls.any()) {
    auto texts = read(tls);
    if (!texts) return std::unexpected(texts.error());
    credentials = grpc::SslCredentials({texts->authority, texts->key, texts->certificate});
  }
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(int(most_message_bytes));
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // Not a wait: how long an attempt to connect may take.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // A connection that nobody answers on is given up within half a minute.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Channels to one address would share a connection, and one that is closed would close others.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

void show_token(grpc::ClientContext& context, const std::string& token) {
  if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
}

bool has_token(const grpc::CallbackServerContext& context, const std::string& token) {
  return token.empty() || is_same_token(shown_token(context), token);
}

std::string shown_token(const grpc::CallbackServerContext& context) {
  constexpr std::string_view scheme = "Bearer ";
  auto shown = context.client_metadata().find("authorization");
  if (shown == context.client_metadata().end()) return {};
  std::string_view text(shown->second.data(), shown->second.size());
  if (!text.starts_with(scheme)) return {};
  return std::string(text.substr(scheme.size()));
}

bool is_same_token(const std::string& shown, const std::string& token) {
  return shown.size() == token.size() &&
         CRYPTO_memcmp(shown.data(), token.data(), token.size()) == 0;
}

grpc::Status status_of(const Error& error) {
  auto code = [&] {
    switch (error.code) {
      case Errc::invalid:
        return grpc::StatusCode::INVALID_ARGUMENT;
      case Errc::not_found:
        return grpc::StatusCode::NOT_FOUND;
      case Errc::held_elsewhere:
      case Errc::lease_lost:
      case Errc::refused:
        return grpc::StatusCode::FAILED_PRECONDITION;
      case Errc::denied:
        return grpc::StatusCode::UNAUTHENTICATED;
      case Errc::overloaded:
        return grpc::StatusCode::RESOURCE_EXHAUSTED;
      case Errc::timeout:
        return grpc::StatusCode::DEADLINE_EXCEEDED;
      case Errc::unavailable:
        return grpc::StatusCode::UNAVAILABLE;
      case Errc::unknown_outcome:
      case Errc::protocol:
        return grpc::StatusCode::INTERNAL;
      case Errc::cancelled:
        return grpc::StatusCode::CANCELLED;
    }
    return grpc::StatusCode::UNKNOWN;
  };
  return {code(), error.what};
}

Error error_of(const grpc::Status& status) {
  auto code = [&] {
    switch (status.error_code()) {
      case grpc::StatusCode::INVALID_ARGUMENT:
        return Errc::invalid;
      case grpc::StatusCode::NOT_FOUND:
        return Errc::not_found;
      case grpc::StatusCode::UNAUTHENTICATED:
      case grpc::StatusCode::PERMISSION_DENIED:
        return Errc::denied;
      case grpc::StatusCode::FAILED_PRECONDITION:
        return Errc::refused;
      case grpc::StatusCode::RESOURCE_EXHAUSTED:
        return Errc::overloaded;
      case grpc::StatusCode::DEADLINE_EXCEEDED:
        return Errc::timeout;
      case grpc::StatusCode::CANCELLED:
        return Errc::cancelled;
      case grpc::StatusCode::UNAVAILABLE:
        return Errc::unavailable;
      default:  // a list that is gRPC's, and grows
        return Errc::protocol;
    }
  };
  return {code(), causes::status, status.error_message(), status.error_message()};
}

}  // namespace warren::rpc
