#include "redis/resp/command.h"

#include <algorithm>
#include <array>

#include "redis/resp/reply.h"

namespace warren::redis {
namespace {

// CRC16/XMODEM, as the cluster specification requires.
constexpr std::array<std::uint16_t, 256> crc_table = [] {
  std::array<std::uint16_t, 256> table{};
  for (unsigned i = 0; i < table.size(); ++i) {
    unsigned crc = i << 8;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1;
    table[i] = static_cast<std::uint16_t>(crc);
  }
  return table;
}();

// Iterates over the words of an encoded command.
class WordReader {
 public:
  explicit WordReader(std::string_view bytes) : rest_(bytes) { read_head(); }

  std::string_view next() {
    std::size_t length = read_head();
    std::string_view word = rest_.substr(0, length);
    rest_.remove_prefix(length + 2);
    return word;
  }

 private:
  // We encoded it ourselves, so there is nothing to check.
  std::size_t read_head() {
    std::size_t number = 0, i = 1;
    for (; rest_[i] != '\r'; ++i) number = number * 10 + (rest_[i] - '0');
    rest_.remove_prefix(i + 2);
    return number;
  }

  std::string_view rest_;
};

enum class KeyAt : std::uint8_t {
  first,  // SET key; also unknown commands
  nowhere,
  second,              // OBJECT ENCODING key
  second_if_usage,     // MEMORY USAGE key
  second_if_object,    // DEBUG OBJECT key
  after_first_count,   // ZUNION 2 key key
  after_second_count,  // EVAL script 2 key key
  after_streams,       // XREAD … STREAMS key key id id
  migrate,             // MIGRATE host port key …, or host port "" … KEYS key key
};

struct Syntax {
  std::string_view name;
  KeyAt key;
};

// Every command whose key, if it has one, is not its first argument. command_test.cc compares this
// table with a real server.
constexpr auto syntaxes = [] {
  using enum KeyAt;
  auto all = std::to_array<Syntax>({
      // Keys in other places.
      {"BITOP", second},
      {"BLMPOP", after_second_count},
      {"BZMPOP", after_second_count},
      {"DEBUG", second_if_object},
      {"EVAL", after_second_count},
      {"EVALSHA", after_second_count},
      {"EVALSHA_RO", after_second_count},
      {"EVAL_RO", after_second_count},
      {"FCALL", after_second_count},
      {"FCALL_RO", after_second_count},
      {"LMPOP", after_first_count},
      {"MEMORY", second_if_usage},
      {"MIGRATE", migrate},
      {"MSETEX", after_first_count},
      {"OBJECT", second},
      {"PFDEBUG", second},
      {"SINTERCARD", after_first_count},
      {"XGROUP", second},
      {"XINFO", second},
      {"XREAD", after_streams},
      {"XREADGROUP", after_streams},
      {"ZDIFF", after_first_count},
      {"ZINTER", after_first_count},
      {"ZINTERCARD", after_first_count},
      {"ZMPOP", after_first_count},
      {"ZUNION", after_first_count},
      // No keys.
      {"ACL", nowhere},
      {"ASKING", nowhere},
      {"AUTH", nowhere},
      {"BGREWRITEAOF", nowhere},
      {"BGSAVE", nowhere},
      {"CLIENT", nowhere},
      {"CLUSTER", nowhere},
      {"COMMAND", nowhere},
      {"CONFIG", nowhere},
      {"DBSIZE", nowhere},
      {"DISCARD", nowhere},
      {"ECHO", nowhere},
      {"EXEC", nowhere},
      {"FAILOVER", nowhere},
      {"FLUSHALL", nowhere},
      {"FLUSHDB", nowhere},
      {"FUNCTION", nowhere},
      {"HELLO", nowhere},
      {"INFO", nowhere},
      {"KEYS", nowhere},
      {"LASTSAVE", nowhere},
      {"LATENCY", nowhere},
      {"LOLWUT", nowhere},
      {"MODULE", nowhere},
      {"MONITOR", nowhere},
      {"MULTI", nowhere},
      {"PFSELFTEST", nowhere},
      {"PING", nowhere},
      {"PSUBSCRIBE", nowhere},
      {"PSYNC", nowhere},
      {"PUBLISH", nowhere},
      {"PUBSUB", nowhere},
      {"PUNSUBSCRIBE", nowhere},
      {"QUIT", nowhere},
      {"RANDOMKEY", nowhere},
      {"READONLY", nowhere},
      {"READWRITE", nowhere},
      {"REPLCONF", nowhere},
      {"REPLICAOF", nowhere},
      {"RESET", nowhere},
      {"ROLE", nowhere},
      {"SAVE", nowhere},
      {"SCAN", nowhere},
      {"SCRIPT", nowhere},
      {"SELECT", nowhere},
      {"SENTINEL", nowhere},
      {"SHUTDOWN", nowhere},
      {"SLAVEOF", nowhere},
      {"SLOWLOG", nowhere},
      {"SUBSCRIBE", nowhere},
      {"SWAPDB", nowhere},
      {"SYNC", nowhere},
      {"TIME", nowhere},
      {"UNSUBSCRIBE", nowhere},
      {"UNWATCH", nowhere},
      {"WAIT", nowhere},
      {"WAITAOF", nowhere},
  });
  std::ranges::sort(all, {}, &Syntax::name);
  return all;
}();

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

bool is_word(std::string_view word, std::string_view upper_case) {
  return std::ranges::equal(word, upper_case, {}, upper);
}

// Where the names with each initial start in `syntaxes`, so that GET and HSET are found at once.
constexpr std::array<std::uint8_t, 27> first_with_initial = [] {
  std::array<std::uint8_t, 27> first{};
  for (int i = 0; i < 27; ++i) {
    first[i] = std::ranges::count_if(syntaxes, [&](auto& it) { return it.name[0] < 'A' + i; });
  }
  return first;
}();

KeyAt key_place(std::string_view name) {
  unsigned initial = name.empty() ? 26 : upper(name[0]) - 'A';
  if (initial >= 26) return KeyAt::first;
  for (int i = first_with_initial[initial]; i < first_with_initial[initial + 1]; ++i) {
    if (is_word(name, syntaxes[i].name)) return syntaxes[i].key;
  }
  return KeyAt::first;
}

// If a count is "0" or not a number, any server will do to report the error.
bool is_positive(std::string_view count) {
  return !count.empty() && count[0] >= '1' && count[0] <= '9';
}

// The index of the first word equal to `wanted`, starting at `from`. Returns 0 if there is none.
int find_word(const Command& command, int from, std::string_view wanted) {
  WordReader reader(command.bytes());
  for (int i = 0; i < command.size(); ++i) {
    std::string_view word = reader.next();
    if (i >= from && is_word(word, wanted)) return i;
  }
  return 0;
}

// The index may lie beyond the last word.
int key_index(const Command& command) {
  switch (key_place(command.word(0))) {
    case KeyAt::first:
      return 1;
    case KeyAt::nowhere:
      return 0;
    case KeyAt::second:
      return 2;
    case KeyAt::second_if_usage:
      return is_word(command.word(1), "USAGE") ? 2 : 0;
    case KeyAt::second_if_object:
      return is_word(command.word(1), "OBJECT") ? 2 : 0;
    case KeyAt::after_first_count:
      return is_positive(command.word(1)) ? 2 : 0;
    case KeyAt::after_second_count:
      return is_positive(command.word(2)) ? 3 : 0;
    case KeyAt::after_streams: {
      // A group or a consumer may be named "streams". Those words come before the fourth.
      int streams = find_word(command, is_word(command.word(1), "GROUP") ? 4 : 1, "STREAMS");
      return streams ? streams + 1 : 0;
    }
    case KeyAt::migrate: {
      if (!command.word(3).empty()) return 3;
      int keys = find_word(command, 6, "KEYS");
      return keys ? keys + 1 : 0;
    }
  }
  return 0;
}

}  // namespace

int slot_of(std::string_view key) {
  if (auto open = key.find('{'); open != key.npos) {
    auto close = key.find('}', open + 1);
    if (close != key.npos && close > open + 1) key = key.substr(open + 1, close - open - 1);
  }
  std::uint16_t crc = 0;
  for (unsigned char c : key) crc = static_cast<std::uint16_t>(crc << 8 ^ crc_table[crc >> 8 ^ c]);
  return crc % slot_count;
}

Command::Command(std::span<const std::string> words) : size_(static_cast<int>(words.size())) {
  Head head{'*', words.size()};
  std::size_t bytes = head.size();
  for (auto& word : words) bytes += Word(word).size();
  bytes_.resize_and_overwrite(bytes, [&](char* at, std::size_t) {  // as in write()
    at = head.write(at);
    for (auto& word : words) at = Word(word).write(at);
    return bytes;
  });
}

Command Command::transaction(std::span<const Command> commands) {
  Command all("MULTI");
  for (const auto& command : commands) all.bytes_ += command.bytes_;
  all.bytes_ += Command("EXEC").bytes_;
  all.answers_ = static_cast<std::uint32_t>(commands.size() + 2);
  return all;
}

bool Command::needs_own_connection() const {
  // By length, so that GET and EVALSHA are decided at once.
  auto names = [](std::size_t length) -> std::span<const std::string_view> {
    static constexpr std::array<std::string_view, 5> four{"AUTH", "EXEC", "QUIT", "SYNC", "WAIT"};
    static constexpr std::array<std::string_view, 7> five{"BLPOP", "BRPOP", "HELLO", "MULTI",
                                                          "PSYNC", "RESET", "WATCH"};
    static constexpr std::array<std::string_view, 5> six{"ASKING", "BLMOVE", "BLMPOP", "BZMPOP",
                                                         "SELECT"};
    static constexpr std::array<std::string_view, 4> seven{"DISCARD", "MONITOR", "UNWATCH",
                                                           "WAITAOF"};
    static constexpr std::array<std::string_view, 5> eight{"BZPOPMAX", "BZPOPMIN", "FAILOVER",
                                                           "READONLY", "REPLCONF"};
    static constexpr std::array<std::string_view, 8> more{
        "READWRITE",  "SUBSCRIBE",   "BRPOPLPUSH",   "PSUBSCRIBE",
        "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"};
    switch (length) {
      case 4:
        return four;
      case 5:
        return five;
      case 6:
        return six;
      case 7:
        return seven;
      case 8:
        return eight;
      default:
        return more;
    }
  };
  auto name = word(0);
  if (name.size() < 4 || answers_ > 1) return false;  // a transaction leaves no state
  for (auto other : names(name.size()))
    if ((other[0] | 0x20) == (name[0] | 0x20) && is_word(name, other)) return true;
  if (is_word(name, "CLIENT"))
    return is_word(word(1), "REPLY") || is_word(word(1), "TRACKING") || is_word(word(1), "PAUSE");
  if (!is_word(name, "XREAD") && !is_word(name, "XREADGROUP")) return false;
  for (int i = 1; i < size_ && !is_word(word(i), "STREAMS"); ++i)
    if (is_word(word(i), "BLOCK")) return true;
  return false;
}

std::string_view Command::word(int i) const {
  if (i < 0 || i >= size_) return {};
  WordReader reader(bytes_);
  for (; i > 0; --i) reader.next();
  return reader.next();
}

std::string_view Command::key() const {
  int index = key_index(*this);
  return index > 0 ? word(index) : std::string_view();
}

bool Command::has_key() const {
  int index = key_index(*this);
  return index > 0 && index < size_;
}

std::string describe(const Command& command) {
  std::string text(command.word(0));
  if (command.has_key()) text += " " + quoted(command.key());
  return text;
}

}  // namespace warren::redis
