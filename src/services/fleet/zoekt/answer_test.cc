#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <set>

#include "base/base64.h"
#include "services/fleet/zoekt/api.h"

namespace warren::fleet {

namespace {

namespace json = boost::json;

// Fields with their JSON types, from zoekt's Go types (api.go, 2026-08-07). A type that ends with '?'
// may be null; a name that ends with '?' is left out when it is empty (omitempty).
using Fields = std::vector<std::pair<const char*, const char*>>;

const Fields search_result{{"ContentBytesLoaded", "int"},
                           {"IndexBytesLoaded", "int"},
                           {"Crashes", "int"},
                           {"Duration", "int"},
                           {"FileCount", "int"},
                           {"ShardFilesConsidered", "int"},
                           {"FilesConsidered", "int"},
                           {"FilesLoaded", "int"},
                           {"FilesSkipped", "int"},
                           {"ShardsScanned", "int"},
                           {"ShardsSkipped", "int"},
                           {"ShardsSkippedFilter", "int"},
                           {"MatchCount", "int"},
                           {"NgramMatches", "int"},
                           {"NgramLookups", "int"},
                           {"Wait", "int"},
                           {"MatchTreeConstruction", "int"},
                           {"MatchTreeSearch", "int"},
                           {"RegexpsConsidered", "int"},
                           {"FlushReason", "int"},
                           {"Files", "array?"},
                           {"RepoURLs", "object?"},
                           {"LineFragments", "object?"}};
const Fields file_match{{"FileName", "string"},
                        {"Repository", "string"},
                        {"SubRepositoryName?", "string"},
                        {"SubRepositoryPath?", "string"},
                        {"Version?", "string"},
                        {"Language", "string"},
                        {"Debug?", "string"},
                        {"Branches?", "array"},
                        {"LineMatches?", "array"},
                        {"ChunkMatches?", "array"},
                        {"Content?", "bytes"},
                        {"Checksum", "bytes?"},
                        {"Score?", "number"},
                        {"RepositoryPriority?", "number"},
                        {"RepositoryID?", "int"}};
const Fields line_match{{"Line", "bytes?"},         {"LineStart", "int"}, {"LineEnd", "int"},
                        {"LineNumber", "int"},      {"Before", "bytes?"}, {"After", "bytes?"},
                        {"FileName", "bool"},       {"Score", "number"},  {"DebugScore", "string"},
                        {"LineFragments", "array?"}};
const Fields line_fragment{
    {"LineOffset", "int"}, {"Offset", "int"}, {"MatchLength", "int"}, {"SymbolInfo", "object?"}};
const Fields chunk_match{{"DebugScore", "string"}, {"Content", "bytes?"},
                         {"Ranges", "array?"},     {"SymbolInfo", "array?"},
                         {"FileName", "bool"},     {"ContentStart", "object"},
                         {"Score", "number"},      {"BestLineMatch", "int"}};
const Fields range_fields{{"Start", "object"}, {"End", "object"}};
const Fields location_fields{{"ByteOffset", "int"}, {"LineNumber", "int"}, {"Column", "int"}};
const Fields repo_list{
    {"Repos", "array?"}, {"ReposMap", "object?"}, {"Crashes", "int"}, {"Stats", "object"}};
const Fields list_entry{{"Repository", "object"}, {"IndexMetadata", "object"}, {"Stats", "object"}};
const Fields repository{{"TenantID", "int"},
                        {"ID", "int"},
                        {"Name", "string"},
                        {"URL", "string"},
                        {"Metadata", "object?"},
                        {"Source", "string"},
                        {"Branches", "array?"},
                        {"SubRepoMap", "object?"},
                        {"CommitURLTemplate", "string"},
                        {"FileURLTemplate", "string"},
                        {"LineFragmentTemplate", "string"},
                        {"RawConfig", "object?"},
                        {"Rank", "int"},
                        {"IndexOptions", "string"},
                        {"HasSymbols", "bool"},
                        {"Tombstone", "bool"},
                        {"LatestCommitDate", "string"},
                        {"FileTombstones?", "object"}};
const Fields branch_fields{{"Name", "string"}, {"Version", "string"}};
const Fields index_metadata{{"IndexFormatVersion", "int"},    {"IndexFeatureVersion", "int"},
                            {"IndexMinReaderVersion", "int"}, {"IndexTime", "string"},
                            {"PlainASCII", "bool"},           {"LanguageMap", "object?"},
                            {"ZoektVersion", "string"},       {"ID", "string"}};
const Fields repo_stats{{"Repos", "int"},
                        {"Shards", "int"},
                        {"Documents", "int"},
                        {"IndexBytes", "int"},
                        {"ContentBytes", "int"},
                        {"NewLinesCount", "int"},
                        {"DefaultBranchNewLinesCount", "int"},
                        {"OtherBranchesNewLinesCount", "int"}};
const Fields minimal_entry{
    {"HasSymbols", "bool"}, {"Branches", "array?"}, {"IndexTimeUnix", "int"}};

bool is_of(const json::value& value, std::string_view type) {
  bool may_be_null = type.ends_with('?');
  if (may_be_null) type.remove_suffix(1);
  if (value.is_null()) return may_be_null;
  if (type == "int") return value.is_int64() || value.is_uint64();
  if (type == "number") return value.is_number();
  if (type == "string") return value.is_string();
  if (type == "bytes")
    return value.is_string() && from_base64(std::string_view(value.get_string()));
  if (type == "bool") return value.is_bool();
  if (type == "array") return value.is_array();
  return value.is_object();
}

// Exactly these, each of its type.
void check_fields(const json::object& object, const Fields& fields) {
  std::set<std::string_view> known;
  for (auto [name, type] : fields) {
    std::string_view plain = name;
    bool may_lack = plain.ends_with('?');
    if (may_lack) plain.remove_suffix(1);
    known.insert(plain);
    const auto* value = object.if_contains(plain);
    CHECK_MESSAGE((value || may_lack), plain << " is missing");
    if (value) CHECK_MESSAGE(is_of(*value, type), plain << " is no " << type);
  }
  for (const auto& member : object)
    CHECK_MESSAGE(known.contains(member.key()), member.key() << " is not a field of zoekt's");
}

search::LineMatch line(std::uint32_t number, std::uint64_t offset, std::string text,
                       std::vector<search::Range> ranges) {
  search::LineMatch one;
  one.line = number;
  one.offset = offset;
  one.text = std::move(text);
  one.ranges = std::move(ranges);
  return one;
}

// first\nsécond foo foo\nthird\nfoo\n
ZoektAnswer example() {
  ZoektAnswer whole;
  search::FileMatch file;
  file.repo = "h/a";
  file.path = "src/x.c";
  file.language = "C";
  file.blob = "00ff10";
  file.branches = {"main"};
  file.score = 12.5;
  file.match_count = 3;
  file.lines = {line(2, 6,
                     "s\xc3\xa9"
                     "cond foo foo\n",
                     {{8, 11}, {12, 15}}),
                line(4, 28, "foo\n", {{0, 3}})};
  whole.answer.files.push_back(file);
  search::FileMatch named;
  named.repo = "h/b";
  named.path = "foo.txt";
  named.path_ranges = {{0, 3}};
  whole.answer.files.push_back(named);
  whole.answer.file_count = 2;
  whole.answer.match_count = 4;
  ZoektRepo repo{.name = "h/a", .url = "https://h/a"};
  repo.id = 77;
  repo.priority = 3;
  repo.branches = {{"main", "c0ffee"}, {"old", "beef"}};
  whole.repos["h/a"] = repo;
  whole.missing = 1;
  whole.took = 1500ns;
  return whole;
}

json::object result_of(const ZoektAnswer& whole, const ZoektOptions& options) {
  auto value = json::parse(zoekt_result(whole, options));
  REQUIRE(value.as_object().size() == 1);
  return value.at("Result").as_object();
}
std::string bytes_at(const json::value& object, const char* name) {
  return *from_base64(std::string_view(object.at(name).as_string()));
}

}  // namespace

TEST_CASE("an answer has the fields of zoekt.SearchResult, each of its type, and no others") {
  auto result = result_of(example(), {});
  check_fields(result, search_result);
  CHECK(result.at("FileCount") == 2);
  CHECK(result.at("MatchCount") == 4);
  CHECK(result.at("Crashes") == 1);
  CHECK(result.at("Duration") == 1500);
  const auto& files = result.at("Files").as_array();
  REQUIRE(files.size() == 2);
  for (const auto& file : files) check_fields(file.as_object(), file_match);
  const auto& file = files[0].as_object();
  CHECK(file.at("FileName") == "src/x.c");
  CHECK(file.at("Repository") == "h/a");
  CHECK(file.at("Version") == "c0ffee");
  CHECK(file.at("RepositoryID") == 77);
  CHECK(file.at("Score") == 12.5);
  CHECK(bytes_at(file, "Checksum") == std::string("\x00\xff\x10", 3));
  CHECK_FALSE(file.contains("ChunkMatches"));
  const auto& lines = file.at("LineMatches").as_array();
  REQUIRE(lines.size() == 2);
  for (const auto& one : lines) {
    check_fields(one.as_object(), line_match);
    for (const auto& part : one.at("LineFragments").as_array())
      check_fields(part.as_object(), line_fragment);
  }
  CHECK(bytes_at(lines[0], "Line") ==
        "s\xc3\xa9"
        "cond foo foo\n");
  CHECK(lines[0].at("LineStart") == 6);
  CHECK(lines[0].at("LineEnd") == 22);
  CHECK(lines[0].at("LineNumber") == 2);
  CHECK(lines[0].at("Before").is_null());
  const auto& fragment = lines[0].at("LineFragments").at(1);
  CHECK(fragment.at("LineOffset") == 12);
  CHECK(fragment.at("Offset") == 18);
  CHECK(fragment.at("MatchLength") == 3);
  // A match of the path is a line that is the path.
  const auto& named = files[1].at("LineMatches").at(0);
  CHECK(named.at("FileName") == true);
  CHECK(bytes_at(named, "Line") == "foo.txt");
  CHECK(named.at("LineNumber") == 0);
  CHECK(files[1].at("Checksum").is_null());
}

TEST_CASE("chunks have their place in the file, counted in bytes, lines and characters") {
  auto whole = example();
  auto result = result_of(whole, {.wants_chunks = true});
  const auto& files = result.at("Files").as_array();
  CHECK_FALSE(files[0].as_object().contains("LineMatches"));
  const auto& chunks = files[0].at("ChunkMatches").as_array();
  REQUIRE(chunks.size() == 2);
  for (const auto& one : chunks) {
    check_fields(one.as_object(), chunk_match);
    check_fields(one.at("ContentStart").as_object(), location_fields);
    for (const auto& part : one.at("Ranges").as_array()) {
      check_fields(part.as_object(), range_fields);
      check_fields(part.at("Start").as_object(), location_fields);
      check_fields(part.at("End").as_object(), location_fields);
    }
  }
  const auto& start = chunks[0].at("Ranges").at(0).at("Start");
  CHECK(start.at("ByteOffset") == 14);
  CHECK(start.at("LineNumber") == 2);
  CHECK(start.at("Column") == 8);
  CHECK(chunks[0].at("Ranges").at(1).at("End").at("Column") == 15);
  CHECK(chunks[0].at("ContentStart").at("ByteOffset") == 6);
  CHECK(chunks[0].at("BestLineMatch") == 2);
  CHECK(files[1].at("ChunkMatches").at(0).at("FileName") == true);

  // With a line around each, they touch.
  auto& lines = whole.answer.files[0].lines;
  lines[0].before = {"first\n"};
  lines[0].after = {"third\n"};
  lines[1].before = {"third\n"};
  auto wide = result_of(whole, {.wants_chunks = true, .context = 1});
  const auto& one = wide.at("Files").at(0).at("ChunkMatches").as_array();
  REQUIRE(one.size() == 1);
  CHECK(bytes_at(one[0], "Content") ==
        "first\ns\xc3\xa9"
        "cond foo foo\nthird\nfoo\n");
  CHECK(one[0].at("ContentStart").at("ByteOffset") == 0);
  CHECK(one[0].at("ContentStart").at("LineNumber") == 1);
  CHECK(one[0].at("Ranges").as_array().size() == 3);

  // With two lines around each, those between are there once, and none is left out.
  lines[0].after = {"third\n", "fourth\n"};
  lines[1].before = {"fourth\n", "fifth\n"};
  lines[1].line = 6;
  auto wider = result_of(whole, {.wants_chunks = true, .context = 2});
  CHECK(bytes_at(wider.at("Files").at(0).at("ChunkMatches").at(0), "Content") ==
        "first\ns\xc3\xa9"
        "cond foo foo\nthird\nfourth\nfifth\nfoo\n");
  auto by_lines = result_of(whole, {.context = 1});
  CHECK(bytes_at(by_lines.at("Files").at(0).at("LineMatches").at(0), "Before") == "first\n");
}

TEST_CASE("as many matches are shown as were asked for") {
  auto count = [](std::uint64_t most, bool wants_chunks) {
    ZoektOptions options;
    options.shown_matches = most;
    options.wants_chunks = wants_chunks;
    auto result = result_of(example(), options);
    std::size_t matches = 0;
    for (const auto& file : result.at("Files").as_array()) {
      const auto& list = file.at(wants_chunks ? "ChunkMatches" : "LineMatches").as_array();
      for (const auto& one : list)
        matches += one.at(wants_chunks ? "Ranges" : "LineFragments").as_array().size();
    }
    return matches;
  };
  for (bool wants_chunks : {false, true}) {
    CHECK(count(0, wants_chunks) == 4);
    CHECK(count(1, wants_chunks) == 1);
    CHECK(count(3, wants_chunks) == 3);
    CHECK(count(99, wants_chunks) == 4);
  }
}

TEST_CASE("nothing found is null, as Go writes it") {
  auto result = result_of({}, {});
  check_fields(result, search_result);
  CHECK(result.at("Files").is_null());
}

TEST_CASE("a list has the fields of zoekt.RepoList, each of its type, and no others") {
  ZoektRepo repo{.name = "h/a", .url = "https://h/a"};
  repo.id = 77;
  repo.branches = {{"HEAD", "c0ffee"}};
  repo.files = 10;
  repo.text_bytes = 100;
  repo.memory_bytes = 130;
  repo.indexed_at = "2026-01-02T03:04:05Z";
  auto list = json::parse(zoekt_list({repo}, false)).at("List").as_object();
  check_fields(list, repo_list);
  check_fields(list.at("Stats").as_object(), repo_stats);
  CHECK(list.at("Stats").at("Repos") == 1);
  CHECK(list.at("Stats").at("IndexBytes") == 30);
  CHECK(list.at("ReposMap").is_null());
  const auto& entry = list.at("Repos").at(0).as_object();
  check_fields(entry, list_entry);
  check_fields(entry.at("Repository").as_object(), repository);
  check_fields(entry.at("IndexMetadata").as_object(), index_metadata);
  check_fields(entry.at("Stats").as_object(), repo_stats);
  check_fields(entry.at("Repository").at("Branches").at(0).as_object(), branch_fields);
  CHECK(entry.at("Repository").at("Name") == "h/a");

  auto map = json::parse(zoekt_list({repo}, true)).at("List").as_object();
  check_fields(map, repo_list);
  CHECK(map.at("Repos").is_null());
  check_fields(map.at("ReposMap").at("77").as_object(), minimal_entry);
  CHECK(map.at("ReposMap").at("77").at("IndexTimeUnix") == 1767323045);
}

TEST_CASE("requests are read as Go reads them") {
  auto search = parse_zoekt_search(
      R"({"q":"foo","RepoIDs":[1,2],"Unknown":[],"Opts":{"maxdocdisplaycount":7,"ChunkMatches":true,
          "MaxWallTime":1500000000,"NumContextLines":3,"TotalMaxMatchCount":9,"SpanContext":null}})");
  REQUIRE(search);
  CHECK(search->query == "foo");
  CHECK(search->repo_ids == std::vector<std::uint32_t>{1, 2});
  CHECK(search->options.files == 7);
  CHECK(search->options.wants_chunks);
  auto ask = to_ask(*search);
  CHECK(ask.timeout == 1500ms);
  CHECK(ask.files == 7);
  CHECK(ask.context == 3);
  CHECK(ask.matches == 9);
  CHECK(ask.keeps_line_ends);
  CHECK_FALSE(parse_zoekt_search(R"({"Q":"foo","RepoIDs":null})")->repo_ids);
  CHECK(parse_zoekt_search(R"({"Q":"foo","RepoIDs":[]})")->repo_ids->empty());
  for (const char* wrong :
       {"", "[]", "null", R"({})", R"({"Q":""})", R"({"Q":1})", R"({"Q":"x","Opts":[]})",
        R"({"Q":"x","Opts":{"MaxDocDisplayCount":"7"}})", R"({"Q":"x","RepoIDs":[-1]})",
        R"({"Q":"x","RepoIDs":[1.5]})", R"({"Q":"x","RepoIDs":7})",
        R"({"Q":"x","Opts":{"Whole":1}})", R"({"Q":"x","Opts":{"NumContextLines":1.5}})"})
    CHECK_MESSAGE(!parse_zoekt_search(wrong), wrong);
  CHECK(parse_zoekt_list("{}")->query.empty());
  CHECK(parse_zoekt_list(R"({"Q":"r:x","Opts":{"Field":2}})")->wants_map);
  CHECK_FALSE(parse_zoekt_list(R"({"Opts":{"Field":1}})"));
}

}  // namespace warren::fleet
