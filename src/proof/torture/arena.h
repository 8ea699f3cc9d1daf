#pragma once
// Private servers that are made to fail: one Redis, one primary with replicas and sentinels, or a
// cluster; or whatever other servers a place has. Every fault has a name, lasts for a while, and is
// over when its `end` returns.
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "proof/history/history.h"
#include "proof/testkit/faulty_link.h"
#include "proof/testkit/servers/redis_server.h"
#include "redis/settings.h"

namespace warren::torture {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::size_t below(std::size_t count) { return engine_() % count; }
  double unit() { return std::uniform_real_distribution<>(0, 1)(engine_); }
  std::uint64_t next() { return engine_(); }
  template <class T>
  const T& one_of(const std::vector<T>& things) {
    return things[below(things.size())];
  }

 private:
  std::mt19937_64 engine_;
};

struct Fault {
  std::string name;
  Clock::duration length;
  std::function<void()> end;
  // Servers lost data, or their clocks stepped.
  bool is_lossy = false;
  // The servers lost all data, including the writes that a token protects.
  bool forgets = false;
  // Keys with a ttl may live this much longer, because the clock was set back.
  Clock::duration aftermath{};
};

class Place {
 public:
  virtual ~Place() = default;
  virtual std::string name() const = 0;
  // Begins the next fault; the previous one has ended.
  virtual Fault begin_fault(Random& random) = 0;
  // Returns when everything works again.
  virtual void settle() = 0;
};

class Arena : public Place {
 public:
  // The settings with which the worker of this number connects.
  virtual redis::Settings settings(std::size_t worker) const = 0;
  // Only grants that all replicas have count here.
  virtual bool is_replicated() const { return false; }
  // The server that has the key now.
  virtual RedisServer& owner(const std::string& key) = 0;
  virtual std::vector<RedisServer*> servers() = 0;
};

enum class ArenaKind { single, sentinel, cluster };
struct ArenaOptions {
  std::size_t workers = 4;
  std::chrono::milliseconds ttl = 1s;
  std::filesystem::path clock_shim;  // empty: clocks do not step
  // The keys that the faults of a cluster aim at; empty: the leases.
  std::vector<std::string> keys = {};
};
// Cuts, silences or delays one link, for at most this long.
Fault link_fault(FaultyLink& link, Clock::duration length, Random& random);
std::unique_ptr<Arena> make_arena(ArenaKind kind, const ArenaOptions& options);

}  // namespace warren::torture
