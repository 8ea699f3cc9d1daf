#pragma once
// Errors are values: failures caused by the outside world are part of the signature; our own bugs
// abort.
#include <fmt/format.h>

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace warren {

// Each code makes a caller act differently. Details go into the text.
enum class Errc {
  invalid,          // the input is wrong; the text says what is allowed
  not_found,        // the named thing does not exist
  held_elsewhere,   // another holder has it
  lease_lost,       // the grant has ended for good: acquire again
  denied,           // wrong or missing credentials, or no permission
  refused,          // the server understood and said no
  unavailable,      // cannot be reached, or cannot do it now; nothing was done
  overloaded,       // one of our own limits was reached; nothing was done
  timeout,          // the deadline passed first
  unknown_outcome,  // it was sent, but no answer came: it may have been done
  protocol,         // the peer sent something we do not understand
  cancelled,        // the caller no longer wants the result
};

std::string_view name(Errc code);

// Which failure it is, when the code alone does not say. Each module declares its own causes:
//
//   namespace redis::causes { inline constexpr Cause wrong_password("redis.wrong_password"); }
//
// The command line has one table from cause to hint. The lint checks that the table lists every
// cause.
class Cause {
 public:
  constexpr Cause() = default;
  consteval explicit Cause(std::string_view word) : word_(word) {}

  std::string_view word() const { return word_; }
  explicit operator bool() const { return !word_.empty(); }
  bool operator==(const Cause&) const = default;

 private:
  std::string_view word_;  // "<module>.<failure>"; empty when the code says enough
};

struct Error {
  Error() = default;  // for a variable that is assigned later
  Error(Errc error_code, std::string text) : code(error_code), what(std::move(text)) {}
  Error(Errc error_code, Cause which, std::string about, std::string text)
      : code(error_code), cause(which), subject(std::move(about)), what(std::move(text)) {}

  Errc code = {};       // what a program does next
  Cause cause;          // which failure
  std::string subject;  // the thing it concerns: a name, a path, a holder
  std::string what;     // one line for people; programs never parse it
};

// Whether the failure is expected to go away by itself, so that the same call may succeed later.
// Any other error recurs until someone changes something. After unknown_outcome, repeat a call only
// if running it twice is harmless.
bool may_retry(const Error& error);

// The same error, with the place where it happened: "<where>: <what>".
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
  Result(Ok) {}  // makes `return ok;` work
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

// Logs and aborts. A process whose state is inconsistent must not keep renewing its leases. Once it
// is dead they lapse, and a healthy peer takes over within one ttl.
[[noreturn]] void broken_invariant(const char* file, int line, std::string_view what);

}  // namespace warren

#define ensure(condition, what) \
  ((condition) ? void(0) : ::warren::broken_invariant(__FILE__, __LINE__, what))
