#pragma once
// What git's words mean: a failed command, as an error that a caller can act on.
//
// git ends with 128 for whatever goes wrong with a remote, and says what in a sentence. The
// sentences are those of git, curl and ssh in the C locale; the tests hold them against real
// servers. What a server says ("remote: …") is shown and never believed.
#include <optional>
#include <string>
#include <string_view>

#include "services/fleet/fetch/url.h"

namespace warren::fleet {

// Removes a password in any spelling that git or a server could repeat it in (as it is, %-encoded,
// in base64 with its user), and what stands before '@' in every URL.
std::string scrubbed(std::string text, const std::optional<Credential>& credential);

// not_found: the host says that there is none; some say so of what they hide. denied: wrong or missing credentials, host keys,
// certificates. unavailable: not reached, or cut off. overloaded: more than our limits. refused: it
// said no for another reason. protocol: what arrived is not git's.
//
// `code` is an exit code, or 128 + a signal. The text is one line, without control characters.
Error trouble(int code, std::string_view errors, const RemoteUrl& url,
              const std::optional<Credential>& credential);

// Whether git stopped because the server redirects.
bool is_redirected(std::string_view errors);

struct Redirection {
  std::string to;             // as the server wrote it
  bool is_permanent = false;  // 301, 308
};
// From the headers that git shows with GIT_TRACE_CURL; of several answers the last counts.
std::optional<Redirection> redirection(std::string_view trace);

}  // namespace warren::fleet
