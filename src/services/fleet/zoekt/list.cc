// The repositories of a fleet, as a client of zoekt lists them.
#include <boost/json.hpp>

#include "base/utf8.h"
#include "services/fleet/zoekt/api.h"

namespace warren::fleet {

namespace {

namespace json = boost::json;

constexpr auto no_time = "0001-01-01T00:00:00Z";  // Go's zero

const char* flag(bool is) { return is ? "1" : "0"; }

json::array branches_of(const ZoektRepo& repo) {
  json::array branches;
  for (const auto& branch : repo.branches)
    branches.push_back(
        json::object{{"Name", valid_utf8(branch.name)}, {"Version", valid_utf8(branch.version)}});
  return branches;
}

json::object repository(const ZoektRepo& repo) {
  json::object config{{"archived", flag(repo.is_archived)},
                      {"fork", flag(repo.is_fork)},
                      {"public", flag(!repo.is_private)},
                      {"repoid", std::to_string(repo.id)}};
  if (repo.priority != 0) config["priority"] = std::to_string(repo.priority);
  return {{"TenantID", 0},
          {"ID", repo.id},
          {"Name", valid_utf8(repo.name)},
          {"URL", valid_utf8(repo.url)},
          {"Metadata", nullptr},
          {"Source", valid_utf8(repo.url)},
          {"Branches", branches_of(repo)},
          {"SubRepoMap", nullptr},
          {"CommitURLTemplate", ""},
          {"FileURLTemplate", ""},
          {"LineFragmentTemplate", ""},
          {"RawConfig", std::move(config)},
          {"Rank", 0},
          {"IndexOptions", ""},
          {"HasSymbols", true},
          {"Tombstone", false},
          {"LatestCommitDate", no_time}};
}

json::object metadata(const ZoektRepo& repo) {
  return {{"IndexFormatVersion", 0},
          {"IndexFeatureVersion", 0},
          {"IndexMinReaderVersion", 0},
          {"IndexTime", repo.indexed_at.empty() ? no_time : repo.indexed_at},
          {"PlainASCII", false},
          {"LanguageMap", nullptr},
          {"ZoektVersion", ""},
          {"ID", ""}};
}

struct Totals {
  std::uint64_t repos = 0, shards = 0, files = 0, index_bytes = 0, text_bytes = 0;

  void add(const ZoektRepo& repo) {
    ++shards;
    files += repo.files;
    text_bytes += repo.text_bytes;
    index_bytes += repo.memory_bytes > repo.text_bytes ? repo.memory_bytes - repo.text_bytes : 0;
  }
  json::object object() const {
    return {{"Repos", repos},
            {"Shards", shards},
            {"Documents", files},
            {"IndexBytes", index_bytes},
            {"ContentBytes", text_bytes},
            {"NewLinesCount", 0},
            {"DefaultBranchNewLinesCount", 0},
            {"OtherBranchesNewLinesCount", 0}};
  }
};

std::int64_t unix_time(const std::string& iso) {
  std::tm time{};
  const char* end = strptime(iso.c_str(), "%Y-%m-%dT%H:%M:%S", &time);
  return end == nullptr ? 0 : static_cast<std::int64_t>(timegm(&time));
}

}  // namespace

std::string zoekt_list(const std::vector<ZoektRepo>& repos, bool wants_map) {
  Totals totals;
  totals.repos = repos.size();
  json::array entries;
  json::object map;
  for (const auto& repo : repos) {
    totals.add(repo);
    Totals own;
    own.add(repo);
    if (wants_map)
      map[std::to_string(repo.id)] = {{"HasSymbols", true},
                                      {"Branches", branches_of(repo)},
                                      {"IndexTimeUnix", unix_time(repo.indexed_at)}};
    else
      entries.push_back(json::object{{"Repository", repository(repo)},
                                     {"IndexMetadata", metadata(repo)},
                                     {"Stats", own.object()}});
  }
  json::object list{{"Repos", entries.empty() ? json::value() : json::value(std::move(entries))},
                    {"ReposMap", wants_map ? json::value(std::move(map)) : json::value()},
                    {"Crashes", 0},
                    {"Stats", totals.object()}};
  return json::serialize(json::object{{"List", std::move(list)}});
}

}  // namespace warren::fleet
