#pragma once
// A copy of objects of one kind, as a watch tells of them. Opens no socket.
#include <boost/json/value.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "net/kube/object.h"

namespace warren::kube {

// Shared by the cache and by whoever reads it, and never changed.
using ObjectRef = std::shared_ptr<const Object>;

// One of the two may be null.
struct Difference {
  ObjectRef before, after;
};

class Cache {
 public:
  std::optional<Difference> put(Object object);  // none: it is the same version
  std::optional<Difference> remove(const Object& object);
  // All there are: what is not among them is gone.
  std::vector<Difference> replace(std::vector<Object> objects);
  // The same, one by one: between begin_replace() and end_replace() everything is put().
  void begin_replace();
  std::vector<Difference> end_replace();

  ObjectRef find(std::string_view space, std::string_view name) const;
  std::vector<ObjectRef> all() const;
  std::size_t size() const { return objects_.size(); }

 private:
  struct Entry {
    ObjectRef object;
    std::uint64_t round;  // of the replacing that saw it last
  };
  std::map<std::string, Entry, std::less<>> objects_;  // by namespace/name
  std::uint64_t round_ = 0;
};

}  // namespace warren::kube
