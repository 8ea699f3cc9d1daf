#pragma once
// One simulated node of a catalog: does what RedisCatalog, NodeLease and a worker do, without
// coroutines.
#include <map>
#include <string>
#include <vector>

#include "primitives/catalog/node_machine.h"
#include "proof/sim/servers.h"
#include "proof/torture/catalog_keeper.h"
#include "proof/torture/schedules/catalog_sim.h"
#include "redis/script.h"

namespace warren::torture {

// Each includes catalog.lua, and one of them may have a mistake.
struct CatalogScripts {
  redis::Script node, claim, owner, rows, look;
};
const CatalogScripts& scripts_with(CatalogMistake mistake);

inline constexpr auto simulated_ttl = 400ms;
inline constexpr auto look_pause = 200ms;  // if the message about a change was lost
inline constexpr history::RowId simulated_rows = 3;

// What the nodes of a schedule share.
struct CatalogWorld {
  sim::World& world;
  history::CatalogHistory& history;
  CatalogMistake mistake;
  const CatalogScripts& scripts;
  sim::Words keys;  // as catalog.lua needs them
  std::function<void(const char* invariant, std::string what)> found;
  std::function<NodeSession()> some_session;  // of some node
  std::size_t writes_refused = 0, strays = 0, restarts = 0;
};

// Parses a row of the hash, in the format of catalog.lua.
std::optional<Row> parse_record(std::string key, std::string_view record);

class SimulatedNode {
 public:
  SimulatedNode(CatalogWorld& all, sim::Connection& connection, history::ProcessId id);
  void begin_life();
  void die();
  void sleep(Clock::duration time);
  void miss_messages() { connection_.break_link(sim::Socket::messages); }
  bool is_dead() const { return connection_.is_closed(); }
  Clock::time_point awake_at() const { return awake_at_; }
  const NodeSession& session() const { return machine_.session(); }
  bool believes_in(const std::string& key) const {
    return keeper_.holds(key) && machine_.may_serve(now());
  }
  std::uint64_t digest() const { return keeper_.digest(); }  // of what it was told
  void settle() { is_settling_ = true; }
  void be_still() { is_still_ = true; }
  void note_contents(std::uint64_t catalog) { keeper_.note_contents(all_.world.now(), catalog); }

 private:
  using Answer = std::function<void(const Result<redis::Reply>&)>;
  Clock::time_point now() const { return all_.world.now(); }
  void call(const redis::Script& script, const char* what, sim::Words words, Answer answer,
            redis::Lane lane = redis::Lane::data);
  void call_granting(const redis::Script& script, const char* what, sim::Words words,
                     Answer answer);
  void check(const Result<redis::Reply>& reply) const;

  void pump();
  void set_timer();
  void join();
  void beat();
  void look_at_lease();
  void serve();

  void act();
  void do_something();
  bool lacks_rows() const;
  bool minds_a_stray();
  void add_rows();
  void look_for_work();
  void claim(const std::string& key);
  void write(Claim claim, bool is_late);
  void give_back(const Claim& claim);
  void hand_over(const Claim& claim);
  void change_passing_row();

  void follow();
  void follow_soon();
  void look();
  void on_look(const Result<redis::Reply>& reply);
  void scan(std::string cursor);
  void on_page(const Result<redis::Reply>& page);
  void on_followed(Changes changes);
  void follow_later(Clock::duration pause);

  CatalogWorld& all_;
  history::ProcessId id_;
  sim::Connection& connection_;
  NodeMachine machine_;
  CatalogKeeper keeper_;
  int joins_ = 0;
  Clock::time_point wakes_at_ = Clock::time_point::max(), awake_at_{};
  bool is_busy_ = false, is_settling_ = false, is_still_ = false;

  // About the changes.
  sim::Words position_{"0", "0", "0"};
  std::uint64_t followed_ = 0;  // how often
  std::uint64_t gaps_ = 0, gaps_of_position_ = 0, gaps_when_asked_ = 0;
  bool is_following_ = false, has_news_ = false, reads_all_ = false, will_follow_ = false;
  Clock::time_point asked_{};
  sim::Words next_position_;
  std::map<std::string, Row> all_rows_;
};

}  // namespace warren::torture
