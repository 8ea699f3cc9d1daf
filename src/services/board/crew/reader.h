#pragma once
// Reads values out of a YAML tree and remembers every mistake with its place.
//
//   reader.map(place, {{"retries", [&](auto& at) { role.retries = at.number(0, 9); }},
//                      {"replicas", no_effect}});
#include <functional>
#include <span>

#include "base/yaml.h"
#include "services/board/crew/crew.h"

namespace warren::crew {

class Reader;

// A value and the way to it: "agents.Coder.command".
class Place {
 public:
  Place(Reader& reader, const Yaml& value, std::string path)
      : reader_(reader), value_(value), path_(std::move(path)) {}

  const Yaml& value() const { return value_; }
  const std::string& path() const { return path_; }
  Place item(const Yaml& item, std::string_view name) const;

  // Each reports a value of the wrong kind and then returns something harmless.
  std::string text() const;
  Words words() const;  // a list with at least one text
  int number(int least, int most) const;
  milliseconds time() const;
  // One of these words, as its place among them.
  std::size_t one_of(std::span<const std::string_view> words) const;

  void error(std::string what) const;
  void error_in(std::string_view name, std::string what) const;  // about what is not there
  void warn(std::string what) const;

 private:
  Reader& reader_;
  const Yaml& value_;
  std::string path_;
};

struct Field {
  std::string name;
  std::function<void(const Place&)> read;
};

// For keys that other programs know: accepted, and said to do nothing here.
void no_effect(const Place& place);

class Reader {
 public:
  explicit Reader(std::string file) : file_(std::move(file)) {}

  // Hands each value of the map to the field of its name; a name without one is a mistake. False
  // when it is no map.
  bool map(const Place& place, const std::vector<Field>& fields);

  void error(int line, std::string_view path, std::string_view what) {
    errors_.emplace(line, message(line, path, what));
  }
  void warn(int line, std::string_view path, std::string_view what) {
    warnings_.emplace(line, message(line, path, what));
  }
  // In the order of the file.
  std::vector<std::string> errors() const { return listed(errors_); }
  std::vector<std::string> warnings() const { return listed(warnings_); }

 private:
  using Remarks = std::multimap<int, std::string>;  // by line
  std::string message(int line, std::string_view path, std::string_view what) const;
  static std::vector<std::string> listed(const Remarks& remarks);

  std::string file_;
  Remarks errors_, warnings_;
};

}  // namespace warren::crew
