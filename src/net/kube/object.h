#pragma once
// Kubernetes objects as JSON, and the fields that all of them have. There are no generated types:
// if a server of another version sends fields that we do not know, the object keeps them. Include
// this only in .cc files: it includes Boost.JSON.
#include <boost/json.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace warren::kube {

namespace json = boost::json;

using Object = json::value;

// Errc::protocol: not a single JSON object, or nested deeper than any Kubernetes object.
Result<Object> parse_object(std::string_view text);
json::parse_options object_options();

// By JSON pointer: "/spec/replicas". A value that is missing or of another type counts as empty.
std::string_view text_at(const Object& object, std::string_view pointer);
std::int64_t number_at(const Object& object, std::string_view pointer, std::int64_t otherwise);
bool flag_at(const Object& object, std::string_view pointer);
const json::array& items_at(const Object& object, std::string_view pointer);

inline std::string_view name_of(const Object& object) { return text_at(object, "/metadata/name"); }
inline std::string_view namespace_of(const Object& object) {
  return text_at(object, "/metadata/namespace");
}
// A new object with the same name has a new uid.
inline std::string_view uid_of(const Object& object) { return text_at(object, "/metadata/uid"); }
// Opaque: two versions are equal or not, and cannot be ordered.
inline std::string_view version_of(const Object& object) {
  return text_at(object, "/metadata/resourceVersion");
}
// It was deleted, but waits for its finalizers or its processes.
inline bool is_leaving(const Object& object) {
  return !text_at(object, "/metadata/deletionTimestamp").empty();
}

}  // namespace warren::kube
