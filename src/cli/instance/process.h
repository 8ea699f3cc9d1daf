#pragma once
// Whether the process of an instance is still there.
#include "services/instance/entry.h"

namespace warren::cli {

// gone: this machine has no such process, or its number is another's by now. unknown: it is on
// another machine, or may not be looked at. Only a hint, since machines may share a name: what is
// certain is that a lock which nobody renews expires.
enum class ProcessState { lives, gone, unknown };
ProcessState process_of(const InstanceEntry& entry);

}  // namespace warren::cli
