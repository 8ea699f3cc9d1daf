#pragma once
// etcd's calls as coroutines. For .cc files: the messages are large headers.
//
// A call that fails for a reason that passes (a member that is gone, a leader that changes) is made
// again, at the next member, until its deadline: so every call must be one that may be made twice.
// Then it ends with
//   Errc::unavailable      no member could be reached, or none could do it; nothing was done
//   Errc::timeout          a read whose answer did not come
//   Errc::unknown_outcome  a write that was sent and may have been done
// Errors that are answers:
//   Errc::refused     the revision was compacted; a lease of this id exists already
//   Errc::not_found   the lease does not exist
//   Errc::overloaded  the answer is longer than a message may be: ask for less
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/task.h"
#include "etcd.pb.h"
#include "primitives/catalog/etcd/url.h"

namespace warren::etcd {

namespace pb = etcdserverpb;

class Watch;

class Client {
 public:
  // Does not connect yet. Errc::invalid: a file of the settings cannot be read.
  static Result<std::unique_ptr<Client>> create(const Settings& settings);
  ~Client();

  Async<pb::RangeResponse> range(pb::RangeRequest request, Clock::time_point deadline);
  Async<pb::TxnResponse> txn(pb::TxnRequest request, Clock::time_point deadline);

  Async<pb::LeaseGrantResponse> grant(std::int64_t id, std::int64_t seconds,
                                      Clock::time_point deadline);
  // Nothing happens when there is none.
  Async<> revoke(std::int64_t id, Clock::time_point deadline);
  // Whether it was there: its whole time begins anew.
  Async<bool> keep_alive(std::int64_t id, Clock::time_point deadline);
  // What is left of each, by etcd's clock, rounded up; none: it is over.
  using TimeLeft = std::optional<std::chrono::seconds>;
  Async<std::vector<TimeLeft>> left(std::vector<std::int64_t> ids, Clock::time_point deadline);

  // Of all keys with this prefix, from this revision on. Errc::refused: that was compacted.
  Async<std::unique_ptr<Watch>> watch(std::string prefix, std::int64_t from,
                                      Clock::time_point deadline);

 private:
  struct Member;
  enum class Kind { read, write };
  class Attempts;

  explicit Client(std::vector<std::unique_ptr<Member>> members);
  template <class Response, class Request, class Method>
  Async<Response> call(Kind kind, Method method, Request request, Clock::time_point deadline);
  Async<bool> keep_alive_once(Member& member, std::int64_t id, Clock::time_point deadline);
  Async<std::unique_ptr<Watch>> watch_once(Member& member, std::string prefix, std::int64_t from,
                                           Clock::time_point deadline);
  Async<TimeLeft> left_of(std::int64_t id, Clock::time_point deadline);

  std::vector<std::unique_ptr<Member>> members_;
  std::size_t current_ = 0;
};

}  // namespace warren::etcd
