#include <algorithm>
#include <charconv>

#include "proof/sim/model_command.h"

namespace warren::sim {
namespace {

constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t node_entries = 100;

std::string id_text(StreamId id) { return fmt::format("{}-{}", id.ms, id.seq); }

Reply bad_id() { return error("ERR Invalid stream ID specified as stream command argument"); }

// Parses "ms-seq", or "ms" with the given sequence.
std::optional<StreamId> to_id(std::string_view word, std::uint64_t missing_seq) {
  auto dash = word.find('-');
  auto ms = to_unsigned(word.substr(0, dash));
  auto seq = dash == word.npos ? missing_seq : to_unsigned(word.substr(dash + 1));
  if (!ms || !seq) return {};
  return StreamId{*ms, *seq};
}

std::optional<StreamId> next_id(StreamId id) {
  if (id.seq < largest) return StreamId{id.ms, id.seq + 1};
  if (id.ms < largest) return StreamId{id.ms + 1, 0};
  return {};
}

std::optional<StreamId> previous_id(StreamId id) {
  if (id.seq > 0) return StreamId{id.ms, id.seq - 1};
  if (id.ms > 0) return StreamId{id.ms - 1, largest};
  return {};
}

Reply entry_reply(const Stream::Entry& entry) {
  std::vector<Reply> fields;
  fields.reserve(entry.fields.size());
  for (const auto& field : entry.fields) fields.push_back(text(field));
  return list_of({text(id_text(entry.id)), list_of(std::move(fields))});
}

// The first entry with this id or a larger one.
std::vector<Stream::Entry>::iterator from(Stream& stream, StreamId id) {
  return std::ranges::lower_bound(stream.entries, id, {}, &Stream::Entry::id);
}

struct Trim {
  std::optional<std::int64_t> most;
  bool is_rough = false;
  std::int64_t limit = 0;  // of entries removed at once; 0: none
};

std::int64_t trim(Stream& stream, const Trim& how) {
  auto most = how.most.value_or(std::ssize(stream.entries));
  std::int64_t removed = 0;
  while (std::ssize(stream.entries) > most) {
    std::int64_t step = 1;
    if (how.is_rough) {
      auto& entries = stream.entries;
      step = std::ranges::find_if(entries, [&](auto& e) { return e.node != entries[0].node; }) -
             entries.begin();
      if (std::ssize(entries) - step < most) break;
      if (how.limit > 0 && removed + step > how.limit) break;
    }
    stream.entries.erase(stream.entries.begin(), stream.entries.begin() + step);
    removed += step;
  }
  return removed;
}

// Parses MAXLEN [=|~] n [LIMIT n] at args[i]; afterwards i is the index of its last word.
std::optional<Reply> parse_trim(Args args, std::size_t& i, Trim& how) {
  if (i + 2 < args.size() && (args[i + 1] == "~" || args[i + 1] == "=")) {
    how.is_rough = args[i + 1] == "~";
    ++i;
  }
  if (++i == args.size()) return syntax_error();
  how.most = to_integer(args[i]);
  if (!how.most) return not_an_integer();
  if (*how.most < 0) return error("ERR The MAXLEN argument must be >= 0.");
  how.limit = how.is_rough ? static_cast<std::int64_t>(100 * node_entries) : 0;
  if (i + 2 < args.size() && is_word(args[i + 1], "LIMIT")) {
    auto limit = to_integer(args[i + 2]);
    if (!limit) return not_an_integer();
    if (*limit < 0) return error("ERR The LIMIT argument must be >= 0.");
    if (!how.is_rough)
      return error("ERR syntax error, LIMIT cannot be used without the special ~ option");
    how.limit = *limit;
    i += 2;
  }
  return {};
}

struct Add {
  bool only_existing = false;
  Trim trim;
  std::size_t id_at = 0;
  bool auto_ms = false, auto_seq = false;
  StreamId id;
};

std::optional<Reply> parse_xadd(Args args, Add& add) {
  std::size_t i = 2;
  for (; i < args.size(); ++i) {
    if (is_word(args[i], "NOMKSTREAM")) {
      add.only_existing = true;
    } else if (is_word(args[i], "MAXLEN")) {
      if (auto refused = parse_trim(args, i, add.trim)) return refused;
    } else {
      break;
    }
  }
  if (i == args.size()) return syntax_error();
  add.id_at = i;
  add.auto_ms = args[i] == "*";
  add.auto_seq = add.auto_ms || args[i].ends_with("-*");
  if (!add.auto_ms) {
    auto id = to_id(add.auto_seq ? args[i].substr(0, args[i].size() - 2) : args[i], 0);
    if (!id) return bad_id();
    add.id = *id;
  }
  auto pairs = args.size() - i - 1;
  if (pairs == 0 || pairs % 2 == 1) return wrong_arity("xadd");
  if (!add.auto_seq && add.id == StreamId{})
    return error("ERR The ID specified in XADD must be greater than 0-0");
  return {};
}

// Returns the id of the new entry, or nullopt if it would not be the largest.
std::optional<StreamId> id_for(const Add& add, const Stream& stream, std::int64_t now_ms) {
  StreamId id = add.id;
  if (add.auto_ms) {
    id = {static_cast<std::uint64_t>(now_ms), 0};
    return id > stream.last_id ? id : next_id(stream.last_id);
  }
  if (add.auto_seq && id.ms == stream.last_id.ms) {
    if (stream.last_id.seq == largest) return {};
    id.seq = stream.last_id.seq + 1;
  }
  if (id <= stream.last_id) return {};
  return id;
}

Reply xadd(Execution& x, Args args) {
  Add add;
  if (auto refused = parse_xadd(args, add)) return *std::move(refused);
  auto found = x.find_as<Stream>(args[1]);
  if (found.wrong_type) return wrong_type();
  if (!found.value && add.only_existing) return null();
  if (found.value && found.value->last_id == StreamId{largest, largest})
    return error("ERR The stream has exhausted the last possible ID, unable to add more items");
  auto id = id_for(add, found.value ? *found.value : Stream{}, x.now_ms());
  if (!id)
    return error(
        "ERR The ID specified in XADD is equal or smaller than the target stream top item");
  Stream& stream = *x.make<Stream>(args[1]).value;
  bool is_node_gone = stream.entries.empty() || stream.entries.back().node != stream.node;
  if (is_node_gone || stream.node_size == node_entries) {
    ++stream.node;
    stream.node_size = 0;
  }
  ++stream.node_size;
  auto fields = args.subspan(add.id_at + 1);
  stream.entries.push_back({*id, stream.node, {fields.begin(), fields.end()}});
  stream.last_id = *id;
  ++stream.entries_added;
  trim(stream, add.trim);
  x.changed();
  return text(id_text(*id));
}

Reply xtrim(Execution& x, Args args) {
  Trim how;
  std::size_t i = 2;
  if (!is_word(args[i], "MAXLEN")) return syntax_error();
  if (auto refused = parse_trim(args, i, how)) return *std::move(refused);
  if (i + 1 != args.size()) return syntax_error();
  auto found = x.find_as<Stream>(args[1]);
  if (found.wrong_type) return wrong_type();
  if (!found.value) return number(0);
  auto removed = trim(*found.value, how);
  if (removed > 0) x.changed();
  return number(removed);
}

Reply xlen(Execution& x, Args args) {
  auto found = x.find_as<Stream>(args[1]);
  if (found.wrong_type) return wrong_type();
  return number(found.value ? std::ssize(found.value->entries) : 0);
}

Reply xdel(Execution& x, Args args) {
  auto found = x.find_as<Stream>(args[1]);
  if (found.wrong_type) return wrong_type();
  if (!found.value) return number(0);
  std::vector<StreamId> ids;
  for (auto word : args.subspan(2)) {
    auto id = to_id(word, 0);
    if (!id) return bad_id();
    ids.push_back(*id);
  }
  std::int64_t removed = 0;
  for (auto id : ids) {
    auto at = from(*found.value, id);
    if (at == found.value->entries.end() || at->id != id) continue;
    found.value->entries.erase(at);
    found.value->max_deleted_id = std::max(found.value->max_deleted_id, id);
    ++removed;
  }
  if (removed > 0) x.changed();
  return number(removed);
}

// Parses one end of a range: an id, an id without its sequence, "(" before an excluded id, - or +.
std::optional<StreamId> to_end(std::string_view word, bool is_start,
                               std::optional<Reply>& refused) {
  if (word == "-") return StreamId{0, 0};
  if (word == "+") return StreamId{largest, largest};
  bool is_without = word.starts_with('(');
  auto id = to_id(word.substr(is_without), is_start ? 0 : largest);
  if (!id) {
    refused = bad_id();
    return {};
  }
  if (!is_without) return id;
  auto next = is_start ? next_id(*id) : previous_id(*id);
  if (!next)
    refused = error(is_start ? "ERR invalid start ID for the interval"
                             : "ERR invalid end ID for the interval");
  return next;
}

Reply range_of(Execution& x, Args args, bool reversed) {
  std::optional<Reply> refused;
  auto start = to_end(args[reversed ? 3 : 2], true, refused);
  if (refused) return *std::move(refused);
  auto end = to_end(args[reversed ? 2 : 3], false, refused);
  if (refused) return *std::move(refused);
  std::optional<std::int64_t> count;
  for (std::size_t i = 4; i < args.size(); i += 2) {
    if (i + 1 == args.size() || !is_word(args[i], "COUNT")) return syntax_error();
    count = to_integer(args[i + 1]);
    if (!count) return not_an_integer();
  }
  auto found = x.find_as<Stream>(args[1]);
  if (found.wrong_type) return wrong_type();
  if (!found.value) return list_of({});
  if (count && *count <= 0) return null();
  auto first = from(*found.value, *start);
  auto last = std::ranges::upper_bound(found.value->entries, *end, {}, &Stream::Entry::id);
  std::vector<Reply> entries;
  auto wanted = std::min(count.value_or(last - first), std::max<std::int64_t>(last - first, 0));
  for (std::int64_t i = 0; i < wanted; ++i)
    entries.push_back(entry_reply(reversed ? *(last - 1 - i) : *(first + i)));
  return list_of(std::move(entries));
}

Reply xrange(Execution& x, Args args) { return range_of(x, args, false); }
Reply xrevrange(Execution& x, Args args) { return range_of(x, args, true); }

struct ReadOptions {
  std::int64_t count = 0;  // 0: all
  Args names, ids;
};

std::optional<Reply> parse_xread(Args args, ReadOptions& options) {
  for (std::size_t i = 1; i < args.size(); ++i) {
    if (is_word(args[i], "COUNT") && i + 1 < args.size()) {
      auto value = to_integer(args[++i]);
      if (!value) return not_an_integer();
      options.count = std::max<std::int64_t>(*value, 0);
    } else if (is_word(args[i], "STREAMS") && i + 1 < args.size()) {
      auto rest = args.subspan(i + 1);
      if (rest.size() % 2 == 1)
        return error(
            "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be "
            "specified.");
      options.names = rest.first(rest.size() / 2);
      options.ids = rest.subspan(rest.size() / 2);
      return {};
    } else {
      return syntax_error();
    }
  }
  return syntax_error();
}

Reply xread(Execution& x, Args args) {
  ReadOptions options;
  if (auto refused = parse_xread(args, options)) return *std::move(refused);
  std::vector<StreamId> after;
  for (std::size_t i = 0; i < options.names.size(); ++i) {
    auto found = x.find_as<Stream>(options.names[i]);
    if (found.wrong_type) return wrong_type();
    auto id = options.ids[i] == "$" ? (found.value ? found.value->last_id : StreamId{})
                                    : to_id(options.ids[i], 0);
    if (!id) return bad_id();
    after.push_back(*id);
  }
  Reply streams{x.in_script ? Kind::array : Kind::map, 0, {}, {}};
  for (std::size_t i = 0; i < options.names.size(); ++i) {
    auto found = x.find_as<Stream>(options.names[i]);
    auto first = next_id(after[i]);
    if (!found.value || !first) continue;
    std::vector<Reply> entries;
    for (auto at = from(*found.value, *first); at != found.value->entries.end(); ++at) {
      entries.push_back(entry_reply(*at));
      if (std::ssize(entries) == options.count) break;
    }
    if (entries.empty()) continue;
    if (x.in_script) {
      streams.items.push_back(list_of({text(options.names[i]), list_of(std::move(entries))}));
    } else {
      streams.items.push_back(text(options.names[i]));
      streams.items.push_back(list_of(std::move(entries)));
    }
  }
  return streams.items.empty() ? null() : streams;
}

Reply xinfo(Execution& x, Args args) {
  if (!is_word(args[1], "STREAM"))
    return error(fmt::format("ERR unknown subcommand '{}'. Try XINFO HELP.", args[1]));
  if (args.size() < 3) return wrong_arity("xinfo|stream");
  auto found = x.find_as<Stream>(args[2]);
  if (found.wrong_type) return wrong_type();
  if (!found.value) return error("ERR no such key");
  if (args.size() > 3)
    return error(fmt::format(
        "ERR unknown subcommand or wrong number of arguments for '{}'. Try XINFO HELP.", args[1]));
  const Stream& stream = *found.value;
  bool is_empty = stream.entries.empty();
  StreamId first = is_empty ? StreamId{} : stream.entries.front().id;
  return {Kind::map,
          0,
          {},
          {text("length"), number(std::ssize(stream.entries)), text("last-generated-id"),
           text(id_text(stream.last_id)), text("max-deleted-entry-id"),
           text(id_text(stream.max_deleted_id)), text("entries-added"),
           number(static_cast<std::int64_t>(stream.entries_added)), text("recorded-first-entry-id"),
           text(id_text(first)), text("groups"), number(0), text("first-entry"),
           is_empty ? null() : entry_reply(stream.entries.front()), text("last-entry"),
           is_empty ? null() : entry_reply(stream.entries.back())}};
}

constexpr CommandSpec commands[] = {
    {"XADD", -5, xadd},   {"XTRIM", -4, xtrim},   {"XLEN", 2, xlen},
    {"XDEL", -3, xdel},   {"XRANGE", -4, xrange}, {"XREVRANGE", -4, xrevrange},
    {"XREAD", -4, xread}, {"XINFO", -2, xinfo},
};

}  // namespace

std::span<const CommandSpec> stream_commands() { return commands; }

}  // namespace warren::sim
