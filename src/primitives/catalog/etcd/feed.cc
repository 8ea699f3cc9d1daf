#include "primitives/catalog/etcd/feed.h"

#include <algorithm>
#include <map>

#include "primitives/catalog/etcd/watch.h"

namespace warren::etcd {

namespace {

// Keeps us from asking a member again and again that takes a watch and ends it at once.
constexpr auto reopen_pause = 50ms;

}  // namespace

Feed::Feed(Store& store) : store_(store) {}
Feed::~Feed() = default;

Async<Changes> Feed::changes(std::string position, Clock::time_point wait_until,
                             Clock::time_point deadline) {
  auto from = parse_position(position);
  if (!from) co_return co_await everything(deadline);
  auto since = co_await changes_since(*from, std::min(wait_until, deadline), deadline);
  if (!since && since.error().code == Errc::refused) co_return co_await everything(deadline);
  co_return since;
}

Async<Changes> Feed::everything(Clock::time_point deadline) {
  auto prefix = store_.keys.rows();
  auto listing = co_await list(store_.client, prefix, Only::all, deadline);
  if (!listing) co_return std::unexpected(listing.error());
  std::vector<SeenRow> seen;
  for (auto& kv : listing->kvs) {
    auto row = seen_row(kv.key().substr(prefix.size()), kv);
    if (!row) co_return std::unexpected(row.error());
    seen.push_back(std::move(*row));
  }
  auto rows = co_await with_waits(std::move(seen), deadline);
  if (!rows) co_return std::unexpected(rows.error());
  Position position{listing->header.cluster_id(), listing->header.revision()};
  co_return Changes{.rows = std::move(*rows),
                    .removed = {},
                    .position = to_string(position),
                    .is_everything = true};
}

Async<Changes> Feed::changes_since(Position position, Clock::time_point wait_until,
                                   Clock::time_point deadline) {
  for (;;) {
    auto from = std::exchange(kept_, std::nullopt);
    if (!from || from->position != position) {
      auto opened = co_await open(position, deadline);
      if (!opened) co_return std::unexpected(opened.error());
      from = std::move(*opened);
    }
    auto changes = co_await read(*from, wait_until, deadline);
    // The watch ended, as when its member goes: another member may know more.
    if (!changes && changes.error().code == Errc::unavailable) {
      co_await sleep_for(reopen_pause);
      continue;
    }
    if (changes) kept_ = std::move(from);
    co_return changes;
  }
}

Async<Feed::Open> Feed::open(Position position, Clock::time_point deadline) {
  auto watch = co_await store_.client.watch(store_.keys.rows(), position.revision + 1, deadline);
  if (!watch) co_return std::unexpected(watch.error());
  auto& header = (*watch)->header();
  if (header.cluster_id() != position.cluster)
    co_return fail(Errc::refused, "the position is of another cluster");
  if (header.revision() < position.revision) {
    // The member is behind, or the cluster was restored to an earlier state.
    auto seen = co_await last(deadline);
    if (!seen) co_return std::unexpected(seen.error());
    if (seen->revision < position.revision)
      co_return fail(Errc::refused, "the position is of another history");
  }
  co_return Open{std::move(*watch), position};
}

Async<Changes> Feed::read(Open& from, Clock::time_point wait_until, Clock::time_point deadline) {
  bool is_on_its_way = false;
  for (;;) {
    auto answer = co_await from.watch->next(is_on_its_way ? deadline : wait_until);
    if (!answer && answer.error().code == Errc::timeout && !is_on_its_way) {
      // Either nothing happened, or it is still to come: etcd looks for the past of a new watch
      // only from time to time. A silent server is noticed here, too.
      Last seen{0, from.position.revision};
      if (wait_until < deadline) {
        auto asked = co_await last(deadline);
        if (!asked) co_return std::unexpected(asked.error());
        seen = *asked;
      }
      is_on_its_way = seen.change > from.position.revision;
      if (is_on_its_way) continue;
      from.position.revision = std::max(from.position.revision, seen.revision);
      co_return Changes{.rows = {}, .removed = {}, .position = to_string(from.position)};
    }
    if (!answer) co_return std::unexpected(answer.error());
    std::vector<pb::Event> events(answer->events().begin(), answer->events().end());
    from.position.revision =
        events.empty() ? answer->header().revision() : events.back().kv().mod_revision();
    if (events.empty()) continue;
    auto changes = co_await told(events, deadline);
    if (changes) changes->position = to_string(from.position);
    co_return changes;
  }
}

Async<Changes> Feed::told(const std::vector<pb::Event>& events, Clock::time_point deadline) {
  std::map<std::string, const pb::Event*> newest;
  for (auto& event : events) newest[event.kv().key().substr(store_.keys.rows().size())] = &event;
  Changes changes;
  std::vector<SeenRow> seen;
  for (auto& [key, event] : newest) {
    if (event->type() == pb::Event::DELETE) {
      changes.removed.push_back(key);
      continue;
    }
    auto row = seen_row(key, event->kv());
    if (!row) co_return std::unexpected(row.error());
    seen.push_back(std::move(*row));
  }
  auto rows = co_await with_waits(std::move(seen), deadline);
  if (!rows) co_return std::unexpected(rows.error());
  changes.rows = std::move(*rows);
  co_return std::move(changes);
}

Async<Feed::Last> Feed::last(Clock::time_point deadline) {
  pb::RangeRequest request;
  request.set_key(store_.keys.last());
  auto answer = co_await store_.client.range(std::move(request), deadline);
  if (!answer) co_return std::unexpected(answer.error());
  auto change = answer->kvs().empty() ? 0 : answer->kvs(0).mod_revision();
  co_return Last{change, answer->header().revision()};
}

Async<std::vector<Row>> Feed::with_waits(std::vector<SeenRow> seen, Clock::time_point deadline) {
  std::vector<Row> rows;
  std::vector<std::int64_t> leases;
  std::vector<std::size_t> waiting;
  for (auto& each : seen) {
    rows.push_back(row_of(each));
    if (each.record.wait_lease() == 0) continue;
    leases.push_back(each.record.wait_lease());
    waiting.push_back(rows.size() - 1);
  }
  auto left = co_await store_.client.left(std::move(leases), deadline);
  if (!left) co_return std::unexpected(left.error());
  for (std::size_t i = 0; i < waiting.size(); ++i)
    if ((*left)[i]) rows[waiting[i]].wait = *(*left)[i];
  co_return std::move(rows);
}

}  // namespace warren::etcd
