#pragma once
// What an API server refuses, in its own words: a Status object behind a status of HTTP.
//
//   auto made = co_await client.create(place, pod, deadline);
//   if (!made && made.error().reason == kube::Reason::already_exists) …
//   if (!made) co_return std::unexpected(made.error());      // a Result has the Error of it
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/task.h"

namespace warren::kube {

// Those that somebody acts on. The rest is in the text.
enum class Reason {
  none,  // it did not come to an answer
  invalid,
  unauthorized,
  forbidden,
  not_found,
  already_exists,  // held_elsewhere: something has this name
  conflict,        // refused: it has changed, or is not the one that was meant: read it again
  expired,         // a version or a place in a list that is too old: list anew
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

  int status = 0;  // of HTTP
  Reason reason = Reason::none;
  std::vector<FailureCause> causes = {};  // which field is wrong, who else has it
  std::optional<std::chrono::seconds> retry_after = {};
};

template <class T>
using Answer = std::expected<T, Failure>;
template <class T>
using Asked = awaitable<Answer<T>>;

// Of an answer with this status: its body, and the Retry-After among its headers. With `changes` the
// request may have been carried out when the server fails in the middle: unknown_outcome.
Failure failure_of(int status, std::string_view body, std::string_view headers, bool changes);
// Of an ERROR event in a watch.
Failure failure_of_event(std::string_view status_object);

}  // namespace warren::kube
