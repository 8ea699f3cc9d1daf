// Cluster a shares one tenant with its peer b, and b wants the viewers of the others, too.
#include "services/foghorn/http/surface.h"
#include "with_federations.h"

using namespace warren;

namespace {

foghorn::StreamReport stream_of(std::string tenant, std::string playback_id) {
  auto stream = live(std::move(tenant));
  stream.playback_id = std::move(playback_id);
  return stream;
}

// An edge of a without free processor time and memory: every edge of b scores more.
void report_busy(Member& member, std::map<std::string, foghorn::StreamReport> streams) {
  report(member, "a-edge", std::move(streams), true);
  foghorn::NodeReport busy;
  busy.cpu_tenths = 1000;
  busy.ram_current = 32e9;
  REQUIRE(member.cluster->report("a-edge", busy));
}

// What b has, under tenants of its choice. All of it can be pulled from there.
std::map<std::string, foghorn::StreamReport> lures() {
  return {{"lion", stream_of("acme", "pb-lion")},   // zoo's, and live in a
          {"seal", stream_of("acme", "pb-seal")},   // zoo's, and over in a
          {"bear", stream_of("acme", "pb-bear")},   // nobody's, and live in a
          {"pony", stream_of("acme", "pb-pony")},   // acme's, in both
          {"wolf", stream_of("acme", "pb-wolf")}};  // acme's, and in b alone
}

awaitable<HttpAnswer> answer_to(foghorn::Surface& surface, std::string target) {
  auto question = target.find('?');
  auto path = target.substr(0, question);
  auto query = question == target.npos ? "" : target.substr(question + 1);
  HttpRequest request{.method = "GET", .path = path, .query = query};
  request.client = asio::ip::make_address("127.0.0.1");
  HttpAnswer answer;
  auto work = surface.answer(request, answer);
  if (work) co_await *std::move(work);
  co_return answer;
}

bool leads_to_b(const HttpAnswer& answer) {
  return (answer.headers + answer.body).contains("b.example") ||
         (answer.headers + answer.body).contains("b-edge");
}

// Every route on which a viewer or a media server asks for a stream.
std::vector<std::string> ways_to(const std::string& stream) {
  return {"/" + stream,
          "/live+" + stream,
          "/" + stream + "?proto=https",
          "/?source=" + stream,
          "/?source=live%2B" + stream + "&redirect=1",
          "/play/" + stream,
          "/play/" + stream + "/dtsc",
          "/play/pb-" + stream,
          "/play/pb-" + stream + "/dtsc",
          "/resolve/" + stream,
          "/resolve/pb-" + stream};
}

bool is_lured(Member& member) {
  auto now = Clock::now();
  const auto& view = member.federation->view();
  for (const auto& [stream, said] : lures())
    if (view.ads(now, stream).empty()) return false;
  return view.telemetry(now, "b", "b-edge") != nullptr;
}

struct Visit {
  explicit Visit(Member& of) : surface({{of.cluster.get(), of.federation.get()}}, metrics, {}) {}
  Metrics metrics;
  foghorn::Surface surface;
};

}  // namespace

TEST_CASE("a peer gets no viewer of a tenant that is not shared with it, whatever it advertises") {
  Neighbours how;
  how.tenants_of_a = {"acme"};
  auto body = [](Members& a, Members& b, RedisServer& ra, RedisServer&) -> awaitable<void> {
    report_busy(*a[0], {{"seal", stream_of("zoo", "pb-seal")}});
    report_busy(*a[0], {{"lion", stream_of("zoo", "pb-lion")},
                        {"bear", stream_of("", "pb-bear")},
                        {"pony", stream_of("acme", "pb-pony")}});
    report(*b[0], "b-edge", lures(), true);
    for (auto& member : a) {
      auto both = [](Member& m) {
        return is_lured(m) && m.cluster->node("a-edge") && m.cluster->stream("pony") &&
               m.cluster->stream("lion") && m.cluster->stream("seal") && m.cluster->stream("bear");
      };
      co_await eventually(30s, "it knows of a's streams, and of b's", both, *member);
    }
    for (auto& member : a) {
      Visit visit(*member);
      for (std::string stream : {"lion", "seal", "bear"})
        for (const auto& way : ways_to(stream)) {
          CAPTURE(way);
          auto answer = co_await answer_to(visit.surface, way);
          CHECK_MESSAGE(!leads_to_b(answer), answer.status, " ", answer.headers, answer.body);
        }
      CHECK((co_await answer_to(visit.surface, "/seal")).body == "localhost");
      CHECK(!member->federation->ingested_at("lion"));
      CHECK(!member->federation->source_of("seal"));
      // What is shared goes to b as before: the lures work.
      for (std::string way : {"/pony", "/play/pony/dtsc", "/play/pb-pony", "/?source=wolf"}) {
        CAPTURE(way);
        auto answer = co_await answer_to(visit.surface, way);
        CHECK_MESSAGE(leads_to_b(answer), answer.status, " ", answer.headers, answer.body);
      }
      CHECK(member->federation->ingested_at("wolf") == "b");
    }
    CHECK(ra.cli({"KEYS", "*active_replications*"}).empty());  // nor is it pulled from there
  };
  with_federations(how, body);
}

TEST_CASE("a peer without limits is believed, unless it names another tenant") {
  auto body = [](Members& a, Members& b, RedisServer&, RedisServer&) -> awaitable<void> {
    report_busy(*a[0], {{"lion", stream_of("zoo", "pb-lion")}, {"pony", stream_of("acme", "")}});
    report(*b[0], "b-edge",
           {{"lion", stream_of("acme", "pb-lion")}, {"pony", live("")}, {"wolf", live("zoo")}});
    for (auto& member : a) {
      auto both = [](Member& m) {
        return knows(m, "lion") && knows(m, "pony") && knows(m, "wolf") &&
               m.federation->view().telemetry(Clock::now(), "b", "b-edge") &&
               m.cluster->stream("pony");
      };
      co_await eventually(30s, "it knows of a's streams, and of b's", both, *member);
      Visit visit(*member);
      CHECK(!leads_to_b(co_await answer_to(visit.surface, "/lion")));
      CHECK(leads_to_b(co_await answer_to(visit.surface, "/pony")));
      CHECK(leads_to_b(co_await answer_to(visit.surface, "/wolf")));
    }
  };
  with_federations({}, body);
}

TEST_CASE("what Redis says of a peer counts no more than what the peer itself may say") {
  Neighbours how;
  how.tenants_of_a = {"acme"};
  how.terms.reload_interval = 100ms;
  auto body = [](Members& a, Members&, RedisServer& ra, RedisServer&) -> awaitable<void> {
    co_await eventually(20s, "the channel is open", [&] { return is_connected(a); });
    auto& follower = a[0]->federation->is_leader() ? *a[1] : *a[0];
    auto write = [&](const std::string& peer, const std::string& clip, const std::string& tenant) {
      federation::RemoteArtifact artifact{clip, "clip", tenant, "b-edge", "https://b-edge.example"};
      auto record = federation::record_of({"", WallClock::now()}, peer, artifact);
      ra.cli({"SET", federation::key_of("a", record), record.value, "PX", "60000"});
    };
    write("b", "clip-acme", "acme");
    write("b", "clip-zoo", "zoo");
    write("b", "clip-nobody", "");
    write("stranger", "clip-acme-2", "acme");
    std::vector<std::string> clips{"clip-acme", "clip-zoo", "clip-nobody", "clip-acme-2"};
    for (const auto& clip : clips)
      co_await eventually(10s, "it is known", [&] {
        return !follower.federation->view().artifacts(Clock::now(), clip).empty();
      });
    Visit visit(follower);
    for (const auto& clip : clips) {
      CAPTURE(clip);
      auto answer = co_await answer_to(visit.surface, "/play/" + clip + "/hls");
      CHECK(answer.status == (clip == "clip-acme" ? 307 : 404));
      CHECK(leads_to_b(answer) == (clip == "clip-acme"));
    }
  };
  with_federations(how, body);
}
