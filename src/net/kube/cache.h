#pragma once
// A copy of the objects of one kind, built from what a watch reports. Opens no socket.
#include <boost/json/value.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "net/kube/object.h"

namespace warren::kube {

// Shared by the cache and its readers, and never modified.
using ObjectRef = std::shared_ptr<const Object>;

// Either may be null, but not both.
struct Difference {
  ObjectRef before, after;
};

class Cache {
 public:
  std::optional<Difference> put(Object object);  // nullopt if the version is the same
  std::optional<Difference> remove(const Object& object);
  // These are all objects: any other is gone.
  std::vector<Difference> replace(std::vector<Object> objects);
  // The same, one object at a time: put() every object between begin_replace() and end_replace().
  void begin_replace();
  std::vector<Difference> end_replace();

  ObjectRef find(std::string_view space, std::string_view name) const;
  std::vector<ObjectRef> all() const;
  std::size_t size() const { return objects_.size(); }

 private:
  struct Entry {
    ObjectRef object;
    std::uint64_t round;  // of the last replacement that contained it
  };
  std::map<std::string, Entry, std::less<>> objects_;  // by namespace/name
  std::uint64_t round_ = 0;
};

}  // namespace warren::kube
