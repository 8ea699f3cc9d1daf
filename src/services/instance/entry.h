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
  // Which process that is, where the number alone does not say so: see process_mark(). Empty of one
  // that another program started, or an older Warren.
  std::string process = {};
  // Written by a program that tells nothing of how far its start has come.
  bool is_foreign = false;
};

std::string to_json(const InstanceEntry& entry);
// Whoever wrote it may have left out all but the first four. Errc::protocol says what is wrong.
Result<InstanceEntry> parse_instance_entry(std::string_view json);

// Where and when a process began: of the kernel, its namespace of processes, and the process. Two
// processes with one number have different marks; empty where that cannot be told.
std::string process_mark(int pid);
// The process of the entry is dead for certain: this is its kernel and its namespace, and nobody, or
// somebody else, has its number. Host names say nothing of that: containers may share one.
bool is_known_dead(const InstanceEntry& entry);

// The value of the lock. What it begins with, and how old that is, older programs look at.
std::string lock_value(const InstanceEntry& entry, WallClock::time_point now);

// What it says of its owner: run_id, process and host; empty as far as it was written by others.
InstanceEntry parse_lock(std::string_view value);

// How the keys of all instances of one Redis are called.
struct InstanceKeys {
  std::string prefix;       // holt, sett, warren
  bool is_cluster = false;  // then the prefix is a hash tag: one script sees all of them

  std::string counter() const { return start() + "instance_counter"; }
  std::string list() const { return start() + "instances"; }
  // All that were ever started, and not destroyed: their boards are there.
  std::string boards() const { return start() + "boards"; }
  std::string lock(std::string_view name) const { return start() + std::string(name) + ":lock"; }
  // Where an instance hears what it is asked to do.
  std::string control(std::string_view name) const {
    return start() + std::string(name) + ":x:control";
  }
  std::string start() const { return is_cluster ? "{" + prefix + "}:" : prefix + ":"; }
};

}  // namespace warren
