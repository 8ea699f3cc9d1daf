#include <algorithm>
#include <cmath>

#include "proof/sim/model_command.h"

namespace warren::sim {
namespace {

using Member = std::pair<double, std::string>;

std::vector<Member>::iterator find_member(SortedSet& set, std::string_view name) {
  return std::ranges::find(set.members, name, &Member::second);
}

struct AddOptions {
  bool if_absent = false, if_present = false, if_greater = false, if_less = false;
  bool counts_changed = false, increases = false;
};

// Returns the index of the first score; a word that cannot be an option counts as one.
std::size_t parse_options(Args args, AddOptions& options) {
  std::size_t i = 2;
  for (; i < args.size(); ++i) {
    if (is_word(args[i], "NX"))
      options.if_absent = true;
    else if (is_word(args[i], "XX"))
      options.if_present = true;
    else if (is_word(args[i], "GT"))
      options.if_greater = true;
    else if (is_word(args[i], "LT"))
      options.if_less = true;
    else if (is_word(args[i], "CH"))
      options.counts_changed = true;
    else if (is_word(args[i], "INCR"))
      options.increases = true;
    else
      break;
  }
  return i;
}

std::optional<Reply> parse_zadd(Args args, AddOptions& options,
                                std::vector<std::pair<double, std::string_view>>& members) {
  auto first = parse_options(args, options);
  if (first == args.size() || (args.size() - first) % 2 == 1) return syntax_error();
  if (options.if_absent && options.if_present)
    return error("ERR XX and NX options at the same time are not compatible");
  if (options.if_absent + options.if_greater + options.if_less > 1)
    return error("ERR GT, LT, and/or NX options at the same time are not compatible");
  if (options.increases && args.size() - first > 2)
    return error("ERR INCR option supports a single increment-element pair");
  for (auto i = first; i < args.size(); i += 2) {
    auto score = to_real(args[i]);
    if (!score) return error("ERR value is not a valid float");
    members.emplace_back(*score, args[i + 1]);
  }
  return {};
}

Reply zadd(Execution& x, Args args) {
  AddOptions options;
  std::vector<std::pair<double, std::string_view>> given;
  if (auto refused = parse_zadd(args, options, given)) return *std::move(refused);
  auto found = x.find_as<SortedSet>(args[1]);
  if (found.wrong_type) return wrong_type();
  if (!found.value && options.if_present) return options.increases ? null() : number(0);
  SortedSet& set = *x.make<SortedSet>(args[1]).value;
  std::int64_t added = 0, updated = 0;
  Reply increased = null();
  for (auto [score, name] : given) {
    auto old = find_member(set, name);
    bool is_new = old == set.members.end();
    if (is_new ? options.if_present : options.if_absent) continue;
    if (!is_new && options.increases) score += old->first;
    if (std::isnan(score)) return error("ERR resulting score is not a number (NaN)");
    if (!is_new &&
        ((options.if_greater && score <= old->first) || (options.if_less && score >= old->first)))
      continue;
    increased = real(score);
    if (!is_new && score == old->first) continue;
    (is_new ? added : updated) += 1;
    if (!is_new) set.members.erase(old);
    Member member(score, name);
    set.members.insert(std::ranges::lower_bound(set.members, member), member);
  }
  if (added + updated > 0) x.changed();
  if (options.increases) return increased;
  return number(options.counts_changed ? added + updated : added);
}

Reply zrem(Execution& x, Args args) {
  auto found = x.find_as<SortedSet>(args[1]);
  if (found.wrong_type) return wrong_type();
  if (!found.value) return number(0);
  auto named = [&](const auto& member) {
    return std::ranges::find(args.subspan(2), member.second) != args.end();
  };
  auto count = static_cast<std::int64_t>(std::erase_if(found.value->members, named));
  if (count > 0) x.changed();
  x.erase_if_empty(args[1], *found.value);
  return number(count);
}

Reply zscore(Execution& x, Args args) {
  auto found = x.find_as<SortedSet>(args[1]);
  if (found.wrong_type) return wrong_type();
  if (!found.value) return null();
  auto member = find_member(*found.value, args[2]);
  return member == found.value->members.end() ? null() : real(member->first);
}

Reply zcard(Execution& x, Args args) {
  auto found = x.find_as<SortedSet>(args[1]);
  if (found.wrong_type) return wrong_type();
  return number(found.value ? static_cast<std::int64_t>(found.value->members.size()) : 0);
}

struct ScoreRange {
  double least = 0, most = 0;
  bool without_least = false, without_most = false;
  bool has(const Member& member) const {
    return (without_least ? member.first > least : member.first >= least) &&
           (without_most ? member.first < most : member.first <= most);
  }
};

// Not as strict as for scores: an empty word is 0.
std::optional<double> to_bound(std::string_view word) {
  std::string copy(word);
  char* end = nullptr;
  double value = std::strtod(copy.c_str(), &end);
  if (*end != 0 || std::isnan(value)) return {};
  return value;
}

std::optional<Reply> parse_range(std::string_view least, std::string_view most, ScoreRange& range) {
  range.without_least = least.starts_with('(');
  range.without_most = most.starts_with('(');
  auto a = to_bound(least.substr(range.without_least)),
       b = to_bound(most.substr(range.without_most));
  if (!a || !b) return error("ERR min or max is not a float");
  range.least = *a;
  range.most = *b;
  return {};
}

Reply zcount(Execution& x, Args args) {
  ScoreRange range;
  if (auto refused = parse_range(args[2], args[3], range)) return *std::move(refused);
  auto found = x.find_as<SortedSet>(args[1]);
  if (found.wrong_type) return wrong_type();
  if (!found.value) return number(0);
  return number(std::ranges::count_if(found.value->members, [&](auto& m) { return range.has(m); }));
}

Reply zremrangebyscore(Execution& x, Args args) {
  ScoreRange range;
  if (auto refused = parse_range(args[2], args[3], range)) return *std::move(refused);
  auto found = x.find_as<SortedSet>(args[1]);
  if (found.wrong_type) return wrong_type();
  if (!found.value) return number(0);
  auto count = std::erase_if(found.value->members, [&](auto& m) { return range.has(m); });
  if (count > 0) x.changed();
  x.erase_if_empty(args[1], *found.value);
  return number(static_cast<std::int64_t>(count));
}

struct RangeOptions {
  bool by_score = false, reversed = false, with_scores = false, has_limit = false;
  std::int64_t offset = 0, count = -1;
};

std::optional<Reply> parse_options(Args args, RangeOptions& options) {
  bool is_zrange = !options.by_score;
  for (std::size_t i = 4; i < args.size(); ++i) {
    if (is_word(args[i], "WITHSCORES")) {
      options.with_scores = true;
    } else if (is_word(args[i], "LIMIT") && i + 2 < args.size()) {
      auto offset = to_integer(args[i + 1]), count = to_integer(args[i + 2]);
      if (!offset || !count) return not_an_integer();
      options.offset = *offset;
      options.count = *count;
      options.has_limit = true;
      i += 2;
    } else if (is_zrange && is_word(args[i], "REV")) {
      options.reversed = true;
    } else if (is_zrange && is_word(args[i], "BYSCORE")) {
      options.by_score = true;
    } else {
      return syntax_error();
    }
  }
  if (options.has_limit && options.count != -1 && !options.by_score)
    return error(
        "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX");
  return {};
}

Reply members_reply(Execution& x, std::span<const Member> members, bool with_scores) {
  std::vector<Reply> items;
  for (const auto& [score, name] : members) {
    if (!with_scores) {
      items.push_back(text(name));
    } else if (x.in_script) {
      items.push_back(text(name));
      items.push_back(real(score));
    } else {
      items.push_back(list_of({text(name), real(score)}));
    }
  }
  return list_of(std::move(items));
}

Reply range_of(Execution& x, Args args, RangeOptions options) {
  if (auto refused = parse_options(args, options)) return *std::move(refused);
  ScoreRange range;
  auto start = to_integer(args[2]), stop = to_integer(args[3]);
  if (options.by_score) {
    auto refused = options.reversed ? parse_range(args[3], args[2], range)
                                    : parse_range(args[2], args[3], range);
    if (refused) return *std::move(refused);
  } else if (!start || !stop) {
    return not_an_integer();
  }
  auto found = x.find_as<SortedSet>(args[1]);
  if (found.wrong_type) return wrong_type();
  if (!found.value) return list_of({});
  auto members = found.value->members;
  if (options.reversed) std::ranges::reverse(members);
  if (!options.by_score) {
    auto [first, last] = slice(*start, *stop, members.size());
    return members_reply(x, std::span(members).subspan(first, last - first), options.with_scores);
  }
  std::erase_if(members, [&](const auto& member) { return !range.has(member); });
  auto size = std::ssize(members);
  auto first = options.offset < 0 ? size : std::min(options.offset, size);
  auto count = options.count < 0 ? size - first : std::min(options.count, size - first);
  return members_reply(
      x,
      std::span(members).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
      options.with_scores);
}

// "-", "+", "[name" or "(name".
bool is_lex_bound(std::string_view word) {
  return word == "-" || word == "+" || word.starts_with('[') || word.starts_with('(');
}

// For members with equal scores; otherwise Redis promises nothing.
Reply zrangebylex(Execution& x, Args args) {
  if (!is_lex_bound(args[2]) || !is_lex_bound(args[3]))
    return error("ERR min or max not valid string range item");
  RangeOptions options{.by_score = true};
  if (auto refused = parse_options(args, options)) return *std::move(refused);
  auto found = x.find_as<SortedSet>(args[1]);
  if (found.wrong_type) return wrong_type();
  auto is_between = [&](std::string_view name) {
    auto least = args[2], most = args[3];
    bool is_above =
        least == "-" ||
        (least != "+" && (least[0] == '[' ? name >= least.substr(1) : name > least.substr(1)));
    bool is_below =
        most == "+" ||
        (most != "-" && (most[0] == '[' ? name <= most.substr(1) : name < most.substr(1)));
    return is_above && is_below;
  };
  std::vector<Reply> items;
  if (!found.value || options.offset < 0) return list_of({});
  for (const auto& [score, name] : found.value->members) {
    if (!is_between(name) || options.offset-- > 0) continue;
    if (options.count-- == 0) break;
    items.push_back(text(name));
  }
  return list_of(std::move(items));
}

Reply zrange(Execution& x, Args args) { return range_of(x, args, {}); }
Reply zrangebyscore(Execution& x, Args args) { return range_of(x, args, {.by_score = true}); }

constexpr CommandSpec commands[] = {
    {"ZADD", -4, zadd},
    {"ZREM", -3, zrem},
    {"ZSCORE", 3, zscore},
    {"ZCARD", 2, zcard},
    {"ZCOUNT", 4, zcount},
    {"ZRANGE", -4, zrange},
    {"ZRANGEBYSCORE", -4, zrangebyscore},
    {"ZRANGEBYLEX", -4, zrangebylex},
    {"ZREMRANGEBYSCORE", 4, zremrangebyscore},
};

}  // namespace

std::span<const CommandSpec> sorted_set_commands() { return commands; }

}  // namespace warren::sim
