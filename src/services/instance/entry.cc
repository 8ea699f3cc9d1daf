#include "services/instance/entry.h"

#include <signal.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace warren {

namespace json = boost::json;

namespace {

constexpr std::size_t longest_name = 63;

// Seconds, as the documents show it: people read it, and other programs.
std::string in_seconds(WallClock::time_point time) {
  auto text = iso8601(time);
  return text.substr(0, text.find('.')) + "Z";
}

std::int64_t milliseconds(WallClock::time_point time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

std::optional<WallClock::time_point> parse_time(std::string_view text) {
  std::tm parts{};
  char zone = 0;
  double seconds = 0;
  int read =
      std::sscanf(std::string(text).c_str(), "%d-%d-%dT%d:%d:%lf%c", &parts.tm_year, &parts.tm_mon,
                  &parts.tm_mday, &parts.tm_hour, &parts.tm_min, &seconds, &zone);
  if (read != 7 || zone != 'Z' || seconds < 0 || seconds >= 61) return {};
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  parts.tm_sec = static_cast<int>(seconds);
  auto time = timegm(&parts);
  if (time == -1) return {};
  return WallClock::from_time_t(time);
}

std::string text_of(const json::object& object, std::string_view name) {
  const auto* member = object.if_contains(name);
  return member && member->is_string() ? std::string(member->get_string()) : "";
}

}  // namespace

Result<> check_instance_name(std::string_view name) {
  if (name.empty() || name.size() > longest_name)
    return fail(Errc::invalid, "instance name must be 1-{} characters", longest_name);
  auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  auto is_fit = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '-'; };
  if (!is_letter(name[0]) || !std::ranges::all_of(name, is_fit))
    return fail(Errc::invalid,
                "instance name must start with a letter and contain only lowercase letters, "
                "numbers, and hyphens");
  return ok;
}

std::string to_json(const InstanceEntry& entry) {
  json::object object{{"run_id", entry.run_id},
                      {"workspace_path", entry.workspace_path},
                      {"started_at", in_seconds(entry.started_at)},
                      {"orchestrator_pid", entry.orchestrator_pid},
                      {"started_at_ms", milliseconds(entry.started_at)}};
  for (auto [name, value] : {std::pair{"host", &entry.host},
                             {"user", &entry.user},
                             {"url", &entry.url},
                             {"process", &entry.process}})
    if (!value->empty()) object[name] = *value;
  return json::serialize(object);
}

Result<InstanceEntry> parse_instance_entry(std::string_view text) {
  boost::system::error_code error;
  auto value = json::parse(text, error);
  if (error || !value.is_object()) return fail(Errc::protocol, "it is no JSON object");
  auto& object = value.get_object();
  InstanceEntry entry{.run_id = text_of(object, "run_id"),
                      .workspace_path = text_of(object, "workspace_path"),
                      .host = text_of(object, "host"),
                      .user = text_of(object, "user"),
                      .url = text_of(object, "url"),
                      .process = text_of(object, "process"),
                      .is_foreign = !object.contains("started_at_ms")};
  auto started = parse_time(text_of(object, "started_at"));
  if (!started) return fail(Errc::protocol, "its started_at is no time like 2026-01-31T23:59:59Z");
  entry.started_at = *started;
  // The same, to the millisecond, unless somebody else wrote it.
  const auto* exact = object.if_contains("started_at_ms");
  if (exact && exact->is_int64() && exact->get_int64() / 1000 == milliseconds(*started) / 1000)
    entry.started_at += std::chrono::milliseconds(exact->get_int64() % 1000);
  if (const auto* pid = object.if_contains("orchestrator_pid"); pid && pid->is_int64())
    entry.orchestrator_pid = static_cast<int>(pid->get_int64());
  return entry;
}

namespace {

std::string first_line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Of which kernel and which namespace.
std::string place_of_processes() {
  std::error_code error;
  auto boot = first_line_of("/proc/sys/kernel/random/boot_id");
  auto space = std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
  return boot.empty() || error ? "" : boot + " " + space;
}

std::string stat_of(int pid) { return first_line_of(fmt::format("/proc/{}/stat", pid)); }

// Somebody has this number, and /proc does not tell who: it may be mounted so (hidepid).
bool is_hidden(int pid) {
  bool is_there = ::kill(pid, 0) == 0 || errno != ESRCH;
  return is_there && stat_of(pid).empty();
}

}  // namespace

std::string process_mark(int pid) {
  auto place = place_of_processes();
  // The command stands in parentheses, and may have any characters.
  auto line = stat_of(pid);
  auto behind = line.rfind(')');
  if (place.empty() || behind == line.npos) return "";
  std::istringstream fields(line.substr(behind + 1));
  std::string state, field;
  fields >> state;
  for (int i = 4; i <= 22; ++i) fields >> field;  // its start, in ticks since the kernel's
  // One that has ended, and was not waited for.
  return !fields || state == "Z" || state == "X" ? "" : place + " " + field;
}

bool is_known_dead(const InstanceEntry& entry) {
  auto place = place_of_processes();
  bool is_here = !place.empty() && entry.process.starts_with(place + " ");
  if (!is_here || process_mark(entry.orchestrator_pid) == entry.process) return false;
  return !is_hidden(entry.orchestrator_pid);
}

std::string lock_value(const InstanceEntry& entry, WallClock::time_point now) {
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  json::object owner{{"run_id", entry.run_id},
                     {"pid", entry.orchestrator_pid},
                     {"start_time", in_seconds(entry.started_at)},
                     {"hostname", entry.host}};
  if (!entry.process.empty()) owner["process"] = entry.process;
  return fmt::format("orchestrator:{} {}", seconds, json::serialize(owner));
}

InstanceEntry parse_lock(std::string_view value) {
  InstanceEntry entry{.is_foreign = true};
  auto begin = value.find('{');
  boost::system::error_code error;
  auto owner = json::parse(value.substr(begin == value.npos ? value.size() : begin), error);
  if (error || !owner.is_object()) return entry;
  auto& object = owner.get_object();
  entry.run_id = text_of(object, "run_id");
  entry.host = text_of(object, "hostname");
  entry.process = text_of(object, "process");
  if (auto started = parse_time(text_of(object, "start_time"))) entry.started_at = *started;
  const auto* pid = object.if_contains("pid");
  if (pid && pid->is_int64()) entry.orchestrator_pid = static_cast<int>(pid->get_int64());
  return entry;
}

}  // namespace warren
