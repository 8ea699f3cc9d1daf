#include "net/rpc/log.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <atomic>

#include "base/clock.h"
#include "base/log.h"

namespace warren::rpc {

namespace {

constexpr int most_lines = 10;  // per second
constexpr std::size_t most_bytes = 256;

// Called by gRPC's threads. If two of them meet at the turn of a second, a line may be miscounted.
bool may_speak() {
  static std::atomic<std::int64_t> current_second = 0;
  static std::atomic<std::int64_t> said = 0;
  std::int64_t second = Clock::now().time_since_epoch() / std::chrono::seconds(1);
  if (current_second.exchange(second) != second) {
    auto more = said.exchange(0) - most_lines;
    if (more > 0) log::warn("grpc.said_more", "lines", more);
  }
  return said.fetch_add(1) < most_lines;
}

void say(log::Level level, std::string_view event, std::string_view severity, std::string_view file,
         int line, std::string_view what) {
  if (!log::enabled(level, event) || !may_speak()) return;
  file = file.substr(file.rfind('/') + 1);  // all of it if there is none
  log::event(level, event, "severity", severity, "at", fmt::format("{}:{}", file, line), "what",
             what.substr(0, most_bytes));
}

void on_grpc(gpr_log_func_args* said) {
  bool is_error = said->severity == GPR_LOG_SEVERITY_ERROR;
  // Mostly it is a peer's mistake, so no operator has to act.
  auto level = is_error                                  ? log::Level::warn
               : said->severity == GPR_LOG_SEVERITY_INFO ? log::Level::info
                                                         : log::Level::debug;
  std::string_view severity = is_error ? "error" : level == log::Level::info ? "info" : "debug";
  say(level, "grpc.said", severity, said->file, said->line, said->message);
}

void on_protobuf(google::protobuf::LogLevel severity, const char* file, int line,
                 const std::string& what) {
  bool is_info = severity == google::protobuf::LOGLEVEL_INFO;
  bool is_warning = severity == google::protobuf::LOGLEVEL_WARNING;
  say(is_info ? log::Level::info : log::Level::warn, "protobuf.said",
      is_info      ? "info"
      : is_warning ? "warning"
                   : "error",
      file, line, what);
}

}  // namespace

void take_over_logs() {
  static const bool done = [] {
    gpr_set_log_function(on_grpc);
    google::protobuf::SetLogHandler(on_protobuf);
    return true;
  }();
  ensure(done, "the handlers are set once");
}

}  // namespace warren::rpc
