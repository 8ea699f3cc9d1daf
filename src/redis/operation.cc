#include "redis/operation.h"

#include <boost/asio/post.hpp>

namespace warren::redis {

namespace {

// If the call is pending nowhere, its completion is already on the way.
void cancel_pending(Submitter& submitter, Call& call) {
  if (!call.is_pending()) return;
  call.leave();
  complete_later(submitter.executor(), call, Error{Errc::cancelled, "the caller left"});
}

}  // namespace

void complete_later(asio::any_io_executor executor, Call& call, Error why) {
  asio::post(executor, [&call, why = std::move(why)]() mutable { call.fail(std::move(why)); });
}

void CommandOperation::cancel() { cancel_pending(submitter_, *this); }

BatchOperation::BatchOperation(Submitter& submitter, std::vector<Command> commands,
                               CallOptions options)
    : submitter_(submitter), missing_(commands.size()) {
  items_.reserve(commands.size());
  for (auto& command : commands) items_.emplace_back(*this, std::move(command), options);
  results_.resize(commands.size());
}

void BatchOperation::start() {
  if (items_.empty()) {
    asio::post(submitter_.executor(), [this] { waiter_.resume({}); });
    return;
  }
  for (auto& item : items_) submitter_.submit(item);
}

void BatchOperation::cancel() {
  for (auto& item : items_) cancel_pending(submitter_, item);
}

void BatchOperation::finish(const Item& item, Result<Reply> result) {
  results_[static_cast<std::size_t>(&item - items_.data())] = std::move(result);
  if (--missing_ == 0) waiter_.resume(std::move(results_));
}

}  // namespace warren::redis
