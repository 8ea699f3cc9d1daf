#include "services/board/store/feed.h"

namespace warren {

using namespace board;

BoardFeed::BoardFeed(redis::Client& client, BoardKeys keys, FeedTerms terms)
    : keys_(std::move(keys)), subscriber_(client) {
  if (terms.artefacts) subscriber_.subscribe(keys_.artefact_events());
  if (terms.claims) subscriber_.subscribe(keys_.claim_events());
  if (terms.workflow) subscriber_.subscribe(keys_.workflow_events());
  if (terms.all_grants) {
    subscriber_.psubscribe(keys_.all("agent:") + ":events");
    return;
  }
  for (const auto& role : terms.grants_to) subscriber_.subscribe(keys_.agent_events(role));
}

Async<BoardEvent> BoardFeed::next(Clock::time_point deadline) {
  auto message = co_await subscriber_.next(deadline);
  if (!message) co_return std::unexpected(message.error());
  if (message->kind == redis::Message::Kind::gap) co_return Gap{};
  co_return parse_event(keys_, message->channel, message->payload);
}

}  // namespace warren
