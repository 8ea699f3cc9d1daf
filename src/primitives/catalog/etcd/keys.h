#pragma once
// The keys of a catalog in etcd, all under one root.
//
//   row/<key>                 a row: a RowRecord                              watched by changes()
//   node/<session>            a living node, on its lease: a NodeRecord
//   life/<session>            a node that lived; goes once none of its rows is left
//   own/<session>/<key>       the rows of a session
//   free/<rank>/<key>         the rows that are offered, best first
//   wait/<place>              a wait that lasts, on a lease of its length
//   waiting/<place>           the row that waits or waited there
//   length/<seconds>          a length of waits that is in use
//   last                      written with every change of a row
//
// A row is in exactly one of own/, free/ and waiting/. It moves from waiting/ to free/ when a node
// asks what is claimable and the row's wait/ is gone. So nothing has to run when a wait ends.
//
// A place is "<seconds>/<revision>/<key>". Waits of one length end in the order in which they
// began, so finished waits come first, and one look per length finds them among any number of
// others.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "primitives/catalog/catalog.h"

namespace warren::etcd {

struct Keys {
  std::string root;  // empty, or ends with a slash

  std::string rows() const { return root + "row/"; }
  std::string row(std::string_view key) const { return rows().append(key); }
  std::string nodes() const { return root + "node/"; }
  std::string node(std::string_view session) const { return nodes().append(session); }
  std::string lives() const { return root + "life/"; }
  std::string life(std::string_view session) const { return lives().append(session); }
  std::string owned_by(std::string_view session) const;
  std::string own(std::string_view session, std::string_view key) const;
  std::string offers() const { return root + "free/"; }
  std::string offer(std::int64_t rank, std::string_view key) const;
  std::string waits() const { return root + "wait/"; }
  std::string wait(std::string_view place) const { return waits().append(place); }
  std::string waitings() const { return root + "waiting/"; }
  std::string waiting(std::string_view place) const { return waitings().append(place); }
  std::string lengths() const { return root + "length/"; }
  std::string length(std::string_view seconds) const { return lengths().append(seconds); }
  std::string last() const { return root + "last"; }
};

// The end of the range of all keys with this prefix.
std::string after_prefix(std::string prefix);

// The row's key in the name of an offer below offers().
std::string_view key_of_offer(std::string_view offer);

std::string place_of(std::int64_t seconds, std::int64_t revision, std::string_view key);
std::string_view length_of_place(std::string_view place);
std::string_view key_of_place(std::string_view place);

// At least one second; from a hundred seconds on, two digits: 61 s, 99 s, 100 s, 110 s, …. So few
// lengths are in use.
std::int64_t wait_seconds(std::chrono::milliseconds wait);

// "n1/00c0ffee00c0ffee": the lease is part of the session.
NodeSession session_of(std::string_view name, std::int64_t lease);
std::optional<std::int64_t> lease_of(std::string_view session);

// Where a reader is: a revision of one cluster. Text of any other form is not a position.
struct Position {
  std::uint64_t cluster = 0;
  std::int64_t revision = 0;
  bool operator==(const Position&) const = default;
};
std::string to_string(const Position& position);
std::optional<Position> parse_position(std::string_view text);

}  // namespace warren::etcd
