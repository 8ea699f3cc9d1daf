#pragma once
// A Lua script that runs on the server, called by its hash.
//
// Scripts are .lua files next to their module, embedded by the build: see warren_module(SCRIPTS …).
// The server loses its script cache at a restart, and may not have it after a failover. So a call
// by hash that fails with NOSCRIPT is repeated with the source.
#include <span>
#include <string>
#include <string_view>

#include "redis/resp/command.h"

namespace warren::redis {

class Script {
 public:
  Script(std::string name, std::string source);

  Command by_hash(std::span<const std::string> keys, std::span<const std::string> args) const;
  Command by_source(std::span<const std::string> keys, std::span<const std::string> args) const;

  const std::string& name() const { return name_; }
  const std::string& source() const { return source_; }
  const std::string& hash() const { return hash_; }  // SHA-1, 40 lower-case hex digits

 private:
  std::string name_;
  std::string source_;
  std::string hash_;
};

}  // namespace warren::redis
