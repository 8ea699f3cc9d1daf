// One channel: a session, a wire, and what is made of what the peer says.
#include "base/log.h"
#include "services/foghorn/federation/core.h"

namespace warren::federation {

using namespace asio::experimental::awaitable_operators;

Hello Federation::Core::hello() const {
  return {protocol_version, cluster.terms().instance_id, token_, terms.address};
}

std::string Federation::Core::leader_address() const {
  auto addresses = view.addresses(Clock::now());
  auto own = addresses.find(self());
  return own == addresses.end() || own->second == terms.address ? std::string() : own->second;
}

// Of a link that was greeted: whether it is the channel from here on, or the one that is there.
bool Federation::Core::keep(std::shared_ptr<Link> link) {
  auto known = peers_.find(link->session.peer());
  auto next = link->greeted();
  if (known == peers_.end() || !next) return false;
  auto& peer = known->second;
  auto there = peer.link ? peer.link->greeted() : std::nullopt;
  auto stays = may_stay(*next, there, known->first);
  if (!stays) {
    log::info("federation.channel_refused", "peer", known->first, "why", stays.error().what);
    return false;
  }
  if (peer.link) peer.link->wire->finish({Errc::cancelled, "there is another channel"});
  if (peer.dialled == link) peer.dialled.reset();
  peer.link = link;
  peer.hint.clear();
  hear_address(peer, link->session.greeting()->address);
  log::info("federation.channel_opened", "peer", known->first, "instance",
            link->session.greeting()->instance_id);
  changed.notify();
  return true;
}

// A new one is tried first; from then on the one that answers is.
void Federation::Core::hear_address(Peer& peer, const std::string& address) {
  auto announced = is_address(address) ? address : std::string();
  if (peer.announced == announced) return;
  if (!announced.empty()) peer.good_address = announced;
  peer.announced = std::move(announced);
  announced_.notify();
}

// Until one side leaves, or another link of the same peer takes its place.
awaitable<void> Federation::Core::serve(std::shared_ptr<Link> link) {
  auto cluster_id = link->session.peer();
  if (!link->session.greeting())
    peers_.at(cluster_id).dialled = link;
  else if (!keep(link))
    co_return link->wire->finish({Errc::refused, "there is another channel"});
  struct Ending {
    Core& core;
    std::string cluster;
    std::shared_ptr<Link> link;
    ~Ending() {
      link->wire->finish(link->session.over().value_or(Error{Errc::unavailable, "it ended"}));
      core.changed.notify();
      auto peer_of = core.peers_.find(cluster);
      if (peer_of == core.peers_.end()) return;  // it is none any more
      auto& of = peer_of->second;
      const auto& counters = link->session.counters();
      of.past.frames_in += counters.frames_in;
      of.past.frames_out += counters.frames_out;
      of.past.dropped += counters.dropped;
      of.past.resyncs += counters.resyncs;
      if (of.dialled == link) of.dialled.reset();
      if (of.link != link) return;
      of.link.reset();
      of.alone_since = Clock::now();
    }
  } ending{*this, cluster_id, link};
  if (!offer_) offer_ = advertiser_.make(Clock::now());
  link->session.offer(Clock::now(), offer_);
  co_await (receive(link) || transmit(link) || keep_time(link));
  const auto& over = link->session.over();
  auto why = over ? over->what : std::string("the connection broke");
  auto after = peers_.find(cluster_id);
  bool is_known = after != peers_.end();
  bool was_channel = is_known && after->second.link == link;
  if (was_channel || (is_known && !after->second.link)) {
    after->second.problem = why;
    after->second.hint = link->session.leader_hint();
    if (!is_address(after->second.hint)) after->second.hint.clear();
  }
  if (was_channel || (over && over->code == Errc::denied))
    log::info("federation.channel_closed", "peer", cluster_id, "why", why);
}

awaitable<void> Federation::Core::receive(std::shared_ptr<Link> link) {
  for (bool was_greeted = bool(link->session.greeting()), has_flaws = false;;) {
    auto frame = co_await link->wire->read(Clock::time_point::max());
    if (!frame) {
      if (frame.error().code == Errc::invalid) {
        log::warn("federation.frame_refused", "peer", link->session.peer(), "why",
                  frame.error().what);
        link->session.leave(frame.error().what, "");
        link->wake.notify();
        co_await sleep_for(1s);  // for the goodbye
      }
      co_return;
    }
    if (!frame->flaw.empty() && !std::exchange(has_flaws, true))
      log::warn("federation.item_refused", "peer", link->session.peer(), "why", frame->flaw);
    link->session.on_frame(Clock::now(), std::move(*frame));
    if (!was_greeted && link->session.greeting()) {
      was_greeted = true;
      if (!keep(link)) co_return;
    }
    hear(link->session.peer(), link->session);
    link->wake.notify();
    if (link->session.over()) co_return;
  }
}

// Also while a frame is stuck on its way to a peer that takes nothing.
awaitable<void> Federation::Core::keep_time(std::shared_ptr<Link> link) {
  for (;;) {
    link->session.on_time(Clock::now());
    const auto& over = link->session.over();
    if (over && over->code == Errc::timeout) co_return;
    link->wake.notify();
    co_await sleep_until(over ? Clock::now() + 1s : link->session.wake_at());
  }
}

awaitable<void> Federation::Core::transmit(std::shared_ptr<Link> link) {
  for (;;) {
    while (auto frame = link->session.next_frame()) {
      auto written = co_await link->wire->write(std::move(*frame));
      if (written) continue;
      co_await sleep_for(1s);  // what it said before it went is read first
      co_return;
    }
    if (link->session.over()) co_return;
    co_await link->wake.wait();
  }
}

// --- who comes -----------------------------------------------------------------------------------

void Federation::Core::accept(std::shared_ptr<Wire> wire) {
  if (is_closing_) return wire->finish({Errc::unavailable, "this instance is closing"});
  if (calls_.running() >= 1000) return wire->finish({Errc::overloaded, "too many calls"});
  calls_.start("federation.inbound", greet(std::move(wire)));
}

// Who may come, by its first frame.
Result<> Federation::Core::admit(const Wire& wire, const Frame& first) {
  const auto* greeting =
      first.payloads.empty() ? nullptr : std::get_if<Hello>(&first.payloads.front());
  if (!greeting) return fail(Errc::protocol, "the first frame is not a greeting");
  if (first.cluster_id == self()) return fail(Errc::denied, "{} is this cluster", self());
  auto peer = peers_.find(first.cluster_id);
  if (peer == peers_.end())
    return fail(Errc::denied, "cluster {} is not a peer of {}", first.cluster_id, self());
  if (!wire.may_speak_for(first.cluster_id))
    return fail(Errc::denied, "this is not the token of {}", first.cluster_id);
  if (greeting->version != protocol_version)
    return fail(Errc::refused, "protocol version {}", greeting->version);
  auto there = peer->second.link ? peer->second.link->greeted() : std::nullopt;
  return may_stay({dialler_of(first.cluster_id, self()), greeting->token}, there, first.cluster_id);
}

awaitable<void> Federation::Core::greet(std::shared_ptr<Wire> wire) {
  auto first = co_await wire->read(Clock::now() + 5s);
  if (!first) {
    wire->finish(first.error());
    co_return;
  }
  Result<> admitted = admit(*wire, *first);
  if (admitted && !is_leading_) admitted = fail(Errc::refused, "not the leader");
  if (!admitted) {
    if (admitted.error().code == Errc::denied)
      log::warn("federation.peer_refused", "says", first->cluster_id, "why", admitted.error().what);
    Frame goodbye{self(), {}};
    goodbye.payloads.emplace_back(Goodbye{admitted.error().what, leader_address()});
    auto said = co_await wire->write(std::move(goodbye));
    wire->finish(said ? admitted.error() : said.error());
    co_return;
  }
  auto& peer = peers_.at(first->cluster_id);
  auto by = dialler_of(first->cluster_id, self());
  auto link = std::make_shared<Link>(terms, self(), peer.terms, hello(), wire, by, executor);
  link->session.on_frame(Clock::now(), std::move(*first));
  co_await serve(std::move(link));
}

// --- what it says --------------------------------------------------------------------------------

// Known here at once, in Redis and at other instances a moment later.
void Federation::Core::take(Record record) {
  auto now = Clock::now();
  if (record.value.empty()) {
    view.erase(record.kind, record.id);
  } else {
    auto put = view.put(now, record, now + ttl_of(record.kind));
    if (!put) {
      log::debug("federation.record_refused", "why", put.error().what);
      return;
    }
  }
  writer_.put(std::move(record));
}

void Federation::Core::hear(const std::string& cluster_id, PeerSession& from) {
  auto news = from.take_news();
  if (news.empty() || !is_leading_) return;
  Writing by{to_string(token_), WallClock::now()};
  auto now = Clock::now();
  for (auto& each : news) {
    if (std::holds_alternative<Confirmed>(each)) {
      confirm(cluster_id, from);
      continue;
    }
    if (const auto* live = std::get_if<StreamLive>(&each); live && !live->is_live) {
      // Another cluster may have it since.
      const auto* at = view.live_at(now, live->internal_name);
      if (at && *at != cluster_id) continue;
    }
    if (const auto* copy = std::get_if<Replication>(&each); copy && !copy->available)
      take({Kind::active_replications, copy->stream_name + ":" + cluster_id, {}});
    std::visit(
        [&](const auto& what) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(what)>, Confirmed>)
            take(record_of(by, cluster_id, what));
        },
        each);
    if (const auto* ad = std::get_if<StreamAd>(&each); ad && !ad->playback_id.empty()) {
      // Another cluster may have it under this id as well.
      const auto* stream = view.stream_of_playback(now, ad->playback_id);
      writer_.put({Kind::playback_index, ad->playback_id, stream ? *stream : std::string()});
    }
    if (const auto* live = std::get_if<StreamLive>(&each); live && !live->is_live)
      for (const auto& [other, peer] : peers_)
        if (peer.link && peer.link->session.says_live(live->internal_name))
          take(record_of(by, other, StreamLive{live->internal_name, live->tenant_id, other, true}));
  }
  changed.notify();
}

// What the peer still says lives on; what it no longer says, since a time without a channel, goes.
void Federation::Core::confirm(const std::string& cluster_id, const PeerSession& from) {
  std::vector<Record> gone;
  view.each_item(cluster_id, [&](const Record& record, const Item& item) {
    if (!from.knows(item)) {
      gone.push_back({record.kind, record.id, {}});
      return;
    }
    writer_.keep(record);
    if (const auto* ad = std::get_if<StreamAd>(&item); ad && !ad->playback_id.empty())
      writer_.keep(playback_record(*ad));
  });
  // Two clusters may say so of one stream, and there is one record: the other's may have expired.
  from.each_live([&](const StreamLive& live) {
    if (!view.live_at(Clock::now(), live.internal_name))
      take(record_of({to_string(token_), WallClock::now()}, cluster_id, live));
  });
  for (auto& record : gone) take(std::move(record));
  view.confirm(Clock::now(), cluster_id);
  writer_.announce_kept(cluster_id);
}

}  // namespace warren::federation
