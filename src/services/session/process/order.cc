#include "services/session/process/order.h"

#include <unistd.h>

#include "services/session/drivers/spec_json.h"
#include "services/session/process/kin.h"

namespace warren::session {

namespace {

constexpr std::array kinds{
    std::pair{Errc::invalid, "invalid"},         std::pair{Errc::held_elsewhere, "held"},
    std::pair{Errc::lease_lost, "stale"},        std::pair{Errc::denied, "denied"},
    std::pair{Errc::overloaded, "overloaded"},   std::pair{Errc::refused, "refused"},
    std::pair{Errc::unavailable, "unavailable"},
};

std::string port_text(const std::map<Door, Endpoint>& endpoints, Door door) {
  auto found = endpoints.find(door);
  return std::to_string(found == endpoints.end() ? usual_port(door) : found->second.port);
}

std::string_view placeholder(Door door) {
  switch (door) {
    case Door::runtime:
      return "{port}";
    case Door::vscode:
      return "{vscode_port}";
    case Door::work_1:
      return "{work_1_port}";
    case Door::work_2:
      return "{work_2_port}";
  }
  std::abort();
}

void replace_all(std::string& text, std::string_view what, const std::string& with) {
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

// Where it stands alone between other things than digits and letters.
void replace_word(std::string& text, const std::string& what, const std::string& with) {
  auto is_of_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (auto at = text.find(what); at != text.npos;) {
    auto end = at + what.size();
    bool is_alone =
        (at == 0 || !is_of_word(text[at - 1])) && (end == text.size() || !is_of_word(text[end]));
    if (is_alone) text.replace(at, what.size(), with);
    at = text.find(what, at + (is_alone ? with.size() : what.size()));
  }
}

}  // namespace

std::string to_json(const Order& order) {
  const auto& terms = order.terms;
  json::array shown;
  for (const auto& folder : terms.shown) shown.emplace_back(folder.string());
  return json::serialize(json::object{{"spec", to_json(order.spec)},
                                      {"generation", order.generation},
                                      {"incarnation", order.incarnation},
                                      {"root", terms.root.string()},
                                      {"isolated", terms.is_isolated},
                                      {"shown", std::move(shown)},
                                      {"path", terms.path},
                                      {"first_port", terms.first_port},
                                      {"last_port", terms.last_port},
                                      {"memory", terms.memory},
                                      {"processes", terms.processes},
                                      {"log_bytes", terms.log_bytes},
                                      {"grace_ms", terms.grace.count()}});
}

Result<Order> order_from(std::string_view text) {
  auto value = parse_json(text);
  if (!value) return std::unexpected(value.error());
  const auto* object = value->if_object();
  const auto* described = object ? object->if_contains("spec") : nullptr;
  if (!described) return fail(Errc::protocol, "an order is an object with a spec");
  auto spec = spec_from(*described);
  if (!spec) return std::unexpected(spec.error());
  auto number = [&](const char* name) { return number_in(*object, name).value_or(0); };
  Order order{.spec = *std::move(spec),
              .generation = static_cast<std::uint64_t>(number("generation")),
              .incarnation = text_in(*object, "incarnation")};
  auto& terms = order.terms;
  terms.root = text_in(*object, "root");
  const auto* isolated = object->if_contains("isolated");
  terms.is_isolated = !isolated || !isolated->is_bool() || isolated->get_bool();
  if (const auto* shown = object->if_contains("shown"); shown && shown->is_array())
    for (const auto& folder : shown->get_array())
      if (folder.is_string()) terms.shown.emplace_back(std::string(folder.get_string()));
  terms.path = text_in(*object, "path");
  terms.first_port = static_cast<unsigned short>(number("first_port"));
  terms.last_port = static_cast<unsigned short>(number("last_port"));
  terms.memory = static_cast<std::uint64_t>(number("memory"));
  terms.processes = static_cast<int>(number("processes"));
  terms.log_bytes = static_cast<std::uint64_t>(number("log_bytes"));
  terms.grace = std::chrono::milliseconds(number("grace_ms"));
  if (terms.root.empty() || order.incarnation.empty())
    return fail(Errc::protocol, "an order has a root and an incarnation");
  return order;
}

std::string answer_json(const std::optional<Error>& error) {
  if (!error) return "{\"said\":\"started\"}\n";
  std::string said = "refused";
  for (auto [code, word] : kinds)
    if (code == error->code) said = word;
  return json::serialize(json::object{{"said", said}, {"what", error->what}}) + "\n";
}

Result<> answer_from(std::string_view text) {
  auto value = parse_json(text);
  const auto* object = value ? value->if_object() : nullptr;
  if (!object) return fail(Errc::unknown_outcome, "the shim ended without an answer");
  auto said = text_in(*object, "said");
  if (said == "started") return ok;
  auto what = text_in(*object, "what");
  for (auto [code, word] : kinds)
    if (said == word) return fail(code, "{}", what);
  return fail(Errc::protocol, "the shim says \"{}\"", said);
}

std::map<std::string, std::string> environment_of(const Order& order,
                                                  const std::map<Door, Endpoint>& endpoints) {
  const auto& spec = order.spec;
  std::map<std::string, std::string> all{
      {"PATH", order.terms.path},
      {"LANG", "C.UTF-8"},
      {"PYTHONUNBUFFERED", "1"},
      {"HOME", order.terms.is_isolated
                   ? "/workspace"
                   : (order.terms.root / "sandboxes" / spec.name / "work").string()}};
  for (const auto& [name, value] : spec.environment)
    if (!name.empty() && !name.contains('=') && !name.contains('\0') && !value.contains('\0'))
      all[name] = value;
  // What a program for a pod looks at; and no request changes what it finds.
  all["OH_SESSION_API_KEYS_0"] = all["SESSION_API_KEY"] = spec.key;
  all["OH_RUNTIME_ID"] = spec.runtime_id;
  all["SESSION_ID"] = spec.session_id;
  all["PORT"] = all["port"] = port_text(endpoints, Door::runtime);
  all["OH_VSCODE_PORT"] = all["VSCODE_PORT"] = port_text(endpoints, Door::vscode);
  all["OH_VSCODE_BASE_PATH"] = "/" + spec.runtime_id + "/vscode";
  all["WORKER_1"] = port_text(endpoints, Door::work_1);
  all["WORKER_2"] = port_text(endpoints, Door::work_2);
  all[std::string(incarnation_variable)] = order.incarnation;
  return all;
}

std::vector<std::string> words_of(const SandboxSpec& spec,
                                  const std::map<Door, Endpoint>& endpoints) {
  auto words = spec.command;
  for (auto& word : words)
    for (auto door : all_doors) {
      auto port = port_text(endpoints, door);
      replace_all(word, placeholder(door), port);
      auto usual = std::to_string(usual_port(door));
      if (spec.is_shell)
        replace_word(word, usual, port);
      else if (word == usual)
        word = port;
    }
  if (!spec.is_shell || words.empty()) return words;
  const char* shell = ::access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh";
  return {shell, "-c", words[0]};
}

}  // namespace warren::session
