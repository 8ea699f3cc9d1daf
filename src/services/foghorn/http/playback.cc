#include "services/foghorn/http/playback.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <utility>

#include "net/http/message.h"
#include "net/http/target.h"

namespace warren::foghorn {

namespace {

namespace json = boost::json;

constexpr std::array<std::pair<std::string_view, std::string_view>, 20> aliases{{
    {"m3u8", "hls"},
    {"mpd", "dash"},
    {"llhls", "cmaf"},
    {"ll-hls", "cmaf"},
    {"whep", "webrtc"},
    {"progressive", "mp4"},
    {"matroska", "mkv"},
    {"mpegts", "ts"},
    {"mpeg-ts", "ts"},
    {"flash", "flv"},
    {"audio", "aac"},
    {"smooth", "smoothstreaming"},
    {"hss", "smoothstreaming"},
    {"f4m", "hds"},
    {"dynamic", "hds"},
    {"rawh264", "h264"},
    {"raw", "h264"},
    {"mist", "dtsc"},
    {"any", ""},
    {"all", ""},
}};
constexpr std::array<std::string_view, 21> protocols{
    "hls",  "dash", "cmaf",  "webrtc",          "mp4", "mkv",  "webm", "ts",
    "flv",  "aac",  "mp3",   "smoothstreaming", "hds", "h264", "dtsc", "rtmp",
    "rtsp", "srt",  "wsmp4", "wswebrtc",        "ogg"};

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return out;
}

bool is_protocol(std::string_view word) {
  auto small = lower(word);
  return std::ranges::count(protocols, small) > 0 ||
         std::ranges::count(aliases, small, [](auto& pair) { return pair.first; }) > 0;
}

bool contains_word(std::string_view text, std::string_view word) {
  auto found = std::ranges::search(text, word, {}, [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return !found.empty();
}

bool matches(std::string_view name, std::string_view protocol) {
  if (protocol == "wsmp4") return contains_word(name, "ws") && contains_word(name, "mp4");
  if (protocol == "wswebrtc") return contains_word(name, "ws") && contains_word(name, "webrtc");
  return contains_word(name, protocol);
}

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

const json::string* url_of(const json::value& value) {
  if (value.is_string()) return &value.get_string();
  if (!value.is_array()) return nullptr;
  for (const auto& each : value.get_array())
    if (each.is_string()) return &each.get_string();
  return nullptr;
}

bool is_manifest(std::string_view path) {
  auto small = lower(path.substr(path.rfind('/') + 1));
  return small == "manifest" || std::ranges::any_of(std::array{".m3u8", ".mpd", ".f4m"},
                                                    [&](auto end) { return small.ends_with(end); });
}

// Where the query or the fragment begins.
std::size_t end_of_path(std::string_view url) {
  return std::min(url.size(), url.find_first_of("?#"));
}

}  // namespace

std::string normal_protocol(std::string_view word) {
  auto small = lower(word);
  for (auto [alias, protocol] : aliases)
    if (small == alias) return std::string(protocol);
  return small;
}

Result<PlaybackPath> parse_playback(std::string_view path) {
  auto key = percent_decoded(next_part(path));
  auto word = percent_decoded(next_part(path));
  if (!key || !word) return fail(Errc::invalid, "the path has a percent sign without a number");
  if (key->empty()) return fail(Errc::not_found, "there is no view key in the path");
  if (path.starts_with('/')) path.remove_prefix(1);
  PlaybackPath asked{.key = *std::move(key), .manifest = path};
  auto rest = path;
  do {
    auto part = percent_decoded(rest.substr(0, rest.find('/')));
    if (!part || *part == ".." || *part == "." || part->contains('/') || part->contains('\\'))
      return fail(Errc::invalid, "the path leads elsewhere");
    rest.remove_prefix(
        std::min(rest.size(), rest.find('/') == rest.npos ? rest.size() : rest.find('/') + 1));
  } while (!rest.empty());
  if (!word->empty()) {
    asked.protocol = normal_protocol(*word);
  } else if (auto dot = asked.key.rfind('.');
             dot != asked.key.npos && dot > 0 && is_protocol(asked.key.substr(dot + 1))) {
    asked.protocol = normal_protocol(asked.key.substr(dot + 1));
    asked.key.resize(dot);
  }
  return asked;
}

std::vector<Output> parse_outputs(std::string_view text) {
  boost::system::error_code error;
  auto value = json::parse(text, error);
  std::vector<Output> outputs;
  if (error || !value.is_object()) return outputs;
  for (const auto& [name, each] : value.get_object())
    if (const auto* url = url_of(each); url && !url->empty())
      outputs.push_back({std::string(name), std::string(*url)});
  return outputs;
}

const Output* find_output(const std::vector<Output>& outputs, std::string_view protocol) {
  for (const auto& output : outputs)
    if (same_word(output.name, protocol)) return &output;
  for (const auto& output : outputs)
    if (matches(output.name, protocol)) return &output;
  return nullptr;
}

const Output* preferred_output(const std::vector<Output>& outputs) {
  for (auto protocol : {"webrtc", "hls"})
    if (const auto* found = find_output(outputs, protocol)) return found;
  return outputs.empty() ? nullptr : &outputs.front();
}

PublicHost public_host(std::string_view base_url) {
  PublicHost found{"https", base_url};
  if (auto at = base_url.find("://"); at != base_url.npos)
    found = {base_url.substr(0, at), base_url.substr(at + 3)};
  else if (base_url.starts_with("//"))
    found.host.remove_prefix(2);
  found.host = found.host.substr(0, found.host.find_first_of("/?#"));
  return found;
}

std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

std::string output_url(std::string_view url_template, std::string_view base_url,
                       std::string_view key) {
  auto [scheme, host] = public_host(base_url);
  std::string url;
  url.reserve(url_template.size() + host.size() + key.size() + 64);
  if (url_template.starts_with("//")) url.append(scheme).append(":");
  url.append(url_template);
  replace_all(url, "HOST", host);
  replace_all(url, "$", percent_encoded(key));
  return url;
}

std::string with_manifest(std::string url, std::string_view manifest) {
  auto end = end_of_path(url);
  std::string_view path(url.data(), end);
  if (manifest.empty() || is_manifest(path)) return url;
  bool has_slash = path.ends_with('/');
  url.insert(end, (has_slash ? "" : "/") + std::string(manifest));
  return url;
}

std::string with_query(std::string url, std::string_view query) {
  if (query.empty()) return url;
  auto end = std::min(url.size(), url.find('#'));
  bool has_query = std::string_view(url.data(), end).contains('?');
  url.insert(end, (has_query ? "&" : "?") + std::string(query));
  return url;
}

}  // namespace warren::foghorn
