#pragma once
// An API server's refusal, in its own words: an HTTP status with a Status object.
//
//   auto made = co_await client.create(place, pod, deadline);
//   if (!made && made.error().reason == kube::Reason::already_exists) …
//   if (!made) co_return std::unexpected(made.error());      // converts to the Error of a Result
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/task.h"

namespace warren::kube {

// The reasons that some caller acts on. The text has the rest.
enum class Reason {
  none,  // no answer was received
  invalid,
  unauthorized,
  forbidden,
  not_found,
  already_exists,  // held_elsewhere: an object with this name exists
  conflict,        // refused: it has changed, or a precondition failed: read it again
  expired,         // the version or the position in a list is too old: list again
  too_many_requests,
  timeout,
  unavailable,
  other,
};

struct FailureCause {
  std::string reason, field, message;
};

struct Failure : Error {
  Failure(Error error) : Error(std::move(error)) {}

  int status = 0;  // HTTP status
  Reason reason = Reason::none;
  std::vector<FailureCause> causes = {};  // which field is wrong, or which manager owns it
  std::optional<std::chrono::seconds> retry_after = {};
};

template <class T>
using Answer = std::expected<T, Failure>;
template <class T>
using Asked = awaitable<Answer<T>>;

// Reads the body and the Retry-After header of an answer with this status. If `changes` is set and
// the server failed midway, the request may have been executed: unknown_outcome.
Failure failure_of(int status, std::string_view body, std::string_view headers, bool changes);
// From an ERROR event in a watch.
Failure failure_of_event(std::string_view status_object);

}  // namespace warren::kube
