#pragma once
// Which repositories a search may examine: all of them, or those in a list.
//
// It fails closed: an empty list is still a list, and then nothing is found. Only without any list,
// as on the command line, is everything searched.
#include <memory>
#include <string>
#include <unordered_set>

namespace warren::search {

class RepoSet {
 public:
  RepoSet() = default;  // all repositories
  // Exactly these, by name. Copies share the list.
  static RepoSet of(std::unordered_set<std::string> names) {
    RepoSet set;
    set.names_ = std::make_shared<const std::unordered_set<std::string>>(std::move(names));
    return set;
  }

  bool is_all() const { return names_ == nullptr; }
  bool contains(const std::string& name) const { return is_all() || names_->contains(name); }

 private:
  // Equal owners: all copies, in every running search. Null: all repositories.
  std::shared_ptr<const std::unordered_set<std::string>> names_;
};

}  // namespace warren::search
