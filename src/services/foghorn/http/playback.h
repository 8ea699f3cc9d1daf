#pragma once
// What a viewer asks for, and the URL that he gets: text in, text out.
//
//   /play/KEY  /play/KEY.hls  /play/KEY/hls  /play/KEY/hls/index.m3u8
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace warren::foghorn {

struct PlaybackPath {
  std::string key;                 // decoded
  std::string protocol = {};       // normalised; empty: all of them, as JSON
  std::string_view manifest = {};  // as it was sent
};
// Of what stands behind /play. Errc::invalid: a path that nobody should follow. Errc::not_found:
// there is no key in it.
Result<PlaybackPath> parse_playback(std::string_view path);

// m3u8 -> hls, whep -> webrtc, any -> "". What has no alias is itself, in small letters.
std::string normal_protocol(std::string_view word);

// How a node is reached by one protocol.
struct Output {
  std::string name;  // "HLS", as the node calls it
  std::string url;   // a template: $ is the key, HOST the node's host
};
// From what a node reports: {"HLS": "https://HOST/hls/$/index.m3u8", "MP4": ["//HOST/$.mp4"]}.
// What is no URL is left out.
std::vector<Output> parse_outputs(std::string_view json);
// The exact name, else one that contains it; null: none. "wsmp4" wants both ws and mp4.
const Output* find_output(const std::vector<Output>& outputs, std::string_view protocol);
// What a player is offered first: WebRTC, HLS, else the first; null when there is none.
const Output* preferred_output(const std::vector<Output>& outputs);

// https://edge.example:8080/x -> https and edge.example:8080. Without a scheme: https.
struct PublicHost {
  std::string_view scheme, host;  // the host with its port
};
PublicHost public_host(std::string_view base_url);
std::string_view without_port(std::string_view host);

// The template filled in. Without a scheme it has that of the node.
std::string output_url(std::string_view url_template, std::string_view base_url,
                       std::string_view key);
// Appends the manifest, before the query, unless the URL is one already.
std::string with_manifest(std::string url, std::string_view manifest);
// Appends pairs to the query.
std::string with_query(std::string url, std::string_view query);

}  // namespace warren::foghorn
