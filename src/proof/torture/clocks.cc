#include "proof/torture/clocks.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "proof/torture/clock_setting.h"

namespace warren::torture {

std::vector<std::string> Clocks::environment() const {
  if (!can_lie()) return {};
  return {"LD_PRELOAD=" + shim_.string(), "WARREN_CLOCK_FOLDER=" + folder_.path().string()};
}

void Clocks::set(pid_t process, std::chrono::microseconds offset, double drift) const {
  ensure(can_lie(), "the shim is there");
  auto path = folder_.path() / std::to_string(process);
  int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  auto now = std::chrono::system_clock::now().time_since_epoch();
  ClockSetting setting{
      .offset_us = offset.count(),
      .since_us = std::chrono::duration_cast<std::chrono::microseconds>(now).count(),
      .drift_ppm = static_cast<long long>(drift * 1e6)};
  bool written = file >= 0 && ::write(file, &setting, sizeof setting) == sizeof setting;
  close(file);
  ensure(written, "the clock of a child can be set");
}

}  // namespace warren::torture
