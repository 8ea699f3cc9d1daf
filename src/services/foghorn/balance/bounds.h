#pragma once
// What nodes can score at most, all nodes of a block together, so that the exact score is worked
// out only for those who can be among the best.
//
// Right is what is never too low. The distance comes from a polynomial of the cosine, the sums are
// single precision; the margin covers both and the cut to whole numbers, several times over.
#include <array>

#include "services/foghorn/balance/nodes.h"

namespace warren::balance {

struct Direction {
  float x = 0, y = 0, z = 0;
};
// Of an unknown point the middle of the sphere, which is half way from everywhere.
Direction on_sphere(const Point& point);

class Bounds {
 public:
  Bounds(const Weights& weights, double most_adjustment);

  void read(const NodeBlock& block, const Point& viewer);
  float operator[](std::uint32_t at) const { return bounds_[at]; }

 private:
  bool knows_viewer_ = false;
  Direction viewer_;  // worked out when the first block is read
  float geo_, extra_;
  NodeBlock::Column<float> bounds_;  // of the block that was read
};

}  // namespace warren::balance
