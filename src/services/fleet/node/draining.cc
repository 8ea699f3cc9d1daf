// How a node that drains gives its rows to others, while it goes on answering for them.
//
// Each row is handed over by the task that owns it, so that nothing else happens to the row meanwhile,
// and a few rows at a time. The order is the point: the next owner has everything in memory before the
// catalog changes, and while that changes neither of the two answers (wait_for_flips), so that at no
// time there is nobody who could, nor two who do.
#include <charconv>

#include "base/log.h"
#include "net/http/exchange.h"
#include "net/http/target.h"
#include "search/store/stream.h"
#include "search/store/verify.h"
#include "services/fleet/node/node.h"
#include "services/fleet/plan/drain_request.h"

namespace warren::fleet {

namespace {

// Routers hear of the last hand-over a moment later, and are told until then that it has moved.
constexpr auto farewell = 1s;
constexpr auto tell_time = 2s;

struct Sealed {
  search::SegmentListPtr segments;
  std::vector<std::uint64_t> sizes;  // as they are sent
};
// Checksums are counted once, not with every request.
Sealed seal(search::SegmentListPtr segments) {
  auto list = std::make_shared<search::SegmentList>();
  Sealed all;
  for (const auto& segment : *segments) {
    list->push_back(search::sealed(segment));
    all.sizes.push_back(search::SegmentSender(list->back()).bytes());
  }
  all.segments = std::move(list);
  return all;
}

std::shared_ptr<search::SegmentSender> sender_of(std::shared_ptr<const search::Segment> segment) {
  return std::make_shared<search::SegmentSender>(std::move(segment));
}

Error refusal(const HttpReply& reply) {
  auto code = reply.status == 409   ? Errc::held_elsewhere
              : reply.status == 429 ? Errc::overloaded
                                    : Errc::unavailable;
  return {code, fmt::format("it answered {}: {}", reply.status, reply.body.substr(0, 200))};
}

}  // namespace

awaitable<void> FleetNode::drain(Clock::time_point deadline) {
  is_leaving_ = true;
  auto handed = drained_.handed_over;
  co_await empty_out(deadline);
  if (drained_.handed_over > handed)
    co_await sleep_until(std::min(Clock::now() + farewell, std::max(deadline, Clock::now())));
  if (!wish_.empty()) {
    std::vector<std::string> keys(1, wish_);
    auto removed = co_await catalog_.remove(std::move(keys), Clock::now() + tell_time);
    if (!removed) log::warn("fleet.wish_not_removed", "why", removed.error().what);
  }
  co_await leave(deadline);
}

awaitable<void> FleetNode::leave(Clock::time_point deadline) {
  is_draining_ = is_leaving_ = true;
  deadline = std::max(deadline, Clock::now() + tell_time);
  auto left = co_await lease_->leave(deadline);
  if (!left) log::warn("fleet.not_left", "why", left.error().what);
  co_await http_->drain(deadline);
}

void FleetNode::on_drain_wish(const Row& row) {
  if (row.key == wish_ || is_leaving_) return;
  ++wishes_;
  wish_ = row.key;
  wished_within_ = parse_drain(row.spec).within;
  rows_changed_.notify();
}

void FleetNode::on_wish_withdrawn() {
  wish_.clear();
  if (!is_leaving_) {
    log::info("fleet.drain_cancelled", "rows", owned_.size());
    is_draining_ = false;
    lease_->tell();
  }
  rows_changed_.notify();
  work_wanted_.notify();
}

awaitable<void> FleetNode::mind_wishes() {
  for (;;) {
    while (wish_.empty()) co_await rows_changed_.wait();
    auto which = wishes_;
    co_await empty_out(Clock::now() + wished_within_);
    // It goes on claiming nothing until the wish is withdrawn.
    while (!wish_.empty() && wishes_ == which) co_await rows_changed_.wait();
  }
}

// Returns when no row is left, be it that others have them or that they are free for all.
awaitable<void> FleetNode::empty_out(Clock::time_point deadline) {
  is_draining_ = true;
  drain_until_ = deadline;
  lease_->tell();
  auto before = drained_;
  auto rows = owned_;
  log::info("fleet.draining", "rows", rows.size());
  for (const auto& [key, owned] : rows) {
    owned->changed->notify();
    if (owned->is_ready) continue;
    Release
        how;  // nobody can ask for it yet: the next one begins from the start, and may do so now
    co_await give_back(*owned, std::move(how));
  }
  rows_changed_.notify();
  auto is_over = [this] { return owned_.empty() && coming_.empty(); };
  while (is_draining_ && !is_over() && Clock::now() < drain_until_)
    co_await rows_changed_.wait(drain_until_);
  if (!is_draining_) co_return;
  rows = owned_;
  for (const auto& [key, owned] : rows) {
    owned->leaves = true;
    owned->changed->notify();
    Release how;
    if (!owned->is_flipping) co_await give_back(*owned, std::move(how));
  }
  log::info("fleet.drained", "handed_over", drained_.handed_over - before.handed_over, "released",
            drained_.given_back - before.given_back);
}

bool FleetNode::is_handing_on(const Owned& owned) const {
  return is_draining_ && !owned.leaves && Clock::now() < drain_until_;
}

// True: somebody else has it. False: it leaves, or the wish was withdrawn.
awaitable<bool> FleetNode::pass_on(Owned& owned) {
  auto found = held_.find(owned.repo);
  if (found == held_.end() || !found->second.segments) {
    owned.leaves = true;
    co_return false;
  }
  auto note = found->second.note(Phase::serving);
  auto written = co_await write(owned, RowState::draining, note);
  if (!written) log::warn("fleet.not_written", "repo", owned.repo, "why", written.error().what);
  while (is_handing_on(owned) && handing_over_ >= settings_.hand_overs)
    co_await rows_changed_.wait(drain_until_);
  struct Turn {
    FleetNode& node;
    explicit Turn(FleetNode& self) : node(self) { ++node.handing_over_; }
    ~Turn() {
      --node.handing_over_;
      node.rows_changed_.notify();
    }
  };
  bool is_passed = false;
  {
    Turn turn(*this);
    is_passed = co_await pass_on_now(owned);
  }
  owned.offered = nullptr;
  if (is_passed || owned.leaves) co_return is_passed;
  if (is_draining_) {
    log::warn("fleet.not_handed_over", "repo", owned.repo, "why", "the time for it is over");
    owned.leaves = true;
    co_return false;
  }
  auto restored = co_await write(owned, RowState::ready, note);
  if (!restored) log::warn("fleet.not_written", "repo", owned.repo, "why", restored.error().what);
  co_return false;
}

awaitable<bool> FleetNode::pass_on_now(Owned& owned) {
  auto offer = co_await hand_over_of(owned);
  while (offer && is_handing_on(owned)) {
    auto next = co_await successors(owned);
    // Whether it is worth asking again.
    bool may_come = !next || (next->has_others && next->order.empty());
    auto order = next ? std::move(next->order) : std::vector<Successor>();
    for (const auto& to : order) {
      if (!is_handing_on(owned)) break;
      auto taken = co_await ask_to_take(to, *offer);
      if (taken && !is_draining_) {
        HandedOver never_mind{owned.claim.key, {}};
        co_await tell(to, std::move(never_mind));
        co_return false;
      }
      if (taken) {
        bool is_flipped = co_await flip(owned, to);
        if (is_flipped || owned.leaves) co_return is_flipped;
      } else {
        log::info("fleet.not_taken", "repo", owned.repo, "by", to.name, "why", taken.error().what);
      }
      may_come = may_come || taken || taken.error().code != Errc::held_elsewhere;
    }
    if (!may_come) {
      log::warn("fleet.no_successor", "repo", owned.repo, "why",
                order.empty() ? "there is no other node" : "every other node has a replica of it");
      owned.leaves = true;
    }
    if (is_handing_on(owned))
      co_await rows_changed_.wait(std::min(drain_until_, Clock::now() + settings_.look));
  }
  co_return false;
}

Async<FleetNode::Succession> FleetNode::successors(const Owned& owned) {
  auto nodes = co_await catalog_.nodes(Clock::now() + settings_.lease.ttl / 3);
  if (!nodes) co_return std::unexpected(nodes.error());
  std::map<std::string, Successor> by_name;
  std::vector<Candidate> candidates;
  for (const auto& node : *nodes) {
    auto info = parse_info(node.info);
    if (node.session == owned.claim.session || !info || info->is_draining) continue;
    std::string name(node_name(node.session));
    by_name[name] = {name, node.session, info->endpoint};
    candidates.push_back({name, info->budget_bytes, info->free_bytes(), info->zone});
  }
  Succession found{.order = {}, .has_others = !candidates.empty()};
  auto held = held_.find(owned.repo);
  auto bytes = held == held_.end() ? 0 : held->second.memory_bytes();
  Placement placement(std::move(candidates));
  auto zones = placement.zones_of(owners_.beside(owned.claim.key));
  for (const auto& name : placement.order(owned.repo, bytes, zones))
    found.order.push_back(by_name[name]);
  co_return found;
}

// From here on GET /v1/segments gives what it names.
Async<HandOver> FleetNode::hand_over_of(Owned& owned) {
  auto found = held_.find(owned.repo);
  if (found == held_.end()) co_return fail(Errc::not_found, "{} was evicted", owned.repo);
  auto held = found->second;
  auto sealed = co_await on_pool(movers_, seal, held.segments);
  owned.offered = std::move(sealed.segments);
  auto offer = facts_of(held);
  offer.key = owned.claim.key;
  offer.epoch = owned.claim.epoch;
  offer.session = owned.claim.session;
  offer.spec = to_json(owned.spec);
  offer.sizes = std::move(sealed.sizes);
  co_return offer;
}

Async<> FleetNode::ask_to_take(Successor to, HandOver offer) {
  HttpAsk ask{"POST", "/v1/take"};
  ask.headers = "Content-Type: application/json\r\n";
  ask.body = to_json(offer);
  auto reply = co_await ask_peer(std::move(to.endpoint), std::move(ask), drain_until_);
  if (!reply) co_return std::unexpected(reply.error());
  if (reply->status != 200) co_return std::unexpected(refusal(*reply));
  co_return ok;
}

// The one step in which ownership changes.
awaitable<bool> FleetNode::flip(Owned& owned, const Successor& to) {
  owned.is_flipping = true;
  std::optional<Claim> given;
  for (;;) {
    auto claim = owned.claim;
    auto session = to.session;
    auto handed = co_await catalog_.hand_over(std::move(claim), std::move(session),
                                              Clock::now() + settings_.lease.ttl / 3);
    if (handed) {
      given = *std::move(handed);
      break;
    }
    log::warn("fleet.not_flipped", "repo", owned.repo, "to", to.name, "why", handed.error().what);
    if (handed.error().code == Errc::not_found) break;  // of the next one: it is ours as before
    // Otherwise it may have happened, and then this is no longer the owner: until that is known,
    // nothing is answered here.
    if (handed.error().code == Errc::lease_lost || !lease_->may_serve()) {
      owned.leaves = true;
      break;
    }
    co_await sleep_for(100ms);
  }
  auto key = owned.claim.key;
  if (given) {
    ++drained_.handed_over;
    owned.is_ready = false;
    forget(owned);
    // Searches that go on keep what they look into.
    held_.erase(owned.repo);
    shelf_.remove(owned.repo);
    log::info("fleet.handed_over", "repo", owned.repo, "to", to.name, "epoch",
              to_string(given->epoch));
  }
  owned.is_flipping = false;
  owned.changed->notify();
  if (!given) co_return false;
  HandedOver row{std::move(key), given->epoch};
  co_await tell(to, std::move(row));
  co_return true;
}

awaitable<void> FleetNode::tell(const Successor& to, HandedOver row) {
  HttpAsk ask{"POST", "/v1/own"};
  ask.headers = "Content-Type: application/json\r\n";
  ask.body = to_json(row);
  auto endpoint = to.endpoint;
  auto reply = co_await ask_peer(std::move(endpoint), std::move(ask), Clock::now() + tell_time);
  if (!reply || reply->status != 200)
    log::warn("fleet.not_told", "key", row.key, "to", to.name, "why",
              (reply ? refusal(*reply) : reply.error()).what);
}

Async<HttpReply> FleetNode::ask_peer(std::string endpoint, HttpAsk ask,
                                     Clock::time_point deadline) {
  auto url = parse_web_url(endpoint);
  if (!url) co_return std::unexpected(url.error());
  ask.headers += token_header();
  co_return co_await peers_.ask(*std::move(url), std::move(ask), deadline);
}

std::string FleetNode::token_header() const {
  if (settings_.token.empty()) return "";
  return fmt::format("Authorization: Bearer {}\r\n", settings_.token);
}

bool FleetNode::is_about_hand_over(std::string_view path) {
  return path == "/v1/take" || path == "/v1/own" || path == "/v1/segments";
}

HttpServer::Work FleetNode::handle_hand_over(const HttpRequest& request, HttpAnswer& answer) {
  bool is_get = request.path == "/v1/segments";
  if (request.method != (is_get ? "GET" : "POST")) {
    put_error(answer, {Errc::invalid, is_get ? "use GET" : "use POST"});
    answer.status = 405;
    answer.add("Allow", is_get ? "GET" : "POST");
    return std::nullopt;
  }
  if (is_get) return answer_segment(request, answer);
  if (request.path == "/v1/take") return answer_take(request, answer);
  answer_own(request, answer);
  return std::nullopt;
}

awaitable<void> FleetNode::answer_segment(const HttpRequest& request, HttpAnswer& answer) {
  auto key = query_value(request.query, "key");
  auto epoch = parse_epoch(query_value(request.query, "epoch").value_or(""));
  auto number = query_value(request.query, "part").value_or("");
  std::size_t part = 0;
  auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), part);
  bool is_number = error == std::errc() && end == number.data() + number.size();
  auto found = key ? owned_.find(*key) : owned_.end();
  if (!is_number || found == owned_.end() || found->second->claim.epoch != epoch ||
      !found->second->offered || part >= found->second->offered->size()) {
    put_error(answer, {Errc::not_found, "this segment is not on offer"});
    co_return;
  }
  auto segment = (*found->second->offered)[part];
  auto sender = co_await on_pool(movers_, sender_of, std::move(segment));
  answer.type = "application/octet-stream";
  auto& out = request.exchange->begin(sender->bytes());
  for (auto piece = sender->next(); !piece.empty(); piece = sender->next()) {
    std::string_view bytes(reinterpret_cast<const char*>(piece.data()), piece.size());
    auto sent = co_await out.write(bytes);
    if (!sent) co_return;
  }
  auto ended = co_await out.end();
  if (!ended) log::warn("fleet.segment_cut_off", "why", ended.error().what);
}

}  // namespace warren::fleet
