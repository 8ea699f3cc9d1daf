#include "primitives/catalog/pg_server.h"

#include <libpq-fe.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "redis/connection/resolve.h"

namespace warren::pg {

namespace {

constexpr auto host_limit = 5s;
constexpr int oldest_version = 140000;

// How our connections differ from others. Each statement of ours finds its few rows by an index,
// whatever the statistics say while there are none yet. So a plan is made once and kept. And a
// statement ends soon after its client is gone.
constexpr auto session_settings =
    "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = "
    "off;"
    "SET plan_cache_mode = force_generic_plan; SET client_connection_check_interval = '1s';"
    "SET default_transaction_isolation = 'read committed'";

constexpr auto unreadable =
    "cannot read the URL of the PostgreSQL server: write postgres://user@host:5432/database, and "
    "in "
    "a password %2F for / and %40 for @";

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> words;
  for (;;) {
    auto comma = text.find(',');
    words.emplace_back(text.substr(0, comma));
    if (comma == text.npos) return words;
    text.remove_prefix(comma + 1);
  }
}

bool is_port(std::string_view text) {
  int number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return text.empty() ||
         (error == std::errc() && end == text.data() + text.size() && number > 0 && number < 65536);
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// For libpq a "/" in a password ends the host, and the rest would be shown as a name.
bool has_stray_at(std::string_view url) {
  auto after = url.find("://") + 3;
  auto slash = url.find('/', after);
  if (slash == url.npos) return false;
  return url.substr(slash, url.find('?', slash) - slash).find('@') != url.npos;
}

// 127.0.0.1:5432 or [::1]:5432
std::string ip_of(const redis::Endpoint& endpoint) {
  auto text = redis::to_string(endpoint);
  text.resize(text.rfind(':'));
  if (text.starts_with('[')) text = text.substr(1, text.size() - 2);
  return text;
}

}  // namespace

Result<Server> Server::parse(const std::string& url) {
  if (!url.starts_with("postgres://") && !url.starts_with("postgresql://"))
    return fail(Errc::invalid, "{}", unreadable);
  if (has_stray_at(url) || url.find('\0') != url.npos) return fail(Errc::invalid, "{}", unreadable);
  char* error = nullptr;
  std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> options(
      PQconninfoParse(url.c_str(), &error), &PQconninfoFree);
  PQfreemem(error);
  if (!options) return fail(Errc::invalid, "{}", unreadable);

  Server server;
  std::string host = environment("PGHOST"), port = environment("PGPORT");
  // For libpq the later of two equal settings counts, so those of the URL come last.
  server.settings_ = {{"client_encoding", "UTF8"},
                      {"fallback_application_name", "warren"},
                      {"gssencmode", "disable"},  // looking for a ticket blocks
                      {"target_session_attrs", "read-write"}};
  for (auto* option = options.get(); option->keyword; ++option) {
    std::string keyword = option->keyword;
    if (!option->val) continue;
    if (keyword == "host")
      host = option->val;
    else if (keyword == "port")
      port = option->val;
    else
      server.settings_.emplace_back(keyword, option->val);
    if (keyword == "hostaddr") server.has_address_ = true;
    if (keyword == "password" || keyword == "sslpassword")
      server.secrets_.emplace_back(option->val);
  }
  std::erase_if(server.secrets_, [](const std::string& secret) { return secret.empty(); });
  auto names = split_list(host), ports = split_list(port);
  if (ports.size() != 1 && ports.size() != names.size())
    return fail(Errc::invalid, "the URL of the PostgreSQL server has {} hosts and {} ports",
                names.size(), ports.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    auto& number = ports.size() == 1 ? ports.front() : ports[i];
    if (!is_port(number)) return fail(Errc::invalid, "{}", unreadable);
    server.hosts_.push_back({names[i], number.empty() ? "5432" : number});
  }
  return server;
}

std::string Server::shown() const {
  std::string text;
  for (const auto& host : hosts_)
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", host.name, host.port);
  for (const auto& [keyword, value] : settings_)
    if (keyword == "dbname") text += "/" + value;
  return text;
}

Async<std::unique_ptr<Connection>> Server::dial() {
  Error last{Errc::unavailable, "no host"};
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    auto index = (first_ + i) % hosts_.size();
    auto dialled = co_await dial(hosts_[index]);
    if (dialled) first_ = index;
    if (dialled || dialled.error().code == Errc::cancelled) co_return dialled;
    last = dialled.error();
  }
  co_return std::unexpected(last);
}

Async<std::unique_ptr<Connection>> Server::dial(const Host& host) {
  auto settings = settings_;
  settings.emplace_back("port", host.port);
  if (!host.name.empty()) settings.emplace_back("host", host.name);
  bool is_folder = host.name.empty() || host.name.front() == '/' || host.name.front() == '@';
  if (is_folder || has_address_) co_return co_await open(std::move(settings));
  // libpq would resolve the name itself, and block.
  redis::Address address{host.name, static_cast<unsigned short>(std::stoi(host.port)), ""};
  auto found =
      co_await with_deadline(Clock::now() + host_limit, redis::resolve(std::move(address)));
  if (!found) co_return fail(Errc::unavailable, "{}: {}", host.name, found.error().what);
  Result<std::unique_ptr<Connection>> dialled =
      fail(Errc::unavailable, "{}: no address", host.name);
  for (const auto& endpoint : *found) {
    auto there = settings;
    there.emplace_back("hostaddr", ip_of(endpoint));
    dialled = co_await open(std::move(there));
    if (dialled || dialled.error().code != Errc::unavailable) break;
  }
  co_return std::move(dialled);
}

Async<std::unique_ptr<Connection>> Server::open(Settings settings) {
  auto deadline = Clock::now() + host_limit;
  auto opened = co_await with_deadline(deadline, Connection::open(std::move(settings)));
  if (!opened) co_return std::unexpected(without_secrets(opened.error()));
  auto version = (*opened)->server_version();
  if (version < oldest_version)
    co_return fail(Errc::refused, "PostgreSQL {} is too old for a catalog: use {} or newer",
                   version / 10000, oldest_version / 10000);
  auto set = co_await with_deadline(deadline, (*opened)->execute(session_settings));
  if (!set) co_return std::unexpected(without_secrets(set.error()));
  co_return opened;
}

// A silent host may answer later: nothing was done.
Error Server::without_secrets(Error error) const {
  if (error.code == Errc::timeout || error.code == Errc::unknown_outcome)
    error.code = Errc::unavailable;
  for (const auto& secret : secrets_)
    for (auto at = error.what.find(secret); at != std::string::npos;
         at = error.what.find(secret, at + 3))
      error.what.replace(at, secret.size(), "***");
  return error;
}

}  // namespace warren::pg
