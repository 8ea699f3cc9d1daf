#pragma once
// Segments on disk, for whoever asks for the same again.
//
//   KEY.base    a whole segment, written once and then only read
//   KEY.delta   what changed since, kept when it is more than a little; a little is read anew
//   KEY.seen    when it was used last, and how the files were then
//
// A file is checked to its last byte when it is seen for the first time, and again when anybody has
// written to it, or the machine was started since: until then it is what was read. Any number of
// processes use one folder; each file is replaced whole.
#include <array>
#include <cstdint>
#include <string>

#include "search/store/delta.h"

namespace warren::search {

class SegmentCache {
 public:
  static constexpr std::size_t usual_bytes = std::size_t{8} << 30;
  // Makes the folder, for its owner alone. Errc::unavailable: it cannot be made or is another's.
  static Result<SegmentCache> open(const std::string& folder, std::size_t most_bytes = usual_bytes);

  // The base, and the delta if there is one; null: nothing that is whole. Counts as use.
  SegmentListPtr load(const std::string& key) const;
  // A new base makes an old delta worthless: both go together. What was not used for longest goes
  // when all is more than most_bytes, or the disk is full and would not be without it.
  // Errc::overloaded: it is full all the same. Errc::unavailable: it may not be written.
  Result<> save_base(const std::string& key, const Segment& segment) const;
  // Nothing is saved when the base is no longer the one of that version: another process has
  // replaced it, and most of this delta is in the new one.
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
