#include "primitives/mirror/outbox.h"

#include <doctest/doctest.h>

using namespace warren;
using namespace warren::mirror;

namespace {

MirrorTerms terms() {
  MirrorTerms t;
  t.prefix = "{c}:";
  t.channel = "foghorn:{c}:state_updates";
  t.types = {{"node", "nodes:"}, {"stream", "streams:"}};
  return t;
}

Batch batch(std::vector<std::pair<std::string, std::string>> values) {
  Batch changes;
  for (auto& [id, value] : values) changes.push_back({0, id, value});
  return changes;
}

}  // namespace

TEST_CASE("a put becomes the keys and arguments of the script") {
  auto t = terms();
  Outbox outbox(t, "w");
  CHECK(!outbox.next(5));
  auto receipt = outbox.put({{0, "a\"b", "one"}, {1, "s", {}}});
  REQUIRE(receipt);
  auto write = outbox.next(5);
  REQUIRE(write);
  CHECK(write->keys == std::vector<std::string>{"{c}:mirror:log", "{c}:mirror:head",
                                                "{c}:nodes:a\"b", "{c}:streams:s"});
  std::string packed = "=9 3 nodes:a\"bone-9 0 streams:s";
  CHECK(write->args == std::vector<std::string>{"5", "100000", "w", "1", packed,
                                                "foghorn:{c}:state_updates:log",
                                                "foghorn:{c}:state_updates", "15", "17",
                                                R"({"type":"node","id":"a\"b","via":"log"})", "",
                                                "", R"({"type":"stream","id":"s","via":"log"})"});
  CHECK(!(*receipt)->result);
  auto entry = outbox.on_written({5, 3}, "x:1", "1");
  REQUIRE(entry);
  CHECK(entry->at == Position{{5, 3}, "w:1"});
  CHECK(entry->before == "x:1");
  CHECK(entry->packed == packed);
  REQUIRE((*receipt)->result);
  CHECK(**(*receipt)->result == Version{5, 3});
  CHECK(!outbox.next(5));
}

TEST_CASE("a batch whose answer is missing is sent again, with a stamp of its own") {
  auto t = terms();
  Outbox outbox(t, "w");
  REQUIRE(outbox.put(batch({{"a", "1"}})));
  auto first = outbox.next(5);
  REQUIRE(first);
  REQUIRE(outbox.put(batch({{"a", "2"}})));
  CHECK(!outbox.next(5));
  outbox.on_failed(*first);
  auto again = outbox.next(6);
  REQUIRE(again);
  CHECK(again->args[0] == "6");
  CHECK(again->args[3] == "1.2");
  CHECK(again->args[4] == first->args[4]);
  auto entry = outbox.on_written({6, 0}, "", "1.2");
  REQUIRE(entry);
  CHECK(entry->at == Position{{6, 0}, "w:1.2"});
  CHECK(entry->before.empty());
  CHECK(!outbox.on_written({6, 1}, "", "1"));  // no batch is under way
  auto second = outbox.next(6);
  REQUIRE(second);
  CHECK(second->args[3] == "2");
  CHECK(second->args[4] == "=7 1 nodes:a2");
}

TEST_CASE("puts that wait go together, each whole, and of an entity the newest value") {
  auto t = terms();
  Outbox outbox(t, "w");
  REQUIRE(outbox.put(batch({{"a", "1"}, {"b", "1"}})));
  auto receipt = outbox.put(batch({{"a", "2"}, {"c", "1"}}));
  REQUIRE(receipt);
  auto write = outbox.next(0);
  REQUIRE(write);
  CHECK(write->args[4] == "=7 1 nodes:a2=7 1 nodes:b1=7 1 nodes:c1");
  CHECK(write->keys.size() == 5);
  outbox.on_refused({Errc::denied, "no"});
  REQUIRE((*receipt)->result);
  CHECK((*receipt)->result->error().code == Errc::denied);
}

TEST_CASE("a put that newer ones replace is dropped, and whoever waits for it waits for them") {
  auto t = terms();
  Outbox outbox(t, "w");
  auto old = outbox.put(batch({{"a", "1"}, {"b", "1"}}));
  REQUIRE(old);
  REQUIRE(outbox.put(batch({{"a", "2"}})));
  CHECK(outbox.changes() == 3);  // b is still the newest value: the old put stays whole
  REQUIRE(outbox.put(batch({{"b", "2"}})));
  CHECK(outbox.changes() == 2);
  for (int i = 0; i < 1000; ++i) REQUIRE(outbox.put(batch({{"a", std::to_string(i)}})));
  CHECK(outbox.changes() == 2);
  CHECK(outbox.waiting() == 2);
  REQUIRE(outbox.next(0));
  outbox.on_written({0, 7}, "-", "1");
  REQUIRE((*old)->result);
  CHECK(**(*old)->result == Version{0, 7});
}

TEST_CASE("one put that names an entity twice counts it once") {
  auto t = terms();
  Outbox outbox(t, "w");
  REQUIRE(outbox.put(batch({{"a", "1"}, {"a", "2"}})));
  REQUIRE(outbox.put(batch({{"a", "3"}})));
  CHECK(outbox.waiting() == 1);
  auto write = outbox.next(0);
  CHECK(write->args[4] == "=7 1 nodes:a3");
}

TEST_CASE("what does not fit is refused, and nothing of it is taken") {
  auto t = terms();
  t.queued_changes = 3;
  t.queued_bytes = 1000;
  Outbox outbox(t, "w");
  REQUIRE(outbox.put(batch({{"a", "1"}, {"b", "1"}})));
  auto full = outbox.put(batch({{"c", "1"}, {"d", "1"}}));
  REQUIRE(!full);
  CHECK(full.error().code == Errc::overloaded);
  auto large = outbox.put(batch({{"c", std::string(1000, 'x')}}));
  REQUIRE(!large);
  CHECK(large.error().code == Errc::overloaded);
  CHECK(outbox.changes() == 2);
}

TEST_CASE("a batch of nothing, of an unknown type or of too much is invalid") {
  auto t = terms();
  Outbox outbox(t, "w");
  Batch many(Outbox::batch_changes + 1, {0, "a", "1"});
  for (const auto& wrong : {Batch{}, Batch{{2, "a", "1"}}, many,
                            Batch{{0, "a", std::string(Outbox::batch_bytes, 'x')}}}) {
    auto refused = outbox.put(wrong);
    REQUIRE(!refused);
    CHECK(refused.error().code == Errc::invalid);
  }
  CHECK(outbox.waiting() == 0);
}

TEST_CASE("more than one batch holds is written in several, in the order in which it was put") {
  auto t = terms();
  Outbox outbox(t, "w");
  for (int i = 0; i < 2500; ++i) REQUIRE(outbox.put(batch({{std::to_string(i), "1"}})));
  auto first = outbox.next(0);
  CHECK(first->keys.size() == 2 + Outbox::batch_changes);
  CHECK(first->keys[2] == "{c}:nodes:0");
  CHECK(outbox.changes() == 500);
  outbox.on_written({0, 1}, "-", "1");
  auto second = outbox.next(0);
  CHECK(second->keys.size() == 2 + 500);
  CHECK(second->keys[2] == "{c}:nodes:2000");
}

TEST_CASE("a batch made ready while another is on its way follows it, before what is put later") {
  auto t = terms();
  Outbox outbox(t, "w");
  REQUIRE(outbox.put(batch({{"a", "1"}})));
  auto first = outbox.next(0);
  REQUIRE(first);
  for (std::size_t i = 0; i < Outbox::worth_preparing; ++i) {
    CHECK(outbox.changes() == i);
    REQUIRE(outbox.put(batch({{"b" + std::to_string(i), "1"}})));
    outbox.prepare();
  }
  CHECK(outbox.changes() == 0);
  auto late = outbox.put(batch({{"b0", "2"}}));
  outbox.on_failed(*first);
  CHECK(outbox.next(0)->args[3] == "1.2");  // the first batch again
  outbox.on_written({0, 1}, "-", "1");
  auto second = outbox.next(7);
  CHECK(second->args[0] == "7");
  CHECK(second->args[3] == "2");
  CHECK(second->keys.size() == 2 + Outbox::worth_preparing);
  outbox.on_refused({Errc::denied, "no"});
  CHECK(!(*late)->result);
  auto third = outbox.next(0);
  CHECK(third->args[3] == "3");
  CHECK(third->args[4] == "=8 1 nodes:b02");
}

TEST_CASE("when nothing will be written any more, everybody is told") {
  auto t = terms();
  Outbox outbox(t, "w");
  auto flying = outbox.put(batch({{"a", "1"}}));
  REQUIRE(outbox.next(0));
  Batch many;
  for (std::size_t i = 0; i < Outbox::worth_preparing; ++i)
    many.push_back({0, std::to_string(i), "1"});
  auto ready = outbox.put(std::move(many));
  outbox.prepare();
  auto waiting = outbox.put(batch({{"b", "1"}}));
  CHECK(outbox.waiting() == 3);
  int told = 0;
  for (const auto& receipt : {*flying, *ready, *waiting}) receipt->tell = [&] { ++told; };
  outbox.abandon({Errc::cancelled, "closed"});
  CHECK(told == 3);
  for (const auto& receipt : {*flying, *ready, *waiting})
    CHECK(receipt->result->error().code == Errc::cancelled);
  CHECK(outbox.waiting() == 0);
  CHECK(outbox.changes() == 0);
}
