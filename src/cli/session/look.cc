// warren session ls, show, explain, stop, force-release: what a service says of its sessions.
#include <fmt/format.h>

#include <boost/json.hpp>

#include "cli/session/session.h"
#include "net/http/target.h"

namespace warren::cli {

namespace {

namespace json = boost::json;

std::string text_of(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  if (!value || value->is_null()) return "";
  return value->is_string() ? std::string(value->get_string()) : json::serialize(*value);
}

Result<json::object> parse_answer(const std::string& text) {
  boost::system::error_code error;
  auto value = json::parse(text, error);
  if (error || !value.is_object())
    return fail(Errc::protocol, "this is no session service: its answer is no JSON object");
  return std::move(value.get_object());
}

// By the name of the session, or by the id of its runtime.
Result<json::object> find(const Context& context, const SessionOptions& options,
                          const std::string& id) {
  auto answer = ask_service(context, options, "GET", "/sessions/" + percent_encoded(id));
  if (!answer && answer.error().code == Errc::not_found)
    answer = ask_service(context, options, "GET", "/runtime/" + percent_encoded(id));
  if (!answer && answer.error().code == Errc::not_found)
    return fail(Errc::not_found, "there is no session \"{}\": `warren session ls` lists them", id);
  if (!answer) return std::unexpected(answer.error());
  return parse_answer(*answer);
}

Result<Exit> list(const Context& context, const SessionOptions& options, bool in_json) {
  auto answer = ask_service(context, options, "GET", "/list");
  if (!answer) return std::unexpected(answer.error());
  auto object = parse_answer(*answer);
  if (!object) return std::unexpected(object.error());
  const auto* all = object->if_contains("runtimes");
  if (!all || !all->is_array()) return fail(Errc::protocol, "the answer has no list of runtimes");
  if (in_json) {
    // Keys are for who asks for one session.
    for (auto& one : all->get_array()) {
      auto shown = one.as_object();
      shown.erase("session_api_key");
      fmt::print("{}\n", json::serialize(shown));
    }
    return Exit::ok;
  }
  fmt::print("{:<36}  {:<8}  {:<32}  {}\n", "SESSION", "STATUS", "RUNTIME", "RESTARTS");
  for (const auto& one : all->get_array()) {
    const auto& runtime = one.get_object();
    fmt::print("{:<36}  {:<8}  {:<32}  {}\n", printable(text_of(runtime, "session_id")),
               printable(text_of(runtime, "status")), printable(text_of(runtime, "runtime_id")),
               text_of(runtime, "restart_count"));
  }
  if (all->get_array().empty()) fmt::print("There is no session.\n");
  return Exit::ok;
}

Result<Exit> show(const Context& context, const SessionOptions& options, const std::string& id,
                  bool in_json) {
  auto runtime = find(context, options, id);
  if (!runtime) return std::unexpected(runtime.error());
  if (in_json) {
    fmt::print("{}\n", json::serialize(*runtime));
    return Exit::ok;
  }
  for (const auto* name : {"session_id", "runtime_id", "status", "pod_status", "image", "url",
                           "vscode_url", "session_api_key", "restart_count"})
    fmt::print("{:<16}  {}\n", name, printable(text_of(*runtime, name)));
  return Exit::ok;
}

// Why it is as it is, and what it wrote last.
Result<Exit> explain(const Context& context, const SessionOptions& options, const std::string& id) {
  auto runtime = find(context, options, id);
  if (!runtime) return std::unexpected(runtime.error());
  auto status = text_of(*runtime, "status");
  auto why = text_of(*runtime, "last_termination_reason");
  fmt::print("Session {} is {}{}\n", printable(text_of(*runtime, "session_id")), printable(status),
             why.empty() ? "" : ": " + printable(why));
  if (status == "starting")
    fmt::print("It is running when it answers GET /alive on its port.\n");
  else if (status == "paused")
    fmt::print("Its files are kept. POST /resume, or a request with its key, starts it again.\n");
  else if (status == "error")
    fmt::print("Its files are kept. POST /start tries again; it ended {} times so far.\n",
               text_of(*runtime, "restart_count"));
  auto log = text_of(*runtime, "pod_logs");
  if (log.empty()) return Exit::ok;
  fmt::print("It wrote last:\n");
  for (std::string_view rest = log; !rest.empty();) {
    auto line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    fmt::print("  {}\n", printable(std::string(line)));
  }
  return Exit::ok;
}

Result<Exit> stop(const Context& context, const SessionOptions& options, const std::string& id) {
  auto runtime = find(context, options, id);
  if (!runtime) return std::unexpected(runtime.error());
  auto body = json::serialize(json::object{{"runtime_id", text_of(*runtime, "runtime_id")}});
  auto answer = ask_service(context, options, "POST", "/stop", body);
  if (!answer) return std::unexpected(answer.error());
  fmt::print("Stopped {}; its files are gone\n", printable(text_of(*runtime, "session_id")));
  return Exit::ok;
}

Result<Exit> force_release(const Context& context, const SessionOptions& options,
                           const std::string& id) {
  auto runtime = find(context, options, id);
  if (!runtime) return std::unexpected(runtime.error());
  auto session = text_of(*runtime, "session_id");
  auto body = json::serialize(json::object{{"session_id", session}});
  auto answer = ask_service(context, options, "POST", "/force-release", body);
  if (!answer) return std::unexpected(answer.error());
  auto object = parse_answer(*answer);
  if (!object) return std::unexpected(object.error());
  auto record = text_of(*object, "record");
  fmt::print("Released {}; its record says {}\n", printable(session),
             record.empty() ? "nothing" : printable(record));
  return Exit::ok;
}

CLI::Option* add_session_id(CLI::App& app) {
  auto* id = add_value(app, "id", "SESSION", "of the session, or of its runtime", nullptr);
  require(*id);
  return id;
}

}  // namespace

void add_session_looks(CLI::App& session, Action& chosen) {
  auto* ls = add_command(session, "ls", "The sessions, and how they are");
  auto ls_options = add_session_options(*ls);
  auto* ls_json = add_json(*ls);
  when_chosen(*ls, [=, &chosen] {
    chosen = [=](const Context& context) { return list(context, ls_options, is_given(*ls_json)); };
  });
  auto* one = add_command(session, "show", "One session: where it is, and its key");
  auto one_options = add_session_options(*one);
  auto* one_json = add_json(*one);
  auto* one_id = add_session_id(*one);
  when_chosen(*one, [=, &chosen] {
    chosen = [=](const Context& context) {
      return show(context, one_options, value_of(*one_id), is_given(*one_json));
    };
  });
  auto* why = add_command(session, "explain", "Why a session is as it is");
  auto why_options = add_session_options(*why);
  auto* why_id = add_session_id(*why);
  when_chosen(*why, [=, &chosen] {
    chosen = [=](const Context& context) {
      return explain(context, why_options, value_of(*why_id));
    };
  });
  auto* end = add_command(session, "stop", "End a session, and remove its files");
  auto end_options = add_session_options(*end);
  auto* end_id = add_session_id(*end);
  when_chosen(*end, [=, &chosen] {
    chosen = [=](const Context& context) { return stop(context, end_options, value_of(*end_id)); };
  });
  auto* release = add_command(session, "force-release", "End a step that hangs; the sandbox stays");
  auto release_options = add_session_options(*release);
  auto* release_id = add_session_id(*release);
  when_chosen(*release, [=, &chosen] {
    chosen = [=](const Context& context) {
      return force_release(context, release_options, value_of(*release_id));
    };
  });
}

}  // namespace warren::cli
