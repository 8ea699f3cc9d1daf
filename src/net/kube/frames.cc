#include "net/kube/frames.h"

#include "net/kube/object.h"

namespace warren::kube {

JsonFrames::JsonFrames(std::size_t most_bytes) : parser_({}, object_options()), most_(most_bytes) {}

Result<std::optional<boost::json::value>> JsonFrames::take(std::string_view& bytes) {
  if (bytes_ == 0) bytes.remove_prefix(std::min(bytes.size(), bytes.find_first_not_of(" \t\r\n")));
  if (bytes.empty()) return std::optional<boost::json::value>();
  boost::system::error_code error;
  auto used = parser_.write_some(bytes.data(), bytes.size(), error);
  if (error) return fail(Errc::protocol, "this is no JSON: {}", error.message());
  bytes_ += used;
  if (bytes_ > most_) return fail(Errc::overloaded, "a value is longer than {} bytes", most_);
  bytes.remove_prefix(used);
  if (!parser_.done()) return std::optional<boost::json::value>();
  std::optional<boost::json::value> value(parser_.release());
  parser_.reset();
  bytes_ = 0;
  return value;
}

}  // namespace warren::kube
