#include "services/fleet/fetch/credentials.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/host/folder.h"
#include "services/fleet/fetch/remote_git.h"

namespace warren::fleet {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t longest_file = 64u << 10;

// Links are followed: that is how a secret is mounted and exchanged.
Result<std::optional<Secret>> read_secret(const fs::path& path) {
  int file = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0 && errno == ENOENT) return std::nullopt;
  if (file < 0) return fail(Errc::invalid, "{}: {}", path.string(), strerror(errno));
  struct stat facts{};
  std::string text(longest_file, '\0');
  ssize_t got = -1;
  if (fstat(file, &facts) == 0 && S_ISREG(facts.st_mode))
    got = ::read(file, text.data(), text.size());
  ::close(file);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0 || text.size() == longest_file)
    return fail(Errc::invalid, "{} is not a file with a token", path.string());
  return Secret(std::move(text));
}

std::string_view next_line(std::string_view& text) {
  auto line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

const std::string* value_of(const std::map<std::string, std::string>& values,
                            const std::string& key) {
  auto found = values.find(key);
  return found == values.end() ? nullptr : &found->second;
}

}  // namespace

Secret::~Secret() {
  text_.resize(text_.capacity());
  explicit_bzero(text_.data(), text_.size());
}

Result<Credential> parse_credential(std::string_view text, std::string_view origin) {
  std::string user(token_user), password, token;
  std::size_t lines = 0;
  while (!text.empty()) {
    auto line = next_line(text);
    if (line.starts_with("username="))
      user = line.substr(9);
    else if (line.starts_with("password="))
      password = line.substr(9);
    else if (!line.empty() && ++lines == 1)
      token = line;
  }
  if (password.empty() && lines > 1)
    return fail(Errc::invalid, "{} has more than one line: a token is one", origin);
  if (password.empty()) password = std::move(token);
  if (password.empty()) return fail(Errc::invalid, "{} has no token in it", origin);
  auto is_text = [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; };
  if (!std::ranges::all_of(user, is_text) || !std::ranges::all_of(password, is_text))
    return fail(Errc::invalid, "{} has control characters in it: a token is one line", origin);
  return Credential{std::move(user), Secret(std::move(password))};
}

Secret credential_lines(const Credential& credential) {
  return Secret(
      fmt::format("username={}\npassword={}\n", credential.user, credential.password.reveal()));
}

Result<std::optional<Credential>> Credentials::find(const RemoteUrl& url,
                                                    Clock::time_point deadline, int stop) const {
  if (url.transport() != Transport::https && url.transport() != Transport::http)
    return std::nullopt;
  if (auto found = from_file(url.host()); !found || *found) return found;
  if (auto found = from_variable(url.host()); !found || *found) return found;
  return from_helper(url, deadline, stop);
}

Result<> Credentials::save(const RemoteUrl& url, const Credential& credential) const {
  if (sources_.folder.empty())
    return fail(Errc::invalid, "there is no folder for tokens: name one, or pass it another way");
  auto folder = Folder::open(sources_.folder);
  if (!folder) return std::unexpected(folder.error());
  return folder->replace(url.host(), credential_lines(credential).reveal(), 0600);
}

Result<std::optional<Credential>> Credentials::from_file(const std::string& host) const {
  if (sources_.folder.empty()) return std::nullopt;
  auto path = sources_.folder / host;
  auto text = read_secret(path);
  if (!text) return std::unexpected(text.error());
  if (!*text) return std::nullopt;
  return parse_credential((*text)->reveal(), path.string());
}

Result<std::optional<Credential>> Credentials::from_variable(const std::string& host) const {
  const auto* variable = value_of(sources_.variables, host);
  const char* text = variable ? std::getenv(variable->c_str()) : nullptr;
  if (!text || !*text) return std::nullopt;
  return parse_credential(text, *variable);
}

Result<std::optional<Credential>> Credentials::from_helper(const RemoteUrl& url,
                                                           Clock::time_point deadline,
                                                           int stop) const {
  const auto* helper = value_of(sources_.helpers, url.host());
  if (!helper) helper = value_of(sources_.helpers, "*");
  if (!helper || helper->empty()) return std::nullopt;
  auto answer = ask_helper(*helper, url, deadline, stop);
  if (!answer) return std::unexpected(answer.error());
  if (answer->reveal().empty()) return std::nullopt;
  return parse_credential(answer->reveal(), "the answer of the credential helper");
}

}  // namespace warren::fleet
