#pragma once
// The URL of an etcd: which servers, and where in it.
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "net/rpc/terms.h"

namespace warren::etcd {

struct Settings {
  std::vector<std::string> addresses;  // "host:port" of some or all members
  std::string prefix;                  // without leading or trailing slashes
  rpc::TlsFiles tls = {};
};

// Parses etcd://host[:port][,host[:port]…][/prefix], etcds://…?ca=file[&cert=file&key=file]. The
// default port is 2379. Errc::invalid says what is wrong.
Result<Settings> parse_url(std::string_view url);

}  // namespace warren::etcd
