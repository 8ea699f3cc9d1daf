#include "primitives/catalog/postgres.h"

#include <algorithm>
#include <map>

#include "base/uuid.h"

namespace warren {

using pg::Effect;

namespace {

constexpr std::size_t most_offered = 10'000;
constexpr std::size_t least_swept = 100;
constexpr auto sweep_interval = 1s;  // if nothing else says that there is something to free
constexpr std::chrono::milliseconds least_poll = 50ms, most_poll = 500ms;
constexpr auto purge_interval = 1min;
constexpr auto unused_limit = 1min;                 // then a connection is closed
constexpr std::size_t most_in_batch = 1000;         // rows of one statement
constexpr std::size_t most_batch_bytes = 8u << 20;  // of their texts

std::string decimal(std::uint64_t number) { return std::to_string(number); }

// Whether this can be a parameter. Text that cannot be one names nothing that exists.
bool is_text(std::string_view text) { return check_text("", text).has_value(); }
bool is_key(const std::string& key) { return check_row({.key = key}).has_value(); }

// {"a","b \"c\""}: how an array of texts is written.
std::string array_of(const std::vector<std::string>& texts) {
  std::string array = "{";
  for (const auto& text : texts) {
    array += array.size() > 1 ? ",\"" : "\"";
    for (char c : text) {
      if (c == '"' || c == '\\') array += '\\';
      array += c;
    }
    array += '"';
  }
  return array + "}";
}

FencingToken epoch_in(const pg::Rows& rows, int row, int column) {
  return {static_cast<std::uint64_t>(rows.number(row, column)),
          static_cast<std::uint64_t>(rows.number(row, column + 1))};
}

// Reads the columns of pg_statements' row_columns, from this one on.
Row row_in(const pg::Rows& rows, int row, int first) {
  auto state = parse_row_state(rows.text(row, first + 4));
  return {.key = rows.text(row, first),
          .spec = rows.text(row, first + 1),
          .note = rows.text(row, first + 2),
          .rank = rows.number(row, first + 3),
          .state = state.value_or(RowState::free),
          .owner = rows.text(row, first + 5),
          .epoch = epoch_in(rows, row, first + 6),
          .attempts = static_cast<std::uint32_t>(rows.number(row, first + 8)),
          .error = rows.text(row, first + 9),
          .wait = std::chrono::milliseconds(rows.number(row, first + 10))};
}

std::unexpected<Error> lost(const Claim& claim) {
  return fail(Errc::lease_lost, "{} no longer owns row {} under epoch {}", claim.session, claim.key,
              to_string(claim.epoch));
}

pg::Parameters parameters_of(const Claim& claim) {
  return {claim.key, claim.session, decimal(claim.epoch.epoch), decimal(claim.epoch.counter)};
}

// A claim of another form would not be understood as a parameter.
bool can_be(const Claim& claim) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return is_key(claim.key) && is_text(claim.session) && claim.epoch.epoch <= most &&
         claim.epoch.counter <= most;
}

// Lets a repeated call recognise what it did before.
std::string new_call_id() {
  auto digits = uuid4().substr(0, 8) + uuid4().substr(0, 7);
  return std::to_string(std::stoull(digits, nullptr, 16));
}

// Rows by key, which is the order in which every client locks them.
struct Batch {
  std::vector<std::string> keys, specs, ranks;
  std::size_t bytes = 0;

  bool is_full() const { return keys.size() >= most_in_batch || bytes >= most_batch_bytes; }
  void add(const Row& row) {
    keys.push_back(row.key);
    specs.push_back(row.spec);
    ranks.push_back(std::to_string(row.rank));
    bytes += row.key.size() + row.spec.size();
  }
};

std::vector<Batch> batches_of(const std::vector<Row>& rows) {
  std::map<std::string_view, const Row*> by_key;
  for (const auto& row : rows) by_key.emplace(row.key, &row);  // the first of equal ones stays
  std::vector<Batch> batches;
  for (const auto& [key, row] : by_key) {
    if (batches.empty() || batches.back().is_full()) batches.emplace_back();
    batches.back().add(*row);
  }
  return batches;
}

// "<identity> <snapshot>"; a snapshot is digits, ":" and ",".
bool is_snapshot(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789:,") == text.npos;
}

}  // namespace

// The row as found after a statement did nothing.
struct PostgresCatalog::Look {
  bool exists;
  NodeSession owner;
  FencingToken epoch;
  FencingToken from;   // the epoch under which it was handed to its owner, if it was
  std::int64_t order;  // of its owner's last write
  bool is_waiting;
  bool session_lives, other_lives, owner_lives;
};

Async<std::unique_ptr<Catalog>> PostgresCatalog::open(asio::any_io_executor executor,
                                                      std::string url, std::string prefix,
                                                      Clock::time_point deadline,
                                                      std::size_t connections) {
  auto server = pg::Server::parse(url);
  if (!server) co_return std::unexpected(server.error());
  auto statements = pg::Statements::make(prefix);
  if (!statements) co_return std::unexpected(statements.error());
  std::unique_ptr<PostgresCatalog> catalog(new PostgresCatalog(
      executor, std::move(*server), std::move(*statements), std::max<std::size_t>(connections, 1)));
  auto made = co_await catalog->make_tables(deadline);
  if (!made) co_return std::unexpected(made.error());
  co_return std::unique_ptr<Catalog>(std::move(catalog));
}

PostgresCatalog::PostgresCatalog(asio::any_io_executor executor, pg::Server server,
                                 pg::Statements statements, std::size_t connections)
    : server_(std::move(server)),
      statements_(std::move(statements)),
      pool_(executor, server_, connections),
      heartbeats_(executor, server_, 1) {}

// Looks first, so that a role that may not create tables can use existing ones. Tables of an older
// version get what they lack.
Async<> PostgresCatalog::make_tables(Clock::time_point deadline) {
  auto version = co_await pool_.run(statements_.version, {}, Effect::reads, deadline);
  bool is_absent = !version && version.error().code == Errc::not_found;
  bool is_older = version && version->size() == 1 && version->number(0, 0) > 0 &&
                  version->number(0, 0) < pg::schema_version;
  if (is_absent || is_older) {
    auto made = co_await pool_.execute(statements_.schema, deadline);
    if (!made) co_return made;
    version = co_await pool_.run(statements_.version, {}, Effect::reads, deadline);
  }
  if (!version) co_return std::unexpected(version.error());
  auto found = version->size() == 1 ? version->number(0, 0) : 0;
  if (found == pg::schema_version) co_return ok;
  if (found > pg::schema_version)
    co_return fail(Errc::refused,
                   "{}: the tables have version {}, which is newer than this program: it knows "
                   "version {}. Update it",
                   server_.shown(), found, pg::schema_version);
  co_return fail(Errc::refused, "{}: the tables are not those of a catalog", server_.shown());
}

Async<NodeSession> PostgresCatalog::join(std::string name, std::string info,
                                         std::chrono::milliseconds ttl,
                                         Clock::time_point deadline) {
  auto checked = check_node(name, info, ttl);
  if (!checked) co_return std::unexpected(checked.error());
  auto random = uuid4();
  std::erase(random, '-');
  NodeSession session = name + "/" + random;
  pg::Parameters parameters{session, info, std::to_string(ttl.count())};
  auto joined =
      co_await pool_.run(statements_.join, std::move(parameters), Effect::writes, deadline);
  if (!joined) co_return std::unexpected(joined.error());
  co_return session;
}

Async<> PostgresCatalog::beat(NodeSession session, std::string info, Clock::time_point deadline) {
  auto checked = check_text("what a node says of itself", info);
  if (!checked) co_return checked;
  pool_.close_unused(Clock::now() - unused_limit);
  if (!is_text(session)) co_return fail(Errc::lease_lost, "there is no such session");
  pg::Parameters parameters{session, info};
  auto beaten =
      co_await heartbeats_.run(statements_.beat, std::move(parameters), Effect::writes, deadline);
  if (!beaten) co_return std::unexpected(beaten.error());
  if (beaten->affected() == 0)
    co_return fail(Errc::lease_lost, "the lease of {} has ended", session);
  co_return ok;
}

Async<> PostgresCatalog::leave(NodeSession session, Clock::time_point deadline) {
  if (!is_text(session)) co_return ok;
  pg::Parameters parameters{session};
  auto left =
      co_await pool_.run(statements_.leave, std::move(parameters), Effect::writes, deadline);
  if (!left) co_return std::unexpected(left.error());
  co_return ok;
}

Async<std::vector<Node>> PostgresCatalog::nodes(Clock::time_point deadline) {
  auto rows = co_await pool_.run(statements_.nodes, {}, Effect::reads, deadline);
  if (!rows) co_return std::unexpected(rows.error());
  std::vector<Node> nodes;
  for (int i = 0; i < rows->size(); ++i)
    nodes.push_back({.session = rows->text(i, 0),
                     .info = rows->text(i, 1),
                     .ttl = std::chrono::milliseconds(rows->number(i, 2)),
                     .left = std::chrono::milliseconds(rows->number(i, 3))});
  co_return nodes;
}

Async<std::size_t> PostgresCatalog::add(std::vector<Row> rows, Clock::time_point deadline) {
  for (const auto& row : rows) {
    auto checked = check_row(row);
    if (!checked) co_return std::unexpected(checked.error());
  }
  auto batches = batches_of(rows);
  auto call = new_call_id();
  std::size_t count = 0;
  for (const auto& batch : batches) {
    pg::Parameters parameters{array_of(batch.keys), array_of(batch.specs), array_of(batch.ranks),
                              call};
    auto added =
        co_await pool_.run(statements_.add, std::move(parameters), Effect::writes, deadline);
    if (!added) co_return std::unexpected(added.error());
    count += static_cast<std::size_t>(added->number(0, 0));
  }
  co_return count;
}

Async<std::size_t> PostgresCatalog::remove(std::vector<std::string> keys,
                                           Clock::time_point deadline) {
  std::vector<Row> rows;
  for (auto& key : keys)
    if (is_key(key)) rows.push_back({.key = std::move(key)});
  auto batches = batches_of(rows);
  auto call = new_call_id();
  std::size_t count = 0;
  for (const auto& batch : batches) {
    pg::Parameters parameters{array_of(batch.keys), call};
    auto removed =
        co_await pool_.run(statements_.remove, std::move(parameters), Effect::writes, deadline);
    if (!removed) co_return std::unexpected(removed.error());
    count += static_cast<std::size_t>(removed->number(0, 0));
  }
  co_return count;
}

Async<> PostgresCatalog::change(std::string key, RowChange change, Clock::time_point deadline) {
  auto checked = check_change(change);
  if (!checked) co_return checked;
  if (!is_key(key)) co_return fail(Errc::not_found, "there is no row of that key");
  pg::Parameter rank;
  if (change.rank) rank = std::to_string(*change.rank);
  pg::Parameters parameters{key, change.spec, rank, change.ends_wait ? "true" : "false"};
  auto changed =
      co_await pool_.run(statements_.change, std::move(parameters), Effect::writes, deadline);
  if (!changed) co_return std::unexpected(changed.error());
  if (changed->affected() == 0) co_return fail(Errc::not_found, "there is no row {}", key);
  co_return ok;
}

// Frees what lapsed since the last look only if there is something, since most calls find nothing.
Async<std::vector<Row>> PostgresCatalog::claimable(std::size_t most, Clock::time_point deadline) {
  most = std::min(most, most_offered);
  bool is_behind = has_more_to_sweep_ || Clock::now() >= swept_ + sweep_interval;
  if (!is_behind) {
    auto rows = co_await offered(most, is_behind, deadline);
    if (!rows || !is_behind) co_return rows;
  }
  auto swept = co_await sweep(std::max(most, least_swept), deadline);
  if (!swept) co_return std::unexpected(swept.error());
  co_return co_await offered(most, is_behind, deadline);
}

Async<std::vector<Row>> PostgresCatalog::offered(std::size_t most, bool& is_behind,
                                                 Clock::time_point deadline) {
  pg::Parameters parameters{std::to_string(most)};
  auto found =
      co_await pool_.run(statements_.offered, std::move(parameters), Effect::reads, deadline);
  if (!found) co_return std::unexpected(found.error());
  is_behind = found->truth(0, 0);
  std::vector<Row> rows;
  for (int i = 0; i < found->size(); ++i)
    if (!found->is_null(i, 1)) rows.push_back(row_in(*found, i, 1));
  co_return rows;
}

Async<> PostgresCatalog::sweep(std::size_t most, Clock::time_point deadline) {
  auto now = Clock::now();
  pg::Parameters parameters{std::to_string(most)};
  auto swept =
      co_await pool_.run(statements_.sweep, std::move(parameters), Effect::writes, deadline);
  if (!swept) co_return std::unexpected(swept.error());
  swept_ = now;
  has_more_to_sweep_ = swept->affected() >= most;
  if (now < purged_ + purge_interval) co_return ok;
  purged_ = now;
  auto purged = co_await pool_.run(statements_.purge, {}, Effect::writes, deadline);
  if (!purged) co_return std::unexpected(purged.error());
  co_return ok;
}

Async<PostgresCatalog::Look> PostgresCatalog::look(std::string key, NodeSession session,
                                                   NodeSession other, Clock::time_point deadline) {
  pg::Parameters parameters{std::move(key), std::move(session), std::move(other)};
  auto rows = co_await pool_.run(statements_.look, std::move(parameters), Effect::reads, deadline);
  if (!rows) co_return std::unexpected(rows.error());
  Look seen{.exists = rows->truth(0, 0),
            .owner = rows->text(0, 1),
            .epoch = epoch_in(*rows, 0, 2),
            .from = epoch_in(*rows, 0, 4),
            .order = rows->number(0, 6),
            .is_waiting = rows->truth(0, 7),
            .session_lives = rows->truth(0, 8),
            .other_lives = rows->truth(0, 9),
            .owner_lives = rows->truth(0, 10)};
  co_return seen;
}

// One statement in the usual case. If it does nothing, a look says why; if the claim has become
// possible by then, it is tried again.
Async<Claim> PostgresCatalog::claim(NodeSession session, std::string key,
                                    Clock::time_point deadline) {
  if (!is_key(key)) co_return fail(Errc::not_found, "there is no row of that key");
  if (!is_text(session)) co_return fail(Errc::lease_lost, "there is no such session");
  for (;;) {
    pg::Parameters parameters{key, session};
    auto claimed =
        co_await pool_.run(statements_.claim, std::move(parameters), Effect::writes, deadline);
    if (!claimed) co_return std::unexpected(claimed.error());
    if (claimed->size() > 0) co_return Claim{session, key, epoch_in(*claimed, 0, 0)};

    auto seen = co_await look(key, session, "", deadline);
    if (!seen) co_return std::unexpected(seen.error());
    if (!seen->session_lives)
      co_return fail(Errc::lease_lost, "the lease of {} has ended", session);
    if (!seen->exists) co_return fail(Errc::not_found, "there is no row {}", key);
    if (seen->owner == session) co_return Claim{session, key, seen->epoch};
    if (seen->owner_lives)
      co_return fail(Errc::held_elsewhere, "row {} is owned by {}", key, seen->owner);
    if (seen->is_waiting) co_return fail(Errc::held_elsewhere, "row {} is to wait", key);
    if (seen->owner.empty()) continue;
    pg::Parameters ended{key, seen->owner};
    auto freed =
        co_await pool_.run(statements_.free_row, std::move(ended), Effect::writes, deadline);
    if (!freed) co_return std::unexpected(freed.error());
  }
}

Async<> PostgresCatalog::write(Claim claim, RowState state, std::optional<std::string> note,
                               Clock::time_point deadline) {
  auto checked = check_write(state, note);
  if (!checked) co_return checked;
  if (!can_be(claim)) co_return lost(claim);
  auto order = order_.next(Clock::now());
  for (;;) {
    auto parameters = parameters_of(claim);
    parameters.emplace_back(name(state));
    parameters.push_back(note);
    parameters.emplace_back(std::to_string(order));
    auto written =
        co_await pool_.run(statements_.write, std::move(parameters), Effect::writes, deadline);
    if (!written) co_return std::unexpected(written.error());
    if (written->affected() > 0) co_return ok;

    auto seen = co_await look(claim.key, claim.session, "", deadline);
    if (!seen) co_return std::unexpected(seen.error());
    bool is_mine = seen->exists && seen->session_lives && seen->owner == claim.session &&
                   seen->epoch == claim.epoch;
    if (!is_mine) co_return lost(claim);
    // This write was done before, perhaps by this call, or a newer one was.
    if (seen->order >= order) co_return ok;
  }
}

Async<> PostgresCatalog::release(Claim claim, Release how, Clock::time_point deadline) {
  auto checked = check_release(how);
  if (!checked) co_return checked;
  if (!can_be(claim)) co_return lost(claim);
  auto parameters = parameters_of(claim);
  parameters.emplace_back(how.error);
  parameters.emplace_back(std::to_string(how.wait.count()));
  parameters.push_back(std::move(how.note));
  auto released =
      co_await pool_.run(statements_.release, std::move(parameters), Effect::writes, deadline);
  if (!released) co_return std::unexpected(released.error());
  if (released->affected() > 0) co_return ok;
  // It was released under this epoch before, perhaps by this call, whose answer was lost.
  auto seen = co_await look(claim.key, claim.session, "", deadline);
  if (!seen) co_return std::unexpected(seen.error());
  bool is_done =
      seen->exists && seen->session_lives && seen->owner.empty() && seen->epoch == claim.epoch;
  if (!is_done) co_return lost(claim);
  co_return ok;
}

Async<Claim> PostgresCatalog::hand_over(Claim claim, NodeSession to, Clock::time_point deadline) {
  if (!can_be(claim)) co_return lost(claim);
  if (!is_text(to)) co_return fail(Errc::not_found, "there is no such session");
  for (;;) {
    auto parameters = parameters_of(claim);
    parameters.emplace_back(to);
    auto handed =
        co_await pool_.run(statements_.hand_over, std::move(parameters), Effect::writes, deadline);
    if (!handed) co_return std::unexpected(handed.error());
    if (handed->size() > 0) co_return Claim{to, claim.key, epoch_in(*handed, 0, 0)};

    auto seen = co_await look(claim.key, claim.session, to, deadline);
    if (!seen) co_return std::unexpected(seen.error());
    // It was handed over before, perhaps by this call, whose answer was lost.
    bool is_done = seen->exists && seen->owner == to && seen->from == claim.epoch;
    if (is_done) co_return Claim{to, claim.key, seen->epoch};
    bool is_mine = seen->exists && seen->session_lives && seen->owner == claim.session &&
                   seen->epoch == claim.epoch;
    if (!is_mine) co_return lost(claim);
    if (!seen->other_lives) co_return fail(Errc::not_found, "the lease of {} has ended", to);
  }
}

Async<Changes> PostgresCatalog::changes(std::string position, Clock::time_point wait_until,
                                        Clock::time_point deadline) {
  auto pause = least_poll;
  for (;;) {
    auto found = co_await read_changes(position, deadline);
    if (!found) co_return found;
    if (found->is_everything || !found->rows.empty() || !found->removed.empty()) co_return found;
    auto next = Clock::now() + pause;
    bool is_last = next >= wait_until || next >= deadline;
    co_await sleep_until(std::min(next, std::min(wait_until, deadline)));
    if (is_last) co_return found;
    position = std::move(found->position);
    pause = std::min(2 * pause, most_poll);
  }
}

Async<Changes> PostgresCatalog::read_changes(std::string position, Clock::time_point deadline) {
  auto space = position.find(' ');
  auto identity = position.substr(0, space);
  auto snapshot = space == position.npos ? "" : position.substr(space + 1);
  bool can_be_known = is_text(identity) && is_snapshot(snapshot);
  Result<pg::Rows> rows = fail(Errc::invalid, "");
  if (can_be_known) {
    pg::Parameters parameters{identity, snapshot};
    rows = co_await pool_.run(statements_.changes, std::move(parameters), Effect::reads, deadline);
    if (!rows && rows.error().code != Errc::invalid) co_return std::unexpected(rows.error());
  }
  bool is_known = rows && rows->size() > 0 && rows->truth(0, 0);
  if (!is_known) {
    rows = co_await pool_.run(statements_.everything, {}, Effect::reads, deadline);
    if (!rows) co_return std::unexpected(rows.error());
  }
  if (rows->size() == 0)
    co_return fail(Errc::refused, "{}: the tables of the catalog are not complete",
                   server_.shown());
  Changes changes;
  changes.is_everything = !is_known;
  changes.position = rows->text(0, 1) + " " + rows->text(0, 2);
  for (int i = 0; i < rows->size(); ++i) {
    if (rows->is_null(i, 4)) continue;
    if (rows->truth(i, 3))
      changes.removed.push_back(rows->text(i, 4));
    else
      changes.rows.push_back(row_in(*rows, i, 4));
  }
  co_return changes;
}

}  // namespace warren
