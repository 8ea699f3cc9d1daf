// The cost of one reply and of one command, ours and hiredis', in the same run.
#include <benchmark/benchmark.h>
#include <hiredis/hiredis.h>

#include <algorithm>
#include <string>

#include "redis/resp/command.h"
#include "redis/resp/parser.h"

namespace warren::redis {
namespace {

constexpr int replies_per_read = 256;

const std::string bulk16 = "$16\r\n0123456789abcdef\r\n";
const std::string status = "+OK\r\n";
const std::string integer = ":1\r\n";
const std::string array10 = [] {
  std::string text = "*10\r\n";
  for (int i = 0; i < 10; ++i) text += bulk16;
  return text;
}();

// As much as one read on a busy connection returns.
std::string many(const std::string& reply) {
  std::string text;
  for (int i = 0; i < replies_per_read; ++i) text += reply;
  return text;
}

void report(benchmark::State& state) {
  state.counters["per_reply"] =
      benchmark::Counter(double(state.iterations()) * replies_per_read,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void ours(benchmark::State& state, const std::string& reply) {
  std::string bytes = many(reply);
  Parser parser;
  for (auto _ : state) {
    std::string_view rest = bytes;
    while (!rest.empty()) {
      Reply taken;
      auto progress = parser.parse(rest, taken);
      rest.remove_prefix(progress.consumed);
      if (progress.status != Parser::Status::complete) return state.SkipWithError("not complete");
      benchmark::DoNotOptimize(taken);
    }
  }
  report(state);
}

void hiredis(benchmark::State& state, const std::string& reply) {
  std::string bytes = many(reply);
  redisReader* reader = redisReaderCreate();
  for (auto _ : state) {
    // In pieces of at most 16 KiB: hiredis moves the rest down after each KiB that it has consumed.
    for (std::size_t at = 0; at < bytes.size(); at += 16384) {
      redisReaderFeed(reader, bytes.data() + at, std::min<std::size_t>(16384, bytes.size() - at));
      for (void* taken = nullptr;
           redisReaderGetReply(reader, &taken) == REDIS_OK && taken != nullptr;) {
        benchmark::DoNotOptimize(taken);
        freeReplyObject(taken);
      }
    }
  }
  redisReaderFree(reader);
  report(state);
}

BENCHMARK_CAPTURE(ours, bulk16, bulk16);
BENCHMARK_CAPTURE(hiredis, bulk16, bulk16);
BENCHMARK_CAPTURE(ours, status, status);
BENCHMARK_CAPTURE(hiredis, status, status);
BENCHMARK_CAPTURE(ours, integer, integer);
BENCHMARK_CAPTURE(hiredis, integer, integer);
BENCHMARK_CAPTURE(ours, array10, array10);
BENCHMARK_CAPTURE(hiredis, array10, array10);

void command_get(benchmark::State& state) {
  std::string key = "0123456789abcdef";
  for (auto _ : state) {
    benchmark::DoNotOptimize(key);
    Command command("GET", key);
    benchmark::DoNotOptimize(command);
  }
}
BENCHMARK(command_get);

void command_set(benchmark::State& state) {
  std::string key = "0123456789abcdef", value = key;
  for (auto _ : state) {
    benchmark::DoNotOptimize(key);
    benchmark::DoNotOptimize(value);
    Command command("SET", key, value);
    benchmark::DoNotOptimize(command);
  }
}
BENCHMARK(command_set);

void command_set_px(benchmark::State& state) {
  std::string key = "0123456789abcdef", value = key;
  for (auto _ : state) {
    benchmark::DoNotOptimize(key);
    Command command("SET", key, value, "PX", 5000);
    benchmark::DoNotOptimize(command);
  }
}
BENCHMARK(command_set_px);

// The lower bound for any command.
void one_string_of_59(benchmark::State& state) {
  for (auto _ : state) {
    std::string text(59, 'x');
    benchmark::DoNotOptimize(text);
  }
}
BENCHMARK(one_string_of_59);

void hiredis_set(benchmark::State& state) {
  std::string key = "0123456789abcdef", value = key;
  for (auto _ : state) {
    const char* argv[] = {"SET", key.data(), value.data()};
    size_t sizes[] = {3, key.size(), value.size()};
    char* text = nullptr;
    int size = redisFormatCommandArgv(&text, 3, argv, sizes);
    benchmark::DoNotOptimize(size);
    redisFreeCommand(text);
  }
}
BENCHMARK(hiredis_set);

void command_slot(benchmark::State& state) {
  Command command("GET", "0123456789abcdef");
  for (auto _ : state) benchmark::DoNotOptimize(slot_of(command.key()));
}
BENCHMARK(command_slot);

}  // namespace
}  // namespace warren::redis

BENCHMARK_MAIN();
