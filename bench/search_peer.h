#pragma once
// A server that speaks zoekt's JSON: POST /api/search {"Q": …, "Opts": {…}}.
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace warren::bench {

struct PeerAnswer {
  std::uint64_t file_count = 0, match_count = 0;
  std::size_t files_shown = 0;
  std::chrono::nanoseconds duration{};  // as measured by the server
};
// Errors: protocol if it is not JSON, or not of this shape; refused with the server's own message.
Result<PeerAnswer> parse_peer_answer(std::string_view body);

enum class PeerTerms : std::uint8_t { bounded, all };  // 50 files with two lines around; all
std::string peer_question(std::string_view query, PeerTerms terms);

// A literal in zoekt's language. Quoted text there is still a regular expression, and "i++" is not
// a valid one.
std::string zoekt_literal(std::string_view text);

// One connection, reopened if the server has closed it.
class PeerClient {
 public:
  // Errc::invalid for anything other than http://host[:port].
  static Result<PeerClient> make(const std::string& url,
                                 std::chrono::milliseconds longest = std::chrono::seconds(60),
                                 std::size_t most_bytes = 64u << 20);
  PeerClient(PeerClient&&) noexcept;
  ~PeerClient();

  // Errors: unavailable if nothing listens, timeout, protocol if the answer is too large, cut off
  // or not HTTP.
  Result<PeerAnswer> ask(std::string_view query, PeerTerms terms);

 private:
  struct Line;
  explicit PeerClient(std::unique_ptr<Line> line);
  std::unique_ptr<Line> line_;
};

// Which of these queries the peer refuses, by index, with its message. Any other failure is an
// error.
Result<std::map<std::size_t, std::string>> refused_by(PeerClient& peer,
                                                      const std::vector<std::string>& queries);

}  // namespace warren::bench
