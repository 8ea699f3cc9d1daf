#pragma once
// What a git host says when somebody has pushed, and whether it is the host who says so.
//
//   host                         how it signs
//   GitHub, Gitea, Forgejo       X-Hub-Signature-256: sha256=HMAC(secret, body)
//   Bitbucket                    X-Hub-Signature: sha256=HMAC(secret, body)
//   Gitea, Forgejo               X-Gitea-Signature: HMAC(secret, body)
//   GitLab                       X-Gitlab-Token: secret
//
// A script signs as GitHub does, and says which repository in one member: {"repo": "host/owner/name"}
// or {"url": "…"}.
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "net/http/message.h"

namespace warren::fleet {

// Whether whoever sent this knows the secret. An empty secret is nobody's.
bool is_signed(const HttpRequest& request, std::string_view secret);

// The repository, in the spellings that the host gave: names of the fleet ("github.com/owner/name").
// Errc::invalid: it names none.
Result<std::vector<std::string>> pushed_repos(const HttpRequest& request);

}  // namespace warren::fleet
