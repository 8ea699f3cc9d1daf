#include "redis/connection/conversation.h"

#include <algorithm>
#include <boost/asio/post.hpp>

#include "redis/causes.h"
#include "redis/resp/refusal.h"

namespace warren::redis {

using namespace asio::experimental::awaitable_operators;

namespace {

constexpr std::size_t chunk = 16u << 10;
// After this many bytes timers and other connections get a turn.
constexpr std::size_t turn_bytes = 256u << 10;
// Pushes between the answers of one exchange; Redis sends none there.
constexpr std::size_t most_early = 1000;

Error too_late(const Address& address) {
  return {Errc::timeout, fmt::format("{} does not answer", to_string(address))};
}

// Waits, but not past the deadline, and tells which it was.
Async<> in_time(awaitable<void> event, Clock::time_point deadline, const Address& address) {
  auto first = co_await (std::move(event) || sleep_until(deadline));
  auto state = co_await asio::this_coro::cancellation_state;
  if (is_cancelled(state)) co_return fail(Errc::cancelled, "the caller left");
  if (first.index() == 1) co_return std::unexpected(too_late(address));
  co_return ok;
}

std::string printable(std::string_view bytes) {
  std::string text;
  for (char c : bytes.substr(0, 40)) {
    if (c >= ' ' && c <= '~')
      text += c;
    else if (c == '\r' || c == '\n')
      break;
    else
      text += '.';
  }
  return text;
}

Error not_redis(const Address& address, std::string_view bytes) {
  if (bytes.starts_with('\x15'))
    return {Errc::protocol,
            fmt::format("{} wants TLS: use rediss:// or REDIS_TLS=true", to_string(address))};
  return {Errc::protocol, fmt::format("{} is not a Redis server: it says \"{}\"",
                                      to_string(address), printable(bytes))};
}

// What a refusal of the prologue means to a person.
Error explain(const Address& address, const Reply& refusal) {
  std::string_view word = error_word(refusal.text);
  std::string where = to_string(address);
  if (word == "WRONGPASS")
    return {Errc::denied, causes::wrong_password, where,
            fmt::format("{} does not accept this user name and password", where)};
  if (word == "NOAUTH")
    return {Errc::denied, causes::wrong_password, where,
            fmt::format("{} wants a password: set REDIS_PASSWORD", where)};
  if (word == "NOPROTO" || refusal.text.starts_with("ERR unknown command"))
    return {Errc::protocol, causes::too_old, where,
            fmt::format("{} does not speak RESP3: Redis 6 or newer is needed", where)};
  if (refusal.text.starts_with("ERR DB index"))
    return {Errc::invalid, fmt::format("{} does not have this database: {}", where, refusal.text)};
  if (refusal.text.starts_with("ERR max number of clients"))
    return {Errc::unavailable, fmt::format("{} has too many clients", where)};
  return within(where, error_of(refusal));
}

}  // namespace

Async<> Conversation::send(std::string bytes, Clock::time_point deadline) {
  std::string_view rest = bytes;
  while (!rest.empty()) {
    auto done = transport_->write(rest);
    if (done.status == Transport::Done::closed) co_return std::unexpected(transport_->why());
    rest.remove_prefix(done.bytes);
    if (done.status == Transport::Done::would_block) {
      auto writable = co_await in_time(transport_->wait_writable(), deadline, address_);
      if (!writable) co_return writable;
    }
  }
  co_return ok;
}

Async<Reply> Conversation::next(Clock::time_point deadline) {
  if (!early_.empty()) {
    auto reply = std::move(early_.front());
    early_.pop_front();
    co_return reply;
  }
  co_return co_await receive(deadline);
}

Async<Reply> Conversation::receive(Clock::time_point deadline) {
  bool is_timed = deadline != Clock::time_point::max();
  for (bool is_first = true;; is_first = false) {
    auto unread = std::string_view(in_).substr(in_begin_);
    if (!unread.empty()) {
      auto progress = parser_.parse(unread);
      in_begin_ += progress.consumed;
      if (progress.status == Parser::Status::complete) co_return parser_.take();
      if (progress.status == Parser::Status::broken) co_return std::unexpected(broken(unread));
    }
    // Bytes that keep coming do not move the deadline.
    if (is_timed && !is_first && Clock::now() >= deadline)
      co_return std::unexpected(too_late(address_));
    if (in_turn_ >= turn_bytes) {
      in_turn_ = 0;
      co_await asio::post(co_await asio::this_coro::executor, asio::use_awaitable);
    }
    in_.erase(0, in_begin_);
    in_begin_ = 0;
    auto size = in_.size();
    in_.resize(size + std::min(parser_.needed(), size) + chunk);
    auto space = std::span(in_).subspan(size);
    Transport::Done done;
    if (is_timed)
      done = transport_->read(space);
    else
      done = co_await transport_->receive(space);
    in_.resize(size + done.bytes);
    in_turn_ += done.bytes;
    if (done.status == Transport::Done::closed) co_return std::unexpected(transport_->why());
    if (done.status == Transport::Done::some) continue;
    if (is_timed) {
      auto readable = co_await in_time(transport_->wait_readable(), deadline, address_);
      if (!readable) co_return std::unexpected(readable.error());
    } else {
      auto state = co_await asio::this_coro::cancellation_state;
      if (is_cancelled(state)) co_return fail(Errc::cancelled, "the caller left");
    }
  }
}

Error Conversation::broken(std::string_view unread) const {
  if (!parser_.is_too_large()) return not_redis(address_, unread);
  return {Errc::protocol, fmt::format("{}: {}", to_string(address_), parser_.problem())};
}

Async<std::vector<Reply>> Conversation::exchange(std::vector<Command> commands,
                                                 Clock::time_point deadline) {
  std::string bytes;
  for (const auto& command : commands) bytes += command.bytes();
  auto sent = co_await send(std::move(bytes), deadline);
  if (!sent) co_return std::unexpected(sent.error());
  std::vector<Reply> replies;
  while (replies.size() < commands.size()) {
    auto reply = co_await receive(deadline);
    if (!reply) co_return std::unexpected(reply.error());
    if (reply->kind != Reply::Kind::push)
      replies.push_back(std::move(*reply));
    else if (early_.size() < most_early)
      early_.push_back(std::move(*reply));
    else
      co_return fail(Errc::protocol, "{} does not answer, and tells what nobody asked for",
                     to_string(address_));
  }
  co_return replies;
}

Async<Reply> Conversation::ask(Command command, Clock::time_point deadline) {
  std::vector<Command> commands;
  commands.push_back(std::move(command));
  auto replies = co_await exchange(std::move(commands), deadline);
  if (!replies) co_return std::unexpected(replies.error());
  if (replies->front().is_error()) co_return std::unexpected(error_of(replies->front()));
  co_return std::move(replies->front());
}

Result<Dialer> Dialer::create(const Settings& settings) {
  Dialer dialer(settings);
  if (settings.tls.enabled) {
    auto tls = TlsContext::load(settings.tls);
    if (!tls) {
      tls.error().cause = causes::bad_tls_file;
      return std::unexpected(tls.error());
    }
    dialer.tls_ = std::move(*tls);
  }
  return dialer;
}

Dialer Dialer::for_sentinels() const {
  Dialer dialer = *this;
  dialer.settings_.credentials = settings_.sentinel_credentials;
  dialer.settings_.database = 0;
  return dialer;
}

Async<std::unique_ptr<Conversation>> Dialer::dial(Address address,
                                                  Clock::time_point deadline) const {
  auto transport = co_await Transport::connect(address, tls_ ? &*tls_ : nullptr, deadline);
  if (!transport) co_return std::unexpected(on_the_way(transport.error()));
  auto conversation = std::make_unique<Conversation>(address, std::move(*transport));

  std::vector<std::string> hello{"HELLO", "3"};
  const auto& [username, password] = settings_.credentials;
  if (!password.empty())
    hello.insert(hello.end(), {"AUTH", username.empty() ? "default" : username, password});
  if (!settings_.client_name.empty()) hello.insert(hello.end(), {"SETNAME", settings_.client_name});
  std::vector<Command> prologue;
  prologue.emplace_back(std::span<const std::string>(hello));
  if (settings_.database != 0) prologue.emplace_back("SELECT", settings_.database);
  auto replies = co_await conversation->exchange(std::move(prologue), deadline);
  if (!replies) co_return std::unexpected(on_the_way(replies.error()));
  for (const auto& reply : *replies)
    if (reply.is_error()) co_return std::unexpected(explain(address, reply));
  co_return conversation;
}

}  // namespace warren::redis
