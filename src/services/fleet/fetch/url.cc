#include "services/fleet/fetch/url.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace warren::fleet {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t longest_url = 2048;
constexpr std::size_t shortest_token = 20;
constexpr std::size_t longest_file_name = 200;  // of 255: git adds ".git", ".lock" and the like

struct Scheme {
  std::string_view name;
  Transport transport;
  unsigned port;
};
constexpr std::array<Scheme, 5> schemes{{{"https", Transport::https, 443},
                                         {"http", Transport::http, 80},
                                         {"ssh", Transport::ssh, 22},
                                         {"git", Transport::git, 9418},
                                         {"file", Transport::file, 0}}};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_plain(char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '_' || c == '-'; }
bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

// -1: these are not two hexadecimal digits.
int byte_of(std::string_view digits) {
  auto value = [](char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  if (digits.size() < 2 || value(digits[0]) < 0 || value(digits[1]) < 0) return -1;
  return value(digits[0]) * 16 + value(digits[1]);
}

std::optional<std::string> decoded(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    int byte = text[i] == '%' ? byte_of(text.substr(i + 1)) : text[i];
    if (byte < 0 && text[i] == '%') return std::nullopt;
    if (text[i] == '%') i += 2;
    result += static_cast<char>(byte);
  }
  return result;
}

bool is_below(const fs::path& path, const fs::path& folder) {
  auto [end, rest] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

bool is_below_any(const fs::path& path, const UrlRules& rules) {
  return std::ranges::any_of(rules.folders, [&](const fs::path& folder) {
    std::error_code ignored;
    auto real = fs::canonical(folder, ignored);
    return !real.empty() && is_below(path, real);
  });
}

std::unexpected<Error> outside(const std::string& path, const UrlRules& rules) {
  if (rules.folders.empty())
    return fail(Errc::denied,
                "{} is a local path, and none is allowed: use https:// or ssh://, or allow a "
                "folder",
                path);
  std::string allowed;
  for (const auto& folder : rules.folders)
    allowed += (allowed.empty() ? "" : ", ") + folder.string();
  return fail(Errc::denied, "{} is not below an allowed folder: allowed are {}", path, allowed);
}

std::string allowed_forms(const UrlRules& rules) {
  std::string forms = "https://host/path, ssh://user@host/path and user@host:path";
  if (rules.allows_http) forms += ", http://host/path";
  if (rules.allows_git) forms += ", git://host/path";
  for (const auto& folder : rules.folders) forms += ", paths below " + folder.string();
  return forms;
}

}  // namespace

std::string_view name(Transport transport) {
  return std::ranges::find(schemes, transport, &Scheme::transport)->name;
}

// One text on its way to a URL. Errors name the part, not the text, which may have a password.
struct UrlParser {
  const UrlRules& rules;
  RemoteUrl url = {};
  std::optional<Credential> credential = {};
  std::string user = {}, port = {}, path = {};  // the path begins with '/', or is relative in ssh

  Result<Remote> parse(std::string_view text) {
    if (auto fine = check_text(text); !fine) return std::unexpected(fine.error());
    auto end = text.find("://");
    auto parsed = end != text.npos ? with_scheme(lower(text.substr(0, end)), text.substr(end + 3))
                  : text.front() == '/' ? local(std::string(text))
                                        : short_ssh(text);
    if (!parsed) return std::unexpected(parsed.error());
    if (file_name(url.repo_id_).size() > longest_file_name)
      return fail(Errc::invalid, "the URL of the repository is too long");
    return Remote{std::move(url), std::move(credential)};
  }

  Result<> check_text(std::string_view text) const {
    if (text.empty()) return fail(Errc::invalid, "the URL of the repository is empty");
    if (text.size() > longest_url)
      return fail(Errc::invalid, "the URL of the repository is longer than {} bytes", longest_url);
    if (std::ranges::any_of(text, is_control))
      return fail(Errc::invalid, "the URL of the repository has control characters in it");
    if (text.front() == '-')
      return fail(Errc::invalid, "the URL of the repository begins with '-', like an option: {}",
                  allowed());
    auto helper = text.substr(0, std::ranges::find_if_not(text, [](char c) {
                                   return is_plain(c) || c == '+';
                                 }) - text.begin());
    if (text.substr(helper.size()).starts_with("::"))
      return fail(Errc::invalid, "\"{}::\" would run a program of that name: {}", helper,
                  allowed());
    return ok;
  }

  Result<> with_scheme(const std::string& scheme, std::string_view rest) {
    const auto* known = std::ranges::find(schemes, scheme, &Scheme::name);
    if (known == schemes.end()) return fail(Errc::invalid, "unknown kind of URL: {}", allowed());
    url.transport_ = known->transport;
    if (known->transport == Transport::file) return file_url(rest);
    if (known->transport == Transport::http && !rules.allows_http)
      return fail(Errc::denied, "http:// is not allowed: {}", allowed());
    if (known->transport == Transport::git && !rules.allows_git)
      return fail(Errc::denied, "git:// is not allowed: {}", allowed());
    auto slash = rest.find('/');
    if (slash == rest.npos)
      return fail(Errc::invalid, "the URL names no repository: {}", allowed());
    path = rest.substr(slash);
    if (auto fine = authority(rest.substr(0, slash)); !fine) return fine;
    if (auto fine = check_port(known->port); !fine) return fine;
    if (auto fine = check_path(); !fine) return fine;
    auto at = user.empty() ? "" : user + "@";
    finish(fmt::format("{}://{}{}{}", known->name, at, url.host_, path));
    return ok;
  }

  // git@github.com:owner/name
  Result<> short_ssh(std::string_view text) {
    auto colon = text.find(':');
    if (colon == text.npos || text.substr(0, colon).find('/') != text.npos)
      return fail(Errc::invalid, "this is not a URL of a repository: {}", allowed());
    url.transport_ = Transport::ssh;
    path = text.substr(colon + 1);
    // git would take the first word for the host, and the password for a part of the path.
    if (text.substr(0, colon).find('@') == text.npos && path.contains('@'))
      return fail(Errc::invalid, "a password in a URL of ssh cannot be used: use a key");
    if (auto fine = authority(text.substr(0, colon)); !fine) return fine;
    if (auto fine = check_path(); !fine) return fine;
    auto at = user.empty() ? "" : user + "@";
    finish(fmt::format("{}{}:{}", at, url.host_, path));
    return ok;
  }

  Result<> authority(std::string_view text) {
    if (auto at = text.rfind('@'); at != text.npos) {
      if (auto fine = userinfo(text.substr(0, at)); !fine) return fine;
      text.remove_prefix(at + 1);
    }
    if (text.starts_with('[')) {
      auto end = text.find(']');
      auto is_part = [](char c) {
        return byte_of({std::array{'0', c}.data(), 2}) >= 0 || c == ':';
      };
      if (end == text.npos || !std::ranges::all_of(text.substr(1, end - 1), is_part) || end < 3)
        return fail(Errc::invalid, "the URL has an address in [] that is not one of IPv6");
      url.host_ = lower(text.substr(0, end + 1));
      text.remove_prefix(end + 1);
    } else {
      url.host_ = lower(text.substr(0, text.find(':')));
      text.remove_prefix(url.host_.size());
      if (url.host_.empty() || url.host_.size() > 253 ||
          !std::ranges::all_of(url.host_, is_plain) || url.host_.front() == '-' ||
          url.host_.front() == '.' || url.host_.contains(".."))
        return fail(Errc::invalid,
                    "the URL has no valid host: letters, digits, '.', '-' and '_', not beginning "
                    "with '-' or '.'");
    }
    if (text.empty()) return ok;
    port = text.substr(1);
    return text.front() == ':' ? Result<>(ok) : fail(Errc::invalid, "the URL has no valid host");
  }

  Result<> userinfo(std::string_view text) {
    auto colon = text.find(':');
    auto name = decoded(text.substr(0, colon));
    bool has_password = colon != text.npos && colon + 1 < text.size();
    auto password = decoded(has_password ? text.substr(colon + 1) : "");
    if (!name || !password || name->starts_with('-') || std::ranges::any_of(*name, is_control) ||
        std::ranges::any_of(*password, is_control))
      return fail(Errc::invalid, "the URL has a user or password that is not valid");
    bool is_web = url.transport_ == Transport::https || url.transport_ == Transport::http;
    if (has_password && !is_web)
      return fail(Errc::invalid, "a password in a URL of {} cannot be used: use a key",
                  warren::fleet::name(url.transport_));
    // A name alone is a token, which is long, or says nothing: whose password it is stands where
    // that is found.
    if (has_password)
      credential = Credential{*name, Secret(*password)};
    else if (is_web && name->size() >= shortest_token)
      credential = Credential{std::string(token_user), Secret(*name)};
    if (is_web) return ok;
    if (name->empty() || !std::ranges::all_of(*name, is_plain))
      return fail(Errc::invalid,
                  "the URL has a user that is not valid: letters, digits, '.', '-' and '_'");
    user = *name;
    return ok;
  }

  Result<> check_port(unsigned usual) {
    if (port.empty()) return ok;
    if (port.size() > 5 || !std::ranges::all_of(port, is_digit) || std::stoul(port) == 0 ||
        std::stoul(port) > 65535)
      return fail(Errc::invalid, "the URL has a port that is not between 1 and 65535");
    if (std::stoul(port) != usual) url.host_ += fmt::format(":{}", std::stoul(port));
    return ok;
  }

  // Makes it what all spellings have in common, but for ".git" at its end.
  Result<> check_path() {
    std::string clean;
    for (std::size_t i = 0; i < path.size(); ++i) {
      if (path[i] == '/' && clean.ends_with('/')) continue;
      constexpr std::string_view others = "/~!$&'()*+,;=:@%";
      if (!is_plain(path[i]) && others.find(path[i]) == others.npos)
        return fail(Errc::invalid,
                    "the path of the URL has a character that is not allowed there: write it as "
                    "%XX");
      clean += path[i];
      if (path[i] != '%') continue;
      int byte = byte_of(std::string_view(path).substr(i + 1));
      if (byte < 0x20 || byte == 0x7f || byte == '/' || byte == '~' ||
          is_plain(static_cast<char>(byte)))
        return fail(Errc::invalid,
                    "the path of the URL has a %XX that is not allowed: it is no character, or one "
                    "that is written as it is");
    }
    while (clean.ends_with('/')) clean.pop_back();
    path = std::move(clean);
    return check_parts();
  }

  Result<> check_parts() const {
    std::string_view rest = path;
    if (rest.starts_with('/')) rest.remove_prefix(1);
    if (rest.empty() || rest == ".git")
      return fail(Errc::invalid, "the URL names no repository: {}", allowed());
    while (!rest.empty()) {
      auto part = rest.substr(0, rest.find('/'));
      rest.remove_prefix(std::min(rest.size(), part.size() + 1));
      if (part == "." || part == ".." || part.starts_with('-'))
        return fail(Errc::invalid,
                    "the path of the URL has a part that is \".\", \"..\" or begins with '-', like "
                    "an option");
    }
    return ok;
  }

  void finish(std::string text) {
    url.text_ = std::move(text);
    std::string_view id = path;
    if (id.ends_with(".git")) id.remove_suffix(4);
    while (id.ends_with('/')) id.remove_suffix(1);
    url.repo_id_ = fmt::format("{}{}{}", url.host_, id.starts_with('/') ? "" : "/", id);
  }

  Result<> file_url(std::string_view rest) {
    if (rest.starts_with("localhost/")) rest.remove_prefix(9);
    auto plain = decoded(rest);
    if (!plain || !plain->starts_with('/') || std::ranges::any_of(*plain, is_control))
      return fail(Errc::invalid, "a file:// URL has three slashes and an absolute path");
    return local(*plain);
  }

  Result<> local(const std::string& where) {
    url.transport_ = Transport::file;
    std::error_code error;
    auto real = fs::canonical(where, error);
    // What is not allowed is not told to exist or not.
    auto shown = error ? fs::path(where).lexically_normal() : real;
    if (!is_below_any(shown, rules)) return outside(where, rules);
    bool is_gone =
        error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
    if (error)
      return fail(is_gone ? Errc::not_found : Errc::denied, "{}: {}", where, error.message());
    url.text_ = url.repo_id_ = real;
    return ok;
  }

  std::string allowed() const { return "allowed are " + allowed_forms(rules); }
};

Result<Remote> RemoteUrl::parse(std::string_view text, const UrlRules& rules) {
  return UrlParser{rules}.parse(text);
}

namespace {

constexpr std::uintmax_t most_named_bytes = 64u << 10;

// The paths that a file of a repository names, after a prefix; empty: there is no such file.
Result<std::vector<fs::path>> named_in(const fs::path& file, std::string_view prefix,
                                       const fs::path& base) {
  std::vector<fs::path> paths;
  std::error_code error;
  auto facts = fs::symlink_status(file, error);
  if (!fs::exists(facts)) return paths;
  if (!fs::is_regular_file(facts) || fs::file_size(file, error) > most_named_bytes)
    return fail(Errc::denied, "{} is not a short file: links of a repository are not followed",
                file.string());
  std::ifstream text(file);
  for (std::string line; std::getline(text, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    if (!line.starts_with(prefix))
      return fail(Errc::denied, "{} is not what git writes", file.string());
    auto real = fs::canonical(base / line.substr(prefix.size()), error);
    if (error) return fail(Errc::not_found, "{} names what is not there", file.string());
    paths.push_back(real);
  }
  return paths;
}

Result<> check_objects(const fs::path& objects, const UrlRules& rules, int depth) {
  std::error_code error;
  if (fs::is_symlink(fs::symlink_status(objects, error)))
    return fail(Errc::denied, "{} is a link: links of a repository are not followed",
                objects.string());
  auto others = named_in(objects / "info/alternates", "", objects);
  if (!others) return std::unexpected(others.error());
  for (const auto& other : *others) {
    if (depth == 0 || !is_below_any(other, rules)) return outside(other, rules);
    if (auto fine = check_objects(other, rules, depth - 1); !fine) return fine;
  }
  return ok;
}

// Where the parts of a repository are, of which its own files name some.
Result<> check_git_folder(const fs::path& folder, const UrlRules& rules) {
  auto common = named_in(folder / "commondir", "", folder);
  if (!common) return std::unexpected(common.error());
  if (!common->empty() && !is_below_any(common->front(), rules))
    return outside(common->front(), rules);
  constexpr int deepest = 5;  // as far as git goes
  const auto& place = common->empty() ? folder : common->front();
  std::error_code error;
  for (const char* part : {"refs", "packed-refs", "config"})
    if (fs::is_symlink(fs::symlink_status(place / part, error)))
      return fail(Errc::denied, "{} is a link: links of a repository are not followed",
                  (place / part).string());
  return check_objects(place / "objects", rules, deepest);
}

}  // namespace

Result<int> open_local(const RemoteUrl& url, const UrlRules& rules) {
  const auto& path = url.text();
  if (!is_below_any(path, rules)) return outside(path, rules);
  open_how how{};
  how.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  int folder = static_cast<int>(syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how));
  if (folder < 0)
    return fail(errno == ENOENT || errno == ENOTDIR ? Errc::not_found : Errc::denied, "{}: {}",
                path, errno == ELOOP ? "a part of it is a link now" : std::strerror(errno));
  auto within = fs::path(fmt::format("/proc/self/fd/{}", folder));
  std::error_code error;
  auto dot_git = fs::symlink_status(within / ".git", error);
  Result<> fine = ok;
  if (fs::is_symlink(dot_git)) {
    fine = fail(Errc::denied, "{}/.git is a link: links of a repository are not followed", path);
  } else if (fs::is_regular_file(dot_git)) {
    auto target = named_in(within / ".git", "gitdir: ", path);
    if (!target)
      fine = std::unexpected(target.error());
    else if (target->size() != 1 || !is_below_any(target->front(), rules))
      fine = outside(path + "/.git", rules);
    else
      fine = check_git_folder(target->front(), rules);
  } else {
    fine = check_git_folder(fs::is_directory(dot_git) ? within / ".git" : within, rules);
  }
  if (fine) return folder;
  ::close(folder);
  return std::unexpected(fine.error());
}

Result<> check_ref(std::string_view ref) {
  auto is_bad = [](char c) {
    return is_control(c) || std::string_view(" ~^:?*[\\").find(c) != std::string_view::npos;
  };
  bool is_fine = !ref.empty() && !std::ranges::any_of(ref, is_bad) && !ref.starts_with('-') &&
                 !ref.starts_with('/') && !ref.ends_with('/') && !ref.ends_with('.') && ref != "@";
  for (std::string_view part : {"..", "@{", "//", "/.", ".lock/"})
    is_fine = is_fine && ref.find(part) == ref.npos;
  is_fine = is_fine && !ref.starts_with('.') && !ref.ends_with(".lock");
  if (!is_fine)
    return fail(Errc::invalid,
                "invalid ref: use HEAD, a branch or tag like main, or a full name like "
                "refs/heads/main");
  if (file_name(ref).size() + std::string_view("refs+heads+").size() > longest_file_name)
    return fail(Errc::invalid, "the name of the ref is too long");
  return ok;
}

std::string file_name(std::string_view id) {
  std::string result;
  for (char c : id) {
    if (is_plain(c))
      result += c;
    else if (c == '/')
      result += '+';
    else
      result += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return result;
}

}  // namespace warren::fleet
