#include "services/session/serve/request.h"

#include <algorithm>
#include <cctype>

#include "services/session/drivers/spec_json.h"
#include "services/session/names.h"

namespace warren::session {

namespace {

Result<json::object> object_from(std::string_view body) {
  auto value = parse_json(body);
  if (!value) return fail(Errc::invalid, "the body: {}", value.error().what);
  if (!value->is_object()) return fail(Errc::invalid, "the body: use a JSON object");
  return std::move(value->get_object());
}

// Reads members one by one; the first that is wrong is told.
class Reader {
 public:
  explicit Reader(const json::object& object) : object_(object) {}

  void text(std::string_view name, std::string& into) {
    const auto* value = find(name);
    if (!value) return;
    if (!value->is_string()) return complain(name, "a text");
    into = value->get_string();
  }
  void pull_policy(std::string& into) {
    text("image_pull_policy", into);
    bool is_known = into.empty() || into == "Always" || into == "IfNotPresent" || into == "Never";
    if (!is_known) complain("image_pull_policy", "Always, IfNotPresent or Never");
  }
  void id(std::string_view name, std::optional<int>& into) {
    const auto* value = find(name);
    if (!value) return;
    auto number = number_in(object_, name);
    if (!number || *number < 0 || *number > 0x7fff'fffe)
      return complain(name, "a user or group id");
    into = static_cast<int>(*number);
  }
  void factor(int& into) {
    const auto* value = find("resource_factor");
    if (!value) return;
    boost::system::error_code error;
    auto number = value->is_number() ? value->to_number<double>(error) : 0;
    if (error || number < 1 || number > 64)
      return complain("resource_factor", "a number from 1 to 64");
    into = static_cast<int>(number);
  }
  void command(SandboxSpec& spec) {
    const auto* value = find("command");
    if (!value) return;
    if (value->is_string()) {
      spec.command = {std::string(value->get_string())};
      spec.is_shell = true;
      return;
    }
    const auto* words = value->if_array();
    if (!words) return complain("command", "a line, or a list of words");
    for (const auto& word : *words) {
      if (!word.is_string()) return complain("command", "a line, or a list of words");
      spec.command.emplace_back(word.get_string());
    }
    // A list of one word is a line, too: that is how it reaches a pod.
    spec.is_shell = spec.command.size() == 1;
  }
  void environment(std::map<std::string, std::string>& into) {
    const auto* value = find("environment");
    if (!value) return;
    const auto* all = value->if_object();
    if (!all) return complain("environment", "an object of texts");
    for (const auto& [name, text] : *all) {
      if (text.is_string())
        into[name] = text.get_string();
      else if (text.is_number() || text.is_bool())
        into[name] = json::serialize(text);
      else if (!text.is_null())
        return complain("environment", "an object of texts");
    }
  }
  const std::string& wrong() const { return wrong_; }

 private:
  const json::value* find(std::string_view name) const {
    const auto* value = object_.if_contains(name);
    return value && !value->is_null() ? value : nullptr;
  }
  void complain(std::string_view name, std::string_view what) {
    if (wrong_.empty()) wrong_ = fmt::format("{}: use {}", name, what);
  }

  const json::object& object_;
  std::string wrong_ = {};
};

Result<> check_environment(const std::map<std::string, std::string>& environment) {
  for (const auto& [name, value] : environment) {
    bool is_name = !name.empty() && !name.contains('=') && !name.contains('\0');
    if (!is_name || value.contains('\0'))
      return fail(Errc::invalid, "environment: \"{}\" is no variable", name);
  }
  return ok;
}

}  // namespace

Result<SandboxSpec> start_from(std::string_view body, std::string_view name_space) {
  auto object = object_from(body);
  if (!object) return std::unexpected(object.error());
  SandboxSpec spec;
  Reader reader(*object);
  reader.text("session_id", spec.session_id);
  reader.text("image", spec.image);
  reader.text("working_dir", spec.working_dir);
  reader.text("runtime_class", spec.runtime_class);
  reader.pull_policy(spec.image_pull_policy);
  reader.command(spec);
  reader.environment(spec.environment);
  reader.factor(spec.resource_factor);
  reader.id("run_as_user", spec.run_as_user);
  reader.id("run_as_group", spec.run_as_group);
  reader.id("fs_group", spec.fs_group);
  if (!reader.wrong().empty()) return fail(Errc::invalid, "{}", reader.wrong());
  if (auto good = check_session_id(spec.session_id); !good) return std::unexpected(good.error());
  if (auto good = check_environment(spec.environment); !good) return std::unexpected(good.error());
  bool is_word = std::ranges::all_of(spec.command, [](auto& word) { return !word.contains('\0'); });
  if (!is_word || spec.working_dir.contains('\0'))
    return fail(Errc::invalid, "command, working_dir: use no NUL");
  spec.name = name_of(spec.session_id);
  spec.runtime_id = runtime_id_of(name_space, spec.session_id);
  return spec;
}

Result<std::string> runtime_id_from(std::string_view body) {
  auto object = object_from(body);
  if (!object) return std::unexpected(object.error());
  auto id = text_in(*object, "runtime_id");
  if (id.empty()) return fail(Errc::invalid, "runtime_id is missing");
  return id;
}

Result<std::string> session_id_from(std::string_view body) {
  auto object = object_from(body);
  if (!object) return std::unexpected(object.error());
  auto id = text_in(*object, "session_id");
  if (auto good = check_session_id(id); !good) return std::unexpected(good.error());
  return id;
}

Result<std::map<std::string, std::vector<std::string>>> conversations_from(std::string_view body) {
  auto object = object_from(body);
  if (!object) return std::unexpected(object.error());
  const auto* all = object->if_contains("sandboxes");
  if (!all || !all->is_object()) return fail(Errc::invalid, "sandboxes: use an object");
  std::map<std::string, std::vector<std::string>> asked;
  for (const auto& [runtime, one] : all->get_object()) {
    auto& ids = asked[runtime];
    const auto* list = one.is_object() ? one.get_object().if_contains("conversation_ids") : nullptr;
    if (!list || !list->is_array()) return fail(Errc::invalid, "conversation_ids: use a list");
    for (const auto& id : list->get_array())
      if (id.is_string()) ids.emplace_back(id.get_string());
  }
  return asked;
}

}  // namespace warren::session
