#pragma once
// Files on their way to a client who reads them as they are found.
//
//   node ── file ──> add() ── worth it, and room ──> next() ── lines ──> client
//                       └── otherwise dropped: if it is on the page after all, it is sent with that
//
// So nobody waits for a client who reads slowly, and what waits for him is bounded.
#include <functional>
#include <map>
#include <queue>
#include <string>
#include <tuple>

#include "base/task.h"
#include "search/query/search.h"

namespace warren::fleet {

class FoundFiles {
 public:
  // `files`: how many a page has. 0: nothing is sent early.
  FoundFiles(const asio::any_io_executor& executor, std::size_t files)
      : files_(files), changed_(executor) {}

  // What a node has found; again and again the same, for all that matters here.
  void add(const search::FileMatch& file);
  // Nothing more is added.
  void end();
  // Lines that are to be sent. Empty: it has ended, or the caller was cancelled.
  awaitable<std::string> next();

  // Which line is this file's, from 0; adds the line to `out` if it was not sent early.
  std::size_t place_of(const search::FileMatch& file, std::string& out);

 private:
  using Key = std::tuple<std::string, std::string, std::string>;  // repository, path, blob
  static Key key_of(const search::FileMatch& file) { return {file.repo, file.path, file.blob}; }

  std::size_t files_;
  // The scores of the best that were sent, the worst of them first.
  std::priority_queue<double, std::vector<double>, std::greater<>> best_;
  std::map<Key, std::size_t> places_;
  std::string waiting_;
  bool has_ended_ = false;
  Event changed_;
};

}  // namespace warren::fleet
