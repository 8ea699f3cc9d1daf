#include "search/query/evaluate.h"

#include <algorithm>
#include <cstring>

#include "search/index/parts.h"
#include "search/query/languages_match.h"

namespace warren::search {
namespace {

using Kind = PlanNode::Kind;

constexpr std::uint32_t blocks_per_clock = 64;
constexpr std::uint32_t ahead = 4;  // candidate blocks whose text is prefetched

}  // namespace

FileSearch::FileSearch(const Plan& plan, const SegmentPlan& fit, Watch& watch, bool counts_only)
    : plan_(plan),
      fit_(fit),
      segment_(*fit.segment),
      watch_(watch),
      counts_only_(counts_only),
      states_(plan.atoms.size()) {
  for (const auto& atom : plan.atoms) {
    finders_.emplace_back(atom.matcher, &watch);
    asked_ += atom.is_shown && atom.pattern.field != Field::path;
  }
}

bool FileSearch::look(std::uint32_t file, Hit& hit) {
  found_.clear();
  if (segment_.is_dead(file) || tick(1)) return false;
  if (!holds(fit_.root, file) || is_over_) return false;
  gather(fit_.root, file);
  if (is_over_) return false;
  hit.file = file;
  hit.matches = 0;
  for (auto atom : found_) hit.matches += states_[atom].matches;
  hit.matches = std::max<std::uint64_t>(hit.matches, 1);  // a path match, or only filters
  auto file_class = segment_.parts().files()[file].file_class;
  hit.score = score_of(signals(file), asked_, file_class, hit.matches);
  return true;
}

bool FileSearch::tick(std::uint32_t blocks) {
  if (until_clock_ > blocks) {
    until_clock_ -= blocks;
    return is_over_;
  }
  until_clock_ = blocks_per_clock;
  return is_over_ = is_over_ || watch_.is_over();
}

bool FileSearch::holds(const PlanNode& node, std::uint32_t file) {
  switch (node.kind) {
    case Kind::yes:
      return true;
    case Kind::no:
    case Kind::repo:
      return false;
    case Kind::atom:
      return atom_holds(node.atom, file);
    case Kind::language:
      return is_language(segment_.file(file).language, node.word);
    case Kind::branch:
      return std::ranges::any_of(
          node.branches, [&](std::uint16_t branch) { return segment_.is_on_branch(file, branch); });
    case Kind::both:
      return std::ranges::all_of(node.parts,
                                 [&](const PlanNode& part) { return holds(part, file); });
    case Kind::either:
      return std::ranges::any_of(node.parts,
                                 [&](const PlanNode& part) { return holds(part, file); });
    case Kind::neither:
      return !holds(node.parts[0], file);
  }
  return false;
}

// Collects all atoms to show, including those that did not decide whether the query holds.
void FileSearch::gather(const PlanNode& node, std::uint32_t file) {
  if (node.kind == Kind::atom && plan_.atoms[node.atom].is_shown && atom_holds(node.atom, file))
    found_.push_back(node.atom);
  if (node.kind != Kind::both && node.kind != Kind::either) return;
  for (const auto& part : node.parts)
    if (node.kind == Kind::both || holds(part, file)) gather(part, file);
}

bool FileSearch::atom_holds(std::size_t place, std::uint32_t file) {
  auto& state = states_[place];
  if (state.file == file) return state.holds;
  const auto& atom = plan_.atoms[place];
  state.file = file;
  state.matches = 0;
  state.spans.clear();
  state.signal = Signal{.pattern = atom.pattern.text};
  state.is_in_path =
      atom.looks_at_path() && std::ranges::binary_search(fit_.atoms[place].paths, file);
  // Below a "-" a match in the path is enough. Elsewhere all matches are shown.
  if (atom.pattern.field == Field::symbol)
    look_at_definitions(place, file);
  else if (atom.looks_at_content() && (atom.is_shown || !state.is_in_path))
    atom.matcher->is_multi_line() ? look_at_text(place, file) : look_at_blocks(place, file);
  state.matches = std::max<std::uint64_t>(state.matches, state.spans.size());
  state.holds = state.is_in_path || state.matches > 0;
  return state.holds;
}

void FileSearch::look_at_text(std::size_t atom, std::uint32_t file) {
  std::uint8_t flags = block_ascii;
  auto files = segment_.parts().files();
  std::uint32_t first = files[file].first_block, end = files[file + 1].first_block;
  for (auto block = first; block < end; ++block) flags &= segment_.parts().blocks()[block].flags();
  auto text = segment_.text(file);
  checked_bytes_ += text.size();
  checked_blocks_ += end - first;
  finders_[atom].find_all(text, flags != 0, states_[atom].spans,
                          plan_.atoms[atom].is_shown ? SIZE_MAX : 1);
  take_spans(atom, text, 0, 0);
  is_over_ = is_over_ || watch_.why() != Stop::none;
  tick(end - first);
}

void FileSearch::look_at_blocks(std::size_t atom, std::uint32_t file) {
  auto files = segment_.parts().files();
  const auto& fit = fit_.atoms[atom];
  auto& state = states_[atom];
  // A regular expression takes longer, so check the clock more often.
  const std::uint32_t weight = plan_.atoms[atom].matcher->literal() != nullptr ? 1 : 4;
  std::uint32_t block = files[file].first_block, end = files[file + 1].first_block;
  while (block < end) {
    std::uint32_t first = block;
    if (fit.blocks) {  // the next candidate
      const auto& list = *fit.blocks;
      if (state.cursor > 0 && list[state.cursor - 1] >= block) state.cursor = 0;
      std::size_t step = 1;
      while (state.cursor + step < list.size() && list[state.cursor + step] < block) step *= 2;
      auto from = list.begin() + static_cast<std::ptrdiff_t>(state.cursor);
      auto to = list.begin() +
                static_cast<std::ptrdiff_t>(std::min(state.cursor + step + 1, list.size()));
      state.cursor = static_cast<std::size_t>(std::lower_bound(from, to, block) - list.begin());
      if (state.cursor == list.size() || list[state.cursor] >= end) return;
      first = list[state.cursor];
    }
    std::uint32_t last =
        run_end(fit, state, first, std::min(end, first + blocks_per_clock / weight));
    if (!look_at_run(atom, first, last, files[file].offset) || tick((last - first) * weight))
      return;
    block = last;
  }
}

// The end of a run of candidate blocks that is scanned in one go.
std::uint32_t FileSearch::run_end(const AtomPlan& fit, State& state, std::uint32_t block,
                                  std::uint32_t end) {
  auto blocks = segment_.parts().blocks();
  if (segment_.is_warm()) return block + 1;
  const std::uint8_t ascii = blocks[block].flags() & block_ascii;
  std::uint32_t last = block + 1;
  if (!fit.blocks) {
    while (last < end && (blocks[last].flags() & block_ascii) == ascii) ++last;
    return last;
  }
  const auto& list = *fit.blocks;
  const char* text = segment_.parts().at(SectionKind::text).chars();
  std::size_t at = state.cursor + 1;
  while (at < list.size() && list[at] == last && last < end &&
         (blocks[last].flags() & block_ascii) == ascii)
    ++at, ++last;
  for (std::size_t soon = state.cursor + ahead; soon < std::min(at + ahead, list.size()); ++soon) {
    const char* there = text + blocks[list[soon]].offset();
    for (std::size_t line = 0; line < 8; ++line) __builtin_prefetch(there + line * 64);
  }
  state.cursor = at;
  return last;
}

std::string_view FileSearch::run_text(std::uint32_t first, std::uint32_t last) const {
  if (segment_.is_warm()) return segment_.block(first).text;
  auto begin = segment_.parts().blocks()[first].offset();
  return {segment_.parts().at(SectionKind::text).chars() + begin,
          block_end(segment_.parts(), last - 1) - begin};
}

// Returns false if one match was enough.
bool FileSearch::look_at_run(std::size_t atom, std::uint32_t first, std::uint32_t last,
                             std::uint64_t file_offset) {
  const auto& block = segment_.parts().blocks()[first];
  const Literal* literal = plan_.atoms[atom].matcher->literal();
  auto& state = states_[atom];
  auto text = run_text(first, last);
  checked_bytes_ += text.size();
  checked_blocks_ += last - first;
  bool is_shown = plan_.atoms[atom].is_shown;
  if (is_shown && counts_only_ && literal != nullptr) return count(*literal, text, state), true;
  std::size_t from = state.spans.size();
  finders_[atom].find_all(text, (block.flags() & block_ascii) != 0, state.spans,
                          is_shown ? SIZE_MAX : 1);
  take_spans(atom, text, from, block.offset() - file_offset);
  is_over_ = is_over_ || watch_.why() != Stop::none;
  return is_shown || state.spans.empty();
}

void FileSearch::count(const Literal& literal, std::string_view text, State& state) {
  auto& content = state.signal.content;
  bool has_word = content == Signal::Content::word;
  state.matches += literal.count(text, has_word);
  if (state.matches > 0) content = has_word ? Signal::Content::word : Signal::Content::partial;
}

void FileSearch::take_spans(std::size_t atom, std::string_view text, std::size_t from,
                            std::uint64_t base) {
  auto& state = states_[atom];
  auto& content = state.signal.content;
  for (std::size_t i = from; i < state.spans.size(); ++i) {
    auto& span = state.spans[i];
    if (content != Signal::Content::word)
      content = is_whole_word(text, span.begin, span.end) ? Signal::Content::word
                                                          : Signal::Content::partial;
    span.begin += static_cast<std::uint32_t>(base);
    span.end += static_cast<std::uint32_t>(base);
  }
}

void FileSearch::look_at_definitions(std::size_t atom, std::uint32_t file) {
  const auto& definitions = fit_.atoms[atom].definitions;
  auto& state = states_[atom];
  auto parts_files = segment_.parts().files();
  auto blocks = segment_.parts().blocks();
  auto mine = std::ranges::equal_range(definitions, file, {}, &Definition::file);
  for (const auto& definition : mine) {
    std::uint32_t first = parts_files[file].first_block, end = parts_files[file + 1].first_block;
    while (first + 1 < end && blocks[first + 1].first_line <= definition.line) ++first;
    if (first >= end) continue;
    auto text = segment_.block(first).text;
    std::size_t at = 0;
    for (auto line = blocks[first].first_line; line < definition.line && at < text.size(); ++line)
      at = std::min(text.find('\n', at), text.size() - 1) + 1;
    auto line_end = std::min(text.find('\n', at), text.size());
    auto place = text.substr(at, line_end - at).find(definition.name);
    bool is_named = place != std::string_view::npos;
    std::size_t begin = is_named ? at + place : at;
    std::size_t stop = is_named ? begin + definition.name.size() : begin;
    auto base = blocks[first].offset() - parts_files[file].offset;
    state.spans.push_back(
        {static_cast<std::uint32_t>(base + begin), static_cast<std::uint32_t>(base + stop)});
  }
}

const std::vector<Signal>& FileSearch::signals(std::uint32_t file) {
  signals_.clear();
  for (auto atom : found_) {
    auto signal = states_[atom].signal;
    if (plan_.atoms[atom].pattern.field == Field::path) continue;  // a filter has no score
    if (states_[atom].is_in_path) {
      std::vector<Span> spans;
      auto path = segment_.file(file).path;
      finders_[atom].find_all(path, false, spans);
      for (const auto& span : spans)
        signal.path = std::max(signal.path, path_signal(path, span.begin, span.end));
    }
    auto mine = std::ranges::equal_range(fit_.atoms[atom].definitions, file, {}, &Definition::file);
    for (const auto& definition : mine) {
      bool is_exact = definition.name == plan_.atoms[atom].pattern.text;
      auto level = is_exact ? Signal::Definition::exact : Signal::Definition::partial;
      if (level > signal.definition) signal.kind = definition.kind;
      signal.definition = std::max(signal.definition, level);
    }
    signals_.push_back(signal);
  }
  return signals_;
}

std::vector<Span> FileSearch::content_spans() const {
  std::vector<Span> spans;
  for (auto atom : found_)
    spans.insert(spans.end(), states_[atom].spans.begin(), states_[atom].spans.end());
  if (found_.size() > 1)
    std::ranges::sort(spans, [](const Span& a, const Span& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
    });
  return spans;
}

std::vector<Span> FileSearch::path_spans(std::string_view path) {
  std::vector<Span> spans;
  for (std::size_t i = 0; i < plan_.atoms.size(); ++i)
    if (plan_.atoms[i].is_shown && plan_.atoms[i].looks_at_path())
      finders_[i].find_all(path, false, spans);
  std::ranges::sort(spans, {}, &Span::begin);
  return spans;
}

void FileSearch::explain(std::uint32_t file, const Hit& hit, std::vector<std::string>& why) {
  score_of(signals(file), asked_, segment_.file(file).file_class, hit.matches, &why);
}

}  // namespace warren::search
