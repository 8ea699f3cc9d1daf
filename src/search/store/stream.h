#pragma once
// A segment in transit to another machine, section by section, in the layout of format.h. The file
// of a segment may be sent unchanged.
//
//   SegmentSender     ── pieces ──>     SegmentReceiver
//   sections in place, no copy          each into its final memory; its checksum is computed
//                                       on the way and compared at its end
//
// The receiver allocates memory for a section when the section begins, after all sizes were checked
// against each other and against a limit. So its peak is the segment and little more. Any bad input
// (damaged, truncated, of another version, or made to deceive) is Errc::invalid and nothing worse.
// Checksums detect accidents. The connection must verify who the sender is.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "search/index/checksum.h"
#include "search/store/format.h"

namespace warren::search {

class SegmentSender {
 public:
  static constexpr std::size_t piece = 1u << 20;

  // Computes checksums that are not noted (see verify.h). For many GB that takes seconds.
  explicit SegmentSender(std::shared_ptr<const Segment> segment);
  std::uint64_t bytes() const { return bytes_; }  // in all
  // Returns at most one piece, valid as long as this object. Returns an empty span at the end.
  std::span<const std::byte> next();

 private:
  std::shared_ptr<const Segment> segment_;  // equal owners: all that serve it
  std::vector<std::byte> front_;
  std::uint64_t bytes_ = 0;
  std::size_t part_ = 0, at_ = 0;  // 0: the front, then the sections
};

class SegmentReceiver {
 public:
  // Errc::overloaded for a segment of more bytes.
  explicit SegmentReceiver(std::uint64_t most_bytes) : most_bytes_(most_bytes) {}

  // The stream may be split into pieces anywhere. After Errc::invalid or Errc::overloaded it is
  // over.
  Result<> take(std::span<const std::byte> bytes);
  std::uint64_t received() const { return received_; }
  std::uint64_t expected() const { return head_ ? head_->file_bytes : 0; }  // 0: not known yet
  bool is_whole() const { return part_ > section_count + 1; }
  // Call once, at the end. Errc::invalid: it was truncated, or its contents are inconsistent.
  Result<std::shared_ptr<const Segment>> finish();

 private:
  Result<> begin_part();
  Result<> end_part();
  Result<> note_head();

  std::uint64_t most_bytes_, received_ = 0;
  std::optional<SegmentHead> head_;
  std::unique_ptr<Segment::Parts> parts_ = std::make_unique<Segment::Parts>();
  std::size_t part_ = 0;            // 0: the head, 1: the source, then the sections
  std::vector<std::byte> front_;    // of the head or the source
  std::shared_ptr<Region> region_;  // of a section
  std::byte* into_ = nullptr;
  std::size_t have_ = 0, wanted_ = 0;
  Checksum sum_;
  std::optional<Error> failure_;
};

// The same with functions, for callers that may block.
using ByteSink = std::function<Result<>(std::span<const std::byte> bytes)>;
// Returns how many bytes were written to `into`; 0 at the end.
using ByteSource = std::function<Result<std::size_t>(std::span<std::byte> into)>;
Result<> write_segment(std::shared_ptr<const Segment> segment, const ByteSink& sink);
Result<std::shared_ptr<const Segment>> read_segment(const ByteSource& source,
                                                    std::uint64_t most_bytes);

}  // namespace warren::search
