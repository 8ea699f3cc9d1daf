#pragma once
// One list of members per entity serves both ways: a Reader takes them from JSON, a Writer makes
// JSON of them.
//
//   template <class Io, class Node>
//   void members(Io& io, Node& node) {
//     io.always("node_id", node.node_id);
//     io.unless_empty("tenant_id", node.tenant_id);
//   }
//
// As Go's decoder does, null is nothing said; a wrong type is an error.
#include <array>
#include <boost/json/monotonic_resource.hpp>
#include <boost/json/value.hpp>
#include <vector>

#include "services/foghorn/state/entities.h"

namespace warren::foghorn {

namespace json = boost::json;

// At most `bytes` long and 64 levels deep. Errc::invalid says what is wrong and where.
Result<json::object> parse_object(std::string_view text, std::size_t bytes,
                                  json::storage_ptr memory = {}, std::size_t deepest = 64);
constexpr std::size_t longest_value = 1u << 20;     // of an entity
constexpr std::size_t longest_outputs = 64u << 10;  // of what a node says it can send
constexpr std::size_t deepest_part = 60;            // of what becomes a part of one
// Memory for an object that is read and let go: most of them need none of the heap.
class Scratch {
 public:
  json::storage_ptr memory() { return &resource_; }

 private:
  std::array<unsigned char, 8192> buffer_;  // NOLINT: not to be cleared each time
  json::monotonic_resource resource_{buffer_.data(), buffer_.size()};
};

// A number that survives being written and read: whole, or with 15 digits. The parser may err in
// the last bit, and instances that compare what they know must not. What is infinite is null.
double tidy(double number);
void tidy(json::value& value);
void tidy(json::object& object);

std::string to_rfc3339(WallTime time);
std::optional<WallTime> parse_rfc3339(std::string_view text);

class Reader {
 public:
  explicit Reader(const json::object& from, std::string_view where = {})
      : from_(from), where_(where) {
    asked_.reserve(64);
  }

  template <class T>
  void always(std::string_view name, T& member) {
    if (const auto* value = find(name); value && !read(*value, member))
      wrong(name, expected(member));
  }
  template <class T>
  void unless_empty(std::string_view name, T& member) {
    always(name, member);
  }
  // Something said of a value that may be left unsaid.
  template <class T>
  void maybe(std::string_view name, std::optional<T>& member) {
    T value{};
    const auto* found = find(name);
    if (!found) return;
    if (!read(*found, value)) return wrong(name, expected(value));
    member = std::move(value);
  }
  // Known, and of no use here.
  void skip(std::string_view name) { find(name); }
  void need(std::string_view name, const std::string& id) {
    if (id.empty()) wrong(name, "there");
  }

  // The member as it is; null when nothing is said.
  const json::value* find(std::string_view name);
  void wrong(std::string_view name, std::string_view expected);
  void fail_with(Error error);
  Result<> result() const;
  // What nobody asked for.
  json::object others() const;

 private:
  static bool read(const json::value& value, std::string& member);
  static bool read(const json::value& value, bool& member);
  static bool read(const json::value& value, double& member);
  static bool read(const json::value& value, std::int64_t& member);
  static bool read(const json::value& value, std::uint64_t& member);
  static bool read(const json::value& value, int& member);
  static bool read(const json::value& value, WallTime& member);
  static bool read(const json::value& value, std::optional<double>& member);
  static bool read(const json::value& value, json::object& member);
  static bool read(const json::value& value, std::vector<std::string>& member);

  static std::string_view expected(const std::string&) { return "text"; }
  static std::string_view expected(bool) { return "true or false"; }
  static std::string_view expected(double) { return "a finite number"; }
  static std::string_view expected(std::int64_t) { return "a whole number"; }
  static std::string_view expected(std::uint64_t) { return "a whole number, not negative"; }
  static std::string_view expected(int) { return "a whole number"; }
  static std::string_view expected(const WallTime&) { return "a time as in RFC 3339"; }
  static std::string_view expected(const std::optional<double>&) { return "a finite number"; }
  static std::string_view expected(const json::object&) { return "an object"; }
  static std::string_view expected(const std::vector<std::string>&) { return "a list of text"; }

  const json::object& from_;
  std::string_view where_;
  std::vector<std::string_view> asked_;
  std::size_t found_ = 0;
  std::optional<Error> error_;
};

class Writer {
 public:
  template <class T>
  void always(std::string_view name, const T& member) {
    begin(name);
    write(member);
  }
  template <class T>
  void unless_empty(std::string_view name, const T& member) {
    if (!is_empty(member)) always(name, member);
  }
  void skip(std::string_view) {}
  void need(std::string_view, const std::string&) {}
  // A member whose value is JSON already.
  void raw(std::string_view name, std::string_view text) {
    begin(name);
    text_ += text;
  }
  void others(const json::object& object);
  std::string take();

 private:
  static bool is_empty(const std::string& v) { return v.empty(); }
  static bool is_empty(bool v) { return !v; }
  static bool is_empty(double v) { return v == 0; }
  static bool is_empty(std::int64_t v) { return v == 0; }
  static bool is_empty(std::uint64_t v) { return v == 0; }
  static bool is_empty(int v) { return v == 0; }
  static bool is_empty(const WallTime& v) { return v == WallTime{}; }
  static bool is_empty(const std::optional<double>& v) { return !v; }
  static bool is_empty(const json::object& v) { return v.empty(); }
  static bool is_empty(const std::vector<std::string>& v) { return v.empty(); }

  void begin(std::string_view name);
  void write(std::string_view v);
  void write(const std::string& v) { write(std::string_view(v)); }
  void write(const char* v) = delete;
  void write(bool v) { text_ += v ? "true" : "false"; }
  void write(double v);
  void write(std::int64_t v) { text_ += std::to_string(v); }
  void write(std::uint64_t v) { text_ += std::to_string(v); }
  void write(int v) { text_ += std::to_string(v); }
  void write(const WallTime& v) { write(std::string_view(to_rfc3339(v))); }
  void write(const std::optional<double>& v) { write(v.value_or(0)); }
  void write(const json::object& v);
  void write(const std::vector<std::string>& v);

  std::string text_ = "{";
};

// [a,b,c]
std::string json_list(const std::vector<std::string>& items);

}  // namespace warren::foghorn
