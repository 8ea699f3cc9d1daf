#include "services/session/serve/answer.h"

#include <boost/json.hpp>

#include "base/utf8.h"
#include "net/http/target.h"

namespace warren::session {

namespace json = boost::json;

namespace {

struct Words {
  std::string_view status, pod_status;
};

Words words_of(Standing standing) {
  switch (standing) {
    case Standing::starting:
      return {"starting", "pending"};
    case Standing::running:
      return {"running", "ready"};
    case Standing::paused:
      return {"paused", "not found"};
    case Standing::stopped:
      return {"stopped", "not found"};
    case Standing::failed:
      return {"error", "failed"};
    case Standing::crash_looping:
      return {"error", "crashloopbackoff"};
  }
  std::abort();
}

// In the words of Kubernetes, which clients print.
json::array container_array(const View& view) {
  json::array all;
  for (const auto& one : view.containers) {
    json::object state;
    if (!one.reason.empty()) state["reason"] = valid_utf8(one.reason);
    if (!one.message.empty()) state["message"] = valid_utf8(one.message);
    bool has_ended = one.is == ContainerState::Is::terminated;
    if (has_ended) state["exitCode"] = one.exit_code;
    const auto* word = has_ended                               ? "terminated"
                       : one.is == ContainerState::Is::running ? "running"
                                                               : "waiting";
    all.push_back(json::object{{"name", valid_utf8(one.name)},
                               {"ready", one.is_ready},
                               {"restartCount", one.restarts},
                               {"state", json::object{{word, std::move(state)}}}});
  }
  return all;
}

// Where nothing was reported the reason is told as an event.
json::array event_array(const View& view) {
  json::array all;
  for (const auto& one : view.events)
    all.push_back(json::object{{"type", valid_utf8(one.type)},
                               {"reason", valid_utf8(one.reason)},
                               {"message", valid_utf8(one.message)},
                               {"count", one.count},
                               {"lastTimestamp", valid_utf8(one.last_at)}});
  if (all.empty() && !view.reason.empty())
    all.push_back(json::object{{"reason", view.standing == Standing::failed ? "Failed" : "Waiting"},
                               {"message", valid_utf8(view.reason)}});
  return all;
}

json::object object_of(const View& view, const PublicUrl& url) {
  auto [status, pod_status] = words_of(view.standing);
  auto of = [&](Door door) { return url.of(view.runtime_id, door); };
  json::object object{{"runtime_id", view.runtime_id},
                      {"session_id", view.session_id},
                      {"url", of(Door::runtime)},
                      {"session_api_key", view.key},
                      {"status", status},
                      {"pod_status", pod_status},
                      {"vscode_url", of(Door::vscode)},
                      {"work_hosts", json::object{{of(Door::work_1), usual_port(Door::work_1)},
                                                  {of(Door::work_2), usual_port(Door::work_2)}}},
                      {"restart_count", view.restarts},
                      {"restart_reasons", json::array()},
                      {"last_termination_reason", valid_utf8(view.reason)},
                      {"last_termination_exit_code", view.exit_code.value_or(0)},
                      {"container_statuses", container_array(view)},
                      {"events", event_array(view)},
                      {"pod_logs", valid_utf8(view.log)}};
  if (view.restarts > 0 && !view.reason.empty())
    object["restart_reasons"] = json::array{json::value(valid_utf8(view.reason))};
  if (!view.image.empty()) object["image"] = valid_utf8(view.image);
  return object;
}

json::array array_of(const std::vector<View>& views, const PublicUrl& url) {
  json::array all;
  for (const auto& view : views) all.push_back(object_of(view, url));
  return all;
}

}  // namespace

std::string PublicUrl::of(const std::string& runtime_id, Door door) const {
  return fmt::format("{}/{}/{}", base, runtime_id, name(door));
}

std::string runtime_json(const View& view, const PublicUrl& url) {
  return json::serialize(object_of(view, url));
}

std::string runtimes_json(const std::vector<View>& views, const PublicUrl& url) {
  return json::serialize(array_of(views, url));
}

std::string list_json(const std::vector<View>& views, const PublicUrl& url) {
  return json::serialize(json::object{{"runtimes", array_of(views, url)}, {"total", views.size()}});
}

std::string error_json(std::string_view word, std::string_view what) {
  auto text = valid_utf8(what);
  return json::serialize(json::object{{"error", word}, {"message", text}, {"detail", text}});
}

std::string_view word_for(const Error& error) {
  switch (error.code) {
    case Errc::invalid:
      return "invalid_request";
    case Errc::not_found:
      return "runtime_not_found";
    case Errc::held_elsewhere:
      return "conflict";
    case Errc::lease_lost:
      return "changed_meanwhile";
    case Errc::denied:
      return "denied";
    case Errc::refused:
      return "start_failed";
    case Errc::overloaded:
      return "no_capacity";
    case Errc::timeout:
      return "timeout";
    case Errc::unavailable:
    case Errc::unknown_outcome:
    case Errc::protocol:
    case Errc::cancelled:
      return "unavailable";
  }
  std::abort();
}

int status_for(const Error& error) {
  switch (error.code) {
    case Errc::invalid:
      return 400;
    case Errc::not_found:
      return 404;
    case Errc::held_elsewhere:
    case Errc::lease_lost:
      return 409;
    case Errc::refused:
      return 500;
    case Errc::overloaded:
      return 429;
    case Errc::timeout:
      return 504;
    case Errc::denied:
    case Errc::unavailable:
    case Errc::unknown_outcome:
    case Errc::protocol:
    case Errc::cancelled:
      return 503;
  }
  std::abort();
}

}  // namespace warren::session
