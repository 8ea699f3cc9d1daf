#include "net/kube/credentials.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <fstream>

#include "base/base64.h"
#include "base/config.h"
#include "base/host/child.h"
#include "base/log.h"
#include "net/kube/object.h"

namespace warren::kube {

namespace {

constexpr auto look_again = 1min;
constexpr auto leeway = 10s;  // before a plugin's credential expires
constexpr auto try_again = 5s;
constexpr auto least_age = 1s;  // if a younger credential is refused, reloading will not help
constexpr auto plugin_time = 60s;
constexpr std::size_t most_secret = 1u << 20;

Result<std::string> text_from(const TextSource& source) {
  if (source.file.empty()) return source.text;
  std::ifstream file(source.file, std::ios::binary);
  std::string text(most_secret, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad())
    return fail(Errc::invalid, "{}: cannot be read", source.file.string());
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
    text.pop_back();
  return text;
}

// 2026-01-31T23:59:59Z, as API servers write it.
std::optional<WallClock::time_point> parse_stamp(const std::string& text) {
  std::tm parts{};
  const char* end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (!end) return std::nullopt;
  if (*end == '.') end += 1 + std::strspn(end + 1, "0123456789");
  if (std::string_view(end) != "Z") return std::nullopt;
  constexpr std::time_t last = 7'258'118'400;  // year 2200: nanosecond clocks end in 2262
  return WallClock::from_time_t(std::min(timegm(&parts), last));
}

// The plugin's input: which server its answer is for, and that it cannot ask anyone questions.
std::string plugin_question(const Access& access, const PluginTerms& terms, const std::string& ca) {
  json::object spec{{"interactive", false}};
  if (terms.wants_cluster) {
    json::object cluster{{"server", access.url}};
    if (!ca.empty()) cluster["certificate-authority-data"] = to_base64(ca);
    if (!access.tls_name.empty()) cluster["tls-server-name"] = access.tls_name;
    if (!access.verifies) cluster["insecure-skip-tls-verify"] = true;
    spec["cluster"] = std::move(cluster);
  }
  return json::serialize(json::object{
      {"apiVersion", terms.api_version}, {"kind", "ExecCredential"}, {"spec", std::move(spec)}});
}

Result<std::string> run_plugin(const Access& access, const std::string& ca,
                               Clock::time_point deadline) {
  const auto& terms = *access.login.plugin;
  ChildTerms child;
  child.argv = terms.argv;
  auto variables = process_environment();
  for (const auto& [name, value] : terms.environment) variables[name] = value;
  variables["KUBERNETES_EXEC_INFO"] = plugin_question(access, terms, ca);
  for (const auto& [name, value] : variables) child.environment.push_back(name + "=" + value);
  auto running = Child::start(child);
  if (!running) return std::unexpected(running.error());
  std::string output;
  std::vector<char> buffer(64u << 10);
  std::string_view none;
  for (;;) {
    auto got = running->exchange(none, true, buffer.data(), buffer.size(), deadline);
    if (!got) return std::unexpected(got.error());
    if (*got == 0) break;
    if (output.size() + *got > most_secret) return fail(Errc::overloaded, "it says too much");
    output.append(buffer.data(), *got);
  }
  auto code = running->wait(deadline);
  if (!code) return std::unexpected(code.error());
  if (*code != 0)
    return fail(Errc::unavailable, "it ended with {}: {}", *code, running->complaint());
  return output;
}

std::string authorization(const Login& login, const std::string& token) {
  if (!token.empty()) return "Bearer " + token;
  if (!login.username.empty()) return "Basic " + to_base64(login.username + ":" + login.password);
  return {};
}

}  // namespace

void CredentialMachine::on_loaded(Clock::time_point now, std::optional<Clock::duration> lasts) {
  loaded_at_ = now;
  // A credential that lasts hardly longer than the leeway is used for half of its lifetime.
  load_at_ = now + (lasts ? std::max<Clock::duration>(*lasts - leeway, *lasts / 2)
                          : Clock::duration(look_again));
}

void CredentialMachine::on_failed(Clock::time_point now) { load_at_ = now + try_again; }

bool CredentialMachine::on_refused(Clock::time_point now) {
  if (now - loaded_at_ < least_age) return false;
  load_at_ = Clock::time_point::min();
  return true;
}

Result<PluginAnswer> parse_plugin_answer(std::string_view text, std::string_view api_version,
                                         WallClock::time_point now) {
  auto object = parse_object(text);
  if (!object) return fail(Errc::protocol, "the credential plugin does not answer in JSON");
  if (text_at(*object, "/kind") != "ExecCredential" ||
      text_at(*object, "/apiVersion") != api_version)
    return fail(Errc::protocol,
                "the credential plugin does not answer with an ExecCredential of {}", api_version);
  PluginAnswer answer;
  answer.token = text_at(*object, "/status/token");
  answer.pair = {std::string(text_at(*object, "/status/clientCertificateData")),
                 std::string(text_at(*object, "/status/clientKeyData"))};
  bool has_half = answer.pair.certificate.empty() != answer.pair.key.empty();
  if (has_half || (answer.token.empty() && answer.pair.key.empty()))
    return fail(Errc::protocol,
                "the credential plugin gives neither a token nor a certificate with its key");
  auto expires = std::string(text_at(*object, "/status/expirationTimestamp"));
  if (expires.empty()) return answer;
  auto stamp = parse_stamp(expires);
  if (!stamp) return fail(Errc::protocol, "the credential plugin gives no time that can be read");
  answer.lasts = std::max<Clock::duration>(*stamp - now, Clock::duration::zero());
  return answer;
}

Credentials::Credentials(const asio::any_io_executor& executor, Access access)
    : access_(std::move(access)), loaded_(executor) {}

Async<> Credentials::freshen(Clock::time_point deadline) {
  while (is_loading_) {
    co_await loaded_.wait(deadline);
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return fail(Errc::cancelled, "the caller left");
    if (Clock::now() >= deadline)
      co_return fail(Errc::timeout, "the credentials are not there yet");
  }
  if (!machine_.wants_load(Clock::now())) co_return ok;
  struct Loading {
    Credentials& of;
    explicit Loading(Credentials& by) : of(by) { of.is_loading_ = true; }
    ~Loading() {
      of.is_loading_ = false;
      of.loaded_.notify();
    }
  } loading(*this);
  Clock::time_point by = Clock::now() + plugin_time;
  auto access = access_;
  auto loaded = co_await on_pool(pool_, &Credentials::load, std::move(access), by);
  if (!loaded) {
    machine_.on_failed(Clock::now());
    log::warn("kube.credentials_not_loaded", "why", loaded.error().what);
    if (machine_.has_any()) co_return ok;
    co_return std::unexpected(loaded.error());
  }
  machine_.on_loaded(Clock::now(), loaded->lasts);
  use(*std::move(loaded));
  co_return ok;
}

Result<Credentials::Loaded> Credentials::load(const Access& access, Clock::time_point deadline) {
  const auto& login = access.login;
  Loaded loaded{};
  auto ca = text_from(access.ca), certificate = text_from(login.certificate),
       key = text_from(login.key), token = text_from(login.token);
  for (const auto* each : {&ca, &certificate, &key, &token})
    if (!*each) return std::unexpected(each->error());
  loaded.token = trimmed(*std::move(token));
  loaded.tls.is_for_redis = false;
  loaded.tls.enabled = true;
  loaded.tls.verify = access.verifies;
  loaded.tls.ca_pem = *std::move(ca);
  loaded.tls.cert_pem = *std::move(certificate);
  loaded.tls.key_pem = *std::move(key);
  if (!access.tls_name.empty()) loaded.tls.names[access.server.host] = access.tls_name;
  if (login.plugin) {
    auto said = run_plugin(access, loaded.tls.ca_pem, deadline);
    if (!said)
      return std::unexpected(
          within("the credential plugin " + login.plugin->argv[0], said.error()));
    auto answer = parse_plugin_answer(*said, login.plugin->api_version, WallClock::now());
    if (!answer) return std::unexpected(answer.error());
    if (!answer->token.empty()) loaded.token = answer->token;
    if (!answer->pair.key.empty()) {
      loaded.tls.cert_pem = answer->pair.certificate;
      loaded.tls.key_pem = answer->pair.key;
    }
    // Without an expiry time it lasts until the server refuses it.
    loaded.lasts = answer->lasts.value_or(std::chrono::hours(24 * 365));
  }
  if (!std::ranges::all_of(loaded.token, [](char c) { return c > ' ' && c < 0x7f; }))
    return fail(Errc::invalid, "the token has characters that no token has");
  return loaded;
}

void Credentials::use(Loaded loaded) {
  bool is_other = generation_ == 0 || loaded.tls.ca_pem != tls_.ca_pem ||
                  loaded.tls.cert_pem != tls_.cert_pem || loaded.tls.key_pem != tls_.key_pem;
  if (is_other) ++generation_;
  tls_ = std::move(loaded.tls);
  headers_.clear();
  auto add = [this](std::string_view name, std::string_view value) {
    if (!value.empty()) headers_ += fmt::format("{}: {}\r\n", name, value);
  };
  const auto& login = access_.login;
  add("Authorization", authorization(login, loaded.token));
  add("Impersonate-User", login.acts_as);
  add("Impersonate-Uid", login.acts_as_uid);
  for (const auto& group : login.acts_as_groups) add("Impersonate-Group", group);
}

}  // namespace warren::kube
