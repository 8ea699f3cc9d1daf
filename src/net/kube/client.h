#pragma once
// Asks an API server of Kubernetes, over connections that are kept.
//
//   auto client = kube::Client::create(executor, *kube::find_access(environment));
//   kube::Place place{kinds::stateful_sets, "search", "fleet", "scale"};
//   auto scale = co_await (*client)->get(place, deadline);
//
// Every read here is authoritative: the server answers it. What many look at is watched once, by a
// Watcher, and read from its cache.
//
// A 401 is tried once more with credentials that were read anew. Where the server says when to come
// again (429, and of requests that change nothing also 5xx), it is asked again then, within the
// deadline. A request that changes something and whose answer was lost is unknown_outcome: read the
// object by its name.
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
  std::size_t most_object = 8u << 20;        // bytes of one answer, and of one event of a watch
  std::size_t most_list = 256u << 20;        // bytes of all pages of a list
  std::size_t page = 500;                    // objects
  std::string manager = "warren";            // of the fields that we set
  std::chrono::milliseconds silence = 100s;  // of a watch; bookmarks come about once a minute
};

struct Selection {
  std::string labels = {}, fields = {};
};

struct List {
  std::vector<Object> items;
  std::string version;  // to watch from
  std::string next;     // where the next page begins; empty: that was all
};

enum class PatchKind { merge, strategic_merge, json };

struct RemoveTerms {
  // Errc::refused: it is another one by now.
  std::string uid = {}, version = {};
  std::optional<std::chrono::seconds> grace = {};
  enum class Dependents { in_background, in_foreground, orphaned } dependents = {};
};

struct WatchTerms {
  Selection selection = {};
  std::string version = {};           // from there on; empty: from now
  bool sends_initial_events = false;  // all objects first, then a bookmark that says so
  std::chrono::seconds time = 5min;   // then the server ends it
};

// May we do this? Of all names when there is none.
struct AccessQuestion {
  std::string verb;
  Place place;
};

class Client {
 public:
  // Nothing is asked yet. Errc::invalid: the terms of TLS.
  Client(const asio::any_io_executor& executor, Access access, ClientTerms terms = {});

  Asked<Object> get(Place place, Clock::time_point deadline);
  // One page, after `next`; version "0" is what the server has at hand.
  Asked<List> list(Place place, Selection selection, std::string next, Clock::time_point deadline);
  // All pages. When the list is too old for its next page it begins anew.
  Asked<List> list_all(Place place, Selection selection, Clock::time_point deadline);
  // The place is that of all objects of its kind. Errc::held_elsewhere: one has this name.
  Asked<Object> create(Place place, Object object, Clock::time_point deadline);
  // With the version that was read. Errc::refused: it has changed since.
  Asked<Object> replace(Place place, Object object, Clock::time_point deadline);
  Asked<Object> patch(Place place, PatchKind kind, Object change, Clock::time_point deadline);
  // Server-side: what it says is ours, and the rest stays. Errc::refused: another manager has one of
  // these fields (causes), unless it is forced.
  Asked<Object> apply(Place place, Object object, bool forces, Clock::time_point deadline);
  // True: it is gone, or was not there. False: it is leaving.
  Asked<bool> remove(Place place, RemoveTerms terms, Clock::time_point deadline);
  // The last lines of a container's output.
  Asked<std::string> log(Place pod, std::size_t lines, Clock::time_point deadline);
  Asked<bool> may(AccessQuestion question, Clock::time_point deadline);
  // What changes from now on. The deadline is for its beginning.
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
  // Connections with one set of certificates. Owners: this, and calls that run.
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
