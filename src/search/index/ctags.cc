#include "search/index/ctags.h"

#include <cstdlib>

namespace warren::search {

namespace {

constexpr std::size_t child_memory = std::size_t{1} << 30;
constexpr std::size_t most_answer = 32u << 20;  // for one file
constexpr auto start_patience = 20s;            // a busy machine must not cost us the symbols
constexpr std::size_t most_line = 64u << 10;

// Parses only the subset of JSON that ctags writes.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  bool take(char c) {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool word(std::string& into) {
    into.clear();
    if (!take('"')) return false;
    while (!rest_.empty()) {
      char c = rest_[0];
      rest_.remove_prefix(1);
      if (c == '"') return true;
      if (c == '\\' && !escape(c)) return false;
      into += c;
    }
    return false;
  }
  // true, false, null, or a number.
  std::string_view plain() {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
    auto found = rest_.substr(0, rest_.find_first_of(",} "));
    rest_.remove_prefix(found.size());
    return found;
  }

 private:
  bool escape(char& c) {
    if (rest_.empty()) return false;
    c = rest_[0];
    rest_.remove_prefix(1);
    switch (c) {
      case 'n':
        c = '\n';
        return true;
      case 't':
        c = '\t';
        return true;
      case 'r':
        c = '\r';
        return true;
      case 'b':
        c = '\b';
        return true;
      case 'f':
        c = '\f';
        return true;
      case 'u':  // only for control characters: the rest is plain UTF-8
        c = '?';
        rest_.remove_prefix(std::min<std::size_t>(4, rest_.size()));
        return true;
      default:
        return true;
    }
  }

  std::string_view rest_;
};

// ctags detects languages by file name. The rest of a path is useless to it, and may be invalid
// UTF-8.
std::string plain_name(std::string_view path) {
  std::string name(path.substr(path.rfind('/') + 1));
  for (char& c : name)
    if (std::string_view("\"\\").find(c) != std::string_view::npos || c < 0x20 || c > 0x7e) c = '_';
  return name;
}

ChildTerms child_terms(const SymbolTerms& terms, std::string_view mode) {
  const char* programs = std::getenv("PATH");
  return {.argv = {terms.program, "--quiet", "--options=NONE", "--fields=NnKs",
                   fmt::format("--_interactive={}", mode)},
          .environment = {std::string("PATH=") + (programs == nullptr ? "/usr/bin:/bin" : programs),
                          "LC_ALL=C.UTF-8"},
          .memory_bytes = child_memory};
}

}  // namespace

std::optional<TagLine> parse_tag_line(std::string_view line) {
  Scanner scanner(line);
  TagLine result;
  if (!scanner.take('{')) return std::nullopt;
  std::string key, word;
  do {
    if (!scanner.word(key) || !scanner.take(':')) return std::nullopt;
    if (key == "line") {
      result.tag.line = static_cast<std::uint32_t>(
          std::strtoul(std::string(scanner.plain()).c_str(), nullptr, 10));
    } else if (!scanner.word(word)) {
      if (scanner.plain().empty()) return std::nullopt;
    } else if (key == "_type") {
      result.type = word;
    } else if (key == "name") {
      result.tag.name = word;
    } else if (key == "kind") {
      result.tag.kind = word;
    } else if (key == "scope") {
      result.tag.parent = word;
    }
  } while (scanner.take(','));
  if (!scanner.take('}')) return std::nullopt;
  return result;
}

Result<Ctags> Ctags::start(const SymbolTerms& terms) {
  for (const auto* mode : {"sandbox", "default"}) {
    auto child = Child::start(child_terms(terms, mode));
    if (!child) return std::unexpected(child.error());
    Ctags ctags(std::move(*child), terms);
    std::string_view nothing;
    auto line = ctags.next_line(nothing, Clock::now() + start_patience);
    auto parsed = line ? parse_tag_line(*line) : std::nullopt;
    if (parsed && parsed->type == "program") return ctags;
  }
  return fail(Errc::unavailable, "{} is not universal-ctags with JSON", terms.program);
}

Result<std::string_view> Ctags::next_line(std::string_view& input, Clock::time_point deadline) {
  for (std::size_t searched = at_;;) {
    auto end = answer_.find('\n', searched);
    if (end != std::string::npos) {
      std::string_view line(answer_.data() + at_, end - at_);
      at_ = end + 1;
      return line;
    }
    answer_.erase(0, std::exchange(at_, 0));
    searched = answer_.size();
    if (searched > most_line) return fail(Errc::overloaded, "ctags: a line without an end");
    answer_.resize(searched + most_line);
    auto got = child_.exchange(input, false, answer_.data() + searched, most_line, deadline);
    answer_.resize(searched + got.value_or(0));
    if (!got) return std::unexpected(got.error());
    if (*got == 0) return fail(Errc::protocol, "ctags has ended: {}", child_.complaint());
  }
}

Result<> Ctags::ask(std::string_view path, std::string_view text,
                    const std::function<void(Tag&&)>& found) {
  auto request = fmt::format("{{\"command\":\"generate-tags\",\"filename\":\"{}\",\"size\":{}}}\n",
                             plain_name(path), text.size());
  request += text;
  std::string_view input = request;
  auto deadline = Clock::now() + terms_.per_file;
  for (std::size_t answered = 0;;) {
    auto line = next_line(input, deadline);
    if (!line) return std::unexpected(line.error());
    answered += line->size();
    if (answered > most_answer) return fail(Errc::overloaded, "ctags: too much about one file");
    if (Clock::now() > deadline) return fail(Errc::timeout, "ctags takes too long");
    auto parsed = parse_tag_line(*line);
    if (!parsed) return fail(Errc::protocol, "ctags: {}", line->substr(0, 200));
    if (parsed->type == "completed") return ok;
    if (parsed->type == "error") return fail(Errc::protocol, "ctags: {}", line->substr(0, 200));
    if (parsed->type == "tag") found(std::move(parsed->tag));
  }
}

}  // namespace warren::search
