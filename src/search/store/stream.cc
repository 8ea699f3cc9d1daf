#include "search/store/stream.h"

#include <algorithm>
#include <cstring>

namespace warren::search {

namespace {

// Copied data stays in the cache until its checksum is computed.
constexpr std::size_t copied_at_once = 64u << 10;
// Mostly names of files that were left out. As objects they take several times as much.
constexpr std::uint64_t most_source_bytes = 64u << 20;

}  // namespace

SegmentSender::SegmentSender(std::shared_ptr<const Segment> segment)
    : segment_(std::move(segment)), front_(front_of(segment_->parts())) {
  bytes_ = front_.size();
  for (const auto& section : segment_->parts().sections) bytes_ += section.memory();
}

std::span<const std::byte> SegmentSender::next() {
  for (; part_ <= section_count; ++part_, at_ = 0) {
    std::span<const std::byte> whole = front_;
    if (part_ > 0) {
      const auto& section = segment_->parts().sections[part_ - 1];
      whole = {section.data, section.memory()};
    }
    auto rest = whole.subspan(at_);
    if (rest.empty()) continue;
    rest = rest.first(std::min(rest.size(), piece));
    at_ += rest.size();
    return rest;
  }
  return {};
}

Result<> SegmentReceiver::take(std::span<const std::byte> bytes) {
  if (failure_) return std::unexpected(*failure_);
  received_ += bytes.size();
  Result<> result = ok;
  while (result && !bytes.empty()) {
    if (is_whole()) {
      result = fail(Errc::invalid, "the segment goes on behind its end");
      break;
    }
    if (into_ == nullptr) result = begin_part();
    if (!result) break;
    auto some = std::min({bytes.size(), wanted_ - have_, copied_at_once});
    if (some > 0) std::memcpy(into_ + have_, bytes.data(), some);
    bytes = bytes.subspan(some);
    auto summed = have_ / Checksum::step * Checksum::step;
    have_ += some;
    sum_.add(into_ + summed, have_ / Checksum::step * Checksum::step - summed);
    while (result && !is_whole() && have_ == wanted_) {
      result = end_part();
      if (result && !is_whole()) result = begin_part();
    }
  }
  if (!result) {
    failure_ = result.error();
    parts_.reset();
    region_.reset();
    front_ = {};
  }
  return result;
}

// Allocates the next part, whose size is known by now.
Result<> SegmentReceiver::begin_part() {
  sum_ = {};
  have_ = 0;
  if (part_ < 2) {
    wanted_ = part_ == 0 ? page_bytes : in_pages(head_->source_bytes);
    front_.assign(wanted_, std::byte{0});
    into_ = front_.data();
    return ok;
  }
  auto size = head_->sizes[part_ - 2];
  auto region = Region::make(size);
  if (!region) return std::unexpected(region.error());
  region_ = std::move(*region);
  wanted_ = in_pages(size);
  into_ = region_->data();
  return ok;
}

Result<> SegmentReceiver::end_part() {
  auto place = part_++;
  if (place == 0) return note_head();
  auto sum = sum_.value();
  if (place == 1) {
    if (sum != head_->source_checksum)
      return fail(Errc::invalid, "the segment is damaged in its source");
    auto read = read_source(*head_, front_, *parts_);
    front_ = {};
    return read ? read : fail(Errc::invalid, "the segment {}", read.error().what);
  }
  auto kind = place - 2;
  if (sum != head_->checksums[kind])
    return fail(Errc::invalid, "the segment is damaged in its {}",
                name(static_cast<SectionKind>(kind)));
  auto size = head_->sizes[kind];
  if (size > 0) {
    parts_->sections[kind] = Section::whole(std::move(region_), size);
    parts_->sections[kind].noted = sum;
  }
  return ok;
}

Result<> SegmentReceiver::note_head() {
  auto head = read_head(front_);
  if (!head) return fail(Errc::invalid, "what was received {}", head.error().what);
  if (head->file_bytes > most_bytes_)
    return fail(Errc::overloaded, "a segment of {} MB is more than the {} MB allowed",
                head->file_bytes >> 20, most_bytes_ >> 20);
  if (head->source_bytes > most_source_bytes)
    return fail(Errc::invalid, "the segment has {} MB of names", head->source_bytes >> 20);
  head_ = *head;
  return ok;
}

Result<std::shared_ptr<const Segment>> SegmentReceiver::finish() {
  if (failure_) return std::unexpected(*failure_);
  if (!is_whole())
    return fail(Errc::invalid, "the segment ends after {} of {} bytes", received_, expected());
  if (!parts_) return fail(Errc::invalid, "the segment was taken already");
  if (!is_sound(*parts_)) return fail(Errc::invalid, "the segment contradicts itself");
  return std::make_shared<const Segment>(std::move(parts_));
}

Result<> write_segment(std::shared_ptr<const Segment> segment, const ByteSink& sink) {
  SegmentSender sender(std::move(segment));
  for (auto piece = sender.next(); !piece.empty(); piece = sender.next())
    if (auto written = sink(piece); !written) return written;
  return ok;
}

Result<std::shared_ptr<const Segment>> read_segment(const ByteSource& source,
                                                    std::uint64_t most_bytes) {
  SegmentReceiver receiver(most_bytes);
  std::vector<std::byte> buffer(SegmentSender::piece);
  while (!receiver.is_whole()) {
    auto got = source(buffer);
    if (!got) return std::unexpected(got.error());
    if (*got == 0) break;
    auto taken = receiver.take(std::span(buffer).first(*got));
    if (!taken) return std::unexpected(taken.error());
  }
  return receiver.finish();
}

}  // namespace warren::search
