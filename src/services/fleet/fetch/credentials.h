#pragma once
// Where tokens come from: looked up anew for every fetch, since short-lived ones rotate.
//
//   for github.com, the first that there is
//   1. the file github.com in the folder   one line with a token, or the lines username= and
//                                            password=, as a secret is mounted
//   2. an environment variable             that the operator named for github.com
//   3. a git credential helper             that the operator named for github.com, or for all ("*")
//
// A repository names none of these. What is found is handed to git as a sealed file in memory that
// git, and what it starts, inherit as descriptor 3. The helper that reads it is a constant of ours
// and is set for this host alone, so that a redirect takes the token nowhere else.
//
// Rejected: the environment of a child, and files, which any process of this user can read and
// which stay behind after a crash; argv, which everybody can read; GIT_ASKPASS, which is a program
// that does not know whom it answers; a pipe, which answers once, while git asks again after a
// redirect.
#include <filesystem>
#include <map>
#include <optional>

#include "base/clock.h"
#include "services/fleet/fetch/url.h"

namespace warren::fleet {

struct CredentialSources {
  std::filesystem::path folder = {};                  // empty: none. A file per host
  std::map<std::string, std::string> variables = {};  // by host: the name of the variable
  std::map<std::string, std::string> helpers = {};    // by host, or "*": as git's credential.helper
};

class Credentials {
 public:
  explicit Credentials(CredentialSources sources) : sources_(std::move(sources)) {}

  // None: nothing is known for this host, or its transport takes none. Errc::invalid: what is there
  // cannot be read, or is no credential. Blocks while a helper runs, not longer than the deadline
  // and not after `stop` becomes readable.
  Result<std::optional<Credential>> find(const RemoteUrl& url, Clock::time_point deadline,
                                         int stop = -1) const;
  // Keeps it as the file of this host, for its owner only.
  Result<> save(const RemoteUrl& url, const Credential& credential) const;

 private:
  Result<std::optional<Credential>> from_file(const std::string& host) const;
  Result<std::optional<Credential>> from_variable(const std::string& host) const;
  Result<std::optional<Credential>> from_helper(const RemoteUrl& url, Clock::time_point deadline,
                                                int stop) const;

  CredentialSources sources_;
};

// A token alone, or the lines that git's helpers write. `origin` is for the error.
Result<Credential> parse_credential(std::string_view text, std::string_view origin);
// Those lines.
Secret credential_lines(const Credential& credential);

}  // namespace warren::fleet
