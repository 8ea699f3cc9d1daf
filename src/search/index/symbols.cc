#include "search/index/symbols.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "search/index/ctags.h"
#include "search/parallel.h"

namespace warren::search {

namespace {

constexpr std::size_t most_kinds = 255;
constexpr std::uint32_t most_lines = 1u << 24;
constexpr int most_restarts = 100;

char folded(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

// Compares as if both were lowercase.
int compare_folded(std::string_view a, std::string_view b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    auto x = static_cast<unsigned char>(folded(a[i])), y = static_cast<unsigned char>(folded(b[i]));
    if (x != y) return x < y ? -1 : 1;
  }
  return a.size() < b.size() ? -1 : a.size() > b.size() ? 1 : 0;
}

// Numbers strings; each is stored once.
class Names {
 public:
  std::uint32_t number(const std::string& name) {
    auto [place, is_new] = numbers_.try_emplace(name, static_cast<std::uint32_t>(names_.size()));
    if (is_new) {
      names_.push_back(&place->first);
      memory_ += name.capacity() + 96;  // including its node
    }
    return place->second;
  }
  const std::string& name(std::uint32_t number) const { return *names_[number]; }
  std::size_t count() const { return names_.size(); }
  std::size_t memory() const { return memory_; }

 private:
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::vector<const std::string*> names_;
  std::size_t memory_ = 0;
};

// All symbols found so far. Until the end, entries refer to names by number.
struct Harvest {
  const Segment& segment;
  const SymbolTerms& terms;
  std::mutex mutex = {};
  Names names = {};
  std::vector<std::uint32_t> kinds = {};
  std::vector<SymbolEntry> entries = {};
  std::atomic<std::uint32_t> next_file = 0;
  std::atomic<int> restarts = 0;

  Result<> add(std::uint32_t file, const std::vector<Tag>& tags);
  Result<> work(int thread);
};

Result<> Harvest::add(std::uint32_t file, const std::vector<Tag>& tags) {
  std::lock_guard lock(mutex);
  for (const auto& tag : tags) {
    if (tag.name.empty() || tag.line == 0 || tag.line >= most_lines) continue;
    if (tag.name.find('\0') != std::string::npos) continue;
    auto kind = std::find(kinds.begin(), kinds.end(), names.number(tag.kind));
    if (kind == kinds.end() && kinds.size() < most_kinds)
      kind = kinds.insert(kinds.end(), names.number(tag.kind));
    auto place = kind == kinds.end() ? 0 : static_cast<std::uint32_t>(kind - kinds.begin());
    entries.push_back(
        {names.number(tag.name), names.number(tag.parent), file, tag.line << 8 | place});
  }
  auto used = names.memory() * 2 + entries.capacity() * sizeof(SymbolEntry) * 2;
  if (used <= terms.memory_bytes) return ok;
  return fail(Errc::overloaded, "symbols need more than the {} MB allowed",
              terms.memory_bytes >> 20);
}

Result<> Harvest::work(int thread) {
  std::optional<Ctags> ctags;
  std::vector<Tag> tags;
  for (std::uint32_t place; (place = next_file++) < segment.file_count();) {
    if (thread == 0 && terms.progress)
      terms.progress(static_cast<double>(place) / segment.file_count());
    auto file = segment.file(place);
    auto text = segment.text(place);
    if (file.language.empty() || text.empty() || text.size() > terms.largest_file) continue;
    if (!ctags) {
      auto started = Ctags::start(terms);
      if (!started) return std::unexpected(started.error());
      ctags.emplace(std::move(*started));
    }
    tags.clear();
    auto asked = ctags->ask(file.path, text, [&](Tag&& tag) { tags.push_back(std::move(tag)); });
    if (!asked) {
      ctags.reset();
      if (++restarts > most_restarts) return fail(Errc::unavailable, "ctags fails again and again");
      continue;
    }
    auto added = add(place, tags);
    if (!added) return added;
  }
  return ok;
}

// Sorts the entries by name and replaces the numbers with positions of names.
void arrange(Harvest& harvest, std::string& blob) {
  auto& [segment, terms, mutex, names, kinds, entries, next, restarts] = harvest;
  std::vector<std::uint32_t> order(names.count()), rank(names.count()), place(names.count());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&names](auto a, auto b) {
    int way = compare_folded(names.name(a), names.name(b));
    return way != 0 ? way < 0 : names.name(a) < names.name(b);
  });
  for (std::uint32_t i = 0; i < order.size(); ++i) rank[order[i]] = i;
  std::sort(entries.begin(), entries.end(), [&rank](const auto& a, const auto& b) {
    return std::tuple(rank[a.name], a.file, a.line_and_kind, a.parent) <
           std::tuple(rank[b.name], b.file, b.line_and_kind, b.parent);
  });
  blob.assign(4 + kinds.size() * 4, '\0');
  for (auto number : order) {
    place[number] = static_cast<std::uint32_t>(blob.size());
    blob += names.name(number);
    blob += '\0';
  }
  auto count = static_cast<std::uint32_t>(kinds.size());
  std::memcpy(blob.data(), &count, 4);
  for (std::size_t i = 0; i < kinds.size(); ++i)
    std::memcpy(blob.data() + 4 + i * 4, &place[kinds[i]], 4);
  for (auto& entry : entries) {
    entry.name = place[entry.name];
    entry.parent = place[entry.parent];
  }
}

// After the count of kinds and their positions.
std::size_t begin_of_names(const Section& names) {
  std::uint32_t kinds = 0;
  if (names.size >= 4) std::memcpy(&kinds, names.data, 4);
  return std::min(names.size, 4 + std::size_t{kinds} * 4);
}

Symbol symbol_at(const Segment::Parts& parts, const SymbolEntry& entry) {
  const char* names = parts.at(SectionKind::symbol_names).chars();
  std::uint32_t kind = 0;
  std::memcpy(&kind, names + 4 + std::size_t{entry.line_and_kind & 0xff} * 4, 4);
  return {.name = names + entry.name,
          .file = entry.file,
          .line = entry.line_and_kind >> 8,
          .kind = names + kind,
          .parent = names + entry.parent};
}

}  // namespace

bool Segment::has_symbols() const { return parts_->at(SectionKind::symbol_names).size > 0; }

void Segment::find_symbols(std::string_view name,
                           const std::function<bool(const Symbol&)>& visit) const {
  auto entries = parts_->at(SectionKind::symbols).as<SymbolEntry>();
  const char* names = parts_->at(SectionKind::symbol_names).chars();
  auto way = [&](const SymbolEntry& entry) { return compare_folded(names + entry.name, name); };
  auto begin = std::partition_point(entries.begin(), entries.end(),
                                    [&](const auto& entry) { return way(entry) < 0; });
  auto end = std::partition_point(begin, entries.end(),
                                  [&](const auto& entry) { return way(entry) == 0; });
  for (bool is_exact : {true, false})
    for (auto entry = begin; entry != end; ++entry)
      if ((names + entry->name == name) == is_exact && !visit(symbol_at(*parts_, *entry))) return;
}

void Segment::each_symbol(const std::function<bool(const Symbol&)>& visit) const {
  for (const auto& entry : parts_->at(SectionKind::symbols).as<SymbolEntry>())
    if (!visit(symbol_at(*parts_, entry))) return;
}

std::string_view Segment::symbol_names() const {
  const auto& names = parts_->at(SectionKind::symbol_names);
  return std::string_view(names.chars(), names.size).substr(begin_of_names(names));
}

void Segment::symbols_named_at(std::size_t place,
                               const std::function<bool(const Symbol&)>& visit) const {
  // Names are stored in the order of the entries.
  auto entries = parts_->at(SectionKind::symbols).as<SymbolEntry>();
  place += begin_of_names(parts_->at(SectionKind::symbol_names));
  auto entry = std::partition_point(entries.begin(), entries.end(),
                                    [&](const auto& one) { return one.name < place; });
  for (; entry != entries.end() && entry->name == place; ++entry)
    if (!visit(symbol_at(*parts_, *entry))) return;
}

bool has_sound_symbols(const Segment::Parts& parts) {
  const auto& names = parts.at(SectionKind::symbol_names);
  auto entries = parts.at(SectionKind::symbols).as<SymbolEntry>();
  if (names.size == 0) return entries.empty();
  std::uint32_t kinds = 0;
  if (names.size < 4 || names.chars()[names.size - 1] != '\0') return false;
  std::memcpy(&kinds, names.data, 4);
  if (names.size == 4) return kinds == 0 && entries.empty();  // no symbols were found
  if (kinds > most_kinds || names.size < 4 + std::size_t{kinds} * 4) return false;
  for (std::uint32_t place : std::span(names.as<std::uint32_t>()).subspan(1, kinds))
    if (place >= names.size) return false;
  return std::all_of(entries.begin(), entries.end(), [&](const SymbolEntry& entry) {
    return entry.name < names.size && entry.parent < names.size &&
           entry.file < parts.file_count() && (entry.line_and_kind & 0xff) < kinds;
  });
}

Result<std::shared_ptr<const Segment>> with_symbols(std::shared_ptr<const Segment> segment,
                                                    const SymbolTerms& terms) {
  auto probe = Ctags::start(terms);
  if (!probe) return segment;
  Harvest harvest{*segment, terms};
  auto done =
      in_parallel(std::max(1, terms.threads), [&](int thread) { return harvest.work(thread); });
  if (!done) return std::unexpected(done.error());
  std::string blob;
  arrange(harvest, blob);
  auto& entries = harvest.entries;
  auto size = entries.size() * sizeof(SymbolEntry);
  auto symbols = Region::make(size);
  auto names = Region::make(blob.size());
  if (!symbols || !names || blob.size() > UINT32_MAX)
    return fail(Errc::overloaded, "there is no memory for {} symbols", entries.size());
  if (size > 0) std::memcpy((*symbols)->data(), entries.data(), size);
  std::memcpy((*names)->data(), blob.data(), blob.size());
  auto parts = std::make_unique<Segment::Parts>(segment->parts());
  parts->at(SectionKind::symbols) = Section::whole(std::move(*symbols), size);
  parts->at(SectionKind::symbol_names) = Section::whole(std::move(*names), blob.size());
  return std::make_shared<const Segment>(std::move(parts));
}

}  // namespace warren::search
