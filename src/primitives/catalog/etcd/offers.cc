#include "primitives/catalog/etcd/offers.h"

#include <algorithm>
#include <set>

namespace warren::etcd {

namespace {

// The number of a dead node's rows that are freed in one transaction, with three operations each.
constexpr std::size_t most_freed_at_once = (most_txn_operations - 2) / 3;
// The number of waits of one length that are examined: those that ended first.
constexpr std::int64_t most_waits_at_once = 30;
// Each length takes two operations.
constexpr std::size_t most_lengths_at_once = most_txn_operations / 2;

// This many keys of the greatest length fit into one answer.
constexpr std::size_t most_offered_at_once = 4000;

std::vector<std::string> names_below(const std::string& prefix, const pb::RangeResponse& range) {
  std::vector<std::string> names;
  for (auto& kv : range.kvs()) names.push_back(kv.key().substr(prefix.size()));
  return names;
}

// The places whose wait is over. Of both lists we have only the first few.
std::vector<std::string> over(const std::vector<std::string>& begun,
                              const std::vector<std::string>& lasting) {
  bool has_all = std::ssize(lasting) < most_waits_at_once;
  std::vector<std::string> result;
  for (auto& place : begun)
    if ((has_all || place < lasting.back()) && !std::ranges::binary_search(lasting, place))
      result.push_back(place);
  return result;
}

// Frees as many of these rows as fit. One that has another owner by now only loses its entry here.
void free_in(Txn& txn, const Keys& keys, const NodeSession& session,
             const std::vector<std::string>& owned,
             const std::vector<std::optional<SeenRow>>& rows) {
  bool has_freed = false;
  for (std::size_t i = 0; i < owned.size(); ++i) {
    auto& row = rows[i];
    txn.if_unchanged(keys.row(owned[i]), row ? row->revision : 0)
        .erase(keys.own(session, owned[i]));
    if (!row || row->record.owner() != session) continue;
    has_freed = true;
    txn.put(keys.row(row->key), freed(*row).SerializeAsString());
    txn.put(keys.offer(row->record.rank(), row->key));
    if (txn.request.ByteSizeLong() > most_txn_bytes) break;
  }
  if (has_freed) txn.put(keys.last());
}

}  // namespace

Async<std::vector<Row>> Offers::claimable(std::size_t most, Clock::time_point deadline) {
  if (most == 0) co_return std::vector<Row>();
  most = std::min(most, most_offered_at_once);
  for (bool is_first = true;; is_first = false) {
    auto seen = co_await look(most, deadline);
    if (!seen) co_return std::unexpected(seen.error());
    // The first time in any case: rows not yet on offer may be better than those that are.
    if (is_first || seen->offered.size() < most) {
      auto freed = co_await free_some(*seen, deadline);
      if (!freed) co_return std::unexpected(freed.error());
      auto ended = co_await end_waits(*seen, deadline);
      if (!ended) co_return std::unexpected(ended.error());
      if (*freed || *ended) continue;
    }
    auto rows = co_await offered_rows(std::move(*seen), deadline);
    // Its revision was compacted since.
    if (!rows && rows.error().code == Errc::refused) continue;
    co_return rows;
  }
}

Async<Offers::Look> Offers::look(std::size_t most, Clock::time_point deadline) {
  auto& keys = store_.keys;
  Txn txn;
  txn.get_under(keys.offers(), Only::keys, std::int64_t(most));
  txn.get_under(keys.lengths(), Only::keys);
  txn.get_under(keys.lives(), Only::count).get_under(keys.nodes(), Only::count);
  auto answer = co_await store_.client.txn(std::move(txn.request), deadline);
  if (!answer) co_return std::unexpected(answer.error());
  Look look;
  look.revision = answer->header().revision();
  look.offered = names_below(keys.offers(), answer->responses(0).response_range());
  for (auto& offer : look.offered) offer = key_of_offer(offer);
  look.lengths = names_below(keys.lengths(), answer->responses(1).response_range());
  // Every node also has a life.
  look.has_dead_nodes = answer->responses(2).response_range().count() !=
                        answer->responses(3).response_range().count();
  co_return look;
}

Async<bool> Offers::free_some(const Look& look, Clock::time_point deadline) {
  if (!look.has_dead_nodes) co_return false;
  auto dead = co_await dead_nodes(deadline);
  if (!dead) co_return std::unexpected(dead.error());
  for (auto& session : *dead) {
    auto freed = co_await free_some_of(session, deadline);
    if (!freed || *freed) co_return freed;
  }
  co_return false;
}

Async<> Offers::free_rows_of(NodeSession session, Clock::time_point deadline) {
  for (;;) {
    auto freed = co_await free_some_of(session, deadline);
    if (!freed) co_return std::unexpected(freed.error());
    if (!*freed) co_return ok;
  }
}

Async<bool> Offers::free_some_of(NodeSession session, Clock::time_point deadline) {
  auto& keys = store_.keys;
  auto prefix = keys.owned_by(session);
  Txn find;
  find.if_absent(keys.node(session));
  find.get_under(prefix, Only::keys, std::int64_t(most_freed_at_once));
  auto found = co_await store_.client.txn(std::move(find.request), deadline);
  if (!found) co_return std::unexpected(found.error());
  if (!found->succeeded()) co_return false;
  auto owned = names_below(prefix, found->responses(0).response_range());
  Txn txn;
  txn.if_absent(keys.node(session));
  if (owned.empty()) {
    txn.if_none_under(prefix).erase(keys.life(session));
    auto buried = co_await store_.client.txn(std::move(txn.request), deadline);
    if (!buried) co_return std::unexpected(buried.error());
    co_return false;
  }
  auto rows = co_await read_rows(store_, owned, 0, deadline);
  if (!rows) co_return std::unexpected(rows.error());
  free_in(txn, keys, session, owned, *rows);
  auto answer = co_await store_.client.txn(std::move(txn.request), deadline);
  if (!answer) co_return std::unexpected(answer.error());
  co_return true;
}

Async<std::vector<NodeSession>> Offers::dead_nodes(Clock::time_point deadline) {
  // Lives first: a node that joins in between is then also found among the nodes.
  auto lives = co_await list(store_.client, store_.keys.lives(), Only::keys, deadline);
  if (!lives) co_return std::unexpected(lives.error());
  auto nodes = co_await list(store_.client, store_.keys.nodes(), Only::keys, deadline);
  if (!nodes) co_return std::unexpected(nodes.error());
  std::set<std::string> living;
  for (auto& kv : nodes->kvs) living.insert(kv.key().substr(store_.keys.nodes().size()));
  std::vector<NodeSession> dead;
  for (auto& kv : lives->kvs) {
    auto session = kv.key().substr(store_.keys.lives().size());
    if (!living.contains(session)) dead.push_back(std::move(session));
  }
  co_return std::move(dead);
}

Async<bool> Offers::end_waits(const Look& look, Clock::time_point deadline) {
  auto& keys = store_.keys;
  bool has_ended = false;
  for (std::size_t begin = 0; begin < look.lengths.size(); begin += most_lengths_at_once) {
    auto end = std::min(begin + most_lengths_at_once, look.lengths.size());
    Txn txn;
    for (auto i = begin; i < end; ++i) {
      txn.get_under(keys.waiting(look.lengths[i] + "/"), Only::keys, most_waits_at_once);
      txn.get_under(keys.wait(look.lengths[i] + "/"), Only::keys, most_waits_at_once);
    }
    auto answer = co_await store_.client.txn(std::move(txn.request), deadline);
    if (!answer) co_return std::unexpected(answer.error());
    for (int i = 0; i < answer->responses_size(); i += 2) {
      auto begun = names_below(keys.waitings(), answer->responses(i).response_range());
      auto lasting = names_below(keys.waits(), answer->responses(i + 1).response_range());
      auto places = over(begun, lasting);
      if (!places.empty()) {
        auto offered = co_await offer_again(std::move(places), deadline);
        if (!offered) co_return offered;
        has_ended = true;
      } else if (begun.empty()) {
        auto& length = look.lengths[begin + std::size_t(i) / 2];
        Txn forget;
        forget.if_none_under(keys.waiting(length + "/")).erase(keys.length(length));
        auto forgotten = co_await store_.client.txn(std::move(forget.request), deadline);
        if (!forgotten) co_return std::unexpected(forgotten.error());
      }
    }
  }
  co_return has_ended;
}

// The row itself stays unchanged, so no reader is notified.
Async<bool> Offers::offer_again(std::vector<std::string> places, Clock::time_point deadline) {
  auto& keys = store_.keys;
  std::vector<std::string> waited;
  for (auto& place : places) waited.emplace_back(key_of_place(place));
  auto rows = co_await read_rows(store_, std::move(waited), 0, deadline);
  if (!rows) co_return std::unexpected(rows.error());
  Txn txn;
  for (std::size_t i = 0; i < places.size(); ++i) {
    auto& row = (*rows)[i];
    Txn one;
    one.if_unchanged(keys.row(key_of_place(places[i])), row ? row->revision : 0);
    if (row && row->record.wait() == places[i] && !row->is_owned())
      one.put(keys.offer(row->record.rank(), row->key));
    one.erase(keys.waiting(places[i]));
    txn.also(std::move(one));
  }
  auto answer = co_await store_.client.txn(std::move(txn.request), deadline);
  if (!answer) co_return std::unexpected(answer.error());
  co_return true;
}

Async<std::vector<Row>> Offers::offered_rows(Look look, Clock::time_point deadline) {
  auto seen = co_await read_rows(store_, std::move(look.offered), look.revision, deadline);
  if (!seen) co_return std::unexpected(seen.error());
  std::vector<Row> rows;
  for (auto& row : *seen) {
    if (!row || row->is_owned()) continue;
    rows.push_back(row_of(*row));
    rows_.saw(std::move(*row));
  }
  co_return std::move(rows);
}

}  // namespace warren::etcd
