#pragma once
// A model of one redis-server (7.0) for the simulator, as a client sees it, without a socket.
//
//   ModelRedis server;
//   auto reply = server.run({"SET", "lease", "alice", "NX", "PX", "5000"}, now_us);
//
// Our real Lua scripts run in it. Time is an argument: the server's wall clock, which may step like
// any other. model_redis_test.cc runs the same commands on a real server and compares the replies,
// which have the shapes of RESP3.
//
// Where Redis leaves something open, the model chooses: members of a set and keys of a SCAN have an
// order of their own, and `~` trims a stream by nodes of 100 entries whatever their size. PUBLISH
// and SPUBLISH return 0: a script that decides by the number of listeners would decide differently
// when a replica runs it again. There is one database, no MULTI, and no math.random.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proof/sim/faults.h"
#include "proof/sim/model_keyspace.h"
#include "redis/resp/command.h"
#include "redis/resp/reply.h"
#include "redis/script.h"

namespace warren::sim {

using Words = std::vector<std::string>;  // a command; words[0] is its name

Words words_of(const redis::Command& command);
// A call by hash. From then on every model of this thread knows the script; a real client would
// send the source to a server that does not.
Words words_of(const redis::Script& script, Words keys, Words args);

class Execution;
enum class Place : std::uint8_t;

class ModelRedis {
 public:
  redis::Reply run(const Words& words, std::int64_t now_us);
  // The same, for words that can be remembered without copying them.
  redis::Reply run(const std::shared_ptr<const Words>& words, std::int64_t now_us,
                   Refuses refuses = Refuses::nothing, SlotState slots = SlotState::whole);
  // Where to run this while the slots of this server move.
  Place place_of(const Words& words, std::int64_t now_us, SlotState slots, bool is_asking);

  // What was published since the last call, in order.
  std::vector<Message> take_messages() { return std::exchange(messages_, {}); }

  // Everything that changed the data, in order; the length is the server's replication offset. A
  // script is one change. If a command that changes nothing finds an expired key, that is a DEL.
  struct Change {
    std::shared_ptr<const Words> words;  // shared by all servers that have the change
    std::int64_t now_us;
    SlotState slots = SlotState::whole;  // a script may have ended where a key was missing
  };
  const std::vector<Change>& changes() const { return changes_; }

  // Call on a replica that has all earlier changes. Has the same effect as on its primary, and
  // publishes nothing.
  void replay(const Change& change);

  // Keys that have not expired, and expired keys that no command has accessed; sorted.
  std::vector<std::string> keys() const;
  bool has(const std::string& key, std::int64_t now_us) const;
  // Like MIGRATE: moves a key to another server, whose clock shows another time, with the rest of
  // its ttl. Servers that follow the other one must be given a copy afterwards.
  void move_to(ModelRedis& other, const std::string& key, std::int64_t now_us,
               std::int64_t other_now_us);

 private:
  void note_expired(const Execution& x);

  Keyspace keys_;
  std::vector<Message> messages_;
  std::vector<Change> changes_;
};

}  // namespace warren::sim
