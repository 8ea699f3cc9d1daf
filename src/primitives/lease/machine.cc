#include "primitives/lease/machine.h"

#include <algorithm>
#include <charconv>

#include "primitives/lease/causes.h"
#include "primitives/lease/steps.h"
#include "redis/resp/command.h"

namespace warren {

namespace {

constexpr auto never = Clock::time_point::max();
constexpr auto patience_between_attempts = 50ms;
constexpr std::size_t most_in_one_look = 1000;

std::string milliseconds(Clock::duration time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
}

// Returns a key in the same slot as `key`, whether or not that has a hash tag.
std::string beside(const std::string& key, std::string_view suffix) {
  auto derived = key + std::string(suffix);
  if (redis::slot_of(derived) == redis::slot_of(key)) return derived;
  return "{" + key + "}" + std::string(suffix);
}

// The part of a key that decides its slot.
std::string tag_of(const std::string& key) {
  auto open = key.find('{');
  auto close = open == key.npos ? key.npos : key.find('}', open);
  if (close == key.npos || close == open + 1) return key;
  return key.substr(open + 1, close - open - 1);
}

bool has_spaces(std::string_view text) {
  return std::ranges::any_of(text, [](unsigned char c) { return c <= ' '; });
}

std::int64_t number(const redis::Reply& reply, std::size_t i) {
  return i < reply.items.size() ? reply.items[i].number : 0;
}

// A third of the ttl: two renewals in a row may be lost before the lease is.
Clock::duration renewal_interval(const LeaseTerms& terms) {
  Clock::duration third = terms.ttl ? Clock::duration(*terms.ttl) / 3 : fence_retention / 3;
  return terms.renew_every ? std::min<Clock::duration>(third, *terms.renew_every) : third;
}

// An initializer list would copy each word once more.
template <class... Words>
std::vector<std::string> words(Words&&... each) {
  std::vector<std::string> list;
  list.reserve(sizeof...(each));
  (list.emplace_back(std::forward<Words>(each)), ...);
  return list;
}

}  // namespace

std::string to_string(const FencingToken& token) {
  return fmt::format("{}-{}", token.epoch, token.counter);
}

std::string_view name(LeaseState state) {
  switch (state) {
    case LeaseState::asking:
      return "asking";
    case LeaseState::waiting:
      return "waiting";
    case LeaseState::held:
      return "held";
    case LeaseState::uncertain:
      return "uncertain";
    case LeaseState::ended:
      return "ended";
  }
  return "?";
}

LeaseMachine::LeaseMachine(SessionTerms terms, LeaseFlaws flaws)
    : terms_(std::move(terms)), flaws_(flaws) {
  ensure(!terms_.holder.empty() && !has_spaces(terms_.holder), "a holder has a name");
  ensure(terms_.ttl >= 100ms, "a session lives long enough to be renewed");
}

Clock::duration LeaseMachine::ttl(const Record& record) const {
  return record.terms.ttl.value_or(terms_.ttl);
}

Clock::time_point LeaseMachine::deadline(const Record& record) const {
  if (is_kept_by_session(record)) return session_.confirmed + trusted(terms_.ttl);
  return record.confirmed + trusted(ttl(record));
}

std::string LeaseMachine::own_name(const std::string& room, std::string_view kind) const {
  std::string name;
  name.reserve(room.size() + kind.size() + terms_.holder.size() + 32);
  return name.append(room).append("warren:").append(kind).append(terms_.holder);
}

std::string LeaseMachine::session_key(std::uint64_t generation) const {
  return own_name(terms_.room ? terms_.room->keys : "", "session:") + '/' +
         std::to_string(generation);
}

// What tells other waiters that this process is alive: its session, or in a cluster how long the
// entry counts unless it asks again.
std::string LeaseMachine::waiting_name(const Record& record) const {
  if (needs_session(record)) return session_key();
  return record.waits ? waits_until(record, terms_.ttl) : "-";
}

// In the slot of the lease, because older programs take it for the name of a session.
std::string LeaseMachine::waits_until(const Record& record, Clock::duration time) const {
  auto room = terms_.room ? terms_.room->keys : "{" + tag_of(record.terms.key) + "}:";
  return room + '@' + milliseconds(time);
}

std::string LeaseMachine::attempt(LeaseId id) const {
  return terms_.holder + '/' + std::to_string(id);
}

std::string LeaseMachine::fence_key(const std::string& key) { return beside(key, ":fence"); }

Result<LeaseId> LeaseMachine::begin(LeaseTerms terms, bool waits, Clock::time_point deadline,
                                    Clock::time_point now) {
  if (terms.key.empty() || has_spaces(terms.key))
    return fail(Errc::invalid, "\"{}\" is no name for a lease: it has none, or has spaces",
                terms.key);
  auto fence = terms_.room ? terms.key + ":fence" : fence_key(terms.key);
  bool needs_one_slot = terms_.is_cluster || !terms_.room;
  if (needs_one_slot && redis::slot_of(fence) != redis::slot_of(terms.key))
    return fail(Errc::invalid, "\"{}\" is no name for a lease: its braces are not in pairs",
                terms.key);
  if (terms.condition.script && waits)
    return fail(Errc::invalid, "lease {}: who waits in line cannot set a condition", terms.key);
  if (terms.ttl && *terms.ttl < 100ms)
    return fail(Errc::invalid,
                "lease {}: a ttl of {} ms is too short to be renewed; 100 ms are not", terms.key,
                terms.ttl->count());
  // A replicated lease uses a connection of its own. A request resent there after the connection
  // broke may arrive twice, the second time after the release. So the lease must expire by itself.
  if ((terms_.is_cluster || terms.replicated) && !terms.ttl) terms.ttl = terms_.ttl;
  auto id = ++last_lease_;
  auto& record = leases_[id];
  record.fence = std::move(fence);
  record.queue = terms_.room ? terms.key + ":queue" : beside(terms.key, ":queue");
  record.shown = record.offered = terms.value;
  record.queued_under = "-";
  if (waits) {
    auto room = terms_.room         ? terms_.room->channels
                : terms_.is_cluster ? "{" + tag_of(terms.key) + "}:"
                                    : std::string();
    record.channel = own_name(room, "grants:");
    channels_.insert(record.channel);
  }
  record.terms = std::move(terms);
  record.waits = waits;
  record.patience = deadline;
  record.next = now;
  if (needs_session(record)) update_session(now);
  update(id, record, now);
  return id;
}

void LeaseMachine::leave(LeaseId id, Clock::time_point now) {
  auto& record = at(id);
  ensure(!record.is_left, "a lease is left once");
  record.is_left = true;
  record.state = LeaseState::ended;
  record.why = {Errc::timeout, fmt::format("lease {}: no answer to its release", record.terms.key)};
  // A grant expires by itself, and a place in line ends with the session. We try until then.
  record.patience = needs_session(record) ? never : now + ttl(record);
  record.next = now;
  if (terms_.is_cluster) ++returning_[record.terms.key].leases;
  update(id, record, now);
}

void LeaseMachine::show(LeaseId id, std::string value) { at(id).terms.value = std::move(value); }

// Sends the request that suits the state of this lease.
void LeaseMachine::ask(LeaseId id, Record& record, Clock::time_point now) {
  bool is_renewal = is_held(record);
  if (is_renewal && record.offered == record.shown) record.offered = record.terms.value;
  Request request;
  request.keys = words(record.terms.key, record.fence, record.queue);
  request.args =
      words(record.is_left ? "release"
            : is_renewal   ? "renew"
                           : "acquire",
            attempt(id), record.offered, record.terms.ttl ? milliseconds(*record.terms.ttl) : "0",
            waiting_name(record), std::to_string(epoch_), milliseconds(fence_retention),
            record.waits ? record.channel : "-", record.shown, record.queued_under);
  if (auto& condition = record.terms.condition;
      condition.script && !is_renewal && !record.is_left) {
    request.script = condition.script;
    request.keys.insert(request.keys.end(), condition.keys.begin(), condition.keys.end());
    request.args.insert(request.args.end(), condition.args.begin(), condition.args.end());
  }
  if (record.is_left && flaws_.blind_release) {
    request.keys.clear();
    request.args = {"DEL", record.terms.key};
  }
  request.deadline = now + ttl(record);
  if (!is_renewal) request.deadline = std::min(request.deadline, record.patience);
  // Soon enough to tell the caller of release() what the server says.
  if (record.is_left) request.deadline = std::min(request.deadline, now + record.release_time);
  if (is_renewal) request.deadline = std::min(request.deadline, deadline(record));
  request.is_renewal = is_renewal;
  // A release uses the connection of an unanswered acquisition, so that it cannot overtake it.
  request.replicated =
      record.terms.replicated && !is_renewal && (!record.is_left || record.is_loose);
  // Leaves time to report that replicas are behind before patience runs out.
  if (request.replicated) request.deadline -= (request.deadline - now) / 4;
  record.is_known = true;
  record.asks_again = false;
  Flight flight{Flight::About::lease, id, session_.generation, now, is_renewal, record.is_left};
  record.request = last_request_ + 1;
  send(std::move(request), flight);
}

void LeaseMachine::ask_soon(LeaseId id, Record& record, Clock::time_point now) {
  record.asks_again = record.request != 0;
  record.next = now;
  update(id, record, now);
}

void LeaseMachine::renew_session(Clock::time_point now) {
  Request request;
  auto key = session_key();
  if (session_.exists)
    request.args = {"PEXPIRE", key, milliseconds(terms_.ttl)};
  else
    request.args = {"SET", key, terms_.holder, "PX", milliseconds(terms_.ttl)};
  request.deadline = now + terms_.ttl / 3;
  request.is_renewal = true;
  session_.request = last_request_ + 1;
  send(std::move(request),
       {Flight::About::session, 0, session_.generation, now, session_.exists, false});
}

// The session's renewal does not show that another program deleted or overwrote a key.
void LeaseMachine::look_at_kept(Clock::time_point now) {
  Request request;
  Flight flight{Flight::About::kept, 0, session_.generation, now};
  auto look = [&] {
    if (flight.kept.empty()) return;
    request.deadline = now + terms_.ttl / 3;
    send(std::exchange(request, {}), flight);
    flight.kept.clear();
  };
  for (auto& [id, record] : leases_) {
    if (!is_held(record) || !is_kept_by_session(record)) continue;
    if (flight.kept.empty()) request.args = {"MGET"};
    request.args.push_back(record.terms.key);
    flight.kept.push_back(id);
    if (flight.kept.size() == most_in_one_look) look();
  }
  look();
}

void LeaseMachine::on_seen(const Flight& flight, const Result<redis::Reply>& reply,
                           Clock::time_point now) {
  if (!reply || reply->items.size() != flight.kept.size()) return;  // the next look will tell
  for (std::size_t i = 0; i < flight.kept.size(); ++i) {
    auto found = leases_.find(flight.kept[i]);
    if (found == leases_.end() || !is_held(found->second)) continue;
    auto& [id, record] = *found;
    const auto& seen = reply->items[i];
    bool is_ours = !seen.is_null() && (seen.text == record.shown || seen.text == record.offered);
    if (!is_ours) ask_soon(id, record, now);
  }
}

void LeaseMachine::send(Request request, Flight flight) {
  request.id = ++last_request_;
  flights_[request.id] = std::move(flight);
  requests_.push_back(std::move(request));
}

std::optional<LeaseMachine::Request> LeaseMachine::next_request() {
  if (requests_.empty()) return std::nullopt;
  auto request = std::move(requests_.front());
  requests_.pop_front();
  return request;
}

void LeaseMachine::on_reply(std::uint64_t request, Result<redis::Reply> reply,
                            bool has_all_replicas, Clock::time_point now) {
  auto found = flights_.find(request);
  ensure(found != flights_.end(), "an answer belongs to a request");
  auto flight = std::move(found->second);
  flights_.erase(found);
  if (flight.about == Flight::About::nothing) return;
  if (flight.about == Flight::About::session) return on_session_reply(flight, reply, now);
  if (flight.about == Flight::About::kept) return on_seen(flight, reply, now);
  auto& record = at(flight.lease);
  record.request = 0;
  on_lease_reply(flight.lease, record, flight, reply, has_all_replicas, now);
  if (reply) settle_fenced(flight.lease);
  if (!session_.replaced.empty()) delete_replaced(now);
}

void LeaseMachine::on_session_reply(const Flight& flight, const Result<redis::Reply>& reply,
                                    Clock::time_point now) {
  auto& session = session_;
  if (flight.generation != session.generation) return;
  session.request = 0;
  auto sent = flaws_.deadline_from_reply ? now : flight.sent;
  if (!reply) {
    session.next = now + std::max<Clock::duration>(terms_.ttl / 20, 10ms);
    if (!session.exists && !may_retry(reply.error())) {
      for_each([&](LeaseId id, Record& record) {
        if (record.state == LeaseState::asking && needs_session(record))
          end(id, record, reply.error());
      });
    }
  } else if (flight.is_renewal && reply->number == 0) {
    return lose_session(now);
  } else if (sent + trusted(terms_.ttl) <= now) {
    session.next = now;  // too late to prove anything
  } else {
    ++counters_.renewed;
    if (flight.is_renewal) look_at_kept(now);
    bool is_new = !std::exchange(session.exists, true);
    bool was_late = std::exchange(session.is_late, false);
    session.confirmed = sent;
    // A third of the ttl: two renewals in a row may be lost before the session is.
    session.next = std::max(now, session.confirmed + terms_.ttl / 3);
    delete_replaced(now);
    if (is_new || was_late) {
      for_each([&](LeaseId id, Record& record) {
        if (record.state == LeaseState::asking) record.next = now;
        update(id, record, now);
      });
    }
  }
  update_session(now);
}

void LeaseMachine::on_lease_reply(LeaseId id, Record& record, const Flight& flight,
                                  const Result<redis::Reply>& reply, bool has_all_replicas,
                                  Clock::time_point now) {
  if (!reply) return on_failed(id, record, flight, reply.error(), now);
  if (record.state == LeaseState::ended && !record.is_left) return;
  bool was_held = is_held(record);
  bool is_granted = number(*reply, 0) == 1;
  if (is_granted && !record.is_left) record.shown = record.offered;

  // The answer is outdated if we asked before we left, before we were granted the lease by message,
  // or for a session that has been replaced.
  bool is_of_another_session = flight.generation != session_.generation &&
                               (is_granted ? !record.terms.ttl : record.waits && !was_held);
  bool is_outdated = record.is_left
                         ? !flight.is_release
                         : is_of_another_session || (was_held && !is_granted && !flight.is_renewal);
  if (is_outdated) {
    if (!is_granted && !flight.is_release && needs_session(record))
      record.queued_under = session_key(flight.generation);
    record.next = now;
    return update(id, record, now);
  }
  if (record.is_left) {
    // A request that was unanswered when we left may arrive after this release: release once more.
    if (!std::exchange(record.is_loose, false)) return erase(id, now);
    record.next = now + patience_between_attempts;
    return update(id, record, now);
  }
  if (!is_granted) return on_refused(id, record, flight, *reply, now);
  if (!was_held && record.terms.replicated && !has_all_replicas)
    return end(id, record,
               {Errc::unavailable, lease::causes::not_replicated, record.terms.key,
                fmt::format("lease {}: granted, but not all replicas have it", record.terms.key)});
  FencingToken token{std::uint64_t(number(*reply, 1)), std::uint64_t(number(*reply, 2))};
  record.generation = flight.generation;
  on_granted(id, record, token, flaws_.deadline_from_reply ? now : flight.sent, now);
}

void LeaseMachine::on_failed(LeaseId id, Record& record, const Flight& flight, const Error& error,
                             Clock::time_point now) {
  auto code = error.code;
  bool is_late = code == Errc::timeout || code == Errc::unknown_outcome;
  if (is_late) record.is_loose = true;
  // Over a slow link no answer would ever arrive within the time of the first attempt.
  if (is_late && flight.is_release)
    record.release_time = std::min<Clock::duration>(2 * record.release_time, ttl(record));
  // A script whose keys moved away while it ran fails with an error of its own, and may be run
  // again.
  bool will_pass = may_retry(error) || LeaseSteps::are_needed(error);
  if (!will_pass && flight.is_release) return abandon(id, record, error, now);
  if (flight.is_release) record.why = error;
  if (!will_pass && !is_held(record) && record.state != LeaseState::ended)
    return end(id, record, error);
  if (is_held(record)) record.is_doubted = true;
  record.next = now + patience_between_attempts;
  update(id, record, now);
}

void LeaseMachine::on_refused(LeaseId id, Record& record, const Flight& flight,
                              const redis::Reply& reply, Clock::time_point now) {
  if (is_held(record)) {
    // A process that was granted the lease by message may be in line again, through a question that
    // arrived after the grant was lost. An unanswered question may also still arrive. Its release
    // removes both.
    record.is_known = record.waits || record.is_loose;
    return end(id, record,
               {Errc::lease_lost, fmt::format("lease {}: token {} is over", record.terms.key,
                                              to_string(record.token))});
  }
  if (!record.waits) {
    ++counters_.refused;
    record.is_known = record.is_loose;
    return end(id, record,
               {Errc::held_elsewhere,
                fmt::format("lease {} is held by {}", record.terms.key,
                            reply.items.size() > 4 ? reply.items[4].text : "somebody")});
  }
  if (number(reply, 2) < 0)
    return end(id, record,
               {Errc::overloaded,
                fmt::format("lease {}: too many wait in line already", record.terms.key)});
  record.asked = flight.sent;
  record.server_us = number(reply, 3);
  record.queued_under = waiting_name(record);
  if (terms_.is_cluster)
    record.queued_under =
        waits_until(record, std::chrono::milliseconds(record.server_us / 1000) + terms_.ttl);
  // No message announces the crash of a holder, and Redis publishes expiry seconds late. The first
  // in line asks right after the lease ends; the others follow in turn, in case the first is dead
  // too.
  Clock::duration rest = number(reply, 1) < 0 ? 1s : std::chrono::milliseconds(number(reply, 1));
  if (terms_.is_cluster) rest = std::min<Clock::duration>(rest, 2 * terms_.ttl / 3);
  auto turn = std::min<std::int64_t>(number(reply, 2), 50) * 5ms;
  // Counted from when the question was sent, since the next one takes as long to get there. An
  // answer that waited for replicas arrives much later.
  record.next = record.asks_again ? now : std::max(now, flight.sent + rest + 2ms + turn);
  set(id, record, LeaseState::waiting);
  update(id, record, now);
}

// The server granted it at `since` or later.
void LeaseMachine::on_granted(LeaseId id, Record& record, FencingToken token,
                              Clock::time_point since, Clock::time_point now) {
  bool was_held = is_held(record);
  if (token < record.token)
    return end(id, record,
               {Errc::lease_lost, fmt::format("lease {}: the server forgot token {}",
                                              record.terms.key, to_string(record.token))});
  record.confirmed = std::max(record.confirmed, since);
  if (token.epoch < epoch_ || deadline(record) <= now) {
    // Granted by a primary that has been replaced since, or too late to be of use: ask again.
    record.next = now;
    return update(id, record, now);
  }
  bool is_news = token != std::exchange(record.token, token);
  record.is_doubted = false;
  record.next = std::max(now, since + renewal_interval(record.terms));
  if (!was_held) {
    ++counters_.granted;
    set(id, record, LeaseState::held);
  } else {
    ++counters_.renewed;
    if (is_news) changes_.push_back(id);
  }
  update(id, record, now);
}

void LeaseMachine::on_grant(const std::string& message, Clock::time_point now) {
  // The words are attempt, epoch, counter, and the server's clock followed by @ and the session
  // that keeps the lease.
  std::vector<std::string> words;
  for (std::size_t at = 0; at <= message.size();) {
    auto end = std::min(message.find(' ', at), message.size());
    words.push_back(message.substr(at, end - at));
    at = end + 1;
  }
  auto slash = words[0].rfind('/');
  if (words.size() != 4 || slash == message.npos || words[0].substr(0, slash) != terms_.holder)
    return;
  auto number_of = [](std::string_view text) {
    std::uint64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  };
  auto found = leases_.find(number_of(std::string_view(words[0]).substr(slash + 1)));
  if (found == leases_.end()) return;
  auto& [id, record] = *found;
  FencingToken token{number_of(words[1]), number_of(words[2])};
  auto granted_us = std::int64_t(number_of(words[3]));
  if (is_held(record)) return;
  // A message may be late: the server may have told us since that another process holds the lease.
  auto sign = words[3].find('@');
  auto keeper = sign == std::string::npos ? "" : words[3].substr(sign + 1);
  bool is_of_this_session = keeper == (record.terms.ttl ? "-" : session_key());
  // A message also says nothing about replicas.
  if (record.state != LeaseState::waiting || record.server_us == 0 || record.terms.replicated ||
      granted_us < record.server_us || token < record.token || !is_of_this_session)
    return ask_soon(id, record, now);  // ask the server
  // We cannot tell how long the message was on its way. But the server's clock tells how much later
  // than our question the grant was.
  auto later = std::chrono::microseconds(granted_us - record.server_us);
  auto since = std::min<Clock::time_point>(now, record.asked + later - later / 100);
  record.generation = session_.generation;
  on_granted(id, record, token, flaws_.deadline_from_reply ? now : since, now);
  // An immediate renewal makes up for what this estimate gave away.
  if (record.state == LeaseState::held && record.terms.ttl) {
    record.next = now;
    update(id, record, now);
  }
}

void LeaseMachine::on_gap(Clock::time_point now) {
  if (flaws_.ignores_gap) return;
  for (auto next = leases_.begin(); next != leases_.end();) {
    auto& [id, record] = *next++;
    bool is_open = record.state == LeaseState::asking || record.state == LeaseState::waiting;
    if (is_open && record.waits) ask_soon(id, record, now);
  }
}

void LeaseMachine::on_connected(std::uint64_t epoch, Clock::time_point now) {
  epoch_ = std::max(epoch_, epoch);
  if (session_.exists)
    replace_session(now);
  else if (session_.next != Clock::time_point{})
    session_.next = now;
  if (session_.next != Clock::time_point{}) update_session(now);
  for (auto next = leases_.begin(); next != leases_.end();) {
    auto& [id, record] = *next++;
    record.server_us = 0;  // possibly of another server
    if (is_held(record)) record.is_doubted = true;
    if (record.state == LeaseState::ended)
      update(id, record, now);
    else
      ask_soon(id, record, now);
  }
}

void LeaseMachine::on_fenced(LeaseId id, FencingToken shown) {
  auto& record = at(id);
  if (record.state == LeaseState::ended || record.token > shown) return;
  if (record.request) {
    record.fenced = shown;
    return;
  }
  end(id, record,
      {Errc::lease_lost, fmt::format("lease {}: a newer token than {} was seen", record.terms.key,
                                     to_string(shown))});
}

void LeaseMachine::settle_fenced(LeaseId id) {
  auto found = leases_.find(id);
  if (found == leases_.end()) return;
  if (auto shown = std::exchange(found->second.fenced, {})) {
    on_fenced(id, *shown);
    changes_.push_back(id);
  }
}

void LeaseMachine::on_time(Clock::time_point now) {
  if (session_.next != Clock::time_point{}) update_session(now);
  while (!timers_.empty() && timers_.begin()->first <= now) {
    auto id = timers_.begin()->second;
    auto& record = at(id);
    set_timer(id, record, never);
    update(id, record, now);
  }
}

Clock::time_point LeaseMachine::wake_at() const {
  auto wake = timers_.empty() ? never : timers_.begin()->first;
  if (session_.exists) {
    wake = std::min(wake, session_.confirmed + trusted(terms_.ttl));
    if (!session_.is_late) wake = std::min(wake, session_.confirmed + 2 * terms_.ttl / 3);
  }
  if (!session_.request && session_.next != Clock::time_point{})
    wake = std::min(wake, session_.next);
  return wake;
}

std::optional<std::string> LeaseMachine::live_session() const {
  return session_.exists ? std::optional(session_key()) : std::nullopt;
}

std::vector<LeaseId> LeaseMachine::take_changes() { return std::exchange(changes_, {}); }

std::vector<std::pair<LeaseId, Error>> LeaseMachine::take_refusals() {
  return std::exchange(refusals_, {});
}

// Does everything that is due, and sets the timer for what comes next.
void LeaseMachine::update(LeaseId id, Record& record, Clock::time_point now) {
  bool is_open = record.state == LeaseState::asking || record.state == LeaseState::waiting;
  if (is_open && now >= record.patience)
    return end(id, record,
               {Errc::timeout, fmt::format("lease {}: not ours yet", record.terms.key)});
  if (is_held(record) && now >= deadline(record))
    return end(id, record,
               {Errc::lease_lost,
                fmt::format("lease {}: could not be renewed in time", record.terms.key)});
  if (record.state == LeaseState::ended && !record.is_left) return set_timer(id, record, never);
  if (record.is_left && !record.request && (!record.is_known || now >= record.patience))
    return erase(id, now);

  // A lease moves to a session only when the server has that session.
  bool lacks_session = needs_session(record) && !session_.exists && !record.is_left;
  bool can_ask = !record.request && !(lacks_session && (is_open || !record.terms.ttl)) &&
                 !(is_open && is_held_up(id, record));
  if (can_ask && now >= record.next) {
    ask(id, record, now);
    can_ask = false;
  }
  auto timer = can_ask ? record.next : never;
  if (is_open || (record.is_left && !record.request)) timer = std::min(timer, record.patience);
  if (is_held(record)) {
    set_held(id, record, now);
    if (!is_kept_by_session(record)) timer = std::min(timer, deadline(record));
    if (record.terms.ttl && record.state == LeaseState::held)
      timer = std::min(timer, overdue(record));
  }
  set_timer(id, record, timer);
}

void LeaseMachine::update_session(Clock::time_point now) {
  auto& session = session_;
  if (session.exists && now >= session.confirmed + trusted(terms_.ttl)) return lose_session(now);
  if (session.exists && !session.is_late && now >= session.confirmed + 2 * terms_.ttl / 3) {
    session.is_late = true;
    for_each([&](LeaseId id, Record& record) { update(id, record, now); });
  }
  if (session.next == Clock::time_point{}) session.next = now;
  if (!session.request && now >= session.next) renew_session(now);
}

void LeaseMachine::replace_session(Clock::time_point now) {
  for_each([&](LeaseId, Record& record) {
    if (is_kept_by_session(record)) record.confirmed = session_.confirmed;
  });
  session_.replaced = session_key();
  ++session_.generation;
  session_.exists = session_.is_late = false;
  session_.request = 0;
  session_.next = now;
}

// The server permanently refuses to release a lease. The lease is no longer renewed. If the session
// keeps the lease, or its place in line, the session takes a new name: the lease ends with the old
// one.
void LeaseMachine::abandon(LeaseId id, Record& record, const Error& why, Clock::time_point now) {
  bool is_kept = needs_session(record) && session_.exists;
  refusals_.emplace_back(id, why);
  erase(id, now);
  if (!is_kept) return;
  replace_session(now);
  for_each([&](LeaseId other, Record& each) {
    if (each.state != LeaseState::ended) ask_soon(other, each, now);
  });
  update_session(now);
}

// Everything granted to the old session that we do not know of ends with it, such as a lease whose
// release was lost with a primary. If this deletion fails, the old session expires by itself.
void LeaseMachine::delete_replaced(Clock::time_point now) {
  if (session_.replaced.empty() || !session_.exists) return;
  bool is_needed = false;
  for_each([&](LeaseId, Record& record) {
    bool has_moved = record.generation == session_.generation;
    if (is_held(record) && !record.terms.ttl && !has_moved) is_needed = true;
    bool is_open = record.state == LeaseState::asking || record.state == LeaseState::waiting;
    bool has_old_place = record.queued_under == session_.replaced;
    if (is_open && record.waits && (record.state == LeaseState::asking || has_old_place))
      is_needed = true;
  });
  if (is_needed) return;
  Request request;
  request.args = {"DEL", std::exchange(session_.replaced, {})};
  request.deadline = now + terms_.ttl;
  send(std::move(request), {});
}

void LeaseMachine::lose_session(Clock::time_point now) {
  auto lost = session_.generation;
  replace_session(now);
  for_each([&](LeaseId id, Record& record) {
    record.server_us = 0;
    if (is_held(record) && !record.terms.ttl && record.generation == lost) {
      end(id, record,
          {Errc::lease_lost,
           fmt::format("lease {}: the session could not be renewed in time", record.terms.key)});
    } else if (record.state == LeaseState::waiting) {
      record.next = now;
      set(id, record, LeaseState::asking);
    }
    // Leases kept by the lost session are free.
    if (record.state == LeaseState::ended && needs_session(record)) record.is_known = false;
    update(id, record, now);
  });
  renew_session(now);
}

void LeaseMachine::end(LeaseId id, Record& record, Error why) {
  if (is_held(record)) ++counters_.lost;
  record.why = std::move(why);
  set(id, record, LeaseState::ended);
  set_timer(id, record, never);
}

void LeaseMachine::set(LeaseId id, Record& record, LeaseState state) {
  if (std::exchange(record.state, state) != state) changes_.push_back(id);
}

void LeaseMachine::set_held(LeaseId id, Record& record, Clock::time_point now) {
  bool is_late = record.terms.ttl ? now >= overdue(record) : session_.is_late;
  set(id, record, is_late || record.is_doubted ? LeaseState::uncertain : LeaseState::held);
}

void LeaseMachine::set_timer(LeaseId id, Record& record, Clock::time_point time) {
  if (record.timer != Clock::time_point{}) timers_.erase({record.timer, id});
  record.timer = time == never ? Clock::time_point{} : time;
  if (time != never) timers_.emplace(time, id);
}

// While a slot moves, a process deletes the lease's key if it finds its own value there (show.lua).
// A lease that we are releasing shows the same value as the next one we ask for under that key: if
// the key expires in between, a late release would delete the key of the next lease. So the next
// one waits for the release.
bool LeaseMachine::is_held_up(LeaseId id, const Record& record) {
  if (returning_.empty()) return false;
  auto found = returning_.find(record.terms.key);
  if (found == returning_.end()) return false;
  found->second.held_up.insert(id);
  return true;
}

void LeaseMachine::erase(LeaseId id, Clock::time_point now) {
  set_timer(id, at(id), never);
  auto key = std::move(at(id).terms.key);
  leases_.erase(id);
  changes_.push_back(id);
  auto found = returning_.find(key);
  if (found == returning_.end() || --found->second.leases > 0) return;
  auto held_up = std::move(found->second.held_up);
  returning_.erase(found);
  for (auto next : held_up)
    if (auto other = leases_.find(next); other != leases_.end() && !other->second.is_left)
      update(next, other->second, now);
}

// The action may erase the lease that is passed to it.
template <class Action>
void LeaseMachine::for_each(Action action) {
  for (auto next = leases_.begin(); next != leases_.end();) {
    auto& [id, record] = *next++;
    action(id, record);
  }
}

}  // namespace warren
