#pragma once
// Splits a stream of JSON values, which arrives in arbitrary pieces. Opens no socket.
#include <boost/json/stream_parser.hpp>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace warren::kube {

class JsonFrames {
 public:
  explicit JsonFrames(std::size_t most_bytes);  // per value

  // Consumes bytes up to the end of the next value and removes them from `bytes`. Returns nullopt
  // if the value continues in the next piece. Errc::protocol: invalid JSON. Errc::overloaded: a
  // value is too long.
  Result<std::optional<boost::json::value>> take(std::string_view& bytes);
  bool is_between() const { return bytes_ == 0; }  // the stream may end here

 private:
  boost::json::stream_parser parser_;
  std::size_t most_;
  std::size_t bytes_ = 0;  // of the unfinished value
};

}  // namespace warren::kube
