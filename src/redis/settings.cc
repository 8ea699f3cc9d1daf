#include "redis/settings.h"

#include <sys/un.h>

#include <algorithm>
#include <boost/asio/ip/address_v6.hpp>
#include <charconv>
#include <climits>
#include <optional>

#include "base/causes.h"

namespace warren::redis {

namespace {

constexpr std::uint16_t redis_port = 6379;
constexpr std::uint16_t sentinel_port = 26379;
constexpr std::size_t longest_value = 64 << 10;
constexpr std::size_t longest_host = 253;                                // RFC 1035
constexpr std::size_t longest_path = sizeof(sockaddr_un::sun_path) - 1;  // minus its NUL

bool is_printable(char c) { return c > ' ' && c < 0x7f; }

bool is_host_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '-' || c == '_';
}

// The part of a value that may appear in an error: one short line.
std::string in_quotes(std::string_view text) {
  constexpr std::size_t most = 80;
  std::string shown(text.substr(0, most));
  std::ranges::replace_if(shown, [](char c) { return c != ' ' && !is_printable(c); }, '?');
  return '"' + shown + (text.size() > most ? "…\"" : "\"");
}

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool is_v6(std::string_view text) {
  boost::system::error_code error;
  if (text.size() <= longest_host) boost::asio::ip::make_address_v6(std::string(text), error);
  return text.size() <= longest_host && !error;
}

Result<> check_host(std::string_view host) {
  if (host.empty()) return fail(Errc::invalid, "the host is missing");
  if (host.size() > longest_host)
    return fail(Errc::invalid, "the host has {} characters, at most {} are possible", host.size(),
                longest_host);
  if (!std::ranges::all_of(host, is_host_character))
    return fail(Errc::invalid, "the host has a character that no host name has");
  return ok;
}

Result<std::uint16_t> parse_port(std::string_view text) {
  auto port = parse_number<std::uint16_t>(text);
  if (port && *port != 0) return *port;
  return fail(Errc::invalid, "the port is not a number from 1 to 65535");
}

// Its errors do not quote the text, which may be a URL with a password in an unexpected place.
Result<Address> parse_host_and_port(std::string_view text, std::uint16_t default_port) {
  Address address{"", default_port, ""};
  std::string_view host = text, port;
  bool has_port = false;
  if (text.starts_with('[')) {
    auto bracket = text.find(']');
    if (bracket == text.npos) return fail(Errc::invalid, "the ] after the IPv6 address is missing");
    host = text.substr(1, bracket - 1);
    port = text.substr(bracket + 1);
    has_port = port.starts_with(':');
    if (!has_port && !port.empty()) return fail(Errc::invalid, "after ] only :port may follow");
    if (!is_v6(host)) return fail(Errc::invalid, "what stands in [ ] is not an IPv6 address");
    if (has_port) port.remove_prefix(1);
  } else if (!is_v6(text)) {
    auto colon = text.find(':');
    has_port = colon != text.npos;
    host = text.substr(0, colon);
    if (has_port) port = text.substr(colon + 1);
    if (auto valid = check_host(host); !valid) return std::unexpected(valid.error());
  }
  address.host = host;
  if (!has_port) return address;
  auto number = parse_port(port);
  if (!number) return std::unexpected(number.error());
  address.port = *number;
  return address;
}

// %41 is A. Returns nullopt for a % without two hex digits, and for %00, which cannot occur in a
// name or a path.
std::optional<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    unsigned char byte = 0;
    auto* digits = text.data() + i + 1;
    if (text.size() - i < 3 || std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2 ||
        byte == 0)
      return std::nullopt;
    decoded += char(byte);
    i += 2;
  }
  return decoded;
}

struct Url {
  Settings settings;
  bool has_database = false;
};

Result<> parse_user(std::string_view text, Credentials& credentials) {
  auto colon = text.find(':');
  auto username = percent_decoded(text.substr(0, colon));
  auto password = percent_decoded(colon == text.npos ? "" : text.substr(colon + 1));
  if (!username || !password)
    return fail(Errc::invalid,
                "after each % in the user name and the password two hexadecimal digits other than "
                "00 must follow; % itself is written %25");
  credentials = {*username, *password};
  return ok;
}

Result<> parse_database(std::string_view text, Url& url) {
  if (text.empty()) return ok;
  auto database = parse_number<int>(text);
  if (!database || *database < 0)
    return fail(Errc::invalid, "the database is not a whole number from 0");
  url.settings.database = *database;
  url.has_database = true;
  return ok;
}

Result<> parse_unix_path(std::string_view text, Url& url) {
  auto question = text.find('?');
  auto path = percent_decoded(text.substr(0, question));
  if (!path || path->size() < 2 || path->size() > longest_path)
    return fail(Errc::invalid,
                "after unix:// the path of a socket must follow, starting with /, of at most {} "
                "bytes",
                longest_path);
  url.settings.addresses = {Address{"", 0, *path}};
  if (question == text.npos) return ok;
  auto query = text.substr(question + 1);
  if (!query.starts_with("db=")) return fail(Errc::invalid, "after ? only db=number may follow");
  return parse_database(query.substr(3), url);
}

Result<Url> read_url(std::string_view text) {
  if (text.size() > longest_value)
    return fail(Errc::invalid, "the URL has {} bytes, at most {} make sense", text.size(),
                longest_value);
  if (!std::ranges::all_of(text, is_printable))
    return fail(Errc::invalid,
                "the URL has a space, a control character or one outside ASCII: percent-encode it");
  Url url;
  auto scheme = text.substr(0, text.find("://"));
  bool is_unix = scheme == "unix";
  url.settings.tls.enabled = scheme == "rediss";
  if (scheme.size() == text.size() || (!is_unix && scheme != "redis" && scheme != "rediss"))
    return fail(Errc::invalid, "a Redis URL starts with redis://, rediss:// or unix://");

  auto rest = text.substr(scheme.size() + 3);
  auto authority = rest.substr(0, rest.find_first_of("/?#"));
  auto tail = rest.substr(authority.size());
  if (tail.contains('@'))
    return fail(Errc::invalid,
                "an @ stands after a /, ? or #: write these as %40, %2F, %3F and %23 within a user "
                "name, password or path");
  auto at = authority.rfind('@');
  if (at != authority.npos)
    if (auto user = parse_user(authority.substr(0, at), url.settings.credentials); !user)
      return std::unexpected(user.error());
  auto place = at == authority.npos ? authority : authority.substr(at + 1);

  Result<> parsed = ok;
  if (is_unix) {
    if (!place.empty())
      return fail(Errc::invalid, "unix:// takes a path, as in unix:///run/redis.sock");
    parsed = parse_unix_path(tail, url);
  } else {
    auto address = parse_host_and_port(place, redis_port);
    if (!address) return std::unexpected(address.error());
    url.settings.addresses = {*address};
    if (tail.find_first_of("?#") != tail.npos)
      return fail(Errc::invalid, "after the host only /database may follow, not ? or #");
    parsed = parse_database(tail.empty() ? tail : tail.substr(1), url);
  }
  if (!parsed) return std::unexpected(parsed.error());
  return url;
}

std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  for (bool more = true; more;) {
    auto comma = text.find(',');
    auto part = text.substr(0, comma);
    part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
    part.remove_suffix(part.size() - (part.find_last_not_of(' ') + 1));
    parts.push_back(part);
    more = comma != text.npos;
    if (more) text.remove_prefix(comma + 1);
  }
  return parts;
}

// How a person knows the setting: REDIS_URL, --redis-url, "redis.url in warren.toml:3".
std::string label(const Config::Value& value) {
  if (!value.is_set) return value.setting->environment;
  auto space = value.origin.find(' ');
  auto source = value.origin.substr(space + 1);
  bool is_file = value.origin.starts_with("file ");
  return is_file ? fmt::format("{} in {}", value.setting->name, source) : source;
}

// Reads the settings group by group. The first contradiction ends it.
class Reader {
 public:
  explicit Reader(const Config& config) : config_(config) {}

  Result<Settings> read() {
    for (auto part : {&Reader::values, &Reader::mode, &Reader::place, &Reader::database,
                      &Reader::users, &Reader::tls, &Reader::tls_names, &Reader::limits})
      if (auto done = (this->*part)(); !done) return std::unexpected(done.error());
    return std::move(settings_);
  }

 private:
  const Config::Value& at(std::string_view name) const { return config_.at(name); }
  bool has(std::string_view name) const { return at(name).is_set && !at(name).value.empty(); }
  std::string label_of(std::string_view name) const { return label(at(name)); }
  std::string mode_text() const { return label_of("redis.mode") + "=" + at("redis.mode").value; }

  Result<> values() {
    for (auto& value : config_.values()) {
      if (!value.setting->name.starts_with("redis.")) continue;
      if (value.value.size() > longest_value)
        return fail(Errc::invalid, "{} has {} bytes, at most {} make sense", label(value),
                    value.value.size(), longest_value);
      if (value.value.contains('\0'))
        return fail(Errc::invalid, "{} has a NUL byte in it", label(value));
    }
    return ok;
  }

  Result<> mode() {
    auto& word = at("redis.mode").value;
    settings_.mode = word == "sentinel"  ? Mode::sentinel
                     : word == "cluster" ? Mode::cluster
                                         : Mode::single;
    bool is_sentinel = settings_.mode == Mode::sentinel;
    if (is_sentinel && !has("redis.addrs"))
      return fail(Errc::invalid, "{} needs REDIS_ADDRS: the sentinels, as host:port,host:port",
                  mode_text());
    if (is_sentinel && !has("redis.master-name"))
      return fail(Errc::invalid, "{} needs REDIS_MASTER_NAME: what the sentinels call the master",
                  mode_text());
    if (settings_.mode == Mode::cluster && !has("redis.addrs") && !has("redis.url") &&
        !has("redis.host"))
      return fail(Errc::invalid, "{} needs REDIS_ADDRS: some of the nodes, as host:port,host:port",
                  mode_text());
    for (auto name : {"redis.master-name", "redis.sentinel-username", "redis.sentinel-password"})
      if (!is_sentinel && has(name))
        return fail(Errc::invalid, "{} is for sentinels, and the mode is {}: unset one",
                    label_of(name), mode_text());
    settings_.master_name = at("redis.master-name").value;
    if (!std::ranges::all_of(settings_.master_name, is_printable))
      return fail(Errc::invalid, "{} has a space, a control character or one outside ASCII",
                  label_of("redis.master-name"));
    return ok;
  }

  Result<> place() {
    using Pair = std::pair<const char*, const char*>;
    for (auto [one, other] : {Pair("redis.url", "redis.addrs"), Pair("redis.url", "redis.host"),
                              Pair("redis.host", "redis.addrs")})
      if (has(one) && has(other))
        return fail(Errc::invalid, "{} and {} both say where Redis is: unset one", label_of(one),
                    label_of(other));
    if (has("redis.url")) return place_by_url();
    if (has("redis.host")) return place_by_list("redis.host", redis_port);
    if (!has("redis.addrs")) return ok;
    return place_by_list("redis.addrs",
                         settings_.mode == Mode::sentinel ? sentinel_port : redis_port);
  }

  Result<> place_by_url() {
    auto url = read_url(at("redis.url").value);
    if (!url) return fail(Errc::invalid, "{}: {}", label_of("redis.url"), url.error().what);
    url_ = *url;
    auto& parsed = url->settings;
    if (settings_.mode == Mode::cluster && parsed.addresses[0].is_unix())
      return fail(Errc::invalid, "{} names a unix socket, but the nodes of {} have hosts and ports",
                  label_of("redis.url"), mode_text());
    settings_.addresses = parsed.addresses;
    settings_.credentials = parsed.credentials;
    settings_.database = parsed.database;
    settings_.tls.enabled = parsed.tls.enabled;
    return ok;
  }

  Result<> place_by_list(std::string_view name, std::uint16_t default_port) {
    std::vector<Address> addresses;
    for (auto part : split_at_commas(at(name).value)) {
      auto address = parse_address(part, default_port);
      if (!address) return fail(Errc::invalid, "{}: {}", label_of(name), address.error().what);
      if (std::ranges::find(addresses, *address) != addresses.end())
        return fail(Errc::invalid, "{} has {} twice", label_of(name), to_string(*address));
      addresses.push_back(*address);
    }
    if (addresses.size() > 1 && name == "redis.host")
      return fail(Errc::invalid, "{} takes one server and has {}: use REDIS_ADDRS", label_of(name),
                  addresses.size());
    if (addresses.size() > 1 && settings_.mode == Mode::single)
      return fail(Errc::invalid,
                  "{} has {} addresses, but the mode is {}: give one, or set the mode to sentinel "
                  "or cluster",
                  label_of(name), addresses.size(), mode_text());
    settings_.addresses = std::move(addresses);
    return ok;
  }

  Result<> database() {
    if (has("redis.db")) {
      int database = int(config_.number("redis.db"));
      if (url_.has_database && url_.settings.database != database)
        return fail(Errc::invalid, "{} and {} name different databases: unset one",
                    label_of("redis.url"), label_of("redis.db"));
      settings_.database = database;
    }
    if (settings_.mode == Mode::cluster && settings_.database != 0)
      return fail(Errc::invalid, "{} asks for database {}, and with {} there is only database 0",
                  label_of(has("redis.db") ? "redis.db" : "redis.url"), settings_.database,
                  mode_text());
    return ok;
  }

  Result<> users() {
    auto& url = url_.settings.credentials;
    if (auto done = user("", url, settings_.credentials); !done) return done;
    return user("sentinel-", {}, settings_.sentinel_credentials);
  }

  Result<> user(const std::string& prefix, const Credentials& url, Credentials& credentials) {
    auto username = "redis." + prefix + "username", password = "redis." + prefix + "password";
    for (auto [name, in_url, target] :
         {std::tuple(&username, &url.username, &credentials.username),
          std::tuple(&password, &url.password, &credentials.password)}) {
      if (!has(*name)) continue;
      if (!in_url->empty() && *in_url != at(*name).value)
        return fail(Errc::invalid, "{} has a {} and {} has another: unset one",
                    label_of("redis.url"), name == &username ? "user name" : "password",
                    label_of(*name));
      *target = at(*name).value;
    }
    bool only_name = !credentials.username.empty() && credentials.password.empty();
    // Redis accepts a user only with a password. A user that needs none may send any.
    if (only_name)
      return fail(Errc::invalid,
                  "{} names a user, so {} is needed as well (any text for a user "
                  "that Redis lets in without one)",
                  label_of(has(username) ? username : "redis.url"),
                  at(password).setting->environment);
    return ok;
  }

  Result<> tls() {
    auto& tls = settings_.tls;
    if (has("redis.tls")) {
      bool wanted = config_.flag("redis.tls");
      if (has("redis.url") && wanted != tls.enabled)
        return fail(Errc::invalid, "{} {} rediss://, but {} is {}: change one",
                    label_of("redis.url"), tls.enabled ? "starts with" : "does not start with",
                    label_of("redis.tls"), wanted);
      tls.enabled = wanted;
    }
    for (auto name : {"redis.tls-ca", "redis.tls-cert", "redis.tls-key", "redis.tls-names"})
      if (has(name) && !tls.enabled)
        return fail(Errc::invalid, "{} is given, but {}: set it to true, or use rediss://",
                    label_of(name),
                    has("redis.tls") ? label_of("redis.tls") + " is false" : "REDIS_TLS is not");
    for (auto [one, other] : {std::pair("redis.tls-cert", "redis.tls-key"),
                              std::pair("redis.tls-key", "redis.tls-cert")})
      if (has(one) && !has(other))
        return fail(Errc::invalid, "{} needs {} as well", label_of(one),
                    at(other).setting->environment);
    tls.ca_file = at("redis.tls-ca").value;
    tls.cert_file = at("redis.tls-cert").value;
    tls.key_file = at("redis.tls-key").value;
    tls.verify = config_.flag("redis.tls-verify");
    return ok;
  }

  Result<> tls_names() {
    if (!has("redis.tls-names")) return ok;
    for (auto part : split_at_commas(at("redis.tls-names").value)) {
      auto equals = part.find('=');
      auto name = equals == part.npos ? "" : part.substr(equals + 1);
      // Port 0 cannot be written, so here it means that no port was given.
      auto address = parse_address(part.substr(0, equals), 0);
      if (!address || (!is_v6(name) && !check_host(name)))
        return fail(Errc::invalid,
                    "{}: {} is not address=name, as in 10.0.0.5:6379=redis-1.example",
                    label_of("redis.tls-names"), in_quotes(part));
      auto key = address->port == 0 ? address->host : to_string(*address);
      if (!settings_.tls.names.emplace(key, name).second)
        return fail(Errc::invalid, "{} has {} twice", label_of("redis.tls-names"), key);
    }
    return ok;
  }

  Result<> limits() {
    for (auto [name, target] : {std::pair("redis.connect-timeout", &settings_.connect_timeout),
                                std::pair("redis.command-timeout", &settings_.command_timeout)}) {
      *target = config_.time(name);
      if (*target <= 0ms || *target > 1h)
        return fail(Errc::invalid, "{} is not longer than 0 and at most 1h", label_of(name));
    }
    return ok;
  }

  const Config& config_;
  Settings settings_;
  Url url_;
};

}  // namespace

std::string to_string(const Address& address) {
  if (address.is_unix()) return "unix://" + address.unix_path;
  bool is_v6 = address.host.contains(':');
  return fmt::format("{}{}{}:{}", is_v6 ? "[" : "", address.host, is_v6 ? "]" : "", address.port);
}

Result<Address> parse_address(std::string_view text, std::uint16_t default_port) {
  if (text.empty()) return fail(Errc::invalid, "an address is empty");
  // Text that looks like a URL may contain a password, so it is not quoted.
  if (text.contains('@') || text.contains("://"))
    return fail(Errc::invalid,
                "an address is host or host:port; a user and a password are given by settings of "
                "their own, and a URL by REDIS_URL");
  auto address = parse_host_and_port(text, default_port);
  if (!address) return fail(Errc::invalid, "{}: {}", in_quotes(text), address.error().what);
  return address;
}

Result<Settings> parse_url(std::string_view url) {
  auto parsed = read_url(url);
  if (!parsed) return std::unexpected(parsed.error());
  return std::move(parsed->settings);
}

std::vector<Setting> config_settings() {
  auto truth = one_of({"true", "false"});
  std::vector<Setting> all{
      {"redis.url", "REDIS_URL", "",
       "the server: redis://[user[:password]@]host[:port][/db], rediss://… with TLS, or "
       "unix:///path"},
      {"redis.mode", "REDIS_MODE", "single", "single, sentinel or cluster", false,
       one_of({"single", "sentinel", "cluster"})},
      {"redis.addrs", "REDIS_ADDRS", "", "the sentinels, or some nodes: host:port,host:port"},
      {"redis.master-name", "REDIS_MASTER_NAME", "", "what the sentinels call the master"},
      {"redis.host", "REDIS_HOST", "", "the server, as host or host:port"},
      {"redis.username", "REDIS_USERNAME", "", "ACL user; without one, the default user"},
      {"redis.password", "REDIS_PASSWORD", "", "password of the user", true},
      {"redis.db", "REDIS_DB", "0", "number of the database", false, whole_number(0, INT_MAX)},
      {"redis.sentinel-username", "REDIS_SENTINEL_USERNAME", "", "ACL user at the sentinels"},
      {"redis.sentinel-password", "REDIS_SENTINEL_PASSWORD", "", "password at the sentinels", true},
      {"redis.tls", "REDIS_TLS", "false", "true: use TLS (with redis.url, write rediss://)", false,
       truth},
      {"redis.tls-ca", "REDIS_TLS_CA", "",
       "file with the CA certificates to trust; without one, those of the system"},
      {"redis.tls-cert", "REDIS_TLS_CERT", "", "file with our certificate, if the server asks"},
      {"redis.tls-key", "REDIS_TLS_KEY", "", "file with the key of our certificate"},
      {"redis.tls-verify", "REDIS_TLS_VERIFY", "true",
       "false: accept any certificate, and so any impostor", false, truth},
      {"redis.tls-names", "REDIS_TLS_NAMES", "",
       "names in the certificates of addresses that sentinels and clusters hand out: "
       "10.0.0.5:6379=redis-1.example,10.0.0.6=redis-2.example"},
      {"redis.connect-timeout", "REDIS_CONNECT_TIMEOUT", "2s",
       "for a connection to be made and ready", false, duration()},
      {"redis.command-timeout", "REDIS_COMMAND_TIMEOUT", "2s",
       "for an answer, where a call sets no deadline of its own", false, duration()},
  };
  const std::vector<std::string> bound{"redis.password", "redis.sentinel-password",
                                       "redis.tls-verify", "redis.tls-ca", "redis.tls-names"};
  for (auto& setting : all)
    if (std::ranges::find(bound, setting.name) != bound.end())
      setting.belongs_to = {"redis.url", "redis.addrs", "redis.host"};
  return all;
}

Result<Settings> settings_from(const Config& config) {
  auto settings = Reader(config).read();
  if (!settings) settings.error().cause = warren::causes::bad_setting;
  return settings;
}

}  // namespace warren::redis
