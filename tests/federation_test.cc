// Two clusters on two Redis servers, joined by gRPC on this machine.
#include "with_federations.h"

using namespace warren;

TEST_CASE("a stream that is live only in b is found from a, by each of its instances") {
  with_federations(
      {}, [](Members& a, Members& b, RedisServer& ra, RedisServer&) -> awaitable<void> {
        report(*b[1], "b-edge", {{"demo", live()}});
        for (auto& member : a)
          co_await eventually(20s, "it is known", [&] { return knows(*member, "demo"); });
        for (auto& member : a) {
          auto placed = co_await member->federation->place(viewer_of("demo"), Clock::now() + 3s);
          REQUIRE(placed);
          CHECK(placed->way == Way::redirect);
          CHECK(placed->redirect_url("demo", "a") == "https://play.b.example/play/demo?from=a");
        }
        CHECK(ra.cli({"EXISTS", "{a}:stream_ad:b:demo"}) == "1");
      });
}
