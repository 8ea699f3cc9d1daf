#pragma once
// What is written down about an instance, and how.
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/error.h"

namespace warren {

// 1 to 63 of a-z, 0-9 and '-', beginning with a letter: a name in DNS, and harmless in keys.
Result<> check_instance_name(std::string_view name);

// One field of the list of instances. Members that others added are not kept.
struct InstanceEntry {
  std::string run_id = {};  // new at every start
  std::string workspace_path = {};
  WallClock::time_point started_at{};
  int orchestrator_pid = 0;
  std::string host = {}, user = {};
  std::string url = {};  // of its page, once it is ready
};

std::string to_json(const InstanceEntry& entry);
// Whoever wrote it may have left out all but the first four. Errc::protocol says what is wrong.
Result<InstanceEntry> parse_instance_entry(std::string_view json);

// The value of the lock. What it begins with, and how old that is, older programs look at.
std::string lock_value(const InstanceEntry& entry, WallClock::time_point now);

// How the keys of all instances of one Redis are called.
struct InstanceKeys {
  std::string prefix;       // holt, sett, warren
  bool is_cluster = false;  // then the prefix is a hash tag: one script sees all of them

  std::string counter() const { return start() + "instance_counter"; }
  std::string list() const { return start() + "instances"; }
  std::string lock(std::string_view name) const { return start() + std::string(name) + ":lock"; }
  // Where an instance hears what it is asked to do.
  std::string control(std::string_view name) const {
    return start() + std::string(name) + ":x:control";
  }
  std::string start() const { return is_cluster ? "{" + prefix + "}:" : prefix + ":"; }
};

}  // namespace warren
