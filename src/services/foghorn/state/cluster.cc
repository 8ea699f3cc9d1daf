#include "services/foghorn/state/cluster.h"

#include "services/foghorn/state/core.h"

namespace warren::foghorn {

Result<std::unique_ptr<Cluster>> Cluster::create(asio::any_io_executor executor,
                                                 redis::Client* client, ClusterTerms terms) {
  auto checked = check_id("cluster id", terms.cluster_id);
  if (checked && (client || !terms.instance_id.empty()))
    checked = check_id("instance id", terms.instance_id);
  if (!checked) return std::unexpected(checked.error());
  auto core = std::make_unique<Core>(std::move(executor), client, std::move(terms));
  return std::unique_ptr<Cluster>(new Cluster(std::move(core)));
}

Cluster::Cluster(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Cluster::~Cluster() = default;

Async<> Cluster::start(Clock::time_point deadline) { return core_->start(deadline); }
awaitable<void> Cluster::close() { return core_->close(); }

std::shared_ptr<const balance::RoutingTable> Cluster::table() const { return core_->table(); }

const balance::RoutingTable& Cluster::table_here() const {
  core_->publish();
  return *core_->table_here;
}

Viewers& Cluster::viewers() { return core_->viewers; }

void Cluster::set_weights(balance::Weights weights) {
  core_->model.set_weights(weights);
  core_->changed();
}

std::uint64_t Cluster::viewer_cost(std::string_view node) const {
  const auto* record = core_->model.node(node);
  auto connections = core_->model.carried(node).connections;
  if (record && record->state.up_speed > 0 && connections > 0)
    return viewer_estimate(record->state.up_speed, connections);
  return core_->viewer_average > 0 ? core_->viewer_average : viewer_estimate(0, 0);
}

std::string Cluster::redirect(std::string_view node, std::string_view stream,
                              std::string_view client_ip) {
  return core_->viewers.redirect(Clock::now(), node, stream, client_ip, viewer_cost(node));
}

void Cluster::sweep() {
  if (core_->is_whole()) core_->sweep(Clock::now());
}

const ClusterTerms& Cluster::terms() const { return core_->terms; }

MirrorHealth Cluster::health() const {
  if (!core_->client) return MirrorHealth::current;
  auto health = core_->is_loaded() ? core_->mirror->health() : MirrorHealth::loading;
  bool writes_wait = health == MirrorHealth::current && !core_->client->has_primary();
  return writes_wait ? MirrorHealth::degraded : health;
}

std::optional<Error> Cluster::problem() const { return core_->problem; }
awaitable<Error> Cluster::lost_id() { return core_->lost_id(); }

Clock::duration Cluster::age() const {
  return core_->mirror ? core_->mirror->read()->age(Clock::now()) : Clock::duration::zero();
}

Async<> Cluster::durable(Clock::time_point deadline) {
  if (!core_->client) co_return fail(Errc::unavailable, "this instance has no Redis");
  if (auto hears = core_->hears(); !hears) co_return hears;
  if (health() != MirrorHealth::current) co_return fail(Errc::unavailable, "Redis is away");
  auto written = co_await core_->journal.written(deadline);
  co_return written;
}

std::size_t Cluster::waiting_changes() const { return core_->journal.waiting(); }

}  // namespace warren::foghorn
