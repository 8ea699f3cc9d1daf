#pragma once
// The credentials that requests carry, kept up to date. Token files are rewritten about every hour,
// and credential plugins return tokens that last for minutes.
//
//   files       read again after a minute, and when the server answers 401
//   a plugin    run again shortly before its credential expires, and after a 401; one at a time;
//               its output and its time are limited
//
// While a new credential cannot be obtained, the old one is used: it may still be valid.
#include <boost/asio/thread_pool.hpp>
#include <optional>
#include <string>

#include "base/task.h"
#include "net/http/tls.h"
#include "net/kube/kubeconfig.h"

namespace warren::kube {

// Decides when to load. Opens no file.
class CredentialMachine {
 public:
  // What was loaded expires after `lasts`. Without it, it is checked again after a minute.
  void on_loaded(Clock::time_point now, std::optional<Clock::duration> lasts);
  void on_failed(Clock::time_point now);
  // The server rejected the credential (401). Returns false if it was only just loaded, so that
  // loading it again would be useless.
  bool on_refused(Clock::time_point now);

  bool wants_load(Clock::time_point now) const { return now >= load_at_; }
  bool has_any() const { return loaded_at_ != Clock::time_point{}; }

 private:
  Clock::time_point load_at_ = Clock::time_point::min();
  Clock::time_point loaded_at_ = {};
};

// A plugin's answer. Errc::protocol says what is wrong with it, without quoting it.
struct PluginAnswer {
  std::string token = {};
  PemPair pair = {};
  std::optional<Clock::duration> lasts = {};
};
Result<PluginAnswer> parse_plugin_answer(std::string_view text, std::string_view api_version,
                                         WallClock::time_point now);

class Credentials {
 public:
  Credentials(const asio::any_io_executor& executor, Access access);
  ~Credentials() { pool_.join(); }

  // Loads whatever is due. Fails only if no usable credential is left: invalid, unavailable,
  // timeout.
  Async<> freshen(Clock::time_point deadline);
  // After a 401. Returns false if there is nothing newer to try.
  bool on_refused() { return machine_.on_refused(Clock::now()); }

  const Access& access() const { return access_; }
  const std::string& headers() const { return headers_; }  // lines, each with its line end
  const redis::TlsSettings& tls() const { return tls_; }
  // Grows when the certificates change: older connections still present the old ones.
  std::uint64_t generation() const { return generation_; }

 private:
  struct Loaded {
    std::string token;
    redis::TlsSettings tls;
    std::optional<Clock::duration> lasts;
  };
  static Result<Loaded> load(const Access& access, Clock::time_point deadline);
  void use(Loaded loaded);

  Access access_;
  asio::thread_pool pool_{1};  // files may be on a slow disk, and plugins take time
  CredentialMachine machine_;
  bool is_loading_ = false;
  Event loaded_;
  std::string headers_;
  redis::TlsSettings tls_;
  std::uint64_t generation_ = 0;
};

}  // namespace warren::kube
