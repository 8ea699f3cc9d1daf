#pragma once
// What readers receive: everything at one revision, then every later change that etcd reports.
// Include in .cc files only.
#include <memory>
#include <string>

#include "primitives/catalog/etcd/listing.h"

namespace warren::etcd {

class Watch;

class Feed {
 public:
  explicit Feed(Store& store);
  ~Feed();

  // As in catalog.h.
  Async<Changes> changes(std::string position, Clock::time_point wait_until,
                         Clock::time_point deadline);

 private:
  // Kept for the next call, if that continues where this one ended.
  struct Open {
    std::unique_ptr<Watch> watch;
    Position position;
  };
  struct Last {
    std::int64_t change = 0;    // of any row
    std::int64_t revision = 0;  // of anything
  };
  Async<Changes> everything(Clock::time_point deadline);
  // Errc::refused, here and below: what happened since the position is no longer known.
  Async<Changes> changes_since(Position position, Clock::time_point wait_until,
                               Clock::time_point deadline);
  Async<Open> open(Position position, Clock::time_point deadline);
  // Returns no changes if nothing happened by then.
  Async<Changes> read(Open& from, Clock::time_point wait_until, Clock::time_point deadline);
  Async<Changes> told(const std::vector<pb::Event>& events, Clock::time_point deadline);
  Async<Last> last(Clock::time_point deadline);
  Async<std::vector<Row>> with_waits(std::vector<SeenRow> seen, Clock::time_point deadline);

  Store& store_;
  std::optional<Open> kept_;
};

}  // namespace warren::etcd
