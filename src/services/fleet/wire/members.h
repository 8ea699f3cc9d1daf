#pragma once
// What comes from elsewhere as JSON, read member by member. For .cc files: it includes Boost.JSON.
#include <boost/json.hpp>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/base64.h"
#include "search/query/search.h"

namespace warren::fleet {

namespace json = boost::json;

// Members of an object from elsewhere. What is of the wrong kind is remembered, and the first of
// those is told.
class Members {
 public:
  explicit Members(const json::value& from, std::string& wrong) : wrong_(wrong) {
    if (from.is_object())
      object_ = &from.get_object();
    else
      complain("an object");
  }

  void read(const char* name, std::string& into) const {
    if (const auto* value = find(name)) {
      if (value->is_string())
        into = value->get_string();
      else
        complain(name);
    }
  }
  void read(const char* name, bool& into) const {
    if (const auto* value = find(name)) {
      if (value->is_bool())
        into = value->get_bool();
      else
        complain(name);
    }
  }
  template <std::integral T>
  void read(const char* name, T& into) const {
    const auto* value = find(name);
    if (!value) return;
    boost::system::error_code error;
    auto number = value->to_number<T>(error);
    if (error)
      complain(name);
    else
      into = number;
  }
  void read(const char* name, double& into) const {
    if (const auto* value = find(name)) {
      if (value->is_number())
        into = value->to_number<double>();
      else
        complain(name);
    }
  }
  // Bytes, in the form that put_text gives them.
  void read_text(const std::string& name, std::string& into) const {
    read(name.c_str(), into);
    std::string encoded;
    read((name + "_base64").c_str(), encoded);
    if (encoded.empty()) return;
    if (auto bytes = from_base64(encoded))
      into = *std::move(bytes);
    else
      complain(name.c_str());
  }
  void read(const char* name, std::vector<std::string>& into) const {
    each(name, [&](const json::value& item) {
      std::string text;
      if (item.is_string())
        text = item.get_string();
      else
        Members(item, wrong_).read_text("text", text);
      into.push_back(std::move(text));
    });
  }
  void read(const char* name, std::vector<search::Range>& into) const {
    each(name, [&](const json::value& item) {
      const auto* pair = item.if_array();
      boost::system::error_code error;
      search::Range range;
      if (pair && pair->size() == 2) {
        range.begin = (*pair)[0].to_number<std::uint32_t>(error);
        if (!error) range.end = (*pair)[1].to_number<std::uint32_t>(error);
      }
      if (!pair || pair->size() != 2 || error) return complain(name);
      into.push_back(range);
    });
  }
  template <class Visit>
  void each(const char* name, Visit visit) const {
    const auto* value = find(name);
    if (!value) return;
    const auto* list = value->if_array();
    if (!list) return complain(name);
    for (const auto& item : *list) visit(item);
  }
  bool has(const char* name) const { return find(name) != nullptr; }
  // A list that limits: one that is null says nothing, and is no list.
  bool limits(const char* name) const {
    const auto* value = object_ ? object_->if_contains(name) : nullptr;
    if (value && value->is_null()) complain(name);
    return value != nullptr;
  }
  template <class T>
  void read(const char* name, std::optional<T>& into) const {
    if (has(name)) read(name, into.emplace());
  }
  template <std::integral T>
  void read(const char* name, std::vector<T>& into) const {
    each(name, [&](const json::value& item) {
      boost::system::error_code error;
      into.push_back(item.to_number<T>(error));
      if (error) complain(name);
    });
  }
  const json::value* find(const char* name) const {
    const auto* value = object_ ? object_->if_contains(name) : nullptr;
    return value && !value->is_null() ? value : nullptr;
  }
  void complain(const char* name) const {
    if (wrong_.empty()) wrong_ = name;
  }
  std::string& wrong() const { return wrong_; }

 private:
  const json::object* object_ = nullptr;
  std::string& wrong_;
};

// Errc::invalid: it is no JSON, or nested too deep for anything that is said here.
Result<json::value> parse_json(std::string_view text);
// One file of an answer.
search::FileMatch read_file(const json::value& value, std::string& wrong);

}  // namespace warren::fleet
