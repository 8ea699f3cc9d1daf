#include "net/kube/cache.h"

#include <utility>

namespace warren::kube {

namespace {

std::string key_of(std::string_view space, std::string_view name) {
  return fmt::format("{}/{}", space, name);
}

}  // namespace

std::optional<Difference> Cache::put(Object object) {
  auto& entry = objects_[key_of(namespace_of(object), name_of(object))];
  entry.round = round_;
  bool is_same = entry.object && version_of(*entry.object) == version_of(object) &&
                 !version_of(object).empty();
  if (is_same) return std::nullopt;
  auto before = std::exchange(entry.object, std::make_shared<const Object>(std::move(object)));
  return Difference{std::move(before), entry.object};
}

std::optional<Difference> Cache::remove(const Object& object) {
  auto found = objects_.find(key_of(namespace_of(object), name_of(object)));
  if (found == objects_.end()) return std::nullopt;
  // A newer object with this name has already been reported.
  if (uid_of(*found->second.object) != uid_of(object)) return std::nullopt;
  auto before = std::move(found->second.object);
  objects_.erase(found);
  return Difference{std::move(before), nullptr};
}

std::vector<Difference> Cache::replace(std::vector<Object> objects) {
  std::vector<Difference> differences;
  begin_replace();
  for (auto& object : objects)
    if (auto difference = put(std::move(object))) differences.push_back(*std::move(difference));
  for (auto& gone : end_replace()) differences.push_back(std::move(gone));
  return differences;
}

void Cache::begin_replace() { ++round_; }

std::vector<Difference> Cache::end_replace() {
  std::vector<Difference> gone;
  std::erase_if(objects_, [&](auto& each) {
    if (each.second.round == round_) return false;
    gone.push_back({std::move(each.second.object), nullptr});
    return true;
  });
  return gone;
}

ObjectRef Cache::find(std::string_view space, std::string_view name) const {
  auto found = objects_.find(key_of(space, name));
  return found == objects_.end() ? nullptr : found->second.object;
}

std::vector<ObjectRef> Cache::all() const {
  std::vector<ObjectRef> objects;
  objects.reserve(objects_.size());
  for (const auto& [key, entry] : objects_) objects.push_back(entry.object);
  return objects;
}

}  // namespace warren::kube
