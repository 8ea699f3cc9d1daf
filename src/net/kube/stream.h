#pragma once
// One watch of an API server: reports changes as they happen.
//
//   while (auto change = co_await stream.next()) {
//     if (!*change) break;                            // the server has ended it: watch again
//     …
//   }
#include <memory>
#include <optional>

#include "net/http/pool.h"
#include "net/kube/failure.h"
#include "net/kube/frames.h"
#include "net/kube/object.h"

namespace warren::kube {

struct Change {
  // The object of a bookmark contains only a version: everything up to it has been reported.
  enum Type { added, modified, removed, bookmark } type;
  Object object;

  // Whether this is the bookmark that follows all objects that existed at the start.
  bool ends_initial() const;
};

class WatchStream {
 public:
  WatchStream(std::unique_ptr<HttpCall> call, std::size_t most_event);

  // After any error the watch is over: refused with Reason::expired (the changes since our version
  // are no longer known: list again), other refusals, protocol, overloaded (an event is too long),
  // timeout (silent for longer than the interval of bookmarks), unknown_outcome (the connection was
  // cut).
  Asked<std::optional<Change>> next();

 private:
  Answer<Change> change_of(Object event) const;

  std::unique_ptr<HttpCall> call_;
  JsonFrames frames_;
  std::string_view piece_ = {};
};

}  // namespace warren::kube
