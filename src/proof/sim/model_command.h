#pragma once
// The parts that the commands of a ModelRedis are made of.
#include <fmt/format.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proof/sim/faults.h"
#include "proof/sim/model_keyspace.h"
#include "redis/resp/reply.h"

namespace warren::sim {

using redis::Reply;
using Kind = Reply::Kind;
using Args = std::span<const std::string_view>;  // args[0] is the name of the command

// One command of a client, with everything its script calls: they all see the same instant.
class Execution {
 public:
  Execution(Keyspace& keys, std::vector<Message>& messages, std::int64_t now_us)
      : keys_(keys), messages_(messages), now_us_(now_us) {}

  std::int64_t now_us() const { return now_us_; }
  std::int64_t now_ms() const { return now_us_ / 1000; }

  bool is_alive(const Value& value) const { return now_ms() <= value.expires_ms; }
  // Returns null for an expired key. Pointers are valid until the next key is created.
  Value* find(std::string_view key);
  template <class T>
  struct Found {
    T* value = nullptr;
    bool wrong_type = false;
  };
  template <class T>
  Found<T> find_as(std::string_view key) {
    Value* value = find(key);
    if (!value) return {};
    T* data = std::get_if<T>(&value->data);
    return {data, data == nullptr};
  }
  // Returns the value, created without an expiry if it does not exist.
  template <class T>
  Found<T> make(std::string_view key) {
    if (auto found = find_as<T>(key); found.value || found.wrong_type) return found;
    auto [at, is_new] = keys_.emplace(std::string(key), Value{T{}});
    return {std::get_if<T>(&at->second.data), false};
  }
  Value& put(std::string_view key, Value value);
  void erase(std::string_view key) { keys_.erase(keys_.find(key)); }
  // Redis has no empty collections.
  template <class T>
  void erase_if_empty(std::string_view key, const T& collection) {
    if (collection.empty()) erase(key);
  }
  Keyspace& keys() { return keys_; }

  // Records that the command changed the data; every command calls this itself.
  void changed() { changed_ = true; }
  bool has_changed() const { return changed_; }
  const std::vector<std::string>& expired() const { return expired_; }
  void publish(Message message) { messages_.push_back(std::move(message)); }

  // Scripts see replies in the shapes of RESP2.
  bool in_script = false;
  Refuses refuses = Refuses::nothing;
  bool was_let_write = false;  // then the script may continue, whatever it has changed
  SlotState slots = SlotState::whole;

 private:
  Keyspace& keys_;
  std::vector<Message>& messages_;
  std::int64_t now_us_;
  bool changed_ = false;
  std::vector<std::string> expired_;
};

struct CommandSpec {
  std::string_view name;  // in capitals
  int arity;              // number of words, the name included; negative: at least that many
  Reply (*run)(Execution&, Args);
  bool in_scripts = true;
};
std::span<const CommandSpec> string_commands();
std::span<const CommandSpec> key_commands();
std::span<const CommandSpec> hash_commands();
std::span<const CommandSpec> list_commands();
std::span<const CommandSpec> set_commands();
std::span<const CommandSpec> sorted_set_commands();
std::span<const CommandSpec> stream_commands();
std::span<const CommandSpec> server_commands();

// Runs the command, unless the server refuses it.
Reply run_command(Execution& x, const CommandSpec& command, Args args);
// Returns an error for an unknown command, and for too few or too many words.
Reply execute(Execution& x, Args args);
const CommandSpec* find_command(std::string_view name);
bool fits_arity(const CommandSpec& command, std::size_t words);

// Replies.
inline Reply number(std::int64_t value) { return {Kind::integer, value, {}, {}}; }
inline Reply text(std::string_view value) { return {Kind::string, 0, std::string(value), {}}; }
inline Reply null() { return {}; }
inline Reply status(std::string_view value) { return {Kind::status, 0, std::string(value), {}}; }
inline Reply list_of(std::vector<Reply> items) { return {Kind::array, 0, {}, std::move(items)}; }
Reply real(double value);
std::string real_text(double value);  // in RESP2's format

Reply error(std::string_view what);  // on one line
inline Reply syntax_error() { return error("ERR syntax error"); }
inline Reply not_an_integer() { return error("ERR value is not an integer or out of range"); }
inline Reply wrong_type() {
  return error("WRONGTYPE Operation against a key holding the wrong kind of value");
}
Reply wrong_arity(std::string_view command);
Reply would_overflow();

// Arguments.
std::optional<std::int64_t> to_integer(std::string_view word);
std::optional<std::uint64_t> to_unsigned(std::string_view word);
std::optional<double> to_real(std::string_view word);
bool is_word(std::string_view word, std::string_view expected);  // in upper or lower case
std::string lower(std::string_view word);
bool matches(std::string_view pattern, std::string_view text);  // as in SCAN … MATCH
// From Redis' way of counting (from the end if negative) to [first, last); empty if out of range.
std::pair<std::size_t, std::size_t> slice(std::int64_t start, std::int64_t stop, std::size_t size);
struct Scan {
  std::uint64_t cursor = 0;
  std::int64_t count = 10;
  std::optional<std::string> pattern;
};
std::optional<Reply> parse_cursor(std::string_view word, Scan& scan);
std::optional<Reply> parse_scan_options(Args options, Scan& scan);  // [COUNT n] [MATCH pattern]
// Sorts the rest of a scan by position, takes a portion and returns where the next one begins.
struct ScanItem {
  std::uint64_t position;
  std::string_view name;
  std::string_view value;
};
std::uint64_t scan_position(std::string_view name);
std::uint64_t take_portion(std::vector<ScanItem>& items, const Scan& scan);

}  // namespace warren::sim
