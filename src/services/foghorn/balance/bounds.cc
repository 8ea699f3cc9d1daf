#include "services/foghorn/balance/bounds.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace warren::balance {

namespace {

constexpr float geo_margin = 0.001F;      // of the weight; the error is below 0.0002
constexpr float relative_margin = 1e-5F;  // of the sum; that of single precision is below 1e-6

// The part of half a circle from one direction to another, from their cosine: Abramowitz and
// Stegun, 4.4.45.
inline float angle(float cosine) {
  float c = std::min(std::abs(cosine), 1.0F);
  float near = std::sqrt(1 - c) * (0.5F + c * (-0.0675181F + c * (0.0236380F - 0.0059617F * c)));
  return cosine < 0 ? 1 - near : near;
}

}  // namespace

Direction on_sphere(const Point& point) {
  if (!point.is_known) return {};
  return {static_cast<float>(point.cos_latitude * std::cos(point.longitude)),
          static_cast<float>(point.cos_latitude * std::sin(point.longitude)),
          static_cast<float>(point.sin_latitude)};
}

Bounds::Bounds(const Weights& weights, double most_adjustment)
    : geo_(static_cast<float>(weights.geo)),
      extra_(static_cast<float>(weights.bonus) + static_cast<float>(most_adjustment) +
             geo_ * (1 + geo_margin) + 2) {}

void Bounds::read(const NodeBlock& block, const Point& viewer) {
  if (!std::exchange(knows_viewer_, true)) viewer_ = on_sphere(viewer);
  auto [x, y, z] = viewer_;
  float geo = geo_, extra = extra_;
  for (std::uint32_t i = 0; i < block_size; ++i) {
    float cosine = x * block.x[i] + y * block.y[i] + z * block.z[i];
    bounds_[i] = (block.ceiling[i] + extra - geo * angle(cosine)) * (1 + relative_margin);
  }
}

}  // namespace warren::balance
