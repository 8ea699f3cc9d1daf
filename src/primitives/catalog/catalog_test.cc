#include "primitives/catalog/catalog.h"

#include <doctest/doctest.h>

namespace warren {

TEST_CASE("states of a row have names that are read back") {
  for (auto state :
       {RowState::free, RowState::claimed, RowState::ready, RowState::draining, RowState::failed})
    CHECK(parse_row_state(name(state)) == state);
  CHECK_FALSE(parse_row_state("indexing"));
}

TEST_CASE("a session is named after its node") { CHECK(node_name("n1/8f3a") == "n1"); }

TEST_CASE("keys, names and texts that not every engine could keep are refused by all of them") {
  CHECK(check_row({.key = "github.com/a/b#0"}));
  for (std::string key : {"", "two words", "tab\t", "ü"}) CHECK_FALSE(check_row({.key = key}));
  CHECK_FALSE(check_row({.key = std::string(most_row_key + 1, 'a')}));
  CHECK_FALSE(check_row({.key = "a", .spec = std::string("\0", 1)}));
  CHECK_FALSE(check_row({.key = "a", .spec = "\xff"}));
  CHECK_FALSE(check_row({.key = "a", .spec = std::string(most_row_text + 1, 'x')}));
  CHECK(check_node("n1", "{}", 30s));
  for (std::string name : {"", "a/b", "a b"}) CHECK_FALSE(check_node(name, "", 30s));
  CHECK_FALSE(check_node("n1", "", 500ms));
  CHECK_FALSE(check_node("n1", "", 2h));
}

}  // namespace warren
