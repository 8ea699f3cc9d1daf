#pragma once
// Objects of Kubernetes as JSON, and what is read of any of them. There are no generated types: an
// object that a server of another version sends keeps what we know nothing of. For .cc files: it
// includes Boost.JSON.
#include <boost/json.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace warren::kube {

namespace json = boost::json;

using Object = json::value;

// Errc::protocol: not one JSON object, or nested deeper than any of Kubernetes is.
Result<Object> parse_object(std::string_view text);
json::parse_options object_options();

// By JSON pointer: "/spec/replicas". What is not there, or of another kind, is empty.
std::string_view text_at(const Object& object, std::string_view pointer);
std::int64_t number_at(const Object& object, std::string_view pointer, std::int64_t otherwise);
bool flag_at(const Object& object, std::string_view pointer);
const json::array& items_at(const Object& object, std::string_view pointer);

inline std::string_view name_of(const Object& object) { return text_at(object, "/metadata/name"); }
inline std::string_view namespace_of(const Object& object) {
  return text_at(object, "/metadata/namespace");
}
// Another one with the same name has another.
inline std::string_view uid_of(const Object& object) { return text_at(object, "/metadata/uid"); }
// Opaque: two are equal or not, and none is newer.
inline std::string_view version_of(const Object& object) {
  return text_at(object, "/metadata/resourceVersion");
}
// It was deleted, and waits for its finalizers or its processes.
inline bool is_leaving(const Object& object) {
  return !text_at(object, "/metadata/deletionTimestamp").empty();
}

}  // namespace warren::kube
