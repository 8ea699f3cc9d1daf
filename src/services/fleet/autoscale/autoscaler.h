#pragma once
// Makes a fleet as large as a router says it should be.
//
//   router ── GET /v1/scale {nodes, wanted, reason} ──> Autoscaler ── set(wish) ──> ScaleDriver
//
// The router decides (plan/scaler.h), and looks long enough that one may do as it says. While no
// router answers nothing changes: not to know is no reason to end a node.
#include <cstddef>
#include <memory>
#include <string>

#include "base/task.h"
#include "net/http/pool.h"

namespace warren::fleet {

// What a router says.
struct ScaleWish {
  std::size_t nodes = 0;  // that live and do not drain
  std::size_t wanted = 0;
  std::string reason = {};
};

// What can start and end nodes.
class ScaleDriver {
 public:
  virtual ~ScaleDriver() = default;
  // Told again and again: what is so already costs nothing, and a driver may get there step by step.
  // Starts nodes only while there are fewer than wanted, and ends some only while there are more, so
  // that they hand over what they have.
  virtual Async<> set(ScaleWish wish) = 0;
};

// Says it, and leaves the rest to whoever reads.
class PrintDriver : public ScaleDriver {
 public:
  Async<> set(ScaleWish wish) override;

 private:
  std::size_t last_ = 0;
};

struct AutoscaleTerms {
  HttpUrl router;
  std::string token = {};
  std::optional<TlsContext> tls = {};  // for a router at https://
  std::size_t least = 1, most = 100;
  std::chrono::milliseconds look = 2s;
};

// Until it is cancelled.
awaitable<void> autoscale(AutoscaleTerms terms, ScaleDriver& driver);

}  // namespace warren::fleet
