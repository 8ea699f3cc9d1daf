#pragma once
// How clusters prove to each other that they know their token, without showing it.
//
//   a, who calls                             b, or whoever answers there
//     |── Prove(a, b, nonce of a) ─────────────>|
//     |<── nonce of b, HMAC("callee", …) ───────|   b knows the token, or a says nothing more
//     |── the call, HMAC("caller", …) ─────────>|   a knows it, too; a nonce of b counts once
//
// Both names are part of each proof: who is asked for b cannot pass the question on to c, where all
// clusters share one token. What comes after is as safe as the connection: without TLS, whoever
// sits between the two reads it, and may change it.
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace warren::federation {

std::string make_nonce();

enum class Role { caller, callee };

struct Dialogue {
  std::string caller, callee;              // clusters
  std::string caller_nonce, callee_nonce;  // of one call
};
std::string proof_of(const std::string& token, Role role, const Dialogue& dialogue);
bool is_proof(const std::string& shown, const std::string& token, Role role,
              const Dialogue& dialogue);

// What a caller shows in the place of the token.
std::string credential_of(const std::string& token, const Dialogue& dialogue);
struct Credential {
  Dialogue dialogue;
  std::string proof;
};
// None: it is something else, such as a token. The callee fills in its own name.
std::optional<Credential> parse_credential(std::string_view shown);

// The nonces of one callee. They carry their own seal, so that strangers who ask for many cost no
// memory: only one that was used by somebody who knows the token is remembered.
class Nonces {
 public:
  Nonces();
  std::string next(Clock::time_point now) const;
  // Whether it is one of ours, young, and not used before; from here on it is.
  bool use(const std::string& nonce, Clock::time_point now);

 private:
  std::string seal(std::string_view text) const;
  std::string secret_;
  std::map<std::string, Clock::time_point> used_;
};

}  // namespace warren::federation
