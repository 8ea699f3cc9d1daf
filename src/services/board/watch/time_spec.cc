#include "services/board/watch/time_spec.h"

#include <charconv>
#include <cmath>
#include <ctime>

#include "base/clock.h"
#include "redis/resp/reply.h"

namespace warren::watch {

using board::UnixTime;
using std::chrono::milliseconds;

namespace {

// Takes so many digits off the text.
std::optional<int> take_number(std::string_view& text, std::size_t digits) {
  if (text.size() < digits) return {};
  int number = 0;
  for (char c : text.substr(0, digits)) {
    if (c < '0' || c > '9') return {};
    number = number * 10 + (c - '0');
  }
  text.remove_prefix(digits);
  return number;
}

bool take(std::string_view& text, char c) {
  if (text.empty() || text[0] != c) return false;
  text.remove_prefix(1);
  return true;
}

// Digits behind the point, as milliseconds; what is finer is dropped.
std::optional<milliseconds> take_fraction(std::string_view& text) {
  if (!take(text, '.')) return milliseconds(0);
  int ms = 0, weight = 100, digits = 0;
  for (; !text.empty() && text[0] >= '0' && text[0] <= '9'; text.remove_prefix(1), ++digits) {
    ms += (text[0] - '0') * weight;
    weight /= 10;
  }
  if (digits == 0) return {};
  return milliseconds(ms);
}

std::optional<std::chrono::minutes> take_offset(std::string_view& text) {
  if (take(text, 'Z') || take(text, 'z')) return std::chrono::minutes(0);
  bool is_west = take(text, '-');
  if (!is_west && !take(text, '+')) return {};
  auto hours = take_number(text, 2);
  if (!hours || !take(text, ':')) return {};
  auto minutes = take_number(text, 2);
  if (!minutes || *hours > 23 || *minutes > 59) return {};
  auto offset = std::chrono::hours(*hours) + std::chrono::minutes(*minutes);
  return is_west ? -offset : offset;
}

std::optional<UnixTime> parse_rfc3339(std::string_view text) {
  auto year = take_number(text, 4);
  if (!year || !take(text, '-')) return {};
  auto month = take_number(text, 2);
  if (!month || !take(text, '-')) return {};
  auto day = take_number(text, 2);
  if (!day || (!take(text, 'T') && !take(text, 't'))) return {};
  auto hour = take_number(text, 2);
  if (!hour || !take(text, ':')) return {};
  auto minute = take_number(text, 2);
  if (!minute || !take(text, ':')) return {};
  auto second = take_number(text, 2);
  if (!second) return {};
  auto fraction = take_fraction(text);
  if (!fraction) return {};
  auto offset = take_offset(text);
  std::chrono::year_month_day date(std::chrono::year(*year),
                                   std::chrono::month(static_cast<unsigned>(*month)),
                                   std::chrono::day(static_cast<unsigned>(*day)));
  if (!offset || !text.empty() || !date.ok() || *hour > 23 || *minute > 59 || *second > 59)
    return {};
  return std::chrono::sys_days(date) + std::chrono::hours(*hour) + std::chrono::minutes(*minute) +
         std::chrono::seconds(*second) + *fraction - *offset;
}

// How many nanoseconds; 0 for what is no unit.
double unit(std::string_view name) {
  if (name == "ns") return 1;
  if (name == "us" || name == "\u00b5s" || name == "\u03bcs") return 1e3;
  if (name == "ms") return 1e6;
  if (name == "s") return 1e9;
  if (name == "m") return 60e9;
  return name == "h" ? 3600e9 : 0;
}

std::optional<milliseconds> parse_go_duration(std::string_view text) {
  bool is_negative = take(text, '-');
  if (!is_negative) take(text, '+');
  if (text == "0") return milliseconds(0);
  if (text.empty()) return {};
  double nanoseconds = 0;
  while (!text.empty()) {
    auto digits = std::min(text.find_first_not_of("0123456789."), text.size());
    auto word = text.substr(0, digits);
    double number = 0;
    auto [end, error] =
        std::from_chars(word.data(), word.data() + word.size(), number, std::chars_format::fixed);
    bool is_number = digits > 0 && error == std::errc() && end == word.data() + word.size();
    text.remove_prefix(digits);
    auto name = text.substr(0, text.find_first_of("0123456789."));
    text.remove_prefix(name.size());
    if (!is_number || unit(name) == 0) return {};
    nanoseconds += number * unit(name);
  }
  if (nanoseconds > 9.2e18) return {};  // as much as Go's has room for
  auto ms = milliseconds(static_cast<std::int64_t>(nanoseconds / 1e6));
  return is_negative ? -ms : ms;
}

}  // namespace

Result<UnixTime> parse_time_spec(std::string_view text, UnixTime now) {
  if (auto time = parse_rfc3339(text)) return *time;
  if (auto ago = parse_go_duration(text)) return now - *ago;
  return fail(Errc::invalid,
              "{} is neither a moment like 2026-01-31T23:59:59Z nor a time ago like 90s or 1h30m",
              redis::quoted(text.substr(0, 60)));
}

std::string rfc3339(UnixTime time) { return iso8601(WallClock::time_point(time)); }

std::string local_time(UnixTime time) {
  auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  std::time_t count = seconds.time_since_epoch().count();
  std::tm parts{};
  localtime_r(&count, &parts);
  return fmt::format("{:02}:{:02}:{:02}.{:03}", parts.tm_hour, parts.tm_min, parts.tm_sec,
                     (time - seconds).count());
}

}  // namespace warren::watch
