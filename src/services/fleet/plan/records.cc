#include "services/fleet/plan/records.h"

#include <algorithm>
#include <array>
#include <bit>
#include <boost/json.hpp>
#include <charconv>

namespace warren::fleet {

namespace {

namespace json = boost::json;

constexpr std::array<std::string_view, 6> phase_names{"waiting", "fetching", "fetched",
                                                      "reading", "indexing", "serving"};

// One list of members per record serves both ways.
class Writer {
 public:
  void member(const char* name, const std::string& value) { object_[name] = value; }
  void member(const char* name, bool value) { object_[name] = value; }
  void member(const char* name, std::uint64_t value) { object_[name] = value; }
  void member(const char* name, std::int64_t value) { object_[name] = value; }
  void member(const char* name, int value) { object_[name] = value; }
  void member(const char* name, Phase value) { object_[name] = warren::fleet::name(value); }
  void member(const char* name, const std::vector<std::string>& values) {
    object_[name] = json::value_from(values);
  }
  std::string text() const { return json::serialize(object_); }

 private:
  json::object object_;
};

class Reader {
 public:
  explicit Reader(const json::object& object) : object_(object) {}

  void member(const char* name, std::string& value) {
    if (const auto* found = find(name)) {
      if (found->is_string())
        value = found->get_string();
      else
        wrong_ = name;
    }
  }
  void member(const char* name, bool& value) {
    if (const auto* found = find(name)) {
      if (found->is_bool())
        value = found->get_bool();
      else
        wrong_ = name;
    }
  }
  void member(const char* name, Phase& value) {
    std::string text(warren::fleet::name(value));
    member(name, text);
    auto found = std::ranges::find(phase_names, text);
    if (found != phase_names.end()) value = static_cast<Phase>(found - phase_names.begin());
  }
  void member(const char* name, std::vector<std::string>& values) {
    const auto* found = find(name);
    if (!found) return;
    values.clear();
    if (!found->is_array()) {
      wrong_ = name;
      return;
    }
    for (const auto& item : found->get_array()) {
      if (item.is_string())
        values.emplace_back(item.get_string());
      else
        wrong_ = name;
    }
  }
  template <std::integral T>
  void member(const char* name, T& value) {
    const auto* found = find(name);
    if (!found) return;
    boost::system::error_code error;
    auto number = found->to_number<T>(error);
    if (error)
      wrong_ = name;
    else
      value = number;
  }
  const char* wrong() const { return wrong_; }

 private:
  const json::value* find(const char* name) const {
    const auto* found = object_.if_contains(name);
    return found && !found->is_null() ? found : nullptr;
  }
  const json::object& object_;
  const char* wrong_ = nullptr;
};

template <class Io, class Spec>
void members_of_spec(Io& io, Spec& spec) {
  io.member("url", spec.url);
  io.member("moved_from", spec.moved_from);
  io.member("refs", spec.refs);
  io.member("pinned", spec.is_pinned);
  io.member("priority", spec.priority);
  io.member("replicas", spec.replicas);
  io.member("archived", spec.is_archived);
  io.member("fork", spec.is_fork);
  io.member("private", spec.is_private);
  io.member("reindex", spec.reindex);
}

template <class Io, class Note>
void members_of_note(Io& io, Note& note) {
  io.member("commit_hash", note.commit_hash);
  io.member("ready", note.is_ready);
  io.member("indexed", note.has_index);
  io.member("phase", note.phase);
  io.member("last_indexed_at", note.last_indexed_at);
  io.member("size_bytes", note.size_bytes);
  io.member("memory_bytes", note.memory_bytes);
  io.member("files", note.files);
  io.member("skipped", note.skipped);
  io.member("fetch_time_ms", note.fetch_ms);
  io.member("index_time_ms", note.index_ms);
  io.member("claim_latency_ms", note.claim_ms);
  io.member("reindex", note.reindex);
  io.member("lacks_bytes", note.lacks_bytes);
}

template <class Io, class Info>
void members_of_info(Io& io, Info& info) {
  io.member("endpoint", info.endpoint);
  io.member("zone", info.zone);
  io.member("version", info.version);
  io.member("budget_bytes", info.budget_bytes);
  io.member("used_bytes", info.used_bytes);
  io.member("reserved_bytes", info.reserved_bytes);
  io.member("hot_bytes", info.hot_bytes);
  io.member("repos", info.repos);
  io.member("running", info.running);
  io.member("busy_percent", info.busy_percent);
  io.member("draining", info.is_draining);
}

template <class Record, class Members>
Result<Record> parsed(std::string_view text, const char* what, Members members) {
  boost::system::error_code error;
  auto value = json::parse(text, error);
  if (error || !value.is_object()) return fail(Errc::invalid, "{} is not a JSON object", what);
  Record record;
  Reader reader(value.get_object());
  members(reader, record);
  if (reader.wrong())
    return fail(Errc::invalid, "{}: \"{}\" has a value of the wrong kind", what, reader.wrong());
  return record;
}

}  // namespace

std::string_view name(Phase phase) { return phase_names.at(static_cast<std::size_t>(phase)); }

std::string to_json(const RepoSpec& spec) {
  Writer writer;
  members_of_spec(writer, spec);
  return writer.text();
}
std::string to_json(const RepoNote& note) {
  Writer writer;
  members_of_note(writer, note);
  return writer.text();
}
std::string to_json(const NodeInfo& info) {
  Writer writer;
  members_of_info(writer, info);
  return writer.text();
}

Result<RepoSpec> parse_spec(std::string_view json) {
  return parsed<RepoSpec>(json, "the spec of a repository",
                          [](auto& io, auto& spec) { members_of_spec(io, spec); });
}
Result<RepoNote> parse_note(std::string_view json) {
  if (json.empty()) return RepoNote();
  return parsed<RepoNote>(json, "the note of a repository",
                          [](auto& io, auto& note) { members_of_note(io, note); });
}
Result<NodeInfo> parse_info(std::string_view json) {
  return parsed<NodeInfo>(json, "what a node says of itself",
                          [](auto& io, auto& info) { members_of_info(io, info); });
}

std::string row_key(std::string_view repo, int slot) { return fmt::format("{}#{}", repo, slot); }

std::optional<RowName> parse_row_key(std::string_view key) {
  auto mark = key.rfind('#');
  if (mark == std::string_view::npos || mark == 0) return std::nullopt;
  RowName parts{.repo = key.substr(0, mark)};
  auto digits = key.substr(mark + 1);
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), parts.slot);
  if (error != std::errc() || end != digits.data() + digits.size() || parts.slot < 0)
    return std::nullopt;
  return parts;
}

std::int64_t rank_of(const RepoSpec& spec, std::uint64_t demand, std::uint64_t size_bytes) {
  constexpr std::int64_t steps = 1000;
  auto priority = std::clamp<std::int64_t>(spec.priority, -steps, steps) + steps;
  auto asked = static_cast<std::int64_t>(std::min<std::uint64_t>(demand, steps - 1));
  auto smallness = 64 - static_cast<std::int64_t>(std::bit_width(size_bytes));
  auto first = spec.is_pinned ? 10 * steps : 0;
  return ((first + priority) * steps + asked) * 100 + smallness;
}

std::uint64_t demand_of(std::int64_t rank) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(rank, 0) / 100 % 1000);
}

}  // namespace warren::fleet
