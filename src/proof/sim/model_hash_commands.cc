#include <algorithm>

#include "proof/sim/model_command.h"

namespace warren::sim {

std::string* Hash::find(std::string_view field) {
  auto at = std::ranges::find(fields, field, &std::pair<std::string, std::string>::first);
  return at == fields.end() ? nullptr : &at->second;
}

namespace {

// Returns whether the field is new.
bool put(Hash& hash, std::string_view field, std::string value) {
  if (auto* old = hash.find(field)) {
    *old = std::move(value);
    return false;
  }
  hash.fields.emplace_back(field, std::move(value));
  return true;
}

Reply hset(Execution& x, Args args) {
  if (args.size() % 2 == 1) return wrong_arity("hset");
  auto made = x.make<Hash>(args[1]);
  if (made.wrong_type) return wrong_type();
  std::int64_t added = 0;
  for (std::size_t i = 2; i < args.size(); i += 2)
    added += put(*made.value, args[i], std::string(args[i + 1]));
  x.changed();
  return number(added);
}

Reply value_in(const Execution::Found<Hash>& found, std::string_view field) {
  auto* value = found.value ? found.value->find(field) : nullptr;
  return value ? text(*value) : null();
}

Reply hget(Execution& x, Args args) {
  auto found = x.find_as<Hash>(args[1]);
  return found.wrong_type ? wrong_type() : value_in(found, args[2]);
}

Reply hmget(Execution& x, Args args) {
  auto found = x.find_as<Hash>(args[1]);
  if (found.wrong_type) return wrong_type();
  std::vector<Reply> values;
  for (auto field : args.subspan(2)) values.push_back(value_in(found, field));
  return list_of(std::move(values));
}

Reply hdel(Execution& x, Args args) {
  auto found = x.find_as<Hash>(args[1]);
  if (found.wrong_type) return wrong_type();
  if (!found.value) return number(0);
  auto named = [&](const auto& field) {
    return std::ranges::find(args.subspan(2), field.first) != args.end();
  };
  auto count = static_cast<std::int64_t>(std::erase_if(found.value->fields, named));
  if (count > 0) x.changed();
  x.erase_if_empty(args[1], *found.value);
  return number(count);
}

Reply hgetall(Execution& x, Args args) {
  auto found = x.find_as<Hash>(args[1]);
  if (found.wrong_type) return wrong_type();
  Reply map{Kind::map, 0, {}, {}};
  if (!found.value) return map;
  for (const auto& [field, value] : found.value->fields) {
    map.items.push_back(text(field));
    map.items.push_back(text(value));
  }
  return map;
}

Reply hkeys(Execution& x, Args args) {
  auto found = x.find_as<Hash>(args[1]);
  if (found.wrong_type) return wrong_type();
  Reply names = list_of({});
  if (!found.value) return names;
  for (const auto& [field, value] : found.value->fields) names.items.push_back(text(field));
  return names;
}

Reply hincrby(Execution& x, Args args) {
  auto amount = to_integer(args[3]);
  if (!amount) return not_an_integer();
  auto found = x.find_as<Hash>(args[1]);
  if (found.wrong_type) return wrong_type();
  auto* old = found.value ? found.value->find(args[2]) : nullptr;
  auto before = old ? to_integer(*old) : 0;
  if (!before) return error("ERR hash value is not an integer");
  std::int64_t next = 0;
  if (__builtin_add_overflow(*before, *amount, &next)) return would_overflow();
  put(*x.make<Hash>(args[1]).value, args[2], std::to_string(next));
  x.changed();
  return number(next);
}

Reply hexists(Execution& x, Args args) {
  auto found = x.find_as<Hash>(args[1]);
  if (found.wrong_type) return wrong_type();
  return number(found.value && found.value->find(args[2]));
}

Reply hlen(Execution& x, Args args) {
  auto found = x.find_as<Hash>(args[1]);
  if (found.wrong_type) return wrong_type();
  return number(found.value ? static_cast<std::int64_t>(found.value->fields.size()) : 0);
}

// Redis keeps small hashes as a list, and scans them in one go.
bool is_small(const Hash& hash) {
  constexpr std::size_t most_fields = 128, most_bytes = 64;
  return hash.fields.size() <= most_fields &&
         std::ranges::all_of(hash.fields, [](const auto& field) {
           return field.first.size() <= most_bytes && field.second.size() <= most_bytes;
         });
}

Reply hscan(Execution& x, Args args) {
  Scan scan;
  if (auto refused = parse_cursor(args[2], scan)) return *std::move(refused);
  auto found = x.find_as<Hash>(args[1]);
  if (found.wrong_type) return wrong_type();
  if (!found.value) return list_of({text("0"), list_of({})});
  if (auto refused = parse_scan_options(args.subspan(3), scan)) return *std::move(refused);
  bool in_one_go = is_small(*found.value);
  if (in_one_go) {
    scan.cursor = 0;
    scan.count = std::ssize(found.value->fields);
  }
  std::vector<ScanItem> items;
  for (const auto& [field, value] : found.value->fields)
    items.push_back({in_one_go ? items.size() + 1 : scan_position(field), field, value});
  auto cursor = take_portion(items, scan);
  std::vector<Reply> fields;
  for (const auto& item : items) {
    fields.push_back(text(item.name));
    fields.push_back(text(item.value));
  }
  return list_of({text(std::to_string(cursor)), list_of(std::move(fields))});
}

constexpr CommandSpec commands[] = {
    {"HSET", -4, hset},      {"HGET", 3, hget},       {"HMGET", -3, hmget},    {"HDEL", -3, hdel},
    {"HGETALL", 2, hgetall}, {"HINCRBY", 4, hincrby}, {"HEXISTS", 3, hexists}, {"HLEN", 2, hlen},
    {"HSCAN", -3, hscan},    {"HKEYS", 2, hkeys},
};

}  // namespace

std::span<const CommandSpec> hash_commands() { return commands; }

}  // namespace warren::sim
