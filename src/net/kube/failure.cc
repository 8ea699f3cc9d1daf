#include "net/kube/failure.h"

#include <algorithm>
#include <charconv>

#include "net/http/message.h"
#include "net/kube/object.h"

namespace warren::kube {

namespace {

constexpr std::size_t most_message = 2000;
constexpr std::size_t most_causes = 20;

Reason reason_of(int status, std::string_view word) {
  if (word == "AlreadyExists") return Reason::already_exists;
  switch (status) {
    case 400:
    case 413:
    case 415:
    case 422:
      return Reason::invalid;
    case 401:
      return Reason::unauthorized;
    case 403:
      return Reason::forbidden;
    case 404:
      return Reason::not_found;
    case 409:
      return Reason::conflict;
    case 410:
      return Reason::expired;
    case 429:
      return Reason::too_many_requests;
    case 503:
      return Reason::unavailable;
    case 504:
      return Reason::timeout;
    default:
      return Reason::other;
  }
}

Errc code_of(Reason reason, int status, bool changes) {
  switch (reason) {
    case Reason::invalid:
      return Errc::invalid;
    case Reason::unauthorized:
    case Reason::forbidden:
      return Errc::denied;
    case Reason::not_found:
      return Errc::not_found;
    case Reason::already_exists:
      return Errc::held_elsewhere;
    case Reason::conflict:
    case Reason::expired:
      return Errc::refused;
    case Reason::too_many_requests:
      return Errc::unavailable;
    case Reason::none:
    case Reason::timeout:
    case Reason::unavailable:
    case Reason::other:
      break;
  }
  if (status < 500) return Errc::refused;
  return changes ? Errc::unknown_outcome : Errc::unavailable;
}

std::optional<std::chrono::seconds> seconds_in(std::string_view text) {
  unsigned seconds = 0;
  auto read = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return std::chrono::seconds(std::min(seconds, 3600u));
}

}  // namespace

Failure failure_of(int status, std::string_view body, std::string_view headers, bool changes) {
  json::value said;
  if (auto parsed = parse_object(body)) said = *std::move(parsed);
  auto reason = reason_of(status, text_at(said, "/reason"));
  std::string message(text_at(said, "/message").substr(0, most_message));
  if (message.empty()) message = fmt::format("the API server answered {}", status);
  Failure failure(Error{code_of(reason, status, changes), std::move(message)});
  failure.status = status;
  failure.reason = reason;
  failure.retry_after = seconds_in(header_in(headers, "retry-after"));
  auto wait = number_at(said, "/details/retryAfterSeconds", 0);
  if (!failure.retry_after && wait > 0)
    failure.retry_after = std::chrono::seconds(std::min<std::int64_t>(wait, 3600));
  for (const auto& cause : items_at(said, "/details/causes")) {
    if (failure.causes.size() == most_causes) break;
    failure.causes.push_back({std::string(text_at(cause, "/reason")),
                              std::string(text_at(cause, "/field")),
                              std::string(text_at(cause, "/message"))});
  }
  return failure;
}

Failure failure_of_event(std::string_view status_object) {
  auto parsed = parse_object(status_object);
  auto status = parsed ? static_cast<int>(number_at(*parsed, "/code", 500)) : 500;
  return failure_of(status, status_object, {}, false);
}

}  // namespace warren::kube
