#include "services/fleet/fetch/trouble.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace warren::fleet {

namespace {

constexpr std::size_t longest_text = 400;
// Child keeps the first 64 KB of what git complains about, so why it ended is lost beyond that.
constexpr std::size_t most_errors = 60u << 10;

struct Phrase {
  std::string_view words;
  Errc code;
};

// The first that fits counts.
constexpr std::array phrases{
    // the web
    Phrase{"Authentication failed for", Errc::denied},
    Phrase{"could not read Username for", Errc::denied},
    Phrase{"could not read Password for", Errc::denied},
    Phrase{"returned error: 401", Errc::denied}, Phrase{"returned error: 403", Errc::denied},
    Phrase{"returned error: 407", Errc::denied}, Phrase{"returned error: 404", Errc::not_found},
    Phrase{"/' not found", Errc::not_found}, Phrase{"returned error: 410", Errc::not_found},
    Phrase{"returned error: 408", Errc::unavailable},
    Phrase{"returned error: 429", Errc::unavailable},
    Phrase{"returned error: 5", Errc::unavailable}, Phrase{"returned error: ", Errc::refused},
    Phrase{"SSL certificate", Errc::denied}, Phrase{"certificate verif", Errc::denied},
    Phrase{"certificate subject name", Errc::denied},
    Phrase{"not valid: is this a git repository?", Errc::protocol},
    // ssh
    Phrase{"Permission denied", Errc::denied}, Phrase{"Host key verification failed", Errc::denied},
    Phrase{"REMOTE HOST IDENTIFICATION HAS CHANGED", Errc::denied},
    Phrase{"Too many authentication failures", Errc::denied},
    // what a server names
    Phrase{"does not appear to be a git repository", Errc::not_found},
    // It may be there, and not for us.
    Phrase{"access denied or repository not exported", Errc::refused},
    Phrase{"remote error: no such repository", Errc::not_found},
    Phrase{"remote error: repository not exported", Errc::refused},
    Phrase{"ERROR: Repository not found", Errc::not_found},
    Phrase{"remote error: Repository not found", Errc::not_found},
    Phrase{"remote error: service not enabled", Errc::refused},
    Phrase{"remote error: ", Errc::refused},
    // our limits
    Phrase{"File too large", Errc::overloaded}, Phrase{"Out of memory", Errc::overloaded},
    Phrase{"out of memory", Errc::overloaded}, Phrase{"Cannot allocate memory", Errc::overloaded},
    Phrase{"No space left on device", Errc::overloaded},
    // what is not git's
    Phrase{"protocol error", Errc::protocol}, Phrase{"bad line length", Errc::protocol},
    Phrase{"bad pack header", Errc::protocol}, Phrase{"pack signature mismatch", Errc::protocol},
    Phrase{"pack has bad object", Errc::protocol}, Phrase{"fsck error", Errc::protocol},
    Phrase{"inflate", Errc::protocol}, Phrase{"unknown object type", Errc::protocol},
    Phrase{"pack version", Errc::protocol}, Phrase{"expected ", Errc::protocol},
    Phrase{"unexpected line", Errc::protocol}, Phrase{"invalid ls-refs response", Errc::protocol},
    Phrase{"invalid server response", Errc::protocol},
    Phrase{"did not send all necessary objects", Errc::protocol},
    // the way there
    Phrase{"Could not resolve", Errc::unavailable}, Phrase{"unable to look up", Errc::unavailable},
    Phrase{"Failed to connect", Errc::unavailable},
    Phrase{"unable to connect to", Errc::unavailable},
    Phrase{"Connection refused", Errc::unavailable},
    Phrase{"Connection timed out", Errc::unavailable},
    Phrase{"Connection reset", Errc::unavailable}, Phrase{"Connection closed", Errc::unavailable},
    Phrase{"No route to host", Errc::unavailable},
    Phrase{"Network is unreachable", Errc::unavailable},
    Phrase{"Operation timed out", Errc::unavailable},
    Phrase{"Empty reply from server", Errc::unavailable},
    Phrase{"Received HTTP/0.9", Errc::protocol}, Phrase{"SSL_ERROR", Errc::unavailable},
    Phrase{"gnutls_handshake", Errc::unavailable}, Phrase{"RPC failed", Errc::unavailable},
    Phrase{"early EOF", Errc::unavailable}, Phrase{"hung up", Errc::unavailable},
    Phrase{"unexpected disconnect", Errc::unavailable},
    Phrase{"Could not read from remote repository", Errc::unavailable},
    Phrase{"index-pack", Errc::protocol}, Phrase{"unable to access", Errc::unavailable}};

std::string_view take_line(std::string_view& text) {
  auto line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line;
}

// git's own lines in one.
std::string own_lines(std::string_view errors) {
  std::string result;
  while (!errors.empty()) {
    auto line = take_line(errors);
    if (line.empty() || line.starts_with("remote:")) continue;
    result += (result.empty() ? "" : "; ") + std::string(line);
  }
  return result;
}

std::string one_line(std::string_view errors) {
  std::string result;
  while (!errors.empty()) {
    auto line = take_line(errors);
    if (line.empty()) continue;
    result += (result.empty() ? "" : "; ") + std::string(line);
  }
  for (char& c : result)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  // What went wrong is said last.
  if (result.size() > longest_text) result = "… " + result.substr(result.size() - longest_text);
  return result;
}

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  if (what.empty()) return;
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

std::string percent_encoded(std::string_view text, bool upper) {
  std::string result;
  for (char c : text) {
    bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '-' || c == '.' || c == '_' || c == '~';
    auto byte = static_cast<unsigned char>(c);
    if (is_plain)
      result += c;
    else
      result += upper ? fmt::format("%{:02X}", byte) : fmt::format("%{:02x}", byte);
  }
  return result;
}

std::string base64(std::string_view text) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string result;
  for (std::size_t i = 0; i < text.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t j = 0; j < 3; ++j)
      three = three << 8 | (i + j < text.size() ? static_cast<unsigned char>(text[i + j]) : 0u);
    for (std::size_t j = 0; j < 4; ++j)
      result += i + j <= text.size() ? digits[three >> (18 - 6 * j) & 63] : '=';
  }
  return result;
}

// "://anna:secret@" becomes "://".
void drop_userinfo(std::string& text) {
  for (auto at = text.find("://"); at != text.npos; at = text.find("://", at + 3)) {
    auto end = text.find_first_of("/ '\"\n\t", at + 3);
    auto user = text.substr(at + 3, end == text.npos ? end : end - at - 3).rfind('@');
    if (user != text.npos) text.erase(at + 3, user + 1);
  }
}

}  // namespace

std::string scrubbed(std::string text, const std::optional<Credential>& credential) {
  if (credential) {
    const auto& password = credential->password.reveal();
    replace_all(text, base64(credential->user + ":" + password), "***");
    replace_all(text, password, "***");
    replace_all(text, percent_encoded(password, true), "***");
    replace_all(text, percent_encoded(password, false), "***");
    replace_all(text, base64(password), "***");
  }
  drop_userinfo(text);
  return text;
}

Error trouble(int code, std::string_view errors, const RemoteUrl& url,
              const std::optional<Credential>& credential) {
  auto words = own_lines(errors);
  replace_all(words, url.text(), "");  // a repository may be called whatever it likes
  const auto* found = std::ranges::find_if(
      phrases, [&](const Phrase& phrase) { return words.contains(phrase.words); });
  auto kind = found == phrases.end() ? Errc::protocol : found->code;
  // What our limits end. Some git programs say how another of theirs ended.
  bool is_cut = code == 128 + SIGXFSZ || code == 128 + SIGKILL || code == 128 + SIGSEGV ||
                words.contains(fmt::format("died of signal {}", SIGXFSZ));
  // A server can make git complain about each of its lines, until git has no memory left.
  is_cut = is_cut || errors.size() > most_errors;
  if (is_cut) kind = Errc::overloaded;
  auto said = one_line(scrubbed(std::string(errors), credential));
  if (said.empty()) said = fmt::format("git ended with {}", code);
  return {kind,
          fmt::format("{}: {}{}", url.text(), is_cut ? "it is larger than allowed: " : "", said)};
}

bool is_redirected(std::string_view errors) {
  return own_lines(errors).contains("The requested URL returned error: 30");
}

std::optional<Redirection> redirection(std::string_view trace) {
  constexpr std::string_view mark = "<= Recv header: ";
  constexpr std::string_view location = "location: ";
  int status = 0;
  std::optional<Redirection> found;
  while (!trace.empty()) {
    auto line = take_line(trace);
    auto at = line.find(mark);
    if (at == line.npos) continue;
    auto header = line.substr(at + mark.size());
    if (header.starts_with("HTTP/")) {
      auto code = header.substr(std::min(header.size(), header.find(' ') + 1)).substr(0, 3);
      if (std::from_chars(code.data(), code.data() + code.size(), status).ec != std::errc())
        status = 0;
      found.reset();
    }
    bool is_location = std::ranges::equal(
        header.substr(0, location.size()), location, {},
        [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
    bool is_elsewhere = status >= 301 && status <= 308;
    if (is_elsewhere && is_location)
      found = {std::string(header.substr(location.size())), status == 301 || status == 308};
  }
  return found;
}

}  // namespace warren::fleet
