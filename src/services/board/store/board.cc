#include "services/board/store/board.h"

#include "base/uuid.h"
#include "services/board/store/causes.h"
#include "services/board/store/json_parts.h"
#include "services/board/store/writing.h"

namespace warren {

using namespace board;
using redis::Command;
using redis::Reply;

namespace {

const auto create_artefact_script = writing(scripts::create_artefact);

}  // namespace

Result<Board> Board::open(redis::Client& client, std::string_view prefix,
                          std::string_view instance) {
  bool in_cluster = client.settings().mode == redis::Mode::cluster;
  auto keys = BoardKeys::create(prefix, instance, in_cluster ? Layout::cluster : Layout::plain);
  if (!keys) return std::unexpected(keys.error());
  return Board(client, *std::move(keys));
}

Async<Reply> Board::write(const redis::Script& script, Words keys, Words args,
                          WriteTerms terms) const {
  keys.insert(keys.begin(), terms.fence ? terms.fence->key : keys_.nothing());
  Words head{"", "", std::to_string(fence_retention.count()),
             std::to_string(terms.announcements.size())};
  if (terms.fence) {
    head[0] = std::to_string(terms.fence->token.epoch);
    head[1] = std::to_string(terms.fence->token.counter);
  }
  for (const auto& announcement : terms.announcements) {
    auto message = encode(keys_, announcement);
    head.push_back(std::move(message.channel));
    head.push_back(std::move(message.payload));
  }
  args.insert(args.begin(), std::make_move_iterator(head.begin()),
              std::make_move_iterator(head.end()));
  auto options = redis::CallOptions().idempotent();
  auto reply = co_await client_->run(script, std::move(keys), std::move(args), options);
  if (!reply) co_return std::unexpected(behind_fence(std::move(reply.error())));
  co_return reply;
}

Async<Reply> Board::read(Command command) const {
  auto options = redis::CallOptions().idempotent().where(keys_.root());
  co_return co_await client_->ask(std::move(command), options);
}

Async<Artefact> Board::create_artefact(Artefact artefact, WriteTerms terms) {
  return create(std::move(artefact), false, std::move(terms));
}

Async<Artefact> Board::create_next_version(Artefact artefact, WriteTerms terms) {
  return create(std::move(artefact), true, std::move(terms));
}

Async<Artefact> Board::create(Artefact artefact, bool is_next, WriteTerms terms) {
  if (artefact.id.empty()) artefact.id = uuid4();
  if (artefact.logical_id.empty()) artefact.logical_id = artefact.id;
  if (auto checked = check(artefact); !checked) co_return std::unexpected(checked.error());

  auto [head, middle] = event_text(artefact);
  if (middle.size() > limits::event)
    co_return fail(Errc::invalid, "payload: {} bytes in JSON are more than {}", middle.size(),
                   limits::event);
  auto fields = to_fields(artefact);
  std::erase_if(fields, [](const auto& field) {
    return field.first == "version" || field.first == "created_at_ms";
  });
  Words keys{keys_.artefact(artefact.id),
             keys_.thread(artefact.logical_id),
             keys_.artefacts(),
             keys_.artefacts(artefact.type),
             keys_.types(),
             keys_.artefact_ids(),
             keys_.unclaimed()};
  for (const auto& source : artefact.source_artefacts) keys.push_back(keys_.children(source));
  Words args{artefact.id,
             is_next ? "next" : "exact",
             std::to_string(artefact.version),
             std::to_string(parts::milliseconds(artefact.created_at)),
             artefact.type,
             needs_claim(artefact.structural_type) ? "1" : "0",
             keys_.artefact_events(),
             std::move(head),
             std::move(middle)};
  append(args, fields);
  auto reply =
      co_await write(create_artefact_script, std::move(keys), std::move(args), std::move(terms));
  if (!reply) co_return std::unexpected(reply.error());
  if (code_of(*reply) == -1)
    co_return fail(Errc::refused, "artefact {} exists with another {}; an artefact never changes",
                   artefact.id, text_of(*reply, 1));
  if (code_of(*reply) == -2)
    co_return fail(Errc::refused, "version {} of {} is artefact {}", artefact.version,
                   artefact.logical_id, text_of(*reply, 1));
  artefact.version = number_of(*reply, 1);
  artefact.created_at = parts::unix_time(number_of(*reply, 2));
  co_return artefact;
}

Async<Artefact> Board::artefact(std::string id) const {
  auto key = keys_.artefact(id);
  auto reply = co_await read(Command("HGETALL", key));
  co_return read_hash<Artefact>(key, reply, artefact_from);
}

Async<Artefact> Board::latest(std::string logical_id) const {
  auto key = keys_.thread(logical_id);
  auto reply = co_await read(Command("ZREVRANGE", key, 0, 0));
  if (!reply) co_return std::unexpected(reply.error());
  if (reply->items.empty())
    co_return fail(Errc::not_found, board::causes::missing, key, "there is no {}", key);
  co_return co_await artefact(reply->items[0].text);
}

Async<std::vector<ThreadEntry>> Board::versions(std::string logical_id) const {
  auto reply = co_await read(Command("ZRANGE", keys_.thread(logical_id), 0, -1, "WITHSCORES"));
  if (!reply) co_return std::unexpected(reply.error());
  std::vector<ThreadEntry> entries;
  auto add = [&entries](const Reply& id, const Reply& score) {
    double version = score.kind == Reply::Kind::real ? score.real() : std::atof(score.text.c_str());
    entries.push_back({id.text, static_cast<std::int64_t>(version)});
  };
  const auto& items = reply->items;
  if (!items.empty() && items[0].kind == Reply::Kind::array) {  // RESP3: pairs
    for (const auto& pair : items)
      if (pair.items.size() == 2) add(pair.items[0], pair.items[1]);
  } else {
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) add(items[i], items[i + 1]);
  }
  co_return entries;
}

Async<> Board::announce(Announcement announcement) const {
  auto message = encode(keys_, announcement);
  auto reply = co_await read(Command("PUBLISH", message.channel, message.payload));
  if (!reply) co_return std::unexpected(reply.error());
  co_return ok;
}

}  // namespace warren
