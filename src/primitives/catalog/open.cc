#include "primitives/catalog/open.h"

#include <algorithm>

#include "primitives/catalog/etcd.h"
#include "primitives/catalog/postgres.h"
#include "primitives/catalog/redis.h"

namespace warren {

namespace {

bool has_scheme(std::string_view url, std::initializer_list<std::string_view> schemes) {
  return std::ranges::any_of(schemes, [&](auto scheme) {
    return url.starts_with(scheme) && url.substr(scheme.size()).starts_with("://");
  });
}

std::string table_prefix(std::string prefix) {
  for (char& c : prefix) {
    bool is_plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    if (!is_plain) c = '_';
  }
  return prefix;
}

}  // namespace

Async<std::unique_ptr<Catalog>> open_catalog(CatalogPlace place, Clock::time_point deadline) {
  auto executor = co_await asio::this_coro::executor;
  if (has_scheme(place.url, {"postgres", "postgresql"}))
    co_return co_await PostgresCatalog::open(executor, std::move(place.url),
                                             table_prefix(std::move(place.prefix)), deadline);
  if (has_scheme(place.url, {"etcd", "etcds"}))
    co_return co_await EtcdCatalog::open(executor, std::move(place.url), std::move(place.prefix),
                                         deadline);
  if (!place.url.empty()) {
    if (!has_scheme(place.url, {"redis", "rediss", "unix"}))
      co_return fail(Errc::invalid,
                     "a catalog is at redis://…, postgres://… or etcd://…: see docs/fleet.md");
    auto settings = redis::parse_url(place.url);
    if (!settings) co_return std::unexpected(settings.error());
    place.redis = *std::move(settings);
  }
  co_return RedisCatalog::open(executor, std::move(place.redis), place.prefix);
}

}  // namespace warren
