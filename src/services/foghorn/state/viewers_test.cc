#include "services/foghorn/state/viewers.h"

#include <doctest/doctest.h>

#include <set>

#include "base/uuid.h"

using namespace warren;
using namespace warren::foghorn;

namespace {

struct Fixture {
  std::map<std::string, std::shared_ptr<balance::Penalty>> penalties{
      {"n", std::make_shared<balance::Penalty>()}, {"m", std::make_shared<balance::Penalty>()}};
  Viewers viewers{[this](std::string_view node) { return penalties[std::string(node)]; }};
  Clock::time_point now = Clock::now();

  std::string redirect(std::string_view ip, std::uint64_t estimate = 100) {
    return viewers.redirect(now, "n", "s", ip, estimate);
  }
  bool connect(std::string id, std::string session, std::string ip) {
    return viewers.connected(now, "n", "s", {std::move(id), std::move(session), std::move(ip)});
  }
  bool disconnect(std::string session, std::string ip) {
    return viewers.disconnected(now, "n", "s", {"", std::move(session), std::move(ip)});
  }
  const balance::Penalty& penalty() { return *penalties["n"]; }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a redirect costs its node something until the viewer is there") {
  auto id = redirect("1.1.1.1");
  CHECK(is_uuid(id));
  CHECK(id[14] == '4');
  CHECK(std::string_view("89ab").contains(id[19]));
  CHECK(penalty().bandwidth == 100);
  CHECK(penalty().pending == 1);
  CHECK(connect(id, "session", "1.1.1.1"));
  CHECK(penalty().bandwidth == 0);
  CHECK(penalty().pending == 0);
  CHECK(viewers.active("n") == 1);
  CHECK(disconnect("session", "9.9.9.9"));
  CHECK(viewers.active("n") == 0);
  CHECK(viewers.size() == 1);  // remembered for a while
}

TEST_CASE_FIXTURE(Fixture, "of two tabs the one that came is confirmed, by its id") {
  auto first = redirect("1.1.1.1", 10);
  auto second = redirect("1.1.1.1", 20);
  CHECK(first != second);
  CHECK(connect(second, "", "1.1.1.1"));
  CHECK(penalty().bandwidth == 10);
  CHECK(!connect(second, "", "1.1.1.1"));  // told twice: the first tab stays expected
  CHECK(viewers.pending("n") == 1);
}

TEST_CASE_FIXTURE(Fixture, "without an id the oldest one of the same place is meant") {
  redirect("1.1.1.1", 10);
  redirect("1.1.1.1", 20);
  redirect("2.2.2.2", 40);
  CHECK(connect("", "", "1.1.1.1"));
  CHECK(penalty().bandwidth == 60);
  CHECK(!viewers.connected(now, "n", "other", {"", "", "1.1.1.1"}));
  CHECK(!viewers.connected(now, "m", "s", {"", "", "1.1.1.1"}));
  CHECK(connect("", "", "1.1.1.1"));
  CHECK(!connect("", "", "1.1.1.1"));  // nobody else is expected: nothing underflows
  CHECK(penalty().bandwidth == 40);
  CHECK(penalty().pending == 1);
}

TEST_CASE_FIXTURE(Fixture, "who leaves without having come is not expected any more") {
  redirect("1.1.1.1");
  CHECK(disconnect("unknown", "1.1.1.1"));
  CHECK(penalty().bandwidth == 0);
  CHECK(!disconnect("", "1.1.1.1"));
}

TEST_CASE_FIXTURE(Fixture, "who does not come is given up also where his node does not report") {
  redirect("1.1.1.1", 1000);
  now += 31s;
  viewers.expire(now);
  CHECK(viewers.pending("n") == 0);
  CHECK(penalty().bandwidth == 0);
  now += 6min;
  viewers.expire(now);
  CHECK(viewers.size() == 0);
}

TEST_CASE_FIXTURE(Fixture, "who does not come for 30 s is given up, and forgotten after 5 min") {
  redirect("1.1.1.1", 100);
  now += 20s;
  redirect("1.1.1.1", 50);
  now += 11s;
  viewers.settle(now, "n");
  CHECK(penalty().bandwidth == 50);
  CHECK(penalty().pending == 1);
  CHECK(viewers.size() == 2);
  now += 5min - 1s;
  viewers.settle(now, "n");
  CHECK(viewers.size() == 2);  // the first is remembered still, the second just given up
  CHECK(penalty().pending == 0);
  now += 2s;
  viewers.settle(now, "n");
  CHECK(viewers.size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "a penalty stays at its limit, and a report sets it right") {
  redirect("1.1.1.1", ~0ULL - 5);
  redirect("1.1.1.1", 100);
  CHECK(penalty().bandwidth == ~0ULL);
  connect("", "", "1.1.1.1");
  viewers.settle(now, "n");
  CHECK(penalty().bandwidth == 100);
}

TEST_CASE_FIXTURE(Fixture, "who came counts until the next report, and the sums are what is told") {
  viewers.arrived("n", 30);
  redirect("1.1.1.1", 100);
  CHECK(penalty().bandwidth == 130);
  CHECK(viewers.pending_sums() == std::map<std::string, std::uint64_t>{{"n", 130}});
  viewers.settle(now, "n");
  CHECK(penalty().bandwidth == 100);
  viewers.forget("n");
  CHECK(viewers.pending_sums().empty());
  CHECK(viewers.size() == 0);
}

TEST_CASE_FIXTURE(Fixture, "the hundred thousandth viewer behind one address costs as the first") {
  auto began = Clock::now();
  for (int i = 0; i < 100'000; ++i) CHECK_UNARY(connect(redirect("1.1.1.1", 1), "", ""));
  for (int i = 0; i < 100'000; ++i) CHECK_UNARY(disconnect("", "1.1.1.1"));
  CHECK(Clock::now() - began < 5s);  // a search among them would take hours
  CHECK(penalty().bandwidth == 0);
}

TEST_CASE_FIXTURE(Fixture, "one who asks again and again does not make a node look busy") {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(redirect("1.1.1.1", 1));
  CHECK(ids.size() == 1000);
  CHECK(penalty().bandwidth == 32);
  CHECK(viewers.size() == 32);
  redirect("2.2.2.2", 1);
  CHECK(penalty().bandwidth == 33);
}

TEST_CASE("a viewer is expected to cost what others cost, within bounds") {
  CHECK(viewer_estimate(4 * 131072, 4) == 131072);
  CHECK(viewer_estimate(1, 100) == 65536);
  CHECK(viewer_estimate(1e12, 1) == 1048576);
  CHECK(viewer_estimate(0, 5) == 131072);
  CHECK(viewer_estimate(5, 0) == 131072);
}
