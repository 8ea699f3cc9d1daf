#include "services/fleet/autoscale/local.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"

namespace warren::fleet {

Async<> LocalDriver::set(ScaleWish wish) {
  bury();
  auto stays = [](const Process& process) { return !process.is_leaving; };
  auto staying = static_cast<std::size_t>(std::ranges::count_if(processes_, stays));
  // Those of others count, and a node that is starting is in our list before it is in the fleet.
  for (auto nodes = wish.nodes; staying < wish.wanted && nodes < wish.wanted; ++staying, ++nodes)
    if (auto started = start(); !started) co_return started;
  bool is_one_leaving = staying < processes_.size();
  if (wish.nodes <= wish.wanted || staying == 0 || is_one_leaving) co_return ok;
  auto& youngest = processes_.back();  // nobody is leaving, so it stays
  youngest.is_leaving = true;
  ::kill(youngest.pid, SIGTERM);
  log::info("autoscale.node_leaving", "number", youngest.number, "pid", youngest.pid);
  co_return ok;
}

bool LocalDriver::end() {
  bury();
  for (auto& process : processes_)
    if (!std::exchange(process.is_leaving, true)) ::kill(process.pid, SIGTERM);
  return processes_.empty();
}

Result<> LocalDriver::start() {
  int number = 1;
  while (std::ranges::find(processes_, number, &Process::number) != processes_.end()) ++number;
  auto words = words_;
  for (auto& word : words)
    if (auto mark = word.find("{}"); mark != word.npos)
      word.replace(mark, 2, std::to_string(number));
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  // A group of its own: Ctrl-C is for us, who end them in good order.
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  int error = posix_spawn(&pid, argv[0], nullptr, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  if (error != 0)
    return fail(Errc::unavailable, "{} cannot be started: {}", words[0], std::strerror(error));
  processes_.push_back({pid, number});
  log::info("autoscale.node_started", "number", number, "pid", pid);
  return ok;
}

void LocalDriver::bury() {
  std::erase_if(processes_, [](const Process& process) {
    int status = 0;
    auto ended = ::waitpid(process.pid, &status, WNOHANG);
    if (ended == 0 || (ended < 0 && errno == EINTR)) return false;
    bool is_orderly = process.is_leaving && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (is_orderly)
      log::info("autoscale.node_left", "number", process.number);
    else
      log::warn("autoscale.node_died", "number", process.number, "status", status);
    return true;
  });
}

}  // namespace warren::fleet
