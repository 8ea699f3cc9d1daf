#include "services/session/proxy/frames.h"

#include <doctest/doctest.h>

#include <string>

using namespace warren::session;

TEST_CASE("frames of every length end where they say, in whatever pieces they come") {
  std::string small("\x81\x05hello", 7);
  std::string medium = std::string("\x82\x7e\x01\x00", 4) + std::string(256, 'x');
  std::string large =
      std::string("\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00", 10) + std::string(65536, 'x');
  std::string masked("\x81\x81\x01\x02\x03\x04z", 7);
  for (const auto& frame : {small, medium, large, masked, std::string("\x89\x00", 2)}) {
    FrameTracker tracker;
    CHECK(tracker.is_between_frames());
    for (std::size_t i = 0; i + 1 < frame.size(); ++i) {
      tracker.feed(std::string_view(frame).substr(i, 1));
      REQUIRE(!tracker.is_between_frames());
    }
    tracker.feed(std::string_view(frame).substr(frame.size() - 1));
    CHECK(tracker.is_between_frames());
    tracker.feed(frame + frame);
    CHECK(tracker.is_between_frames());
  }
}
