#include "primitives/catalog/etcd/client.h"

#include <algorithm>
#include <array>

#include "etcd.grpc.pb.h"
#include "net/rpc/connect.h"
#include "primitives/catalog/etcd/causes.h"
#include "primitives/catalog/etcd/keys.h"
#include "primitives/catalog/etcd/watch.h"

namespace warren::etcd {

struct Client::Member {
  explicit Member(const std::shared_ptr<grpc::Channel>& channel)
      : kv(pb::KV::NewStub(channel)),
        watch(pb::Watch::NewStub(channel)),
        lease(pb::Lease::NewStub(channel)) {}

  // gRPC keeps what a call needs of its channel, so a stub need not live as long as the call.
  std::unique_ptr<pb::KV::Stub> kv;
  std::unique_ptr<pb::Watch::Stub> watch;
  std::unique_ptr<pb::Lease::Stub> lease;
};

namespace {

using KeepAliveStream = rpc::ClientStream<pb::LeaseKeepAliveResponse, pb::LeaseKeepAliveRequest>;

constexpr std::size_t leases_asked_at_once = 32;

// etcd's words, where gRPC's codes do not decide what a caller does next.
struct Meaning {
  std::string_view words;
  Errc code;
  Cause cause;
};
constexpr std::array meanings{
    Meaning{"required revision has been compacted", Errc::refused, causes::compacted},
    Meaning{"required revision is a future revision", Errc::unavailable, causes::behind},
    Meaning{"database space exceeded", Errc::unavailable, causes::no_space},
    Meaning{"too many requests", Errc::unavailable, causes::busy},
    // gRPC's words for a call that was never sent.
    Meaning{"failed to connect", Errc::unavailable, causes::not_connected},
};

Error etcd_error(Error error) {
  for (const auto& meaning : meanings) {
    if (!error.subject.contains(meaning.words)) continue;
    error.code = meaning.code;
    error.cause = meaning.cause;
  }
  return error;
}

// It was never sent, or never started.
bool was_not_done(const Error& error) {
  constexpr std::array all{causes::no_space, causes::busy, causes::not_connected};
  return std::ranges::find(all, error.cause) != all.end();
}

// A server that shuts down ends its streams with a variety of gRPC codes.
bool is_repeated_after(const Error& error) {
  return error.code == Errc::unavailable || error.code == Errc::timeout ||
         error.code == Errc::protocol;
}

// Makes a member without a leader end the stream instead of staying silent.
void need_leader(grpc::ClientContext& context) { context.AddMetadata("hasleader", "true"); }

}  // namespace

// The attempts of one call: until when each may take, and what came of them.
class Client::Attempts {
 public:
  Attempts(Client& client, Kind kind, Clock::time_point deadline)
      : client_(client), kind_(kind), deadline_(deadline) {}

  Member& member() {
    at_ = client_.current_;
    return *client_.members_[at_];
  }
  // A silent member leaves time for another one. The time grows, because all may be slow.
  Clock::time_point limit() const {
    if (client_.members_.size() == 1) return deadline_;
    return std::min(Clock::now() + patience_, deadline_);
  }
  // Pauses and returns nullopt if the call should be tried again.
  awaitable<std::optional<Error>> after(Error failed) {
    auto error = etcd_error(std::move(failed));
    if (!is_repeated_after(error)) co_return error;
    if (client_.current_ == at_) client_.current_ = (at_ + 1) % client_.members_.size();
    if (!was_not_done(error)) may_be_done_ = kind_ == Kind::write;
    if (Clock::now() + pause_ >= deadline_) co_return final(std::move(error));
    co_await sleep_for(pause_);
    pause_ = std::min<Clock::duration>(pause_ * 2, 300ms);
    if (error.code == Errc::timeout) patience_ *= 2;
    co_return std::nullopt;
  }

 private:
  Error final(Error error) const {
    if (may_be_done_)
      error.code = Errc::unknown_outcome;
    else if (error.code != Errc::timeout)
      error.code = Errc::unavailable;
    return error;
  }

  Client& client_;
  Kind kind_;
  Clock::time_point deadline_;
  std::size_t at_ = 0;
  bool may_be_done_ = false;
  Clock::duration pause_ = 10ms;
  Clock::duration patience_ = 1s;
};

Result<std::unique_ptr<Client>> Client::create(const Settings& settings) {
  std::vector<std::unique_ptr<Member>> members;
  for (auto& address : settings.addresses) {
    auto channel = rpc::connect(address, settings.tls);
    if (!channel) return std::unexpected(channel.error());
    members.push_back(std::make_unique<Member>(*channel));
  }
  return std::unique_ptr<Client>(new Client(std::move(members)));
}

Client::Client(std::vector<std::unique_ptr<Member>> members) : members_(std::move(members)) {}
Client::~Client() = default;

template <class Response, class Request, class Method>
Async<Response> Client::call(Kind kind, Method method, Request request,
                             Clock::time_point deadline) {
  Attempts attempts(*this, kind, deadline);
  for (;;) {
    auto begin = [&member = attempts.member(), method](auto* context, const auto* asked,
                                                       auto* response, auto done) {
      method(member, context, asked, response, std::move(done));
    };
    auto limit = attempts.limit();
    auto answer = co_await rpc::ask<Response>(begin, request, "", limit);
    if (answer) co_return std::move(*answer);
    auto error = co_await attempts.after(std::move(answer.error()));
    if (error) co_return std::unexpected(std::move(*error));
  }
}

Async<pb::RangeResponse> Client::range(pb::RangeRequest request, Clock::time_point deadline) {
  auto method = [](Member& member, auto* context, auto* asked, auto* response, auto done) {
    member.kv->async()->Range(context, asked, response, std::move(done));
  };
  return call<pb::RangeResponse>(Kind::read, method, std::move(request), deadline);
}

Async<pb::TxnResponse> Client::txn(pb::TxnRequest request, Clock::time_point deadline) {
  auto method = [](Member& member, auto* context, auto* asked, auto* response, auto done) {
    member.kv->async()->Txn(context, asked, response, std::move(done));
  };
  auto writes = [](const pb::RequestOp& op) { return !op.has_request_range(); };
  auto kind = std::ranges::any_of(request.success(), writes) ? Kind::write : Kind::read;
  return call<pb::TxnResponse>(kind, method, std::move(request), deadline);
}

Async<pb::LeaseGrantResponse> Client::grant(std::int64_t id, std::int64_t seconds,
                                            Clock::time_point deadline) {
  pb::LeaseGrantRequest request;
  request.set_id(id);
  request.set_ttl(seconds);
  auto method = [](Member& member, auto* context, auto* asked, auto* response, auto done) {
    member.lease->async()->LeaseGrant(context, asked, response, std::move(done));
  };
  return call<pb::LeaseGrantResponse>(Kind::write, method, std::move(request), deadline);
}

Async<> Client::revoke(std::int64_t id, Clock::time_point deadline) {
  pb::LeaseRevokeRequest request;
  request.set_id(id);
  auto method = [](Member& member, auto* context, auto* asked, auto* response, auto done) {
    member.lease->async()->LeaseRevoke(context, asked, response, std::move(done));
  };
  auto revoked =
      co_await call<pb::LeaseRevokeResponse>(Kind::write, method, std::move(request), deadline);
  if (!revoked && revoked.error().code != Errc::not_found)
    co_return std::unexpected(revoked.error());
  co_return ok;
}

Async<bool> Client::keep_alive(std::int64_t id, Clock::time_point deadline) {
  Attempts attempts(*this, Kind::read, deadline);
  for (;;) {
    auto& member = attempts.member();
    auto kept = co_await keep_alive_once(member, id, attempts.limit());
    if (kept) co_return *kept;
    auto error = co_await attempts.after(std::move(kept.error()));
    if (error) co_return std::unexpected(std::move(*error));
  }
}

Async<bool> Client::keep_alive_once(Member& member, std::int64_t id, Clock::time_point deadline) {
  auto begin = [&member](grpc::ClientContext* context, KeepAliveStream* stream) {
    need_leader(*context);
    member.lease->async()->LeaseKeepAlive(context, stream);
  };
  auto executor = co_await asio::this_coro::executor;
  auto stream = KeepAliveStream::create(executor, "", begin);
  auto answer = [](std::shared_ptr<KeepAliveStream> to, std::int64_t lease,
                   Clock::time_point limit) -> Async<pb::LeaseKeepAliveResponse> {
    pb::LeaseKeepAliveRequest request;
    request.set_id(lease);
    auto written = co_await to->write(std::move(request));
    if (!written) co_return std::unexpected(written.error());
    co_return co_await to->read(limit);
  };
  // Ends the stream in every case: nothing else does.
  std::unique_ptr<KeepAliveStream, void (*)(KeepAliveStream*)> ends(
      stream.get(), [](KeepAliveStream* open) { open->finish(grpc::Status::OK); });
  auto kept = co_await with_deadline(deadline, answer(stream, id, deadline));
  if (!kept) co_return std::unexpected(kept.error());
  co_return kept->ttl() > 0;
}

Async<Client::TimeLeft> Client::left_of(std::int64_t id, Clock::time_point deadline) {
  pb::LeaseTimeToLiveRequest request;
  request.set_id(id);
  auto method = [](Member& member, auto* context, auto* asked, auto* response, auto done) {
    member.lease->async()->LeaseTimeToLive(context, asked, response, std::move(done));
  };
  auto left =
      co_await call<pb::LeaseTimeToLiveResponse>(Kind::read, method, std::move(request), deadline);
  if (!left && left.error().code == Errc::not_found) co_return TimeLeft();
  if (!left) co_return std::unexpected(left.error());
  if (left->ttl() < 0) co_return TimeLeft();
  co_return TimeLeft(std::min(left->ttl() + 1, left->granted_ttl()));
}

Async<std::vector<Client::TimeLeft>> Client::left(std::vector<std::int64_t> ids,
                                                  Clock::time_point deadline) {
  struct Asked {
    Client& client;
    std::vector<std::int64_t> ids;
    Clock::time_point deadline;
    std::vector<TimeLeft> left = {};
    std::size_t next = 0;
    std::optional<Error> failed = {};
  };
  auto ask_some = [](Asked& asked) -> awaitable<void> {
    while (asked.next < asked.ids.size() && !asked.failed) {
      auto i = asked.next++;
      auto left = co_await asked.client.left_of(asked.ids[i], asked.deadline);
      if (left)
        asked.left[i] = *left;
      else
        asked.failed = left.error();
    }
  };
  auto ask_all = [](TaskGroup& group, Asked& asked, decltype(ask_some)& some) -> Async<> {
    for (std::size_t i = 0; i < std::min(leases_asked_at_once, asked.ids.size()); ++i)
      group.start("catalog.left", some(asked));
    co_await group.join();
    co_return ok;
  };
  Asked asked{*this, std::move(ids), deadline};
  asked.left.resize(asked.ids.size());
  auto done = co_await with_group(ask_all, asked, ask_some);
  if (!done) co_return std::unexpected(done.error());
  if (asked.failed) co_return std::unexpected(*asked.failed);
  co_return std::move(asked.left);
}

Async<std::unique_ptr<Watch>> Client::watch(std::string prefix, std::int64_t from,
                                            Clock::time_point deadline) {
  Attempts attempts(*this, Kind::read, deadline);
  for (;;) {
    auto& member = attempts.member();
    auto watch = co_await watch_once(member, prefix, from, attempts.limit());
    if (watch) co_return std::move(*watch);
    auto error = co_await attempts.after(std::move(watch.error()));
    if (error) co_return std::unexpected(std::move(*error));
  }
}

Async<std::unique_ptr<Watch>> Client::watch_once(Member& member, std::string prefix,
                                                 std::int64_t from, Clock::time_point deadline) {
  auto begin = [&member](grpc::ClientContext* context, Watch::Stream* stream) {
    need_leader(*context);
    member.watch->async()->Watch(context, stream);
  };
  auto executor = co_await asio::this_coro::executor;
  auto stream = Watch::Stream::create(executor, "", begin);
  auto watch = std::make_unique<Watch>(stream);
  pb::WatchRequest request;
  auto& create = *request.mutable_create_request();
  create.set_key(prefix);
  create.set_range_end(after_prefix(prefix));
  create.set_start_revision(from);
  create.set_progress_notify(true);
  create.set_fragment(true);
  auto begun = co_await watch->begin(std::move(request), deadline);
  if (!begun) co_return std::unexpected(begun.error());
  co_return std::move(watch);
}

}  // namespace warren::etcd
