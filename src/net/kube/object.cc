#include "net/kube/object.h"

namespace warren::kube {

namespace {

constexpr std::size_t most_levels = 128;

const json::value* find(const Object& object, std::string_view pointer) {
  boost::system::error_code error;
  const auto* found = object.find_pointer(pointer, error);
  return error ? nullptr : found;
}

}  // namespace

json::parse_options object_options() {
  json::parse_options options;
  options.max_depth = most_levels;
  return options;
}

Result<Object> parse_object(std::string_view text) {
  boost::system::error_code error;
  auto value = json::parse(text, error, {}, object_options());
  if (error) return fail(Errc::protocol, "this is no JSON: {}", error.message());
  if (!value.is_object()) return fail(Errc::protocol, "this is no object");
  return value;
}

std::string_view text_at(const Object& object, std::string_view pointer) {
  const auto* found = find(object, pointer);
  if (!found || !found->is_string()) return {};
  return found->get_string();
}

std::int64_t number_at(const Object& object, std::string_view pointer, std::int64_t otherwise) {
  const auto* found = find(object, pointer);
  if (!found || !found->is_number()) return otherwise;
  boost::system::error_code error;
  auto number = found->to_number<std::int64_t>(error);
  return error ? otherwise : number;
}

bool flag_at(const Object& object, std::string_view pointer) {
  const auto* found = find(object, pointer);
  return found && found->is_bool() && found->get_bool();
}

const json::array& items_at(const Object& object, std::string_view pointer) {
  static const json::array none;
  const auto* found = find(object, pointer);
  return found && found->is_array() ? found->get_array() : none;
}

}  // namespace warren::kube
