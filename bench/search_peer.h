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
  std::chrono::nanoseconds duration{};  // as the server measured it
};
// Errc::protocol: not JSON, or not of this shape. Errc::refused: the server's own words.
Result<PeerAnswer> parse_peer_answer(std::string_view body);

enum class PeerTerms : std::uint8_t { bounded, all };  // 50 files with two lines around; everything
std::string peer_question(std::string_view query, PeerTerms terms);

// A text in zoekt's language, to be looked for as it stands. There what is quoted is a regular
// expression still: "i++" is none.
std::string zoekt_literal(std::string_view text);

// One connection, opened again when the server has closed it.
class PeerClient {
 public:
  // Errc::invalid: something other than http://host[:port].
  static Result<PeerClient> make(const std::string& url,
                                 std::chrono::milliseconds longest = std::chrono::seconds(60),
                                 std::size_t most_bytes = 64u << 20);
  PeerClient(PeerClient&&) noexcept;
  ~PeerClient();

  // Errc::unavailable: nobody listens. Errc::timeout: no answer in time. Errc::protocol: an answer
  // that is too large, cut off or no HTTP.
  Result<PeerAnswer> ask(std::string_view query, PeerTerms terms);

 private:
  struct Line;
  explicit PeerClient(std::unique_ptr<Line> line);
  std::unique_ptr<Line> line_;
};

// Which of these the peer refuses, by their place, and its words. Any other failure is an error.
Result<std::map<std::size_t, std::string>> refused_by(PeerClient& peer,
                                                      const std::vector<std::string>& queries);

}  // namespace warren::bench
