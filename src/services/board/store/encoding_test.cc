// Golden values: hashes and events as the Go program writes them.
#include "services/board/store/encoding.h"

#include <doctest/doctest.h>

using namespace warren;
using namespace std::chrono_literals;
using namespace warren::board;

namespace {

const std::string goal = "0b54e9a1-7c4f-4d55-9a3e-0c1f5b2d6e7f";
const std::string thread = "4b1f6b0e-5a26-4c3b-8a1f-2d6c9e3f7a10";
const std::string review = "9c2e7d44-10fa-4e5b-b7c3-5d8f0a1b2c3d";
const std::string key = "holt:demo:artefact:" + goal;

redis::Reply hash(const Fields& fields, redis::Reply::Kind kind = redis::Reply::Kind::map) {
  redis::Reply reply;
  reply.kind = kind;
  for (const auto& [field, value] : fields) {
    for (const auto& text : {field, value}) {
      redis::Reply item;
      item.kind = redis::Reply::Kind::string;
      item.text = text;
      reply.items.push_back(item);
    }
  }
  return reply;
}

Fields with(Fields fields, const std::string& field, const std::string& value) {
  for (auto& each : fields)
    if (each.first == field) each.second = value;
  return fields;
}

Fields without(Fields fields, const std::string& field) {
  std::erase_if(fields, [&](const auto& each) { return each.first == field; });
  return fields;
}

const Fields go_artefact{{"id", goal},
                         {"logical_id", thread},
                         {"version", "2"},
                         {"structural_type", "Standard"},
                         {"type", "CodeCommit"},
                         {"payload", "<a&b>\n\"x\""},
                         {"source_artefacts", "[\"" + review + "\"]"},
                         {"produced_by_role", "coder"},
                         {"created_at_ms", "1761900000123"}};

const Fields go_claim{
    {"id", goal},
    {"artefact_id", review},
    {"status", "pending_parallel"},
    {"granted_review_agents", "[]"},
    {"granted_parallel_agents", R"(["b","a"])"},
    {"granted_exclusive_agent", ""},
    {"additional_context_ids", "null"},
    {"termination_reason", ""},
    {"phase_state", R"({"current":"parallel","granted_agents":["b","a"],"received":{},)"
                    R"("all_bids":{"a":"claim","b":"claim","c":"later"},)"
                    R"("start_time_ms":1761900000000})"},
    {"grant_queue", ""},
    {"last_grant_agent", ""},
    {"last_grant_time", "0"},
    {"artefact_expected", "0"},
    {"granted_agent_image_id", ""}};

const std::string claim_key = "holt:demo:claim:" + goal;

std::string why(const Fields& fields) {
  auto read = artefact_from(key, hash(fields));
  REQUIRE(!read);
  CHECK(read.error().code == Errc::protocol);
  CHECK(read.error().what.starts_with(key));
  return read.error().what.substr(key.size() + 2);
}

std::string why_claim(const Fields& fields) {
  auto read = claim_from(claim_key, hash(fields));
  REQUIRE(!read);
  CHECK(read.error().code == Errc::protocol);
  CHECK(read.error().what.starts_with(claim_key));
  return read.error().what.substr(claim_key.size() + 2);
}

template <class T>
Result<T> from_event(const std::string& text,
                     Result<T> (*read)(std::string_view, const boost::json::object&)) {
  auto object = parse_object("channel", text);
  if (!object) return std::unexpected(object.error());
  return read("channel", *object);
}

}  // namespace

TEST_CASE("an artefact that the Go program wrote is read, in either protocol") {
  for (auto kind : {redis::Reply::Kind::map, redis::Reply::Kind::array}) {
    auto read = artefact_from(key, hash(go_artefact, kind));
    REQUIRE_MESSAGE(read, read.error().what);
    CHECK(read->id == goal);
    CHECK(read->logical_id == thread);
    CHECK(read->version == 2);
    CHECK(read->structural_type == StructuralType::standard);
    CHECK(read->type == "CodeCommit");
    CHECK(read->payload == "<a&b>\n\"x\"");
    CHECK(read->source_artefacts == Words{review});
    CHECK(read->produced_by_role == "coder");
    CHECK(read->created_at.time_since_epoch() == 1761900000123ms);
    CHECK(to_fields(*read) == go_artefact);
  }
}

TEST_CASE("a list may be missing, empty, null or []; a time may be missing or garbage") {
  for (std::string empty : {"", "null", "[]", " [ ] "}) {
    auto read = artefact_from(key, hash(with(go_artefact, "source_artefacts", empty)));
    REQUIRE(read);
    CHECK(read->source_artefacts.empty());
  }
  auto sett = without(without(go_artefact, "created_at_ms"), "source_artefacts");
  auto read = artefact_from(key, hash(sett));
  REQUIRE(read);
  CHECK(read->created_at == UnixTime());
  CHECK(artefact_from(key, hash(with(go_artefact, "created_at_ms", "soon")))->created_at ==
        UnixTime());
}

TEST_CASE("an artefact that cannot be read is an error that names the key and the field") {
  CHECK(why(with(go_artefact, "version", "two")) ==
        R"(version is "two" instead of a whole number)");
  CHECK(why(with(go_artefact, "version", "99999999999999999999")).starts_with("version"));
  CHECK(why(with(go_artefact, "version", "1.5")).starts_with("version"));
  CHECK(why(without(go_artefact, "version")).starts_with("version"));
  CHECK(why(with(go_artefact, "structural_type", "standard")).starts_with("structural_type"));
  CHECK(why(with(go_artefact, "id", "x")).starts_with("id is \"x\" instead of a UUID"));
  CHECK(why(with(go_artefact, "id", thread)).contains("instead of that of the key"));
  CHECK(why(with(go_artefact, "logical_id", "")).starts_with("logical_id"));
  for (std::string bad : {"{}", "[1]", "[", "\"a\"", "[\"x\"]", "[[]]", "nul", "[]]"})
    CHECK(why(with(go_artefact, "source_artefacts", bad)).starts_with("source_artefacts"));
  std::string deep(100'000, '[');
  CHECK(why(with(go_artefact, "source_artefacts", deep)).size() < 200);

  auto missing = artefact_from(key, hash({}));
  REQUIRE(!missing);
  CHECK(missing.error().code == Errc::not_found);
  redis::Reply number;
  number.kind = redis::Reply::Kind::integer;
  CHECK(artefact_from(key, number).error().code == Errc::protocol);
}

TEST_CASE("a claim that the Go program wrote is read, and written in the same forms") {
  auto read = claim_from(claim_key, hash(go_claim));
  REQUIRE_MESSAGE(read, read.error().what);
  CHECK(read->status == ClaimStatus::pending_parallel);
  CHECK(read->granted_parallel_agents == Words{"b", "a"});
  CHECK(read->additional_context_ids.empty());
  REQUIRE(read->phase_state);
  CHECK(read->phase_state->current == Phase::parallel);
  CHECK(read->phase_state->all_bids.at("b") == BidType::claim);
  CHECK(read->phase_state->all_bids.at("c") == BidType::ignore);
  CHECK(read->phase_state->start_time.time_since_epoch() == 1761900000000ms);
  CHECK(!read->grant_queue);
  auto ours = to_fields(*read);
  auto expected = with(go_claim, "additional_context_ids", "[]");
  expected = with(expected, "phase_state",
                  R"({"current":"parallel","granted_agents":["b","a"],"received":{},)"
                  R"("all_bids":{"a":"claim","b":"claim","c":"ignore"},)"
                  R"("start_time_ms":1761900000000})");
  CHECK(ours == expected);
}

TEST_CASE("a claim of the first six fields is enough, and a boolean has many spellings") {
  Fields sett(go_claim.begin(), go_claim.begin() + 6);
  auto read = claim_from(claim_key, hash(sett));
  REQUIRE(read);
  CHECK(!read->phase_state);
  CHECK(!read->artefact_expected);
  for (std::string yes : {"1", "t", "T", "true", "TRUE", "True"})
    CHECK(claim_from(claim_key, hash(with(go_claim, "artefact_expected", yes)))->artefact_expected);
  for (std::string no : {"0", "false", "tRUE", "", "2"})
    CHECK(!claim_from(claim_key, hash(with(go_claim, "artefact_expected", no)))->artefact_expected);
  auto queued = R"({"paused_at_ms":1761900000001,"agent_name":"coder","position":0})";
  read = claim_from(claim_key, hash(with(go_claim, "grant_queue", queued)));
  REQUIRE(read);
  REQUIRE(read->grant_queue);
  CHECK(read->grant_queue->agent_name == "coder");
  CHECK(to_fields(*read)[9].second == queued);
}

TEST_CASE("received and all_bids are objects, also where somebody wrote null") {
  auto text = R"({"current":"review","granted_agents":null,"received":null,"all_bids":null,)"
              R"("start_time_ms":5})";
  auto read = claim_from(claim_key, hash(with(go_claim, "phase_state", text)));
  REQUIRE(read);
  CHECK(
      to_fields(*read)[8].second ==
      R"({"current":"review","granted_agents":[],"received":{},"all_bids":{},"start_time_ms":5})");
}

TEST_CASE("a claim that cannot be read is an error that names the key and the field") {
  CHECK(why_claim(with(go_claim, "status", "pending_consensus")).starts_with("status"));
  CHECK(why_claim(with(go_claim, "artefact_id", "-")).starts_with("artefact_id"));
  CHECK(why_claim(with(go_claim, "granted_review_agents", "coder")).starts_with("granted_review"));
  for (const char* bad :
       {"{}", "[]", "{", R"({"current":"claim"})", R"({"current":"review","received":[]})",
        R"({"current":"review","received":{"a":1}})", R"({"current":"review","start_time_ms":"1"})",
        R"({"current":"review","start_time_ms":1.5})", R"({"current":1})"})
    CHECK(why_claim(with(go_claim, "phase_state", bad)).starts_with("phase_state"));
  for (const char* bad : {"[]", "1", R"({"paused_at_ms":"1"})", R"({"agent_name":2})"})
    CHECK(why_claim(with(go_claim, "grant_queue", bad)).starts_with("grant_queue"));
}

TEST_CASE("an artefact event has Go's members in Go's order, and Go's escapes are read") {
  auto artefact = *artefact_from(key, hash(go_artefact));
  auto text = to_json(artefact);
  CHECK(text == R"({"id":")" + goal + R"(","logical_id":")" + thread +
                    R"(","version":2,"structural_type":"Standard","type":"CodeCommit",)"
                    R"("payload":"<a&b>\n\"x\"","source_artefacts":[")" +
                    review + R"("],"produced_by_role":"coder","created_at_ms":1761900000123})");
  auto escaped = text;
  escaped.replace(escaped.find("<a&b>"), 5, "\\u003ca\\u0026b\\u003e");
  CHECK(*from_event<Artefact>(escaped, artefact_from) == artefact);
  auto nulls = text;
  nulls.replace(nulls.find("[\"" + review + "\"]"), review.size() + 4, "null");
  CHECK(from_event<Artefact>(nulls, artefact_from)->source_artefacts.empty());
}

TEST_CASE("bytes that are no UTF-8 stay in the hash and are replaced in the event, as by Go") {
  auto artefact = *artefact_from(key, hash(with(go_artefact, "payload", "a\xff")));
  CHECK(to_fields(artefact)[5].second == "a\xff");
  CHECK(from_event<Artefact>(to_json(artefact), artefact_from)->payload == "a\xef\xbf\xbd");
}

TEST_CASE("a claim event leaves out what is empty, and all of it is read back") {
  Claim claim;
  claim.id = goal;
  claim.artefact_id = review;
  CHECK(to_json(claim) == R"({"id":")" + goal + R"(","artefact_id":")" + review +
                              R"(","status":"pending_review","granted_review_agents":[],)"
                              R"("granted_parallel_agents":[],"granted_exclusive_agent":""})");
  claim.status = ClaimStatus::pending_assignment;
  claim.granted_exclusive_agent = "coder";
  claim.additional_context_ids = {review};
  claim.termination_reason = "because";
  claim.phase_state = PhaseState{Phase::exclusive, {"coder"}, {{"coder", goal}}, {}, {}};
  claim.grant_queue = GrantQueueEntry{UnixTime(7ms), "coder"};
  claim.last_grant_agent = "coder";
  claim.last_grant_time = std::chrono::sys_seconds(9s);
  claim.artefact_expected = true;
  claim.granted_agent_image_id = "sha256:1";
  auto read = from_event<Claim>(to_json(claim), claim_from);
  REQUIRE_MESSAGE(read, read.error().what);
  CHECK(*read == claim);
}

TEST_CASE("an event with a member of the wrong type is an error, whatever it is") {
  auto text = to_json(*artefact_from(key, hash(go_artefact)));
  auto changed = [&](const std::string& from, const std::string& to) {
    auto copy = text;
    auto at = copy.find(from);
    REQUIRE(at != copy.npos);
    copy.replace(at, from.size(), to);
    return copy;
  };
  for (const auto& bad :
       {std::string(), std::string("null"), std::string("[]"), std::string("{}"),
        text.substr(0, text.size() - 1), text + "x", changed("\"version\":2", "\"version\":\"2\""),
        changed("\"version\":2", "\"version\":2.5"), changed("\"Standard\"", "\"Nonstandard\""),
        changed("\"Standard\"", "7"), changed("1761900000123", "1e400"),
        changed("\"" + review + "\"", "3"), changed(goal, "me"), changed("\"coder\"", "[]"),
        std::string("{\"id\":") + std::string(10'000, '[')}) {
    auto read = from_event<Artefact>(bad, artefact_from);
    REQUIRE(!read);
    CHECK(read.error().code == Errc::protocol);
    CHECK(read.error().what.starts_with("channel: "));
  }
}

TEST_CASE("a bid of an unknown kind is an ignore") {
  auto bids = bids_from(hash({{"a", "review"}, {"b", "claim"}, {"c", "maybe"}}));
  CHECK(bids == Bids{{"a", BidType::review}, {"b", BidType::claim}, {"c", BidType::ignore}});
}
