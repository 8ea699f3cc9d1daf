#include "measure.h"
#include "search/index/symbols.h"
#include "search_measure.h"

namespace warren::bench {

namespace {

constexpr int warm_ups = 5, most_runs = 30, least_runs = 7;
constexpr double most_ms = 4000, most_warm_up_ms = 1000;

std::vector<Row>& judged() {
  static std::vector<Row> rows;
  return rows;
}

double sum(const std::vector<double>& times) {
  double all = 0;
  for (double time : times) all += time;
  return all;
}

std::string short_number(double value) {
  return value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

// Builds the index that `warren search` stores. Without that command, its measurements are skipped.
void index_for_processes(Stage& stage) {
  std::optional<bool> is_there;
  for (auto& one : stage.classes) {
    if (!one.ours) continue;
    if (!is_there) is_there = run_command(*one.ours).has_value();
    if (!*is_there) one.ours.reset();
  }
}

}  // namespace

void take_turns(std::vector<Contender>& contenders) {
  std::vector<bool> is_out(contenders.size());
  for (std::size_t i = 0; i < contenders.size(); ++i) is_out[i] = !contenders[i].once;
  auto run = [&](std::size_t i) {
    auto time = contenders[i].once();
    if (time) return contenders[i].times.push_back(*time);
    fmt::print(stderr, "search: {}\n", time.error().what);
    is_out[i] = true;
    contenders[i].times.clear();
  };
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    for (int n = 0; n < warm_ups && !is_out[i] && sum(contenders[i].times) < most_warm_up_ms; ++n)
      run(i);
    contenders[i].times.clear();
  }
  for (int round = 0; round < most_runs; ++round)
    for (std::size_t i = 0; i < contenders.size(); ++i)
      if (!is_out[i] && (round < least_runs || sum(contenders[i].times) < most_ms)) run(i);
}

search::SearchTerms counting(int threads) {
  return {.most_matches = 0, .most_files = 0, .threads = threads};
}
search::SearchTerms bounded() { return {.most_files = 50, .context_lines = 2}; }

std::span<const SegmentPtr> Stage::segments(const QueryClass& of) const {
  if (of.over == Over::repos) return repos;
  return {of.over == Over::symbols ? &with_symbols : &whole.indexed, 1};
}

Result<Stage> set_up(const std::string& package, bool with_all) {
  fmt::print(stderr, "search: loading {}\n", package);
  auto corpus = fetch_corpus(package);
  if (!corpus) return std::unexpected(corpus.error());
  Stage stage{.corpus = *corpus};
  auto whole = load_whole(*corpus);
  if (!whole) return std::unexpected(whole.error());
  stage.whole = std::move(*whole);
  std::vector<std::string> larger;
  for (const auto& skipped : stage.whole.indexed->skipped())
    if (skipped.reason.contains("more than")) larger.push_back(skipped.path);
  stage.classes = query_classes(stage.corpus, larger);
  index_for_processes(stage);
  if (!with_all) return stage;
  auto repos = load_repos(*corpus);
  if (!repos) return std::unexpected(repos.error());
  stage.repos = std::move(*repos);
  fmt::print(stderr, "search: {} files, and as {} repositories; symbols of {}\n",
             stage.whole.indexed->file_count(), stage.repos.size(), package);
  auto start = Clock::now();
  auto symbols = search::with_symbols(stage.whole.indexed);
  if (!symbols) return std::unexpected(symbols.error());
  stage.with_symbols = *symbols;
  if (stage.with_symbols->has_symbols())
    print({.bench = fmt::format("search.{}.symbols", package),
           .value = static_cast<double>(stage.whole.text_bytes) / 1e6 / seconds_since(start),
           .unit = "MB/s"});
  return stage;
}

void judge(const Row& row) {
  print(row);
  if (row.bar || (row.difference && !row.difference->empty())) judged().push_back(row);
}

void print_summary() {
  fmt::print(stderr, "\n| bar | ours | peer | ratio | bar | |\n|---|---|---|---|---|---|\n");
  for (const auto& row : judged()) {
    auto theirs =
        row.peer_value ? fmt::format("{} ({})", short_number(*row.peer_value), row.peer) : row.peer;
    auto ratio = row.peer_value ? short_number(row.value / *row.peer_value) : "";
    auto bar = row.bar ? fmt::format("{} {}", row.better == Better::higher ? "≥" : "≤",
                                     short_number(*row.bar))
                       : "";
    std::string_view end = row.bar && is_met(row) ? "met" : "**missed**";
    fmt::print(stderr, "| `{}` | {} {} | {} | {} | {} | {} |\n", row.bench, short_number(row.value),
               row.unit, theirs, ratio, bar, end);
  }
}

}  // namespace warren::bench
