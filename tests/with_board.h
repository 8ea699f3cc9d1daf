#pragma once
// A board for the length of one test.
#include "services/board/store/board.h"
#include "services/board/store/feed.h"
#include "with_client.h"

namespace warren {

// with_board(settings_for(server), [](Board& board, RedisServer& redis) -> awaitable<void> {
//   …
// }, server);
template <class Body, class... Args>
void with_board(redis::Settings settings, Body body, Args&... args) {
  auto opened = [](redis::Client& client, Body& run_body, Args&... more) -> awaitable<void> {
    auto board = Board::open(client, "holt", "demo");
    REQUIRE(board);
    co_await run_body(*board, more...);
  };
  with_client(std::move(settings), opened, body, args...);
}

inline board::Artefact artefact_of(std::string type, std::string payload = "") {
  board::Artefact artefact;
  artefact.type = std::move(type);
  artefact.payload = std::move(payload);
  artefact.produced_by_role = "user";
  return artefact;
}

inline board::Claim claim_on(const board::Artefact& artefact) {
  board::Claim claim;
  claim.artefact_id = artefact.id;
  return claim;
}

template <class T>
T value_of(Result<T> result) {
  REQUIRE_MESSAGE(result, result.error().what);
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

template <class T>
Error error_of(Result<T> result) {
  REQUIRE(!result);
  return std::move(result.error());
}

}  // namespace warren
