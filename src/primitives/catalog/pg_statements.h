#pragma once
// The tables of a catalog in PostgreSQL, and every statement that is run on them.
//
//   <prefix>_catalog   the rows of the catalog, and for an hour those that were removed
//   <prefix>_nodes     one row for each life of a node: all that a heartbeat changes
//   <prefix>_meta      one row: the version of this schema, and which history this is
//   <prefix>_rows      for people with psql: rows with the lease of their owner
//
// Who ends a life. A node's lease ends by the clock of the server, but the life is over when its row in
// <prefix>_nodes is gone, and a row of the catalog is freed only after that. To judge an owner by the
// clock alone is not enough: a statement sees the lease as it was when the statement began, and may
// have waited for a lock since, while the owner went on renewing. Deleting the node's row looks at its
// newest version and waits for a heartbeat that is under way, so either the heartbeat succeeds and the
// rows stay, or it finds that the lease is lost.
//
// A claim that ran beside the end of its own session may leave a row whose owner is gone. Such rows are
// found by their owners, of which there are few, and freed like those of a node that ended.
#include <string>

#include "primitives/catalog/pg_connection.h"

namespace warren::pg {

constexpr int schema_version = 2;

struct Statements {
  // Errc::invalid: tables cannot begin with this prefix.
  static Result<Statements> make(const std::string& prefix);

  std::string
      schema;  // makes what is missing, of older tables too; any number of clients may do so at once
  Statement version;  // → version

  Statement join;   // session, info, ttl_ms
  Statement beat;   // session, info
  Statement leave;  // session
  Statement nodes;  // → session, info, ttl_ms, left_ms

  // The last two give how many rows the call with this number has added or removed, also before.
  Statement add;     // keys, specs, ranks, call
  Statement remove;  // keys, call
  Statement change;  // key, spec?, rank?, ends_wait

  // → whether there is something to be freed first; then a row of the catalog, if there is any
  Statement offered;  // most
  // Frees rows of lives that are over, and those whose wait is.
  Statement sweep;  // most
  Statement purge;

  Statement claim;      // key, session → epoch
  Statement free_row;   // key, owner; when that life is over
  Statement write;      // key, session, timeline, counter, state, note?, order
  Statement release;    // key, session, timeline, counter, error, wait_ms, note?
  Statement hand_over;  // key, session, timeline, counter, to → epoch
  // Why one of these did nothing. → see Look in postgres.cc
  Statement look;  // key, session, other session

  // → is known, identity, snapshot, is removed; then a row of the catalog, if there is any
  Statement changes;     // identity, snapshot
  Statement everything;  // the same
};

}  // namespace warren::pg
