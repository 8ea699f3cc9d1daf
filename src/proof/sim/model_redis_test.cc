// Compares the model with a real redis-server: the same commands, chosen at random from a seed,
// must give the same replies.
#include "proof/sim/model_redis.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "proof/sim/random.h"
#include "proof/testkit/run.h"
#include "proof/testkit/servers/redis_server.h"
#include "redis/connection/conversation.h"

using namespace warren;
using namespace warren::sim;
using redis::Reply;

namespace {

std::int64_t wall_now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(WallClock::now().time_since_epoch())
      .count();
}

// A real server and a connection to it.
class RealRedis {
 public:
  RealRedis() {
    redis::Settings settings;
    settings.addresses = {{"127.0.0.1", server_.port(), ""}};
    auto dialer = redis::Dialer::create(settings);
    REQUIRE(dialer);
    wait(connect(*this, *dialer, settings.addresses[0]));
  }

  std::vector<Reply> run_all(const std::vector<Words>& commands) {
    std::vector<redis::Command> questions;
    for (const auto& words : commands) questions.emplace_back(std::span<const std::string>(words));
    std::vector<Reply> replies;
    wait(exchange(*this, std::move(questions), replies));
    return replies;
  }
  Reply run(const Words& words) { return run_all({words})[0]; }

 private:
  void wait(awaitable<void> work) {
    std::exception_ptr thrown;
    bool is_over = false;
    asio::co_spawn(io_, std::move(work), [&](std::exception_ptr problem) {
      thrown = problem;
      is_over = true;
    });
    io_.restart();
    while (!is_over) io_.run_one();
    if (thrown) std::rethrow_exception(thrown);
  }
  static awaitable<void> connect(RealRedis& self, redis::Dialer& dialer, redis::Address address) {
    auto dialled = co_await dialer.dial(std::move(address), Clock::now() + 30s);
    REQUIRE(dialled);
    self.conversation_ = *std::move(dialled);
  }
  static awaitable<void> exchange(RealRedis& self, std::vector<redis::Command> questions,
                                  std::vector<Reply>& replies) {
    auto answers = co_await self.conversation_->exchange(std::move(questions), Clock::now() + 30s);
    REQUIRE(answers);
    replies = *std::move(answers);
  }

  RedisServer server_;
  asio::io_context io_;
  std::unique_ptr<redis::Conversation> conversation_;
};

// Sorts what Redis leaves open into one order, and removes what the model leaves out.
Reply comparable(Reply reply) {
  if (reply.kind == Reply::Kind::set) std::ranges::sort(reply.items, {}, &Reply::text);
  if (reply.find("radix-tree-keys")) {
    std::vector<Reply> items;
    for (std::size_t i = 0; i < reply.items.size(); i += 2) {
      if (reply.items[i].text.starts_with("radix-tree-")) continue;
      items.push_back(reply.items[i]);
      items.push_back(reply.items[i + 1]);
    }
    reply.items = std::move(items);
  }
  return reply;
}

std::string shown(const Words& words) {
  std::string line;
  for (const auto& word : words) line += (line.empty() ? "" : " ") + redis::quoted(word);
  return line;
}

// Makes commands from patterns such as "SET $s $v PX $t".
class Commands {
 public:
  Commands(std::uint64_t seed, std::vector<std::string_view> patterns)
      : random_(seed), patterns_(std::move(patterns)) {}

  Words next() {
    std::string_view pattern = patterns_[random_.below(patterns_.size())];
    Words words;
    while (!pattern.empty()) {
      auto end = std::min(pattern.find(' '), pattern.size());
      words.push_back(filled(pattern.substr(0, end)));
      pattern.remove_prefix(std::min(end + 1, pattern.size()));
    }
    if (words.size() > 1 && random_.chance(0.01)) words.pop_back();
    if (random_.chance(0.01)) words.push_back(one_of({"NX", "XX", "5", "GT", "LT", "COUNT", "x"}));
    if (random_.chance(0.02)) std::ranges::transform(words[0], words[0].begin(), ::tolower);
    return words;
  }
  Random& random() { return random_; }

 private:
  std::string one_of(std::initializer_list<const char*> choices) {
    return choices.begin()[random_.below(choices.size())];
  }
  std::string key(const char* type) {
    if (random_.chance(0.04)) type = std::data({"s", "h", "l", "S", "z", "x"})[random_.below(6)];
    return std::string(type) + std::to_string(random_.below(3));
  }
  std::string filled(std::string_view word) {
    if (!word.starts_with('$') || word.size() == 1) return std::string(word);
    switch (word[1]) {
      case 'k':
        return key(std::data({"s", "h", "l", "S", "z", "x"})[random_.below(6)]);
      case 's':
        return key("s");
      case 'h':
        return key("h");
      case 'l':
        return key("l");
      case 'S':
        return key("S");
      case 'z':
        return key("z");
      case 'x':
        return key("x");
      case 'v':
        return random_.chance(0.1)
                   ? one_of({"", "a\r\nb", "9223372036854775807", "-9223372036854775808", "007",
                             "-0", " 1", "3.0", "a long value, longer than what is kept in place"})
                   : one_of({"a", "b", "c", "1", "2", "10", "-5", "value"});
      case 'f':
        return one_of({"one", "two", "three", "four", "5", ""});
      case 'n':  // a small number, or something that is not one
        return random_.chance(0.03) ? one_of({"x", "", "1.5", "99999999999999999999"})
                                    : std::to_string(static_cast<int>(random_.below(9)) - 3);
      case 'r':  // a score
        return random_.chance(0.05) ? one_of({"nan", "x", "", "1e400", "0x10", "-inf", "inf", " 1"})
                                    : one_of({"0", "1", "2", "2.5", "-3", "0.1", "1e20", "3"});
      case 'R':  // the end of a range of scores
        return random_.chance(0.05) ? one_of({"x", "(", "nan"})
                                    : one_of({"-inf", "+inf", "(1", "(2.5", "0", "2", "3", "1"});
      case 'd':  // an id of a stream
        return random_.chance(0.05)
                   ? one_of({"x", "1-x", "0-0", "5", "-1", "1-2-3", "0-*", ""})
                   : std::to_string(1 + random_.below(9)) + "-" + std::to_string(random_.below(6));
      case 'D':  // an id that grows from time to time
        if (random_.chance(0.02)) ++epoch_;
        return std::to_string(epoch_) + "-*";
      case 'E':  // the end of a range of ids
        return one_of({"-", "+", "3", "(2-1", "4-2", "(5", "2-0", "0", "18446744073709551615",
                       "(18446744073709551615-18446744073709551615", "(0-0", "y"});
      case 't':  // a time that never comes in a test
        return one_of({"1000000", "2000000", "3000000", "2000000"});
      case 'T':  // the same on the wall clock
        return one_of({"4000000000000", "4100000000000", "4200000000000", "5", "-1", "0"});
      case 'W':  // never the past: a server notices an expired key whenever it likes
        return one_of({"4000000000000", "4100000000000", "4200000000000", "-1", "0", "x"});
      case 'U':
        return one_of({"4000000000", "4100000000", "4200000000", "5", "9223372036854775807"});
      case 'o':  // options of EXPIRE
        return one_of({"NX", "XX", "GT", "LT"});
      case 'p':
        return one_of({"*", "one", "t*", "?n*", "[a-o]*", "[^t]*", "\\*", "*e*r*", "[", "x[a-"});
      default:
        return std::string(word);
    }
  }

  Random random_;
  std::vector<std::string_view> patterns_;
  int epoch_ = 1;
};

const std::vector<std::string_view> data_patterns = {
    "GET $s",
    "GET $k",
    "SET $s $v",
    "SET $s $v NX",
    "SET $s $v XX",
    "SET $s $v GET",
    "SET $s $v NX GET",
    "SET $s $v XX GET",
    "SET $s $v KEEPTTL",
    "SET $s $v PXAT $W",
    "SET $s $v EXAT $W",
    "SET $s $v KEEPTTL PXAT $W",
    "SET $s $v NX XX",
    "SET $s $v PX",
    "SET $s $v NX PXAT $W GET",
    "SET $s $v EX $n $n",
    "SET $k $v GET",
    "DEL $k",
    "DEL $k $k",
    "UNLINK $k",
    "EXISTS $k $k $k",
    "TYPE $k",
    "PEXPIREAT $k $T",
    "PEXPIREAT $k $T $o",
    "EXPIREAT $k $U",
    "EXPIREAT $k $U $o",
    "PEXPIREAT $k $T $o $o",
    "PEXPIREAT $k x",
    "PERSIST $k",
    "PEXPIRETIME $k",
    "INCR $s",
    "INCRBY $s $v",
    "INCRBY $s $n",
    "MGET $s $k $s",
    "MSET $s $v $s $v",
    "GETDEL $s",
    "STRLEN $s",
    "APPEND $s $v",
    "HSET $h $f $v",
    "HSET $h $f $v $f $v",
    "HGET $h $f",
    "HMGET $h $f $f $f",
    "HDEL $h $f",
    "HDEL $h $f $f",
    "HGETALL $h",
    "HKEYS $h",
    "HINCRBY $h $f $n",
    "HINCRBY $h $f $v",
    "HEXISTS $h $f",
    "HLEN $h",
    "HSCAN $h 0",
    "HSCAN $h 0 MATCH $p",
    "HSCAN $h 0 COUNT $n",
    "HSCAN $h x",
    "HSCAN $h 7 MATCH $p COUNT 2",
    "LPUSH $l $v",
    "LPUSH $l $v $v",
    "RPUSH $l $v",
    "RPUSH $l $v $v $v",
    "LPOP $l",
    "LPOP $l $n",
    "RPOP $l",
    "RPOP $l $n",
    "LLEN $l",
    "LRANGE $l $n $n",
    "LRANGE $l 0 -1",
    "LREM $l $n $v",
    "LPOS $l $v",
    "LPOS $l $v RANK $n",
    "LPOS $l $v COUNT $n",
    "LPOS $l $v RANK $n COUNT $n MAXLEN $n",
    "LPOS $l $v FOO 1",
    "LSET $l $n $v",
    "LSET $l x $v",
    "LINDEX $l $n",
    "LTRIM $l $n $n",
    "LTRIM $l 0 5",
    "SADD $S $v",
    "SADD $S $v $f $f",
    "SREM $S $v $f",
    "SMEMBERS $S",
    "SISMEMBER $S $v",
    "SCARD $S",
    "ZADD $z $r $f",
    "ZADD $z $r $f $r $v",
    "ZADD $z NX $r $f",
    "ZADD $z XX $r $f",
    "ZADD $z GT $r $f",
    "ZADD $z LT CH $r $f $r $f",
    "ZADD $z INCR $r $f",
    "ZADD $z XX INCR $r $f",
    "ZADD $z NX XX $r $f",
    "ZADD $z NX GT $r $f",
    "ZADD $z INCR $r $f $r $f",
    "ZREM $z $f $f",
    "ZSCORE $z $f",
    "ZRANGE $z $n $n",
    "ZRANGE $z 0 -1 WITHSCORES",
    "ZRANGE $z $n $n REV",
    "ZRANGE $z $R $R BYSCORE",
    "ZRANGE $z $R $R BYSCORE REV LIMIT $n $n WITHSCORES",
    "ZRANGE $z 0 -1 LIMIT 0 2",
    "ZRANGEBYSCORE $z $R $R",
    "ZRANGEBYSCORE $z $R $R WITHSCORES LIMIT $n $n",
    "ZRANGEBYSCORE $z -inf +inf WITHSCORES",
    "ZREMRANGEBYSCORE $z $R $R",
    "ZCARD $z",
    "ZCOUNT $z $R $R",
    "XADD $x $d a $v",
    "XADD $x $D a $v",
    "XADD $x $D a $v b $v",
    "XADD $x NOMKSTREAM $D a $v",
    "XADD $x MAXLEN $n $D a $v",
    "XADD $x MAXLEN = 3 $D a $v",
    "XADD $x MAXLEN ~ 5 $D a $v",
    "XADD $x $D a",
    "XADD $x MAXLEN = 3 LIMIT 5 $D a $v",
    "XADD $x MAXLEN ~ 2 LIMIT $n $D a $v",
    "XRANGE $x - +",
    "XRANGE $x $E $E",
    "XRANGE $x $d $d",
    "XRANGE $x - + COUNT $n",
    "XREVRANGE $x + -",
    "XREVRANGE $x $E $E COUNT $n",
    "XREVRANGE $x $d $d",
    "XREAD STREAMS $x $d",
    "XREAD COUNT $n STREAMS $x $x $d $d",
    "XREAD COUNT 2 STREAMS $x 0",
    "XREAD STREAMS $x $",
    "XREAD STREAMS $x $x $d",
    "XLEN $x",
    "XTRIM $x MAXLEN $n",
    "XTRIM $x MAXLEN ~ $n",
    "XTRIM $x FOO 1",
    "XDEL $x $d $d",
    "XINFO STREAM $x",
    "XINFO STREAM $k",
    "DBSIZE",
    "PING",
    "PING $v",
    "FOO $v $v",
    "PUBLISH c $v",
    "SPUBLISH c $v",
};

const std::vector<std::string_view> time_patterns = {
    "SET $s $v PX $t",
    "SET $s $v EX $t",
    "SET $s $v EX $n",
    "SET $s $v PX -1",
    "SET $s $v KEEPTTL",
    "SET $s $v PXAT $T",
    "SET $s $v EX 9223372036854775",
    "SET $s $v PX 9223372036854775807",
    "PEXPIRE $s $t",
    "PEXPIRE $s $t $o",
    "EXPIRE $s $t",
    "EXPIRE $s $t $o",
    "EXPIRE $s 0",
    "PEXPIRE $s -5",
    "EXPIRE $s 9223372036854775",
    "PEXPIRE $s 9223372036854775807",
    "PEXPIREAT $s $T $o",
    "PERSIST $s",
    "PTTL $s",
    "TTL $s",
    "PEXPIRETIME $s",
    "GET $s",
    "EXISTS $s",
    "DEL $s",
    "XADD $x * a b",
    "XADD $x MAXLEN ~ 150 * a b",
    "XLEN $x",
    "INCR $s",
};

// Runs the command in the arguments, and returns the server's time before and after, in ms.
constexpr const char* timed = R"(
local function now()
  redis.call('SET', KEYS[1], '', 'PX', 1000000)
  return redis.call('PEXPIRETIME', KEYS[1]) - 1000000
end
local before = now()
return {before, redis.pcall(unpack(ARGV)), now()}
)";

const std::vector<const char*> scripts = {
    "return redis.call(unpack(ARGV))",
    "return redis.pcall(unpack(ARGV))",
    "return {redis.call(unpack(ARGV)), 1.9, -1.9, 'x', false, true, {}, 3, nil, 4}",
    "local r = redis.pcall(unpack(ARGV)) return {type(r), tostring(r == false)}",
    "local ok, e = pcall(redis.call, unpack(ARGV)) return {tostring(ok), e}",
    "local r = redis.pcall(unpack(ARGV)) return type(r) == 'table' and r.err or 1",
    "local r = redis.pcall(unpack(ARGV)) return type(r) == 'table' and r.ok or r",
    "redis.call('SET', KEYS[1], 'before')\nlocal r = redis.call(unpack(ARGV))\nreturn 'after'",
    "local k = KEYS[1] redis.call('SET', k, 3.5) redis.call('APPEND', k, 2^53)",
    "return redis.call('APPEND', KEYS[1], 2^60)",
    "redis.call('SET', KEYS[1], 12) return redis.call('INCRBY', KEYS[1], 30)",
    "return {redis.call('SET', KEYS[1], 0.1), redis.call('APPEND', KEYS[1], -0.0)}",
    "return redis.call('GET', KEYS[1])",
    "return {KEYS, ARGV, #KEYS, #ARGV}",
    "return {ok='fine', 1, 2}",
    "return {err='MINE went wrong'}",
    "return {err='short'}",
    "return {1, {2, {3, {ok='deep'}, {err='DEEP down'}}}, 'a', {}}",
    "return redis.error_reply('MINE said no')",
    "return redis.error_reply('short')",
    "return redis.error_reply('-MINE dash')",
    "return redis.error_reply(1, 2)",
    "return redis.status_reply('fine')",
    "return redis.sha1hex(ARGV[1])",
    "error('boom')",
    "error({err='MINE boom'})",
    "local function f() error('inside') end\n\nf()",
    "return pcall(error, 'caught')",
    "local ok, e = pcall(function() local x = nil; return x.y end) return e",
    "return redis.call()",
    "return redis.pcall()",
    "return redis.call('GET', {})",
    "return redis.call('GET', true)",
    "return redis.call('NOSUCH', 'x')",
    "return redis.pcall('NOSUCH', 'x')",
    "return redis.call('GET')",
    "return redis.pcall('GET')",
    "return redis.pcall('GET').err",
    "return redis.call('EVAL', 'return 1', 0)",
    "return redis.pcall('get', KEYS[1])",
    "x = 1",
    "return y",
    "local t = {} ; t.x = y.z ; return t",
    "return tostring(nil) .. tostring(1) .. tostring(2.5)",
    "return tonumber('12') + 1",
    "return {tostring(tonumber(ARGV[1])), tostring(tonumber(ARGV[3]))}",
    "return {tostring(tonumber('ff', 16)), tostring(tonumber(' 7 ')), tostring(tonumber({}))}",
    "return string.format('%.0f', tonumber('999999999999999999'))",
    "return string.format('%.0f', tonumber('12345678901234567890'))",
    "return string.format('%.0f %.0f', tonumber('9007199254740993'), tonumber('-12'))",
    "return tonumber()",
    "return math.floor(7 / 2)",
    "return string.format('%d-%s', 7, ARGV[1])",
    "return table.concat({'a', 'b', ARGV[1]}, ',')",
    "return 3.999",
    "return -3.999",
    "return '3.999'",
    "return 2^53",
    "return nil",
    "return",
    "return false",
    "return true",
    "return {true, false}",
    "return function() end",
    "local = syntax",
    "return #redis.call('SMEMBERS', KEYS[1])",
    "local all = redis.call('HGETALL', KEYS[1]) return {#all, all}",
    "return unpack({1, 2, 3})",
    "for i = 1, 3 do redis.call('RPUSH', 'l0', i, ARGV[1]) end",
    "return redis.call('LRANGE', 'l0', 0, -1)",
    "return select('#', redis.call('TIME'))",
    "return loadstring('return 5')()",
    "return next({}) == nil",
    "assert(false, 'asserted')",
    "assert(redis.call('EXISTS', KEYS[1]) == 1)",
};

Words eval(std::string script, Words keys, Words args) {
  Words words{"EVAL", std::move(script), std::to_string(keys.size())};
  words.insert(words.end(), keys.begin(), keys.end());
  words.insert(words.end(), args.begin(), args.end());
  return words;
}

// Only for replies without times.
void expect_same(RealRedis& real, ModelRedis& model, const std::vector<Words>& commands,
                 std::uint64_t seed) {
  auto replies = real.run_all(commands);
  for (std::size_t i = 0; i < commands.size(); ++i) {
    auto expected = comparable(replies[i]);
    auto given = comparable(model.run(commands[i], wall_now_us()));
    INFO("seed ", seed, ", command ", i, ": ", shown(commands[i]));
    REQUIRE(redis::to_string(given) == redis::to_string(expected));
    REQUIRE((given == expected));
  }
}

constexpr int sequences = 12, sequence_length = 1500;

}  // namespace

TEST_CASE("the model answers every command as a real server does") {
  RealRedis real;
  for (std::uint64_t seed = 1; seed <= sequences; ++seed) {
    ModelRedis model;
    real.run({"FLUSHALL"});
    Commands commands(seed, data_patterns);
    std::vector<Words> sequence;
    for (int i = 0; i < sequence_length; ++i) {
      sequence.push_back(commands.random().chance(0.001) ? Words{"FLUSHALL"} : commands.next());
    }
    expect_same(real, model, sequence, seed);
  }
}

TEST_CASE("scripts see, convert and raise in the model what they do in a real server") {
  RealRedis real;
  for (std::uint64_t seed = 1; seed <= sequences; ++seed) {
    ModelRedis model;
    real.run({"FLUSHALL"});
    auto patterns = data_patterns;
    // Members of a set have no order of their own.
    std::erase_if(patterns, [](auto pattern) {
      return pattern.starts_with("SMEMBERS") || pattern.starts_with("XINFO");
    });
    Commands commands(seed, patterns);
    std::vector<Words> sequence;
    for (int i = 0; i < sequence_length; ++i) {
      auto call = commands.next();
      auto random_script = scripts[commands.random().below(scripts.size())];
      auto script =
          commands.random().chance(0.5) ? scripts[commands.random().below(8)] : random_script;
      sequence.push_back(commands.random().chance(0.2) ? call : eval(script, {"s0"}, call));
    }
    expect_same(real, model, sequence, seed);
  }
}

TEST_CASE("times to live, and ids made from the time, are exact to the millisecond") {
  RealRedis real;
  int compared = 0;
  for (std::uint64_t seed = 1; seed <= sequences; ++seed) {
    ModelRedis model;
    real.run({"FLUSHALL"});
    Commands commands(seed, time_patterns);
    for (int i = 0; i < sequence_length; ++i) {
      auto command = eval(timed, {"clock"}, commands.next());
      auto expected = real.run(command);
      REQUIRE(expected.items.size() == 3);
      if (expected.items[0] != expected.items[2]) {  // the clock ticked: when did it run?
        model = {};
        real.run({"FLUSHALL"});
        continue;
      }
      auto given = model.run(command, expected.items[0].number * 1000);
      INFO("seed ", seed, ", command ", i, ": ", shown(command));
      REQUIRE(redis::to_string(given) == redis::to_string(expected));
      ++compared;
    }
  }
  CHECK(compared > sequences * sequence_length / 2);
}

TEST_CASE("a server that refuses lets through what a real one does") {
  auto script = [](const char* source) { return Words{"EVAL", source, "1", "k"}; };
  const std::vector<Words> commands{
      {"SET", "k", "v"},
      {"GET", "k"},
      {"PEXPIRE", "k", "100000"},
      script("return redis.call('GET', KEYS[1])"),
      script("redis.call('SET', KEYS[1], 'w') return 1"),
      script("redis.call('DEL', KEYS[1]) return redis.call('SET', KEYS[1], 'x')"),
      script("redis.call('DEL', 'nothing') return redis.pcall('SET', KEYS[1], 'y')"),
      {"GET", "k"},
      {"DEL", "k"},
      {"RPUSH", "k", "v"},
      {"LREM", "k", "0", "v"}};
  struct Case {
    Refuses refuses;
    Words begin;
  };
  for (auto& [refuses, begin] :
       {Case{Refuses::growth, {"CONFIG", "SET", "maxmemory", "1"}},
        Case{Refuses::writes_of_replica, {"REPLICAOF", "127.0.0.1", "1"}}}) {
    RealRedis real;
    ModelRedis model;
    real.run({"SET", "k", "before"});
    model.run({"SET", "k", "before"}, 0);
    real.run(begin);
    for (auto& command : commands) {
      INFO(fmt::format("{}", fmt::join(command, " ")));
      auto expected = real.run(command);
      auto answer = model.run(std::make_shared<const Words>(command), wall_now_us(), refuses);
      CHECK(answer.is_error() == expected.is_error());
      // Each says in its own way where in the script it was.
      auto words = [](const Reply& reply) { return reply.text.substr(0, reply.text.find(". ")); };
      CHECK(words(answer) == words(expected));
    }
  }
}

TEST_CASE("members of one score are found by their names as in a real server") {
  RealRedis real;
  ModelRedis model;
  std::vector<Words> commands;
  for (auto name : {"a", "ab", "b 1", "b 2", "b!", "c"})
    commands.push_back({"ZADD", "z", "0", name});
  const std::vector<std::string> bounds{"-", "+", "[b ", "(b!", "[ab", "(ab", "[x", "b", ""};
  for (const auto& least : bounds) {
    for (const auto& most : bounds) {
      commands.push_back({"ZRANGEBYLEX", "z", least, most});
      commands.push_back({"ZRANGEBYLEX", "z", least, most, "LIMIT", "1", "2"});
      commands.push_back({"ZRANGEBYLEX", "none", least, most, "LIMIT", "0", "0"});
    }
  }
  commands.push_back({"ZRANGEBYLEX", "z", "-", "+", "LIMIT", "0", "-1"});
  expect_same(real, model, commands, 0);
}

TEST_CASE("a long stream is trimmed roughly where a real server trims it") {
  RealRedis real;
  ModelRedis model;
  std::vector<Words> commands;
  Random random(7);
  for (int i = 0; i < 1500; ++i) {
    switch (random.below(12)) {
      case 0:
        commands.push_back({"XTRIM", "x", "MAXLEN", "~", std::to_string(random.below(400))});
        break;
      case 1:
        commands.push_back({"XTRIM", "x", "MAXLEN", std::to_string(200 + random.below(200))});
        break;
      case 2:
        commands.push_back({"XDEL", "x", "1-" + std::to_string(i - random.below(200))});
        break;
      default:
        commands.push_back({"XADD", "x", "MAXLEN", "~", "250", "1-*", "f", std::to_string(i)});
    }
    commands.push_back({"XLEN", "x"});
  }
  commands.push_back({"XRANGE", "x", "-", "+"});
  expect_same(real, model, commands, 7);
}

TEST_CASE("a scan meets, in portions, every key that is there all the time") {
  RealRedis real;
  ModelRedis model;
  Words hash{"HSET", "big"};
  for (int i = 0; i < 200; ++i) {
    Words set{"SET", "key:" + std::to_string(i), "v"};
    real.run(set);
    model.run(set, wall_now_us());
    hash.insert(hash.end(), {"field:" + std::to_string(i), std::to_string(i)});
  }
  real.run(hash);
  model.run(hash, wall_now_us());
  model.run({"SET", "gone", "v", "PXAT", "1000"}, wall_now_us());

  auto scanned = [](auto run, Words words, std::size_t cursor_at, int& portions) {
    std::multiset<std::string> seen;
    do {
      Reply reply = run(words);
      REQUIRE(reply.items.size() == 2);
      for (const auto& item : reply.items[1].items) seen.insert(item.text);
      words[cursor_at] = reply.items[0].text;
      ++portions;
    } while (words[cursor_at] != "0");
    return seen;
  };
  int portions = 0, unused = 0;
  auto in_model = [&](const Words& words) {
    // Keys that come and go meanwhile hide nothing.
    model.run({portions % 2 ? "DEL" : "INCR", "passing/" + std::to_string(portions / 2)}, 0);
    return model.run(words, wall_now_us());
  };
  auto in_real = [&](const Words& words) { return real.run(words); };
  for (const char* pattern : {"key:*", "key:1?", "*:[1-3]9", "nothing"}) {
    Words scan{"SCAN", "0", "MATCH", pattern, "COUNT", "7"};
    CHECK(scanned(in_model, scan, 1, portions) == scanned(in_real, scan, 1, unused));
  }
  CHECK(portions > 4 * 20);
  portions = 0;
  Words hscan{"HSCAN", "big", "0", "COUNT", "20"};
  CHECK(scanned(in_model, hscan, 2, portions) == scanned(in_real, hscan, 2, unused));
  CHECK(portions == 10);
}

TEST_CASE("a key is there until its time has passed, and then it is not") {
  RealRedis real;
  ModelRedis model;
  real.run({"SET", "k", "v", "PX", "30"});
  wait_for(10s, "the key has expired", [&] { return real.run({"EXISTS", "k"}).number == 0; });
  for (const char* command : {"GET", "PTTL", "TYPE", "PERSIST", "DEL"}) {
    model.run({"SET", "k", "v", "PX", "30"}, 1'000'000);
    CHECK(model.run({"PTTL", "k"}, 1'030'999).number == 0);
    CHECK(model.run({"EXISTS", "k"}, 1'030'999).number == 1);
    Words words{command, "k"};
    CHECK(redis::to_string(model.run(words, 1'031'000)) == redis::to_string(real.run(words)));
  }
  // A key that was found to have expired does not come back when the clock steps back.
  CHECK(model.run({"EXISTS", "k"}, 1'000'000).number == 0);
}

TEST_CASE("a script sees one instant, whatever it does") {
  ModelRedis model;
  auto reply = model.run(eval("return redis.call('TIME')", {}, {}), 1'700'000'000'123'456);
  REQUIRE(reply.items.size() == 2);
  CHECK(reply.items[0].text == "1700000000");
  CHECK(reply.items[1].text == "123456");
}

TEST_CASE("what is published is told once, in order, also by scripts") {
  ModelRedis model;
  model.run({"PUBLISH", "a", "1"}, 0);
  model.run(
      eval("redis.call('SPUBLISH', KEYS[1], ARGV[1]) redis.call('PUBLISH', 'c', 3)", {"b"}, {"2"}),
      0);
  auto messages = model.take_messages();
  REQUIRE(messages.size() == 3);
  CHECK(messages[0].channel == "a");
  CHECK(messages[0].payload == "1");
  CHECK(!messages[0].is_sharded);
  CHECK(messages[1].channel == "b");
  CHECK(messages[1].is_sharded);
  CHECK(messages[2].payload == "3");
  CHECK(model.take_messages().empty());
}

TEST_CASE("a replica that has the changes answers as its primary does") {
  for (std::uint64_t seed = 1; seed <= sequences; ++seed) {
    ModelRedis primary, replica;
    Commands commands(seed, data_patterns), reads(seed, data_patterns);
    std::int64_t now_us = 1'000'000;
    for (int i = 0; i < sequence_length; ++i) {
      now_us += static_cast<std::int64_t>(commands.random().below(3000));
      if (commands.random().chance(0.01)) now_us -= 1'000'000;  // clocks do that
      auto words = commands.next();
      bool is_timed = commands.random().chance(0.2);
      if (is_timed) words = {"PEXPIRE", words.size() > 1 ? words[1] : "s0", "5"};
      primary.run(commands.random().chance(0.3)
                      ? eval("return redis.pcall(unpack(ARGV))", {}, words)
                      : words,
                  now_us);
    }
    for (const auto& change : primary.changes()) replica.replay(change);
    CHECK(replica.take_messages().empty());
    CHECK(replica.changes().size() == primary.changes().size());
    for (int i = 0; i < sequence_length; ++i) {
      auto words = reads.next();
      INFO("seed ", seed, ", command ", i, ": ", shown(words));
      REQUIRE(redis::to_string(replica.run(words, now_us)) ==
              redis::to_string(primary.run(words, now_us)));
    }
  }
}

TEST_CASE("only what changes the data is a change, and an expiry that was noticed is one") {
  ModelRedis model;
  model.run({"GET", "k"}, 0);
  model.run({"DEL", "k"}, 0);
  model.run({"SET", "k", "v", "XX"}, 0);
  model.run({"PUBLISH", "c", "m"}, 0);
  CHECK(model.changes().empty());
  model.run({"SET", "k", "v", "PX", "10"}, 0);
  model.run(eval("redis.call('INCR', 'n') redis.call('INCR', 'n')", {}, {}), 5000);
  REQUIRE(model.changes().size() == 2);
  CHECK(model.changes()[1].now_us == 5000);
  model.run({"GET", "k"}, 60000);
  REQUIRE(model.changes().size() == 3);
  CHECK(*model.changes()[2].words == Words{"DEL", "k"});
}

TEST_CASE("a command for the wire and the words of the model say the same") {
  CHECK(words_of(redis::Command("SET", "key", "a\r\nb", "PX", 5)) ==
        Words{"SET", "key", "a\r\nb", "PX", "5"});
}

TEST_CASE("a script is called by its hash, once somebody has named it") {
  RealRedis real;
  ModelRedis model;
  redis::Script script("sum", "return redis.call('INCRBY', KEYS[1], ARGV[1])");
  Words unknown{"EVALSHA", "0000000000000000000000000000000000000000", "0"};
  CHECK(redis::to_string(model.run(unknown, 0)) == redis::to_string(real.run(unknown)));
  CHECK(model.run(words_of(script, {"n"}, {"5"}), 0).number == 5);
  CHECK(ModelRedis().run(words_of(script, {"n"}, {"6"}), 0).number == 6);
  ModelRedis replica;
  for (const auto& change : model.changes()) replica.replay(change);
  CHECK(replica.run({"GET", "n"}, 0).text == "5");
}
