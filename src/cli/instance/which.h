#pragma once
// Chooses an instance and its board, for the commands that examine one.
#include <boost/asio/signal_set.hpp>

#include "cli/instance/instances.h"
#include "services/board/store/board.h"

namespace warren::cli {

enum class Need {
  running,  // work on the board is being done
  data,     // a board exists, whether or not it is worked on
};

struct WhichOptions {
  CLI::Option *prefix = nullptr, *name = nullptr;
  std::string program = {};  // the name under which it was called
};
WhichOptions add_which(CLI::App& app);  // --prefix and --name

struct Which {
  std::string prefix, name;  // without a name: the instance of this folder
  std::string program;
};
Which which_of(const WhichOptions& options);

// The named one, otherwise the one whose workspace is this folder or the nearest folder above it.
// Errors: not_found if there is none; invalid if there are several, with a list of them.
Result<ListedInstance> choose_instance(const std::vector<ListedInstance>& instances,
                                       const Which& which, const std::string& here, Need need);

struct Chosen {
  Board board;
  // If it is stopped, only the name is known, and `state` is stale.
  ListedInstance instance;
};
// Signs that a board has an orchestrator, of Warren or of another program.
struct Signs {
  bool has_name = false;   // the lock of the instance is held
  bool has_board = false;  // an orchestrator of ours holds the board
  // Another program's orchestrator listens: to artefacts, but not to workflow events. Watchers
  // listen to both, here and in the Go program, and so does our orchestrator.
  bool is_heard = false;
  bool of_life() const { return (has_name && has_board) || is_heard; }
};
Async<Signs> signs_of(redis::Client& client, std::string prefix, std::string name);
awaitable<bool> is_run_elsewhere(redis::Client& client, std::string prefix, std::string name);

// Runs the body with the board of the chosen instance. With Need::data the instance may be stopped
// or dead. The board's indexes are complete, whichever program wrote to it.
Result<Exit> with_board(const Context& context, const Which& which, Need need,
                        const std::function<Async<Exit>(Chosen&)>& body);
// The same without an instance: passes only the client. Starts a stopped private Redis for the
// duration.
Result<Exit> with_registry(const Context& context, const std::string& program,
                           const std::function<Async<Exit>(redis::Client&)>& body);

// Returns when the user or the system wants the program to end.
awaitable<void> interrupted();
// The same with a signal set that exists longer than this call: a signal that arrives earlier is
// not lost, and one that arrives later does not kill the program during its cleanup.
awaitable<void> interrupted(asio::signal_set& signals);

}  // namespace warren::cli
