#pragma once
// How deep, how large and how old workflows are: only for whoever has limits on them, or has
// cancelled one.
//
// A workflow is read once, from its goal down, and then counted with the events. An artefact with
// several sources belongs to the workflow of the first. A workflow began when its goal was heard of;
// the stamp of a goal, by whatever clock, is asked once, where nobody here heard of it.
#include <deque>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "services/board/orchestrator/decide.h"
#include "services/board/store/board.h"

namespace warren::orchestrator {

// The goal that an artefact came of, by its first sources; itself when it has none.
Async<std::string> goal_of(Board board, std::string artefact_id);

class Workflows {
 public:
  explicit Workflows(Board board) : board_(std::move(board)) {}

  Async<Standing> standing(std::string artefact_id);
  void on_artefact(const board::Artefact& artefact);
  // Something may have been missed.
  void forget();

 private:
  struct Node {
    std::string goal;
    int depth = 0;
  };
  struct Workflow {
    int artefacts = 0;
    Clock::time_point started_at{};
  };
  Async<> read(std::string goal);
  Clock::time_point start_of(const std::string& goal, board::UnixTime stamp);
  void note_start(const std::string& goal, Clock::time_point at);
  void add(const std::string& id, const std::string& source);

  Board board_;
  std::unordered_map<std::string, Node> nodes_;
  std::unordered_map<std::string, Workflow> workflows_;
  // Of goals, whatever else is forgotten; the oldest goes first.
  std::unordered_map<std::string, Clock::time_point> starts_;
  std::deque<std::string> goals_;
  int reading_ = 0;
  std::uint64_t forgotten_ = 0;
  std::vector<std::pair<std::string, std::string>> heard_;  // while something is read
};

}  // namespace warren::orchestrator
