#pragma once
// Errors are values: what the world does to us stands in the signature, what we do wrong aborts.
#include <fmt/format.h>

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace warren {

// A caller acts differently on each of these; the rest is in the text.
enum class Errc {
  invalid,          // the input is wrong; the text says what would be right
  not_found,        // what was named does not exist
  held_elsewhere,   // somebody else has it
  lease_lost,       // the grant is over for good: acquire again
  denied,           // wrong or missing credentials, or not allowed
  refused,          // the server understood and said no
  unavailable,      // cannot be reached, or cannot do it now; nothing was done
  overloaded,       // a bound of ours was met; nothing was done
  timeout,          // the deadline passed first
  unknown_outcome,  // it was sent and no answer came: it may have been done
  protocol,         // the peer does not speak what we expect
  cancelled,        // whoever asked no longer wants it
};

std::string_view name(Errc code);

// Which failure it is, where the code alone does not say. The module that fails declares its own:
//
//   namespace redis::causes { inline constexpr Cause wrong_password("redis.wrong_password"); }
//
// The command line has one table from cause to hint, and the lint sees that no cause is missing
// from it.
class Cause {
 public:
  constexpr Cause() = default;
  consteval explicit Cause(std::string_view word) : word_(word) {}

  std::string_view word() const { return word_; }
  explicit operator bool() const { return !word_.empty(); }
  bool operator==(const Cause&) const = default;

 private:
  std::string_view word_;  // "<module>.<failure>"; empty where nobody needs to know more
};

struct Error {
  Error() = default;  // for a place that is filled later
  Error(Errc error_code, std::string text) : code(error_code), what(std::move(text)) {}
  Error(Errc error_code, Cause which, std::string about, std::string text)
      : code(error_code), cause(which), subject(std::move(about)), what(std::move(text)) {}

  Errc code = {};       // what a program does next
  Cause cause;          // which failure
  std::string subject;  // what it is about: a name, a path, a holder
  std::string what;     // one line, for people: no program reads it
};

// The failure is expected to pass by itself: the same call may succeed later. Everything else fails
// again until somebody changes something. After an unknown_outcome repeat only what may be done
// twice.
bool may_retry(const Error& error);

// The same failure, told with the place where it happened: "<where>: <what>".
Error within(std::string_view where, Error error);

struct Ok {};
inline constexpr Ok ok;

template <class T = void>
class [[nodiscard]] Result : public std::expected<T, Error> {
 public:
  using std::expected<T, Error>::expected;
};

template <>
class [[nodiscard]] Result<void> : public std::expected<void, Error> {
 public:
  using std::expected<void, Error>::expected;
  Result(Ok) {}  // so that `return ok;` reads as it should
};

// return fail(Errc::invalid, "port {} is not between 1 and 65535", port);
template <class... Args>
std::unexpected<Error> fail(Errc code, fmt::format_string<Args...> format, Args&&... args) {
  return std::unexpected(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

// return fail(Errc::denied, causes::wrong_password, user, "wrong password for {}", user);
template <class... Args>
std::unexpected<Error> fail(Errc code, Cause cause, std::string subject,
                            fmt::format_string<Args...> format, Args&&... args) {
  return std::unexpected(
      Error(code, cause, std::move(subject), fmt::format(format, std::forward<Args>(args)...)));
}

// Logs and aborts. A process that is wrong about itself must not go on renewing its leases: once
// it is dead they lapse, and a healthy peer takes over within one ttl.
[[noreturn]] void broken_invariant(const char* file, int line, std::string_view what);

}  // namespace warren

#define ensure(condition, what) \
  ((condition) ? void(0) : ::warren::broken_invariant(__FILE__, __LINE__, what))
