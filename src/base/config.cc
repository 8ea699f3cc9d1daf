#include "base/config.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>

#include "base/causes.h"
#include "base/nearest.h"

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

namespace warren {

namespace {

constexpr std::size_t largest_file = 1 << 20;
constexpr std::string_view mask = "********";

std::string flag_of(std::string_view setting) {
  std::string flag = "--" + std::string(setting);
  std::ranges::replace(flag, '.', '-');
  return flag;
}

// Finds the password in redis://user:secret@host. It extends to the last @, because a secret that
// should have been percent-encoded is still a secret.
std::optional<std::pair<std::size_t, std::size_t>> password_in_url(std::string_view text) {
  auto scheme = text.find("://");
  if (scheme == text.npos) return std::nullopt;
  auto at = text.rfind('@');
  auto colon = text.find(':', scheme + 3);
  if (at == text.npos || colon >= at || colon + 1 == at) return std::nullopt;
  return std::pair(colon + 1, at);
}

std::string shown_text(const Setting& setting, std::string text) {
  if (setting.secret) return text.empty() ? "" : std::string(mask);
  if (auto secret = password_in_url(text))
    text.replace(secret->first, secret->second - secret->first, mask);
  return text;
}

Result<std::string> read_file(const std::string& path) {
  auto failed = [&] { return fail(Errc::invalid, "cannot read {}: {}", path, strerror(errno)); };
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return failed();
  std::string text(largest_file + 1, '\0');
  std::size_t size = 0;
  ssize_t got = 1;
  while (got > 0 && size < text.size()) {
    got = read(file, text.data() + size, text.size() - size);
    if (got > 0) size += std::size_t(got);
  }
  auto error = errno;
  close(file);
  errno = error;
  if (got < 0) return failed();
  if (size > largest_file)
    return fail(Errc::invalid, "{} is larger than {} bytes", path, largest_file);
  text.resize(size);
  return text;
}

struct Found {
  std::string value;
  std::string origin;
};

// The settings found in the file, by name.
struct File {
  std::map<std::string, Found> found;
  std::set<std::string> known;  // names of settings
  const std::string& path;

  std::string where(const toml::node& node) const {
    return fmt::format("file {}:{}", path, node.source().begin.line);
  }

  Result<> add(const std::string& prefix, const toml::table& table) {
    for (auto& [key, node] : table) {
      auto name = prefix + std::string(key.str());
      auto* inner = node.as_table();
      Result<> added = inner && !known.contains(name) ? add_table(name, *inner) : add(name, node);
      if (!added) return added;
    }
    return ok;
  }

  // A table is accepted if a known setting lies inside it. Otherwise the table itself is reported.
  Result<> add_table(const std::string& name, const toml::table& table) {
    auto inside = known.lower_bound(name + ".");
    if (inside == known.end() || !inside->starts_with(name + ".")) return unknown(name, table);
    return add(name + ".", table);
  }

  Result<> add(const std::string& name, const toml::node& node) {
    if (!known.contains(name)) return unknown(name, node);
    auto text = text_of(node);
    if (!text)
      return fail(Errc::invalid, "{}: {} must be a text, a number, true, false, or a list of these",
                  where(node), name);
    found[name] = {*text, where(node)};
    return ok;
  }

  Result<> unknown(const std::string& name, const toml::node& node) const {
    auto meant = nearest(name, {known.begin(), known.end()});
    return fail(Errc::invalid, "{}: there is no setting {}{}", where(node), name,
                meant ? fmt::format("; did you mean {}?", *meant) : "");
  }

  static std::optional<std::string> text_of(const toml::node& node) {
    if (auto* text = node.as_string()) return text->get();
    if (auto* number = node.as_integer()) return fmt::format("{}", number->get());
    if (auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
    if (auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
    if (!node.is_array()) return std::nullopt;
    std::vector<std::string> members;
    for (auto& member : *node.as_array()) {
      auto text = member.is_array() ? std::nullopt : text_of(member);
      if (!text) return std::nullopt;
      members.push_back(*text);
    }
    return fmt::format("{}", fmt::join(members, ","));
  }
};

Result<std::map<std::string, Found>> from_text(const std::vector<Setting>& settings,
                                               const std::string& path, std::string_view text) {
  File file{{}, {}, path};
  for (auto& setting : settings) file.known.insert(setting.name);
  auto parsed = toml::parse(text, path);
  if (!parsed)
    return fail(Errc::invalid, "file {}:{}: {}", path, parsed.error().source().begin.line,
                parsed.error().description());
  auto added = file.add("", parsed.table());
  if (!added) return std::unexpected(added.error());
  return std::move(file.found);
}

Result<std::map<std::string, Found>> from_file(const std::vector<Setting>& settings,
                                               const ConfigSources& sources) {
  if (sources.file.empty()) return std::map<std::string, Found>();
  if (sources.file_text) return from_text(settings, sources.file, *sources.file_text);
  auto text = read_file(sources.file);
  if (!text) return std::unexpected(text.error());
  return from_text(settings, sources.file, *text);
}

Result<std::optional<Found>> from_environment(
    const Setting& setting, const std::map<std::string, std::string>& environment) {
  auto value_of = [&](const std::string& name) {
    auto variable = environment.find(name);
    return variable == environment.end() ? std::string() : variable->second;
  };
  if (setting.environment.empty()) return std::nullopt;
  auto direct = value_of(setting.environment);
  auto path = value_of(setting.environment + "_FILE");
  if (!direct.empty() && !path.empty())
    return fail(Errc::invalid, "{0} and {0}_FILE are both set; unset one", setting.environment);
  if (!direct.empty()) return Found{direct, "environment " + setting.environment};
  if (path.empty()) return std::nullopt;
  auto text = read_file(path);
  auto origin = "environment " + setting.environment + "_FILE";
  if (!text) return fail(Errc::invalid, "{}: {}", origin, text.error().what);
  if (text->ends_with('\n')) text->pop_back();
  return Found{std::move(*text), origin};
}

Result<std::optional<Found>> from_flags(const Setting& setting,
                                        const std::map<std::string, std::string>& flags) {
  auto flag = flags.find(setting.name);
  if (flag == flags.end()) return std::nullopt;
  if (!setting.secret && !password_in_url(flag->second))
    return Found{flag->second, "flag " + flag_of(setting.name)};
  auto instead = setting.environment.empty()
                     ? "the configuration file"
                     : fmt::format("{0}, {0}_FILE or the configuration file", setting.environment);
  return fail(Errc::invalid,
              "flag {}: every user of this machine can read flags, so it may not hold a secret; "
              "use {}",
              flag_of(setting.name), instead);
}

Result<> check(const Config::Value& value) {
  auto& setting = *value.setting;
  if (!setting.check || (!value.is_set && value.value.empty())) return ok;
  auto checked = setting.check(value.value);
  if (checked) return ok;
  bool tells = setting.secret && checked.error().what.contains(value.value);
  return fail(Errc::invalid, "{}: {} is \"{}\"; {}", value.origin, setting.name,
              Config::shown(value), tells ? "that has not the right form" : checked.error().what);
}

Error of_setting(Error error) {
  error.cause = causes::bad_setting;
  return error;
}

void ensure_declared_well(const std::vector<Setting>& settings) {
  std::set<std::string> names, variables;
  for (auto& setting : settings) {
    ensure(names.insert(setting.name).second, "a setting is declared once");
    if (!setting.environment.empty())
      ensure(variables.insert(setting.environment).second &&
                 variables.insert(setting.environment + "_FILE").second,
             "X and X_FILE belong to one setting");
  }
}

}  // namespace

std::function<Result<>(std::string_view)> one_of(std::vector<std::string> words) {
  return [words = std::move(words)](std::string_view value) -> Result<> {
    if (std::ranges::find(words, value) != words.end()) return ok;
    return fail(Errc::invalid, "use one of {}", fmt::join(words, ", "));
  };
}

namespace {
std::optional<long long> parse_number(std::string_view text) {
  long long number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}
}  // namespace

std::function<Result<>(std::string_view)> whole_number(long long least, long long most) {
  return [least, most](std::string_view value) -> Result<> {
    auto number = parse_number(value);
    if (number && *number >= least && *number <= most) return ok;
    return fail(Errc::invalid, "use a whole number from {} to {}", least, most);
  };
}

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  struct Unit {
    std::string_view name;
    long long ms;
  };
  auto digits = std::min(text.find_first_not_of("0123456789"), text.size());
  auto number = parse_number(text.substr(0, digits));
  for (auto [unit, ms] : {Unit{"ms", 1}, Unit{"s", 1000}, Unit{"m", 60'000}, Unit{"h", 3'600'000}})
    if (number && text.substr(digits) == unit) {
      // A century is longer than any useful wait, and far below where clock arithmetic overflows.
      if (*number > 876'600ll * 3'600'000 / ms) break;
      return std::chrono::milliseconds(*number * ms);
    }
  return fail(Errc::invalid, "use a duration such as 250ms, 5s, 2m or 1h");
}

std::function<Result<>(std::string_view)> duration() {
  return [](std::string_view value) -> Result<> {
    auto parsed = parse_duration(value);
    if (!parsed) return std::unexpected(parsed.error());
    return ok;
  };
}

std::map<std::string, std::string> process_environment() {
  std::map<std::string, std::string> environment;
  for (char** entry = environ; *entry; ++entry) {
    std::string_view text = *entry;
    auto equals = text.find('=');
    if (equals != text.npos) environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

void hide_secrets(const std::vector<Setting>& settings) {
  for (const auto& setting : settings) {
    if (setting.environment.empty()) continue;
    // NOLINTNEXTLINE(concurrency-mt-unsafe)
    char* value = std::getenv(setting.environment.c_str());
    if (value == nullptr || (!setting.secret && !password_in_url(value))) continue;
    explicit_bzero(value, std::strlen(value));
    unsetenv(setting.environment.c_str());
  }
}

Result<std::vector<FileSetting>> settings_in_file(const std::vector<Setting>& settings,
                                                  const std::string& path, std::string_view text) {
  auto found = from_text(settings, path, text);
  if (!found) return std::unexpected(of_setting(found.error()));
  std::vector<FileSetting> all;
  for (const auto& setting : settings)
    if (auto said = found->find(setting.name); said != found->end())
      all.push_back({setting.name, shown_text(setting, said->second.value)});
  return all;
}

Result<Config> Config::load(std::vector<Setting> settings, const ConfigSources& sources) {
  ensure_declared_well(settings);
  auto file = from_file(settings, sources);
  if (!file) return std::unexpected(of_setting(file.error()));
  Config config;
  std::map<std::string, std::string> given;  // by flag or variable, and by which
  for (auto& setting : settings) {
    auto flag = from_flags(setting, sources.flags);
    if (!flag) return std::unexpected(of_setting(flag.error()));
    auto environment = from_environment(setting, sources.environment);
    if (!environment) return std::unexpected(of_setting(environment.error()));

    std::optional<Found> found = *flag ? *flag : *environment;
    if (found) given[setting.name] = found->origin;
    if (auto entry = file->find(setting.name); !found && entry != file->end())
      found = entry->second;

    config.settings_.push_back(std::make_unique<Setting>(std::move(setting)));
    auto& kept = *config.settings_.back();
    config.values_.push_back(found ? Value{&kept, found->value, found->origin, true}
                                   : Value{&kept, kept.fallback, "default", false});
    auto checked = check(config.values_.back());
    if (!checked) return std::unexpected(of_setting(checked.error()));
  }
  config.leave_out_strangers(given);
  for (auto& [name, value] : sources.flags)
    ensure(std::ranges::any_of(config.values_, [&](auto& v) { return v.setting->name == name; }),
           "a flag names a declared setting");
  return config;
}

// Drops what the file says about a server that a flag or a variable names instead.
void Config::leave_out_strangers(const std::map<std::string, std::string>& given) {
  for (auto& value : values_) {
    if (!value.is_set || given.contains(value.setting->name)) continue;
    for (const auto& owner : value.setting->belongs_to) {
      auto elsewhere = given.find(owner);
      if (elsewhere == given.end()) continue;
      value.origin =
          fmt::format("default; {} does not count beside {}", value.origin, elsewhere->second);
      value.value = value.setting->fallback;
      value.is_set = false;
      break;
    }
  }
}

const Config::Value& Config::at(std::string_view name) const {
  auto named = [&](const Value& value) { return value.setting->name == name; };
  auto value = std::ranges::find_if(values_, named);
  ensure(value != values_.end(), fmt::format("setting {} is declared", name));
  return *value;
}

long long Config::number(std::string_view name) const {
  auto number = parse_number(text(name));
  ensure(number, fmt::format("setting {} is checked to be a number", name));
  return *number;
}

std::chrono::milliseconds Config::time(std::string_view name) const {
  auto time = parse_duration(text(name));
  ensure(time, fmt::format("setting {} is checked to be a duration", name));
  return *time;
}

std::string Config::shown(const Value& value) { return shown_text(*value.setting, value.value); }

}  // namespace warren
