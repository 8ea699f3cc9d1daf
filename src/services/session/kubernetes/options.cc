#include "services/session/kubernetes/options.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <iterator>

#include "base/nearest.h"
#include "base/yaml.h"

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

namespace warren::session {

namespace {

constexpr std::size_t most_file = 1u << 20;

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  for (;;) {
    auto end = std::min(text.find(at), text.size());
    auto part = text.substr(0, end);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    parts.emplace_back(part);
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<long long> whole(std::string_view text) {
  long long number = 0;
  auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<bool> truth(std::string_view text) {
  if (text == "true" || text == "True") return true;
  if (text == "false" || text == "False") return false;
  return std::nullopt;
}

bool is_quantity(std::string_view text) { return multiplied(text, 1).has_value(); }

// A label of DNS: what a namespace, a Secret and such are called by.
bool is_name(std::string_view text) {
  auto is_usual = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  };
  return !text.empty() && text.size() <= 253 && std::ranges::all_of(text, is_usual) &&
         text.front() != '-' && text.back() != '-' && text.front() != '.' && text.back() != '.';
}

// One key: what is wrong with its value, or nothing.
using Wrong = std::optional<std::string>;
using Reads = std::function<Wrong(const toml::node&)>;

// Texts, and numbers and truths that stand where a text is expected, as TOML is often written.
std::optional<std::string> text_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return fmt::format("{}", number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  return std::nullopt;
}

Reads text_into(std::string& into) {
  return [&into](const toml::node& node) -> Wrong {
    auto text = text_of(node);
    if (!text) return "a text";
    into = *text;
    return std::nullopt;
  };
}

Reads name_into(std::string& into) {
  return [&into](const toml::node& node) -> Wrong {
    auto text = text_of(node);
    if (!text || (!text->empty() && !is_name(*text)))
      return "a name of lower-case letters, digits, dashes and dots";
    into = *text;
    return std::nullopt;
  };
}

Reads quantity_into(std::string& into) {
  return [&into](const toml::node& node) -> Wrong {
    auto text = text_of(node);
    if (!text || !is_quantity(*text)) return "a quantity, such as 500m, 1 or 2Gi";
    into = *text;
    return std::nullopt;
  };
}

Reads flag_into(bool& into) {
  return [&into](const toml::node& node) -> Wrong {
    auto text = text_of(node);
    auto flag = text ? truth(*text) : std::nullopt;
    if (!flag) return "true or false";
    into = *flag;
    return std::nullopt;
  };
}

Reads flag_into(std::optional<bool>& into) {
  return [&into](const toml::node& node) -> Wrong {
    auto text = text_of(node);
    if (text && text->empty()) return std::nullopt;
    auto flag = text ? truth(*text) : std::nullopt;
    if (!flag) return "true or false";
    into = flag;
    return std::nullopt;
  };
}

Reads id_into(std::optional<long long>& into) {
  return [&into](const toml::node& node) -> Wrong {
    auto text = text_of(node);
    if (text && text->empty()) return std::nullopt;
    auto number = text ? whole(*text) : std::nullopt;
    if (!number || *number < 0 || *number > 0x7fff'fffe) return "a user or group id";
    into = number;
    return std::nullopt;
  };
}

Reads number_into(int& into, int least, int most) {
  return [&into, least, most](const toml::node& node) -> Wrong {
    auto text = text_of(node);
    auto number = text ? whole(*text) : std::nullopt;
    if (!number || *number < least || *number > most)
      return fmt::format("a whole number from {} to {}", least, most);
    into = static_cast<int>(*number);
    return std::nullopt;
  };
}

Reads seconds_into(std::chrono::seconds& into, int least) {
  return [&into, least](const toml::node& node) -> Wrong {
    int seconds = 0;
    if (auto wrong = number_into(seconds, least, 366 * 86'400)(node)) return *wrong + " (seconds)";
    into = std::chrono::seconds(seconds);
    return std::nullopt;
  };
}

Reads annotations_into(std::map<std::string, std::string>& into) {
  return [&into](const toml::node& node) -> Wrong {
    const auto* table = node.as_table();
    if (!table) return "a table of texts";
    for (const auto& [key, value] : *table) {
      auto text = text_of(value);
      if (!text) return fmt::format("a table of texts ({} is none)", key.str());
      into[std::string(key.str())] = *text;
    }
    return std::nullopt;
  };
}

template <class T>
Reads parsed_into(std::vector<T>& into, Result<std::vector<T>> (*parse)(std::string_view)) {
  return [&into, parse](const toml::node& node) -> Wrong {
    auto text = text_of(node);
    if (!text) return "a text";
    auto parsed = parse(*text);
    if (!parsed) return parsed.error().what;
    into = *std::move(parsed);
    return std::nullopt;
  };
}

std::map<std::string, Reads, std::less<>> keys_of(KubernetesOptions& options) {
  return {
      {"redis_coordination_enabled", flag_into(options.redis_coordination_enabled)},
      {"redis_coordination_timeout", seconds_into(options.redis_coordination_timeout, 1)},
      {"redis_coordination_retry_attempts",
       number_into(options.redis_coordination_retry_attempts, 1, 1000)},
      {"redis_coordination_keep_pod_alive", flag_into(options.redis_coordination_keep_pod_alive)},
      {"redis_coordination_auto_cleanup", flag_into(options.redis_coordination_auto_cleanup)},
      {"pod_cleanup_age_threshold", seconds_into(options.pod_cleanup_age_threshold, 1)},
      {"websocket_disconnect_delay", seconds_into(options.websocket_disconnect_delay, 1)},
      {"namespace", name_into(options.name_space)},
      {"ingress_domain", name_into(options.ingress_domain)},
      {"ingress_tls_secret", name_into(options.ingress_tls_secret)},
      {"image_pull_secret", name_into(options.image_pull_secret)},
      {"pvc_storage_size", quantity_into(options.pvc_storage_size)},
      {"pvc_storage_class", name_into(options.pvc_storage_class)},
      {"resource_cpu_request", quantity_into(options.resource_cpu_request)},
      {"resource_memory_request", quantity_into(options.resource_memory_request)},
      {"resource_memory_limit", quantity_into(options.resource_memory_limit)},
      {"node_selector_key", text_into(options.node_selector_key)},
      {"node_selector_val", text_into(options.node_selector_val)},
      {"tolerations_yaml", parsed_into(options.tolerations, tolerations_from)},
      {"privileged", flag_into(options.privileged)},
      {"psc_run_as_user", id_into(options.psc_run_as_user)},
      {"psc_run_as_group", id_into(options.psc_run_as_group)},
      {"psc_fs_group", id_into(options.psc_fs_group)},
      {"psc_allow_privilege_escalation", flag_into(options.psc_allow_privilege_escalation)},
      {"working_dir", text_into(options.working_dir)},
      {"annotations", annotations_into(options.annotations)},
      {"configmap_volumes", parsed_into(options.configmap_volumes, mounted_maps_from)},
  };
}

Result<> read_section(const toml::table& section, KubernetesOptions& options,
                      const std::string& path) {
  auto keys = keys_of(options);
  for (const auto& [key, node] : section) {
    auto line = node.source().begin.line;
    auto found = keys.find(key.str());
    if (found == keys.end()) {
      std::vector<std::string> names;
      for (const auto& [name, reads] : keys) names.push_back(name);
      auto meant = nearest(key.str(), names);
      return fail(Errc::invalid, "file {}:{}: there is no option {}{}", path, line, key.str(),
                  meant ? fmt::format("; did you mean {}?", *meant) : "");
    }
    if (auto wrong = found->second(node))
      return fail(Errc::invalid, "file {}:{}: {}: use {}", path, line, key.str(), *wrong);
  }
  return ok;
}

std::string text_at(const toml::table& table, std::string_view section, std::string_view key) {
  const auto* inner = table.get_as<toml::table>(section);
  const auto* node = inner ? inner->get(key) : nullptr;
  auto text = node ? text_of(*node) : std::nullopt;
  return text.value_or("");
}

}  // namespace

Result<std::vector<MountedMap>> mounted_maps_from(std::string_view text) {
  std::vector<MountedMap> all;
  if (text.empty()) return all;
  for (const auto& one : split(text, ',')) {
    auto parts = split(one, ':');
    MountedMap map;
    if (parts.size() > 2 && (parts.back() == "ro" || parts.back() == "rw")) {
      map.is_read_only = parts.back() == "ro";
      parts.pop_back();
    }
    bool is_whole = parts.size() == 2 || parts.size() == 3;
    if (is_whole) {
      map.name = parts.front();
      map.path = parts.back();
      if (parts.size() == 3) map.key = parts[1];
    }
    if (!is_whole || !is_name(map.name) || !map.path.starts_with('/'))
      return fail(Errc::invalid, "name:path[:mode] or name:key:path[:mode], not \"{}\"", one);
    all.push_back(std::move(map));
  }
  return all;
}

Result<std::vector<Toleration>> tolerations_from(std::string_view yaml) {
  std::vector<Toleration> all;
  auto parsed = parse_yaml(yaml);
  if (!parsed)
    return fail(Errc::invalid, "a list in YAML (line {}: {})", parsed.error().line,
                parsed.error().what);
  if (parsed->kind == Yaml::Kind::nothing) return all;
  if (parsed->kind != Yaml::Kind::list) return fail(Errc::invalid, "a list in YAML");
  for (const auto& item : parsed->items) {
    if (item.kind != Yaml::Kind::map) return fail(Errc::invalid, "a list of maps in YAML");
    Toleration toleration;
    for (const auto& member : item.items) {
      if (member.key == "key")
        toleration.key = member.text;
      else if (member.key == "operator")
        toleration.op = member.text;
      else if (member.key == "value")
        toleration.value = member.text;
      else if (member.key == "effect")
        toleration.effect = member.text;
      else if (member.key == "tolerationSeconds" && whole(member.text))
        toleration.seconds = whole(member.text);
      else
        return fail(Errc::invalid,
                    "maps of key, operator, value, effect and tolerationSeconds, not {}",
                    member.key);
    }
    all.push_back(std::move(toleration));
  }
  return all;
}

Result<OpenHandsFile> OpenHandsFile::read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(Errc::invalid, "{}: it cannot be read", path.string());
  std::string text(std::istreambuf_iterator<char>(in), {});
  if (text.size() > most_file) return fail(Errc::invalid, "{}: use at most 1 MB", path.string());
  return parse(text, path.string());
}

Result<OpenHandsFile> OpenHandsFile::parse(std::string_view text, const std::string& path) {
  auto parsed = toml::parse(text, path);
  if (!parsed)
    return fail(Errc::invalid, "file {}:{}: {}", path, parsed.error().source().begin.line,
                parsed.error().description());
  OpenHandsFile file;
  const auto& root = parsed.table();
  const auto* sandbox = root.get_as<toml::table>("sandbox");
  for (const auto* section : {sandbox ? sandbox->get_as<toml::table>("kubernetes") : nullptr,
                              root.get_as<toml::table>("kubernetes")}) {
    if (!section) continue;
    if (auto read = read_section(*section, file.kubernetes, path); !read)
      return std::unexpected(read.error());
  }
  file.runtime = text_at(root, "core", "runtime");
  file.image = text_at(root, "sandbox", "runtime_container_image");
  if (file.image.empty()) file.image = text_at(root, "sandbox", "base_container_image");
  if (auto folder = text_at(root, "core", "workspace_mount_path_in_sandbox"); !folder.empty())
    file.workspace = folder;
  if (!file.workspace.starts_with('/'))
    return fail(Errc::invalid, "file {}: workspace_mount_path_in_sandbox: use a whole path", path);
  return file;
}

Result<std::string> multiplied(std::string_view quantity, int factor) {
  auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  auto wrong = [&] {
    return fail(Errc::invalid, "\"{}\" is no quantity: use one such as 500m, 1 or 2Gi", quantity);
  };
  std::size_t end = 0;
  while (end < quantity.size() && (is_digit(quantity[end]) || quantity[end] == '.')) ++end;
  auto number = quantity.substr(0, end);
  auto suffix = quantity.substr(end);
  static constexpr std::array suffixes{"", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"};
  auto point = std::min(number.find('.'), number.size());
  auto before = number.substr(0, point);
  auto behind = point < number.size() ? number.substr(point + 1) : std::string_view();
  bool is_number = !(before.empty() && behind.empty()) && !behind.contains('.') &&
                   before.size() <= 9 && behind.size() <= 3;
  if (!is_number || std::ranges::find(suffixes, suffix) == suffixes.end()) return wrong();
  // In thousandths.
  std::string digits(behind);
  digits.resize(3, '0');
  auto thousandths =
      whole(std::string(before.empty() ? "0" : before) + digits).value_or(0) * factor;
  auto rest = thousandths % 1000;
  auto text = std::to_string(thousandths / 1000);
  if (rest != 0) {
    auto part = fmt::format("{:03}", rest);
    while (part.ends_with('0')) part.pop_back();
    text += "." + part;
  }
  return text + std::string(suffix);
}

}  // namespace warren::session
