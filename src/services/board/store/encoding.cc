#include "services/board/store/encoding.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "services/board/store/causes.h"
#include "services/board/store/json_parts.h"

namespace warren::board {
namespace {

using redis::quoted;

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t number = 0;
  auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || at != text.data() + text.size()) return {};
  return number;
}

bool parse_boolean(std::string_view text) {
  constexpr std::array<std::string_view, 6> yes{"1", "t", "T", "true", "TRUE", "True"};
  return std::ranges::find(yes, text) != yes.end();
}

// Reads field by field and remembers the first that could not be read.
class Reader {
 public:
  explicit Reader(std::string_view where) : where_(where) {}

  template <class T>
  T take(std::string_view field, std::optional<T> read, std::string_view value,
         std::string_view expected) {
    if (read) return *std::move(read);
    if (!error_)
      error_ = Error{Errc::protocol, fmt::format("{}: {} is {} instead of {}", where_, field,
                                                 quoted(value.substr(0, 60)), expected)};
    return T{};
  }
  void need_uuid(std::string_view field, std::string_view id) {
    auto read = canonical_uuid(id);
    take(field, std::move(read), id, "a UUID");
  }
  // What is said to be this is this.
  void need_own_id(std::string_view id) {
    need_uuid("id", id);
    std::optional<bool> is_own;
    if (where_.ends_with(id)) is_own = true;
    take("id", is_own, id, "that of the key");
  }
  void need_uuids(std::string_view field, const Words& ids) {
    for (const auto& id : ids) need_uuid(field, id);
  }
  template <class T>
  Result<T> result(T value) {
    if (error_) return std::unexpected(*std::move(error_));
    return value;
  }

 private:
  std::string_view where_;
  std::optional<Error> error_;
};

// A hash: every value is text, and a list or an object is JSON in it.
class HashReader : public Reader {
 public:
  HashReader(std::string_view key, const redis::Reply& hash) : Reader(key), hash_(hash) {}

  std::string_view text(std::string_view field) const {
    const auto* found = hash_.find(field);
    return found ? std::string_view(found->text) : std::string_view();
  }
  template <class T>
  T text_as(std::string_view field, std::optional<T> (*parse)(std::string_view),
            std::string_view expected) {
    return take(field, parse(text(field)), text(field), expected);
  }
  template <class T>
  T json_as(std::string_view field, parts::Read<T> (*read)(const boost::json::value*),
            std::string_view expected) {
    if (text(field).empty()) return *read(nullptr);
    auto value = parts::parse(text(field));
    return take(field, value ? read(&*value) : std::nullopt, text(field), expected);
  }

 private:
  const redis::Reply& hash_;
};

// An event: a JSON object.
class JsonReader : public Reader {
 public:
  JsonReader(std::string_view where, const boost::json::object& object)
      : Reader(where), object_(object) {}

  template <class T>
  T as(std::string_view member, parts::Read<T> (*read)(const boost::json::value*),
       std::string_view expected) {
    const auto* value = object_.if_contains(member);
    auto part = read(value);
    auto shown = part ? "" : parts::serialize(*value);
    return take(member, std::move(part), shown, expected);
  }
  std::string text(std::string_view member) { return as(member, parts::text, "text"); }
  template <class T>
  T text_as(std::string_view member, std::optional<T> (*parse)(std::string_view),
            std::string_view expected) {
    auto spelled = text(member);
    return take(member, parse(spelled), spelled, expected);
  }

 private:
  const boost::json::object& object_;
};

constexpr std::string_view a_list = "a JSON list of text", a_phase = "the state of a phase",
                           an_entry = "an entry of the grant queue", a_type = "a structural type",
                           a_status = "the status of a claim", a_number = "a whole number";

Result<> check_hash(std::string_view key, const redis::Reply& hash) {
  using Kind = redis::Reply::Kind;
  if (hash.is_null() ||
      ((hash.kind == Kind::map || hash.kind == Kind::array) && hash.items.empty()))
    return fail(Errc::not_found, causes::missing, std::string(key), "there is no {}", key);
  if (hash.kind != Kind::map && hash.kind != Kind::array)
    return fail(Errc::protocol, "{}: {} is no hash", key, to_string(hash));
  return ok;
}

}  // namespace

Fields to_fields(const Artefact& a) {
  return {{"id", a.id},
          {"logical_id", a.logical_id},
          {"version", std::to_string(a.version)},
          {"structural_type", std::string(name(a.structural_type))},
          {"type", a.type},
          {"payload", a.payload},
          {"source_artefacts", parts::serialize(parts::to_value(a.source_artefacts))},
          {"produced_by_role", a.produced_by_role},
          {"created_at_ms", std::to_string(parts::milliseconds(a.created_at))}};
}

Fields to_fields(const Claim& c) {
  auto list = [](const Words& words) { return parts::serialize(parts::to_value(words)); };
  Fields fields{{"id", c.id},
                {"artefact_id", c.artefact_id},
                {"status", std::string(name(c.status))},
                {"granted_review_agents", list(c.granted_review_agents)},
                {"granted_parallel_agents", list(c.granted_parallel_agents)},
                {"granted_exclusive_agent", c.granted_exclusive_agent},
                {"additional_context_ids", list(c.additional_context_ids)},
                {"termination_reason", c.termination_reason},
                {"phase_state",
                 c.phase_state ? parts::serialize(parts::to_value(*c.phase_state)) : std::string()},
                {"grant_queue",
                 c.grant_queue ? parts::serialize(parts::to_value(*c.grant_queue)) : std::string()},
                {"last_grant_agent", c.last_grant_agent},
                {"last_grant_time", std::to_string(c.last_grant_time.time_since_epoch().count())},
                {"artefact_expected", c.artefact_expected ? "1" : "0"},
                {"granted_agent_image_id", c.granted_agent_image_id}};
  if (c.children_before > 0)
    fields.emplace_back("warren_children_before", std::to_string(c.children_before));
  if (c.untaken_since > UnixTime{})
    fields.emplace_back("warren_untaken_since",
                        std::to_string(parts::milliseconds(c.untaken_since)));
  return fields;
}

Result<Artefact> artefact_from(std::string_view key, const redis::Reply& hash) {
  if (auto checked = check_hash(key, hash); !checked) return std::unexpected(checked.error());
  HashReader from(key, hash);
  Artefact a;
  a.id = from.text("id");
  a.logical_id = from.text("logical_id");
  a.version = from.text_as("version", parse_integer, a_number);
  a.structural_type = from.text_as("structural_type", parse_structural_type, a_type);
  a.type = from.text("type");
  a.payload = from.text("payload");
  a.source_artefacts = from.json_as("source_artefacts", parts::words, a_list);
  a.produced_by_role = from.text("produced_by_role");
  a.created_at = parts::unix_time(parse_integer(from.text("created_at_ms")).value_or(0));
  from.need_own_id(a.id);
  from.need_uuid("logical_id", a.logical_id);
  from.need_uuids("source_artefacts", a.source_artefacts);
  return from.result(std::move(a));
}

Result<Claim> claim_from(std::string_view key, const redis::Reply& hash) {
  if (auto checked = check_hash(key, hash); !checked) return std::unexpected(checked.error());
  HashReader from(key, hash);
  Claim c;
  c.id = from.text("id");
  c.artefact_id = from.text("artefact_id");
  c.status = from.text_as("status", parse_claim_status, a_status);
  c.granted_review_agents = from.json_as("granted_review_agents", parts::words, a_list);
  c.granted_parallel_agents = from.json_as("granted_parallel_agents", parts::words, a_list);
  c.granted_exclusive_agent = from.text("granted_exclusive_agent");
  c.additional_context_ids = from.json_as("additional_context_ids", parts::words, a_list);
  c.termination_reason = from.text("termination_reason");
  c.phase_state = from.json_as("phase_state", parts::phase_state, a_phase);
  c.grant_queue = from.json_as("grant_queue", parts::grant_queue, an_entry);
  c.last_grant_agent = from.text("last_grant_agent");
  auto last = parse_integer(from.text("last_grant_time")).value_or(0);
  c.last_grant_time = std::chrono::sys_seconds(std::chrono::seconds(last));
  c.artefact_expected = parse_boolean(from.text("artefact_expected"));
  c.granted_agent_image_id = from.text("granted_agent_image_id");
  c.children_before = parse_integer(from.text("warren_children_before")).value_or(0);
  c.untaken_since = parts::unix_time(parse_integer(from.text("warren_untaken_since")).value_or(0));
  c.revision = from.text("warren_revision");
  from.need_own_id(c.id);
  from.need_uuid("artefact_id", c.artefact_id);
  return from.result(std::move(c));
}

Bids bids_from(const redis::Reply& hash) {
  Bids bids;
  for (std::size_t i = 0; i + 1 < hash.items.size(); i += 2)
    bids[hash.items[i].text] = parse_bid_type(hash.items[i + 1].text).value_or(BidType::ignore);
  return bids;
}

ArtefactText event_text(const Artefact& a) {
  boost::json::object middle;
  middle["structural_type"] = name(a.structural_type);
  middle["type"] = parts::text_value(a.type);
  middle["payload"] = parts::text_value(a.payload);
  middle["source_artefacts"] = parts::to_value(a.source_artefacts);
  middle["produced_by_role"] = parts::text_value(a.produced_by_role);
  auto text = parts::serialize(middle);
  text.front() = ',';
  text.back() = ',';
  return {fmt::format(R"({{"id":"{}","logical_id":"{}","version":)", a.id, a.logical_id),
          text + R"("created_at_ms":)"};
}

std::string to_json(const Artefact& a) {
  auto [head, middle] = event_text(a);
  return fmt::format("{}{}{}{}}}", head, a.version, middle, parts::milliseconds(a.created_at));
}

std::string to_json(const Claim& c) {
  boost::json::object o;
  o["id"] = c.id;
  o["artefact_id"] = c.artefact_id;
  o["status"] = name(c.status);
  o["granted_review_agents"] = parts::to_value(c.granted_review_agents);
  o["granted_parallel_agents"] = parts::to_value(c.granted_parallel_agents);
  o["granted_exclusive_agent"] = parts::text_value(c.granted_exclusive_agent);
  auto add_text = [&o](const char* member, const std::string& text) {
    if (!text.empty()) o[member] = parts::text_value(text);
  };
  if (!c.additional_context_ids.empty())
    o["additional_context_ids"] = parts::to_value(c.additional_context_ids);
  add_text("termination_reason", c.termination_reason);
  if (c.phase_state) o["phase_state"] = parts::to_value(*c.phase_state);
  if (c.grant_queue) o["grant_queue"] = parts::to_value(*c.grant_queue);
  add_text("last_grant_agent", c.last_grant_agent);
  auto last = c.last_grant_time.time_since_epoch().count();
  if (last != 0) o["last_grant_time"] = last;
  if (c.artefact_expected) o["artefact_expected"] = true;
  add_text("granted_agent_image_id", c.granted_agent_image_id);
  return parts::serialize(o);
}

Result<boost::json::object> parse_object(std::string_view where, std::string_view text) {
  auto value = parts::parse(text);
  if (!value || !value->is_object())
    return fail(Errc::protocol, "{}: {} is no JSON object", where, quoted(text.substr(0, 60)));
  return std::move(value->get_object());
}

Result<Artefact> artefact_from(std::string_view where, const boost::json::object& json) {
  JsonReader from(where, json);
  Artefact a;
  a.id = from.text("id");
  a.logical_id = from.text("logical_id");
  a.version = from.as("version", parts::integer, a_number);
  a.structural_type = from.text_as("structural_type", parse_structural_type, a_type);
  a.type = from.text("type");
  a.payload = from.text("payload");
  a.source_artefacts = from.as("source_artefacts", parts::words, a_list);
  a.produced_by_role = from.text("produced_by_role");
  a.created_at = parts::unix_time(from.as("created_at_ms", parts::integer, a_number));
  from.need_uuid("id", a.id);
  from.need_uuid("logical_id", a.logical_id);
  from.need_uuids("source_artefacts", a.source_artefacts);
  return from.result(std::move(a));
}

Result<Claim> claim_from(std::string_view where, const boost::json::object& json) {
  JsonReader from(where, json);
  Claim c;
  c.id = from.text("id");
  c.artefact_id = from.text("artefact_id");
  c.status = from.text_as("status", parse_claim_status, a_status);
  c.granted_review_agents = from.as("granted_review_agents", parts::words, a_list);
  c.granted_parallel_agents = from.as("granted_parallel_agents", parts::words, a_list);
  c.granted_exclusive_agent = from.text("granted_exclusive_agent");
  c.additional_context_ids = from.as("additional_context_ids", parts::words, a_list);
  c.termination_reason = from.text("termination_reason");
  c.phase_state = from.as("phase_state", parts::phase_state, a_phase);
  c.grant_queue = from.as("grant_queue", parts::grant_queue, an_entry);
  c.last_grant_agent = from.text("last_grant_agent");
  auto last = from.as("last_grant_time", parts::integer, a_number);
  c.last_grant_time = std::chrono::sys_seconds(std::chrono::seconds(last));
  c.artefact_expected = from.as("artefact_expected", parts::boolean, "true or false");
  c.granted_agent_image_id = from.text("granted_agent_image_id");
  from.need_uuid("id", c.id);
  from.need_uuid("artefact_id", c.artefact_id);
  return from.result(std::move(c));
}

}  // namespace warren::board
