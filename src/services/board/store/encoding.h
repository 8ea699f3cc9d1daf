#pragma once
// What is on a board, as it stands in Redis: hashes of text, and JSON in events.
//
// We write what the Go program writes and read whatever it reads: a list may be missing, empty,
// `null` or `[]`, a boolean may be 1 or T or true, fields that we do not know stay where they are.
// A value that cannot be read is Errc::protocol and names the key and the field.
#include <boost/json/object.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redis/resp/reply.h"
#include "services/board/store/types.h"

namespace warren::board {

using Fields = std::vector<std::pair<std::string, std::string>>;

Fields to_fields(const Artefact& artefact);
Fields to_fields(const Claim& claim);  // without the revision

// From the answer to HGETALL. Errc::not_found when there is no such key.
Result<Artefact> artefact_from(std::string_view key, const redis::Reply& hash);
Result<Claim> claim_from(std::string_view key, const redis::Reply& hash);
// From the result of the call: a key that is no hash cannot be read either.
template <class T>
Result<T> read_hash(std::string_view key, const Result<redis::Reply>& hash,
                    Result<T> (*parse)(std::string_view, const redis::Reply&)) {
  if (hash) return parse(key, *hash);
  if (hash.error().code != Errc::refused) return std::unexpected(hash.error());
  return fail(Errc::protocol, "{}: {}", key, hash.error().what);
}
// Whoever bids something unknown bids `ignore`.
Bids bids_from(const redis::Reply& hash);

// An artefact's event is these two with the version between them, then the time and a brace: what
// the server may have to fill in.
struct ArtefactText {
  std::string head, middle;
};
ArtefactText event_text(const Artefact& artefact);
std::string to_json(const Artefact& artefact);
std::string to_json(const Claim& claim);

// `where` stands in the error.
Result<boost::json::object> parse_object(std::string_view where, std::string_view text);
Result<Artefact> artefact_from(std::string_view where, const boost::json::object& json);
Result<Claim> claim_from(std::string_view where, const boost::json::object& json);

}  // namespace warren::board
