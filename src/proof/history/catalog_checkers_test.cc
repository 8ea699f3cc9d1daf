#include "proof/history/catalog_checkers.h"

#include <doctest/doctest.h>

#include <functional>
#include <random>

using namespace warren;
using namespace warren::history;

namespace {

using Kind = CatalogEvent::Kind;
using Events = std::vector<CatalogEvent>;

constexpr RowId row_count = 2;
constexpr auto ttl = 100ms;

Clock::time_point at(Clock::duration time) { return Clock::time_point(1h + time); }

std::string broken(const Events& events, const std::vector<Window>& lossy = {}) {
  CatalogHistory history;
  for (auto& event : events) history.note(event);
  history.sort();
  auto violation = CatalogJudge(history, {.rows = row_count, .lossy = lossy}).first_violation();
  return violation ? violation->invariant : "";
}

// A small catalog that does everything right: nodes take turns with each row, beat, write under
// their epoch, try to write under an old one, and let go, lose their lease or die. One node follows
// the changes.
class GoodWorld {
 public:
  explicit GoodWorld(unsigned seed) : random_(seed) {
    for (RowId row = 0; row < row_count; ++row) {
      now_ = at(0ms);
      for (int turns = 0; turns < 6; ++turns) turn(row, true);
      // All at the same time: the last owners keep their rows.
      now_ = at(20s);
      turn(row, false);
    }
    add({.at = at(20s) + 50ms, .kind = Kind::settled});
    add({.at = at(21s), .kind = Kind::contents, .process = reader, .number = 77});
    add({.at = at(21s), .kind = Kind::catalog_contents, .number = 77});
  }
  Events events() const { return events_; }

 private:
  static constexpr ProcessId reader = 1000;

  void add(CatalogEvent event) { events_.push_back(event); }
  Clock::duration upto(int most) {
    return std::chrono::milliseconds(std::uniform_int_distribution<>(1, most)(random_));
  }
  CatalogEvent event(Kind kind) const {
    return {.at = now_, .kind = kind, .row = row_, .process = process_, .life = 1, .token = token_};
  }

  void turn(RowId row, bool ends) {
    row_ = row;
    ++process_;
    auto old = token_;
    auto offered = event(Kind::offered);
    offered.since = now_ - 1us;
    add(offered);
    auto since = now_ + 1ms;
    now_ = since + upto(3);
    token_ = {1 + row, ++counter_};
    auto leased = event(Kind::leased);
    leased.deadline = since + ttl;
    add(leased);
    auto claimed = event(Kind::claimed);
    claimed.since = since;
    add(claimed);
    see();
    for (int beats = 0; beats < (ends ? 2 : 10); ++beats) {
      now_ += upto(20);
      leased = event(Kind::leased);
      leased.deadline = now_ + ttl - 1ms;
      add(leased);
      write(Kind::written, token_);
      add(event(Kind::served));
      see();
      if (old != Token{} && beats == 1) write(Kind::refused, old);
    }
    if (ends) end(leased.deadline);
  }

  void write(Kind kind, Token token) {
    auto write = event(kind);
    write.token = token;
    write.since = now_ - 1us;
    write.number = ++number_;
    if (kind == Kind::written) seen_number_ = number_;
    add(write);
  }

  void see() {
    auto seen = event(Kind::seen);
    seen.at += 1ms;
    seen.process = reader;
    seen.life = 0;
    seen.number = seen_number_;
    add(seen);
  }

  void end(Clock::time_point deadline) {
    now_ += 5ms;
    switch (random_() % 3) {
      case 0:
        add(event(Kind::dropped));
        now_ += 1ms;
        add(event(Kind::released));
        now_ += 1ms;
        return;
      case 1:
        add(event(Kind::killed));
        now_ = deadline + 10ms;
        return;
      default:
        now_ = deadline + 10ms;
        add(event(Kind::ended));
        now_ += 1ms;
    }
  }

  std::mt19937 random_;
  Events events_;
  Clock::time_point now_;
  RowId row_ = 0;
  ProcessId process_ = 0;
  Token token_{};
  std::uint64_t counter_ = 0, number_ = 0, seen_number_ = 0;
};

CatalogEvent* find(Events& events, Kind kind, const std::function<bool(CatalogEvent&)>& fits) {
  for (auto& event : events)
    if (event.kind == kind && fits(event)) return &event;
  return nullptr;
}

// Plants one mistake in many good histories; each must be found, under the right name.
void plant(const std::string& invariant, const std::function<bool(Events&)>& mistake) {
  int planted = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    auto events = GoodWorld(seed).events();
    if (!mistake(events)) continue;
    ++planted;
    CAPTURE(seed);
    CHECK(broken(events) == invariant);
    // A server that lost everything, all the time, excuses it, except what a node does by itself
    // and what is left in the end.
    if (invariant == "I13" || invariant == "I15") CHECK(broken(events, {{at(0s), at(60s)}}) == "");
  }
  CHECK(planted > 5);
}

bool any(CatalogEvent&) { return true; }

}  // namespace

TEST_CASE("a catalog that does everything right breaks nothing") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    CHECK(broken(GoodWorld(seed).events()) == "");
  }
}

TEST_CASE("a second node that believes in a row is found, for as long as its lease lasts") {
  plant("I13", [](Events& events) {
    auto* claimed = find(events, Kind::claimed, any);
    auto leased = *find(events, Kind::leased, any);
    auto other = *claimed;
    other.process = leased.process = 500;
    other.at = leased.at = claimed->at + 3ms;
    other.since = claimed->at;
    other.token = {0, 1};  // from a server that does not know of the first
    leased.deadline = other.at + 5ms;
    auto dropped = other;
    dropped.kind = Kind::dropped;
    dropped.at += 1s;
    events.insert(events.end(), {leased, other, dropped});
    return true;
  });
}

TEST_CASE("who believes only while its lease has lapsed disturbs nobody") {
  Events events{
      {.at = at(0ms), .kind = Kind::leased, .process = 1, .deadline = at(100ms)},
      {.at = at(1ms), .kind = Kind::claimed, .process = 1, .token = {1, 1}},
      {.at = at(110ms), .kind = Kind::leased, .process = 2, .deadline = at(200ms)},
      {.at = at(120ms), .kind = Kind::claimed, .process = 2, .token = {1, 2}, .since = at(110ms)},
      {.at = at(300ms), .kind = Kind::restarts, .process = 3}};
  CHECK(broken(events) == "");
  // It was silent, and the catalog had not noticed: now it would be an owner again.
  events.push_back({.at = at(150ms), .kind = Kind::leased, .process = 1, .deadline = at(250ms)});
  CHECK(broken(events) == "I13");
  events.push_back({.at = at(105ms), .kind = Kind::killed, .process = 1});
  CHECK(broken(events) == "");
}

TEST_CASE("an epoch that goes back, or is given twice, is found") {
  plant("I14", [](Events& events) {
    auto* last = find(events, Kind::claimed, [](auto& event) { return event.at > at(19s); });
    auto token = last->token;
    for (auto& event : events)
      if (event.token == token) event.token.counter -= 2;
    std::erase_if(events, [&](auto& event) {
      return event.row == last->row && event.at > last->at &&
             (event.kind == Kind::written || event.kind == Kind::seen);
    });
    return true;
  });
  plant("I14", [](Events& events) {
    auto* first = find(events, Kind::claimed, any);
    auto* second = find(events, Kind::claimed, [&](auto& event) {
      return event.row == first->row && event.process != first->process;
    });
    second->since = at(0ms);  // in any order
    auto token = second->token;
    for (auto& event : events)
      if (event.token == token) event.token = first->token;
    std::erase_if(events, [&](auto& event) {
      return event.kind == Kind::written || event.kind == Kind::seen;
    });
    return true;
  });
}

TEST_CASE("claiming again what one owns is no change of owner") {
  Events events{
      {.at = at(0ms), .kind = Kind::claimed, .process = 1, .token = {1, 1}},
      {.at = at(9ms), .kind = Kind::claimed, .process = 1, .token = {1, 1}, .since = at(5ms)}};
  CHECK(broken(events) == "");
  events[1].life = 1;  // its next life is another owner
  CHECK(broken(events) == "I14");
}

TEST_CASE("a write under an epoch that was over is found, and one that was refused and is there") {
  plant("I15", [](Events& events) {
    auto* refused = find(events, Kind::refused, any);
    if (!refused) return false;
    refused->kind = Kind::written;
    return true;
  });
  plant("I15", [](Events& events) {
    auto* released = find(events, Kind::released, any);
    if (!released) return false;
    auto late = *released;
    late.kind = Kind::written;
    late.since = released->at;
    late.at += 500us;
    events.push_back(late);
    return true;
  });
  Events events = GoodWorld(1).events();
  auto* refused = find(events, Kind::refused, any);
  auto* seen = find(events, Kind::seen, [&](auto& event) { return event.at > refused->at; });
  seen->number = refused->number;
  CHECK(broken(events) == "I15");
}

TEST_CASE("a write that was asked for before the epoch ended may be taken later") {
  Events events{
      {.at = at(0ms), .kind = Kind::claimed, .process = 1, .token = {1, 1}},
      {.at = at(9ms), .kind = Kind::claimed, .process = 2, .token = {1, 2}, .since = at(1ms)},
      {.at = at(20ms), .kind = Kind::written, .process = 1, .token = {1, 1}, .since = at(8ms)}};
  CHECK(broken(events) == "");
  events[2].since = at(9ms);
  CHECK(broken(events) == "I15");
}

TEST_CASE("service past the lease is found") {
  plant("I16", [](Events& events) {
    auto* ended = find(events, Kind::ended, any);
    if (!ended) return false;
    auto late = *ended;
    late.kind = Kind::served;
    late.at -= 5ms;  // after the deadline
    events.push_back(late);
    return true;
  });
}

TEST_CASE("changes that come in another order, and rows that are missed, are found") {
  plant("I17", [](Events& events) {
    auto* first = find(events, Kind::seen, any);
    auto again = *first;
    again.at = at(22s);
    events.push_back(again);
    return true;
  });
  plant("I17", [](Events& events) {
    find(events, Kind::contents, any)->number = 78;
    return true;
  });
}

TEST_CASE("a row that was removed and added again begins anew") {
  Events events{{.at = at(0ms), .kind = Kind::seen, .process = 1, .token = {1, 5}},
                {.at = at(1ms), .kind = Kind::gone, .process = 1},
                {.at = at(2ms), .kind = Kind::seen, .process = 1},
                {.at = at(3ms), .kind = Kind::seen, .process = 1, .token = {1, 6}}};
  CHECK(broken(events) == "");
  events[3].token = {};
  CHECK(broken(events) == "");
}

TEST_CASE("an offer of a row that has an owner, and a row that nobody claims, are found") {
  plant("I18", [](Events& events) {
    auto* claimed = find(events, Kind::claimed, any);
    auto offered = *claimed;
    offered.kind = Kind::offered;
    offered.process = 500;
    offered.since = claimed->at;
    offered.at = claimed->at + 2ms;
    events.push_back(offered);
    return true;
  });
  plant("I18", [](Events& events) {
    auto* last = find(events, Kind::claimed, [](auto& event) { return event.at > at(19s); });
    auto process = last->process;
    std::erase_if(events, [&](auto& event) { return event.process == process; });
    return true;
  });
}

TEST_CASE("an offer that was asked for before the row was claimed proves nothing") {
  Events events{{.at = at(0ms), .kind = Kind::leased, .process = 1, .deadline = at(90ms)},
                {.at = at(5ms), .kind = Kind::claimed, .process = 1, .token = {1, 1}},
                {.at = at(9ms), .kind = Kind::offered, .process = 2, .since = at(4ms)},
                {.at = at(10ms), .kind = Kind::restarts, .process = 2}};
  CHECK(broken(events) == "");
  events[2].since = at(5ms);
  CHECK(broken(events) == "I18");
}

TEST_CASE("how long rows were believed in is told, and how much of it is not judged") {
  CatalogHistory history;
  history.note({.at = at(0ms), .kind = Kind::leased, .process = 1, .deadline = at(100ms)});
  history.note({.at = at(0ms), .kind = Kind::claimed, .process = 1, .token = {1, 1}});
  history.note({.at = at(200ms), .kind = Kind::dropped, .process = 1, .token = {1, 1}});
  auto time = CatalogJudge(history, {.lossy = {{at(90ms), at(150ms)}}}).hold_time();
  CHECK(time.all == 100ms);
  CHECK(time.excused == 10ms);
}
