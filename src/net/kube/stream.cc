#include "net/kube/stream.h"

namespace warren::kube {

bool Change::ends_initial() const {
  return type == bookmark &&
         text_at(object, "/metadata/annotations/k8s.io~1initial-events-end") == "true";
}

WatchStream::WatchStream(std::unique_ptr<HttpCall> call, std::size_t most_event)
    : call_(std::move(call)), frames_(most_event) {}

Asked<std::optional<Change>> WatchStream::next() {
  for (;;) {
    auto event = frames_.take(piece_);
    if (!event) co_return std::unexpected(event.error());
    if (*event) {
      auto change = change_of(**std::move(event));
      if (!change) co_return std::unexpected(change.error());
      co_return std::optional<Change>(*std::move(change));
    }
    auto more = co_await call_->in().read();
    if (!more) co_return std::unexpected(more.error());
    if (more->empty() && !frames_.is_between())
      co_return fail(Errc::unknown_outcome, "the watch ended in the middle of an event");
    if (more->empty()) co_return std::optional<Change>();
    piece_ = *more;
  }
}

Answer<Change> WatchStream::change_of(Object event) const {
  auto* object = event.is_object() ? event.get_object().if_contains("object") : nullptr;
  auto type = text_at(event, "/type");
  if (!object || !object->is_object()) return fail(Errc::protocol, "a watch says what is no event");
  if (type == "ADDED") return Change{Change::added, std::move(*object)};
  if (type == "MODIFIED") return Change{Change::modified, std::move(*object)};
  if (type == "DELETED") return Change{Change::removed, std::move(*object)};
  if (type == "BOOKMARK") return Change{Change::bookmark, std::move(*object)};
  if (type == "ERROR") return std::unexpected(failure_of_event(json::serialize(*object)));
  return fail(Errc::protocol, "a watch says \"{}\"", type.substr(0, 100));
}

}  // namespace warren::kube
