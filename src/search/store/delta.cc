#include "search/store/delta.h"

#include <unordered_map>

#include "search/index/parts.h"
#include "search/source/blob_id.h"
#include "search/source/repository.h"

namespace warren::search {

namespace {

constexpr std::size_t most_pieces = 8;

struct Place {
  std::uint32_t segment, file;
};

std::vector<std::uint16_t> branches_of(const Segment& segment, std::uint32_t file) {
  std::vector<std::uint16_t> branches;
  auto count = static_cast<std::uint16_t>(segment.branches().size());
  for (std::uint16_t branch = 0; branch < count; ++branch)
    if (segment.is_on_branch(file, branch)) branches.push_back(branch);
  return branches;
}

std::size_t size_of(const Segment& segment, std::uint32_t file) {
  return segment.parts().files()[file].size;
}

// Which parts of a new state the current segments contain, and which must be read.
class Change {
 public:
  Change(const SegmentList& before, Listing listing)
      : before_(before), listing_(std::move(listing)) {
    live_.reserve(listing_.entries.size());
    for (std::uint32_t i = 0; i < before.size(); ++i) {
      marks_.push_back(before[i]->parts().dead);
      marks_.back().resize((before[i]->file_count() + 63) / 64);
      add_segment(i);
    }
    for (const auto& segment : before)
      for (const auto& skipped : segment->skipped())
        if (!skipped.blob.empty()) skipped_.emplace(skipped.path + '\0' + skipped.blob, &skipped);
    compare();
  }

  bool wants_rebuild(std::size_t delta_from) const;
  MemoryForecast forecast(const UpdateTerms& terms) const;
  Result<SegmentListPtr> rebuild(const ReadEntries& read, const UpdateTerms& terms);
  Result<SegmentListPtr> extend(const ReadEntries& read, const UpdateTerms& terms);

 private:
  void add_segment(std::uint32_t place);
  void compare();
  void mark_dead(Place place);
  // Where the texts of the entries are, by raw blob.
  std::unordered_map<std::string, Place> texts_of(
      const std::vector<const TreeEntry*>& entries) const;
  // The documents of the entries, from segments where possible, otherwise from the source.
  Result<> collect(const ReadEntries& read, const std::vector<const TreeEntry*>& entries,
                   SegmentBuilder& builder);

  const SegmentList& before_;
  Listing listing_;
  std::unordered_map<std::string, Place> live_;  // key: path, NUL, raw blob
  std::unordered_map<std::string, const Skipped*> skipped_;
  std::vector<std::vector<std::uint64_t>> marks_;  // dead files of each segment
  std::vector<const TreeEntry*> present_, changed_;
  std::size_t bytes_ = 0, changed_bytes_ = 0, dead_bytes_ = 0, delta_bytes_ = 0;
};

void Change::add_segment(std::uint32_t place) {
  const auto& segment = *before_[place];
  for (std::uint32_t file = 0; file < segment.file_count(); ++file) {
    auto view = segment.file(file);
    if (!segment.is_dead(file)) {
      std::string key(view.path);
      (key += '\0') += view.blob;
      // It exists already: two processes stored what both had read. One copy is enough.
      if (!live_.try_emplace(std::move(key), Place{place, file}).second) mark_dead({place, file});
    } else {
      dead_bytes_ += size_of(segment, file);
    }
    if (place > 0) delta_bytes_ += size_of(segment, file);
  }
}

void Change::compare() {
  for (const auto& entry : listing_.entries) {
    auto skipped =
        skipped_.empty() ? skipped_.end() : skipped_.find(entry.path + '\0' + entry.blob);
    if (skipped != skipped_.end()) {
      listing_.source.skipped.push_back(*skipped->second);
      continue;
    }
    bytes_ += entry.size;
    present_.push_back(&entry);
    auto found = live_.find(entry.path + '\0' + raw_id(entry.blob));
    bool is_kept = found != live_.end() && branches_of(*before_[found->second.segment],
                                                       found->second.file) == entry.branches;
    if (is_kept) {
      live_.erase(found);
    } else {
      changed_.push_back(&entry);
      changed_bytes_ += entry.size;
    }
  }
  for (const auto& [key, place] : live_) mark_dead(place);  // the rest has changed or is gone
}

void Change::mark_dead(Place place) {
  marks_[place.segment][place.file / 64] |= std::uint64_t{1} << (place.file % 64);
  dead_bytes_ += size_of(*before_[place.segment], place.file);
}

std::unordered_map<std::string, Place> Change::texts_of(
    const std::vector<const TreeEntry*>& entries) const {
  std::unordered_map<std::string, Place> texts;
  if (before_.empty()) return texts;
  constexpr Place nowhere{UINT32_MAX, 0};
  texts.reserve(entries.size());
  for (const auto* entry : entries) texts.emplace(raw_id(entry->blob), nowhere);
  std::string blob;
  for (std::uint32_t place = 0; place < before_.size(); ++place)
    for (std::uint32_t file = 0; file < before_[place]->file_count(); ++file) {
      blob = before_[place]->file(file).blob;
      auto found = texts.find(blob);
      if (found != texts.end()) found->second = {place, file};
    }
  std::erase_if(texts, [](const auto& text) { return text.second.segment == UINT32_MAX; });
  return texts;
}

bool Change::wants_rebuild(std::size_t delta_from) const {
  if (before_.empty() || bytes_ < delta_from) return true;
  if (before_[0]->branches() != listing_.source.branches) return true;
  return before_.size() + 1 > most_pieces || (delta_bytes_ + changed_bytes_) * 10 > bytes_ ||
         dead_bytes_ * 5 > bytes_;
}

MemoryForecast Change::forecast(const UpdateTerms& terms) const {
  if (wants_rebuild(terms.delta_from)) return forecast_memory(listing_, terms.build);
  Listing part;
  part.source = listing_.source;
  for (const auto* entry : changed_) part.entries.push_back(*entry);
  return forecast_memory(part, terms.build);
}

Result<> Change::collect(const ReadEntries& read, const std::vector<const TreeEntry*>& entries,
                         SegmentBuilder& builder) {
  std::vector<TreeEntry> unknown;
  auto texts = texts_of(entries);
  for (const auto* entry : entries) {
    auto found = texts.find(raw_id(entry->blob));
    if (found == texts.end()) {
      unknown.push_back(*entry);
      continue;
    }
    auto [segment, file] = found->second;
    auto added = builder.add(
        {entry->path, std::string(before_[segment]->text(file)), entry->blob, entry->branches});
    if (!added) return added;
  }
  return read(unknown, listing_.source.skipped,
              [&](Document&& document) { return builder.add(std::move(document)); });
}

Result<SegmentListPtr> Change::rebuild(const ReadEntries& read, const UpdateTerms& terms) {
  SegmentBuilder builder(terms.build);
  auto collected = collect(read, present_, builder);
  if (!collected) return std::unexpected(collected.error());
  auto built = builder.build(std::move(listing_.source));
  if (!built) return std::unexpected(built.error());
  return std::make_shared<const SegmentList>(SegmentList{std::move(*built)});
}

Result<SegmentListPtr> Change::extend(const ReadEntries& read, const UpdateTerms& terms) {
  SegmentBuilder builder(terms.build);
  auto collected = collect(read, changed_, builder);
  if (!collected) return std::unexpected(collected.error());
  auto& source = listing_.source;
  SegmentList after;
  for (std::size_t i = 0; i < before_.size(); ++i) {
    auto parts = std::make_unique<Segment::Parts>(before_[i]->parts());
    parts->dead = std::move(marks_[i]);
    parts->source.version = source.version;
    parts->source.skipped = {};
    if (i == 0) parts->source.skipped = source.skipped;
    after.push_back(std::make_shared<const Segment>(std::move(parts)));
  }
  source.skipped.clear();  // the base lists them
  auto delta = builder.build(source);
  if (!delta) return std::unexpected(delta.error());
  if ((*delta)->file_count() > 0) after.push_back(std::move(*delta));
  return std::make_shared<const SegmentList>(std::move(after));
}

const SegmentList& list_of(const SegmentListPtr& current) {
  static const SegmentList nothing;
  return current ? *current : nothing;
}

}  // namespace

Result<SegmentListPtr> update_repository(const std::string& path, std::vector<std::string> refs,
                                         const SegmentListPtr& current, const UpdateTerms& terms) {
  if (refs.empty()) refs.emplace_back("HEAD");
  if (current && !current->empty() && current->front()->branches() == refs) {
    auto version = repository_version(path, refs);
    if (!version) return std::unexpected(version.error());
    if (*version == current->front()->version()) return current;
  }
  auto listing = list_repository(path, std::move(refs), terms.limits);
  if (!listing) return std::unexpected(listing.error());
  auto read = [&](std::span<const TreeEntry> entries, std::vector<Skipped>& skipped,
                  const Take& take) { return read_entries(path, entries, skipped, take); };
  return update_listing(std::move(*listing), read, current, terms);
}

Result<SegmentListPtr> update_listing(Listing listing, const ReadEntries& read,
                                      const SegmentListPtr& current, const UpdateTerms& terms) {
  Change change(list_of(current), std::move(listing));
  return change.wants_rebuild(terms.delta_from) ? change.rebuild(read, terms)
                                                : change.extend(read, terms);
}

MemoryForecast forecast_update(const Listing& listing, const SegmentListPtr& current,
                               const UpdateTerms& terms) {
  return Change(list_of(current), listing).forecast(terms);
}

}  // namespace warren::search
