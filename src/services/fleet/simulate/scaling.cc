#include "services/fleet/simulate/scaling.h"

#include <algorithm>
#include <cmath>

namespace warren::fleet_sim {

namespace {

constexpr auto tick_time = 1s;
constexpr auto end_of_drain = 60s;
constexpr int ticks_of_noise = 10;   // the noise changes after so many
constexpr int ticks_of_advice = 2;   // the autoscaler asks once in so many
constexpr double smoothing = 0.1;    // a node reports an average of about ten seconds
constexpr double builds_busy = 0.5;  // one of two processors builds
constexpr double saturated = 0.95;

}  // namespace

void ScalingModel::start() { tick(); }

ScalingModel::Plateau ScalingModel::plateau() const {
  auto part = in_seconds(stage_.agenda.now().time_since_epoch()) / in_seconds(stage_.terms.length);
  return part < 1.0 / 3 ? Plateau::first : part < 2.0 / 3 ? Plateau::high : Plateau::last;
}

double ScalingModel::level() const {
  const auto& terms = stage_.terms.scaling;
  return plateau() == Plateau::high ? terms.high : terms.low;
}

std::size_t ScalingModel::needed() const {
  const auto& terms = stage_.terms.scaling.terms;
  auto bytes = static_cast<double>(stage_.outcome.need_bytes);
  auto memory = std::ceil(bytes / (terms.fill * static_cast<double>(stage_.budget_bytes)));
  return static_cast<std::size_t>(std::max({1.0, std::ceil(level() / terms.busy), memory}));
}

std::size_t ScalingModel::counted() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(stage_.nodes, [](const auto& one) { return one->takes_part(); }));
}

// What a router makes of the catalog's rows and heartbeats.
fleet::FleetLoad ScalingModel::load() const {
  fleet::FleetLoad load;
  std::uint64_t most_room = 0, known = 0, unknown = 0;
  for (const auto& info : stage_.catalog.infos()) {
    if (info.is_draining) continue;
    ++load.nodes;
    load.budget_bytes += info.budget_bytes;
    load.busy += static_cast<double>(info.busy_percent) / 100;
    most_room =
        std::max(most_room, info.budget_bytes - std::min(info.used_bytes, info.budget_bytes));
  }
  if (load.nodes > 0) load.busy /= static_cast<double>(load.nodes);
  for (const auto& row : stage_.catalog.rows()) {
    load.wanted_bytes += row.note.memory_bytes;
    ++(row.note.memory_bytes > 0 ? known : unknown);
    bool has_owner = stage_.catalog.lives(row.owner);
    if (!has_owner) ++load.unclaimed;
    if (!has_owner && fleet::offer_of("", "", 0, row.note).bytes > most_room) ++load.roomless;
    if (has_owner && row.note.has_index) continue;
    auto seconds = static_cast<double>(row.note.fetch_ms + row.note.index_ms) / 1000;
    load.queue_seconds += seconds > 0 ? seconds : 1;
  }
  load.wanted_bytes +=
      unknown * (known > 0 ? load.wanted_bytes / known : fleet::defaults::unknown_bytes);
  return load;
}

void ScalingModel::tick() {
  if (ticks_ % ticks_of_noise == 0)
    noise_ = std::max(0.0, 1 + stage_.terms.scaling.noise * chance_.normal());
  spread_load();
  scaler_.on_load(stage_.agenda.now(), load());
  if (++ticks_ % ticks_of_advice == 0) follow_advice();
  judge();
  stage_.agenda.after(tick_time, [this] { tick(); });
}

void ScalingModel::spread_load() {
  auto count = counted();
  if (count == 0) return;
  auto share = level() * noise_ / static_cast<double>(count);
  for (auto& one : stage_.nodes) {
    auto busy = std::min(1.0, share + (one->is_building() ? builds_busy : 0));
    one->set_busy(one->busy() + (busy - one->busy()) * smoothing);
  }
  if (share >= saturated) scaled_.saturated_seconds += in_seconds(tick_time);
}

void ScalingModel::follow_advice() {
  auto wanted = scaler_.wanted().nodes;
  auto there = counted() + starting_;
  for (; there < wanted; ++there) start_node();
  if (there <= wanted || starting_ > 0 || is_draining_) return;
  auto last = std::find_if(stage_.nodes.rbegin(), stage_.nodes.rend(),
                           [](const auto& one) { return one->takes_part(); });
  is_draining_ = true;
  (*last)->drain(end_of_drain, [this] { is_draining_ = false; });
}

void ScalingModel::start_node() {
  ++starting_;
  stage_.agenda.after(stage_.terms.scaling.node_start, [this] {
    auto number = static_cast<int>(stage_.nodes.size());
    stage_.nodes.push_back(std::make_unique<ModelNode>(stage_, number));
    stage_.nodes.back()->start();
    --starting_;
  });
}

// A change against the direction of its plateau is a flap.
void ScalingModel::judge() {
  auto now = plateau();
  auto count = counted(), need = needed();
  if (now != last_plateau_) plateau_began_ = stage_.agenda.now();
  last_plateau_ = now;
  auto since = in_seconds(stage_.agenda.now() - plateau_began_);
  bool rose = count > before_, fell = count < before_;
  if (before_ > 0 && rose && now == Plateau::last) ++scaled_.flaps;
  if (before_ > 0 && fell && now == Plateau::high) ++scaled_.flaps;
  if (rose && count > need) scaled_.overshoot = std::max(scaled_.overshoot, count - need);
  if (now == Plateau::high && scaled_.up_seconds < 0 && count >= need) scaled_.up_seconds = since;
  if (now == Plateau::last && scaled_.down_seconds < 0 && count <= need)
    scaled_.down_seconds = since;
  scaled_.most = std::max(scaled_.most, count);
  scaled_.node_hours += static_cast<double>(count) * in_seconds(tick_time) / 3600;
  before_ = count;
}

Scaled ScalingModel::result() const {
  auto scaled = scaled_;
  scaled.flaps_per_hour =
      static_cast<double>(scaled.flaps) / (in_seconds(stage_.terms.length) / 3600);
  return scaled;
}

}  // namespace warren::fleet_sim
