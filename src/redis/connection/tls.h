#pragma once
// TLS over a connected, non-blocking socket. Never waits, and never raises SIGPIPE.
#include <memory>
#include <span>
#include <string_view>

#include "base/error.h"
#include "redis/settings.h"

typedef struct ssl_st SSL;

namespace warren::redis {

// Certificates and keys, loaded once per client. Errc::invalid names the file and what is wrong
// with it. Remembers one session per server, so that a reconnection needs no full handshake.
class TlsContext {
 public:
  static Result<TlsContext> load(const TlsSettings& settings);
  // For the server side: loads the server's certificate and key. It does not ask clients for one.
  static Result<TlsContext> serve(const TlsSettings& settings);
  bool is_for_redis() const;

 private:
  friend class TlsStream;
  struct State;
  explicit TlsContext(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;  // shared with the streams, which outlive a client's settings
};

// OpenSSL only ever writes into memory, and we send from there. Rejected: letting it write to the
// socket. It would then keep what the socket does not take, and could not answer a server that asks
// for new keys in the meantime (openssl/openssl#13729). One send for several records is also
// faster.
class TlsStream {
 public:
  TlsStream(const TlsContext& context, const Address& address, int socket);
  // The server side. The context must come from serve().
  TlsStream(const TlsContext& context, int socket);
  ~TlsStream();  // sends close_notify, if the connection still works
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  enum class Step { done, wants_read, wants_write, failed };
  Step shake_hands();
  // Reads until `into` is full (done) or nothing more is available. Adds to `bytes`.
  Step read(std::span<char> into, std::size_t& bytes);
  // Writes everything (done) or as much as the socket takes. Adds to `bytes`. The next call must
  // start with the part that was not taken. May return wants_read, to finish an exchange that the
  // server started.
  Step write(std::string_view data, std::size_t& bytes);

  // Sends close_notify: we write nothing more. Reading continues.
  void say_goodbye();
  // Makes the destructor skip close_notify, because the data sent is incomplete.
  void leave_silently() { is_established_ = false; }
  // Whether the peer sent close_notify. Without it, someone may have cut the connection.
  bool heard_goodbye() const;

  // Whether the server has not sent a single byte, not even of the handshake.
  bool is_silent() const;
  // Why a step failed. Errors: denied (certificates), protocol, unavailable.
  const Error& why() const { return why_; }

 private:
  friend class TlsContext;
  struct Hooks;  // the callbacks for OpenSSL
  Step flush();
  Step step_after(int status);
  Step lost(int error_number);

  std::shared_ptr<TlsContext::State> state_;
  int socket_;
  std::string name_;     // expected in the certificate
  std::string session_;  // the server's key among the cached sessions
  std::unique_ptr<SSL, void (*)(SSL*)> ssl_;
  std::string out_;  // encrypted; the first sent_ bytes are sent
  std::size_t sent_ = 0;
  std::size_t owed_ = 0;  // bytes of write() in out_ that were not yet reported as taken
  Error why_{};
  bool is_established_ = false;
  bool is_read_out_ = false;        // reading has failed for good
  bool is_heard_ = false;           // the server sent application data
  bool is_asked_for_cert_ = false;  // and we have none
};

}  // namespace warren::redis
