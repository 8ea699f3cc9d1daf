#pragma once
// What an image means where there are no images: a command of this machine. A file says so:
//
//   {"ghcr.io/openhands/agent-server:latest": {"command": ["agent-server", "--port", "{port}"]},
//    "*": {}}                          others are taken, with the command of the request
//
// With no file every image is taken, and the request's own command is run.
#include <filesystem>
#include <map>
#include <optional>

#include "services/session/drivers/driver.h"

namespace warren::session {

class Images {
 public:
  // Errc::invalid, with the file's name.
  static Result<Images> read(const std::filesystem::path& file);
  static Result<Images> parse(std::string_view json);

  bool has(std::string_view image) const;
  // Gives the spec the command of its image, if that has one. Errc::invalid: no such image.
  Result<> apply(SandboxSpec& spec) const;

 private:
  struct Image {
    std::vector<std::string> command = {};
    bool is_shell = false;
  };
  std::optional<std::map<std::string, Image, std::less<>>> images_ = {};
};

}  // namespace warren::session
