#include "services/foghorn/state/json_fields.h"

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/utf8.h"

namespace warren::foghorn {

namespace {

constexpr double exact = 9007199254740992.0;  // 2^53: whole numbers below have a double each
constexpr std::string_view unknown_time = "0001-01-01T00:00:00Z";

bool is_whole(double number) { return std::abs(number) < exact && std::trunc(number) == number; }

// A whole number of this type, however it is written.
template <class T>
bool read_whole(const json::value& value, T& member) {
  using Limits = std::numeric_limits<T>;
  if (value.is_int64()) {
    auto number = value.get_int64();
    if (!std::in_range<T>(number)) return false;
    member = static_cast<T>(number);
  } else if (value.is_uint64()) {
    auto number = value.get_uint64();
    if (!std::in_range<T>(number)) return false;
    member = static_cast<T>(number);
  } else {
    if (!value.is_double() || !is_whole(value.get_double())) return false;
    auto number = value.get_double();
    if (number < static_cast<double>(Limits::min()) || number > static_cast<double>(Limits::max()))
      return false;
    member = static_cast<T>(number);
  }
  return true;
}

// Two to nine digits of a time, all of them digits.
std::optional<int> digits(std::string_view text) {
  int number = 0;
  if (text.empty()) return {};
  for (char c : text) {
    if (c < '0' || c > '9') return {};
    number = number * 10 + (c - '0');
  }
  return number;
}

// "Z", "+02:00".
std::optional<std::chrono::minutes> parse_offset(std::string_view text) {
  if (text == "Z" || text == "z") return std::chrono::minutes(0);
  if (text.size() != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':') return {};
  auto hours = digits(text.substr(1, 2)), minutes = digits(text.substr(4, 2));
  if (!hours || !minutes || *hours > 23 || *minutes > 59) return {};
  auto offset = std::chrono::hours(*hours) + std::chrono::minutes(*minutes);
  return text[0] == '-' ? -offset : offset;
}

}  // namespace

Result<json::object> parse_object(std::string_view text, std::size_t bytes,
                                  json::storage_ptr memory, std::size_t deepest) {
  if (text.size() > bytes)
    return fail(Errc::invalid, "{} bytes of JSON are more than {}", text.size(), bytes);
  json::parse_options options;
  options.max_depth = deepest;
  boost::system::error_code error;
  auto value = json::parse(text, error, std::move(memory), options);
  if (error) return fail(Errc::invalid, "no JSON: {}", error.message());
  if (!value.is_object()) return fail(Errc::invalid, "the JSON is no object");
  return std::move(value.get_object());
}

double tidy(double number) {
  if (is_whole(number)) return number == 0 ? 0 : number;  // and no -0
  std::array<char, 32> text{};
  auto end = fmt::format_to_n(text.data(), text.size(), "{:.15g}", number).out;
  std::from_chars(text.data(), end, number);
  return number;
}

void tidy(json::value& value) {
  if (value.is_double()) {
    auto number = tidy(value.get_double());
    if (!std::isfinite(number))
      value = nullptr;
    else if (is_whole(number))
      value = static_cast<std::int64_t>(number);
    else
      value = number;
  } else if (value.is_array()) {
    for (auto& item : value.get_array()) tidy(item);
  } else if (value.is_object()) {
    tidy(value.get_object());
  }
}

void tidy(json::object& object) {
  for (auto& member : object) tidy(member.value());
}

std::string to_rfc3339(WallTime time) {
  if (time == WallTime{}) return std::string(unknown_time);
  auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  auto days = std::chrono::floor<std::chrono::days>(seconds);
  std::chrono::year_month_day date(days);
  std::chrono::hh_mm_ss clock(seconds - days);
  auto text = fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", int(date.year()),
                          unsigned(date.month()), unsigned(date.day()), clock.hours().count(),
                          clock.minutes().count(), clock.seconds().count());
  auto rest = std::chrono::nanoseconds(time - seconds).count();
  if (rest > 0) {
    text += fmt::format(".{:09}", rest);
    text.erase(text.find_last_not_of('0') + 1);
  }
  return text + 'Z';
}

std::optional<WallTime> parse_rfc3339(std::string_view text) {
  if (text == unknown_time || text.empty()) return WallTime{};
  if (text.size() < 20 || text[4] != '-' || text[7] != '-' ||
      (text[10] != 'T' && text[10] != 't') || text[13] != ':' || text[16] != ':')
    return {};
  auto part = [&](std::size_t at, std::size_t size) { return digits(text.substr(at, size)); };
  auto year = part(0, 4), month = part(5, 2), day = part(8, 2), hour = part(11, 2),
       minute = part(14, 2), second = part(17, 2);
  if (!year || !month || !day || !hour || !minute || !second) return {};
  std::chrono::year_month_day date(std::chrono::year(*year),
                                   std::chrono::month(static_cast<unsigned>(*month)),
                                   std::chrono::day(static_cast<unsigned>(*day)));
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 60) return {};
  auto rest = text.substr(19);
  std::chrono::nanoseconds fraction(0);
  if (rest.starts_with('.')) {
    auto end = std::min(rest.find_first_not_of("0123456789", 1), rest.size());
    std::string nine(rest.substr(1, std::min<std::size_t>(end - 1, 9)));
    if (nine.empty()) return {};
    nine.resize(9, '0');
    fraction = std::chrono::nanoseconds(digits(nine).value_or(0));
    rest.remove_prefix(end);
  }
  auto offset = parse_offset(rest);
  if (!offset) return {};
  // Years that nanoseconds since 1970 cannot hold are as good as not known.
  if (*year < 1970 || *year > 2200) return WallTime{};
  return WallTime(std::chrono::sys_days(date)) + std::chrono::hours(*hour) +
         std::chrono::minutes(*minute) + std::chrono::seconds(*second) + fraction - *offset;
}

// --- Reader
// ----------------------------------------------------------------------------------------

const json::value* Reader::find(std::string_view name) {
  asked_.push_back(name);
  const auto* value = from_.if_contains(name);
  if (!value) return nullptr;
  ++found_;
  return value->is_null() ? nullptr : value;
}

void Reader::wrong(std::string_view name, std::string_view expected) {
  fail_with({Errc::invalid, fmt::format("{}{}: is not {}", where_, name, expected)});
}

void Reader::fail_with(Error error) {
  if (!error_) error_ = std::move(error);
}

Result<> Reader::result() const {
  if (error_) return std::unexpected(*error_);
  return ok;
}

json::object Reader::others() const {
  json::object rest;
  if (found_ == from_.size()) return rest;
  for (const auto& member : from_) {
    if (std::ranges::find(asked_, std::string_view(member.key())) != asked_.end()) continue;
    auto value = member.value();
    tidy(value);
    rest[member.key()] = std::move(value);
  }
  return rest;
}

bool Reader::read(const json::value& value, std::string& member) {
  if (!value.is_string()) return false;
  member = std::string_view(value.get_string());
  return true;
}

bool Reader::read(const json::value& value, bool& member) {
  if (!value.is_bool()) return false;
  member = value.get_bool();
  return true;
}

bool Reader::read(const json::value& value, double& member) {
  if (!value.is_number()) return false;
  auto number = value.to_number<double>();
  if (!std::isfinite(number)) return false;
  member = tidy(number);
  return true;
}

bool Reader::read(const json::value& value, std::int64_t& member) {
  return read_whole(value, member);
}
bool Reader::read(const json::value& value, std::uint64_t& member) {
  return read_whole(value, member);
}
bool Reader::read(const json::value& value, int& member) { return read_whole(value, member); }

bool Reader::read(const json::value& value, WallTime& member) {
  auto time =
      value.is_string() ? parse_rfc3339(std::string_view(value.get_string())) : std::nullopt;
  if (time) member = *time;
  return time.has_value();
}

bool Reader::read(const json::value& value, std::optional<double>& member) {
  double number = 0;
  if (!read(value, number)) return false;
  member = number;
  return true;
}

bool Reader::read(const json::value& value, json::object& member) {
  if (!value.is_object()) return false;
  member = value.get_object();
  tidy(member);
  return true;
}

bool Reader::read(const json::value& value, std::vector<std::string>& member) {
  if (!value.is_array()) return false;
  member.clear();
  for (const auto& item : value.get_array())
    if (!read(item, member.emplace_back())) return false;
  return true;
}

// --- Writer
// ----------------------------------------------------------------------------------------

void Writer::begin(std::string_view name) {
  if (text_.size() > 1) text_ += ',';
  write(name);
  text_ += ':';
}

void Writer::write(std::string_view v) {
  bool is_plain =
      std::ranges::all_of(v, [](char c) { return c >= ' ' && c < 0x7f && c != '"' && c != '\\'; });
  if (is_plain) {
    text_ += '"';
    text_ += v;
    text_ += '"';
  } else {
    text_ += json::serialize(json::string(valid_utf8(v)));
  }
}

void Writer::write(double v) {
  if (is_whole(v))
    text_ += std::to_string(static_cast<std::int64_t>(v));
  else
    fmt::format_to(std::back_inserter(text_), "{}", v);
}

void Writer::write(const json::object& v) { text_ += json::serialize(v); }

void Writer::write(const std::vector<std::string>& v) {
  text_ += '[';
  for (const auto& item : v) {
    if (&item != &v.front()) text_ += ',';
    write(item);
  }
  text_ += ']';
}

void Writer::others(const json::object& object) {
  for (const auto& member : object) raw(member.key(), json::serialize(member.value()));
}

std::string Writer::take() { return std::move(text_) + '}'; }

std::string json_list(const std::vector<std::string>& items) {
  return fmt::format("[{}]", fmt::join(items, ","));
}

}  // namespace warren::foghorn
