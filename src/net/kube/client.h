#pragma once
// Sends requests to a Kubernetes API server, over connections that are kept.
//
//   auto client = kube::Client::create(executor, *kube::find_access(environment));
//   kube::Place place{kinds::stateful_sets, "search", "fleet", "scale"};
//   auto scale = co_await (*client)->get(place, deadline);
//
// Every read here is authoritative: the server answers it. Objects with many readers are watched
// once, by a Watcher, and read from its cache.
//
// After a 401, the request is sent once more with freshly loaded credentials. If the server says
// when to retry (with 429, and for read-only requests also with 5xx), the request is repeated at
// that time, within the deadline. If a changing request's answer was lost, the error is
// unknown_outcome: read the object by its name.
#include <boost/json.hpp>
#include <functional>
#include <memory>

#include "net/http/pool.h"
#include "net/kube/credentials.h"
#include "net/kube/failure.h"
#include "net/kube/object.h"
#include "net/kube/place.h"
#include "net/kube/rate.h"
#include "net/kube/stream.h"

namespace warren::kube {

struct ClientTerms {
  double per_second = 50, burst = 100;       // requests
  std::size_t most_object = 8u << 20;        // bytes per answer, and per event of a watch
  std::size_t most_list = 256u << 20;        // bytes of all pages of a list
  std::size_t page = 500;                    // objects
  std::string manager = "warren";            // owner of the fields that we set
  std::chrono::milliseconds silence = 100s;  // in a watch; bookmarks come about once a minute
};

struct Selection {
  std::string labels = {}, fields = {};
};

struct List {
  std::vector<Object> items;
  std::string version;  // to watch from
  std::string next;     // start of the next page; empty after the last one
};

enum class PatchKind { merge, strategic_merge, json };

struct RemoveTerms {
  // Errc::refused if the object no longer matches these.
  std::string uid = {}, version = {};
  std::optional<std::chrono::seconds> grace = {};
  enum class Dependents { in_background, in_foreground, orphaned } dependents = {};
};

struct WatchTerms {
  Selection selection = {};
  std::string version = {};           // to start after; empty for now
  bool sends_initial_events = false;  // all objects first, then a bookmark that marks their end
  std::chrono::seconds time = 5min;   // after which the server ends it
};

// Do we have this permission? Without a name: for all names.
struct AccessQuestion {
  std::string verb;
  Place place;
};

class Client {
 public:
  // Sends no request yet. Errc::invalid: wrong TLS settings.
  Client(const asio::any_io_executor& executor, Access access, ClientTerms terms = {});

  Asked<Object> get(Place place, Clock::time_point deadline);
  // One page, starting at `next`. Version "0" means whatever the server has in its cache.
  Asked<List> list(Place place, Selection selection, std::string next, Clock::time_point deadline);
  // All pages. If the list has expired before its next page is read, it starts over.
  Asked<List> list_all(Place place, Selection selection, Clock::time_point deadline);
  // The place names all objects of the kind. Errc::held_elsewhere: an object with this name exists.
  Asked<Object> create(Place place, Object object, Clock::time_point deadline);
  // With the version that was read. Errc::refused: the object has changed since.
  Asked<Object> replace(Place place, Object object, Clock::time_point deadline);
  Asked<Object> patch(Place place, PatchKind kind, Object change, Clock::time_point deadline);
  // Server-side apply: the given fields become ours, the others stay. Errc::refused: another
  // manager owns one of these fields (see causes), unless it is forced.
  Asked<Object> apply(Place place, Object object, bool forces, Clock::time_point deadline);
  // Returns true if the object is gone or did not exist, false while it is being deleted.
  Asked<bool> remove(Place place, RemoveTerms terms, Clock::time_point deadline);
  // The last lines of a container's output.
  Asked<std::string> log(Place pod, std::size_t lines, Clock::time_point deadline);
  Asked<bool> may(AccessQuestion question, Clock::time_point deadline);
  // Reports changes from now on. The deadline covers only the start.
  Asked<std::unique_ptr<WatchStream>> watch(Place place, WatchTerms terms,
                                            Clock::time_point deadline);

  const asio::any_io_executor& executor() const { return executor_; }
  const Access& access() const { return credentials_.access(); }
  const ClientTerms& terms() const { return terms_; }

 private:
  struct Request {
    std::string method, target;
    std::string body = {}, type = {};
    std::size_t most = 0;
  };
  // Connections with one set of certificates. Owners: this client and the running calls.
  struct Pools {
    HttpPool calls, watches;
    std::uint64_t generation;
  };
  Asked<std::shared_ptr<Pools>> pools(Clock::time_point deadline);
  HttpAsk http_ask(const Request& request) const;
  Asked<std::string> ask(Request request, Clock::time_point deadline);
  Asked<std::string> ask_once(const Request& request, Clock::time_point deadline);
  Asked<Object> ask_object(Request request, Clock::time_point deadline);
  Asked<std::unique_ptr<WatchStream>> open_watch(std::string target, std::chrono::seconds time,
                                                 Clock::time_point deadline);
  awaitable<Answer<Object>> change(std::string method, Place place, std::string type, Object body,
                                   QueryWords query, Clock::time_point deadline);

  asio::any_io_executor executor_;
  ClientTerms terms_;
  Credentials credentials_;
  TokenBucket bucket_;
  std::shared_ptr<Pools> pools_;
};

}  // namespace warren::kube
