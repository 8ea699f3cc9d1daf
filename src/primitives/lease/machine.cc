#include "primitives/lease/machine.h"

#include <algorithm>
#include <charconv>

#include "redis/resp/command.h"

namespace warren {

namespace {

constexpr auto never = Clock::time_point::max();
// The fence outlives the lease by this much. Should it be gone by then, the server's clock keeps
// the next token above the last one.
constexpr auto retention = std::chrono::hours(24);
constexpr auto retention_ms = "86400000";
constexpr auto patience_between_attempts = 50ms;

std::string milliseconds(Clock::duration time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
}

// In the same slot as the key, whether that has a hash tag or not.
std::string beside(const std::string& key, std::string_view suffix) {
  auto derived = key + std::string(suffix);
  if (redis::slot_of(derived) == redis::slot_of(key)) return derived;
  return "{" + key + "}" + std::string(suffix);
}

// What decides the slot of a key.
std::string tag_of(const std::string& key) {
  auto open = key.find('{');
  auto close = open == key.npos ? key.npos : key.find('}', open);
  if (close == key.npos || close == open + 1) return key;
  return key.substr(open + 1, close - open - 1);
}

bool is_transient(Errc code) {
  switch (code) {
    case Errc::unavailable:
    case Errc::overloaded:
    case Errc::timeout:
    case Errc::unknown_outcome:
      return true;
    default:
      return false;
  }
}

bool has_spaces(std::string_view text) {
  return std::ranges::any_of(text, [](unsigned char c) { return c <= ' '; });
}

std::int64_t number(const redis::Reply& reply, std::size_t i) {
  return i < reply.items.size() ? reply.items[i].number : 0;
}

// A third: two renewals in a row may be lost before the lease is.
Clock::duration renewal_interval(const LeaseTerms& terms) {
  Clock::duration third = terms.ttl ? Clock::duration(*terms.ttl) / 3 : retention / 3;
  return terms.renew_every ? std::min<Clock::duration>(third, *terms.renew_every) : third;
}

// An initializer list would copy each once more.
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
  if (is_kept_by_session(record)) return record.session->confirmed + trusted(terms_.ttl);
  return record.confirmed + trusted(ttl(record));
}

std::string LeaseMachine::own_name(const Session& session, const std::string& room,
                                   std::string_view kind) const {
  std::string name;
  name.reserve(room.size() + session.tag.size() + kind.size() + terms_.holder.size() + 32);
  if (terms_.room)
    name.append(room);
  else if (terms_.is_cluster)
    name.append("{").append(session.tag).append("}:");
  return name.append("warren:").append(kind).append(terms_.holder);
}

std::string LeaseMachine::session_key(const Session& session) const {
  return own_name(session, terms_.room ? terms_.room->keys : "", "session:") + '/' +
         std::to_string(session.generation);
}

std::string LeaseMachine::channel(const Session& session) const {
  return own_name(session, terms_.room ? terms_.room->channels : "", "grants:");
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
  auto fence = fence_key(terms.key);
  if (redis::slot_of(fence) != redis::slot_of(terms.key))
    return fail(Errc::invalid, "\"{}\" is no name for a lease: its braces are not in pairs",
                terms.key);
  if (terms.condition.script && waits)
    return fail(Errc::invalid, "lease {}: who waits in line cannot set a condition", terms.key);
  if (terms.ttl && *terms.ttl < 100ms)
    return fail(Errc::invalid,
                "lease {}: a ttl of {} ms is too short to be renewed; 100 ms are not", terms.key,
                terms.ttl->count());
  auto id = ++last_lease_;
  auto& record = leases_[id];
  record.fence = std::move(fence);
  record.queue = beside(terms.key, ":queue");
  record.shown = record.offered = terms.value;
  record.queued_under = "-";
  auto tag = terms_.is_cluster ? tag_of(terms.key) : std::string();
  record.terms = std::move(terms);
  record.waits = waits;
  record.patience = deadline;
  record.next = now;
  record.session = &sessions_.try_emplace(tag).first->second;
  record.session->tag = tag;
  if (waits) channels_.insert(channel(*record.session));
  if (needs_session(record)) update(*record.session, now);
  update(id, record, now);
  return id;
}

void LeaseMachine::leave(LeaseId id, Clock::time_point now) {
  auto& record = at(id);
  ensure(!record.is_left, "a lease is left once");
  record.is_left = true;
  record.state = LeaseState::ended;
  // A grant ends by itself, and a place in the line with the session. Until then we try.
  record.patience = needs_session(record) ? never : now + ttl(record);
  record.next = now;
  update(id, record, now);
}

void LeaseMachine::show(LeaseId id, std::string value) { at(id).terms.value = std::move(value); }

// Whatever is to be asked about this lease in its present state.
void LeaseMachine::ask(LeaseId id, Record& record, Clock::time_point now) {
  auto& session = *record.session;
  bool is_renewal = is_held(record);
  if (is_renewal && record.offered == record.shown) record.offered = record.terms.value;
  Request request;
  request.keys = words(record.terms.key, record.fence, record.queue);
  request.args =
      words(record.is_left ? "release"
            : is_renewal   ? "renew"
                           : "acquire",
            attempt(id), record.offered, record.terms.ttl ? milliseconds(*record.terms.ttl) : "0",
            needs_session(record) ? session_key(session) : "-", std::to_string(epoch_),
            retention_ms, record.waits ? channel(session) : "-", record.shown, record.queued_under);
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
  if (is_renewal) request.deadline = std::min(request.deadline, deadline(record));
  request.is_renewal = is_renewal;
  request.replicated = record.terms.replicated && !is_renewal && !record.is_left;
  // Replicas that stay behind are told of before patience ends.
  if (request.replicated) request.deadline -= (request.deadline - now) / 4;
  record.is_known = true;
  record.asks_again = false;
  Flight flight{id, &session, session.generation, now, is_renewal, record.is_left};
  record.request = last_request_ + 1;
  send(std::move(request), flight);
}

void LeaseMachine::ask_soon(LeaseId id, Record& record, Clock::time_point now) {
  record.asks_again = record.request != 0;
  record.next = now;
  update(id, record, now);
}

void LeaseMachine::renew(Session& session, Clock::time_point now) {
  Request request;
  auto key = session_key(session);
  if (session.exists)
    request.args = {"PEXPIRE", key, milliseconds(terms_.ttl)};
  else
    request.args = {"SET", key, terms_.holder, "PX", milliseconds(terms_.ttl)};
  request.deadline = now + terms_.ttl / 3;
  request.is_renewal = true;
  session.request = last_request_ + 1;
  send(std::move(request), {0, &session, session.generation, now, session.exists});
}

void LeaseMachine::send(Request request, Flight flight) {
  request.id = ++last_request_;
  flights_[request.id] = flight;
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
  auto flight = found->second;
  flights_.erase(found);
  if (!flight.session) return;
  if (flight.lease == 0) return on_session_reply(*flight.session, flight, reply, now);
  auto& record = at(flight.lease);
  auto& session = *record.session;
  record.request = 0;
  on_lease_reply(flight.lease, record, flight, reply, has_all_replicas, now);
  if (!session.replaced.empty()) delete_replaced(session, now);
}

void LeaseMachine::on_session_reply(Session& session, const Flight& flight,
                                    const Result<redis::Reply>& reply, Clock::time_point now) {
  if (flight.generation != session.generation) return;
  session.request = 0;
  auto sent = flaws_.deadline_from_reply ? now : flight.sent;
  if (!reply) {
    session.next = now + std::max<Clock::duration>(terms_.ttl / 20, 10ms);
    if (!session.exists && !is_transient(reply.error().code)) {
      for_each_of(session, [&](LeaseId id, Record& record) {
        if (record.state == LeaseState::asking && needs_session(record))
          end(id, record, reply.error().code, reply.error().what);
      });
    }
  } else if (flight.is_renewal && reply->number == 0) {
    return lose(session, now);
  } else if (sent + trusted(terms_.ttl) <= now) {
    session.next = now;  // so late that it says nothing
  } else {
    ++counters_.renewed;
    bool is_new = !std::exchange(session.exists, true);
    bool was_late = std::exchange(session.is_late, false);
    session.confirmed = sent;
    // A third of the ttl: two renewals in a row may be lost before the session is.
    session.next = std::max(now, session.confirmed + terms_.ttl / 3);
    delete_replaced(session, now);
    if (is_new || was_late) {
      for_each_of(session, [&](LeaseId id, Record& record) {
        if (record.state == LeaseState::asking) record.next = now;
        update(id, record, now);
      });
    }
  }
  update(session, now);
}

void LeaseMachine::on_lease_reply(LeaseId id, Record& record, const Flight& flight,
                                  const Result<redis::Reply>& reply, bool has_all_replicas,
                                  Clock::time_point now) {
  if (!reply) return on_failed(id, record, flight, reply.error(), now);
  if (record.state == LeaseState::ended && !record.is_left) return;
  bool was_held = is_held(record);
  bool is_granted = number(*reply, 0) == 1;
  if (is_granted && !record.is_left) record.shown = record.offered;

  // Asked before we left, or were granted it by message, or for a session that is replaced: what it
  // says is no longer so.
  bool is_of_another_session = flight.generation != record.session->generation &&
                               (is_granted ? !record.terms.ttl : record.waits && !was_held);
  bool is_outdated = record.is_left
                         ? !flight.is_release
                         : is_of_another_session || (was_held && !is_granted && !flight.is_renewal);
  if (is_outdated) {
    record.next = now;
    return update(id, record, now);
  }
  if (record.is_left) {
    // What was under way without an answer when we left may arrive after this, so once more.
    if (!std::exchange(record.is_loose, false)) return erase(id);
    record.next = now + patience_between_attempts;
    return update(id, record, now);
  }
  if (!is_granted) return on_refused(id, record, flight, *reply, now);
  if (!was_held && record.terms.replicated && !has_all_replicas)
    return end(id, record, Errc::unavailable,
               fmt::format("lease {}: granted, but not all replicas have it", record.terms.key));
  FencingToken token{std::uint64_t(number(*reply, 1)), std::uint64_t(number(*reply, 2))};
  record.generation = flight.generation;
  on_granted(id, record, token, flaws_.deadline_from_reply ? now : flight.sent, now);
}

void LeaseMachine::on_failed(LeaseId id, Record& record, const Flight& flight, const Error& error,
                             Clock::time_point now) {
  auto code = error.code;
  if (code == Errc::timeout || code == Errc::unknown_outcome) record.is_loose = true;
  if (!is_transient(code) && flight.is_release) return erase(id);
  if (!is_transient(code) && !is_held(record) && record.state != LeaseState::ended)
    return end(id, record, code, error.what);
  if (is_held(record)) record.is_doubted = true;
  record.next = now + patience_between_attempts;
  update(id, record, now);
}

void LeaseMachine::on_refused(LeaseId id, Record& record, const Flight& flight,
                              const redis::Reply& reply, Clock::time_point now) {
  if (is_held(record)) {
    record.is_known = false;
    return end(
        id, record, Errc::lease_lost,
        fmt::format("lease {}: token {} is over", record.terms.key, to_string(record.token)));
  }
  if (!record.waits) {
    ++counters_.refused;
    record.is_known = record.is_loose;
    return end(id, record, Errc::held_elsewhere,
               fmt::format("lease {} is held by {}", record.terms.key,
                           reply.items.size() > 4 ? reply.items[4].text : "somebody"));
  }
  record.queued_under = session_key(*record.session);
  record.asked = flight.sent;
  record.server_us = number(reply, 3);
  // When the holder crashes nobody tells us, and Redis' own news of it come seconds late. The first
  // in line looks right after the end; the others in turn, should the first be gone too.
  auto rest = number(reply, 1) < 0 ? 1s : std::chrono::milliseconds(number(reply, 1));
  auto turn = std::min<std::int64_t>(number(reply, 2), 50) * 5ms;
  record.next = record.asks_again ? now : now + rest + 2ms + turn;
  set(id, record, LeaseState::waiting);
  update(id, record, now);
}

// `since`: the server had granted it then, or did so later.
void LeaseMachine::on_granted(LeaseId id, Record& record, FencingToken token,
                              Clock::time_point since, Clock::time_point now) {
  bool was_held = is_held(record);
  if (token < record.token)
    return end(id, record, Errc::lease_lost,
               fmt::format("lease {}: the server forgot token {}", record.terms.key,
                           to_string(record.token)));
  record.confirmed = std::max(record.confirmed, since);
  if (token.epoch < epoch_ || deadline(record) <= now) {
    // Of a primary that was replaced meanwhile, or too late to be of use: ask again.
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
  // attempt, epoch, counter, the server's clock
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
  // A message may be late: then the server has said since that somebody else has it.
  bool is_of_this_session = record.queued_under == session_key(*record.session);
  if (record.state != LeaseState::waiting || record.server_us == 0 ||
      granted_us < record.server_us || token < record.token || !is_of_this_session)
    return ask_soon(id, record, now);  // the lease itself tells
  // How long ago that was, nobody can say: the message may have been on its way for long. But it
  // was so much later than our question, by the server's clock.
  auto later = std::chrono::microseconds(granted_us - record.server_us);
  auto since = std::min<Clock::time_point>(now, record.asked + later - later / 100);
  record.generation = record.session->generation;
  on_granted(id, record, token, flaws_.deadline_from_reply ? now : since, now);
  // Asked for at once, a renewal makes up for what that estimate took off.
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
  for (auto& [tag, session] : sessions_) {
    if (session.exists)
      replace(session, now);
    else if (session.next != Clock::time_point{})
      session.next = now;
    if (session.next != Clock::time_point{}) update(session, now);
  }
  for (auto next = leases_.begin(); next != leases_.end();) {
    auto& [id, record] = *next++;
    record.server_us = 0;  // of another server, perhaps
    if (is_held(record)) record.is_doubted = true;
    if (record.state == LeaseState::ended)
      update(id, record, now);
    else
      ask_soon(id, record, now);
  }
}

void LeaseMachine::on_fenced(LeaseId id) {
  auto& record = at(id);
  if (record.state == LeaseState::ended) return;
  end(id, record, Errc::lease_lost,
      fmt::format("lease {}: a newer token than {} was seen", record.terms.key,
                  to_string(record.token)));
}

void LeaseMachine::on_time(Clock::time_point now) {
  for (auto& [tag, session] : sessions_)
    if (session.next != Clock::time_point{}) update(session, now);
  while (!timers_.empty() && timers_.begin()->first <= now) {
    auto id = timers_.begin()->second;
    auto& record = at(id);
    set_timer(id, record, never);
    update(id, record, now);
  }
}

Clock::time_point LeaseMachine::wake_at() const {
  auto wake = timers_.empty() ? never : timers_.begin()->first;
  for (const auto& [tag, session] : sessions_) {
    if (session.exists) {
      wake = std::min(wake, session.confirmed + trusted(terms_.ttl));
      if (!session.is_late) wake = std::min(wake, session.confirmed + 2 * terms_.ttl / 3);
    }
    if (!session.request && session.next != Clock::time_point{})
      wake = std::min(wake, session.next);
  }
  return wake;
}

std::vector<std::string> LeaseMachine::session_keys() const {
  std::vector<std::string> keys;
  for (const auto& [tag, session] : sessions_)
    if (session.exists) keys.push_back(session_key(session));
  return keys;
}

std::vector<LeaseId> LeaseMachine::take_changes() { return std::exchange(changes_, {}); }

// Does what the time has come for, and sets the timer for what comes next.
void LeaseMachine::update(LeaseId id, Record& record, Clock::time_point now) {
  bool is_open = record.state == LeaseState::asking || record.state == LeaseState::waiting;
  if (is_open && now >= record.patience)
    return end(id, record, Errc::timeout, fmt::format("lease {}: not ours yet", record.terms.key));
  if (is_held(record) && now >= deadline(record))
    return end(id, record, Errc::lease_lost,
               fmt::format("lease {}: could not be renewed in time", record.terms.key));
  if (record.state == LeaseState::ended && !record.is_left) return set_timer(id, record, never);
  if (record.is_left && !record.request && (!record.is_known || now >= record.patience))
    return erase(id);

  // A lease moves to a session only when the server has that.
  bool lacks_session = needs_session(record) && !record.session->exists && !record.is_left;
  bool can_ask = !record.request && !(lacks_session && (is_open || !record.terms.ttl));
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

void LeaseMachine::update(Session& session, Clock::time_point now) {
  if (session.exists && now >= session.confirmed + trusted(terms_.ttl)) return lose(session, now);
  if (session.exists && !session.is_late && now >= session.confirmed + 2 * terms_.ttl / 3) {
    session.is_late = true;
    for_each_of(session, [&](LeaseId id, Record& record) { update(id, record, now); });
  }
  if (session.next == Clock::time_point{}) session.next = now;
  if (!session.request && now >= session.next) renew(session, now);
}

void LeaseMachine::replace(Session& session, Clock::time_point now) {
  for_each_of(session, [&](LeaseId, Record& record) {
    if (is_kept_by_session(record)) record.confirmed = session.confirmed;
  });
  session.replaced = session_key(session);
  ++session.generation;
  session.exists = session.is_late = false;
  session.request = 0;
  session.next = now;
}

// With the old session ends whatever is granted to it that we do not know of: a lease whose release
// was lost with a primary, for one. If this is not done, the session ends by itself.
void LeaseMachine::delete_replaced(Session& session, Clock::time_point now) {
  if (session.replaced.empty() || !session.exists) return;
  bool is_needed = false;
  for_each_of(session, [&](LeaseId, Record& record) {
    bool has_moved = record.generation == session.generation;
    if (is_held(record) && !record.terms.ttl && !has_moved) is_needed = true;
    if (record.state == LeaseState::asking && record.waits) is_needed = true;
  });
  if (is_needed) return;
  Request request;
  request.args = {"DEL", std::exchange(session.replaced, {})};
  request.deadline = now + terms_.ttl;
  send(std::move(request), {0, nullptr, 0, now, false, false});
}

void LeaseMachine::lose(Session& session, Clock::time_point now) {
  auto lost = session.generation;
  replace(session, now);
  for_each_of(session, [&](LeaseId id, Record& record) {
    record.server_us = 0;
    if (is_held(record) && !record.terms.ttl && record.generation == lost) {
      end(id, record, Errc::lease_lost,
          fmt::format("lease {}: the session could not be renewed in time", record.terms.key));
    } else if (record.state == LeaseState::waiting) {
      record.next = now;
      set(id, record, LeaseState::asking);
    }
    // What the lost session kept is nobody's.
    if (record.state == LeaseState::ended && needs_session(record)) record.is_known = false;
    update(id, record, now);
  });
  renew(session, now);
}

void LeaseMachine::end(LeaseId id, Record& record, Errc code, std::string why) {
  if (is_held(record)) ++counters_.lost;
  record.why = {code, std::move(why)};
  set(id, record, LeaseState::ended);
  set_timer(id, record, never);
}

void LeaseMachine::set(LeaseId id, Record& record, LeaseState state) {
  if (std::exchange(record.state, state) != state) changes_.push_back(id);
}

void LeaseMachine::set_held(LeaseId id, Record& record, Clock::time_point now) {
  bool is_late = record.terms.ttl ? now >= overdue(record) : record.session->is_late;
  set(id, record, is_late || record.is_doubted ? LeaseState::uncertain : LeaseState::held);
}

void LeaseMachine::set_timer(LeaseId id, Record& record, Clock::time_point time) {
  if (record.timer != Clock::time_point{}) timers_.erase({record.timer, id});
  record.timer = time == never ? Clock::time_point{} : time;
  if (time != never) timers_.emplace(time, id);
}

void LeaseMachine::erase(LeaseId id) {
  set_timer(id, at(id), never);
  leases_.erase(id);
  changes_.push_back(id);
}

// The action may erase the lease that it is given.
template <class Action>
void LeaseMachine::for_each_of(Session& session, Action action) {
  for (auto next = leases_.begin(); next != leases_.end();) {
    auto& [id, record] = *next++;
    if (record.session == &session) action(id, record);
  }
}

}  // namespace warren
