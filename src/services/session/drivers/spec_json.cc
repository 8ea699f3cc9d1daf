#include "services/session/drivers/spec_json.h"

namespace warren::session {

namespace {

std::optional<int> id_in(const json::object& object, std::string_view name) {
  auto number = number_in(object, name);
  if (!number || *number < 0 || *number > 0x7fff'fffe) return std::nullopt;
  return static_cast<int>(*number);
}

}  // namespace

Result<json::value> parse_json(std::string_view text) {
  json::parse_options options;
  options.max_depth = 16;
  boost::system::error_code error;
  auto value = json::parse(text, error, {}, options);
  if (error) return fail(Errc::protocol, "this is not JSON: {}", error.message());
  return value;
}

std::string text_in(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value && value->is_string() ? std::string(value->get_string()) : std::string();
}

std::optional<std::int64_t> number_in(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  if (!value || !value->is_number()) return std::nullopt;
  boost::system::error_code error;
  auto number = value->to_number<std::int64_t>(error);
  if (error) return std::nullopt;
  return number;
}

json::object to_json(const SandboxSpec& spec) {
  json::object environment;
  for (const auto& [name, value] : spec.environment) environment[name] = value;
  json::object object{{"session_id", spec.session_id},
                      {"name", spec.name},
                      {"runtime_id", spec.runtime_id},
                      {"image", spec.image},
                      {"command", json::array(spec.command.begin(), spec.command.end())},
                      {"is_shell", spec.is_shell},
                      {"working_dir", spec.working_dir},
                      {"environment", std::move(environment)},
                      {"resource_factor", spec.resource_factor},
                      {"runtime_class", spec.runtime_class},
                      {"image_pull_policy", spec.image_pull_policy},
                      {"key", spec.key},
                      {"hash", spec.hash}};
  if (spec.run_as_user) object["run_as_user"] = *spec.run_as_user;
  if (spec.run_as_group) object["run_as_group"] = *spec.run_as_group;
  if (spec.fs_group) object["fs_group"] = *spec.fs_group;
  return object;
}

Result<SandboxSpec> spec_from(const json::value& value) {
  const auto* object = value.if_object();
  if (!object) return fail(Errc::protocol, "a sandbox is described by an object");
  SandboxSpec spec{.session_id = text_in(*object, "session_id"),
                   .name = text_in(*object, "name"),
                   .runtime_id = text_in(*object, "runtime_id"),
                   .image = text_in(*object, "image"),
                   .working_dir = text_in(*object, "working_dir"),
                   .runtime_class = text_in(*object, "runtime_class"),
                   .image_pull_policy = text_in(*object, "image_pull_policy"),
                   .key = text_in(*object, "key"),
                   .hash = text_in(*object, "hash")};
  if (spec.session_id.empty() || spec.name.empty() || spec.runtime_id.empty())
    return fail(Errc::protocol, "a sandbox has a session, a name and a runtime id");
  if (const auto* words = object->if_contains("command"); words && words->is_array())
    for (const auto& word : words->get_array())
      if (word.is_string()) spec.command.emplace_back(word.get_string());
  if (const auto* shell = object->if_contains("is_shell"))
    spec.is_shell = shell->is_bool() && shell->get_bool();
  if (const auto* all = object->if_contains("environment"); all && all->is_object())
    for (const auto& [name, text] : all->get_object())
      if (text.is_string()) spec.environment[name] = text.get_string();
  spec.resource_factor = static_cast<int>(number_in(*object, "resource_factor").value_or(1));
  spec.run_as_user = id_in(*object, "run_as_user");
  spec.run_as_group = id_in(*object, "run_as_group");
  spec.fs_group = id_in(*object, "fs_group");
  return spec;
}

}  // namespace warren::session
