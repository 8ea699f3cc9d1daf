#pragma once
// Whether the process of an instance still exists.
#include "services/instance/entry.h"

namespace warren::cli {

// gone: this machine has no such process, or another one has its number by now. unknown: it is on
// another machine, or we have no permission. This is only a hint, since two machines may have the
// same name. The only certainty is that a lock expires when it is no longer renewed.
enum class ProcessState { lives, gone, unknown };
ProcessState process_of(const InstanceEntry& entry);

}  // namespace warren::cli
