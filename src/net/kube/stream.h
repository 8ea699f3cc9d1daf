#pragma once
// One watch of an API server: what changes, as it changes.
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
  // Of a bookmark the object has nothing but a version, up to which all has been told.
  enum Type { added, modified, removed, bookmark } type;
  Object object;

  // A bookmark behind all objects that were there at the beginning.
  bool ends_initial() const;
};

class WatchStream {
 public:
  WatchStream(std::unique_ptr<HttpCall> call, std::size_t most_event);

  // Errors, after each of which it is over: refused with Reason::expired (what came after our version
  // is no longer known: list anew), other refusals, protocol, overloaded (an event is longer than
  // allowed), timeout (silent for longer than bookmarks take), unknown_outcome (the line was cut).
  Asked<std::optional<Change>> next();

 private:
  Answer<Change> change_of(Object event) const;

  std::unique_ptr<HttpCall> call_;
  JsonFrames frames_;
  std::string_view piece_ = {};
};

}  // namespace warren::kube
