#pragma once
// The same texts in every kind of segment there is: what is searched must not matter to the answer.
#include <string>
#include <utility>
#include <vector>

#include "search/index/parts.h"
#include "search/index/warm.h"
#include "search/store/delta.h"

namespace warren::search {

struct SegmentKinds {
  std::vector<std::pair<std::string, SegmentList>> lists;  // by name; the first one has the index
};

inline Result<std::shared_ptr<const Segment>> segment_of(const std::vector<Document>& documents,
                                                         const BuildTerms& terms) {
  SegmentBuilder builder(terms);
  for (auto document : documents)
    if (auto added = builder.add(std::move(document)); !added)
      return std::unexpected(added.error());
  return builder.build({.name = "corpus", .version = "1", .branches = {}, .skipped = {}});
}

// A base in which every third text is an old one and dead, and a delta with those of today.
inline Result<SegmentList> base_and_delta(const std::vector<Document>& documents,
                                          const BuildTerms& terms) {
  std::vector<Document> old = documents, today;
  for (std::size_t i = 0; i < documents.size(); i += 3) {
    old[i].text = documents[(i + 1) % documents.size()].text + "no longer there\n";
    today.push_back(documents[i]);
  }
  auto base = segment_of(old, terms), delta = segment_of(today, terms);
  if (!base) return std::unexpected(base.error());
  if (!delta) return std::unexpected(delta.error());
  auto parts = std::make_unique<Segment::Parts>((*base)->parts());
  parts->dead.resize(((*base)->file_count() + 63) / 64);
  std::map<std::string_view, bool> is_replaced;
  for (const auto& document : today) is_replaced[document.path] = true;
  for (std::uint32_t file = 0; file < (*base)->file_count(); ++file)
    if (is_replaced.contains((*base)->file(file).path))
      parts->dead[file / 64] |= std::uint64_t{1} << (file % 64);
  return SegmentList{std::make_shared<const Segment>(std::move(parts)), *delta};
}

// `file` is written to.
inline Result<SegmentKinds> kinds_of(const std::vector<Document>& documents, BuildTerms terms,
                                     const std::string& file) {
  SegmentKinds kinds;
  auto add = [&](std::string name, const Result<std::shared_ptr<const Segment>>& segment) {
    if (segment) kinds.lists.emplace_back(std::move(name), SegmentList{*segment});
    return segment.has_value();
  };
  auto indexed = segment_of(documents, terms);
  if (!add("indexed", indexed)) return std::unexpected(indexed.error());
  auto saved = (*indexed)->save(file);
  if (!saved) return std::unexpected(saved.error());
  auto loaded = Segment::load(file);
  if (!add("loaded", loaded)) return std::unexpected(loaded.error());
  auto warm = cooled(**indexed, terms);
  if (!add("warm", warm)) return std::unexpected(warm.error());
  auto delta = base_and_delta(documents, terms);
  if (!delta) return std::unexpected(delta.error());
  kinds.lists.emplace_back("delta", std::move(*delta));
  terms.with_index = false;
  auto scanned = segment_of(documents, terms);
  if (!add("scanned", scanned)) return std::unexpected(scanned.error());
  return kinds;
}

}  // namespace warren::search
