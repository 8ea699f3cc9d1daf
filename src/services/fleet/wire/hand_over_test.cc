#include "services/fleet/wire/hand_over.h"

#include <doctest/doctest.h>

namespace warren::fleet {

TEST_CASE("what is offered to the next owner is read back as it was written") {
  HandOver offer{.key = "h/a#0",
                 .epoch = {3, 1'794'963'235'434'649},
                 .session = "n1/8f3a",
                 .spec = R"({"url":"https://h/a"})",
                 .commits = {{"HEAD", "abc"}, {"refs/heads/x \"y\"", "def"}}};
  offer.reindex = 2;
  offer.has_index = true;
  offer.indexed_at = "2026-11-18T00:00:00Z";
  offer.sizes = {4096, std::uint64_t{5} << 30};
  auto back = parse_hand_over(to_json(offer));
  REQUIRE(back);
  CHECK(to_json(*back) == to_json(offer));
  CHECK(back->epoch == offer.epoch);
  CHECK(back->commits == offer.commits);
  CHECK(back->bytes() == (std::uint64_t{5} << 30) + 4096);
  HandedOver last{"h/a#0", {3, 18}};
  auto told = parse_handed_over(to_json(last));
  REQUIRE(told);
  CHECK(told->key == last.key);
  CHECK(told->epoch == last.epoch);
}

TEST_CASE("what is no offer is refused, whatever is wrong with it") {
  auto good = to_json(HandOver{.key = "h/a#0", .epoch = {3, 1}, .session = "n1/1", .spec = "{}"});
  REQUIRE(parse_hand_over(good));
  for (std::string_view bad : {"", "[]", "{}", "nonsense", R"({"key":7})"})
    CHECK(parse_hand_over(bad).error().code == Errc::invalid);
  auto with = [&](std::string_view from, std::string_view to) {
    auto text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  CHECK_FALSE(parse_hand_over(with("3-1", "three")));
  CHECK_FALSE(parse_hand_over(with("\"sizes\":[]", "\"sizes\":[-1]")));
  CHECK_FALSE(parse_hand_over(with("\"commits\":{}", "\"commits\":{\"a\":1}")));
  CHECK_FALSE(parse_handed_over(R"({"key":"h/a#0"})"));
  CHECK_FALSE(parse_handed_over(R"({"key":"h/a#0","epoch":"3"})"));
}

}  // namespace warren::fleet
