#include "redis/connection/tls.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/ip/address.hpp>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "redis/connection/tls_words.h"

namespace warren::redis {

namespace {

struct FreeSession {
  void operator()(SSL_SESSION* session) const { SSL_SESSION_free(session); }
};

constexpr std::size_t most_sessions = 1024;
constexpr std::size_t largest_record = 16 << 10;
constexpr std::size_t batch = 4 * largest_record;  // for one recv or send

bool is_ip(const std::string& name) {
  boost::system::error_code error;
  boost::asio::ip::make_address(name, error);
  return !error;
}

bool is_transient(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

// OpenSSL judges an operation by the thread's error queue, and we judge it by errno. Both must be
// clear beforehand.
void clear_errors() {
  ERR_clear_error();
  errno = 0;
}

std::unique_ptr<BIO, int (*)(BIO*)> text_bio(const std::string& text) {
  std::unique_ptr<BIO, int (*)(BIO*)> bio(BIO_new_mem_buf(text.data(), int(text.size())), BIO_free);
  ensure(bio, "there is memory for a BIO");
  return bio;
}

using Certificate = std::unique_ptr<X509, void (*)(X509*)>;

// All certificates in a PEM text, up to the first part that is not one.
std::vector<Certificate> certificates_in(const std::string& text) {
  std::vector<Certificate> found;
  auto bio = text_bio(text);
  while (auto* each = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr))
    found.emplace_back(each, X509_free);
  ERR_clear_error();  // the end of the text is reported as an error
  return found;
}

// OpenSSL's file errors say little, so check the file first.
Result<> check_readable(const std::string& path) {
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  char byte;
  bool is_readable = file >= 0 && ::read(file, &byte, 1) >= 0;
  int error = errno;
  if (file >= 0) ::close(file);
  if (is_readable) return ok;
  return fail(Errc::invalid, "cannot read {}: {}", path, std::strerror(error));
}

}  // namespace

struct TlsContext::State {
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context{nullptr, SSL_CTX_free};
  TlsSettings settings;
  std::map<std::string, std::unique_ptr<SSL_SESSION, FreeSession>> sessions;

  static std::shared_ptr<State> make(const TlsSettings& settings, const SSL_METHOD* method);

  Result<> load_trust() {
    if (!settings.ca_pem.empty()) return trust_texts();
    if (settings.ca_file.empty()) {
      SSL_CTX_set_default_verify_paths(context.get());
      return ok;
    }
    if (auto readable = check_readable(settings.ca_file); !readable) return readable;
    if (SSL_CTX_load_verify_file(context.get(), settings.ca_file.c_str()) == 1) return ok;
    return fail(Errc::invalid, "{} holds no PEM certificate of a CA", settings.ca_file);
  }

  Result<> trust_texts() {
    auto certificates = certificates_in(settings.ca_pem);
    if (certificates.empty())
      return fail(Errc::invalid, "the text holds no PEM certificate of a CA");
    for (auto& each : certificates)
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), each.get());
    return ok;
  }

  Result<> use_texts() {
    auto certificates = certificates_in(settings.cert_pem);
    if (certificates.empty() || SSL_CTX_use_certificate(context.get(), certificates[0].get()) != 1)
      return fail(Errc::invalid, "the text holds no PEM certificate that can be used");
    for (std::size_t i = 1; i < certificates.size(); ++i)
      SSL_CTX_add1_chain_cert(context.get(), certificates[i].get());
    auto text = text_bio(settings.key_pem);
    auto no_passphrase = [](char*, int, int, void*) { return -1; };
    std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(
        PEM_read_bio_PrivateKey(text.get(), nullptr, no_passphrase, nullptr), EVP_PKEY_free);
    if (!key)
      return fail(Errc::invalid, "the text holds no PEM key that can be used without a passphrase");
    if (SSL_CTX_use_PrivateKey(context.get(), key.get()) == 1) return ok;
    return fail(Errc::invalid, "the key does not belong to the certificate");
  }

  Result<> load_own_certificate() {
    if (!settings.cert_pem.empty() || !settings.key_pem.empty()) return use_texts();
    auto &cert = settings.cert_file, &key = settings.key_file;
    if (cert.empty() && key.empty()) return ok;
    if (cert.empty() || key.empty())
      return fail(Errc::invalid, "{} is of no use without its {}", cert.empty() ? key : cert,
                  cert.empty() ? "certificate" : "key");
    for (auto* path : {&cert, &key})
      if (auto readable = check_readable(*path); !readable) return readable;
    if (SSL_CTX_use_certificate_chain_file(context.get(), cert.c_str()) != 1)
      return fail(Errc::invalid, "{} holds no PEM certificate that can be used", cert);
    // Without this, OpenSSL would ask for the passphrase on the terminal.
    SSL_CTX_set_default_passwd_cb(context.get(), [](char*, int, int, void*) { return -1; });
    ERR_clear_error();
    if (SSL_CTX_use_PrivateKey_file(context.get(), key.c_str(), SSL_FILETYPE_PEM) == 1) return ok;
    if (ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH)
      return fail(Errc::invalid, "the key in {} does not belong to the certificate in {}", key,
                  cert);
    return fail(Errc::invalid, "{} holds no PEM key that can be used without a passphrase", key);
  }
};

struct TlsStream::Hooks {
  static TlsStream& stream_of(const SSL* ssl) {
    return *static_cast<TlsStream*>(SSL_get_app_data(ssl));
  }

  static int on_session(SSL* ssl, SSL_SESSION* session) {
    auto& stream = stream_of(ssl);
    auto& sessions = stream.state_->sessions;
    if (sessions.size() >= most_sessions) sessions.clear();
    sessions[stream.session_].reset(session);
    return 1;  // we own it now
  }

  static int on_certificate_request(SSL* ssl, X509**, EVP_PKEY**) {
    stream_of(ssl).is_asked_for_cert_ = true;
    return 0;
  }

  static int on_write(BIO* bio, const char* data, int size) {
    static_cast<TlsStream*>(BIO_get_data(bio))->out_.append(data, std::size_t(size));
    return size;
  }

  static int on_read(BIO* bio, char* into, int size) {
    BIO_clear_retry_flags(bio);
    int socket = static_cast<TlsStream*>(BIO_get_data(bio))->socket_;
    auto got = ::recv(socket, into, std::size_t(size), 0);
    if (got < 0 && is_transient(errno)) BIO_set_retry_read(bio);
    return int(got);
  }

  static long on_control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH; }

  static BIO* bio_for(TlsStream* stream) {
    static BIO_METHOD* const method = [] {
      auto* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "transport");
      ensure(made, "there is memory for a BIO method");
      BIO_meth_set_write(made, on_write);
      BIO_meth_set_read(made, on_read);
      BIO_meth_set_ctrl(made, on_control);
      return made;
    }();
    auto* bio = BIO_new(method);
    ensure(bio, "there is memory for a BIO");
    BIO_set_data(bio, stream);
    BIO_set_init(bio, 1);
    return bio;
  }

  // The only place where both the reason and the certificate are available.
  static int on_verified(int accepted, X509_STORE_CTX* store) {
    if (accepted) return accepted;
    auto* ssl =
        static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
    auto& stream = stream_of(ssl);
    stream.why_ = not_trusted(certificate_fault(store, stream.name_, stream.state_->settings),
                              stream.state_->settings);
    return accepted;
  }
};

std::shared_ptr<TlsContext::State> TlsContext::State::make(const TlsSettings& settings,
                                                           const SSL_METHOD* method) {
  auto state = std::make_shared<State>();
  state->settings = settings;
  state->context.reset(SSL_CTX_new(method));
  auto* context = state->context.get();
  ensure(context, "there is memory for a TLS context");
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, batch);
  return state;
}

Result<TlsContext> TlsContext::load(const TlsSettings& settings) {
  auto state = State::make(settings, TLS_client_method());
  auto* context = state->context.get();
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  SSL_CTX_sess_set_new_cb(context, TlsStream::Hooks::on_session);
  SSL_CTX_set_client_cert_cb(context, TlsStream::Hooks::on_certificate_request);
  if (settings.verify) SSL_CTX_set_verify(context, SSL_VERIFY_PEER, TlsStream::Hooks::on_verified);
  if (auto loaded = state->load_trust(); !loaded) return std::unexpected(loaded.error());
  if (auto loaded = state->load_own_certificate(); !loaded) return std::unexpected(loaded.error());
  return TlsContext(std::move(state));
}

Result<TlsContext> TlsContext::serve(const TlsSettings& settings) {
  auto state = State::make(settings, TLS_server_method());
  if (settings.cert_pem.empty() && settings.cert_file.empty())
    return fail(Errc::invalid, "a server needs a certificate");
  if (auto loaded = state->load_own_certificate(); !loaded) return std::unexpected(loaded.error());
  return TlsContext(std::move(state));
}

bool TlsContext::is_for_redis() const { return state_->settings.is_for_redis; }

TlsStream::TlsStream(const TlsContext& context, int socket)
    : state_(context.state_), socket_(socket), ssl_(SSL_new(state_->context.get()), SSL_free) {
  ensure(ssl_, "there is memory for a TLS connection");
  SSL_set_app_data(ssl_.get(), this);
  auto* bio = Hooks::bio_for(this);
  SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_accept_state(ssl_.get());
}

TlsStream::TlsStream(const TlsContext& context, const Address& address, int socket)
    : state_(context.state_),
      socket_(socket),
      name_(address.host),
      ssl_(SSL_new(state_->context.get()), SSL_free) {
  ensure(ssl_, "there is memory for a TLS connection");
  auto& names = state_->settings.names;
  for (auto& key : {to_string(address), address.host})
    if (auto name = names.find(key); name != names.end()) {
      name_ = name->second;
      break;
    }
  session_ = to_string(address) + " " + name_;
  SSL_set_app_data(ssl_.get(), this);
  auto* bio = Hooks::bio_for(this);
  SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_connect_state(ssl_.get());
  if (is_ip(name_)) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), name_.c_str());
  } else {
    SSL_set_tlsext_host_name(ssl_.get(), name_.c_str());
    SSL_set_hostflags(ssl_.get(), X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    SSL_set1_host(ssl_.get(), name_.c_str());
  }
  auto session = state_->sessions.find(session_);
  if (session != state_->sessions.end()) SSL_set_session(ssl_.get(), session->second.get());
}

TlsStream::~TlsStream() {
  if (!is_established_) return;
  say_goodbye();
  // OpenSSL does not resume a session unless both ends closed it properly. In Redis' protocol every
  // reply has a length, so a cut connection cannot pass for a complete one. So pretend that both
  // did.
  SSL_set_shutdown(ssl_.get(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
}

void TlsStream::say_goodbye() {
  clear_errors();
  if (!is_read_out_ || heard_goodbye()) SSL_shutdown(ssl_.get());
  flush();
}

bool TlsStream::heard_goodbye() const {
  return (SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN) != 0;
}

TlsStream::Step TlsStream::shake_hands() {
  clear_errors();
  int status = SSL_do_handshake(ssl_.get());
  auto step = status == 1 ? Step::done : step_after(status);
  auto flushed = flush();
  if (step != Step::failed && flushed != Step::done) step = flushed;
  is_established_ = step == Step::done;
  // Whatever the cause, a cached session must not make the next attempt fail.
  if (step == Step::failed) state_->sessions.erase(session_);
  return step;
}

TlsStream::Step TlsStream::read(std::span<char> into, std::size_t& bytes) {
  while (!into.empty()) {
    if (is_read_out_) return Step::failed;
    clear_errors();
    std::size_t got = 0;
    int status = SSL_read_ex(ssl_.get(), into.data(), into.size(), &got);
    if (status != 1) {
      auto step = step_after(status);
      is_read_out_ = step == Step::failed;
      return step;
    }
    is_heard_ = true;
    bytes += got;
    into = into.subspan(got);
  }
  return Step::done;
}

TlsStream::Step TlsStream::write(std::string_view data, std::size_t& bytes) {
  ensure(data.size() >= owed_, "a write begins with what the last one did not take");
  for (;;) {
    if (auto flushed = flush(); flushed != Step::done) return flushed;
    bytes += owed_;
    data.remove_prefix(std::exchange(owed_, 0));
    if (data.empty()) return Step::done;
    while (owed_ < data.size() && out_.size() < batch) {
      clear_errors();
      auto record = data.substr(owed_, largest_record);
      std::size_t taken = 0;
      int status = SSL_write_ex(ssl_.get(), record.data(), record.size(), &taken);
      if (status != 1 && owed_ == 0) return step_after(status);
      if (status != 1) break;
      owed_ += taken;
    }
  }
}

TlsStream::Step TlsStream::flush() {
  while (sent_ < out_.size()) {
    auto sent = ::send(socket_, out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
    if (sent < 0 && is_transient(errno)) return Step::wants_write;
    if (sent < 0) return lost(errno);
    sent_ += std::size_t(sent);
  }
  out_.clear();
  sent_ = 0;
  return Step::done;
}

bool TlsStream::is_silent() const { return BIO_number_read(SSL_get_rbio(ssl_.get())) == 0; }

TlsStream::Step TlsStream::step_after(int status) {
  int error_number = errno;
  switch (SSL_get_error(ssl_.get(), status)) {
    case SSL_ERROR_WANT_READ:
      return Step::wants_read;
    case SSL_ERROR_WANT_WRITE:
      return Step::wants_write;
    case SSL_ERROR_SSL:
      break;
    default:
      return lost(error_number);
  }
  auto reason = ERR_peek_error();
  // TLS 1.2 has no specific alert for a missing certificate.
  bool is_about_cert =
      is_asked_for_cert_ && ERR_GET_REASON(reason) == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE;
  // If verification failed, on_verified() has already described the fault.
  if (ERR_GET_REASON(reason) != SSL_R_CERTIFICATE_VERIFY_FAILED)
    why_ = is_about_cert ? certificate_needed(state_->settings)
                         : tls_failure(reason, state_->settings);
  return Step::failed;
}

TlsStream::Step TlsStream::lost(int error_number) {
  // The first failure says most: after a failed write, a read only finds the end.
  if (!why_.what.empty()) return Step::failed;
  why_ = lost_connection(error_number);
  // TLS 1.3 reports a missing certificate only after the handshake, and that alert may get lost.
  if (is_asked_for_cert_ && !is_heard_) {
    why_ = certificate_needed(state_->settings);
  } else if (!is_established_) {
    why_.what += " during the TLS handshake; it may not be a TLS server";
  }
  return Step::failed;
}

}  // namespace warren::redis
