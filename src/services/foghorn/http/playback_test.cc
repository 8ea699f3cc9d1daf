#include "services/foghorn/http/playback.h"

#include <doctest/doctest.h>

using namespace warren;
using namespace warren::foghorn;

namespace {

std::string shown(std::string_view path) {
  auto asked = parse_playback(path);
  if (!asked) return std::string(name(asked.error().code));
  return fmt::format("{}|{}|{}", asked->key, asked->protocol, asked->manifest);
}

}  // namespace

TEST_CASE("a playback path has a key, maybe a protocol, maybe a manifest") {
  CHECK(shown("/abc") == "abc||");
  CHECK(shown("/abc/") == "abc||");
  CHECK(shown("/abc.m3u8") == "abc|hls|");
  CHECK(shown("/abc.WebRTC") == "abc|webrtc|");
  CHECK(shown("/abc/hls") == "abc|hls|");
  CHECK(shown("/abc/hls/index.m3u8") == "abc|hls|index.m3u8");
  CHECK(shown("/abc/hls/1/2.ts") == "abc|hls|1/2.ts");
  CHECK(shown("/abc/any") == "abc||");
  CHECK(shown("/abc.all") == "abc||");
  CHECK(shown("/abc/Quux") == "abc|quux|");
  // A dot that no protocol follows is part of the key.
  CHECK(shown("/a.b") == "a.b||");
  CHECK(shown("/a.b.mpd") == "a.b|dash|");
  CHECK(shown("/.hls") == ".hls||");
  CHECK(shown("/live+demo/hls") == "live+demo|hls|");
  CHECK(shown("/live%2Bdemo/hls") == "live+demo|hls|");
  CHECK(shown("") == "not_found");
  CHECK(shown("/") == "not_found");
  CHECK(shown("//hls") == "not_found");
  CHECK(shown("/%zz") == "invalid");
  CHECK(shown("/abc/hls/../../x") == "invalid");
  CHECK(shown("/abc/hls/%2e%2e/x") == "invalid");
  CHECK(shown("/abc/hls/a%2Fb") == "invalid");
}

TEST_CASE("protocols have many names") {
  for (auto [word, protocol] : std::initializer_list<std::pair<const char*, const char*>>{
           {"m3u8", "hls"},     {"MPD", "dash"},    {"llhls", "cmaf"},
           {"ll-hls", "cmaf"},  {"whep", "webrtc"}, {"progressive", "mp4"},
           {"matroska", "mkv"}, {"mpegts", "ts"},   {"mpeg-ts", "ts"},
           {"flash", "flv"},    {"audio", "aac"},   {"smooth", "smoothstreaming"},
           {"f4m", "hds"},      {"dynamic", "hds"}, {"rawh264", "h264"},
           {"raw", "h264"},     {"mist", "dtsc"},   {"hss", "smoothstreaming"},
           {"HLS", "hls"},      {"all", ""}})
    CHECK(normal_protocol(word) == protocol);
}

TEST_CASE("an output is found by its name, else by a part of it") {
  auto outputs = parse_outputs(
      R"x({"HLS":"https://HOST/hls/$/index.m3u8","MP4 over WS":"wss://HOST/$.mp4",
          "MP4":["//HOST/$.mp4"],"WebRTC (WHEP)":"https://HOST/webrtc/$","N":7,"E":"","A":[1]})x");
  CHECK(outputs.size() == 4);
  auto found = [&](std::string_view protocol) -> std::string {
    const auto* output = find_output(outputs, protocol);
    return output ? output->name : "-";
  };
  CHECK(found("hls") == "HLS");
  CHECK(found("mp4") == "MP4");
  CHECK(found("webrtc") == "WebRTC (WHEP)");
  CHECK(found("wsmp4") == "MP4 over WS");
  CHECK(found("wswebrtc") == "-");
  CHECK(found("dash") == "-");
  CHECK(preferred_output(outputs)->name == "WebRTC (WHEP)");
  CHECK(preferred_output({}) == nullptr);
  CHECK(parse_outputs("[]").empty());
  CHECK(parse_outputs("{").empty());
}

TEST_CASE("host and scheme of a node are kept apart") {
  auto parts = [](std::string_view url) {
    auto [scheme, host] = public_host(url);
    return fmt::format("{} {}", scheme, host);
  };
  CHECK(parts("https://edge-a.example") == "https edge-a.example");
  CHECK(parts("http://edge-a.example:8080/view/") == "http edge-a.example:8080");
  CHECK(parts("edge-a.example") == "https edge-a.example");
  CHECK(parts("//edge-a.example/") == "https edge-a.example");
  CHECK(parts("") == "https ");
  CHECK(without_port("edge.example:80") == "edge.example");
  CHECK(without_port("[::1]:80") == "[::1]");
}

TEST_CASE("templates are filled, then comes the manifest, then the query") {
  CHECK(output_url("https://HOST/hls/$/index.m3u8", "http://e.example:8080/x", "a b") ==
        "https://e.example:8080/hls/a%20b/index.m3u8");
  CHECK(output_url("//HOST/$", "http://e.example", "k") == "http://e.example/k");
  CHECK(with_manifest("https://h/hls/k/", "index.m3u8") == "https://h/hls/k/index.m3u8");
  CHECK(with_manifest("https://h/hls/k", "a/b.m3u8") == "https://h/hls/k/a/b.m3u8");
  CHECK(with_manifest("https://h/hls/k?t=1", "i.m3u8") == "https://h/hls/k/i.m3u8?t=1");
  CHECK(with_manifest("https://h/hls/k/index.m3u8", "i.m3u8") == "https://h/hls/k/index.m3u8");
  CHECK(with_manifest("https://h/k/Manifest?t", "x") == "https://h/k/Manifest?t");
  CHECK(with_manifest("https://h/k", "") == "https://h/k");
  CHECK(with_query("https://h/k", "fwcid=1") == "https://h/k?fwcid=1");
  CHECK(with_query("https://h/k?a#f", "fwcid=1") == "https://h/k?a&fwcid=1#f");
  CHECK(with_query(with_manifest("https://h/k", "i.m3u8"), "fwcid=1") ==
        "https://h/k/i.m3u8?fwcid=1");
}
