#pragma once
// A stream of JSON values, one behind the other, cut into pieces anywhere. Opens no socket.
#include <boost/json/stream_parser.hpp>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace warren::kube {

class JsonFrames {
 public:
  explicit JsonFrames(std::size_t most_bytes);  // of one value

  // Takes bytes up to the end of the next value; those are gone from `bytes`. None: it goes on in the
  // next piece. Errc::protocol: this is no JSON. Errc::overloaded: a value is longer than allowed.
  Result<std::optional<boost::json::value>> take(std::string_view& bytes);
  bool is_between() const { return bytes_ == 0; }  // the stream may end here

 private:
  boost::json::stream_parser parser_;
  std::size_t most_;
  std::size_t bytes_ = 0;  // of the value that has begun
};

}  // namespace warren::kube
