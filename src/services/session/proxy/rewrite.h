#pragma once
// Requests and answers on their way through the proxy. Opens no socket.
//
//   /<runtime id>/<runtime|vscode|work-1|work-2>/rest?query    what clients ask for
//                                               /rest?query    what the sandbox is asked
#include <optional>
#include <string>
#include <string_view>

#include "net/http/message.h"
#include "services/session/drivers/driver.h"

namespace warren::session {

struct Route {
  std::string runtime_id;
  Door door;
  std::string target;  // of the sandbox: from its first slash, as it was sent
  // What stands before the target.
  std::string prefix() const;
};
// None: it is no path of the proxy's. Percent signs are kept: %2F stays part of a name.
std::optional<Route> route_of(std::string_view path, std::string_view query);

// The session key that a request shows: X-Session-API-Key, or session_api_key= or tkn= in its query.
std::string key_shown(const HttpRequest& request);

// Headers for the sandbox: those that are for this connection only stay behind; who asked, and for
// what, is added.
std::string headers_to_sandbox(const HttpRequest& request, const Route& route, bool is_upgrade);
// Lines for the client, without type and length. A Location or a cookie's Path of the sandbox is put
// below the prefix.
std::string headers_to_client(std::string_view lines, const Route& route, std::string_view host,
                              bool is_upgrade);

}  // namespace warren::session
