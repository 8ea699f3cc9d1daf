#pragma once
// A segment on its way to another machine, section by section, in the layout of format.h: a file of
// one may be sent as it is.
//
//   SegmentSender     ── pieces ──>     SegmentReceiver
//   sections as they are, no copy       each into the memory that it will stay in, its checksum
//                                       counted on the way and compared at its end
//
// The receiver takes memory for a section when the section begins, after all sizes were compared
// with each other and with a bound, so that its peak is the segment and little more. Whatever comes
// (damaged, truncated, of another version, or made to deceive) is Errc::invalid and nothing worse.
// Checksums find accidents. Whether the sender is who it should be is for the connection to know.
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

  // Computes checksums that are not noted (see verify.h): seconds for many GB.
  explicit SegmentSender(std::shared_ptr<const Segment> segment);
  std::uint64_t bytes() const { return bytes_; }  // in all
  // At most a piece, valid while this is; empty: that was all.
  std::span<const std::byte> next();

 private:
  std::shared_ptr<const Segment> segment_;  // equal owners: whoever serves it
  std::vector<std::byte> front_;
  std::uint64_t bytes_ = 0;
  std::size_t part_ = 0, at_ = 0;  // 0: the front, then the sections
};

class SegmentReceiver {
 public:
  // Errc::overloaded for segments of more bytes.
  explicit SegmentReceiver(std::uint64_t most_bytes) : most_bytes_(most_bytes) {}

  // However it comes in pieces. Errc::invalid, Errc::overloaded: that was it.
  Result<> take(std::span<const std::byte> bytes);
  std::uint64_t received() const { return received_; }
  std::uint64_t expected() const { return head_ ? head_->file_bytes : 0; }  // 0: not known yet
  bool is_whole() const { return part_ > section_count + 1; }
  // Once, at the end. Errc::invalid: it was truncated, or nobody could rely on what it holds.
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

// The same with functions, for whoever may wait.
using ByteSink = std::function<Result<>(std::span<const std::byte> bytes)>;
// How many bytes were put there; 0: that was all.
using ByteSource = std::function<Result<std::size_t>(std::span<std::byte> into)>;
Result<> write_segment(std::shared_ptr<const Segment> segment, const ByteSink& sink);
Result<std::shared_ptr<const Segment>> read_segment(const ByteSource& source,
                                                    std::uint64_t most_bytes);

}  // namespace warren::search
