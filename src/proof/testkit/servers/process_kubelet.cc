#include "proof/testkit/servers/process_kubelet.h"

#include <unistd.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/post.hpp>
#include <set>

#include "base/base64.h"

namespace warren::inline testkit {

namespace {

namespace fs = std::filesystem;
using kube::items_at;
using kube::Object;
using kube::text_at;
namespace json = kube::json;

constexpr auto our_node = "process-node";
constexpr auto look_every = 50ms;
constexpr auto call_time = 20s;

json::object condition(std::string_view type, bool is_true) {
  return {{"type", type},
          {"status", is_true ? "True" : "False"},
          {"lastTransitionTime", iso8601(WallClock::now()).substr(0, 19) + "Z"}};
}

json::array conditions(bool is_ready) {
  return {condition("PodScheduled", true), condition("Initialized", true),
          condition("ContainersReady", is_ready), condition("Ready", is_ready)};
}

const Object& main_of(const Object& pod) { return items_at(pod, "/spec/containers").at(0); }

json::object container_status(const Object& pod, json::object state, bool is_ready) {
  return {{"name", text_at(main_of(pod), "/name")},
          {"image", text_at(main_of(pod), "/image")},
          {"imageID", ""},
          {"restartCount", 0},
          {"ready", is_ready},
          {"started", is_ready},
          {"state", std::move(state)}};
}

std::string now_text() { return iso8601(WallClock::now()).substr(0, 19) + "Z"; }

json::object waiting(const Object& pod, std::string_view reason, std::string_view message) {
  json::object state{{"waiting", json::object{{"reason", reason}, {"message", message}}}};
  return {{"phase", "Pending"},
          {"conditions", conditions(false)},
          {"containerStatuses", json::array{container_status(pod, std::move(state), false)}}};
}

}  // namespace

ProcessKubelet::ProcessKubelet(kube::Access access, std::string space)
    : client_(io_.get_executor(), std::move(access)),
      probes_(io_.get_executor(), {}),
      space_(std::move(space)),
      thread_([this] {
        auto ended = [this](std::exception_ptr) { io_.stop(); };
        asio::co_spawn(io_, run(), asio::bind_cancellation_slot(stop_.slot(), ended));
        io_.run();
        runs_.clear();
      }) {}

ProcessKubelet::~ProcessKubelet() {
  asio::post(io_, [this] { stop_.emit(asio::cancellation_type::terminal); });
  thread_.join();
}

awaitable<void> ProcessKubelet::run() {
  kube::Watcher pods(client_, {kube::kinds::pods, space_});
  auto body = [](TaskGroup& tasks, ProcessKubelet& self,
                 kube::Watcher& watcher) -> awaitable<Result<>> {
    tasks.start("kubelet.watch", watcher.run());
    co_await self.look_at_all(watcher);
    co_return ok;
  };
  std::ignore = co_await with_group(body, *this, pods);
}

awaitable<void> ProcessKubelet::look_at_all(kube::Watcher& pods) {
  for (;;) {
    std::set<std::string> there;
    for (auto& pod : pods.all()) {
      there.emplace(kube::uid_of(*pod));
      co_await look_at(pod);
    }
    if (pods.is_synced())
      std::erase_if(runs_, [&](auto& run) { return !there.contains(run.first); });
    co_await pods.changed(Clock::now() + look_every);
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return;
  }
}

awaitable<void> ProcessKubelet::look_at(kube::ObjectRef pod) {
  std::string uid(kube::uid_of(*pod));
  bool is_ours = text_at(*pod, "/spec/nodeName") == our_node;
  if (!is_ours) {
    if (!kube::is_leaving(*pod)) co_await bind(*pod);
    co_return;
  }
  auto& run = runs_[uid];
  if (kube::is_leaving(*pod)) {
    co_await end(*pod, run);
  } else if (run.process || run.is_over) {
    co_await watch_over(*pod, run);
  } else {
    co_await begin(*pod, run);
  }
}

awaitable<bool> ProcessKubelet::has_claims(const Object& pod) {
  for (const auto& volume : items_at(pod, "/spec/volumes")) {
    auto name = text_at(volume, "/persistentVolumeClaim/claimName");
    if (name.empty()) continue;
    kube::Place place{kube::kinds::claims, space_, std::string(name)};
    auto claim = co_await client_.get(std::move(place), Clock::now() + call_time);
    if (!claim || kube::is_leaving(*claim)) co_return false;
  }
  co_return true;
}

awaitable<void> ProcessKubelet::bind(const Object& pod) {
  bool has_all = co_await has_claims(pod);
  if (!has_all) {
    auto no = condition("PodScheduled", false);
    no["reason"] = "Unschedulable";
    no["message"] = "a claim of the pod is not there";
    json::object status{{"conditions", json::array{std::move(no)}}};
    co_await say(pod, std::move(status));
    co_return;
  }
  constexpr kube::Kind bindings{"", "v1", "bindings"};
  kube::Place place{bindings, space_};
  json::object target{{"apiVersion", "v1"}, {"kind", "Node"}, {"name", our_node}};
  Object binding = json::object{
      {"apiVersion", "v1"},
      {"kind", "Binding"},
      {"metadata", json::object{{"name", kube::name_of(pod)}, {"uid", kube::uid_of(pod)}}},
      {"target", std::move(target)}};
  std::ignore =
      co_await client_.create(std::move(place), std::move(binding), Clock::now() + call_time);
}

awaitable<std::optional<std::vector<std::string>>> ProcessKubelet::environment_of(
    const Object& pod) {
  std::vector<std::string> all;
  for (const auto& variable : items_at(main_of(pod), "/env")) {
    std::string value(text_at(variable, "/value"));
    auto secret = text_at(variable, "/valueFrom/secretKeyRef/name");
    if (!secret.empty()) {
      kube::Place place{kube::kinds::secrets, space_, std::string(secret)};
      auto read = co_await client_.get(std::move(place), Clock::now() + call_time);
      if (!read) co_return std::nullopt;
      std::string key(text_at(variable, "/valueFrom/secretKeyRef/key"));
      auto bytes = from_base64(text_at(*read, "/data/" + key));
      if (!bytes) co_return std::nullopt;
      value = *bytes;
    }
    all.push_back(fmt::format("{}={}", text_at(variable, "/name"), value));
  }
  co_return all;
}

fs::path ProcessKubelet::workspace_of(const Object& pod) {
  std::string claim = "none";
  for (const auto& volume : items_at(pod, "/spec/volumes"))
    if (auto name = text_at(volume, "/persistentVolumeClaim/claimName"); !name.empty())
      claim = name;
  auto path = folder_.path() / claim;
  fs::create_directories(path);
  return path;
}

awaitable<void> ProcessKubelet::begin(const Object& pod, Run& run) {
  if (text_at(main_of(pod), "/image") == "missing") {
    auto status = waiting(pod, "ImagePullBackOff", "Back-off pulling image \"missing\"");
    co_await say(pod, std::move(status));
    co_return;
  }
  auto environment = co_await environment_of(pod);
  if (!environment) {
    auto status = waiting(pod, "CreateContainerConfigError", "a Secret of the pod is not there");
    co_await say(pod, std::move(status));
    co_return;
  }
  ++addresses_;
  run.address = fmt::format("127.1.{}.{}", ::getpid() % 250 + 1, addresses_ % 250 + 1);
  environment->push_back("TEST_HOST=" + run.address);
  environment->push_back("TEST_WORKSPACE=" + workspace_of(pod).string());
  Program program{{}, folder_.path() / (std::string(kube::uid_of(pod)) + ".log"), *environment};
  for (const auto* list : {"/command", "/args"})
    for (const auto& word : items_at(main_of(pod), list))
      program.argv.emplace_back(word.as_string());
  run.process = std::make_unique<Process>(program);
  json::object state{{"running", json::object{{"startedAt", now_text()}}}};
  json::object status{
      {"phase", "Running"},
      {"startTime", now_text()},
      {"podIP", run.address},
      {"podIPs", json::array{json::object{{"ip", run.address}}}},
      {"conditions", conditions(false)},
      {"containerStatuses", json::array{container_status(pod, std::move(state), false)}}};
  co_await say(pod, std::move(status));
}

awaitable<bool> ProcessKubelet::answers(const Object& pod, const Run& run) {
  auto named = text_at(main_of(pod), "/readinessProbe/httpGet/port");
  auto number = kube::number_at(main_of(pod), "/readinessProbe/httpGet/port", 0);
  for (const auto& port : items_at(main_of(pod), "/ports"))
    if (!named.empty() && text_at(port, "/name") == named)
      number = kube::number_at(port, "/containerPort", 0);
  if (number == 0) co_return true;  // there is no probe
  HttpUrl url{.host = run.address, .port = std::to_string(number), .path = ""};
  HttpAsk ask{"GET", std::string(text_at(main_of(pod), "/readinessProbe/httpGet/path"))};
  auto reply = co_await probes_.ask(std::move(url), std::move(ask), Clock::now() + 5s);
  co_return reply && reply->status < 400;
}

awaitable<void> ProcessKubelet::watch_over(const Object& pod, Run& run) {
  if (run.is_over) co_return;
  if (!run.process->alive()) {
    run.is_over = true;
    auto code = run.process->wait();
    json::object end{{"exitCode", code},
                     {"reason", code == 0 ? "Completed" : "Error"},
                     {"finishedAt", now_text()}};
    json::object state{{"terminated", std::move(end)}};
    json::object status{
        {"phase", code == 0 ? "Succeeded" : "Failed"},
        {"conditions", conditions(false)},
        {"containerStatuses", json::array{container_status(pod, std::move(state), false)}}};
    co_await say(pod, std::move(status));
    co_return;
  }
  if (run.is_ready) co_return;
  bool is_ready = co_await answers(pod, run);
  if (!is_ready) co_return;
  run.is_ready = true;
  json::object state{{"running", json::object{{"startedAt", now_text()}}}};
  json::object status{
      {"phase", "Running"},
      {"conditions", conditions(true)},
      {"containerStatuses", json::array{container_status(pod, std::move(state), true)}}};
  co_await say(pod, std::move(status));
}

awaitable<void> ProcessKubelet::end(const Object& pod, Run& run) {
  if (run.process && run.process->alive()) {
    auto grace = kube::number_at(pod, "/metadata/deletionGracePeriodSeconds", 30);
    if (!run.kill_at) {
      run.kill_at = Clock::now() + std::chrono::seconds(grace);
      run.process->terminate();
      co_return;
    }
    if (Clock::now() < *run.kill_at) co_return;
    run.process->kill();
  }
  kube::Place place{kube::kinds::pods, space_, std::string(kube::name_of(pod))};
  kube::RemoveTerms terms{.uid = std::string(kube::uid_of(pod))};
  terms.grace = 0s;
  std::ignore =
      co_await client_.remove(std::move(place), std::move(terms), Clock::now() + call_time);
}

awaitable<void> ProcessKubelet::say(const Object& pod, json::object status) {
  std::string uid(kube::uid_of(pod));
  // Without the times: repeating a status is not news.
  const auto* phase = status.if_contains("phase");
  const auto* containers = status.if_contains("containerStatuses");
  auto essence = fmt::format("{} {}", phase ? json::serialize(*phase) : "unbound",
                             containers ? json::serialize(*containers) : "");
  if (said_[uid] == essence) co_return;
  Object change =
      json::object{{"metadata", json::object{{"uid", uid}}}, {"status", std::move(status)}};
  kube::Place place{kube::kinds::pods, space_, std::string(kube::name_of(pod)), "status"};
  auto done = co_await client_.patch(std::move(place), kube::PatchKind::strategic_merge,
                                     std::move(change), Clock::now() + call_time);
  if (done) said_[uid] = essence;
}

}  // namespace warren::inline testkit
