#pragma once
// For tests of what hostile or unlucky input does to searching.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <time.h>

#include <map>

#include "search/index/test_texts.h"
#include "search/query/search.h"
#include "search/source/test_repository.h"
#include "search_kinds.h"

namespace warren::search {

using std::chrono::duration_cast;

struct Read {
  std::vector<Document> documents;
  Source source;
  std::map<std::string, std::string> skipped;
};

inline Result<Read> read_all(const fs::path& path, const SourceLimits& limits = {}) {
  Read read;
  auto take = [&](Document&& document) {
    read.documents.push_back(std::move(document));
    return Result<>(ok);
  };
  auto source = fs::exists(path / ".git") || fs::exists(path / "objects")
                    ? read_repository(path.string(), {}, limits, take)
                    : read_directory(path.string(), limits, take);
  if (!source) return std::unexpected(source.error());
  read.source = std::move(*source);
  for (const auto& one : read.source.skipped) read.skipped[one.path] = one.reason;
  return read;
}

// CPU time of this thread, which a busy machine does not lengthen.
inline Clock::duration used() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

struct Timed {
  Answer answer;
  std::int64_t cpu_ms = 0;
};

inline Timed timed(const SegmentList& list, std::string_view text, SearchTerms terms,
                   Clock::duration allowed) {
  auto query = parse_query(text);
  REQUIRE_MESSAGE(query, (query ? "" : query.error().what));
  auto before = used();
  terms.deadline = Clock::now() + allowed;
  auto answer = search(list, *query, terms);
  REQUIRE_MESSAGE(answer, (answer ? "" : answer.error().what));
  return {std::move(*answer), duration_cast<std::chrono::milliseconds>(used() - before).count()};
}

inline std::size_t open_files() {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), {}));
}

inline bool has_children() { return waitpid(-1, nullptr, WNOHANG) != -1; }

}  // namespace warren::search
