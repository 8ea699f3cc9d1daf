#pragma once
// The tables of a catalog in PostgreSQL, and every statement that runs on them.
//
//   <prefix>_catalog   the rows of the catalog, including rows removed within the last hour
//   <prefix>_nodes     one row per life of a node: all that a heartbeat changes
//   <prefix>_meta      one row: the version of this schema, and which history this is
//   <prefix>_rows      for people with psql: rows with the lease of their owner
//
// What ends a life. A node's lease ends by the clock of the server. But the life is over only when
// its row in <prefix>_nodes is gone, and a row of the catalog is freed only after that. To judge an
// owner by the clock alone is not enough: a statement sees the lease as of when the statement
// began, and may have waited for a lock since, while the owner kept renewing. Deleting the node's
// row looks at its newest version and waits for a heartbeat under way. So either the heartbeat
// succeeds and the rows stay, or it finds that the lease is lost.
//
// A claim that ran at the same time as the end of its own session may leave a row whose owner is
// gone. Such rows are found through their owners, of which there are few, and freed like the rows
// of a node that ended.
#include <string>

#include "primitives/catalog/pg_connection.h"

namespace warren::pg {

constexpr int schema_version = 2;

struct Statements {
  // Returns Errc::invalid if table names cannot begin with this prefix.
  static Result<Statements> make(const std::string& prefix);

  std::string
      schema;  // creates what is missing, also in older tables; several clients may run it at once
  Statement version;  // → version

  Statement join;   // session, info, ttl_ms
  Statement beat;   // session, info
  Statement leave;  // session
  Statement nodes;  // → session, info, ttl_ms, left_ms

  // These two return how many rows the call with this number has added or removed, earlier attempts
  // included.
  Statement add;     // keys, specs, ranks, call
  Statement remove;  // keys, call
  Statement change;  // key, spec?, rank?, ends_wait

  // → whether something should be freed first; then a row of the catalog, if there is one
  Statement offered;  // most
  // Frees the rows of lives that are over, and rows whose wait is over.
  Statement sweep;  // most
  Statement purge;

  Statement claim;      // key, session → epoch
  Statement free_row;   // key, owner; if that life is over
  Statement write;      // key, session, timeline, counter, state, note?, order
  Statement release;    // key, session, timeline, counter, error, wait_ms, note?
  Statement hand_over;  // key, session, timeline, counter, to → epoch
  // Finds out why one of these did nothing. → see Look in postgres.cc
  Statement look;  // key, session, other session

  // → is known, identity, snapshot, is removed; then a row of the catalog, if there is one
  Statement changes;     // identity, snapshot
  Statement everything;  // the same
};

}  // namespace warren::pg
