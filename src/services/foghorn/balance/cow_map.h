#pragma once
// A map by name whose copies share what is the same in them.
//
//   root ── 64 pages ── 64 buckets each ── a few values each
//
// A copy is one pointer. Whoever writes names an edition: parts that were made in this edition are
// changed in place, older ones are copied first, since a copy of the map may still show them. So
// the first change after a copy costs a root, a page and a bucket, however large the map is.
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace warren::balance {

// T can be copied, is made from a name, and says its name by `key()`.
template <class T>
class CowMap {
 public:
  const T* find(std::string_view key) const {
    auto hash = hash_of(key);
    if (!root_) return nullptr;
    const auto& page = root_->parts[page_of(hash)];
    if (!page) return nullptr;
    const auto& bucket = page->parts[bucket_of(hash)];
    if (!bucket) return nullptr;
    for (const auto& slot : bucket->slots)
      if (slot.hash == hash && slot.value->key() == key) return slot.value.get();
    return nullptr;
  }

  // Made when it is missing.
  T& edit(std::uint64_t edition, std::string_view key) {
    auto hash = hash_of(key);
    auto& slots = own_bucket(edition, hash).slots;
    for (auto& slot : slots) {
      if (slot.hash != hash || slot.value->key() != key) continue;
      if (slot.edition != edition) slot = {hash, edition, std::make_shared<T>(*slot.value)};
      return *slot.value;
    }
    slots.push_back({hash, edition, std::make_shared<T>(key)});
    ++root_->size;
    return *slots.back().value;
  }

  void erase(std::uint64_t edition, std::string_view key) {
    if (!find(key)) return;
    auto hash = hash_of(key);
    std::erase_if(own_bucket(edition, hash).slots,
                  [&](const Slot& slot) { return slot.hash == hash && slot.value->key() == key; });
    --root_->size;
  }

  // In no order.
  template <class Visit>
  void each(Visit visit) const {
    if (!root_) return;
    for (const auto& page : root_->parts) {
      if (!page) continue;
      for (const auto& bucket : page->parts) {
        if (!bucket) continue;
        for (const auto& slot : bucket->slots) visit(std::as_const(*slot.value));
      }
    }
  }

  std::size_t size() const { return root_ ? root_->size : 0; }

 private:
  struct Slot {
    std::size_t hash;
    std::uint64_t edition;
    std::shared_ptr<T> value;  // owned by all editions that have it, as the parts below
  };
  struct Bucket {
    std::uint64_t edition = 0;
    std::vector<Slot> slots = {};
  };
  struct Page {
    std::uint64_t edition = 0;
    std::array<std::shared_ptr<Bucket>, 64> parts = {};
  };
  struct Root {
    std::uint64_t edition = 0;
    std::size_t size = 0;
    std::array<std::shared_ptr<Page>, 64> parts = {};
  };

  static std::size_t hash_of(std::string_view key) { return std::hash<std::string_view>()(key); }
  static std::size_t page_of(std::size_t hash) { return hash % 64; }
  static std::size_t bucket_of(std::size_t hash) { return hash / 64 % 64; }

  template <class Part>
  static Part& own(std::uint64_t edition, std::shared_ptr<Part>& part) {
    if (!part || part->edition != edition) {
      part = part ? std::make_shared<Part>(*part) : std::make_shared<Part>();
      part->edition = edition;
    }
    return *part;
  }
  Bucket& own_bucket(std::uint64_t edition, std::size_t hash) {
    auto& page = own(edition, own(edition, root_).parts[page_of(hash)]);
    return own(edition, page.parts[bucket_of(hash)]);
  }

  std::shared_ptr<Root> root_;
};

}  // namespace warren::balance
