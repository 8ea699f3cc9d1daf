#pragma once
// The setting that Clocks writes into a process's file, and the clock shim in that process reads.

struct ClockSetting {
  long long offset_us;  // added to the time of day
  long long since_us;   // the true time at which the drift began
  long long drift_ppm;  // added for each second since then
};
