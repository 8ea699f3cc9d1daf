#include "primitives/catalog/etcd/listing.h"

#include <algorithm>

namespace warren::etcd {

namespace {

constexpr std::int64_t first_page = 1000;
// This many rows of the greatest size fit into one answer.
constexpr std::int64_t least_page = 16;
constexpr std::size_t most_rows_at_once = 64;

pb::RangeRequest page_of(const std::string& prefix, Only what) {
  pb::RangeRequest request;
  request.set_key(prefix);
  request.set_range_end(after_prefix(prefix));
  request.set_limit(first_page);
  request.set_keys_only(what == Only::keys);
  return request;
}

Async<Listing> list_once(Client& client, std::string prefix, Only what,
                         Clock::time_point deadline) {
  Listing listing;
  auto request = page_of(prefix, what);
  for (;;) {
    auto page = co_await client.range(request, deadline);
    if (!page && page.error().code == Errc::overloaded && request.limit() > least_page) {
      request.set_limit(std::max(request.limit() / 4, least_page));
      continue;
    }
    if (!page) co_return std::unexpected(page.error());
    if (request.revision() == 0) {
      listing.header = page->header();
      request.set_revision(page->header().revision());
    }
    for (auto& kv : *page->mutable_kvs()) listing.kvs.push_back(std::move(kv));
    if (!page->more() || page->kvs().empty()) co_return std::move(listing);
    request.set_key(listing.kvs.back().key() + '\0');
  }
}

}  // namespace

Async<Listing> list(Client& client, std::string prefix, Only what, Clock::time_point deadline) {
  for (;;) {
    auto listing = co_await list_once(client, prefix, what, deadline);
    // Its revision was compacted between two pages.
    if (!listing && listing.error().code == Errc::refused) continue;
    co_return listing;
  }
}

Async<std::vector<std::optional<SeenRow>>> read_rows(Store& store, std::vector<std::string> keys,
                                                     std::int64_t revision,
                                                     Clock::time_point deadline) {
  std::vector<std::optional<SeenRow>> rows;
  auto at_once = most_rows_at_once;
  while (rows.size() < keys.size()) {
    Txn txn;
    auto end = std::min(rows.size() + at_once, keys.size());
    for (auto i = rows.size(); i < end; ++i) txn.get(store.keys.row(keys[i]));
    for (auto& op : *txn.request.mutable_success())
      op.mutable_request_range()->set_revision(revision);
    auto answer = co_await store.client.txn(std::move(txn.request), deadline);
    if (!answer && answer.error().code == Errc::overloaded && at_once > least_page) {
      at_once = least_page;
      continue;
    }
    if (!answer) co_return std::unexpected(answer.error());
    for (auto& response : answer->responses()) {
      rows.emplace_back();
      if (response.response_range().kvs().empty()) continue;
      auto seen = seen_row(keys[rows.size() - 1], response.response_range().kvs(0));
      if (!seen) co_return std::unexpected(seen.error());
      rows.back() = std::move(*seen);
    }
  }
  co_return std::move(rows);
}

}  // namespace warren::etcd
