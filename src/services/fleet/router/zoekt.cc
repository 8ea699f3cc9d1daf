// POST /api/search and /api/list, for clients of zoekt.
#include <algorithm>

#include "services/fleet/router/router.h"
#include "services/fleet/wire/files.h"
#include "services/fleet/zoekt/api.h"
#include "services/fleet/zoekt/query.h"

namespace warren::fleet {

namespace {

constexpr std::size_t most_whole_files = 1'000;
constexpr std::size_t most_whole_bytes = 32u << 20;

std::string branch_name(std::string_view ref) {
  constexpr std::string_view heads = "refs/heads/";
  if (ref.starts_with(heads)) ref.remove_prefix(heads.size());
  return std::string(ref);
}

// Commits of a note stand in the order of the refs.
std::vector<ZoektRepo::Branch> branches_of(const RepoSpec& spec, std::string_view commits) {
  auto refs = spec.refs;
  if (refs.empty()) refs.emplace_back("HEAD");
  std::ranges::sort(refs);
  std::vector<ZoektRepo::Branch> branches;
  for (const auto& ref : refs) {
    auto commit = commits.substr(0, commits.find(' '));
    commits.remove_prefix(std::min(commits.size(), commit.size() + 1));
    branches.push_back({branch_name(ref), std::string(commit)});
  }
  return branches;
}

ZoektRepo repo_of(const std::string& name, const Table::Repo& repo) {
  ZoektRepo shown{.name = name, .url = repo.spec.url};
  shown.id = repo_id_of(name);
  shown.priority = repo.spec.priority;
  shown.is_archived = repo.spec.is_archived;
  shown.is_fork = repo.spec.is_fork;
  shown.is_private = repo.spec.is_private;
  if (repo.slots.empty()) return shown;
  const auto& note = repo.slots.begin()->second.note;
  shown.branches = branches_of(repo.spec, note.commit_hash);
  shown.files = note.files;
  shown.text_bytes = note.size_bytes;
  shown.memory_bytes = note.memory_bytes;
  shown.indexed_at = note.last_indexed_at;
  return shown;
}

// `query`: as we read it, which is what the error is about.
void put_zoekt_error(HttpAnswer& answer, const Error& error, std::string_view query = "") {
  bool is_wrong = error.code == Errc::invalid;
  auto what = error.what;
  if (is_wrong && !query.empty()) what += fmt::format(", in {}", query.substr(0, 200));
  answer.status = is_wrong ? 400 : 503;
  answer.body = zoekt_error(what);
}

void limit(SearchAsk& ask, const ZoektQuery& query) {
  ask.query = query.text;
  ask.is_archived = query.is_archived;
  ask.is_fork = query.is_fork;
  ask.is_private = query.is_private;
}

}  // namespace

HttpServer::Work Router::handle_zoekt(const HttpRequest& request, HttpAnswer& answer) {
  auto client = request.client.to_string();
  if (request.method != "POST") {
    answer.status = 405;
    answer.add("Allow", "POST");
    answer.body = zoekt_error("use POST");
  } else if (request.path == "/api/search") {
    auto search = parse_zoekt_search(request.body);
    if (search) return answer_zoekt_search(*std::move(search), std::move(client), answer);
    put_zoekt_error(answer, search.error());
  } else if (request.path == "/api/list") {
    auto list = parse_zoekt_list(request.body);
    if (list) return answer_zoekt_list(*std::move(list), std::move(client), answer);
    put_zoekt_error(answer, list.error());
  } else {
    answer.status = 404;
    answer.body = zoekt_error("there is /api/search and /api/list");
  }
  return std::nullopt;
}

// Where all have one ref, that is the default branch.
Result<ZoektQuery> Router::zoekt_query(const std::string& text) const {
  auto query = parse_zoekt_query(text);
  if (!query || !query->is_of_head) return query;
  for (const auto& [name, repo] : table_.repos())
    if (repo.spec.refs.size() > 1)
      return fail(Errc::invalid, "branch:HEAD: {} has several branches here; name one of them",
                  name);
  return query;
}

awaitable<void> Router::answer_zoekt_search(ZoektSearch asked, std::string client,
                                            HttpAnswer& answer) {
  auto begin = Clock::now();
  auto query = zoekt_query(asked.query);
  if (!query) co_return put_zoekt_error(answer, query.error());
  auto ask = to_ask(asked);
  limit(ask, *query);
  ask.client = std::move(client);
  auto limits = table_.limits_of(ask);
  ZoektAnswer whole;
  for (const auto& [name, repo] : table_.repos()) {
    if (limits && !std::ranges::binary_search(*limits, name)) continue;
    ++whole.searched;
    if (!repo.slots.empty()) whole.files_considered += repo.slots.begin()->second.note.files;
  }
  if (!asked.options.estimates) {
    std::vector<Missing> missing;
    auto found = co_await search(std::move(ask), missing);
    if (!found) co_return put_zoekt_error(answer, found.error(), query->text);
    count_answer(missing);
    whole.answer = *std::move(found);
    whole.missing = missing.size();
    whole.searched -= std::min(whole.searched, missing.size());
  }
  for (const auto& file : whole.answer.files) {
    auto repo = table_.repos().find(file.repo);
    if (repo != table_.repos().end())
      whole.repos.try_emplace(file.repo, repo_of(file.repo, repo->second));
  }
  if (asked.options.is_whole) co_await add_texts(whole, Clock::now() + 10s);
  whole.took = Clock::now() - begin;
  answer.body = zoekt_result(whole, asked.options);
}

// As many as there is room for: those who want more ask for fewer files.
awaitable<void> Router::add_texts(ZoektAnswer& whole, Clock::time_point deadline) {
  std::size_t bytes = 0;
  auto count = std::min(whole.answer.files.size(), most_whole_files);
  for (std::size_t i = 0; i < count && bytes < most_whole_bytes && Clock::now() < deadline; ++i) {
    const auto& file = whole.answer.files[i];
    FileAsk ask{.repo = file.repo, .path = file.path};
    if (!file.branches.empty()) ask.branch = file.branches[0];
    ask.most_bytes = most_file_bytes;
    std::vector<Missing> missing;
    auto reply = co_await ask_owner(file.repo, "/v1/file?" + to_query(ask), deadline, missing);
    if (!reply || reply->status != 200) continue;
    auto text = parse_file_text(reply->body);
    // Of another commit by now.
    if (!text || text->blob != file.blob) continue;
    bytes += text->text.size();
    whole.texts[i] = std::move(text->text);
  }
}

awaitable<void> Router::answer_zoekt_list(ZoektList asked, std::string client, HttpAnswer& answer) {
  using Verdict = search::RepoFilter::Verdict;
  if (!knows_rows_ || !knows_nodes_) co_return put_loading(answer);
  auto query = zoekt_query(asked.query);
  if (!query) co_return put_zoekt_error(answer, query.error());
  auto read_as = co_await read(query->text);
  if (!read_as) co_return put_zoekt_error(answer, read_as.error(), query->text);
  const auto& filter = read_as->filter;
  SearchAsk ask;
  limit(ask, *query);
  auto limits = table_.limits_of(ask);
  std::vector<std::string> names;
  bool is_decided = true;
  for (const auto& [name, repo] : table_.repos()) {
    if (limits && !std::ranges::binary_search(*limits, name)) continue;
    auto verdict = filter.says(name);
    if (verdict != Verdict::no) names.push_back(name);
    is_decided = is_decided && verdict != Verdict::maybe;
  }
  if (!is_decided) {
    ask.query += " select:repo";
    ask.files = 10'000;
    ask.answer_bytes = 8u << 20;
    ask.timeout = 20s;
    ask.client = std::move(client);
    std::vector<Missing> missing;
    auto found = co_await search(std::move(ask), missing);
    if (!found) co_return put_zoekt_error(answer, found.error());
    names.clear();
    for (const auto& file : found->files) names.push_back(file.repo);
    std::ranges::sort(names);
  }
  std::vector<ZoektRepo> repos;
  for (const auto& name : names) {
    auto repo = table_.repos().find(name);
    if (repo != table_.repos().end()) repos.push_back(repo_of(name, repo->second));
  }
  answer.body = zoekt_list(repos, asked.wants_map);
}

}  // namespace warren::fleet
