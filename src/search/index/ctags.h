#pragma once
// universal-ctags as a child that is asked about one text after the other.
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

// {"_type": "tag", "name": "f", …}: the members that a tag has, and its type.
struct TagLine {
  std::string type;
  Tag tag;
};
// Nothing when it is no object of words and numbers.
std::optional<TagLine> parse_tag_line(std::string_view line);

class Ctags {
 public:
  // Errc::unavailable: there is no universal-ctags of that name.
  static Result<Ctags> start(const SymbolTerms& terms);
  // Errc::timeout, Errc::overloaded, Errc::protocol: this child is of no further use.
  Result<> ask(std::string_view path, std::string_view text,
               const std::function<void(Tag&&)>& found);

 private:
  Ctags(Child child, const SymbolTerms& terms) : child_(std::move(child)), terms_(terms) {}
  // The next line of its answer, while the input is written.
  Result<std::string_view> next_line(std::string_view& input, Clock::time_point deadline);

  Child child_;
  SymbolTerms terms_;
  std::string answer_;
  std::size_t at_ = 0;
};

}  // namespace warren::search
