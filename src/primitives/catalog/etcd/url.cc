#include "primitives/catalog/etcd/url.h"

#include <algorithm>

#include "redis/settings.h"

namespace warren::etcd {

namespace {

constexpr std::uint16_t default_port = 2379;

// Removes the mark and what follows it, and returns what follows.
std::string_view cut_behind(std::string_view& text, char mark) {
  auto at = text.find(mark);
  auto rest = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  text = text.substr(0, at);
  return rest;
}

Result<> read_tls_file(std::string_view part, rpc::TlsFiles& tls) {
  auto value = cut_behind(part, '=');
  if (value.empty()) return fail(Errc::invalid, "{} in the URL of etcd names no file", part);
  if (part == "ca")
    tls.authority = value;
  else if (part == "cert")
    tls.certificate = value;
  else if (part == "key")
    tls.key = value;
  else
    return fail(Errc::invalid, "unknown {} in the URL of etcd: use ca, cert and key", part);
  return ok;
}

Result<> read_tls(std::string_view query, bool is_secure, rpc::TlsFiles& tls) {
  while (!query.empty()) {
    auto rest = cut_behind(query, '&');
    auto read = read_tls_file(query, tls);
    if (!read) return read;
    query = rest;
  }
  if (!is_secure && tls.any())
    return fail(Errc::invalid, "certificates need etcds://, not etcd://");
  if (is_secure && tls.authority.empty())
    return fail(Errc::invalid,
                "etcds:// needs ?ca=file: the authority that signed etcd's certificate");
  if (tls.certificate.empty() != tls.key.empty())
    return fail(Errc::invalid, "cert and key in the URL of etcd belong together");
  return ok;
}

Result<> read_addresses(std::string_view hosts, std::vector<std::string>& addresses) {
  while (!hosts.empty()) {
    auto rest = cut_behind(hosts, ',');
    auto address = redis::parse_address(hosts, default_port);
    if (!address) return std::unexpected(address.error());
    addresses.push_back(redis::to_string(*address));
    hosts = rest;
  }
  if (addresses.empty()) return fail(Errc::invalid, "the URL of etcd names no host");
  return ok;
}

}  // namespace

Result<Settings> parse_url(std::string_view url) {
  bool is_secure = url.starts_with("etcds://");
  if (!is_secure && !url.starts_with("etcd://"))
    return fail(Errc::invalid, "the URL of etcd begins with etcd:// or etcds://");
  url.remove_prefix(is_secure ? 8 : 7);
  Settings settings;
  auto query = cut_behind(url, '?');
  auto tls = read_tls(query, is_secure, settings.tls);
  if (!tls) return std::unexpected(tls.error());
  auto prefix = cut_behind(url, '/');
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  settings.prefix = prefix;
  auto addresses = read_addresses(url, settings.addresses);
  if (!addresses) return std::unexpected(addresses.error());
  return settings;
}

}  // namespace warren::etcd
