#include "cli/search/index.h"

#include "search/index/symbols.h"
#include "search/source/classify.h"
#include "search/source/folder.h"
#include "search/source/skip.h"

namespace warren::cli {

namespace {

using namespace search;

// Increase it when the meaning of segments changes but their layout does not.
constexpr std::uint64_t meaning = 1;
// If more text than this changed since the base, store it instead of reading it again every time.
constexpr std::size_t kept_delta = 1u << 20;

using Kind = SearchPlace::Kind;

std::string key_of(const SearchPlace& place, const SourceLimits& limits) {
  Fingerprint key;
  key.add({meaning, language_count(), static_cast<std::uint64_t>(place.kind), limits.file_bytes});
  key.add(place.root);
  for (const auto& ref : place.refs) key.add(ref);
  return key.text();
}

class Opening {
 public:
  Opening(const SearchPlace& place, const SearchIndexTerms& terms) : place_(place), terms_(terms) {}

  Result<SearchIndex> run() {
    auto began = Clock::now();
    open_cache();
    if (auto done = find(); !done) return std::unexpected(done.error());
    if (auto done = add_symbols(); !done) return std::unexpected(done.error());
    index_.took = Clock::now() - began;
    const Skipped* unread = cache_ ? find_unread() : nullptr;
    if (unread != nullptr)
      index_.warning = fmt::format("{} {}", unread->path, unread->reason);
    else if (cache_ && (new_base_ || new_delta_))
      index_.keep = [cache = *cache_, key = key_, base = new_base_, delta = new_delta_,
                     version = before_ ? before_->front()->version() : std::string()] {
        return base ? cache.save_base(key, *base) : cache.save_delta(key, *delta, version);
      };
    return std::move(index_);
  }

 private:
  // A file that failed to be read must not be remembered as unreadable.
  const Skipped* find_unread() const {
    if (place_.kind == Kind::repository) return nullptr;
    for (const auto& segment : *index_.segments)
      for (const auto& skipped : segment->skipped())
        if (may_pass(skipped)) return &skipped;
    return nullptr;
  }

  void open_cache() {
    if (!terms_.uses_cache) return;
    if (terms_.cache_folder.empty()) {
      index_.warning = "neither XDG_CACHE_HOME nor HOME says where";
      return;
    }
    auto cache = SegmentCache::open(terms_.cache_folder);
    if (!cache) {
      index_.warning = cache.error().what;
      return;
    }
    cache_ = std::move(*cache);
    key_ = key_of(place_, terms_.update.limits);
    before_ = cache_->load(key_);
  }

  Result<> find() {
    // Do this before anything changes, so that the stored segments have symbols too.
    if (before_ && terms_.wants_symbols && !before_->front()->has_symbols()) {
      if (auto done = add_symbols_to_base(); !done) return done;
    }
    if (place_.kind == Kind::repository && before_) {
      auto version = repository_version(place_.root, place_.refs);
      if (!version) return std::unexpected(version.error());
      if (use_as_it_is(*version)) return ok;
    }
    auto listing = list();
    if (!listing) return std::unexpected(listing.error());
    if (use_as_it_is(listing->source.version)) return ok;
    return update(*listing);
  }

  bool use_as_it_is(const std::string& version) {
    if (!before_ || before_->front()->version() != version) return false;
    index_.segments = std::make_shared<const SegmentList>(SegmentList{before_->front()});
    index_.origin = "kept";
    return true;
  }

  Result<Listing> list() const {
    const auto& limits = terms_.update.limits;
    if (place_.kind == Kind::repository) return list_repository(place_.root, place_.refs, limits);
    return place_.kind == Kind::tree ? list_work_tree(place_.root, limits)
                                     : list_folder(place_.root, limits);
  }

  Result<> read(std::span<const TreeEntry> entries, std::vector<Skipped>& skipped,
                const Take& take) const {
    double total = 1, got = 0;
    for (const auto& entry : entries) total += static_cast<double>(entry.size);
    Take counted = [&](Document&& document) {
      got += static_cast<double>(document.text.size());
      terms_.progress(got / total, fmt::format("reading {:.0f} MB", total / 1e6));
      return take(std::move(document));
    };
    return place_.kind == Kind::repository
               ? read_entries(place_.root, entries, skipped, counted)
               : read_folder(place_.root, entries, terms_.update.limits, skipped, counted);
  }

  Result<> update(const Listing& listing) {
    auto read_texts = [this](std::span<const TreeEntry> entries, std::vector<Skipped>& skipped,
                             const Take& take) { return read(entries, skipped, take); };
    auto terms = terms_.update;
    terms.build.progress = [this](double part) { terms_.progress(part, "indexing"); };
    auto after = update_listing(listing, read_texts, before_, terms);
    if (!after) return std::unexpected(after.error());
    if (is_extended(**after) && (*after)->back()->arena().size() > kept_delta &&
        (*after)->size() > before_->size()) {
      // Build one delta with all changes since the base, to store it.
      if (before_->size() > 1) {
        auto base = std::make_shared<const SegmentList>(SegmentList{before_->front()});
        after = update_listing(listing, read_texts, base, terms);
        if (!after) return std::unexpected(after.error());
      }
      if (is_extended(**after) && (*after)->size() > 1) new_delta_ = (*after)->back();
    }
    index_.origin = is_extended(**after) ? "kept, with what changed" : "made";
    if (!is_extended(**after)) new_base_ = (*after)->front();
    index_.segments = std::move(*after);
    return ok;
  }

  // Whether the base is still the one that was loaded.
  bool is_extended(const SegmentList& after) const {
    return before_ && after.front()->parts().at(SectionKind::text).data ==
                          before_->front()->parts().at(SectionKind::text).data;
  }

  Result<> add_symbols_to_base() {
    auto base = with_symbols_of(before_->front());
    if (!base) return std::unexpected(base.error());
    auto list = *before_;
    list.front() = *base;
    before_ = std::make_shared<const SegmentList>(std::move(list));
    if ((*base)->has_symbols()) new_base_ = *base;
    return ok;
  }

  Result<std::shared_ptr<const Segment>> with_symbols_of(
      std::shared_ptr<const Segment> segment) const {
    SymbolTerms terms;
    terms.threads = terms_.update.build.threads;
    auto text = fmt::format("finding the symbols of {} files", segment->file_count());
    terms.progress = [&](double part) { terms_.progress(part, text); };
    return with_symbols(std::move(segment), terms);
  }

  Result<> add_symbols() {
    bool wants = terms_.wants_symbols || (before_ && before_->front()->has_symbols());
    if (!wants) return ok;
    SegmentList list = *index_.segments;
    for (auto& segment : list) {
      if (segment->has_symbols()) continue;
      auto made = with_symbols_of(segment);
      if (!made) return std::unexpected(made.error());
      if (new_base_ == segment) new_base_ = *made;
      if (new_delta_ == segment) new_delta_ = *made;
      segment = std::move(*made);
    }
    index_.segments = std::make_shared<const SegmentList>(std::move(list));
    return ok;
  }

  const SearchPlace& place_;
  const SearchIndexTerms& terms_;
  std::optional<SegmentCache> cache_;
  std::string key_;
  SegmentListPtr before_;
  std::shared_ptr<const Segment> new_base_, new_delta_;  // to be stored
  SearchIndex index_;
};

}  // namespace

Result<SearchIndex> open_search_index(const SearchPlace& place, const SearchIndexTerms& terms) {
  return Opening(place, terms).run();
}

}  // namespace warren::cli
