#pragma once
// Which Redis to use, how to reach it, and the limits we apply.
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/error.h"

namespace warren::redis {

using namespace std::chrono_literals;

struct Address {
  std::string host;  // a name, an IPv4 or an IPv6 address (without brackets)
  std::uint16_t port = 0;
  std::string unix_path;  // replaces host and port

  bool is_unix() const { return !unix_path.empty(); }
  auto operator<=>(const Address&) const = default;
};
std::string to_string(const Address& address);  // host:port, [::1]:6379, unix:///path
// Parses "host", "host:port", "[v6]:port" or "v6". Errc::invalid says what is wrong.
Result<Address> parse_address(std::string_view text, std::uint16_t default_port);

struct Credentials {
  std::string username;  // empty for the default user
  std::string password;  // empty for no password
};

struct TlsSettings {
  bool enabled = false;
  std::string ca_file;    // empty for the system's store
  std::string cert_file;  // client certificate and its key
  std::string key_file;
  bool verify = true;  // certificate chain and host name
  // The name to expect (and to send as SNI) for an address that a sentinel or a cluster reports. A
  // key is an address as to_string(Address) writes it, or only the host.
  std::map<std::string, std::string> names;
  // PEM texts instead of files.
  std::string ca_pem, cert_pem, key_pem;
  // If true, errors name our Redis settings, and a silent server is probed for plain Redis. False
  // for other protocols.
  bool is_for_redis = true;
};

enum class Mode { single, sentinel, cluster };

struct Settings {
  Mode mode = Mode::single;
  std::vector<Address> addresses{
      {"localhost", 6379, ""}};  // the server, the sentinels, or some cluster nodes
  std::string master_name;       // only for sentinel
  Credentials credentials;
  Credentials sentinel_credentials;
  int database = 0;
  TlsSettings tls;
  std::string client_name = "warren";

  std::chrono::milliseconds connect_timeout = 2s;  // TCP, TLS and the prologue together
  std::chrono::milliseconds command_timeout = 2s;  // for calls that give no deadline of their own
  std::chrono::milliseconds ping_interval = 2s;    // an idle connection is asked whether it lives
  std::chrono::milliseconds silence_limit = 5s;    // no answer for so long: it is broken
  std::chrono::milliseconds backoff_least = 10ms;
  std::chrono::milliseconds backoff_most = 1s;
  std::size_t max_calls = 64u << 10;  // waiting for an answer, per connection
  std::size_t max_call_bytes = 64u << 20;
};

// The settings that a program declares to use Redis: redis.url (REDIS_URL), redis.mode
// (REDIS_MODE), redis.addrs (REDIS_ADDRS), redis.master-name (REDIS_MASTER_NAME), redis.username,
// redis.password, redis.host (REDIS_HOST), and ours for the database, sentinel credentials, TLS and
// time limits.
std::vector<Setting> config_settings();

// Errc::invalid for contradictions; the error names both sides: "REDIS_URL and REDIS_ADDRS both say
// where Redis is". redis.mode sets the mode; it is never guessed from the number of addresses. No
// error quotes a password, or any other part of a URL.
Result<Settings> settings_from(const Config& config);

// Accepts redis://[user[:password]@]host[:port][/db], rediss://…, and
// unix://[user[:password]@]/path[?db=n]. User, password and path may be percent-encoded.
Result<Settings> parse_url(std::string_view url);

}  // namespace warren::redis
