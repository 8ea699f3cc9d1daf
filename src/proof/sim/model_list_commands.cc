#include <algorithm>

#include "proof/sim/model_command.h"

namespace warren::sim {
namespace {

std::int64_t size_of(const List& list) { return static_cast<std::int64_t>(list.items.size()); }

template <bool at_front>
Reply push(Execution& x, Args args) {
  auto made = x.make<List>(args[1]);
  if (made.wrong_type) return wrong_type();
  for (auto item : args.subspan(2)) {
    if constexpr (at_front)
      made.value->items.emplace(made.value->items.begin(), item);
    else
      made.value->items.emplace_back(item);
  }
  x.changed();
  return number(size_of(*made.value));
}

template <bool at_front>
Reply pop(Execution& x, Args args) {
  if (args.size() > 3) return wrong_arity(at_front ? "lpop" : "rpop");
  std::optional<std::int64_t> count;
  if (args.size() == 3) {
    count = to_integer(args[2]);
    if (!count || *count < 0) return error("ERR value is out of range, must be positive");
  }
  auto found = x.find_as<List>(args[1]);
  if (found.wrong_type) return wrong_type();
  if (!found.value) return null();
  if (count == 0) return list_of({});
  auto& items = found.value->items;
  std::vector<Reply> taken;
  for (auto left = std::min(count.value_or(1), size_of(*found.value)); left > 0; --left) {
    taken.push_back(text(at_front ? items.front() : items.back()));
    if constexpr (at_front)
      items.erase(items.begin());
    else
      items.pop_back();
  }
  x.changed();
  x.erase_if_empty(args[1], *found.value);
  return count ? list_of(std::move(taken)) : std::move(taken.front());
}

Reply llen(Execution& x, Args args) {
  auto found = x.find_as<List>(args[1]);
  if (found.wrong_type) return wrong_type();
  return number(found.value ? size_of(*found.value) : 0);
}

Reply lrange(Execution& x, Args args) {
  auto start = to_integer(args[2]), stop = to_integer(args[3]);
  if (!start || !stop) return not_an_integer();
  auto found = x.find_as<List>(args[1]);
  if (found.wrong_type) return wrong_type();
  if (!found.value) return list_of({});
  auto [first, last] = slice(*start, *stop, found.value->items.size());
  std::vector<Reply> items;
  for (auto i = first; i < last; ++i) items.push_back(text(found.value->items[i]));
  return list_of(std::move(items));
}

Reply ltrim(Execution& x, Args args) {
  auto start = to_integer(args[2]), stop = to_integer(args[3]);
  if (!start || !stop) return not_an_integer();
  auto found = x.find_as<List>(args[1]);
  if (found.wrong_type) return wrong_type();
  if (!found.value) return status("OK");
  auto& items = found.value->items;
  auto [first, last] = slice(*start, *stop, items.size());
  if (first > 0 || last < items.size()) x.changed();
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(last), items.end());
  items.erase(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(first));
  x.erase_if_empty(args[1], *found.value);
  return status("OK");
}

Reply lindex(Execution& x, Args args) {
  auto found = x.find_as<List>(args[1]);
  if (found.wrong_type) return wrong_type();
  if (!found.value) return null();
  auto index = to_integer(args[2]);
  if (!index) return not_an_integer();
  if (*index < 0) *index += size_of(*found.value);
  if (*index < 0 || *index >= size_of(*found.value)) return null();
  return text(found.value->items[static_cast<std::size_t>(*index)]);
}

Reply lrem(Execution& x, Args args) {
  auto count = to_integer(args[2]);
  if (!count) return not_an_integer();
  auto found = x.find_as<List>(args[1]);
  if (found.wrong_type) return wrong_type();
  if (!found.value) return number(0);
  auto& items = found.value->items;
  bool from_end = *count < 0;
  if (from_end) std::ranges::reverse(items);
  std::int64_t removed = 0;
  std::erase_if(items, [&](const auto& item) {
    bool goes = item == args[3] && (*count == 0 || removed < std::abs(*count));
    removed += goes;
    return goes;
  });
  if (from_end) std::ranges::reverse(items);
  if (removed > 0) x.changed();
  x.erase_if_empty(args[1], *found.value);
  return number(removed);
}

struct PosOptions {
  std::int64_t rank = 1, most = 0;
  std::optional<std::int64_t> count;
};

std::optional<Reply> parse_lpos(Args args, PosOptions& options) {
  for (std::size_t i = 3; i < args.size(); i += 2) {
    if (i + 1 == args.size()) return syntax_error();
    auto value = to_integer(args[i + 1]);
    bool is_rank = is_word(args[i], "RANK"), is_count = is_word(args[i], "COUNT");
    if (!is_rank && !is_count && !is_word(args[i], "MAXLEN")) return syntax_error();
    if (is_rank) {
      if (!value) return not_an_integer();
      if (*value == 0)
        return error(
            "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or "
            "use negative to start from the end of the list");
      options.rank = *value;
    } else if (!value || *value < 0) {
      return error(is_count ? "ERR COUNT can't be negative" : "ERR MAXLEN can't be negative");
    } else {
      (is_count ? options.count.emplace() : options.most) = *value;
    }
  }
  return {};
}

Reply lpos(Execution& x, Args args) {
  PosOptions options;
  if (auto refused = parse_lpos(args, options)) return *std::move(refused);
  auto found = x.find_as<List>(args[1]);
  if (found.wrong_type) return wrong_type();
  std::vector<Reply> places;
  auto size = found.value ? size_of(*found.value) : 0;
  auto wanted = options.count.value_or(1);
  auto to_skip = std::abs(options.rank) - 1;
  for (std::int64_t i = 0; i < size && (options.most == 0 || i < options.most); ++i) {
    auto index = options.rank > 0 ? i : size - 1 - i;
    if (found.value->items[static_cast<std::size_t>(index)] != args[2] || to_skip-- > 0) continue;
    places.push_back(number(index));
    if (std::ssize(places) == wanted) break;
  }
  if (options.count) return list_of(std::move(places));
  return places.empty() ? null() : std::move(places.front());
}

Reply lset(Execution& x, Args args) {
  auto found = x.find_as<List>(args[1]);
  if (found.wrong_type) return wrong_type();
  if (!found.value) return error("ERR no such key");
  auto index = to_integer(args[2]);
  if (!index) return not_an_integer();
  auto size = std::ssize(found.value->items);
  if (*index < 0) *index += size;
  if (*index < 0 || *index >= size) return error("ERR index out of range");
  found.value->items[static_cast<std::size_t>(*index)] = args[3];
  x.changed();
  return status("OK");
}

constexpr CommandSpec commands[] = {
    {"LPUSH", -3, push<true>}, {"RPUSH", -3, push<false>}, {"LPOP", -2, pop<true>},
    {"RPOP", -2, pop<false>},  {"LLEN", 2, llen},          {"LRANGE", 4, lrange},
    {"LTRIM", 4, ltrim},       {"LINDEX", 3, lindex},      {"LREM", 4, lrem},
    {"LPOS", -3, lpos},        {"LSET", 4, lset},
};

}  // namespace

std::span<const CommandSpec> list_commands() { return commands; }

}  // namespace warren::sim
