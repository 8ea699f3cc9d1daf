#pragma once
// Streams that nobody carries any more, by the node that was the last to carry them.
//
// They are kept for a while, because what identifies a stream (tenant, playback id) is said when it begins
// and not again when it comes back. A node that gives its streams ever new names would leave ever more of
// them, so each node has a share of its own: the oldest of that node go first, and those of others stay.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace warren::foghorn {

class LeftStreams {
 public:
  void add(const std::string& node, const std::string& stream);
  void remove(std::string_view stream);  // it is carried again, or forgotten
  std::size_t count(std::string_view node) const;
  const std::string* oldest(std::string_view node) const;  // null: none

 private:
  struct Place {
    std::string node;
    std::uint64_t turn;
  };
  std::map<std::string, Place, std::less<>> places_;  // by stream
  std::map<std::string, std::map<std::uint64_t, std::string>, std::less<>> by_node_;
  std::uint64_t last_turn_ = 0;
};

}  // namespace warren::foghorn
