#include "proof/sim/model_command.h"

namespace warren::sim {
namespace {

std::optional<std::int64_t> sum(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) return {};
  return result;
}

Reply get(Execution& x, Args args) {
  auto found = x.find_as<std::string>(args[1]);
  if (found.wrong_type) return wrong_type();
  return found.value ? text(*found.value) : null();
}

struct SetOptions {
  bool if_absent = false, if_present = false, get = false, keep_ttl = false;
  std::optional<std::int64_t> expires_ms;
};

Reply invalid_expire(std::string_view command) {
  return error(fmt::format("ERR invalid expire time in '{}' command", command));
}

std::optional<Reply> parse_set(Execution& x, Args args, SetOptions& options) {
  std::string_view unit, amount;
  for (std::size_t i = 3; i < args.size(); ++i) {
    bool has_unit = !unit.empty();
    if (is_word(args[i], "NX") && !options.if_present) {
      options.if_absent = true;
    } else if (is_word(args[i], "XX") && !options.if_absent) {
      options.if_present = true;
    } else if (is_word(args[i], "GET")) {
      options.get = true;
    } else if (is_word(args[i], "KEEPTTL") && !has_unit) {
      options.keep_ttl = true;
    } else if ((is_word(args[i], "EX") || is_word(args[i], "PX") || is_word(args[i], "EXAT") ||
                is_word(args[i], "PXAT")) &&
               !has_unit && !options.keep_ttl && i + 1 < args.size()) {
      unit = args[i];
      amount = args[++i];
    } else {
      return syntax_error();
    }
  }
  if (unit.empty()) return {};
  auto time = to_integer(amount);
  if (!time) return not_an_integer();
  bool in_seconds = is_word(unit, "EX") || is_word(unit, "EXAT");
  if (*time <= 0 || (in_seconds && *time > Value::never / 1000)) return invalid_expire("set");
  auto ms = in_seconds ? *time * 1000 : *time;
  bool is_relative = is_word(unit, "EX") || is_word(unit, "PX");
  options.expires_ms = is_relative ? sum(ms, x.now_ms()) : ms;
  if (!options.expires_ms) return invalid_expire("set");
  return {};
}

Reply set(Execution& x, Args args) {
  SetOptions options;
  if (auto refused = parse_set(x, args, options)) return *std::move(refused);
  Value* old = x.find(args[1]);
  Reply before = null();
  if (options.get && old) {
    auto* bytes = std::get_if<std::string>(&old->data);
    if (!bytes) return wrong_type();
    before = text(*bytes);
  }
  if (options.if_absent ? old != nullptr : options.if_present && !old)
    return options.get ? before : null();
  auto expires_ms = options.keep_ttl && old ? old->expires_ms : Value::never;
  x.put(args[1], {std::string(args[2]), options.expires_ms.value_or(expires_ms)});
  return options.get ? before : status("OK");
}

Reply getdel(Execution& x, Args args) {
  Reply reply = get(x, args);
  if (reply.kind != Kind::string) return reply;
  x.erase(args[1]);
  x.changed();
  return reply;
}

Reply mget(Execution& x, Args args) {
  std::vector<Reply> items;
  for (auto key : args.subspan(1)) {
    auto found = x.find_as<std::string>(key);
    items.push_back(found.value ? text(*found.value) : null());
  }
  return list_of(std::move(items));
}

Reply mset(Execution& x, Args args) {
  if (args.size() % 2 == 0) return wrong_arity("mset");
  for (std::size_t i = 1; i < args.size(); i += 2) x.put(args[i], {std::string(args[i + 1])});
  return status("OK");
}

Reply increase(Execution& x, std::string_view key, std::int64_t amount) {
  auto found = x.find_as<std::string>(key);
  if (found.wrong_type) return wrong_type();
  auto old = found.value ? to_integer(*found.value) : 0;
  if (!old) return not_an_integer();
  auto next = sum(*old, amount);
  if (!next) return would_overflow();
  *x.make<std::string>(key).value = std::to_string(*next);
  x.changed();
  return number(*next);
}

Reply incr(Execution& x, Args args) { return increase(x, args[1], 1); }

Reply incrby(Execution& x, Args args) {
  auto amount = to_integer(args[2]);
  return amount ? increase(x, args[1], *amount) : not_an_integer();
}

Reply append(Execution& x, Args args) {
  auto made = x.make<std::string>(args[1]);
  if (made.wrong_type) return wrong_type();
  made.value->append(args[2]);
  x.changed();
  return number(static_cast<std::int64_t>(made.value->size()));
}

Reply size_of(Execution& x, Args args) {
  auto found = x.find_as<std::string>(args[1]);
  if (found.wrong_type) return wrong_type();
  return number(found.value ? static_cast<std::int64_t>(found.value->size()) : 0);
}

constexpr CommandSpec commands[] = {
    {"GET", 2, get},       {"SET", -3, set},      {"GETDEL", 2, getdel},
    {"MGET", -2, mget},    {"MSET", -3, mset},    {"INCR", 2, incr},
    {"INCRBY", 3, incrby}, {"APPEND", 3, append}, {"STRLEN", 2, size_of},
};

}  // namespace

std::span<const CommandSpec> string_commands() { return commands; }

}  // namespace warren::sim
