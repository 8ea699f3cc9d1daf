#include "search/query/query.h"

#include <re2/re2.h>

#include <array>

#include "search/causes.h"
#include "search/query/languages_match.h"
#include "search/query/query_words.h"

namespace warren::search {
namespace {

constexpr int most_nesting = 64;
// The limit for the compiled instructions of all patterns together: as many as RE2 allows for one.
// So a query takes no longer to compile than the most expensive single pattern.
constexpr int most_compiled = 350'000;

enum class Key : std::uint8_t {
  case_of,
  content,
  file,
  repo,
  language,
  branch,
  symbol,
  select,
  count,
  regex,
  archived,
  fork,
  is_public
};
struct Name {
  std::string_view text;
  Key key;
};
constexpr std::array names{
    Name{"case:", Key::case_of},  Name{"content:", Key::content}, Name{"c:", Key::content},
    Name{"file:", Key::file},     Name{"f:", Key::file},          Name{"repo:", Key::repo},
    Name{"r:", Key::repo},        Name{"lang:", Key::language},   Name{"l:", Key::language},
    Name{"branch:", Key::branch}, Name{"b:", Key::branch},        Name{"sym:", Key::symbol},
    Name{"type:", Key::select},   Name{"t:", Key::select},        Name{"select:", Key::select},
    Name{"count:", Key::count},   Name{"regex:", Key::regex},     Name{"archived:", Key::archived},
    Name{"fork:", Key::fork},     Name{"public:", Key::is_public}};

const Name* field_at(std::string_view text) {
  for (const auto& name : names)
    if (text.starts_with(name.text)) return &name;
  return nullptr;
}

enum class CaseMode : std::uint8_t { automatic, yes, no };

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<ParsedQuery> parse() {
    auto root = parse_either(0);
    if (!root) return std::unexpected(root.error());
    if (at_ < text_.size()) {
      auto end = std::min(text_.find_first_of(" \t\n\r", at_), text_.size());
      return fail_at(at_, "there is no \"(\" for this \")\"{}", as_it_stands(word_begin_, end));
    }
    if (kind_place_ && has_either_)
      return fail_at(*kind_place_,
                     "archived:, fork: and public: hold for the whole query: they cannot stand "
                     "beside an \"or\"");
    parsed_.root = *root ? std::move(*root) : std::make_unique<Query>();
    settle_case(*parsed_.root);
    return std::move(parsed_);
  }

 private:
  template <class... Args>
  static std::unexpected<Error> fail_at(std::size_t place, fmt::format_string<Args...> format,
                                        Args&&... args) {
    return fail(Errc::invalid, causes::bad_query, std::to_string(place + 1), "column {}: {}",
                place + 1, fmt::format(format, std::forward<Args>(args)...));
  }

  // How to write this part of the query so that it is searched for literally.
  std::string as_it_stands(std::size_t begin, std::size_t end) const {
    constexpr std::size_t most_shown = 60;
    auto part = text_.substr(begin, end - begin);
    while (!part.empty() && is_space(part.back())) part.remove_suffix(1);
    if (part.size() > most_shown) return "; quote what is looked for as it stands";
    const Name* field = field_at(part);
    auto name = field ? field->text : std::string_view();
    return fmt::format("; as it stands: {}{}", name, quoted(part.substr(name.size())));
  }

  void skip_spaces() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  bool is_at_end() const { return at_ == text_.size() || text_[at_] == ')'; }
  bool is_at_or() const {
    return text_.substr(at_).starts_with("or") &&
           (at_ + 2 == text_.size() || is_space(text_[at_ + 2]) || text_[at_ + 2] == ')');
  }

  // Returns null if there are only settings, such as case:yes.
  Result<QueryPtr> parse_either(int depth) {
    if (depth > most_nesting) return fail_at(at_, "at most {} levels may be nested", most_nesting);
    auto either = std::make_unique<Query>();
    either->kind = Query::Kind::either;
    for (;;) {
      auto both = parse_both(depth);
      if (!both) return both;
      if (*both) either->parts.push_back(std::move(*both));
      if (!is_at_or_now()) break;
      std::size_t place = at_;
      if (either->parts.empty()) return fail_at(place, "an expression is expected before \"or\"");
      has_either_ = has_either_ || depth == 0;
      at_ += 2;
      skip_spaces();
      if (is_at_end() || is_at_or()) return fail_at(at_, "an expression is expected after \"or\"");
    }
    return folded(std::move(either));
  }
  bool is_at_or_now() {
    skip_spaces();
    return at_ < text_.size() && is_at_or();
  }

  Result<QueryPtr> parse_both(int depth) {
    auto both = std::make_unique<Query>();
    both->kind = Query::Kind::both;
    for (skip_spaces(); !is_at_end() && !is_at_or(); skip_spaces()) {
      auto part = parse_not(depth);
      if (!part) return part;
      if (*part) both->parts.push_back(std::move(*part));
    }
    return folded(std::move(both));
  }

  static QueryPtr folded(QueryPtr list) {
    if (list->parts.empty()) return nullptr;
    if (list->parts.size() > 1) return list;
    return std::move(list->parts[0]);
  }

  Result<QueryPtr> parse_not(int depth) {
    std::size_t place = at_;
    bool is_negated = text_[at_] == '-' && at_ + 1 < text_.size() && !is_space(text_[at_ + 1]) &&
                      text_[at_ + 1] != ')';
    if (!is_negated) return parse_atom(depth);
    if (depth > most_nesting) return fail_at(at_, "at most {} levels may be nested", most_nesting);
    ++at_;
    is_negated_ = !is_negated_;
    auto kind_before = kind_place_;
    auto part = parse_not(depth + 1);
    is_negated_ = !is_negated_;
    if (!part) return part;
    if (!*part && kind_place_ != kind_before) return part;  // -archived:yes
    if (!*part) return fail_at(place, "a pattern or a filter is expected after \"-\"");
    auto query = std::make_unique<Query>();
    query->kind = Query::Kind::neither;
    query->parts.push_back(std::move(*part));
    return query;
  }

  Result<QueryPtr> parse_atom(int depth) {
    if (text_[at_] == '(' && is_group()) {
      std::size_t open = at_++;
      ++groups_;
      auto inner = parse_either(depth + 1);
      --groups_;
      if (!inner) return inner;
      skip_spaces();
      if (at_ == text_.size())
        return fail_at(open, "\"(\" is not closed{}", as_it_stands(open, text_.size()));
      ++at_;
      if (!*inner) return fail_at(open + 1, "an expression is expected in the parentheses");
      return inner;
    }
    std::size_t start = word_begin_ = at_;
    const Name* field = field_at(text_.substr(at_));
    if (field != nullptr) at_ += field->text.size();
    auto word = take_word(field ? std::optional(field->key) : std::nullopt);
    if (!word) return std::unexpected(word.error());
    if (field == nullptr) {
      auto raw = text_.substr(start, at_ - start);
      if (raw.starts_with("meta.") && raw.contains(':'))
        parsed_.guesses.push_back(
            fmt::format("repositories have no metadata here: {} is looked for as text", raw));
      return pattern_of(*word, Field::any, start);
    }
    if (word->text.empty() && !word->is_literal)
      return fail_at(at_, "{} is expected after \"{}\"", expected(field->key), field->text);
    return field_of(field->key, std::move(*word), start + field->text.size());
  }

  // See the header: a space, a quote or a field before the closing parenthesis.
  bool is_group() const {
    auto inside = text_.substr(at_ + 1);
    if (inside.empty() || inside[0] == '"' || field_at(inside) != nullptr) return true;
    if (inside[0] == '-' && field_at(inside.substr(1)) != nullptr) return true;
    WordEnd end = end_of_word(text_, at_);
    return end.is_open_paren;
  }

  Result<Word> take_word(std::optional<Key> key) {
    WordEnd end = end_of_word(text_, at_);
    if (end.open_quote)
      return fail_at(*end.open_quote, "the quote is not closed; {}",
                     text_.ends_with("\\\"") ? R"(in quotes \" is a quote and \\ a backslash)"
                                             : R"(one that is looked for is \")");
    if (end.behind_quote)
      return fail_at(
          *end.behind_quote,
          R"(a space is expected behind what is quoted; a quote that is looked for is \")");
    if (end.torn_quote)
      return fail_at(*end.torn_quote,
                     R"(only a whole word can be quoted; a quote that is looked for is \")");
    if (end.lone_backslash)
      return fail_at(*end.lone_backslash, "a character is expected after \"\\\"");
    if (end.is_open_paren) {
      auto closed = end_of_parens(text_, at_);
      return fail_at(end.open_paren, "\"(\" is not closed{}{}",
                     closed == text_.npos ? "" : " before the space",
                     as_it_stands(word_begin_, closed == text_.npos ? end.place : closed));
    }
    ensure(end.place > at_ || key, "a word has a character");
    auto raw = text_.substr(at_, end.place - at_);
    at_ = end.place;
    if (end.has_empty_group && key != Key::file && key != Key::repo)
      parsed_.notes.push_back(fmt::format("\"()\" is an empty group of a regular expression{}",
                                          as_it_stands(word_begin_, at_)));
    return key == Key::regex ? read_quoted_regex(raw) : read_word(raw);
  }

  static std::string_view expected(Key key) {
    switch (key) {
      case Key::case_of:
        return "yes, no or auto";
      case Key::content:
      case Key::file:
      case Key::repo:
      case Key::regex:
        return "a pattern";
      case Key::language:
        return "a language";
      case Key::branch:
        return "a branch";
      case Key::symbol:
        return "a name";
      case Key::select:
        return "file, path, repo, symbol or content";
      case Key::count:
        return "a number or all";
      case Key::archived:
      case Key::fork:
      case Key::is_public:
        return "yes or no";
    }
    return "";
  }

  Result<QueryPtr> field_of(Key key, Word word, std::size_t place) {
    switch (key) {
      case Key::content:
        return pattern_of(word, Field::content, place);
      case Key::regex:
        return pattern_of(word, Field::any, place);
      case Key::file:
        return path_of(std::move(word), place);
      case Key::symbol:
        return pattern_of(word, Field::symbol, place);
      case Key::repo: {
        auto query = path_of(std::move(word), place);
        if (query) (*query)->kind = Query::Kind::repo;
        return query;
      }
      case Key::language:
        note_language(plain(word));
        return filter_of(Query::Kind::language, word);
      case Key::branch:
        return filter_of(Query::Kind::branch, word);
      case Key::archived:
        return kind_of(parsed_.kinds.is_archived, plain(word), is_negated_, key, place);
      case Key::fork:
        return kind_of(parsed_.kinds.is_fork, plain(word), is_negated_, key, place);
      case Key::is_public:
        return kind_of(parsed_.kinds.is_private, plain(word), !is_negated_, key, place);
      case Key::case_of:
      case Key::select:
      case Key::count:
        break;
    }
    return set(key, plain(word), place)
               ? Result<QueryPtr>(nullptr)
               : fail_at(place, "{} is expected, not \"{}\"", expected(key), plain(word));
  }

  Result<QueryPtr> kind_of(std::optional<bool>& into, std::string_view value, bool is_opposite,
                           Key key, std::size_t place) {
    if (value != "yes" && value != "no")
      return fail_at(place, "{} is expected, not \"{}\"", expected(key), value);
    bool is_wanted = (value == "yes") != is_opposite;
    auto field = text_.substr(word_begin_, place - word_begin_);
    if (groups_ > 0)
      return fail_at(word_begin_, "{} holds for the whole query: put it outside of parentheses",
                     field);
    if (into && *into != is_wanted)
      return fail_at(word_begin_, "{} is said twice, yes and no", field);
    into = is_wanted;
    kind_place_ = word_begin_;
    return QueryPtr();
  }

  void note_language(const std::string& word) {
    if (is_known_language(word)) return;
    auto meant = nearest_language(word);
    parsed_.notes.push_back(fmt::format("no file is of a language \"{}\"{}", word,
                                        meant ? fmt::format(": did you mean {}?", *meant) : ""));
  }

  // Paths of files and names of repositories.
  Result<QueryPtr> path_of(Word word, std::size_t place) {
    auto field = text_.substr(word_begin_, place - word_begin_);
    auto raw = text_.substr(place, at_ - place);
    auto glob = glob_in(word);
    auto read = as_glob(std::move(word));
    if (!read) return fail_at(place, "{}", read.error().what);
    if (!glob.empty() && read->is_literal)
      parsed_.guesses.push_back(
          fmt::format("{}{} is looked for as it stands; without quotes it is a glob", field, raw));
    else if (!glob.empty() && read->text == raw)
      parsed_.guesses.push_back(fmt::format(
          "{0}{1} is a regular expression; as a glob it would be {0}{2}", field, raw, glob));
    return pattern_of(*read, Field::path, place);
  }

  Result<QueryPtr> pattern_of(const Word& word, Field field, std::size_t place) {
    auto query = std::make_unique<Query>();
    query->kind = Query::Kind::pattern;
    query->pattern.field = field;
    if (auto literal = literal_of(word)) {
      if (literal->empty()) return fail_at(place, "a pattern has at least one character");
      query->pattern.text = std::move(*literal);
      return query;
    }
    RE2::Options options;
    options.set_log_errors(false);
    RE2 check(word.text, options);
    if (!check.ok()) return fail_at(place, "{}{}", check.error(), as_it_stands(word_begin_, at_));
    compiled_ += check.ProgramSize();
    if (compiled_ > most_compiled)
      return fail_at(place, "the patterns are too large together: repeat fewer times");
    query->pattern.text = word.text;
    query->pattern.is_regex = true;
    return query;
  }

  static Result<QueryPtr> filter_of(Query::Kind kind, const Word& word) {
    auto query = std::make_unique<Query>();
    query->kind = kind;
    query->pattern.text = plain(word);
    return query;
  }

  static std::string plain(const Word& word) { return literal_of(word).value_or(word.text); }

  bool set(Key key, std::string_view value, std::size_t) {
    if (key == Key::case_of) {
      if (value == "yes")
        case_ = CaseMode::yes;
      else if (value == "no")
        case_ = CaseMode::no;
      else if (value == "auto")
        case_ = CaseMode::automatic;
      else
        return false;
      return true;
    }
    if (key == Key::count) {
      auto number = value == "all" ? std::optional<std::uint64_t>(0) : number_of(value);
      if (number) parsed_.count = number;
      return number.has_value();
    }
    if (value == "filematch" || value == "content" || value == "line")
      parsed_.select = Select::lines;
    else if (value == "file" || value == "filename")
      parsed_.select = Select::files;
    else if (value == "path")
      parsed_.select = Select::paths;
    else if (value == "repo")
      parsed_.select = Select::repos;
    else if (value == "symbol")
      parsed_.select = Select::symbols;
    else
      return false;
    return true;
  }

  void settle_case(Query& query) {
    if (query.kind == Query::Kind::pattern || query.kind == Query::Kind::repo)
      query.pattern.ignores_case =
          case_ == CaseMode::no || (case_ == CaseMode::automatic && !has_upper_case(query.pattern));
    for (auto& part : query.parts) settle_case(*part);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t word_begin_ = 0;  // of the last word, including its field
  std::optional<std::size_t> kind_place_;
  bool is_negated_ = false, has_either_ = false;
  int groups_ = 0;  // currently open
  CaseMode case_ = CaseMode::automatic;
  int compiled_ = 0;
  ParsedQuery parsed_;
};

}  // namespace

bool parses_quickly(std::string_view text) {
  return !text.contains('{') && !text.contains("\\p") && !text.contains("\\P");
}

Result<ParsedQuery> parse_query(std::string_view text) {
  if (text.size() > most_query_bytes)
    return fail(Errc::invalid, causes::bad_query, std::to_string(most_query_bytes + 1),
                "column {}: a query has at most {} bytes", most_query_bytes + 1, most_query_bytes);
  return Parser(text).parse();
}

}  // namespace warren::search
