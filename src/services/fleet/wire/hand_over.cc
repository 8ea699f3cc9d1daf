#include "services/fleet/wire/hand_over.h"

#include <algorithm>
#include <boost/json.hpp>
#include <numeric>

#include "services/fleet/wire/wire.h"

namespace warren::fleet {

namespace {

namespace json = boost::json;

bool read_epoch(const json::object& from, FencingToken& into) {
  auto token = parse_epoch(std::string_view(from.at("epoch").as_string()));
  if (token) into = *token;
  return token.has_value();
}

// The accessors of the library throw where a member is missing or of another kind.
template <class Record, class Read>
Result<Record> read_object(std::string_view text, Read read) {
  boost::system::error_code error;
  json::parse_options options;
  options.max_depth = 8;
  auto value = json::parse(text, error, {}, options);
  if (error || !value.is_object()) return fail(Errc::invalid, "the body is not a JSON object");
  auto wrong = fail(Errc::invalid, "the body is not that of a hand-over");
  try {
    Record record;
    if (!read(value.get_object(), record)) return wrong;
    return record;
  } catch (const std::exception&) {
    return wrong;
  }
}

}  // namespace

std::uint64_t HandOver::bytes() const {
  return std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
}

std::string to_json(const HandOver& offer) {
  json::object commits;
  for (const auto& [ref, commit] : offer.commits) commits[ref] = commit;
  return json::serialize(json::object{{"key", offer.key},
                                      {"epoch", to_string(offer.epoch)},
                                      {"session", offer.session},
                                      {"spec", offer.spec},
                                      {"commits", std::move(commits)},
                                      {"reindex", offer.reindex},
                                      {"size_bytes", offer.text_bytes},
                                      {"fetch_time_ms", offer.fetch_ms},
                                      {"index_time_ms", offer.index_ms},
                                      {"indexed", offer.has_index},
                                      {"symbols", offer.has_symbols},
                                      {"warm", offer.is_warm},
                                      {"last_indexed_at", offer.indexed_at},
                                      {"sizes", json::value_from(offer.sizes)}});
}

Result<HandOver> parse_hand_over(std::string_view text) {
  return read_object<HandOver>(text, [](const json::object& from, HandOver& into) {
    auto number = [&](const char* name) { return from.at(name).to_number<std::uint64_t>(); };
    into.key = from.at("key").as_string();
    into.session = from.at("session").as_string();
    into.spec = from.at("spec").as_string();
    for (const auto& [ref, commit] : from.at("commits").as_object())
      into.commits[std::string(ref)] = commit.as_string();
    into.reindex = number("reindex");
    into.text_bytes = number("size_bytes");
    into.fetch_ms = number("fetch_time_ms");
    into.index_ms = number("index_time_ms");
    into.has_index = from.at("indexed").as_bool();
    into.has_symbols = from.at("symbols").as_bool();
    into.is_warm = from.at("warm").as_bool();
    into.indexed_at = from.at("last_indexed_at").as_string();
    constexpr std::uint64_t most = std::uint64_t{1} << 50;
    for (const auto& size : from.at("sizes").as_array())
      into.sizes.push_back(std::min(size.to_number<std::uint64_t>(), most));
    return into.sizes.size() <= 1000 && read_epoch(from, into.epoch);
  });
}

std::string to_json(const HandedOver& row) {
  return json::serialize(json::object{{"key", row.key}, {"epoch", to_string(row.epoch)}});
}

Result<HandedOver> parse_handed_over(std::string_view text) {
  return read_object<HandedOver>(text, [](const json::object& from, HandedOver& into) {
    into.key = from.at("key").as_string();
    return read_epoch(from, into.epoch);
  });
}

}  // namespace warren::fleet
