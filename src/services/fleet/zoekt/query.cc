#include "services/fleet/zoekt/query.h"

#include <array>

#include "search/query/query_words.h"

namespace warren::fleet {

namespace {

constexpr int most_nesting = 32;

enum class Atom : std::uint8_t {
  text,
  file,
  content,
  repo,
  symbol,
  language,
  branch,
  case_of,
  type,
  archived,
  fork,
  is_public,
  meta
};
struct Prefix {
  std::string_view text;
  Atom atom;
};
constexpr std::array prefixes{Prefix{"archived:", Atom::archived},
                              Prefix{"b:", Atom::branch},
                              Prefix{"branch:", Atom::branch},
                              Prefix{"c:", Atom::content},
                              Prefix{"case:", Atom::case_of},
                              Prefix{"content:", Atom::content},
                              Prefix{"f:", Atom::file},
                              Prefix{"file:", Atom::file},
                              Prefix{"fork:", Atom::fork},
                              Prefix{"lang:", Atom::language},
                              Prefix{"meta.", Atom::meta},
                              Prefix{"public:", Atom::is_public},
                              Prefix{"r:", Atom::repo},
                              Prefix{"regex:", Atom::text},
                              Prefix{"repo:", Atom::repo},
                              Prefix{"sym:", Atom::symbol},
                              Prefix{"t:", Atom::type},
                              Prefix{"type:", Atom::type}};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

struct Token {
  enum class Kind : std::uint8_t { end, open, close, either, negation, atom };
  Kind kind = Kind::end;
  Atom atom = Atom::text;
  std::string_view raw = {};
  std::string value = {};  // without quotes and without the prefix
};

// A regular expression as one word: nothing in it ends the word, begins a quote, or is a field.
std::string as_word(std::string_view regex) {
  std::string out = "(?:";
  for (std::size_t i = 0; i < regex.size(); ++i) {
    char c = regex[i];
    if (c == '\\' && i + 1 < regex.size()) {
      out += c;
      c = regex[++i];
      if (c == '\n') c = 'n';
      if (c == '\t') c = 't';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else {
      if (c == ' ' || c == '"') out += '\\';
      out += c;
    }
  }
  return out + ')';
}

class Translator {
 public:
  explicit Translator(std::string_view text) : text_(text) {}

  Result<ZoektQuery> run() {
    if (auto done = list(0); !done) return std::unexpected(done.error());
    if (at_ < text_.size()) return fail(Errc::invalid, "\")\" without a \"(\"");
    bool has_kind = query_.is_archived || query_.is_fork || query_.is_private;
    if (has_either_ && (has_kind || query_.is_of_head))
      return fail(Errc::invalid,
                  "archived:, fork:, public: and branch:HEAD hold for the whole query here: they "
                  "cannot stand beside an \"or\"");
    query_.text = std::move(out_);
    return std::move(query_);
  }

 private:
  Result<> list(int depth) {
    if (depth > most_nesting)
      return fail(Errc::invalid, "at most {} levels may be nested", most_nesting);
    bool wants_operand = false, has_operand = false;
    for (;;) {
      while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
      auto token = next();
      if (!token) return std::unexpected(token.error());
      if (token->kind == Token::Kind::end || token->kind == Token::Kind::close) break;
      if (token->kind == Token::Kind::either) {
        if (!has_operand || wants_operand)
          return fail(Errc::invalid, "an expression is expected before \"or\"");
        wants_operand = true;
        has_either_ |= depth == 0;
        put("or");
        at_ += token->raw.size();
        continue;
      }
      if (auto done = expression(*std::move(token), depth, false); !done) return done;
      wants_operand = false;
      has_operand = true;
    }
    if (wants_operand) return fail(Errc::invalid, "an expression is expected after \"or\"");
    return ok;
  }

  Result<> expression(Token token, int depth, bool is_negated) {
    at_ += token.raw.size();
    if (token.kind == Token::Kind::negation) {
      while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
      auto after = next();
      if (!after) return std::unexpected(after.error());
      bool has_operand = after->kind != Token::Kind::end && after->kind != Token::Kind::close;
      if (!has_operand || ++negations_ > most_nesting)
        return fail(Errc::invalid, "\"-\" needs an expression after it");
      if (after->kind == Token::Kind::either) after->kind = Token::Kind::atom;
      return expression(*std::move(after), depth, !is_negated);
    }
    negations_ = 0;
    if (token.kind == Token::Kind::atom) return atom(token, depth, is_negated);
    // A group.
    put(is_negated ? "-(" : "(");
    joins_ = true;
    auto before = out_.size();
    if (auto inner = list(depth + 1); !inner) return inner;
    if (at_ >= text_.size()) return fail(Errc::invalid, "\"(\" is not closed");
    if (out_.size() == before) return fail(Errc::invalid, "there is nothing between parentheses");
    ++at_;
    // A space, so that it is a group for us, too.
    out_ += " )";
    return ok;
  }

  Result<> atom(const Token& token, int depth, bool is_negated) {
    const auto& value = token.value;
    if (value.empty()) return fail(Errc::invalid, "\"{}\" has no value", token.raw);
    switch (token.atom) {
      case Atom::text:
        return pattern("", value, is_negated);
      case Atom::file:
        return pattern("file:", value, is_negated);
      case Atom::content:
        return pattern("content:", value, is_negated);
      case Atom::repo:
        return pattern("repo:", value, is_negated);
      case Atom::symbol:
        return pattern("sym:", value, is_negated);
      case Atom::language:
        put((is_negated ? "-lang:" : "lang:") + search::quoted(value));
        return ok;
      case Atom::branch:
        return branch(value, depth, is_negated);
      case Atom::case_of:
      case Atom::type:
        return setting(token, depth, is_negated);
      case Atom::archived:
        return kind(query_.is_archived, token, depth, is_negated);
      case Atom::fork:
        return kind(query_.is_fork, token, depth, is_negated);
      case Atom::is_public:
        return kind(query_.is_private, token, depth, !is_negated);
      case Atom::meta:
        break;
    }
    return fail(Errc::invalid, "\"{}\": repositories have no metadata here", token.raw);
  }

  Result<> pattern(std::string_view field, const std::string& value, bool is_negated) {
    auto literal = search::literal_of({.text = value});
    put(fmt::format("{}{}{}", is_negated ? "-" : "", field,
                    literal ? search::quoted(*literal) : as_word(value)));
    return ok;
  }

  Result<> branch(const std::string& value, int depth, bool is_negated) {
    if (value != "HEAD") {
      put((is_negated ? "-branch:" : "branch:") + search::quoted(value));
      return ok;
    }
    if (is_negated || depth > 0)
      return fail(Errc::invalid, "branch:HEAD holds for the whole query here: put it outside");
    query_.is_of_head = true;
    return ok;
  }

  // For the whole query in our language.
  Result<> setting(const Token& token, int depth, bool is_negated) {
    bool is_type = token.atom == Atom::type;
    auto value = token.value == "filename" ? "file" : token.value;
    bool is_known = is_type ? value == "filematch" || value == "file" || value == "repo"
                            : value == "yes" || value == "no" || value == "auto";
    if (!is_known) return fail(Errc::invalid, "\"{}\" is not known", token.raw);
    auto& before = is_type ? type_ : case_;
    if (depth > 0 || is_negated || (!before.empty() && before != value))
      return fail(Errc::invalid, "\"{}\" holds for the whole query here: put it outside, once",
                  token.raw);
    if (before.empty()) put((is_type ? "type:" : "case:") + value);
    before = value;
    return ok;
  }

  Result<> kind(std::optional<bool>& into, const Token& token, int depth, bool is_negated) {
    if (token.value != "yes" && token.value != "no")
      return fail(Errc::invalid, "\"{}\": use yes or no", token.raw);
    bool is_wanted = (token.value == "yes") != is_negated;
    if (depth > 0 || (into && *into != is_wanted))
      return fail(Errc::invalid, "\"{}\" holds for the whole query here: put it outside, once",
                  token.raw);
    into = is_wanted;
    return ok;
  }

  void put(std::string_view word) {
    if (!out_.empty() && !std::exchange(joins_, false)) out_ += ' ';
    out_ += word;
  }

  // As zoekt cuts it: to a space, to a ")" that is not its own; quotes may begin anywhere.
  Result<Token> next() const {
    auto rest = text_.substr(at_);
    Token token;
    if (rest.empty()) return token;
    if (rest[0] == '-') {
      token.kind = Token::Kind::negation;
      token.raw = rest.substr(0, 1);
      return token;
    }
    if (rest[0] == ')') {
      token.kind = Token::Kind::close;
      token.raw = rest.substr(0, 1);
      return token;
    }
    int open = 0;
    std::size_t i = 0;
    for (; i < rest.size() && !is_blank(rest[i]); ++i) {
      char c = rest[i];
      if (c == ')' && open == 0) break;
      if (c == '"') {
        auto end = unquote(rest, i, token.value);
        if (!end) return std::unexpected(end.error());
        i = *end;
        continue;
      }
      if (c == '\\') {
        if (i + 1 == rest.size()) return fail(Errc::invalid, "a lone \"\\\" at the end");
        token.value += c;
        c = rest[++i];
      } else {
        open += c == '(' ? 1 : c == ')' ? -1 : 0;
      }
      token.value += c;
    }
    token.raw = rest.substr(0, i);
    token.kind = Token::Kind::atom;
    bool was_cut = open > 0 && i < rest.size();
    if (rest[0] == '(' && (was_cut || token.raw.size() == 1)) {
      token.kind = Token::Kind::open;
      token.raw = rest.substr(0, 1);
      return token;
    }
    if (token.raw == "or") token.kind = Token::Kind::either;
    for (const auto& prefix : prefixes)
      if (token.raw.starts_with(prefix.text)) {
        token.atom = prefix.atom;
        token.value.erase(0, prefix.text.size());
        break;
      }
    return token;
  }

  // The place of the closing quote.
  static Result<std::size_t> unquote(std::string_view text, std::size_t begin, std::string& into) {
    for (std::size_t i = begin + 1; i < text.size(); ++i) {
      if (text[i] == '"') return i;
      if (text[i] == '\\') ++i;
      if (i < text.size()) into += text[i];
    }
    return fail(Errc::invalid, "a quote is not closed");
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int negations_ = 0;
  std::string out_, case_, type_;
  bool joins_ = false;  // the next word follows a parenthesis
  bool has_either_ = false;
  ZoektQuery query_;
};

}  // namespace

Result<ZoektQuery> parse_zoekt_query(std::string_view text) { return Translator(text).run(); }

}  // namespace warren::fleet
