// The text of a query for `explain`.
#include "search/query/query.h"

namespace warren::search {
namespace {

std::string_view field_name(const Query& query) {
  if (query.kind == Query::Kind::repo) return "repo:";
  switch (query.pattern.field) {
    case Field::any:
      return "";
    case Field::content:
      return "content:";
    case Field::path:
      return "file:";
    case Field::symbol:
      return "sym:";
  }
  return "";
}

std::string list(std::string_view word, const Query& query) {
  std::string text = fmt::format("({}", word);
  for (const auto& part : query.parts) text += " " + to_string(*part);
  return text + ")";
}

}  // namespace

std::string to_string(const Query& query) {
  switch (query.kind) {
    case Query::Kind::all:
      return "all";
    case Query::Kind::repo:
    case Query::Kind::pattern: {
      char mark = query.pattern.is_regex ? '/' : '"';
      return fmt::format("{}{}{}{}{}", field_name(query), mark, query.pattern.text, mark,
                         query.pattern.ignores_case ? "i" : "");
    }
    case Query::Kind::language:
      return "lang:" + query.pattern.text;
    case Query::Kind::branch:
      return "branch:" + query.pattern.text;
    case Query::Kind::both:
      return list("and", query);
    case Query::Kind::either:
      return list("or", query);
    case Query::Kind::neither:
      return list("not", query);
  }
  return "";
}

}  // namespace warren::search
