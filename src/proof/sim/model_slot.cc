#include "proof/sim/model_slot.h"

#include <algorithm>
#include <array>

namespace warren::sim {

namespace {

bool is_any(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::any_of(names, [&](auto known) { return is_word(name, known); });
}

bool is_of_channel(Args args) { return is_word(args[0], "SPUBLISH"); }

}  // namespace

Keys keys_of(Args args) {
  auto name = args[0];
  auto some = [&](std::size_t from, std::size_t count, std::size_t step = 1) {
    Keys keys;
    for (auto i = from; i < std::min(args.size(), from + count); i += step) keys.push_back(args[i]);
    return keys;
  };
  if (is_any(name, {"EVAL", "EVALSHA"})) {
    auto count = args.size() > 2 ? to_integer(args[2]).value_or(0) : 0;
    return some(3, static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
  }
  if (is_any(name, {"PING", "TIME", "PUBLISH", "SCAN", "DBSIZE", "FLUSHALL", "ROLE", "CLUSTER"}))
    return {};
  if (is_any(name, {"DEL", "UNLINK", "EXISTS", "MGET"})) return some(1, args.size());
  if (is_word(name, "MSET")) return some(1, args.size(), 2);
  if (is_word(name, "XINFO")) return some(2, 1);
  if (is_word(name, "XREAD")) {
    auto streams = std::ranges::find_if(args, [](auto word) { return is_word(word, "STREAMS"); });
    auto left = static_cast<std::size_t>(args.end() - streams);
    return left == 0 ? Keys() : some(args.size() - left + 1, (left - 1) / 2);
  }
  return some(1, 1);
}

Place place_of(Execution& x, Args args, SlotState slots, bool is_asking) {
  if (slots == SlotState::whole) return Place::here;
  auto keys = keys_of(args);
  if (keys.empty()) return Place::here;
  if (slots == SlotState::arriving && !is_asking) return Place::other;
  auto missing =
      is_of_channel(args) ? 0 : std::ranges::count_if(keys, [&](auto key) { return !x.find(key); });
  if (missing == 0) return Place::here;
  if (slots == SlotState::leaving)
    return missing == std::ssize(keys) ? Place::other_by_ask : Place::both;
  bool are_several = std::ranges::any_of(keys, [&](auto key) { return key != keys[0]; });
  return are_several ? Place::both : Place::here;
}

}  // namespace warren::sim
