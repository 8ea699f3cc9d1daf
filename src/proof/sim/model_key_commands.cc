#include <algorithm>

#include "proof/sim/model_command.h"

namespace warren::sim {
namespace {

Reply del(Execution& x, Args args) {
  std::int64_t count = 0;
  for (auto key : args.subspan(1)) {
    if (!x.find(key)) continue;
    x.erase(key);
    x.changed();
    ++count;
  }
  return number(count);
}

Reply exists(Execution& x, Args args) {
  return number(std::ranges::count_if(args.subspan(1), [&](auto key) { return x.find(key); }));
}

Reply type(Execution& x, Args args) {
  static constexpr std::string_view names[] = {"string", "list", "hash", "set", "zset", "stream"};
  Value* value = x.find(args[1]);
  return status(value ? names[value->data.index()] : "none");
}

struct ExpireOptions {
  bool if_none = false, if_some = false, if_later = false, if_earlier = false;
};

std::optional<Reply> parse_expire(Args args, ExpireOptions& options) {
  for (auto word : args.subspan(3)) {
    if (is_word(word, "NX")) {
      options.if_none = true;
    } else if (is_word(word, "XX")) {
      options.if_some = true;
    } else if (is_word(word, "GT")) {
      options.if_later = true;
    } else if (is_word(word, "LT")) {
      options.if_earlier = true;
    } else {
      return error(fmt::format("ERR Unsupported option {}", word));
    }
  }
  if (options.if_none && (options.if_some || options.if_later || options.if_earlier))
    return error("ERR NX and XX, GT or LT options at the same time are not compatible");
  if (options.if_later && options.if_earlier)
    return error("ERR GT and LT options at the same time are not compatible");
  return {};
}

// The differences between the four commands.
struct Unit {
  std::int64_t ms;
  bool is_relative;
};

Reply expire(Execution& x, Args args, Unit unit) {
  ExpireOptions options;
  if (auto refused = parse_expire(args, options)) return *std::move(refused);
  auto amount = to_integer(args[2]);
  if (!amount) return not_an_integer();
  std::int64_t when = 0;
  if (__builtin_mul_overflow(*amount, unit.ms, &when) ||
      __builtin_add_overflow(when, unit.is_relative ? x.now_ms() : 0, &when))
    return error(fmt::format("ERR invalid expire time in '{}' command", lower(args[0])));
  Value* value = x.find(args[1]);
  if (!value) return number(0);
  bool has_expiry = value->expires_ms != Value::never;  // never is later than any time
  if ((options.if_none && has_expiry) || (options.if_some && !has_expiry) ||
      (options.if_later && when <= value->expires_ms) ||
      (options.if_earlier && when >= value->expires_ms))
    return number(0);
  if (when <= x.now_ms())
    x.erase(args[1]);
  else
    value->expires_ms = when;
  x.changed();
  return number(1);
}

template <Unit unit>
Reply expire(Execution& x, Args args) {
  return expire(x, args, unit);
}

Reply persist(Execution& x, Args args) {
  Value* value = x.find(args[1]);
  if (!value || value->expires_ms == Value::never) return number(0);
  value->expires_ms = Value::never;
  x.changed();
  return number(1);
}

// -2 without the key, -1 without an expiry.
template <class Time>
Reply expiry(Execution& x, Args args, Time time) {
  Value* value = x.find(args[1]);
  if (!value) return number(-2);
  return number(value->expires_ms == Value::never ? -1 : time(value->expires_ms));
}

Reply pttl(Execution& x, Args args) {
  return expiry(x, args, [&](auto when) { return std::max<std::int64_t>(0, when - x.now_ms()); });
}

Reply ttl(Execution& x, Args args) {
  return expiry(x, args, [&](auto when) {
    return (std::max<std::int64_t>(0, when - x.now_ms()) + 500) / 1000;
  });
}

Reply pexpiretime(Execution& x, Args args) {
  return expiry(x, args, [](auto when) { return when; });
}

Reply scan(Execution& x, Args args) {
  Scan scan;
  if (auto refused = parse_cursor(args[1], scan)) return *std::move(refused);
  if (auto refused = parse_scan_options(args.subspan(2), scan)) return *std::move(refused);
  std::vector<ScanItem> items;
  for (const auto& [key, value] : x.keys()) {
    if (x.is_alive(value)) items.push_back({scan_position(key), key, {}});
  }
  auto cursor = take_portion(items, scan);
  std::vector<Reply> keys;
  for (const auto& item : items) keys.push_back(text(item.name));
  return list_of({text(std::to_string(cursor)), list_of(std::move(keys))});
}

Reply dbsize(Execution& x, Args) {
  return number(std::ranges::count_if(x.keys(), [&](auto& key) { return x.is_alive(key.second); }));
}

Reply flushall(Execution& x, Args args) {
  if (args.size() > 2 ||
      (args.size() == 2 && !is_word(args[1], "ASYNC") && !is_word(args[1], "SYNC")))
    return syntax_error();
  x.keys().clear();
  x.changed();
  return status("OK");
}

constexpr CommandSpec commands[] = {
    {"DEL", -2, del},
    {"UNLINK", -2, del},
    {"EXISTS", -2, exists},
    {"TYPE", 2, type},
    {"EXPIRE", -3, expire<Unit{1000, true}>},
    {"PEXPIRE", -3, expire<Unit{1, true}>},
    {"EXPIREAT", -3, expire<Unit{1000, false}>},
    {"PEXPIREAT", -3, expire<Unit{1, false}>},
    {"PERSIST", 2, persist},
    {"PTTL", 2, pttl},
    {"TTL", 2, ttl},
    {"PEXPIRETIME", 2, pexpiretime},
    {"SCAN", -2, scan},
    {"DBSIZE", 1, dbsize},
    {"FLUSHALL", -1, flushall},
};

}  // namespace

std::span<const CommandSpec> key_commands() { return commands; }

}  // namespace warren::sim
