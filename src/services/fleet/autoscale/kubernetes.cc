#include "services/fleet/autoscale/kubernetes.h"

#include "base/log.h"
#include "net/kube/access.h"

namespace warren::fleet {

namespace {

namespace json = boost::json;
constexpr auto call_time = 20s;

}  // namespace

KubernetesDriver::KubernetesDriver(kube::Client& client, Catalog& catalog, KubernetesTerms terms)
    : client_(client),
      drains_(catalog),
      terms_(std::move(terms)),
      place_{kube::kinds::stateful_sets, terms_.space, terms_.stateful_set, "scale"} {}

Async<> KubernetesDriver::check(Clock::time_point deadline) {
  std::vector<kube::AccessQuestion> questions{{"get", place_}, {"patch", place_}};
  auto missing = co_await kube::missing_rights(client_, std::move(questions), deadline);
  if (!missing) co_return std::unexpected(missing.error());
  std::string lines;
  for (const auto& line : *missing) lines += (lines.empty() ? "" : "; ") + line;
  if (!lines.empty())
    co_return fail(Errc::denied, "we may not: {}: docs/fleet.md has the role that is needed",
                   lines);
  auto place = place_;
  auto scale = co_await client_.get(std::move(place), deadline);
  if (!scale) co_return std::unexpected(scale.error());
  co_return ok;
}

Async<> KubernetesDriver::set(ScaleWish wish) {
  auto place = place_;
  auto read = co_await client_.get(std::move(place), Clock::now() + call_time);
  if (!read) co_return std::unexpected(read.error());
  auto looked = co_await drains_.look();
  if (!looked) co_return looked;
  PodsSeen seen{.nodes = wish.nodes, .wanted = wish.wanted};
  seen.replicas = static_cast<std::size_t>(kube::number_at(*read, "/spec/replicas", 0));
  auto highest = fmt::format("{}-{}", terms_.stateful_set, seen.replicas - 1);
  if (seen.replicas > 0) seen.highest = drains_.state_of(highest);
  auto step = next_step(seen);
  switch (step.kind) {
    case PodsStep::none:
      co_return ok;
    case PodsStep::scale:
      co_return co_await scale(*std::move(read), step.replicas, wish);
    case PodsStep::drain:
      log::info("autoscale.node_draining", "node", highest, "why", wish.reason);
      co_return co_await drains_.ask(highest, terms_.drain_within);
    case PodsStep::cancel_drain:
      log::info("autoscale.drain_cancelled", "node", highest, "why", wish.reason);
      co_return co_await drains_.cancel(highest);
  }
}

Async<> KubernetesDriver::scale(kube::Object read, std::size_t replicas, const ScaleWish& wish) {
  auto before = kube::number_at(read, "/spec/replicas", 0);
  kube::Object change =
      json::object{{"metadata", json::object{{"resourceVersion", kube::version_of(read)}}},
                   {"spec", json::object{{"replicas", replicas}}}};
  auto place = place_;
  auto done = co_await client_.patch(std::move(place), kube::PatchKind::merge, std::move(change),
                                     Clock::now() + call_time);
  if (!done && done.error().reason == kube::Reason::conflict) {
    log::info("autoscale.conflict", "why", done.error().what);
    co_return ok;
  }
  if (!done) co_return std::unexpected(done.error());
  log::info("autoscale.scaled", "from", before, "to", replicas, "why", wish.reason);
  co_return ok;
}

}  // namespace warren::fleet
