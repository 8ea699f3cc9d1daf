#pragma once
// Runs universal-ctags as a child process and sends it one text after the other.
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/host/child.h"
#include "search/index/symbols.h"

namespace warren::search {

struct Tag {
  std::string name, kind, parent;
  std::uint32_t line = 0;
};

// {"_type": "tag", "name": "f", …}: the members of a tag, and the type of the line.
struct TagLine {
  std::string type;
  Tag tag;
};
// Returns nullopt unless it is an object of strings and numbers.
std::optional<TagLine> parse_tag_line(std::string_view line);

class Ctags {
 public:
  // Errc::unavailable: there is no universal-ctags of that name.
  static Result<Ctags> start(const SymbolTerms& terms);
  // After Errc::timeout, Errc::overloaded or Errc::protocol, this child is unusable.
  Result<> ask(std::string_view path, std::string_view text,
               const std::function<void(Tag&&)>& found);

 private:
  Ctags(Child child, const SymbolTerms& terms) : child_(std::move(child)), terms_(terms) {}
  // Reads the next line of its answer, and writes the input meanwhile.
  Result<std::string_view> next_line(std::string_view& input, Clock::time_point deadline);

  Child child_;
  SymbolTerms terms_;
  std::string answer_;
  std::size_t at_ = 0;
};

}  // namespace warren::search
