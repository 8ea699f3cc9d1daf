#include "services/foghorn/http/call.h"

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <cmath>
#include <iterator>
#include <utility>

#include "net/http/target.h"
#include "services/foghorn/balance/view.h"

namespace warren::foghorn {

namespace {

namespace json = boost::json;

constexpr std::size_t most_adjustments = 64;

int status_of(Errc code) {
  switch (code) {
    case Errc::invalid:
      return 400;
    case Errc::denied:
      return 403;
    case Errc::not_found:
      return 404;
    case Errc::held_elsewhere:
    case Errc::lease_lost:
    case Errc::refused:
      return 409;
    case Errc::unavailable:
    case Errc::overloaded:
    case Errc::unknown_outcome:
    case Errc::cancelled:
      return 503;
    case Errc::timeout:
      return 504;
    case Errc::protocol:
      return 500;
  }
  std::abort();
}

double number_in(std::string_view text) {
  double number = 0;
  const auto* begin = text.data();
  const auto* end = begin + text.size();
  auto read = std::from_chars(begin, end, number);
  return read.ec == std::errc() && read.ptr == end ? number : std::nan("");
}

std::string_view trimmed(std::string_view text) {
  auto from = text.find_first_not_of(' ');
  if (from == text.npos) return {};
  return text.substr(from, text.find_last_not_of(' ') - from + 1);
}

// As the library would, but 52.1 for 5.21E1: people read it, too.
void write(std::string& out, const json::value& value) {
  if (value.is_double() && std::isfinite(value.get_double())) {
    fmt::format_to(std::back_inserter(out), "{}", value.get_double());
  } else if (value.is_array()) {
    const char* before = "[";
    for (const auto& each : value.get_array()) {
      write(out.append(std::exchange(before, ",")), each);
    }
    out.append(value.get_array().empty() ? "[]" : "]");
  } else if (value.is_object()) {
    const char* before = "{";
    for (const auto& [name, each] : value.get_object()) {
      out.append(std::exchange(before, ",")).append(json::serialize(name)).append(":");
      write(out, each);
    }
    out.append(value.get_object().empty() ? "{}" : "}");
  } else {
    out.append(json::serialize(value));
  }
}

// Who forwards says so, and browsers say where they come from.
bool comes_by_itself(const HttpRequest& request) {
  constexpr std::array<std::string_view, 8> telling{"x-forwarded-for", "forwarded",       "via",
                                                    "x-real-ip",       "origin",          "referer",
                                                    "sec-fetch-site",  "x-forwarded-host"};
  return std::ranges::all_of(telling, [&](auto name) { return request.header(name).empty(); });
}

// Not by a name that a foreign page made point here.
bool is_for_here(const HttpRequest& request) {
  auto host = without_port(request.header("host"));
  return same_word(host, "localhost") || host == "127.0.0.1" || host == "[::1]";
}

}  // namespace

const std::vector<Output>& OutputCache::of(std::uint32_t place, const balance::NodeFacts& node) {
  if (place >= entries_.size()) entries_.resize(place + std::size_t{1});
  auto& entry = entries_[place];
  if (entry.json != node.outputs_json) {
    entry.json = node.outputs_json;
    entry.outputs = parse_outputs(entry.json);
  }
  return entry.outputs;
}

std::optional<std::string> Call::query(std::string_view name) const {
  return query_value(request.query, name);
}

bool Call::is_method(std::string_view method) const {
  return request.method == method || (method == "GET" && request.method == "HEAD");
}

void refuse(HttpAnswer& answer, int status, std::string_view code, std::string_view message) {
  answer.body.clear();
  answer.status = status;
  give(answer, json::object{{"error", reason_of(status)}, {"message", message}, {"code", code}});
}

void refuse(HttpAnswer& answer, const Error& error) {
  std::string code(name(error.code));
  std::ranges::transform(code, code.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  refuse(answer, status_of(error.code), code, error.what);
}

void send_to(HttpAnswer& answer, int status, std::string_view url) {
  if (!answer.add("Location", url))
    return refuse(answer, 500, "INVALID_LOCATION", "the way there cannot be told");
  answer.status = status;
}

void refuse_method(HttpAnswer& answer, std::string_view allowed) {
  refuse(answer, 405, "METHOD_NOT_ALLOWED", fmt::format("here one can {}", allowed));
  answer.add("Allow", allowed);
}

void give(HttpAnswer& answer, const json::value& value) {
  answer.type = "application/json";
  write(answer.body, value);
  answer.body.push_back('\n');
}

json::value value_in(std::string_view text) {
  boost::system::error_code error;
  json::parse_options options;
  options.max_depth = 128;  // twice what a report may have
  auto value = json::parse(text, error, {}, options);
  return error ? json::object{} : value;
}

ViewerPlace place_of(const HttpRequest& request) {
  auto usable = [](std::string_view latitude, std::string_view longitude) {
    ViewerPlace place{number_in(latitude), number_in(longitude)};
    return balance::is_place(place.latitude, place.longitude) ? place : ViewerPlace{};
  };
  auto place = usable(request.header("cf-iplatitude"), request.header("cf-iplongitude"));
  if (std::isnan(place.latitude))
    place = usable(request.header("x-latitude"), request.header("x-longitude"));
  if (std::isnan(place.latitude) && !request.query.empty())
    place = usable(query_value(request.query, "lat").value_or(""),
                   query_value(request.query, "lon").value_or(""));
  return place;
}

std::vector<balance::TagAdjustment> adjustments_of(const HttpRequest& request) {
  std::string text(request.header("x-tag-adjust"));
  if (text.empty() && !request.query.empty())
    text = query_value(request.query, "tag_adjust").value_or("");
  if (text.empty()) return {};
  boost::system::error_code error;
  auto value = json::parse(text, error);
  if (error || !value.is_object() || value.get_object().size() > most_adjustments) return {};
  std::vector<balance::TagAdjustment> adjustments;
  for (const auto& [expression, amount] : value.get_object()) {
    if (!amount.is_int64()) return {};
    adjustments.push_back({std::string(expression), amount.get_int64()});
  }
  return adjustments;
}

asio::ip::address client_of(const HttpRequest& request,
                            const std::vector<asio::ip::address>& proxies) {
  auto client = request.client;
  auto is_proxy = [&] { return std::ranges::count(proxies, client) > 0; };
  if (proxies.empty() || !is_proxy()) return client;
  // Several lines are one list, and what the nearest proxy added is at its end.
  for (auto line = request.header_count; line-- > 0;) {
    if (!same_word(request.headers[line].name, "x-forwarded-for")) continue;
    auto list = request.headers[line].value;
    while (!list.empty() && is_proxy()) {
      auto comma = list.rfind(',');
      auto word = trimmed(comma == list.npos ? list : list.substr(comma + 1));
      list = comma == list.npos ? std::string_view() : list.substr(0, comma);
      boost::system::error_code error;
      auto address = asio::ip::make_address(std::string(word), error);
      if (error) return client;
      client = address;
    }
  }
  return client;
}

bool is_trusted(const HttpRequest& request, const SurfaceTerms& terms) {
  if (!terms.token.empty())
    return same_secret(bearer_token(request.header("authorization")), terms.token);
  return terms.is_only_here && request.client.is_loopback() && is_for_here(request) &&
         comes_by_itself(request);
}

std::string expect_viewer(Call& call, std::string_view node, std::string_view content) {
  if (call.request.method == "HEAD") return {};
  return "fwcid=" + call.cluster.redirect(node, content, call.client.to_string());
}

bool is_loading(Call& call) {
  if (call.cluster.health() != MirrorHealth::loading) return false;
  refuse(call.answer, 503, "LOADING", "this instance has not loaded its cluster yet");
  call.answer.add("Retry-After", "1");
  return true;
}

const balance::NodeFacts* best_of(const balance::RoutingTable& table,
                                  const balance::Decision& decision) {
  for (std::size_t i = 0; i < decision.count; ++i)
    if (const auto* node = balance::node_at(table, decision.best[i].node);
        node && !node->base_url.empty())
      return node;
  return nullptr;
}

bool may_change(const Call& call) {
  if (is_trusted(call.request, call.terms)) return true;
  if (call.terms.token.empty()) {
    refuse(call.answer, 403, "FORBIDDEN",
           call.terms.is_only_here
               ? "without FOGHORN_TOKEN only programs on this machine may change something"
               : "set FOGHORN_TOKEN: without it nothing is changed, unless the instance listens on "
                 "this machine alone (--listen 127.0.0.1)");
  } else {
    refuse(call.answer, 401, "UNAUTHORIZED", "this needs the bearer token of this Foghorn");
    call.answer.add("WWW-Authenticate", "Bearer");
  }
  return false;
}

std::size_t number_of(const Call& call, std::string_view name, std::size_t fallback,
                      std::size_t most) {
  auto text = call.query(name);
  std::size_t number = fallback;
  if (text) {
    const auto* end = text->data() + text->size();
    auto read = std::from_chars(text->data(), end, number);
    if (read.ec != std::errc() || read.ptr != end) number = fallback;
  }
  return std::min(number, most);
}

}  // namespace warren::foghorn
