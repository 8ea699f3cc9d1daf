#include "services/session/proxy/rewrite.h"

#include <algorithm>
#include <vector>

#include "net/http/target.h"
#include "services/session/names.h"

namespace warren::session {

namespace {

constexpr std::array hop_by_hop{"connection",
                                "keep-alive",
                                "proxy-connection",
                                "te",
                                "transfer-encoding",
                                "trailer",
                                "upgrade",
                                "content-length",
                                "proxy-authenticate",
                                "proxy-authorization",
                                "expect"};

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

bool names(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    auto word = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), word.size() + 1));
    if (same_word(trimmed(word), name)) return true;
  }
  return false;
}

bool is_of_connection(std::string_view name, std::string_view connection) {
  auto is_it = [name](const char* one) { return same_word(name, one); };
  return std::ranges::any_of(hop_by_hop, is_it) || names(connection, name);
}

void add_line(std::string& lines, std::string_view name, std::string_view value) {
  lines.append(name).append(": ").append(value).append("\r\n");
}

std::string location_for(std::string_view location, const Route& route, std::string_view host) {
  std::string_view path = location, before;
  for (std::string_view scheme : {"http://", "https://"}) {
    if (!location.starts_with(scheme)) continue;
    auto rest = location.substr(scheme.size());
    auto authority = rest.substr(0, rest.find_first_of("/?#"));
    if (authority != host) return std::string(location);
    before = location.substr(0, scheme.size() + authority.size());
    path = rest.substr(authority.size());
  }
  auto prefix = route.prefix();
  bool is_there = path == prefix || path.starts_with(prefix + "/");
  bool is_path = path.starts_with('/') && !path.starts_with("//");
  if (!is_path || is_there) return std::string(location);
  return std::string(before) + prefix + std::string(path);
}

std::string cookie_for(std::string_view cookie, const Route& route) {
  std::string out;
  while (!cookie.empty()) {
    auto part = cookie.substr(0, cookie.find(';'));
    cookie.remove_prefix(std::min(cookie.size(), part.size() + 1));
    if (!out.empty()) out += ';';
    auto word = trimmed(part);
    auto prefix = route.prefix();
    bool is_path = word.size() > 5 && same_word(word.substr(0, 5), "path=") && word[5] == '/';
    if (is_path && !word.substr(5).starts_with(prefix))
      out += " Path=" + prefix + std::string(word.substr(5) == "/" ? "/" : word.substr(5));
    else
      out += part;
  }
  return out;
}

}  // namespace

std::string Route::prefix() const { return "/" + runtime_id + "/" + std::string(name(door)); }

std::optional<Route> route_of(std::string_view path, std::string_view query) {
  auto rest = path;
  auto id = next_part(rest);
  if (!is_runtime_id(id)) return std::nullopt;
  auto door = door_called(next_part(rest));
  if (!door) return std::nullopt;
  Route route{std::string(id), *door, std::string(rest.empty() ? "/" : rest)};
  if (!query.empty()) route.target.append("?").append(query);
  return route;
}

std::string key_shown(const HttpRequest& request) {
  if (auto key = request.header("x-session-api-key"); !key.empty()) return std::string(key);
  for (const auto* name : {"session_api_key", "tkn"})
    if (auto key = query_value(request.query, name)) return *key;
  return "";
}

std::string headers_to_sandbox(const HttpRequest& request, const Route& route, bool is_upgrade) {
  std::string lines;
  auto connection = request.header("connection");
  std::string seen_from;
  for (std::size_t i = 0; i < request.header_count; ++i) {
    const auto& [name, value] = request.headers[i];
    if (is_of_connection(name, connection)) continue;
    if (same_word(name, "x-forwarded-prefix") || same_word(name, "x-forwarded-host")) continue;
    if (same_word(name, "x-forwarded-for")) {
      seen_from = std::string(value) + ", ";
      continue;
    }
    add_line(lines, name, value);
  }
  add_line(lines, "X-Forwarded-For", seen_from + request.client.to_string());
  if (auto host = request.header("host"); !host.empty()) add_line(lines, "X-Forwarded-Host", host);
  if (request.header("x-forwarded-proto").empty()) add_line(lines, "X-Forwarded-Proto", "http");
  add_line(lines, "X-Forwarded-Prefix", route.prefix());
  if (is_upgrade) {
    add_line(lines, "Connection", "Upgrade");
    add_line(lines, "Upgrade", request.header("upgrade"));
  }
  return lines;
}

std::string headers_to_client(std::string_view lines, const Route& route, std::string_view host,
                              bool is_upgrade) {
  std::string out;
  auto connection = header_in(lines, "connection");
  while (!lines.empty()) {
    auto line = lines.substr(0, lines.find("\r\n"));
    lines.remove_prefix(std::min(lines.size(), line.size() + 2));
    auto colon = line.find(':');
    if (colon == line.npos) continue;
    auto name = line.substr(0, colon);
    auto value = trimmed(line.substr(colon + 1));
    if (is_of_connection(name, is_upgrade ? "" : connection)) continue;
    if (same_word(name, "content-type") || same_word(name, "date")) continue;
    if (same_word(name, "location"))
      add_line(out, name, location_for(value, route, host));
    else if (same_word(name, "set-cookie"))
      add_line(out, name, cookie_for(value, route));
    else
      add_line(out, name, value);
  }
  return out;
}

}  // namespace warren::session
