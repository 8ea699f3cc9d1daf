#pragma once
// TLS over a connected, non-blocking socket. Never waits, and never raises SIGPIPE.
#include <memory>
#include <span>
#include <string_view>

#include "base/error.h"
#include "redis/settings.h"

typedef struct ssl_st SSL;

namespace warren::redis {

// Certificates and keys, loaded once per client: Errc::invalid names the file and what is wrong.
// Remembers one session per server, so that reconnecting costs no full handshake.
class TlsContext {
 public:
  static Result<TlsContext> load(const TlsSettings& settings);
  // For the other end: the certificate and the key of a server, which asks its clients for none.
  static Result<TlsContext> serve(const TlsSettings& settings);
  bool is_for_redis() const;

 private:
  friend class TlsStream;
  struct State;
  explicit TlsContext(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;  // shared with the streams, which outlive a client's settings
};

// OpenSSL only ever writes into memory, from where we send. Rejected: letting it write to the
// socket, because it then keeps what the socket does not take, and cannot answer a server that asks
// for new keys meanwhile (openssl/openssl#13729); one send for several records is quicker, too.
class TlsStream {
 public:
  TlsStream(const TlsContext& context, const Address& address, int socket);
  // The server's end, with a context that serves.
  TlsStream(const TlsContext& context, int socket);
  ~TlsStream();  // says goodbye to the peer, if it still listens
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  enum class Step { done, wants_read, wants_write, failed };
  Step shake_hands();
  // Reads until `into` is full (done) or for as long as there is something; adds to `bytes`.
  Step read(std::span<char> into, std::size_t& bytes);
  // Writes all (done) or as much as the socket takes; adds to `bytes`. The next call must begin
  // with what was not taken. May want to read: the other half of what the server began to say.
  Step write(std::string_view data, std::size_t& bytes);

  // That nothing follows; reading goes on.
  void say_goodbye();
  // The destructor shall not say goodbye: what was written is not whole.
  void leave_silently() { is_established_ = false; }
  // Whether the peer said that nothing follows. Otherwise an end may be somebody's who cut the line.
  bool heard_goodbye() const;

  // Whether the server never sent a byte, not even of the handshake.
  bool is_silent() const;
  // Why a step failed. Errors: denied (certificates), protocol, unavailable.
  const Error& why() const { return why_; }

 private:
  friend class TlsContext;
  struct Hooks;  // what OpenSSL calls
  Step flush();
  Step step_after(int status);
  Step lost(int error_number);

  std::shared_ptr<TlsContext::State> state_;
  int socket_;
  std::string name_;     // expected in the certificate
  std::string session_;  // the server, as sessions are remembered
  std::unique_ptr<SSL, void (*)(SSL*)> ssl_;
  std::string out_;  // encrypted, of which the first sent_ bytes are gone
  std::size_t sent_ = 0;
  std::size_t owed_ = 0;  // bytes of write() that are in out_ and were not yet reported as taken
  Error why_{};
  bool is_established_ = false;
  bool is_read_out_ = false;        // reading has failed, and is over
  bool is_heard_ = false;           // the server sent application data
  bool is_asked_for_cert_ = false;  // and we have none
};

}  // namespace warren::redis
