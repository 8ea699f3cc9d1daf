#pragma once
// What a request shows of who we are, kept fresh: tokens are rewritten in place every hour or so, and
// programs give some that last for minutes.
//
//   files       read again after a minute, and when the server answers 401
//   a program   run again shortly before what it gave expires, and at a 401; one at a time; its
//               output and its time are bounded
//
// While something new cannot be had, the old goes on being used: it may still be good.
#include <boost/asio/thread_pool.hpp>
#include <optional>
#include <string>

#include "base/task.h"
#include "net/http/tls.h"
#include "net/kube/kubeconfig.h"

namespace warren::kube {

// When to load. Opens no file.
class CredentialMachine {
 public:
  // `lasts`: what was loaded expires then; none: it is looked at again after a minute.
  void on_loaded(Clock::time_point now, std::optional<Clock::duration> lasts);
  void on_failed(Clock::time_point now);
  // The server knows us no more (401). False: it was loaded only now, and loading it again is in vain.
  bool on_refused(Clock::time_point now);

  bool wants_load(Clock::time_point now) const { return now >= load_at_; }
  bool has_any() const { return loaded_at_ != Clock::time_point{}; }

 private:
  Clock::time_point load_at_ = Clock::time_point::min();
  Clock::time_point loaded_at_ = {};
};

// What a program answered. Errc::protocol says what is wrong with it, and repeats nothing of it.
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

  // Loads what is due. An error only when there is nothing to go on with: invalid, unavailable, timeout.
  Async<> freshen(Clock::time_point deadline);
  // After a 401. False: there is nothing newer to try with.
  bool on_refused() { return machine_.on_refused(Clock::now()); }

  const Access& access() const { return access_; }
  const std::string& headers() const { return headers_; }  // lines, each with its end
  const redis::TlsSettings& tls() const { return tls_; }
  // Grows when certificates are others: connections from before show the old ones.
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
  asio::thread_pool pool_{1};  // files may be on a slow disk, and programs take their time
  CredentialMachine machine_;
  bool is_loading_ = false;
  Event loaded_;
  std::string headers_;
  redis::TlsSettings tls_;
  std::uint64_t generation_ = 0;
};

}  // namespace warren::kube
