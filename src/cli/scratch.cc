#include "cli/scratch.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/clock.h"

namespace warren::cli {

namespace {

// Children are killed with us, but may take a moment longer to end.
constexpr auto patience = 5s;

[[noreturn]] void clean_up(const std::filesystem::path& folder, int lifeline) {
  setsid();
  for (int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_IGN);
  // Otherwise a reader of the command's output would wait for this process to end.
  int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nothing, stream);
  char byte = 0;
  while (::read(lifeline, &byte, 1) < 0 && errno == EINTR) continue;
  std::error_code ignored;
  for (auto end = Clock::now() + patience; Clock::now() < end;) {
    std::filesystem::remove_all(folder, ignored);
    if (!std::filesystem::exists(folder, ignored)) break;
    std::this_thread::sleep_for(20ms);
  }
  _exit(0);
}

}  // namespace

Result<Scratch> Scratch::create() {
  const char* keep = getenv("WARREN_KEEP");
  if (keep && *keep && std::strcmp(keep, "0") != 0) return Scratch(-1, 0);
  std::error_code error;
  auto place = std::filesystem::temp_directory_path(error);
  if (error) return fail(Errc::refused, "TMPDIR: {}", error.message());
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return fail(Errc::refused, "no pipe can be had");
  std::string folder = place / "warren-XXXXXX";
  if (!mkdtemp(folder.data()))
    return fail(Errc::refused, "{}: {}", place.string(), std::strerror(errno));
  auto janitor = fork();
  if (janitor < 0) {
    std::filesystem::remove(folder, error);
    return fail(Errc::refused, "no process can be had");
  }
  if (janitor == 0) {
    ::close(ends[1]);
    clean_up(folder, ends[0]);
  }
  ::close(ends[0]);
  setenv("TMPDIR", folder.c_str(), 1);
  return Scratch(ends[1], janitor);
}

Scratch::~Scratch() {
  if (lifeline_ < 0) return;
  ::close(lifeline_);
  int status = 0;
  waitpid(janitor_, &status, 0);
}

}  // namespace warren::cli
