#include "redis/resp/command.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <set>

#include "redis/resp/parser.h"

using namespace warren::redis;
using namespace std::string_literals;

namespace {

Command command_of(std::vector<std::string> words) { return Command(words); }

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    std::size_t end = std::min(text.find(' '), text.size());
    words.emplace_back(text.substr(0, end));
    if (words.back() == "\"\"") words.back().clear();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

const std::string none = "no key";

// A redis-server for this file alone, on a unix socket in a folder of its own. The tests ask it
// about commands, one question at a time.
class Server {
 public:
  Server() {
    std::string command = "exec setpriv --pdeathsig KILL redis-server --port 0 --save '' --dir " +
                          folder_ + " --unixsocket " + folder_ + "/socket";
    log_ = popen(command.c_str(), "r");
    REQUIRE(log_);
    std::string line;
    do {
      line.clear();
      for (int c = 0; (c = std::fgetc(log_)) != '\n';) {
        REQUIRE_MESSAGE(c != EOF, "redis-server did not start");
        line += static_cast<char>(c);
      }
    } while (line.find("ready to accept connections at") == line.npos);
    sockaddr_un address{AF_UNIX, {}};
    (folder_ + "/socket").copy(address.sun_path, sizeof(address.sun_path) - 1);
    REQUIRE(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  }
  ~Server() {
    Command stop("SHUTDOWN", "NOSAVE");
    std::ignore = ::write(socket_, stop.bytes().data(), stop.bytes().size());
    close(socket_);
    pclose(log_);
    std::filesystem::remove_all(folder_);
  }

  Reply ask(const Command& command) {
    REQUIRE(::write(socket_, command.bytes().data(), command.bytes().size()) ==
            ssize_t(command.bytes().size()));
    for (Reply reply;;) {
      auto progress = parser_.parse(buffer_, reply);
      REQUIRE(progress.status != Parser::Status::broken);
      buffer_.erase(0, progress.consumed);
      if (progress.status == Parser::Status::complete) return reply;
      char piece[16384];
      ssize_t size = ::read(socket_, piece, sizeof(piece));
      REQUIRE(size > 0);
      buffer_.append(piece, size);
    }
  }

  // The first key according to the server, or `none`, or its error.
  std::string first_key(const Command& command) {
    std::vector<std::string> words{"COMMAND", "GETKEYS"};
    for (int i = 0; i < command.size(); ++i) words.emplace_back(command.word(i));
    Reply reply = ask(Command(words));
    if (reply.text.find("no key arguments") != reply.text.npos) return none;
    if (reply.is_error()) return reply.text;
    return reply.items.empty() ? none : reply.items[0].text;
  }

 private:
  static std::string new_folder() {
    std::string folder = std::filesystem::temp_directory_path() / "warren-command-XXXXXX";
    REQUIRE(mkdtemp(folder.data()));
    return folder;
  }

  std::string folder_ = new_folder();
  FILE* log_ = nullptr;
  int socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  Parser parser_;
  std::string buffer_;
};

std::string our_key(const Command& command) {
  if (command.has_key()) return std::string(command.key());
  CHECK(command.key() == "");
  return none;
}

// The keys here are called k, k1, k2.
const char* const examples[] = {
    "get k",
    "SET k v PX 5000",
    "mget k k2 k3",
    "MSET k v k2 v",
    "EVAL script 2 k k2 arg",
    "EVAL script 0 arg",
    "EVALSHA sha 1 k",
    "EVAL_RO script 1 k",
    "EVALSHA_RO sha 12 k 2 3 4 5 6 7 8 9 10 11 12",
    "FCALL name 1 k arg",
    "FCALL_RO name 0",
    "XREAD STREAMS k 0",
    "XREAD COUNT 2 BLOCK 0 STREAMS k k2 0 0",
    "xread count 2 streams k $",
    "XREADGROUP GROUP g c COUNT 1 NOACK STREAMS k >",
    "XREADGROUP GROUP streams streams STREAMS k >",
    "XADD k * f v",
    "OBJECT ENCODING k",
    "object freq k",
    "MEMORY USAGE k SAMPLES 5",
    "MEMORY DOCTOR",
    "XINFO STREAM k FULL",
    "XINFO GROUPS k",
    "XGROUP CREATE k g $ MKSTREAM",
    "XGROUP DESTROY k g",
    "BITOP AND k k2 k3",
    "BITOP NOT k k2",
    "ZUNION 2 k k2 WITHSCORES",
    "ZINTER 1 k",
    "ZDIFF 2 k k2",
    "ZINTERCARD 1 k LIMIT 3",
    "SINTERCARD 2 k k2",
    "ZUNIONSTORE k 2 k1 k2",
    "ZDIFFSTORE k 1 k1",
    "LMPOP 1 k LEFT",
    "BLMPOP 0 1 k LEFT",
    "ZMPOP 2 k k2 MIN",
    "BZMPOP 0 1 k MIN",
    "BLPOP k k2 0",
    "MIGRATE host 6379 k 0 1000",
    "MIGRATE host 6379 \"\" 0 1000 KEYS k k2",
    "MIGRATE host 6379 \"\" 0 1000 COPY REPLACE AUTH keyword KEYS k",
    "SORT k BY weight_* GET # STORE k2",
    "SORT_RO k",
    "GEORADIUS k 0 0 1 km STORE k2",
    "GEOSEARCHSTORE k k2 FROMMEMBER m BYRADIUS 1 km",
    "COPY k k2",
    "RENAME k k2",
    "RESTORE k 0 dump",
    "LCS k k2",
    "PFMERGE k k2",
    "PFDEBUG GETREG k",
    "SMOVE k k2 member",
    "WATCH k k2",
    "PING hello",
    "ECHO hello",
    "INFO server",
    "PUBLISH channel message",
    "SUBSCRIBE channel",
    "CLIENT SETNAME name",
    "CONFIG GET pattern",
    "CONFIG SET requirepass secret",
    "CLUSTER KEYSLOT name",
    "SCRIPT LOAD script",
    "AUTH user password",
    "HELLO 3 AUTH user password",
    "SELECT 1",
    "WAIT 1 100",
    "SCAN 0 MATCH *",
    "KEYS *",
    "FLUSHALL ASYNC",
};

}  // namespace

TEST_CASE("a command is an array of bulk strings, byte for byte") {
  CHECK(Command("PING").bytes() == "*1\r\n$4\r\nPING\r\n");
  CHECK(Command("GET", "key").bytes() == "*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n");
  CHECK(Command("SET", "k"s, std::string_view("a\0\r\n", 4)).bytes() ==
        "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\0\r\n\r\n"s);
  CHECK(Command("SET", "", "").bytes() == "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$0\r\n\r\n");
  for (std::size_t size : {9, 10, 99, 100, 101, 999, 1000, 123456}) {
    std::string value(size, 'v');
    CHECK(Command("ECHO", value).bytes() ==
          "*2\r\n$4\r\nECHO\r\n$" + std::to_string(size) + "\r\n" + value + "\r\n");
  }
}

TEST_CASE("integers are sent in decimal, whatever their type") {
  CHECK(Command("X", 0, -1, 42u, std::int64_t(-5), std::uint16_t(65535)).bytes() ==
        "*6\r\n$1\r\nX\r\n$1\r\n0\r\n$2\r\n-1\r\n$2\r\n42\r\n$2\r\n-5\r\n$5\r\n65535\r\n");
  Command extremes("X", std::numeric_limits<std::int64_t>::min(),
                   std::numeric_limits<std::int64_t>::max(),
                   std::numeric_limits<std::uint64_t>::max());
  CHECK(extremes.word(1) == "-9223372036854775808");
  CHECK(extremes.word(2) == "9223372036854775807");
  CHECK(extremes.word(3) == "18446744073709551615");
  static_assert(!DecimalArgument<char> && !DecimalArgument<bool> && !DecimalArgument<double>);
}

TEST_CASE("words known at run time give the same command") {
  CHECK(command_of({"SET", "k", "v"}).bytes() == Command("SET", "k", "v").bytes());
  CHECK(command_of({"SET", "k", "v"}).size() == 3);
  std::vector<std::string> many(1234, "word");
  Command command(many);
  CHECK(command.size() == 1234);
  CHECK(command.bytes().starts_with("*1234\r\n$4\r\nword\r\n"));
  CHECK(command.word(1233) == "word");
  CHECK(command.word(1234) == "");
}

TEST_CASE("every word can be read back") {
  Command command("SET", "a\r\nb", "", 5);
  CHECK(command.size() == 4);
  CHECK(command.word(0) == "SET");
  CHECK(command.word(1) == "a\r\nb");
  CHECK(command.word(2) == "");
  CHECK(command.word(3) == "5");
  CHECK(command.word(4) == "");
  CHECK(command.word(-1) == "");
  CHECK(command_of({}).word(0) == "");
}

TEST_CASE("the key of a command is the one that a server would name") {
  Server server;
  for (auto example : examples) {
    CAPTURE(example);
    Command command(split(example));
    CHECK(our_key(command) == server.first_key(command));
  }
}

// Tries every command of the server with the arguments 1, 2, 3, …: counts of keys among them are
// then plausible, and the key reveals its position.
TEST_CASE("no command of the server is missing in what we know about keys") {
  Server server;
  std::vector<std::vector<std::string>> all;
  for (auto& info : server.ask(Command("COMMAND")).items) {
    if (info.items[9].items.empty()) all.push_back({info.items[0].text});
    for (auto& sub : info.items[9].items) {
      const std::string& both = sub.items[0].text;  // "config|get"
      std::size_t bar = both.find('|');
      all.push_back({both.substr(0, bar), both.substr(bar + 1)});
    }
  }
  REQUIRE(all.size() > 300);

  std::set<std::string> never_accepted;
  for (auto& words : all) {
    // The largest number of arguments that it accepts, up to eight.
    std::string ours, theirs;
    for (int arguments = 0; arguments <= 8; ++arguments) {
      if (arguments > 0) words.push_back(std::to_string(words.size()));
      Command command(words);
      std::string said = server.first_key(command);
      if (said.find(' ') != said.npos && said != none) continue;  // an error
      ours = our_key(command);
      theirs = said;
      if (words.size() > 1 && words[1] == "help")
        break;  // takes no arguments, but the server does not check
    }
    CAPTURE(words[0]);
    CAPTURE(words.back());
    if (theirs.empty()) never_accepted.insert(words[0]);
    // COMMAND GETKEYS does not count a shard channel as a key, but the channel has a slot.
    if (words[0] == "spublish" || words[0] == "sunsubscribe" || words[0] == "ssubscribe") {
      CHECK(theirs == none);
      theirs = "1";
    }
    CHECK(ours == theirs);
  }
  // Their syntax needs a keyword. Both are among the examples; add any new one there.
  CHECK(never_accepted == std::set<std::string>{"xread", "xreadgroup"});
}

TEST_CASE("the channel of sharded publishing decides the place") {
  CHECK(Command("SPUBLISH", "channel", "m").key() == "channel");
  CHECK(Command("SSUBSCRIBE", "channel").key() == "channel");
  CHECK(!Command("PUBLISH", "channel", "m").has_key());
}

TEST_CASE("a command that lacks its key has none, and an unknown one has it first") {
  for (auto text : {"",
                    "GET",
                    "EVAL",
                    "EVAL script",
                    "EVAL script 1",
                    "EVAL script x k",
                    "EVAL script -1 k",
                    "XREAD",
                    "XREAD COUNT 1",
                    "XREAD STREAMS",
                    "OBJECT",
                    "OBJECT HELP",
                    "BITOP AND",
                    "MIGRATE host 1",
                    "MIGRATE host 1 \"\" 0 1 COPY",
                    "ZUNION",
                    "DEBUG SLEEP 0",
                    "MEMORY",
                    "SENTINEL MASTER name",
                    "WAITAOF 1 1 0"}) {
    CAPTURE(text);
    CHECK(!Command(split(text)).has_key());
    CHECK(Command(split(text)).key() == "");
  }
  CHECK(Command("JSON.GET", "k", "$").key() == "k");
  CHECK(Command("NEW.COMMAND.WITH.A.LONG.NAME", "k").key() == "k");
  CHECK(Command("\xff", "k").key() == "k");
  CHECK(Command("", "k").key() == "k");
  CHECK(Command("GET", "").has_key());                  // an empty key is a key
  CHECK(Command("DEBUG", "object", "k").key() == "k");  // the server does not report this one
  CHECK(Command("MSETEX", 1, "k", "v").key() == "k");   // in Redis 8.4
}

TEST_CASE("the slot of a key is what CLUSTER KEYSLOT answers") {
  struct {
    std::string key;
    int slot;
  } vectors[] = {
      {"", 0},
      {"a", 15495},
      {"foo", 12182},
      {"bar", 5061},
      {"123456789", 12739},
      {"hello world", 15332},
      {std::string(100, 'a'), 5960},
      {"\0\xff\r\n\x80"s, 14257},
      // An empty or unclosed tag does not count as a tag.
      {"{}", 15257},
      {"{}a", 10875},
      {"a{}", 6082},
      {"foo{}", 5542},
      {"{}{bar}", 11272},
      {"foo{}{bar}", 8363},
      {"{bar", 4015},
      {"bar}", 6624},
      {"}bar{", 1498},
      {"foo{bar", 15278},
      // From the first { to the first } after it.
      {"{bar}", 5061},
      {"x{bar}y", 5061},
      {"}{bar}", 5061},
      {"foo{bar}}", 5061},
      {"foo{bar}{zap}", 5061},
      {"foo{{bar}}zap", 4015},
      {"{a}{b}", 15495},
      {"{{}}", 4092},
      {"{ }", 9314},
      {"{user1000}.following", 3443},
      {"{user1000}.followers", 3443},
      {"user1000", 3443},
      {"warren:{foghorn}:log", 15924},
      {"\u00fcnicode{\u00e4}", 13929},
  };
  for (auto& [key, slot] : vectors) {
    CAPTURE(key);
    CHECK(slot_of(key) == slot);
  }
}

TEST_CASE("a description has the name and the key, never a value") {
  CHECK(describe(Command("SET", "user:1", "secret")) == R"(SET "user:1")");
  CHECK(describe(Command("PING")) == "PING");
  CHECK(describe(Command("AUTH", "alice", "secret")) == "AUTH");
  CHECK(describe(Command("HELLO", 3, "AUTH", "alice", "secret")) == "HELLO");
  CHECK(describe(Command("CONFIG", "SET", "requirepass", "secret")) == "CONFIG");
  CHECK(describe(Command("ACL", "SETUSER", "alice", ">secret")) == "ACL");
  CHECK(describe(Command("EVAL", "return 1", 1, "k\n", "secret")) == R"(EVAL "k\n")");
  CHECK(describe(Command("MIGRATE", "h", 1, "", 0, 1, "AUTH", "secret", "KEYS", "k")) ==
        R"(MIGRATE "k")");
}

TEST_CASE("commands that change or block their connection are known by their names") {
  for (const char* name : {"SUBSCRIBE", "psubscribe", "MULTI", "exec", "WATCH", "SELECT", "blpop",
                           "BRPOPLPUSH", "WAIT", "HELLO", "AUTH", "MONITOR", "READONLY"}) {
    CAPTURE(name);
    CHECK(Command(name, "a", "b").needs_own_connection());
  }
  CHECK(Command("XREAD", "BLOCK", 0, "STREAMS", "s", "$").needs_own_connection());
  CHECK(Command("CLIENT", "REPLY", "OFF").needs_own_connection());
  for (const char* name : {"GET", "SET", "EVALSHA", "PUBLISH", "EVAL", "LPOP", "MGET", "CLIENT"}) {
    CAPTURE(name);
    CHECK(!Command(name, "a", "b").needs_own_connection());
  }
  CHECK(!Command("XREAD", "STREAMS", "block", "$").needs_own_connection());
  std::vector<Command> inside;
  inside.emplace_back("INCR", "a");
  CHECK(!Command::transaction(inside).needs_own_connection());
  CHECK(Command::transaction(inside).answers() == 3);
}
