#include "redis/call.h"

#include "redis/connection/pipeline.h"

namespace warren::redis {

void Call::leave() {
  if (list_) list_->remove(*this);
  if (pipeline_) pipeline_->forget(*this);
}

void Call::fail(Error why) {
  if (may_have_run_) why = in_doubt(std::move(why));
  complete(std::unexpected(std::move(why)));
}

Error in_doubt(Error why) {
  bool stands =
      why.code == Errc::unknown_outcome || why.code == Errc::refused || why.code == Errc::cancelled;
  if (stands) return why;
  return {Errc::unknown_outcome, "it was sent and not answered, and then: " + why.what};
}

void CallList::insert_before(Call* next, Call& call) {
  ensure(!call.is_pending(), "a call waits in one place");
  call.list_ = this;
  call.after_ = next;
  call.before_ = next ? next->before_ : back_;
  (call.before_ ? call.before_->after_ : front_) = &call;
  (next ? next->before_ : back_) = &call;
  ++size_;
  bytes_ += call.command_.bytes().size();
}

void CallList::put_before(CallList& other) {
  Call* const old_front = front_;
  while (Call* call = other.pop_front()) insert_before(old_front, *call);
}

Call* CallList::pop_front() {
  Call* call = front_;
  if (call) remove(*call);
  return call;
}

void CallList::remove(Call& call) {
  (call.before_ ? call.before_->after_ : front_) = call.after_;
  (call.after_ ? call.after_->before_ : back_) = call.before_;
  call.list_ = nullptr;
  call.before_ = call.after_ = nullptr;
  --size_;
  bytes_ -= call.command_.bytes().size();
}

}  // namespace warren::redis
