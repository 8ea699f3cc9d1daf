#pragma once
// Which instance is meant, and its board, for the commands that look at one.
#include <boost/asio/signal_set.hpp>

#include "cli/instance/instances.h"
#include "services/board/store/board.h"

namespace warren::cli {

enum class Need {
  running,  // somebody works on what is put on the board
  data,     // there is a board, whether or not somebody works on it
};

struct WhichOptions {
  CLI::Option *prefix = nullptr, *name = nullptr;
  std::string program = {};  // that the person called
};
WhichOptions add_which(CLI::App& app);  // --prefix and --name

struct Which {
  std::string prefix, name;  // an empty name: the instance of this folder
  std::string program;
};
Which which_of(const WhichOptions& options);

// The one that is named; else the one whose workspace is this folder, or the nearest folder above
// it. Errc::not_found: there is none; Errc::invalid: there are several, and it lists them.
Result<ListedInstance> choose_instance(const std::vector<ListedInstance>& instances,
                                       const Which& which, const std::string& here, Need need);

struct Chosen {
  Board board;
  // If it is down, nothing but the name is known; `state` is stale then.
  ListedInstance instance;
};
// What shows that somebody orchestrates a board, whether or not it is a Warren.
struct Signs {
  bool has_name = false;   // somebody has the lock of the instance
  bool has_board = false;  // an orchestrator of ours has the board
  // One of another program listens: to artefacts, and not to what happens in workflows. Whoever
  // watches listens to both, here and in the Go program, and so does an orchestrator of ours.
  bool is_heard = false;
  bool of_life() const { return (has_name && has_board) || is_heard; }
};
Async<Signs> signs_of(redis::Client& client, std::string prefix, std::string name);
awaitable<bool> is_run_elsewhere(redis::Client& client, std::string prefix, std::string name);

// Runs the body with the board of the instance that is meant. With Need::data that may be one that
// was stopped, or died; what is read of it is complete, whoever wrote it.
Result<Exit> with_board(const Context& context, const Which& which, Need need,
                        const std::function<Async<Exit>(Chosen&)>& body);
// The same without an instance: with the client. A private Redis that is stopped runs meanwhile.
Result<Exit> with_registry(const Context& context, const std::string& program,
                           const std::function<Async<Exit>(redis::Client&)>& body);

// Returns when the person, or the system, wants the end.
awaitable<void> interrupted();
// The same with signals that are kept from their default for longer than this: one that comes
// before it is not lost, and one that comes after it does not kill who is putting things away.
awaitable<void> interrupted(asio::signal_set& signals);

}  // namespace warren::cli
