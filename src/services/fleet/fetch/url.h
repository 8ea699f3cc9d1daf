#pragma once
// Where a repository comes from: a URL that is checked once, before git sees a letter of it.
//
//   what a URL may hide                             what becomes of it
//   --upload-pack=…, ssh://-oProxyCommand=…/x       refused: nothing in it begins with '-'
//   ext::sh -c …, any other xyz::…                  refused: it would run a program of that name
//   https://anna:secret@host/x                      split: the password is a Credential, and the
//                                                     URL that is kept has none
//   /srv/git/link-to-home                           refused: local paths lie below allowed folders,
//                                                     wherever links in them lead
//   HTTPS://GitHub.com:443/o/n.git/                 github.com/o/n, like git@github.com:o/n
//
// One repository has one id, however it is spelled: names that need no %-encoding may not use it.
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "services/fleet/fetch/credential.h"

namespace warren::fleet {

enum class Transport { https, http, ssh, git, file };
std::string_view name(Transport transport);  // as git knows it, and as it begins a URL

// What the operator allows besides https:// and ssh://.
struct UrlRules {
  bool allows_http = false;  // a token sent over it is read by whoever listens
  bool allows_git = false;   // git://, which has neither secrecy nor identity
  std::vector<std::filesystem::path> folders = {};  // file:// and local paths, below these only
};

struct Remote;

class RemoteUrl {
 public:
  RemoteUrl() = default;  // of nothing; Asio wants results that can be made so
  // Errc::invalid: it is no URL of a repository, or has something in it that is never allowed.
  // Errc::denied: it is one, and the rules do not allow it. Neither text repeats a password.
  static Result<Remote> parse(std::string_view text, const UrlRules& rules);

  const std::string& text() const { return text_; }  // for git, people and the catalog
  Transport transport() const { return transport_; }
  // "github.com", "127.0.0.1:8080": with a port unless it is the usual one. Empty for a local path.
  const std::string& host() const { return host_; }
  // "github.com/owner/name"; of a local path, the path itself, in which no part is a link.
  const std::string& repo_id() const { return repo_id_; }

  bool operator==(const RemoteUrl&) const = default;

 private:
  friend struct UrlParser;

  std::string text_, host_, repo_id_;
  Transport transport_ = Transport::https;
};

struct Remote {
  RemoteUrl url;
  std::optional<Credential> credential;  // that was in the text
};

// Looks again whether a local repository, and what it says its parts are, lies below the folders:
// links, .git files, common folders and alternates may have changed since it was parsed. Gives the
// folder, open, so that what was looked at is what git reads. Errc::not_found, Errc::denied.
Result<int> open_local(const RemoteUrl& url, const UrlRules& rules);

// A name that is asked for at a remote: "HEAD", "refs/heads/main", or "main", which is a branch or
// else a tag. Errc::invalid says what a name may not have.
Result<> check_ref(std::string_view ref);

// A file name for an id or a ref, different for different ones: "github.com+owner+name".
std::string file_name(std::string_view id);

}  // namespace warren::fleet
