#pragma once
// etcd's calls as coroutines. Include in .cc files only: the messages are large headers.
//
// A call that fails for a passing reason (a member that is gone, a change of leader) is repeated at
// the next member until its deadline. So every call must be safe to make twice. After the deadline
// it ends with
//   Errc::unavailable      no member could be reached, or none could do it; nothing was done
//   Errc::timeout          a read that was not answered
//   Errc::unknown_outcome  a write that was sent and may have been done
// Errors that are answers:
//   Errc::refused     the revision was compacted; a lease of this id already exists
//   Errc::not_found   the lease does not exist
//   Errc::overloaded  the answer is too long for one message: ask for less
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
  // Does not connect yet. Errc::invalid: a file named in the settings cannot be read.
  static Result<std::unique_ptr<Client>> create(const Settings& settings);
  ~Client();

  Async<pb::RangeResponse> range(pb::RangeRequest request, Clock::time_point deadline);
  Async<pb::TxnResponse> txn(pb::TxnRequest request, Clock::time_point deadline);

  Async<pb::LeaseGrantResponse> grant(std::int64_t id, std::int64_t seconds,
                                      Clock::time_point deadline);
  // Does nothing if there is no such lease.
  Async<> revoke(std::int64_t id, Clock::time_point deadline);
  // Restarts the lease's full time. Returns false if there is no such lease.
  Async<bool> keep_alive(std::int64_t id, Clock::time_point deadline);
  // The time left of each lease, by etcd's clock, rounded up; nullopt: it is over.
  using TimeLeft = std::optional<std::chrono::seconds>;
  Async<std::vector<TimeLeft>> left(std::vector<std::int64_t> ids, Clock::time_point deadline);

  // Watches all keys with this prefix, from this revision on. Errc::refused: that was compacted.
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
