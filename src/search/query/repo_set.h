#pragma once
// Which repositories a search may look into: all of them, or those of a list.
//
// It fails closed: a list is a list also when it is empty, and then nothing is found. Only who
// names none at all, as the command line does, searches everything.
#include <memory>
#include <string>
#include <unordered_set>

namespace warren::search {

class RepoSet {
 public:
  RepoSet() = default;  // all
  // Exactly these, by name. Copies share the list.
  static RepoSet of(std::unordered_set<std::string> names) {
    RepoSet set;
    set.names_ = std::make_shared<const std::unordered_set<std::string>>(std::move(names));
    return set;
  }

  bool is_all() const { return names_ == nullptr; }
  bool contains(const std::string& name) const { return is_all() || names_->contains(name); }

 private:
  // Equal owners: all copies, in every search that goes on. Null: all repositories.
  std::shared_ptr<const std::unordered_set<std::string>> names_;
};

}  // namespace warren::search
