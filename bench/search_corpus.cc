#include "search_corpus.h"

#include <fmt/format.h>

#include <map>

#include "search_command.h"

namespace warren::bench {

namespace {

Result<std::string> folder_by(const std::string& script, const std::string& package) {
  Command command{.argv = {WARREN_SCRIPTS "/" + script, package},
                  .longest = std::chrono::minutes(30)};  // it may have to be downloaded
  auto done = run_command(command);
  if (!done) return std::unexpected(done.error());
  if (done->code != 0) return fail(Errc::unavailable, "{} {} failed", script, package);
  while (done->output.ends_with('\n')) done->output.pop_back();
  return done->output;
}

std::string repo_of(std::string_view path) {
  auto first = path.find('/');
  if (first == path.npos) return "top";
  auto second = path.find('/', first + 1);
  return std::string(path.substr(0, second == path.npos ? first : second));
}

}  // namespace

Result<Corpus> fetch_corpus(const std::string& package) {
  auto folder = folder_by("corpus", package);
  if (!folder) return std::unexpected(folder.error());
  auto repository = folder_by("corpus-git", package);
  if (!repository) return std::unexpected(repository.error());
  return Corpus{package, *folder, *repository};
}

Result<Whole> load_whole(const Corpus& corpus) {
  search::SegmentBuilder builder;
  Whole whole;
  auto source = search::read_directory(corpus.folder, file_limits, [&](search::Document&& next) {
    whole.text_bytes += next.text.size();
    return builder.add(std::move(next));
  });
  if (!source) return std::unexpected(source.error());
  auto scannable = builder.scannable(std::move(*source));
  if (!scannable) return std::unexpected(scannable.error());
  auto indexed = search::SegmentBuilder::with_index(**scannable, {});
  if (!indexed) return std::unexpected(indexed.error());
  whole.scannable = *scannable;
  whole.indexed = *indexed;
  whole.scannable->use_huge_pages();
  whole.indexed->use_huge_pages();
  return whole;
}

Result<std::vector<SegmentPtr>> load_repos(const Corpus& corpus) {
  std::map<std::string, search::SegmentBuilder> builders;
  auto source = search::read_directory(corpus.folder, file_limits, [&](search::Document&& next) {
    return builders[repo_of(next.path)].add(std::move(next));
  });
  if (!source) return std::unexpected(source.error());
  std::vector<SegmentPtr> segments;
  for (auto& [name, builder] : builders) {
    auto built =
        builder.build({.name = name, .version = source->version, .branches = {}, .skipped = {}});
    if (!built) return std::unexpected(built.error());
    segments.push_back(*built);
  }
  return segments;
}

}  // namespace warren::bench
