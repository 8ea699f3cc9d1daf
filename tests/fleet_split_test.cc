// The queries of the comparison with ripgrep, asked over HTTP of fleets of one, two and four nodes, and
// of the same repositories in this process: the answers are the same. The repositories are cut from the
// source of a Debian package. Each day a ninth of the queries is asked; WARREN_QUERIES=all asks all.
#include "proof/torture/schedules/daily_seed.h"
#include "search_fetched.h"
#include "search_odd_files.h"
#include "search_ripgrep_queries.h"
#include "tests/with_router.h"

namespace warren::fleet {

namespace {

using search::SegmentList;

// Files of one folder are in the same repository.
void fill(Orchard& orchard, const std::string& root, std::size_t count) {
  std::map<std::size_t, Orchard::Repository*> by_name;
  auto take = [&](search::Document&& document) {
    auto folder = document.path.substr(0, document.path.rfind('/') + 1);
    auto& repository = by_name[repo_id_of(folder) % count];
    if (!repository) repository = &orchard.repositories.emplace_back();
    repository->write(document.path, document.text);
    return Result<>(ok);
  };
  REQUIRE(search::read_directory(root, {}, take));
  for (const auto& [name, repository] : by_name) {
    repository->run({"add", "-A", "-f"});
    repository->commit();
  }
}

// The same in this process, as nodes have it.
SegmentList segments_of(const Orchard& orchard) {
  SegmentList segments;
  for (std::size_t i = 0; i < orchard.repositories.size(); ++i) {
    search::SegmentBuilder builder({.threads = 1});
    auto source = search::read_repository(
        orchard.url(static_cast<int>(i)), {"HEAD"}, {},
        [&](search::Document&& document) { return builder.add(std::move(document)); });
    REQUIRE(source);
    source->name = fmt::format("r{}", i);
    auto built = builder.build(*std::move(source));
    REQUIRE(built);
    segments.push_back(*std::move(built));
  }
  return segments;
}

std::string text_of(const search::Answer& answer) {
  auto text = fmt::format("{} matches in {} files, about {}; {} {}\n", answer.match_count,
                          answer.file_count, answer.estimated_matches, answer.is_complete,
                          answer.why_incomplete);
  for (const auto& file : answer.files) {
    text += fmt::format("{:.9g} {} {} {}\n", file.score, file.repo, file.path, file.match_count);
    for (const auto& line : file.lines) {
      text += fmt::format("  {} {}", line.line, line.text);
      for (const auto& range : line.ranges) text += fmt::format(" {}-{}", range.begin, range.end);
      text += '\n';
    }
    for (const auto& [repo, path] : file.same) text += fmt::format("  = {}:{}\n", repo, path);
  }
  return text + answer.next;
}

// Two pages of one query, and the first of a narrower one.
struct Question {
  SearchAsk ask;
  int pages = 1;
};
std::vector<Question> todays_questions() {
  const char* asked = std::getenv("WARREN_QUERIES");
  bool asks_all = asked && std::string_view(asked) == "all";
  auto part = torture::daily_seed() / torture::daily_seeds % 9;
  MESSAGE("WARREN_SEED=" << torture::daily_seed() << " asks these queries again");
  std::vector<Question> questions;
  std::size_t place = 0;
  for (const auto& one : search::ripgrep_cases()) {
    if (place++ % 9 != part && !asks_all) continue;
    auto ask = ask_for(one.query);
    ask.timeout = 60s;
    ask.context = 1;
    questions.push_back({ask, 2});
    ask.matches = place % 2 == 0 ? 500 : 2000;
    ask.collapses = place % 2 == 1;
    ask.files_per_repo = place % 2 == 1 ? 4 : 0;
    questions.push_back({std::move(ask)});
  }
  CHECK(questions.size() >= 2 * (asks_all ? 267 : 29));
  return questions;
}

// One text for each page.
struct Answers {
  std::vector<std::string> pages = {};
  std::size_t with_files = 0;

  void add(const search::Answer& answer) {
    pages.push_back(text_of(answer));
    with_files += !answer.files.empty();
  }
};

Answers answers_here(const SegmentList& segments, const std::vector<Question>& questions) {
  Answers answers;
  for (auto [ask, pages] : questions) {
    auto query = search::parse_query(ask.query);
    REQUIRE(query);
    for (int page = 0; page < pages; ++page) {
      auto terms = terms_of(ask, Clock::now());
      terms.deadline = Clock::time_point::max();
      auto answer = search::search(segments, *query, terms);
      REQUIRE(answer);
      answers.add(*answer);
      ask.cursor = answer->next;
      if (ask.cursor.empty()) break;
    }
  }
  return answers;
}

awaitable<Answers> answers_of(Router& router, const std::vector<Question>& questions) {
  Answers answers;
  for (auto [ask, pages] : questions) {
    for (int page = 0; page < pages; ++page) {
      auto body = to_json(ask);
      auto reply = co_await post(router, "/v1/search", std::move(body));
      REQUIRE_MESSAGE(reply.status == 200, ask.query << ": " << reply.body);
      std::vector<Missing> missing;
      auto answer = parse_answer(reply.body, missing);
      REQUIRE(answer);
      REQUIRE(missing.empty());
      answers.add(*answer);
      ask.cursor = answer->next;
      if (ask.cursor.empty()) break;
    }
  }
  co_return answers;
}

awaitable<Answers> answers_of_fleet(Fleet& fleet, const std::vector<Question>& questions,
                                    int nodes) {
  auto& router = fleet.start_router();
  for (int i = 0; i < nodes; ++i) fleet.start_node(fleet.node_settings(fmt::format("n{}", i), 30s));
  auto are_there = [](Router& by, int& count) {
    return by.table().nodes().size() == static_cast<std::size_t>(count);
  };
  co_await eventually(60s, "all nodes are there", are_there, router, nodes);
  auto all = fleet.orchard.repositories.size();
  co_await fleet.add(0, static_cast<int>(all));
  auto are_known = [](Router& by, std::size_t& count) {
    return by.table().repos().size() == count;
  };
  co_await eventually(60s, "all repositories are known", are_known, router, all);
  co_await router.settled();
  for (const auto& node : fleet.nodes) CHECK(node.part->info().repos > 0);
  auto answers = co_await answers_of(router, questions);
  co_return answers;
}

TEST_CASE("answers over HTTP are the same from one node, from two, from four, and from here") {
  TempFolder folder;
  auto corpus = search::fetched_corpus(folder.path() / "log");
  search::write_odd_files(folder.path() / "odd");
  Orchard orchard(0);
  fill(orchard, corpus.folder, 20);
  fill(orchard, folder.path() / "odd", 4);
  REQUIRE(orchard.repositories.size() > 12);
  auto questions = todays_questions();
  auto here = answers_here(segments_of(orchard), questions);
  CHECK(here.with_files * 10 > here.pages.size() * 6);
  for (int nodes : {1, 2, 4}) {
    CAPTURE(nodes);
    Answers there;
    with_fleet(orchard, [&](Fleet& fleet, RedisPlace&) {
      return [](Fleet& of, const std::vector<Question>& all, int count,
                Answers& into) -> awaitable<void> {
        into = co_await answers_of_fleet(of, all, count);
      }(fleet, questions, nodes, there);
    });
    REQUIRE(there.pages.size() == here.pages.size());
    for (std::size_t i = 0; i < here.pages.size(); ++i) CHECK(there.pages[i] == here.pages[i]);
  }
  MESSAGE(questions.size(), " questions, ", here.pages.size(), " pages, ", here.with_files,
          " of them with files, over ", orchard.repositories.size(), " repositories");
}

}  // namespace

}  // namespace warren::fleet
