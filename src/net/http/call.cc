#include <limits>

#include "net/http/message.h"
#include "net/http/origin.h"

namespace warren {

namespace {

constexpr int most_early_answers = 8;  // 100, 103

}  // namespace

HttpCall::HttpCall(std::shared_ptr<HttpPool::Core> core, HttpUrl to, HttpPeer peer, Request request,
                   Clock::time_point deadline)
    : core_(std::move(core)),
      to_(std::move(to)),
      peer_(std::move(peer)),
      request_(std::move(request)),
      deadline_(deadline) {}

HttpCall::~HttpCall() {
  if (!link_) return;
  bool is_over = keeps_alive_ && in_ && in_->skip_arrived() && out_ && out_->is_whole();
  if (is_over) {
    core_->give_back(to_, peer_, std::move(link_));
  } else {
    link_.reset();
    core_->gone(to_, peer_);
  }
}

BodyWriter& HttpCall::out() {
  ensure(out_, "a call that was begun");
  return *out_;
}

BodyReader& HttpCall::in() {
  ensure(in_, "an answer comes before its body");
  return *in_;
}

Async<> HttpCall::send(bool on_new_connection) {
  auto link = co_await core_->take(to_, peer_, on_new_connection, deadline_);
  if (!link) co_return std::unexpected(link.error());
  link_ = *std::move(link);
  link_->begin(deadline_);
  auto end = request_.streamed.value_or(body_of(request_.body.size()));
  out_.emplace(*link_, end, request_.head);
  if (request_.streamed) co_return co_await out_->flush();
  auto sent = co_await out_->write(request_.body);
  if (sent) sent = co_await out_->end();
  // The server may have closed while the request was on its way, or may have answered why it does
  // not accept the body. answer() handles both.
  if (!sent && sent.error().code == Errc::unknown_outcome) co_return ok;
  co_return sent;
}

Async<HttpReply> HttpCall::answer() {
  ensure(!in_, "there is one answer");
  auto reply = co_await read_head();
  bool is_reading = request_.method == "GET" || request_.method == "HEAD";
  bool is_stale = !reply && reply.error().code == Errc::unknown_outcome && link_->is_reused() &&
                  link_->arrived().empty();
  // Unless the request only reads, it may already have been executed.
  if (!is_stale || !is_reading || request_.streamed) co_return reply;
  out_.reset();
  link_.reset();
  core_->gone(to_, peer_);
  auto sent = co_await send(true);
  if (!sent) co_return std::unexpected(sent.error());
  co_return co_await read_head();
}

Async<HttpReply> HttpCall::read_head() {
  for (int early = 0; early < most_early_answers;) {
    HttpReplyHead head;
    auto state = parse_reply_head(link_->arrived(), head);
    if (state == HeadState::wrong)
      co_return fail(Errc::protocol, "{} does not speak HTTP: {}", authority_of(to_), head.what);
    if (state == HeadState::partial) {
      auto more = co_await link_->more();
      if (more && *more) continue;
      if (!more && more.error().code != Errc::unknown_outcome)
        co_return std::unexpected(within(authority_of(to_), more.error()));
      co_return fail(Errc::unknown_outcome, "{} closed the connection without an answer",
                     authority_of(to_));
    }
    HttpReply reply{.status = head.status, .headers = std::string(head.headers), .body = {}};
    bool is_upgraded = head.status == 101;
    auto end = is_upgraded ? until_close : body_end(head, request_.method);
    keeps_alive_ = head.keeps_alive && end != until_close;
    link_->consume(head.size);
    if (head.status < 200 && !is_upgraded) {
      ++early;
      continue;
    }
    if (is_upgraded) {
      bool was_asked_for = !header_in(request_.head, "upgrade").empty();
      if (!was_asked_for)
        co_return fail(Errc::protocol, "{} upgrades without being asked", authority_of(to_));
      link_->lift_deadline();
      out_.emplace(*link_, until_close, "");
    }
    if (!is_upgraded) link_->expect_body();
    auto most = is_upgraded ? std::numeric_limits<std::uint64_t>::max() : core_->terms().most_body;
    in_.emplace(*link_, end, most);
    co_return reply;
  }
  co_return fail(Errc::protocol, "{} does not come to its answer", authority_of(to_));
}

}  // namespace warren
