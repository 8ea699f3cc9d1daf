#pragma once
// The changes below a prefix, as etcd reports them. Include in .cc files only.
#include <memory>

#include "base/task.h"
#include "etcd.pb.h"
#include "net/rpc/stream.h"

namespace warren::etcd {

namespace pb = etcdserverpb;

class Watch {
 public:
  using Stream = rpc::ClientStream<pb::WatchResponse, pb::WatchRequest>;

  explicit Watch(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}
  ~Watch() { stream_->finish(grpc::Status::OK); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Call before anything else.
  Async<> begin(pb::WatchRequest request, Clock::time_point deadline) {
    auto written = co_await with_deadline(deadline, stream_->write(std::move(request)));
    if (!written) co_return written;
    auto created = co_await next(deadline);
    if (!created) co_return std::unexpected(created.error());
    header_ = created->header();
    co_return ok;
  }
  // From the member that answers, when the watch began.
  const pb::ResponseHeader& header() const { return header_; }
  // Whole revisions, in order; there may be no event, but a later revision. Errc::timeout: nothing
  // has come yet. Errc::unavailable: nothing will come any more. Errc::refused: what came next was
  // compacted.
  Async<pb::WatchResponse> next(Clock::time_point deadline) {
    for (;;) {
      auto part = co_await stream_->read(deadline);
      if (!part) co_return std::unexpected(part.error());
      if (part->compact_revision() > 0)
        co_return fail(Errc::refused, "compacted up to revision {}", part->compact_revision());
      if (part->canceled()) co_return fail(Errc::unavailable, "{}", part->cancel_reason());
      // Kept here, not in this frame: the caller may come back after the deadline.
      bool is_partial = part->fragment();
      gathered_.mutable_header()->Swap(part->mutable_header());
      for (auto& event : *part->mutable_events()) gathered_.add_events()->Swap(&event);
      if (is_partial) continue;
      pb::WatchResponse whole;
      whole.Swap(&gathered_);
      co_return whole;
    }
  }

 private:
  std::shared_ptr<Stream> stream_;
  pb::ResponseHeader header_;
  pb::WatchResponse gathered_;
};

}  // namespace warren::etcd
