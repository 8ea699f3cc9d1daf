#include <algorithm>

#include "proof/sim/model_command.h"

namespace warren::sim {
namespace {

Reply sadd(Execution& x, Args args) {
  auto made = x.make<Set>(args[1]);
  if (made.wrong_type) return wrong_type();
  std::int64_t added = 0;
  for (auto member : args.subspan(2)) {
    auto at = std::ranges::lower_bound(made.value->members, member);
    if (at != made.value->members.end() && *at == member) continue;
    made.value->members.emplace(at, member);
    ++added;
  }
  if (added > 0) x.changed();
  return number(added);
}

Reply srem(Execution& x, Args args) {
  auto found = x.find_as<Set>(args[1]);
  if (found.wrong_type) return wrong_type();
  if (!found.value) return number(0);
  auto named = [&](const auto& m) { return std::ranges::find(args.subspan(2), m) != args.end(); };
  auto count = static_cast<std::int64_t>(std::erase_if(found.value->members, named));
  if (count > 0) x.changed();
  x.erase_if_empty(args[1], *found.value);
  return number(count);
}

Reply smembers(Execution& x, Args args) {
  auto found = x.find_as<Set>(args[1]);
  if (found.wrong_type) return wrong_type();
  Reply members{Kind::set, 0, {}, {}};
  if (!found.value) return members;
  for (const auto& member : found.value->members) members.items.push_back(text(member));
  return members;
}

Reply sismember(Execution& x, Args args) {
  auto found = x.find_as<Set>(args[1]);
  if (found.wrong_type) return wrong_type();
  return number(found.value && std::ranges::binary_search(found.value->members, args[2]));
}

Reply scard(Execution& x, Args args) {
  auto found = x.find_as<Set>(args[1]);
  if (found.wrong_type) return wrong_type();
  return number(found.value ? static_cast<std::int64_t>(found.value->members.size()) : 0);
}

constexpr CommandSpec commands[] = {
    {"SADD", -3, sadd},          {"SREM", -3, srem},  {"SMEMBERS", 2, smembers},
    {"SISMEMBER", 3, sismember}, {"SCARD", 2, scard},
};

}  // namespace

std::span<const CommandSpec> set_commands() { return commands; }

}  // namespace warren::sim
