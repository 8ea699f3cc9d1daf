#pragma once
// Segments on disk, so that asking for the same again is fast.
//
//   KEY.base    a whole segment, written once and then only read
//   KEY.delta   changes since then, kept if they are large; small ones are read again
//   KEY.seen    when it was last used, and the state of the files then
//
// A file is checked completely when it is first used, and again after any write to it or a reboot
// of the machine. Until then it is unchanged. Any number of processes can share one folder: files
// are only replaced as a whole.
#include <array>
#include <cstdint>
#include <string>

#include "search/store/delta.h"

namespace warren::search {

class SegmentCache {
 public:
  static constexpr std::size_t usual_bytes = std::size_t{8} << 30;
  // Creates the folder, accessible only to its owner. Errc::unavailable: it cannot be created, or
  // belongs to another user.
  static Result<SegmentCache> open(const std::string& folder, std::size_t most_bytes = usual_bytes);

  // The base, and the delta if there is one. Returns null if nothing complete exists. Counts as a
  // use.
  SegmentListPtr load(const std::string& key) const;
  // A new base makes the old delta worthless, so both are replaced together. The least recently
  // used segments are deleted if the total exceeds most_bytes, or if the disk is full and deleting
  // them frees enough. Errors: overloaded if it is still full, unavailable if we may not write.
  Result<> save_base(const std::string& key, const Segment& segment) const;
  // Saves nothing if the base is no longer of that version: another process has replaced it, and
  // the new base contains most of this delta.
  Result<> save_delta(const std::string& key, const Segment& segment,
                      const std::string& base_version) const;

 private:
  explicit SegmentCache(std::string folder, std::size_t most_bytes)
      : folder_(std::move(folder)), most_bytes_(most_bytes) {}
  std::string path_of(const std::string& key, std::string_view what) const;
  std::shared_ptr<const Segment> load(const std::string& path, bool is_known) const;
  void note_use(const std::string& key) const;
  Result<> save(const std::string& key, std::string_view what, const Segment& segment) const;
  void make_room(const std::string& key) const;
  bool free_disk(std::size_t bytes, const std::string& spared) const;

  std::string folder_;
  std::size_t most_bytes_;
};

}  // namespace warren::search
