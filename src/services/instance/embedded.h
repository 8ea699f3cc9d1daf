#pragma once
// A private redis-server of one user, for whoever has no Redis: on a unix socket that only the user
// can reach, with an append-only file.
//
//   EmbeddedRedis redis(folder);
//   auto use = redis.use();               // while this is held it is not stopped
//   auto started = redis.start(deadline);
//   … redis.url() …
//
// Who uses it holds a shared lock on a file of its folder; the kernel gives that back when the
// process dies, however it dies. Whoever can lock that file alone may stop the server.
#include <filesystem>
#include <string>

#include "base/clock.h"
#include "base/error.h"

namespace warren {

class EmbeddedRedis {
 public:
  explicit EmbeddedRedis(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // A lock that is shared by its users, and inherited by children that are given the descriptor.
  class Use {
   public:
    explicit Use(int descriptor) : descriptor_(descriptor) {}
    ~Use();
    Use(Use&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    Use& operator=(Use&& other) noexcept {
      std::swap(descriptor_, other.descriptor_);
      return *this;
    }
    int descriptor() const { return descriptor_; }

   private:
    int descriptor_;
  };
  // Waits for whoever is about to stop the server.
  Result<Use> use() const;

  // One is there, even if it is too busy to answer.
  bool is_running() const;
  // Something was kept here: what instances that are stopped have on their boards.
  bool has_data() const;
  // Also after a crash that left a socket behind. Does nothing when it runs. Errc::unavailable: why
  // it does not start, in the server's own words. Errc::invalid: the folder cannot hold a socket.
  Result<> start(Clock::time_point deadline) const;
  // When nobody uses it any more; whether that is so is looked at until the deadline. Says whether
  // it was stopped.
  Result<bool> stop_if_unused(Clock::time_point deadline) const;

  std::filesystem::path socket() const { return folder_ / "redis.sock"; }
  std::string url() const { return "unix://" + socket().string(); }

 private:
  Result<std::string> ask(std::string_view command) const;
  Result<> start_server(Clock::time_point deadline) const;

  std::filesystem::path folder_;
};

}  // namespace warren
