// What nodes and operators tell: /v1/nodes, /v1/streams, /v1/artifacts.
#include <boost/json.hpp>

#include "net/http/target.h"
#include "services/foghorn/http/routes.h"
#include "services/foghorn/state/json_fields.h"

namespace warren::foghorn {

namespace {

constexpr std::size_t most_body = 1u << 20;  // of all but reports
constexpr std::size_t changes_page = 1000, most_changes = 10'000;

// The next part of the path, if it can be the name of something.
Result<std::string> next_id(Call& call, std::string_view what) {
  auto id = percent_decoded(next_part(call.rest));
  if (!id) return fail(Errc::invalid, "{}: a percent sign without a number", what);
  if (auto checked = check_id(what, *id); !checked) return std::unexpected(checked.error());
  return *std::move(id);
}

void finish(Call& call, const Result<>& done, json::object says) {
  if (!done) return refuse(call.answer, done.error());
  give(call.answer, says);
}

// A body may be left out where nothing needs to be said.
Result<json::object> body_of(const Call& call) {
  if (call.request.body.empty()) return json::object{};
  return parse_object(call.request.body, most_body, {}, deepest_part);
}

json::object node_answer(const Call& call, const std::string& id) {
  json::object says{{"node_id", id}};
  if (auto node = call.cluster.node(id)) {
    says["operational_mode"] = name(node->mode);
    says["active_viewers"] = node->viewers;
  }
  return says;
}

Result<> report(Call& call, const std::string& id) {
  auto report = parse_report(call.request.body);
  if (!report) return std::unexpected(report.error());
  return call.cluster.report(id, *report);
}

Result<> enlist(Call& call, const std::string& id) {
  auto registration = parse_registration(call.request.body.empty() ? "{}" : call.request.body);
  if (!registration) return std::unexpected(registration.error());
  if (!registration->node_id.empty() && registration->node_id != id)
    return fail(Errc::invalid, "node_id: the path says {}", id);
  registration->node_id = id;
  if (registration->host.empty()) registration->host = call.client.to_string();
  return call.cluster.register_node(*registration);
}

Result<> beat(Call& call, const std::string& id) {
  auto body = body_of(call);
  if (!body) return std::unexpected(body.error());
  bool is_healthy = true;
  Reader reader(*body);
  reader.always("is_healthy", is_healthy);
  if (auto read = reader.result(); !read) return read;
  return call.cluster.heartbeat(id, is_healthy);
}

Result<> set_mode(Call& call, const std::string& id) {
  auto body = body_of(call);
  if (!body) return std::unexpected(body.error());
  std::string word, set_by;
  Reader reader(*body);
  reader.always("mode", word);
  reader.always("set_by", set_by);
  if (auto read = reader.result(); !read) return read;
  auto mode = word.empty() ? std::nullopt : parse_node_mode(word);
  if (!mode) return fail(Errc::invalid, "mode: one of normal, draining, maintenance");
  return call.cluster.set_mode(id, *mode, set_by);
}

void change_node(Call& call, const std::string& id, std::string_view action) {
  if (!may_change(call)) return;
  bool is_post = call.is_method("POST");
  if (action == "mode") {
    if (!is_post && !call.is_method("PUT")) return refuse_method(call.answer, "PUT, POST");
    auto done = set_mode(call, id);
    return finish(call, done, node_answer(call, id));
  }
  if (!is_post) return refuse_method(call.answer, "POST");
  Result<> done = ok;
  if (action == "report")
    done = report(call, id);
  else if (action == "heartbeat")
    done = beat(call, id);
  else if (action == "register")
    done = enlist(call, id);
  else if (action == "disconnect")
    done = call.cluster.disconnect(id);
  else
    return refuse(call.answer, 404, "NOT_FOUND",
                  "a node has report, heartbeat, register, disconnect and mode");
  finish(call, done, node_answer(call, id));
}

// What all events of streams say.
struct StreamEvent {
  json::object body;
  std::string node;
};
Result<StreamEvent> event_of(const Call& call) {
  auto body = body_of(call);
  if (!body) return std::unexpected(body.error());
  StreamEvent event{*std::move(body), {}};
  Reader reader(event.body);
  reader.always("node_id", event.node);
  reader.need("node_id", event.node);
  if (auto read = reader.result(); !read) return std::unexpected(read.error());
  if (auto checked = check_id("node_id", event.node); !checked)
    return std::unexpected(checked.error());
  return event;
}

Result<> buffer(Call& call, const std::string& stream, const StreamEvent& event) {
  std::string state, tenant, playback;
  json::object details;
  Reader reader(event.body);
  reader.always("buffer_state", state);
  reader.always("tenant_id", tenant);
  reader.always("playback_id", playback);
  reader.always("details", details);
  if (auto read = reader.result(); !read) return read;
  auto text = details.empty() ? std::string() : json::serialize(details);
  return call.cluster.stream_buffer(event.node, stream, state, tenant, playback, text);
}

Result<> tracks(Call& call, const std::string& stream, const StreamEvent& event) {
  std::string list;
  Reader reader(event.body);
  reader.always("track_list", list);
  if (auto read = reader.result(); !read) return read;
  return call.cluster.stream_tracks(event.node, stream, list);
}

Result<> stats(Call& call, const std::string& stream, const StreamEvent& event) {
  auto body = event.body;
  body.erase("node_id");
  auto report = parse_stream_report(json::serialize(body));
  if (!report) return std::unexpected(report.error());
  return call.cluster.stream_stats(event.node, stream, *report);
}

Result<> progress(Call& call, const std::string& stream, const StreamEvent& event) {
  json::object details;
  Reader reader(event.body);
  reader.always("details", details);
  if (auto read = reader.result(); !read) return read;
  return call.cluster.stream_progress(event.node, stream, details);
}

Result<> viewer(Call& call, const std::string& stream, const StreamEvent& event,
                std::string_view what) {
  ViewerContact contact;
  Reader reader(event.body);
  reader.always("correlation_id", contact.correlation_id);
  reader.always("session_id", contact.session_id);
  reader.always("client_ip", contact.client_ip);
  if (auto read = reader.result(); !read) return read;
  if (what == "connect") return call.cluster.viewer_connected(event.node, stream, contact);
  if (what == "disconnect") return call.cluster.viewer_disconnected(event.node, stream, contact);
  return fail(Errc::not_found, "viewers connect and disconnect");
}

Result<> change_stream(Call& call, const std::string& stream, std::string_view action) {
  auto event = event_of(call);
  if (!event) return std::unexpected(event.error());
  if (action == "buffer") return buffer(call, stream, *event);
  if (action == "tracks") return tracks(call, stream, *event);
  if (action == "stats") return stats(call, stream, *event);
  if (action == "progress") return progress(call, stream, *event);
  if (action == "offline") return call.cluster.stream_offline(event->node, stream);
  if (action == "viewers") return viewer(call, stream, *event, next_part(call.rest));
  return fail(Errc::not_found, "a stream has buffer, tracks, stats, progress, offline and viewers");
}

Result<> change_artifact(Call& call, const std::string& id) {
  if (call.is_method("DELETE")) {
    auto node = call.query("node_id").value_or("");
    if (auto checked = check_id("node_id", node); !checked) return checked;
    return call.cluster.remove_artifact(node, id);
  }
  auto event = event_of(call);
  if (!event) return std::unexpected(event.error());
  auto body = event->body;
  body.erase("node_id");
  if (!body.contains("content_id")) body["content_id"] = id;
  auto artifact = parse_artifact_report(json::serialize(body));
  if (!artifact) return std::unexpected(artifact.error());
  if (artifact->content_id != id) return fail(Errc::invalid, "content_id: the path says {}", id);
  return call.cluster.add_artifact(event->node, *artifact);
}

// A page of a list: ?offset=, ?limit=.
Page page_of(const Call& call) {
  return {number_of(call, "offset", 0, std::size_t(-1)),
          number_of(call, "limit", changes_page, most_changes)};
}

template <class List, class Show>
void give_page(Call& call, const List& list, std::size_t total, Show show) {
  json::array page;
  for (const auto& each : list) page.push_back(show(each));
  call.answer.add("X-Total-Count", std::to_string(total));
  give(call.answer, page);
}

json::value stored(const ArtifactState& artifact) { return value_in(to_json(artifact)); }

}  // namespace

void nodes(Call& call) {
  if (call.rest.empty() || call.rest == "/") {
    if (!call.is_method("GET")) return refuse_method(call.answer, "GET, HEAD");
    return give_page(call, call.cluster.nodes(page_of(call)), call.cluster.node_count(),
                     [](const NodeView& node) { return json::value(shown(node)); });
  }
  auto id = next_id(call, "node id");
  if (!id) return refuse(call.answer, id.error());
  if (auto action = next_part(call.rest); !action.empty()) return change_node(call, *id, action);
  if (call.is_method("DELETE")) {
    if (may_change(call)) finish(call, call.cluster.forget_node(*id), {{"node_id", *id}});
    return;
  }
  if (!call.is_method("GET")) return refuse_method(call.answer, "GET, HEAD, DELETE");
  auto node = call.cluster.node(*id);
  if (!node) return refuse(call.answer, 404, "NOT_FOUND", fmt::format("there is no node {}", *id));
  give(call.answer, shown(*node));
}

void streams(Call& call) {
  if (call.rest.empty() || call.rest == "/") {
    if (!call.is_method("GET")) return refuse_method(call.answer, "GET, HEAD");
    bool is_full = call.query("full") == "true";
    return give_page(
        call, call.cluster.streams(page_of(call)), call.cluster.stream_count(),
        [is_full](const StreamView& stream) { return json::value(shown(stream, is_full)); });
  }
  auto id = next_id(call, "stream");
  if (!id) return refuse(call.answer, id.error());
  std::string stream(bare_name(*id));
  if (auto action = next_part(call.rest); !action.empty()) {
    if (!may_change(call)) return;
    if (!call.is_method("POST")) return refuse_method(call.answer, "POST");
    return finish(call, change_stream(call, *id, action), {{"stream", stream}});
  }
  if (call.is_method("DELETE")) {
    if (may_change(call)) finish(call, call.cluster.forget_stream(stream), {{"stream", stream}});
    return;
  }
  if (!call.is_method("GET")) return refuse_method(call.answer, "GET, HEAD, DELETE");
  auto found = call.cluster.stream(stream);
  if (!found)
    return refuse(call.answer, 404, "NOT_FOUND", fmt::format("there is no stream {}", stream));
  give(call.answer, shown(*found, true));
}

void artifacts(Call& call) {
  if (call.rest.empty() || call.rest == "/") {
    if (!call.is_method("GET")) return refuse_method(call.answer, "GET, HEAD");
    return give_page(call, call.cluster.artifacts(page_of(call)), call.cluster.artifact_count(),
                     stored);
  }
  auto id = next_id(call, "content id");
  if (!id) return refuse(call.answer, id.error());
  if (call.is_method("POST") || call.is_method("DELETE")) {
    if (may_change(call)) finish(call, change_artifact(call, *id), {{"content_id", *id}});
    return;
  }
  if (!call.is_method("GET")) return refuse_method(call.answer, "GET, HEAD, POST, DELETE");
  auto artifact = call.cluster.artifact(*id);
  if (!artifact)
    return refuse(call.answer, 404, "NOT_FOUND", fmt::format("nothing is stored as {}", *id));
  give(call.answer, stored(*artifact));
}

}  // namespace warren::foghorn
