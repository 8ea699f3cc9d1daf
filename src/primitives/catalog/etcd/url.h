#pragma once
// Which etcd, and where in it.
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "net/rpc/terms.h"

namespace warren::etcd {

struct Settings {
  std::vector<std::string> addresses;  // "host:port" of some or all members
  std::string prefix;                  // without slashes around it
  rpc::TlsFiles tls = {};
};

// etcd://host[:port][,host[:port]…][/prefix], etcds://…?ca=file[&cert=file&key=file]. The port is 2379
// unless it is given. Errc::invalid says what is wrong.
Result<Settings> parse_url(std::string_view url);

}  // namespace warren::etcd
