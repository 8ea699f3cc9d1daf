#include "primitives/catalog/redis.h"

#include <charconv>
#include <map>
#include <span>

#include "base/uuid.h"
#include "primitives/catalog/scripts.h"

namespace warren {

namespace {

constexpr std::size_t rows_at_once = 100;             // per script, so that others are not held up
constexpr std::size_t changes_at_once = 500;          // per answer
constexpr auto look_again = std::chrono::seconds(1);  // if the message about a change was lost

redis::Script behind_catalog(const redis::Script& script) {
  return {script.name(), scripts::catalog.source() + script.source()};
}
redis::Script behind_places(const redis::Script& script) {
  return {script.name(),
          scripts::catalog.source() + scripts::catalog_places.source() + script.source()};
}

const redis::Script& node_script() {
  static const auto script = behind_catalog(scripts::catalog_node);
  return script;
}
const redis::Script& claim_script() {
  static const auto script = behind_catalog(scripts::catalog_claim);
  return script;
}
const redis::Script& owner_script() {
  static const auto script = behind_catalog(scripts::catalog_owner);
  return script;
}
const redis::Script& rows_script() {
  static const auto script = behind_places(scripts::catalog_rows);
  return script;
}
const redis::Script& look_script() {
  static const auto script = behind_places(scripts::catalog_look);
  return script;
}

std::unexpected<Error> not_understood() {
  return fail(Errc::protocol, "the catalog's script gave an answer that is not one");
}

template <class T>
std::optional<T> number_of(std::string_view text) {
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<FencingToken> token_of(const redis::Reply& reply) {
  if (reply.items.size() != 3) return std::nullopt;
  auto epoch = number_of<std::uint64_t>(reply.items[1].text);
  auto counter = number_of<std::uint64_t>(reply.items[2].text);
  if (!epoch || !counter) return std::nullopt;
  return FencingToken{*epoch, *counter};
}

// Returns what comes before the next `separator`, and removes both.
std::string_view next_word(std::string_view& rest, char separator) {
  auto end = std::min(rest.find(separator), rest.size());
  auto word = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return word;
}

// In the format of catalog.lua.
std::optional<Row> row_of(std::string key, std::string_view record, std::int64_t now_ms) {
  Row row{.key = std::move(key)};
  auto owning = next_word(record, '\0');
  auto state = parse_row_state(next_word(owning, ' '));
  row.owner = next_word(owning, ' ');
  auto epoch = number_of<std::uint64_t>(next_word(owning, ' '));
  auto counter = number_of<std::uint64_t>(next_word(owning, ' '));
  auto wait_until = number_of<std::int64_t>(next_word(owning, ' '));
  auto numbers = next_word(record, '\0');
  auto rank = number_of<std::int64_t>(next_word(numbers, ' '));
  auto attempts = number_of<std::uint32_t>(next_word(numbers, ' '));
  if (!state || !epoch || !counter || !rank || !attempts || !wait_until) return std::nullopt;
  row.state = *state;
  row.epoch = {*epoch, *counter};
  row.rank = *rank;
  row.attempts = *attempts;
  row.wait = std::chrono::milliseconds(std::max<std::int64_t>(*wait_until - now_ms, 0));
  row.error = next_word(record, '\0');
  row.spec = next_word(record, '\0');
  row.note = record;
  return row;
}

// Key, record, key, record, … from this place on. A field that begins with a space is not a row.
bool take_rows(const std::vector<redis::Reply>& items, std::size_t from, std::int64_t now_ms,
               std::vector<Row>& into) {
  for (auto i = from; i + 1 < items.size(); i += 2) {
    if (items[i].text.starts_with(' ')) continue;
    auto row = row_of(items[i].text, items[i + 1].text, now_ms);
    if (!row) return false;
    into.push_back(*std::move(row));
  }
  return true;
}

std::string milliseconds_of(std::chrono::milliseconds time) { return std::to_string(time.count()); }

}  // namespace

Result<std::unique_ptr<Catalog>> RedisCatalog::open(const asio::any_io_executor& executor,
                                                    redis::Settings settings,
                                                    const std::string& prefix) {
  auto client = redis::Client::create(executor, std::move(settings));
  if (!client) return std::unexpected(client.error());
  auto catalog = std::make_unique<RedisCatalog>(**client, prefix);
  catalog->own_client_ = std::move(*client);
  return catalog;
}

RedisCatalog::RedisCatalog(redis::Client& client, const std::string& prefix)
    : client_(client),
      id_(uuid4()),
      subscriber_(client),
      news_(client.executor()),
      tasks_(client.executor()) {
  for (const char* name : {"rows", "changes", "nodes", "places"})
    keys_.push_back("{" + prefix + "}:" + name);
}

RedisCatalog::~RedisCatalog() { ensure(is_closed_, "a catalog is closed before it is destroyed"); }

awaitable<void> RedisCatalog::close() {
  is_closed_ = true;
  tasks_.stop();
  news_.notify();
  co_await subscriber_.close();
  co_await tasks_.join();
  if (own_client_) co_await own_client_->close();
}

Async<redis::Reply> RedisCatalog::run(const redis::Script& script, const char* what,
                                      std::vector<std::string> words, Clock::time_point deadline,
                                      redis::Lane lane) {
  std::vector<std::string> args{std::to_string(client_.epoch()), what};
  std::ranges::move(words, std::back_inserter(args));
  auto keys = keys_;
  auto options = redis::CallOptions().by(deadline).idempotent().lane(lane);
  co_return co_await client_.run(script, std::move(keys), std::move(args), options);
}

// A call may wait for a connection, or be sent again, while another server takes over. Then it
// carries the previous epoch, and the new server, which may have lost recent grants and have a
// clock that is behind, would grant less than was granted already. So a grant counts if the epoch
// is still the same, and is requested again otherwise.
Async<redis::Reply> RedisCatalog::run_granting(const redis::Script& script, const char* what,
                                               std::vector<std::string> words,
                                               Clock::time_point deadline) {
  for (bool is_first = true;; is_first = false) {
    auto epoch = client_.epoch();
    auto reply = co_await run(script, what, words, deadline);
    bool is_granted = reply && !reply->items.empty() && reply->items[0].number == 1;
    if (!is_granted || client_.epoch() == epoch) co_return reply;
    if (is_first) words.emplace_back("anew");
  }
}

Async<NodeSession> RedisCatalog::join(std::string name, std::string info,
                                      std::chrono::milliseconds ttl, Clock::time_point deadline) {
  if (auto good = check_node(name, info, ttl); !good) co_return std::unexpected(good.error());
  auto session = name + "/" + uuid4();
  std::vector<std::string> words{"", session, milliseconds_of(ttl), std::move(info)};
  auto reply =
      co_await run(node_script(), "join", std::move(words), deadline, redis::Lane::renewal);
  if (!reply) co_return std::unexpected(reply.error());
  co_return session;
}

Async<> RedisCatalog::beat(NodeSession session, std::string info, Clock::time_point deadline) {
  if (auto good = check_text("what a node says of itself", info); !good)
    co_return std::unexpected(good.error());
  std::vector<std::string> words{"", session, std::move(info)};
  auto reply =
      co_await run(node_script(), "beat", std::move(words), deadline, redis::Lane::renewal);
  if (!reply) co_return std::unexpected(reply.error());
  if (reply->number == 0)
    co_return fail(Errc::lease_lost, "the lease of node {} has ended", session);
  co_return ok;
}

Async<> RedisCatalog::leave(NodeSession session, Clock::time_point deadline) {
  std::vector<std::string> words{"", std::move(session)};
  auto reply = co_await run(node_script(), "leave", std::move(words), deadline);
  if (!reply) co_return std::unexpected(reply.error());
  co_return ok;
}

Async<std::vector<Node>> RedisCatalog::nodes(Clock::time_point deadline) {
  std::vector<std::string> words{"", ""};
  auto reply = co_await run(look_script(), "nodes", std::move(words), deadline);
  if (!reply) co_return std::unexpected(reply.error());
  const auto& items = reply->items;
  auto now = items.empty() ? std::nullopt : number_of<std::int64_t>(items[0].text);
  if (!now) co_return not_understood();
  std::vector<Node> nodes;
  for (std::size_t i = 1; i + 2 < items.size(); i += 3) {
    std::string_view info = items[i + 1].text;
    auto ttl = number_of<std::int64_t>(next_word(info, ' '));
    auto ends = number_of<std::int64_t>(items[i + 2].text);
    if (!ttl || !ends) co_return not_understood();
    std::chrono::milliseconds left((*ends - *now) / 1000);
    nodes.push_back({items[i].text, std::string(info), std::chrono::milliseconds(*ttl), left});
  }
  std::ranges::sort(nodes, {}, &Node::session);
  co_return nodes;
}

Async<std::size_t> RedisCatalog::run_on_rows(const char* what, std::vector<std::string> words,
                                             std::size_t words_per_row,
                                             Clock::time_point deadline) {
  std::size_t count = 0, most = rows_at_once * words_per_row;
  for (std::size_t begin = 0; begin < words.size(); begin += most) {
    auto first = words.begin() + static_cast<std::ptrdiff_t>(begin);
    auto last = first + static_cast<std::ptrdiff_t>(std::min(most, words.size() - begin));
    std::vector<std::string> some{"", ""};
    some.insert(some.end(), std::make_move_iterator(first), std::make_move_iterator(last));
    auto reply = co_await run(rows_script(), what, std::move(some), deadline);
    if (!reply) co_return std::unexpected(reply.error());
    count += static_cast<std::size_t>(reply->number);
  }
  co_return count;
}

Async<std::size_t> RedisCatalog::add(std::vector<Row> rows, Clock::time_point deadline) {
  std::vector<std::string> words;
  for (auto& row : rows) {
    if (auto good = check_row(row); !good) co_return std::unexpected(good.error());
    words.push_back(std::move(row.key));
    words.push_back(std::to_string(row.rank));
    words.push_back(std::move(row.spec));
  }
  co_return co_await run_on_rows("add", std::move(words), 3, deadline);
}

Async<std::size_t> RedisCatalog::remove(std::vector<std::string> keys, Clock::time_point deadline) {
  co_return co_await run_on_rows("remove", std::move(keys), 1, deadline);
}

Async<> RedisCatalog::change(std::string key, RowChange change, Clock::time_point deadline) {
  if (auto good = check_change(change); !good) co_return std::unexpected(good.error());
  std::vector<std::string> words{key,
                                 "",
                                 change.rank ? "rank" : "-",
                                 change.spec ? "spec" : "-",
                                 change.ends_wait ? "wait" : "-",
                                 std::to_string(change.rank.value_or(0)),
                                 change.spec.value_or("")};
  auto reply = co_await run(rows_script(), "change", std::move(words), deadline);
  if (!reply) co_return std::unexpected(reply.error());
  if (reply->number == 0) co_return fail(Errc::not_found, "there is no row {}", key);
  co_return ok;
}

Async<std::vector<Row>> RedisCatalog::claimable(std::size_t most, Clock::time_point deadline) {
  if (most == 0) co_return std::vector<Row>();
  const std::vector<std::string> words{"", "", std::to_string(most)};
  auto reply = co_await run(look_script(), "claimable", words, deadline);
  // Much has changed, and not everything is noted yet.
  while (reply && reply->kind == redis::Reply::Kind::integer)
    reply = co_await run(look_script(), "claimable", words, deadline);
  if (!reply) co_return std::unexpected(reply.error());
  auto now = reply->items.empty() ? std::nullopt : number_of<std::int64_t>(reply->items[0].text);
  std::vector<Row> rows;
  if (!now || !take_rows(reply->items, 1, *now, rows)) co_return not_understood();
  co_return rows;
}

Async<Claim> RedisCatalog::claim(NodeSession session, std::string key, Clock::time_point deadline) {
  std::vector<std::string> words{key, session};
  auto reply = co_await run_granting(claim_script(), "claim", std::move(words), deadline);
  if (!reply) co_return std::unexpected(reply.error());
  if (reply->items.empty()) co_return not_understood();
  switch (reply->items[0].number) {
    case 1: {
      auto epoch = token_of(*reply);
      if (!epoch) co_return not_understood();
      co_return Claim{std::move(session), std::move(key), *epoch};
    }
    case 0: {
      const auto& owner = reply->items.at(1).text;
      if (owner.empty()) co_return fail(Errc::held_elsewhere, "row {} is to wait", key);
      co_return fail(Errc::held_elsewhere, "row {} is owned by node {}", key, node_name(owner));
    }
    case -1:
      co_return fail(Errc::not_found, "there is no row {}", key);
    default:
      co_return fail(Errc::lease_lost, "the lease of node {} has ended", session);
  }
}

Async<redis::Reply> RedisCatalog::run_as_owner(const char* what, const Claim& claim,
                                               std::vector<std::string> words,
                                               Clock::time_point deadline, bool is_granting) {
  std::vector<std::string> all{claim.key, claim.session, std::to_string(claim.epoch.epoch),
                               std::to_string(claim.epoch.counter)};
  std::ranges::move(words, std::back_inserter(all));
  auto asked = is_granting ? run_granting(owner_script(), what, std::move(all), deadline)
                           : run(owner_script(), what, std::move(all), deadline);
  auto reply = co_await std::move(asked);
  if (!reply) co_return std::unexpected(reply.error());
  if (reply->items.empty()) co_return not_understood();
  if (reply->items[0].number == 0)
    co_return fail(Errc::lease_lost, "row {} is no longer owned by {} under epoch {}", claim.key,
                   claim.session, to_string(claim.epoch));
  co_return reply;
}

Async<> RedisCatalog::write(Claim claim, RowState state, std::optional<std::string> note,
                            Clock::time_point deadline) {
  if (auto good = check_write(state, note); !good) co_return std::unexpected(good.error());
  std::vector<std::string> words{std::string(name(state)),
                                 std::to_string(order_.next(Clock::now()))};
  if (note) words.push_back(*std::move(note));
  auto reply = co_await run_as_owner("write", claim, std::move(words), deadline);
  if (!reply) co_return std::unexpected(reply.error());
  co_return ok;
}

Async<> RedisCatalog::release(Claim claim, Release how, Clock::time_point deadline) {
  if (auto good = check_release(how); !good) co_return std::unexpected(good.error());
  std::vector<std::string> words{std::move(how.error), milliseconds_of(how.wait)};
  if (how.note) words.push_back(*std::move(how.note));
  auto reply = co_await run_as_owner("release", claim, std::move(words), deadline);
  if (!reply) co_return std::unexpected(reply.error());
  co_return ok;
}

Async<Claim> RedisCatalog::hand_over(Claim claim, NodeSession to, Clock::time_point deadline) {
  std::vector<std::string> words{to};
  auto reply = co_await run_as_owner("hand_over", claim, std::move(words), deadline, true);
  if (!reply) co_return std::unexpected(reply.error());
  if (reply->items[0].number < 0)
    co_return fail(Errc::not_found, "the lease of node {} has ended", to);
  auto epoch = token_of(*reply);
  if (!epoch) co_return not_understood();
  co_return Claim{std::move(to), std::move(claim.key), *epoch};
}

Async<Changes> RedisCatalog::changes(std::string position, Clock::time_point wait_until,
                                     Clock::time_point deadline) {
  for (;;) {
    if (is_closed_) co_return fail(Errc::cancelled, "the catalog was closed");
    if (!position.empty() || wait_until > Clock::now()) listen();
    auto seen = news_count_;
    auto found = co_await look(position, deadline);
    auto now = Clock::now();
    if (!found || found->is_everything || !found->rows.empty() || !found->removed.empty() ||
        now >= wait_until)
      co_return found;
    position = found->position;
    if (seen == news_count_) co_await news_.wait(std::min(wait_until, now + look_again));
  }
}

Async<Changes> RedisCatalog::look(std::string position, Clock::time_point deadline) {
  std::string_view rest = position;
  std::vector<std::string> words{"", ""};
  for (int i = 0; i < 3; ++i) words.emplace_back(next_word(rest, '.'));
  const auto here = listened_since();
  for (auto& word : std::span(words).subspan(2))
    if (!number_of<std::uint64_t>(word) || rest != here) word = "0";
  words.push_back(std::to_string(changes_at_once));
  auto reply = co_await run(look_script(), "changes", std::move(words), deadline);
  if (!reply) co_return std::unexpected(reply.error());
  const auto& items = reply->items;
  auto now = items.size() < 4 ? std::nullopt : number_of<std::int64_t>(items[3].text);
  if (!now) co_return not_understood();
  Changes found;
  found.position = items[0].text + "." + items[1].text + "." + items[2].text + "." + here;
  if (items.size() == 4) co_return co_await everything(std::move(found.position), *now, deadline);
  if (items.size() != 6 || !take_rows(items[4].items, 0, *now, found.rows))
    co_return not_understood();
  for (const auto& key : items[5].items) found.removed.push_back(key.text);
  co_return found;
}

// Reads all rows in pages, then what changed meanwhile: a page may be older than the next one.
Async<Changes> RedisCatalog::everything(std::string position, std::int64_t now_ms,
                                        Clock::time_point deadline) {
  std::map<std::string, Row> rows;
  std::string cursor = "0";
  do {
    redis::Command scan("HSCAN", keys_[0], cursor, "COUNT", changes_at_once);
    auto options = redis::CallOptions().by(deadline).idempotent();
    auto page = co_await client_.command(std::move(scan), options);
    if (!page) co_return std::unexpected(page.error());
    if (page->items.size() != 2) co_return not_understood();
    cursor = page->items[0].text;
    std::vector<Row> some;
    if (!take_rows(page->items[1].items, 0, now_ms, some)) co_return not_understood();
    for (auto& row : some) rows[row.key] = std::move(row);
  } while (cursor != "0");
  for (;;) {
    auto more = co_await look(position, deadline);
    if (!more || more->is_everything) co_return more;  // its history ended meanwhile
    for (auto& row : more->rows) rows[row.key] = std::move(row);
    for (const auto& key : more->removed) rows.erase(key);
    if (more->position == position) break;
    position = std::move(more->position);
  }
  Changes all{.rows = {}, .removed = {}, .position = std::move(position), .is_everything = true};
  for (auto& [key, row] : rows) all.rows.push_back(std::move(row));
  co_return all;
}

// A server that was away may have come back with an older copy of its data, and continued from
// there: it gives the numbers of lost changes again, to other changes. So a position is valid only
// while the connection was never interrupted.
std::string RedisCatalog::listened_since() const { return id_ + "-" + std::to_string(gaps_); }

void RedisCatalog::listen() {
  if (std::exchange(listens_, true)) return;
  subscriber_.ssubscribe(keys_[1]);
  tasks_.start("catalog.hear", hear());
}

// A gap counts as news: something may have been missed.
awaitable<void> RedisCatalog::hear() {
  for (;;) {
    auto message = co_await subscriber_.next();
    if (!message) co_return;
    if (message->kind == redis::Message::Kind::gap) ++gaps_;
    ++news_count_;
    news_.notify();
  }
}

}  // namespace warren
