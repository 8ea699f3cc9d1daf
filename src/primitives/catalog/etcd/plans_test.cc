#include <doctest/doctest.h>

#include "primitives/catalog/etcd/rows.h"

namespace warren::etcd {

namespace {

const Keys keys{"t/"};
const NodeSession alice = "alice/0000000000000001", bob = "bob/0000000000000002";

std::optional<SeenRow> free_row() {
  RowRecord record;
  record.set_rank(7);
  return SeenRow{"k", 10, record};
}

std::optional<SeenRow> row_of_alice() { return SeenRow{"k", 20, claimed_by(*free_row(), alice)}; }

Claim claim_of_alice() { return {alice, "k", {0, 20}}; }

bool writes(const Plan& plan, const std::string& key) {
  return std::ranges::any_of(plan.txn.request.success(),
                             [&](auto& op) { return op.request_put().key() == key; });
}

bool erases(const Plan& plan, const std::string& key) {
  return std::ranges::any_of(plan.txn.request.success(),
                             [&](auto& op) { return op.request_delete_range().key() == key; });
}

bool needs(const Plan& plan, const std::string& key, bool exists, Errc otherwise) {
  return std::ranges::any_of(plan.conditions, [&](auto& condition) {
    return condition.key == key && condition.exists == exists &&
           condition.otherwise.code == otherwise;
  });
}

}  // namespace

TEST_CASE("a claim moves a row from the offers to its owner, under the epoch of its own revision") {
  auto plan = plan_claim(keys, free_row(), alice, "k");
  CHECK(needs(plan, keys.node(alice), true, Errc::lease_lost));
  CHECK(plan.conditions.size() == 1);
  CHECK(erases(plan, keys.offer(7, "k")));
  CHECK(writes(plan, keys.own(alice, "k")));
  SeenRow after{"k", 33, plan.after.value()};
  CHECK(after.epoch() == 33);
  CHECK(after.state() == RowState::claimed);
  SeenRow later{"k", 44, written(after, RowState::ready, "note")};
  CHECK(later.epoch() == 33);
}

TEST_CASE("a claim of what somebody owns holds only if that node is gone") {
  auto plan = plan_claim(keys, row_of_alice(), bob, "k");
  CHECK(needs(plan, keys.node(alice), false, Errc::held_elsewhere));
  CHECK(erases(plan, keys.own(alice, "k")));
  CHECK(writes(plan, keys.own(bob, "k")));
}

TEST_CASE("claiming what one owns changes nothing, and what does not exist is not found") {
  auto again = plan_claim(keys, row_of_alice(), alice, "k");
  CHECK_FALSE(again.after);
  CHECK_FALSE(again.refusal);
  auto none = plan_claim(keys, std::nullopt, alice, "k");
  CHECK(none.refusal.value().code == Errc::not_found);
}

TEST_CASE("a row that waits is claimed only when its wait is gone") {
  WaitAt wait{place_of(5, 1, "k"), 77};
  auto release =
      plan_release(keys, row_of_alice(), claim_of_alice(), {.error = "e", .wait = 5s}, wait);
  CHECK(writes(release, keys.wait(wait.place)));
  CHECK(writes(release, keys.waiting(wait.place)));
  CHECK_FALSE(writes(release, keys.offer(7, "k")));
  SeenRow waits{"k", 30, release.after.value()};
  CHECK(waits.state() == RowState::failed);
  CHECK(waits.record.attempts() == 1);
  auto claim = plan_claim(keys, waits, bob, "k");
  CHECK(needs(claim, keys.wait(wait.place), false, Errc::held_elsewhere));
  CHECK(erases(claim, keys.waiting(wait.place)));
  auto ends = plan_change(keys, waits, "k", {.rank = 9, .ends_wait = true});
  CHECK(erases(ends, keys.wait(wait.place)));
  CHECK(erases(ends, keys.offer(7, "k")));
  CHECK(writes(ends, keys.offer(9, "k")));
  CHECK(ends.after->attempts() == 0);
}

TEST_CASE("a write under another epoch, or by another owner, is refused") {
  Claim old = claim_of_alice();
  old.epoch.counter = 19;
  CHECK(plan_write(keys, row_of_alice(), old, RowState::ready, {}).refusal);
  Claim others = claim_of_alice();
  others.session = bob;
  CHECK(plan_write(keys, row_of_alice(), others, RowState::ready, {}).refusal);
  Claim foreign = claim_of_alice();
  foreign.epoch.epoch = 1;
  CHECK(plan_write(keys, row_of_alice(), foreign, RowState::ready, {}).refusal);
  CHECK(plan_write(keys, std::nullopt, claim_of_alice(), RowState::ready, {}).refusal);
  CHECK_FALSE(plan_write(keys, row_of_alice(), claim_of_alice(), RowState::ready, {}).refusal);
}

TEST_CASE("a release or a hand-over that was done already is not done again") {
  auto release = plan_release(keys, row_of_alice(), claim_of_alice(), {.error = "e"}, {});
  SeenRow free{"k", 30, release.after.value()};
  auto again = plan_release(keys, free, claim_of_alice(), {.error = "e"}, {});
  CHECK_FALSE(again.after);
  CHECK_FALSE(again.refusal);
  auto hand_over = plan_hand_over(keys, row_of_alice(), claim_of_alice(), bob);
  CHECK(needs(hand_over, keys.node(bob), true, Errc::not_found));
  SeenRow handed{"k", 31, hand_over.after.value()};
  CHECK(handed.epoch() == 31);
  auto handed_again = plan_hand_over(keys, handed, claim_of_alice(), bob);
  CHECK_FALSE(handed_again.after);
  CHECK_FALSE(handed_again.refusal);
  CHECK(plan_write(keys, handed, claim_of_alice(), RowState::ready, {}).refusal);
}

TEST_CASE("a new rank moves an offer, and touches none of a row that is owned") {
  auto offered = plan_change(keys, free_row(), "k", {.rank = 9});
  CHECK(erases(offered, keys.offer(7, "k")));
  CHECK(writes(offered, keys.offer(9, "k")));
  auto owned = plan_change(keys, row_of_alice(), "k", {.rank = 9});
  CHECK(owned.txn.request.success().empty());
  CHECK(owned.after->rank() == 9);
  CHECK(plan_change(keys, std::nullopt, "k", {}).refusal.value().code == Errc::not_found);
}

TEST_CASE("what is remembered of rows is bounded, and the oldest goes first") {
  RowMemory memory;
  RowRecord big;
  big.set_spec(std::string(most_row_text, 'x'));
  for (int i = 0; i < 1000; ++i) memory.keep({std::to_string(i), i, big});
  CHECK_FALSE(memory.find("0"));
  REQUIRE(memory.find("999"));
  CHECK(memory.find("999")->revision == 999);
  memory.forget("999");
  CHECK_FALSE(memory.find("999"));
}

}  // namespace warren::etcd
