#include "primitives/catalog/returns.h"

#include <doctest/doctest.h>

namespace warren {
namespace {

constexpr FencingToken older{1, 7}, newer{1, 8};

bool nothing_is_known(const std::string&) { return false; }

Changes told_of(Row row) {
  Changes changes;
  changes.rows.push_back(std::move(row));
  return changes;
}

Row own_row(FencingToken epoch) { return {.key = "a", .owner = "n1/1", .epoch = epoch}; }

}  // namespace

TEST_CASE("a release whose outcome nobody knows is due again, with the reason of the first") {
  Returns returns;
  Claim claim{"n1/1", "a", older};
  returns.owe(claim, {.error = "no room", .wait = 5s});
  returns.on_released(claim, fail(Errc::unknown_outcome, "no answer"));
  CHECK_FALSE(returns.owes_nothing());
  auto due = returns.due(nothing_is_known);
  REQUIRE(due.size() == 1);
  CHECK(due[0].claim.epoch == older);
  CHECK(due[0].how.error == "no room");
  CHECK(due[0].how.wait == 5s);
  returns.on_released(claim, ok);
  CHECK(returns.owes_nothing());
  CHECK(returns.due(nothing_is_known).empty());
}

TEST_CASE("what the catalog says is lost is owed no more") {
  Returns returns;
  Claim claim{"n1/1", "a", older};
  returns.owe(claim, {});
  returns.on_released(claim, fail(Errc::lease_lost, "it is another's"));
  CHECK(returns.owes_nothing());
}

TEST_CASE("a row of this session that nobody knows of is due until the catalog says otherwise") {
  Returns returns;
  returns.on_changes(told_of(own_row(older)), "n1/1");
  CHECK(returns.due([](const std::string& key) { return key == "a"; }).empty());
  CHECK(returns.due(nothing_is_known).size() == 1);
  CHECK(returns.due(nothing_is_known).size() == 1);  // however often the caller asks

  Row free{.key = "a", .epoch = older};
  returns.on_changes(told_of(free), "n1/1");
  CHECK(returns.due(nothing_is_known).empty());

  returns.on_changes(told_of(own_row(older)), "n1/1");
  Changes gone;
  gone.removed.emplace_back("a");
  returns.on_changes(gone, "n1/1");
  CHECK(returns.due(nothing_is_known).empty());

  returns.on_changes(told_of(own_row(older)), "n1/1");
  Changes all;
  all.is_everything = true;
  returns.on_changes(all, "n1/1");
  CHECK(returns.due(nothing_is_known).empty());
}

TEST_CASE("the answer to an older release settles nothing of a newer claim") {
  Returns returns;
  returns.on_changes(told_of(own_row(newer)), "n1/1");
  returns.owe({"n1/1", "a", newer}, {.error = "again"});
  returns.on_released({"n1/1", "a", older}, ok);
  auto due = returns.due(nothing_is_known);
  REQUIRE(due.size() == 1);
  CHECK(due[0].claim.epoch == newer);
  CHECK(due[0].how.error == "again");
}

TEST_CASE("a row that is ours under a lower epoch is due, when a higher one turns out to be over") {
  // A server that had lost the newer claim processed an earlier call.
  Returns returns;
  returns.owe({"n1/1", "a", newer}, {});
  returns.on_changes(told_of(own_row(older)), "n1/1");
  returns.on_released({"n1/1", "a", newer}, fail(Errc::lease_lost, "it is not of this epoch"));
  auto due = returns.due(nothing_is_known);
  REQUIRE(due.size() == 1);
  CHECK(due[0].claim.epoch == older);
  returns.on_released({"n1/1", "a", older}, ok);
  CHECK(returns.due(nothing_is_known).empty());
}

}  // namespace warren
