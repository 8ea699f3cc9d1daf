#include "services/foghorn/federation/proof.h"

#include <doctest/doctest.h>

using namespace warren;
using namespace warren::federation;

TEST_CASE("a proof holds for one token, one role, two clusters and two nonces") {
  Dialogue dialogue{"a", "b", make_nonce(), make_nonce()};
  auto proof = proof_of("secret", Role::callee, dialogue);
  CHECK(is_proof(proof, "secret", Role::callee, dialogue));
  CHECK(!proof.contains("secret"));
  CHECK(!is_proof(proof, "other", Role::callee, dialogue));
  CHECK(!is_proof(proof, "secret", Role::caller, dialogue));  // nobody is shown his own
  CHECK(!is_proof("", "secret", Role::callee, dialogue));
  auto change = [&](std::string Dialogue::* member) {
    auto other = dialogue;
    other.*member = "c";
    return is_proof(proof, "secret", Role::callee, other);
  };
  CHECK(!change(&Dialogue::caller));
  CHECK(!change(&Dialogue::callee));
  CHECK(!change(&Dialogue::caller_nonce));
  CHECK(!change(&Dialogue::callee_nonce));
}

TEST_CASE("a credential says who calls, and nothing else is one") {
  Dialogue dialogue{"a", "b", make_nonce(), make_nonce()};
  auto shown = credential_of("secret", dialogue);
  CHECK(!shown.contains("secret"));
  auto read = parse_credential(shown);
  REQUIRE(read);
  CHECK(read->dialogue.caller == "a");
  read->dialogue.callee = "b";
  CHECK(is_proof(read->proof, "secret", Role::caller, read->dialogue));
  for (auto other : {"", "secret", "warren-proof", "warren-proof:a:b:c", "warren-proof:a:b:c:d:e",
                     "other:a:b:c:d"})
    CHECK(!parse_credential(other));
}

TEST_CASE("a nonce counts once, for a while, and only where it was made") {
  Nonces nonces, others;
  auto now = Clock::now();
  auto nonce = nonces.next(now);
  CHECK(!others.use(nonce, now));
  CHECK(nonces.use(nonce, now));
  CHECK(!nonces.use(nonce, now));
  CHECK(nonces.next(now) != nonces.next(now));
  auto late = nonces.next(now);
  CHECK(!nonces.use(late, now + 31s));
  CHECK(nonces.use(late, now + 29s));
  auto forged = nonces.next(now);
  forged[3] = forged[3] == '0' ? '1' : '0';
  CHECK(!nonces.use(forged, now));
  for (auto other : {"", "x", "00"}) CHECK(!nonces.use(other, now));
  CHECK(!nonces.use(std::string(80, 'z'), now));
}
