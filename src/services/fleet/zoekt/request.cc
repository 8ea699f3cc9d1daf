// What a client of zoekt asks for.
#include "net/http/message.h"
#include "services/fleet/wire/members.h"
#include "services/fleet/zoekt/api.h"

namespace warren::fleet {

namespace {

constexpr auto usual_wall_time = 20s, most_wall_time = 60s;
constexpr std::uint64_t most_files = 10'000, usual_matches = 100'000, most_matches = 1'000'000;

// Fields as Go finds them: the name as it is, or in another case.
class Fields {
 public:
  Fields(const json::value& from, std::string& wrong) : wrong_(wrong) {
    if (from.is_object())
      object_ = &from.get_object();
    else
      complain("the request");
  }

  // Null: it is not there, or null.
  const json::value* find(std::string_view name) const {
    if (!object_) return nullptr;
    const auto* value = object_->if_contains(name);
    for (auto each = object_->begin(); !value && each != object_->end(); ++each)
      if (same_word(each->key(), name)) value = &each->value();
    return value && !value->is_null() ? value : nullptr;
  }
  void read(const char* name, std::string& into) const {
    const auto* value = find(name);
    if (value && value->is_string())
      into = value->get_string();
    else if (value)
      complain(name);
  }
  void read(const char* name, bool& into) const {
    const auto* value = find(name);
    if (value && value->is_bool())
      into = value->get_bool();
    else if (value)
      complain(name);
  }
  // A number in Go's int; what is negative counts as not said.
  void read(const char* name, std::uint64_t& into) const {
    const auto* value = find(name);
    if (!value) return;
    if (value->is_int64() || value->is_uint64())
      into = value->is_uint64()
                 ? value->get_uint64()
                 : static_cast<std::uint64_t>(std::max<std::int64_t>(value->get_int64(), 0));
    else
      complain(name);
  }
  void read(const char* name, std::optional<std::vector<std::uint32_t>>& into) const {
    const auto* value = find(name);
    if (!value) return;
    into.emplace();
    const auto* list = value->if_array();
    if (!list) return complain(name);
    for (const auto& item : *list) {
      boost::system::error_code error;
      into->push_back(item.to_number<std::uint32_t>(error));
      if (error || item.is_double()) complain(name);
    }
  }
  void complain(const char* name) const {
    if (wrong_.empty()) wrong_ = name;
  }

 private:
  const json::object* object_ = nullptr;
  std::string& wrong_;
};

Result<> check(const std::string& wrong) {
  if (wrong.empty()) return ok;
  return fail(Errc::invalid, "{} is not of the type that zoekt has there", wrong);
}

void read_options(const Fields& from, ZoektOptions& options) {
  from.read("EstimateDocCount", options.estimates);
  from.read("Whole", options.is_whole);
  from.read("ChunkMatches", options.wants_chunks);
  from.read("DebugScore", options.explains);
  std::uint64_t total = 0, context = 0, wall_time = 0;
  from.read("ShardMaxMatchCount", options.matches);
  from.read("TotalMaxMatchCount", total);
  if (total > 0) options.matches = total;
  from.read("ShardRepoMaxMatchCount", options.matches_per_repo);
  from.read("MaxDocDisplayCount", options.files);
  from.read("MaxMatchDisplayCount", options.shown_matches);
  from.read("NumContextLines", context);
  from.read("MaxWallTime", wall_time);
  options.context = static_cast<int>(std::min<std::uint64_t>(context, 50));
  options.wall_time = std::chrono::nanoseconds(
      std::min<std::uint64_t>(wall_time, std::chrono::nanoseconds(most_wall_time).count()));
  // Of no meaning here, and still of a type.
  bool ignored = false;
  std::uint64_t number = 0;
  from.read("UseBM25Scoring", ignored);
  from.read("Trace", ignored);
  from.read("FlushWallTime", number);
}

}  // namespace

Result<ZoektSearch> parse_zoekt_search(std::string_view text) {
  auto value = parse_json(text);
  if (!value) return std::unexpected(value.error());
  std::string wrong;
  Fields from(*value, wrong);
  ZoektSearch search;
  from.read("Q", search.query);
  from.read("RepoIDs", search.repo_ids);
  if (const auto* options = from.find("Opts"))
    read_options(Fields(*options, wrong), search.options);
  if (auto good = check(wrong); !good) return std::unexpected(good.error());
  if (search.query.empty()) return fail(Errc::invalid, "Q is missing: the query");
  return search;
}

SearchAsk to_ask(const ZoektSearch& search) {
  const auto& options = search.options;
  SearchAsk ask;
  ask.repo_ids = search.repo_ids;
  ask.files = options.files == 0 ? most_files : std::min(options.files, most_files);
  ask.matches = options.matches == 0 ? usual_matches : std::min(options.matches, most_matches);
  // A file that is found has a match at least.
  ask.files_per_repo = options.matches_per_repo;
  ask.lines_per_file = options.shown_matches == 0 ? 10'000 : options.shown_matches;
  ask.context = options.context;
  ask.explains = options.explains;
  ask.keeps_line_ends = true;
  ask.line_bytes = 1u << 20;
  ask.answer_bytes = 8u << 20;
  ask.timeout =
      options.wall_time == 0ns
          ? usual_wall_time
          : std::max(std::chrono::ceil<std::chrono::milliseconds>(options.wall_time), 1ms);
  return ask;
}

Result<ZoektList> parse_zoekt_list(std::string_view text) {
  auto value = parse_json(text);
  if (!value) return std::unexpected(value.error());
  std::string wrong;
  Fields from(*value, wrong);
  ZoektList list;
  from.read("Q", list.query);
  std::uint64_t field = 0;
  if (const auto* options = from.find("Opts")) Fields(*options, wrong).read("Field", field);
  if (auto good = check(wrong); !good) return std::unexpected(good.error());
  if (field != 0 && field != 2)
    return fail(Errc::invalid, "Opts.Field is {}: use 0 for Repos, 2 for ReposMap", field);
  list.wants_map = field == 2;
  return list;
}

}  // namespace warren::fleet
