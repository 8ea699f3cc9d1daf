#pragma once
// What clients of the remote runtime API are told, as JSON.
#include <optional>
#include <string>

#include "services/session/keeper/view.h"

namespace warren::session {

// Where clients reach the proxy: "http://127.0.0.1:8080", without a slash at its end.
struct PublicUrl {
  std::string base;
  // <base>/<runtime id>/<runtime|vscode|work-1|work-2>
  std::string of(const std::string& runtime_id, Door door) const;
};

// The runtime object of the API. The key is told with it: management calls are for who has the API key.
std::string runtime_json(const View& view, const PublicUrl& url);
std::string runtimes_json(const std::vector<View>& views, const PublicUrl& url);  // an array
std::string list_json(const std::vector<View>& views,
                      const PublicUrl& url);  // {"runtimes", "total"}

// An object that every generation of clients finds its member in: {"error", "message", "detail"}.
std::string error_json(std::string_view word, std::string_view what);
std::string_view word_for(const Error& error);
int status_for(const Error& error);

}  // namespace warren::session
