#include "primitives/catalog/pg_statements.h"

#include <algorithm>

namespace warren::pg {

namespace {

// The abbreviations in the texts below. There, a comparison with (SELECT clock_timestamp()) can use
// an index. One with the function itself cannot, since that returns another value for each row.
struct Word {
  std::string_view name;
  std::string_view text;
};

constexpr std::string_view row_columns =
    "c.key, c.spec, c.note, c.rank, c.state, c.owner_id, c.epoch_timeline, c.epoch_counter,"
    " c.attempts, c.error,"
    " greatest(0, ceil(extract(epoch FROM c.wait_until - clock_timestamp()) * 1000))::bigint";

// Grows when a standby is promoted, at once; pg_control_checkpoint() reports it only at the next
// checkpoint.
constexpr std::string_view timeline =
    "('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint";

// Never behind the clock, so it does not repeat what a failover has lost.
constexpr std::string_view next_epoch =
    "epoch_timeline = greatest(c.epoch_timeline, $timeline),"
    " epoch_counter = greatest(c.epoch_counter + 1,"
    " (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)";

// By the clock, for the session that acts itself: it has not lost its lease yet.
constexpr std::string_view lives =
    "EXISTS (SELECT FROM $p_nodes n WHERE n.session = $who AND n.lease_expires > "
    "clock_timestamp())";

constexpr std::string_view freed =
    "state = 'free', owner_id = NULL, wait_until = NULL, changed = pg_current_xact_id()";

// $1 is the key, $2 the session, $3 and $4 its epoch.
constexpr std::string_view is_mine =
    "c.key = $1 AND c.owner_id = $2 AND c.epoch_timeline = $3::bigint"
    " AND c.epoch_counter = $4::bigint AND c.removed IS NULL AND $me_lives";

// `changed` is for the change feed: which transaction changed the row last. Indexes: rows on offer
// in their order; waiting rows, by when the wait ends; owned rows, by owner; changed rows; removed
// rows, by when.
constexpr std::string_view schema_text = R"sql(
SELECT pg_advisory_xact_lock(hashtext('warren catalog $p'));
CREATE TABLE IF NOT EXISTS $p_meta (
  version int NOT NULL,
  history text NOT NULL,
  purged xid8 NOT NULL
);
INSERT INTO $p_meta SELECT $version, gen_random_uuid(), '0' WHERE NOT EXISTS (SELECT FROM $p_meta);
CREATE TABLE IF NOT EXISTS $p_nodes (
  session text COLLATE "C" PRIMARY KEY,
  info text NOT NULL,
  ttl interval NOT NULL,
  lease_expires timestamptz NOT NULL
) WITH (fillfactor = 20);
CREATE TABLE IF NOT EXISTS $p_catalog (
  key text COLLATE "C" PRIMARY KEY,
  spec text NOT NULL,
  note text NOT NULL DEFAULT '',
  rank bigint NOT NULL,
  state text NOT NULL DEFAULT 'free',
  owner_id text COLLATE "C",
  epoch_timeline bigint NOT NULL DEFAULT 0,
  epoch_counter bigint NOT NULL DEFAULT 0,
  from_timeline bigint NOT NULL DEFAULT 0,
  from_counter bigint NOT NULL DEFAULT 0,
  write_order bigint NOT NULL DEFAULT 0,
  attempts int NOT NULL DEFAULT 0,
  error text NOT NULL DEFAULT '',
  wait_until timestamptz,
  removed timestamptz,
  call_id bigint,
  changed xid8 NOT NULL DEFAULT pg_current_xact_id()
);
ALTER TABLE $p_catalog ADD COLUMN IF NOT EXISTS write_order bigint NOT NULL DEFAULT 0;
UPDATE $p_meta SET version = $version WHERE version < $version;
COMMENT ON COLUMN $p_catalog.write_order IS 'of the last write of its owner, see write_order.h';
COMMENT ON COLUMN $p_catalog.from_counter IS 'of the epoch under which its owner was given it, or 0';
COMMENT ON COLUMN $p_catalog.call_id IS 'of the call that added or removed the row';
COMMENT ON COLUMN $p_catalog.changed IS 'the transaction that did, for those who follow changes';
CREATE INDEX IF NOT EXISTS $p_catalog_offered ON $p_catalog (rank DESC, key)
  WHERE owner_id IS NULL AND wait_until IS NULL AND removed IS NULL;
CREATE INDEX IF NOT EXISTS $p_catalog_waiting ON $p_catalog (wait_until)
  WHERE wait_until IS NOT NULL;
CREATE INDEX IF NOT EXISTS $p_catalog_owned ON $p_catalog (owner_id) WHERE owner_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS $p_catalog_changed ON $p_catalog (changed);
CREATE INDEX IF NOT EXISTS $p_catalog_removed ON $p_catalog (removed) WHERE removed IS NOT NULL;
CREATE OR REPLACE VIEW $p_rows AS
  SELECT c.key, c.owner_id, n.lease_expires,
         c.state = 'ready' AND n.lease_expires > clock_timestamp() IS TRUE AS ready, c.state, c.rank,
         c.epoch_timeline || '-' || c.epoch_counter AS epoch, c.attempts, c.error, c.wait_until,
         c.spec, c.note
  FROM $p_catalog c LEFT JOIN $p_nodes n ON n.session = c.owner_id WHERE c.removed IS NULL;
)sql";

// An unchanged info stays where it is, however long it is.
constexpr std::string_view beat_text = R"sql(
UPDATE $p_nodes n SET lease_expires = clock_timestamp() + ttl,
       info = CASE WHEN n.info = $2 THEN n.info ELSE $2 END
WHERE n.session = $1 AND n.lease_expires > clock_timestamp())sql";

constexpr std::string_view join_text = R"sql(
INSERT INTO $p_nodes (session, info, ttl, lease_expires)
VALUES ($1, $2, $3::bigint * interval '1 ms', clock_timestamp() + $3::bigint * interval '1 ms')
ON CONFLICT (session) DO UPDATE SET lease_expires = excluded.lease_expires)sql";

constexpr std::string_view leave_text = R"sql(
WITH ended AS (DELETE FROM $p_nodes WHERE session = $1),
     mine AS (SELECT key FROM $p_catalog WHERE owner_id = $1 ORDER BY key FOR UPDATE)
UPDATE $p_catalog c SET $freed FROM mine WHERE c.key = mine.key AND c.owner_id = $1)sql";

constexpr std::string_view nodes_text = R"sql(
SELECT session, info, (extract(epoch FROM ttl) * 1000)::bigint,
       ceil(extract(epoch FROM lease_expires - clock_timestamp()) * 1000)::bigint
FROM $p_nodes WHERE lease_expires > clock_timestamp() ORDER BY session)sql";

// In the order of the keys, so that two clients that add the same rows do not deadlock.
constexpr std::string_view add_text = R"sql(
WITH given AS (SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]) AS g (key, spec, rank)),
made AS (
  INSERT INTO $p_catalog AS c (key, spec, rank, call_id)
  SELECT g.key, g.spec, g.rank, $4::bigint FROM given g
  WHERE NOT EXISTS (SELECT FROM $p_catalog o WHERE o.key = g.key AND o.removed IS NULL)
  ORDER BY g.key COLLATE "C"
  ON CONFLICT (key) DO UPDATE
  SET spec = excluded.spec, rank = excluded.rank, note = '', attempts = 0, error = '',
      removed = NULL, call_id = excluded.call_id, $freed
  WHERE c.removed IS NOT NULL
  RETURNING 1)
SELECT (SELECT count(*) FROM made) +
       (SELECT count(*) FROM $p_catalog c
        WHERE c.key = ANY ($1::text[]) AND c.call_id = $4::bigint AND c.removed IS NULL))sql";

constexpr std::string_view remove_text = R"sql(
WITH found AS (SELECT c.key FROM $p_catalog c WHERE c.key = ANY ($1::text[]) AND c.removed IS NULL
               ORDER BY c.key FOR UPDATE),
gone AS (
  UPDATE $p_catalog c SET removed = clock_timestamp(), spec = '', note = '', error = '',
                          call_id = $2::bigint, $freed
  FROM found WHERE c.key = found.key RETURNING 1)
SELECT (SELECT count(*) FROM gone) +
       (SELECT count(*) FROM $p_catalog c
        WHERE c.key = ANY ($1::text[]) AND c.call_id = $2::bigint AND c.removed IS NOT NULL))sql";

constexpr std::string_view change_text = R"sql(
UPDATE $p_catalog c
SET spec = coalesce($2::text, c.spec), rank = coalesce($3::bigint, c.rank),
    wait_until = CASE WHEN NOT $4::boolean THEN c.wait_until END,
    state = CASE WHEN $4::boolean AND c.state = 'failed' THEN 'free' ELSE c.state END,
    attempts = CASE WHEN $4::boolean THEN 0 ELSE c.attempts END,
    error = CASE WHEN $4::boolean THEN '' ELSE c.error END,
    changed = pg_current_xact_id()
WHERE c.key = $1 AND c.removed IS NULL)sql";

constexpr std::string_view offered_text = R"sql(
SELECT EXISTS (SELECT FROM $p_nodes WHERE lease_expires <= clock_timestamp()) OR
       EXISTS (SELECT FROM $p_catalog WHERE wait_until <= (SELECT clock_timestamp())), $row_columns
FROM (VALUES (1)) AS always LEFT JOIN
     (SELECT * FROM $p_catalog
      WHERE owner_id IS NULL AND wait_until IS NULL AND removed IS NULL
      ORDER BY rank DESC, key LIMIT $1::bigint) AS c ON true
ORDER BY c.rank DESC, c.key)sql";

// Finds the owners one after the other in their index: each step looks at one entry.
constexpr std::string_view sweep_text = R"sql(
WITH RECURSIVE owners (owner_id) AS (
  (SELECT owner_id FROM $p_catalog WHERE owner_id IS NOT NULL ORDER BY owner_id LIMIT 1)
  UNION ALL
  SELECT (SELECT c.owner_id FROM $p_catalog c WHERE c.owner_id > o.owner_id
          ORDER BY c.owner_id LIMIT 1)
  FROM owners o WHERE o.owner_id IS NOT NULL),
late AS (SELECT session FROM $p_nodes WHERE lease_expires <= clock_timestamp()
         LIMIT 100 FOR UPDATE SKIP LOCKED),
ended AS (DELETE FROM $p_nodes n USING late WHERE n.session = late.session RETURNING n.session),
gone AS (
  SELECT session AS owner_id FROM ended
  UNION ALL
  SELECT o.owner_id FROM owners o
  WHERE o.owner_id IS NOT NULL
    AND NOT EXISTS (SELECT FROM $p_nodes n WHERE n.session = o.owner_id)),
orphans AS (SELECT c.key FROM gone JOIN $p_catalog c ON c.owner_id = gone.owner_id
            LIMIT $1::bigint FOR UPDATE OF c SKIP LOCKED),
waited AS (SELECT c.key FROM $p_catalog c WHERE c.wait_until <= (SELECT clock_timestamp())
           ORDER BY c.wait_until LIMIT $1::bigint FOR UPDATE SKIP LOCKED)
UPDATE $p_catalog c SET $freed
FROM (SELECT key FROM orphans UNION ALL SELECT key FROM waited) AS lapsed WHERE c.key = lapsed.key)sql";

// Keeps rows that a still open transaction may have changed before, since followers of changes may
// still have to be told.
constexpr std::string_view purge_text = R"sql(
WITH old AS (
  SELECT key FROM $p_catalog
  WHERE removed < (SELECT clock_timestamp() - interval '1 hour')
    AND changed < pg_snapshot_xmin(pg_current_snapshot())
  ORDER BY removed LIMIT 1000 FOR UPDATE SKIP LOCKED),
gone AS (DELETE FROM $p_catalog c USING old WHERE c.key = old.key RETURNING c.changed),
latest AS (SELECT changed FROM gone ORDER BY changed DESC LIMIT 1)
UPDATE $p_meta m SET purged = greatest(m.purged, latest.changed) FROM latest)sql";

// Compares only with rows without an owner, and so with the newest version of the row: see the
// header.
constexpr std::string_view claim_text = R"sql(
UPDATE $p_catalog c
SET state = 'claimed', owner_id = $2, wait_until = NULL, from_timeline = 0, from_counter = 0,
    write_order = 0, changed = pg_current_xact_id(), $next_epoch
WHERE c.key = $1 AND c.owner_id IS NULL AND c.removed IS NULL
  AND (c.wait_until IS NULL OR c.wait_until <= clock_timestamp()) AND $me_lives
RETURNING c.epoch_timeline, c.epoch_counter)sql";

constexpr std::string_view free_row_text = R"sql(
WITH ended AS (DELETE FROM $p_nodes
               WHERE session = $2 AND lease_expires <= clock_timestamp() RETURNING session)
UPDATE $p_catalog c SET $freed
WHERE c.key = $1 AND c.owner_id = $2
  AND (EXISTS (SELECT FROM ended) OR NOT EXISTS (SELECT FROM $p_nodes n WHERE n.session = $2)))sql";

constexpr std::string_view write_text = R"sql(
UPDATE $p_catalog c
SET state = $5, note = coalesce($6::text, c.note),
    attempts = CASE WHEN $5 = 'ready' THEN 0 ELSE c.attempts END,
    error = CASE WHEN $5 = 'ready' THEN '' ELSE c.error END,
    write_order = $7::bigint, changed = pg_current_xact_id()
WHERE $is_mine AND c.write_order < $7::bigint)sql";

constexpr std::string_view release_text = R"sql(
UPDATE $p_catalog c
SET state = CASE WHEN $5 = '' THEN 'free' ELSE 'failed' END,
    attempts = c.attempts + CASE WHEN $5 = '' THEN 0 ELSE 1 END,
    error = CASE WHEN $5 = '' THEN c.error ELSE $5 END,
    wait_until = CASE WHEN $5 <> '' OR $6::bigint > 0
                      THEN clock_timestamp() + $6::bigint * interval '1 ms' END,
    note = coalesce($7::text, c.note), owner_id = NULL, changed = pg_current_xact_id()
WHERE $is_mine)sql";

constexpr std::string_view hand_over_text = R"sql(
UPDATE $p_catalog c
SET state = 'ready', owner_id = $5, attempts = 0, error = '', changed = pg_current_xact_id(),
    from_timeline = $3::bigint, from_counter = $4::bigint, write_order = 0, $next_epoch
WHERE $is_mine AND $other_lives
RETURNING c.epoch_timeline, c.epoch_counter)sql";

constexpr std::string_view look_text = R"sql(
SELECT c.key IS NOT NULL, c.owner_id, c.epoch_timeline, c.epoch_counter, c.from_timeline,
       c.from_counter, c.write_order, c.wait_until > clock_timestamp(), $me_lives, $third_lives, $owner_lives
FROM (VALUES (1)) AS always LEFT JOIN
     (SELECT * FROM $p_catalog WHERE key = $1 AND removed IS NULL) AS c ON true)sql";

// Identifies the history that transaction numbers belong to. Another cluster, a promoted standby
// and recreated tables have another one.
constexpr std::string_view here = R"sql(
SELECT (SELECT system_identifier FROM pg_control_system()) || '-' || $timeline || '-' || m.history
         AS identity,
       m.purged, pg_current_snapshot() AS seen
FROM $p_meta m)sql";

// Transactions do not commit in the order of their numbers, so "all after the last one" would miss
// one that commits late. A snapshot says exactly which were visible; the others are reported now. A
// snapshot from the future belongs to a server that was set back.
constexpr std::string_view changes_text = R"sql(
WITH here AS ($here),
known AS (
  SELECT identity, seen,
         identity = $1 AND pg_snapshot_xmin($2::pg_snapshot) > purged AND
         pg_snapshot_xmax($2::pg_snapshot) <= pg_snapshot_xmax(seen) AS is_known
  FROM here)
SELECT k.is_known, k.identity, k.seen, c.removed IS NOT NULL, $row_columns
FROM known k LEFT JOIN $p_catalog c
  ON k.is_known AND c.changed >= pg_snapshot_xmin($2::pg_snapshot)
     AND NOT pg_visible_in_snapshot(c.changed, $2::pg_snapshot))sql";

constexpr std::string_view everything_text = R"sql(
WITH here AS ($here)
SELECT true, h.identity, h.seen, false, $row_columns
FROM here h LEFT JOIN $p_catalog c ON c.removed IS NULL)sql";

void replace_all(std::string& text, const Word& word) {
  for (auto at = text.find(word.name); at != text.npos; at = text.find(word.name, at))
    text.replace(at, word.name.size(), word.text);
}

bool is_prefix(const std::string& text) {
  auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  return !text.empty() && text.size() <= 40 && is_letter(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

// Words may contain words that follow.
std::string filled_in(std::string_view text, const std::string& prefix) {
  auto version = std::to_string(schema_version);
  auto lives_as = [](std::string_view who) {
    std::string claim(lives);
    replace_all(claim, {"$who", who});
    return claim;
  };
  auto me = lives_as("$2"), other = lives_as("$5"), third = lives_as("$3"),
       owner = lives_as("c.owner_id");
  std::string filled(text);
  for (const auto& word :
       {Word{"$here", here}, Word{"$row_columns", row_columns}, Word{"$next_epoch", next_epoch},
        Word{"$is_mine", is_mine}, Word{"$freed", freed}, Word{"$me_lives", me},
        Word{"$other_lives", other}, Word{"$third_lives", third}, Word{"$owner_lives", owner},
        Word{"$timeline", timeline}, Word{"$version", version}, Word{"$p", prefix}})
    replace_all(filled, word);
  return filled;
}

}  // namespace

Result<Statements> Statements::make(const std::string& prefix) {
  if (!is_prefix(prefix))
    return fail(Errc::invalid,
                "invalid prefix of tables: use 1 to 40 lower-case letters, digits and \"_\", "
                "beginning with no digit");
  auto named = [&](std::string name, std::string_view text) {
    return Statement{std::move(name), filled_in(text, prefix)};
  };
  Statements made;
  made.schema = filled_in(schema_text, prefix);
  made.version = named("version", "SELECT version FROM $p_meta");
  made.join = named("join", join_text);
  made.beat = named("beat", beat_text);
  made.leave = named("leave", leave_text);
  made.nodes = named("nodes", nodes_text);
  made.add = named("add", add_text);
  made.remove = named("remove", remove_text);
  made.change = named("change", change_text);
  made.offered = named("offered", offered_text);
  made.sweep = named("sweep", sweep_text);
  made.purge = named("purge", purge_text);
  made.claim = named("claim", claim_text);
  made.free_row = named("free_row", free_row_text);
  made.write = named("write", write_text);
  made.release = named("release", release_text);
  made.hand_over = named("hand_over", hand_over_text);
  made.look = named("look", look_text);
  made.changes = named("changes", changes_text);
  made.everything = named("everything", everything_text);
  return made;
}

}  // namespace warren::pg
