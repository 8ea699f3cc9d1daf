#include "redis/connection/pipeline.h"

#include <algorithm>
#include <cstring>

namespace warren::redis {

namespace {

constexpr std::size_t read_buffer_bytes = 64u << 10;
// How much is turned into bytes ahead of the socket. What is beyond it can still be taken back.
constexpr std::size_t portion_bytes = 64u << 10;
// A buffer that one large value made larger is given back.
constexpr std::size_t most_kept_bytes = 1u << 20;
// An answer of which this much has arrived is under way, however slow the link is.
constexpr std::size_t progress_bytes = 64u << 10;
// An answer to a caller that has left ends the connection if it is larger than this and takes longer.
constexpr std::size_t most_stray_bytes = 1u << 20;
constexpr auto most_stray_time = 1s;
constexpr std::string_view asking = "*1\r\n$6\r\nASKING\r\n";

}  // namespace

PipelineCounters& PipelineCounters::operator+=(const PipelineCounters& other) {
  answered += other.answered;
  refused += other.refused;
  timed_out += other.timed_out;
  unknown += other.unknown;
  overloaded += other.overloaded;
  writes += other.writes;
  bytes_out += other.bytes_out;
  reads += other.reads;
  bytes_in += other.bytes_in;
  for (std::size_t i = 0; i < round_trips.size(); ++i) round_trips[i] += other.round_trips[i];
  round_trip_seconds += other.round_trip_seconds;
  return *this;
}

Pipeline::Pipeline(PipelineOwner& owner, PipelineLimits limits)
    : owner_(owner), limits_(limits), ring_(256), in_(read_buffer_bytes), parser_(limits.parser) {}

Pipeline::~Pipeline() {
  ensure(waiting_.empty() && first_ == last_, "a pipeline is emptied before it goes");
}

Result<> Pipeline::submit(Call& call) {
  std::size_t size = call.command_.bytes().size();
  if (waiting_.size() + in_flight() >= limits_.calls ||
      waiting_.bytes() + in_flight_bytes_ + size > limits_.bytes) {
    ++counters_.overloaded;
    return fail(Errc::overloaded, "{} calls of {} bytes wait for an answer already",
                waiting_.size() + in_flight(), waiting_.bytes() + in_flight_bytes_);
  }
  waiting_.push_back(call);
  wake_at_ = std::min(wake_at_, call.deadline_);
  return ok;
}

std::string_view Pipeline::to_write(Clock::time_point now) {
  if (out_sent_ == out_.size()) {
    if (out_.capacity() > most_kept_bytes) out_ = std::string();
    out_.clear();
    out_sent_ = 0;
    for (Call* call = waiting_.front(); call && out_.size() < portion_bytes;) {
      Call* next = CallList::next(*call);
      if (call->deadline_ > now) {  // else on_time is about to end it
        waiting_.remove(*call);
        send(*call, now);
      }
      call = next;
    }
  }
  return std::string_view(out_).substr(out_sent_);
}

void Pipeline::send(Call& call, Clock::time_point now) {
  if (in_flight() == ring_.size()) {
    std::vector<Slot> larger(ring_.size() * 2);
    for (auto ticket = first_; ticket != last_; ++ticket)
      larger[ticket & (larger.size() - 1)] = slot(ticket);
    ring_.swap(larger);
  }
  if (in_flight() == 0) busy_since_ = now;
  auto before = out_.size();
  std::uint32_t answers = call.command_.answers();
  if (call.detours_ && call.detours_->asking) {
    out_ += asking;
    ++answers;
  }
  out_ += call.command_.bytes();
  auto bytes = static_cast<std::uint32_t>(out_.size() - before);
  call.pipeline_ = this;
  call.ticket_ = last_;
  call.sent_at_ = now;
  slot(last_++) = Slot{&call, answers, bytes};
  in_flight_bytes_ += bytes;
}

void Pipeline::wrote(std::size_t bytes) {
  out_sent_ += bytes;
  ++counters_.writes;
  counters_.bytes_out += bytes;
}

std::span<char> Pipeline::read_space() {
  if (in_begin_ > 0) {
    std::memmove(in_.data(), in_.data() + in_begin_, in_end_ - in_begin_);
    in_end_ -= in_begin_;
    in_begin_ = 0;
  }
  // For a large value the buffer doubles as it arrives: what a peer claims is to come costs
  // nothing.
  std::size_t room = read_buffer_bytes + std::min(parser_.needed(), 2 * in_end_);
  if (in_.size() > 2 * room + most_kept_bytes) {
    std::vector<char> smaller(room);
    std::memcpy(smaller.data(), in_.data(), in_end_);
    in_.swap(smaller);
  }
  if (in_.size() < room) in_.resize(room);
  return std::span(in_).subspan(in_end_, std::min(in_.size() - in_end_, turn_bytes));
}

Result<> Pipeline::received(std::size_t bytes, Clock::time_point now) {
  in_end_ += bytes;
  ++counters_.reads;
  counters_.bytes_in += bytes;
  last_received_ = now;
  sample_wanted_ = true;
  unfinished_ += bytes;
  auto front = first_;
  bool is_stray = first_ != last_ && !slot(first_).call;
  while (in_begin_ < in_end_) {
    Reply reply;
    auto progress =
        parser_.parse(std::string_view(in_.data() + in_begin_, in_end_ - in_begin_), reply);
    in_begin_ += progress.consumed;
    if (progress.status == Parser::Status::incomplete) break;
    if (progress.status == Parser::Status::broken)
      return fail(Errc::protocol, "{}", parser_.problem());
    unfinished_ = in_end_ - in_begin_;
    auto dispatched = dispatch(std::move(reply));
    if (!dispatched) return dispatched;
  }
  return watch_unfinished(front, is_stray, bytes);
}

// The calls behind an endless answer must not wait for ever. If no caller waits for that answer any more,
// the connection is given up, and those calls get a new one.
Result<> Pipeline::watch_unfinished(std::uint64_t front, bool is_stray, std::size_t bytes) {
  if (parser_.is_within_push()) unfinished_ = 0;
  if (unfinished_ >= progress_bytes) {
    unfinished_ = 0;
    last_progress_ = last_received_;
  }
  if (first_ != front || !is_stray) {
    stray_ = 0;
    return ok;
  }
  if (stray_ == 0) stray_since_ = last_received_;
  stray_ += bytes;
  if (stray_ > most_stray_bytes && last_received_ - stray_since_ > most_stray_time)
    return fail(Errc::unavailable, "an answer that nobody waits for any more does not end");
  return ok;
}

Result<> Pipeline::dispatch(Reply reply) {
  if (reply.kind == Reply::Kind::push) {
    owner_.on_push(std::move(reply));
    return ok;
  }
  if (first_ == last_)
    return fail(Errc::protocol, "an answer to no question: {}", to_string(reply));
  last_progress_ = last_received_;
  Slot& front = slot(first_);
  Call* call = front.call;
  if (front.left > 1) {
    --front.left;
    if (call && reply.is_error() && !call->early_error_)
      call->early_error_ = std::make_unique<Reply>(std::move(reply));
    return ok;
  }
  in_flight_bytes_ -= front.bytes;
  ++first_;
  if (!call) return ok;
  call->pipeline_ = nullptr;
  if (std::exchange(sample_wanted_, false)) sample(last_received_ - call->sent_at_);
  if (!reply.is_error()) {
    ++counters_.answered;
    call->complete(std::move(reply));
    return ok;
  }
  ++counters_.refused;
  // "EXECABORT because of previous errors" is of no use to anyone: the previous error is.
  if (auto early = std::move(call->early_error_)) reply = std::move(*early);
  owner_.on_refused(*call, std::move(reply));
  return ok;
}

void Pipeline::sample(Clock::duration round_trip) {
  const auto& bounds = PipelineCounters::round_trip_bounds;
  double seconds = std::chrono::duration<double>(round_trip).count();
  auto bucket = std::ranges::lower_bound(bounds, seconds) - bounds.begin();
  ++counters_.round_trips[static_cast<std::size_t>(bucket)];
  counters_.round_trip_seconds += seconds;
}

void Pipeline::forget(Call& call) {
  slot(call.ticket_).call = nullptr;
  call.pipeline_ = nullptr;
}

void Pipeline::on_time(Clock::time_point now) {
  wake_at_ = Clock::time_point::max();
  // A completed caller may do anything to the other calls, so the late ones are set apart first.
  CallList never_sent, unanswered;
  for (Call* call = waiting_.front(); call;) {
    Call* next = CallList::next(*call);
    if (call->deadline_ <= now) {
      waiting_.remove(*call);
      never_sent.push_back(*call);
    } else {
      wake_at_ = std::min(wake_at_, call->deadline_);
    }
    call = next;
  }
  for (auto ticket = first_; ticket != last_; ++ticket) {
    Call* call = slot(ticket).call;
    if (!call) continue;
    if (call->deadline_ <= now) {
      forget(*call);
      unanswered.push_back(*call);
    } else {
      wake_at_ = std::min(wake_at_, call->deadline_);
    }
  }
  while (Call* call = never_sent.pop_front()) {
    ++counters_.timed_out;
    auto words = describe(call->command_) + " was not sent in time";
    call->fail(within(words, owner_.why_waiting()));
  }
  while (Call* call = unanswered.pop_front()) {
    ++counters_.timed_out;
    call->fail(
        {Errc::unknown_outcome, describe(call->command_) + " was sent and not answered in time"});
  }
}

// The last calls may still be in our own buffer, of which the server has seen nothing.
void Pipeline::take_back_unsent(CallList& unsent) {
  std::size_t rest = out_.size() - out_sent_;
  std::uint64_t sent = last_;
  while (sent != first_ && slot(sent - 1).bytes <= rest) rest -= slot(--sent).bytes;
  for (auto ticket = sent; ticket != last_; ++ticket) {
    Call* call = slot(ticket).call;
    if (!call) continue;
    call->pipeline_ = nullptr;
    unsent.push_back(*call);
  }
  last_ = sent;
}

void Pipeline::on_disconnect(const Error& why) {
  CallList again, unsent, unknown;
  take_back_unsent(unsent);
  waiting_.put_before(unsent);
  out_.clear();
  out_sent_ = 0;
  in_begin_ = in_end_ = 0;
  unfinished_ = stray_ = 0;
  parser_ = Parser(limits_.parser);
  for (; first_ != last_; ++first_) {
    Call* call = slot(first_).call;
    if (!call) continue;
    call->pipeline_ = nullptr;
    call->early_error_.reset();
    call->may_have_run_ = true;
    (call->options_.is_idempotent() ? again : unknown).push_back(*call);
  }
  in_flight_bytes_ = 0;
  waiting_.put_before(again);
  while (Call* call = unknown.pop_front()) {
    ++counters_.unknown;
    call->fail({Errc::unknown_outcome, fmt::format("{} was sent, then the connection was lost: {}",
                                                   describe(call->command_), why.what)});
  }
}

void Pipeline::fail_waiting(const Error& why, Whom whom) {
  CallList leaving;
  for (Call* call = waiting_.front(); call;) {
    Call* next = CallList::next(*call);
    if (whom == Whom::all || call->options_.fails_fast()) {
      waiting_.remove(*call);
      leaving.push_back(*call);
    }
    call = next;
  }
  while (Call* call = leaving.pop_front()) call->fail(why);
}

}  // namespace warren::redis
