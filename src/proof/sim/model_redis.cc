#include "proof/sim/model_redis.h"

#include <boost/container/small_vector.hpp>

#include "base/error.h"
#include "proof/sim/model_command.h"
#include "proof/sim/model_script.h"
#include "proof/sim/model_slot.h"

namespace warren::sim {
namespace {

Reply ping(Execution&, Args args) {
  if (args.size() > 2) return wrong_arity("ping");
  return args.size() == 2 ? text(args[1]) : status("PONG");
}

Reply time(Execution& x, Args) {
  return list_of(
      {text(std::to_string(x.now_us() / 1'000'000)), text(std::to_string(x.now_us() % 1'000'000))});
}

template <bool is_sharded>
Reply publish(Execution& x, Args args) {
  x.publish({std::string(args[1]), std::string(args[2]), is_sharded});
  return number(0);
}

template <bool by_hash>
Reply eval(Execution& x, Args args) {
  auto count = to_integer(args[2]);
  if (!count) return not_an_integer();
  if (*count > std::ssize(args) - 3)
    return error("ERR Number of keys can't be greater than number of args");
  if (*count < 0) return error("ERR Number of keys can't be negative");
  auto keys = args.subspan(3, static_cast<std::size_t>(*count));
  auto run = by_hash ? run_known_script : run_script;
  return run(x, args[1], keys, args.subspan(3 + keys.size()));
}

Reply execute(Execution& x, const Words& words) {
  boost::container::small_vector<std::string_view, 16> args(words.begin(), words.end());
  return execute(x, Args(args.data(), args.size()));
}

constexpr CommandSpec commands[] = {
    {"PING", -1, ping},
    {"TIME", 1, time},
    {"PUBLISH", 3, publish<false>},
    {"SPUBLISH", 3, publish<true>},
    {"EVAL", -3, eval<false>, false},
    {"EVALSHA", -3, eval<true>, false},
};

}  // namespace

std::span<const CommandSpec> server_commands() { return commands; }

Words words_of(const redis::Command& command) {
  Words words;
  for (int i = 0; i < command.size(); ++i) words.emplace_back(command.word(i));
  return words;
}

Words words_of(const redis::Script& script, Words keys, Words args) {
  know_script(script);
  Words words;
  words.reserve(3 + keys.size() + args.size());
  words.emplace_back("EVALSHA");
  words.push_back(script.hash());
  words.push_back(std::to_string(keys.size()));
  std::ranges::move(keys, std::back_inserter(words));
  std::ranges::move(args, std::back_inserter(words));
  return words;
}

redis::Reply ModelRedis::run(const Words& words, std::int64_t now_us) {
  return run(std::make_shared<const Words>(words), now_us);
}

redis::Reply ModelRedis::run(const std::shared_ptr<const Words>& words, std::int64_t now_us,
                             Refuses refuses, SlotState slots) {
  ensure(!words->empty(), "a command has a name");
  Execution x(keys_, messages_, now_us);
  x.refuses = refuses;
  x.slots = slots;
  Reply reply = execute(x, *words);
  if (x.has_changed())
    changes_.push_back({words, now_us, slots});
  else
    note_expired(x);
  return reply;
}

void ModelRedis::note_expired(const Execution& x) {
  for (const auto& key : x.expired())
    changes_.push_back({std::make_shared<const Words>(Words{"DEL", key}), x.now_us()});
}

Place ModelRedis::place_of(const Words& words, std::int64_t now_us, SlotState slots,
                           bool is_asking) {
  Execution x(keys_, messages_, now_us);
  boost::container::small_vector<std::string_view, 16> args(words.begin(), words.end());
  auto place = sim::place_of(x, Args(args.data(), args.size()), slots, is_asking);
  note_expired(x);
  return place;
}

void ModelRedis::replay(const Change& change) {
  std::vector<Message> unheard;
  Execution x(keys_, unheard, change.now_us);
  x.slots = change.slots;
  execute(x, *change.words);
  changes_.push_back(change);
}

std::vector<std::string> ModelRedis::keys() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : keys_) names.push_back(name);
  std::ranges::sort(names);
  return names;
}

bool ModelRedis::has(const std::string& key, std::int64_t now_us) const {
  auto found = keys_.find(key);
  return found != keys_.end() && now_us / 1000 <= found->second.expires_ms;
}

void ModelRedis::move_to(ModelRedis& other, const std::string& key, std::int64_t now_us,
                         std::int64_t other_now_us) {
  auto found = keys_.find(key);
  if (found == keys_.end()) return;
  bool is_alive = has(key, now_us);
  auto value = std::move(found->second);
  keys_.erase(found);
  changes_.push_back({std::make_shared<const Words>(Words{"DEL", key}), now_us});
  if (!is_alive) return;
  if (value.expires_ms != Value::never) value.expires_ms += (other_now_us - now_us) / 1000;
  other.keys_.insert_or_assign(key, std::move(value));
  other.changes_.push_back({std::make_shared<const Words>(Words{"RESTORE", key}), other_now_us});
}

}  // namespace warren::sim
