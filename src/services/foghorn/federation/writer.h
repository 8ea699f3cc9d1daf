#pragma once
// Records on their way to Redis: the newest of each key, many in one script, under the leader's
// token, together with what tells the other instances.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "primitives/lease/lease.h"
#include "services/foghorn/federation/record.h"

namespace warren::federation {

// What instances of a cluster tell each other of what others told.
struct Bulletin {
  std::string from;                    // instance
  std::vector<Record> records = {};    // without a value: deleted
  std::vector<std::string> kept = {};  // peers whose records live on
};
std::string to_json(const Bulletin& bulletin);
Result<Bulletin> parse_bulletin(std::string_view json);

class Writer {
 public:
  // The client outlives it.
  Writer(redis::Client& client, std::string cluster, std::string instance);

  // Wait until the leader writes them.
  void put(Record record);
  void keep(Record record);              // its ttl begins anew
  void announce_kept(std::string peer);  // and so does that of all its records, in memory
  // Writes what waits for as long as the lease lasts; returns when it finds that it does not.
  awaitable<void> run(Lease& lease);
  // What waits is of no use to anybody else.
  void drop();

  // At once, under a lease or none.
  Async<> write(std::vector<Record> records, const Lease* lease);

  std::size_t waiting() const { return waiting_.size(); }
  std::uint64_t written() const { return written_; }

 private:
  struct Waiting {
    Record record;
    bool is_kept = false;
  };
  std::vector<Waiting> take();
  void give_back(std::vector<Waiting> batch);
  Async<std::vector<std::size_t>> send(const std::vector<Waiting>& batch,
                                       std::vector<std::string> kept_peers, const Lease* lease);

  redis::Client& client_;
  std::string cluster_, instance_;
  std::map<std::string, Waiting> waiting_;  // by key
  std::set<std::string> kept_;
  Event arrived_;
  std::uint64_t written_ = 0;
};

}  // namespace warren::federation
