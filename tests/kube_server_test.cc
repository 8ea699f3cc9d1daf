// The client against a real API server.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <fstream>

#include "net/kube/access.h"
#include "net/kube/lease.h"
#include "net/kube/watcher.h"
#include "proof/testkit/faulty_link.h"
#include "tests/with_kube.h"

namespace warren::kube {

namespace {

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Runs body(admin, namespace).
template <class Body>
void with_space(Body body) {
  run(
      [](Body work) -> awaitable<void> {
        auto executor = co_await asio::this_coro::executor;
        Client admin(executor, access_of("admin"));
        auto space = co_await new_space(admin);
        co_await work(admin, space);
      }(body),
      300s);
}

awaitable<void> make_map(Client& client, std::string space, std::string name,
                         std::string value = "one") {
  Place place{kinds::config_maps, space};
  auto made = co_await client.create(std::move(place), config_map(name, value), soon());
  good(std::move(made));
}

}  // namespace

TEST_CASE("what is created is found, listed page by page, and gone after it was removed") {
  with_space([](Client& admin, std::string space) -> awaitable<void> {
    for (int i = 0; i < 5; ++i) co_await make_map(admin, space, fmt::format("m{}", i));
    Place all{kinds::config_maps, space};
    Place one{kinds::config_maps, space, "m3"};
    auto again = co_await admin.create(all, config_map("m3"), soon());
    REQUIRE(!again);
    CHECK(again.error().reason == Reason::already_exists);
    CHECK(again.error().code == Errc::held_elsewhere);
    auto read = good(co_await admin.get(one, soon()));
    CHECK(text_at(read, "/data/key") == "one");
    ClientTerms terms;
    terms.page = 2;
    auto executor = co_await asio::this_coro::executor;
    Client pages(executor, access_of("admin"), terms);
    Selection labelled{.labels = "app=test"};
    auto first = good(co_await pages.list(all, labelled, "", soon()));
    CHECK(first.items.size() == 2);
    CHECK(!first.next.empty());
    auto whole = good(co_await pages.list_all(all, labelled, soon()));
    CHECK(whole.items.size() == 5);
    Selection none{.labels = "app=other"};
    auto nothing = good(co_await pages.list_all(all, none, soon()));
    CHECK(nothing.items.empty());
    RemoveTerms usual;
    CHECK(good(co_await admin.remove(one, usual, soon())));
    CHECK(good(co_await admin.remove(one, usual, soon())));  // it is gone already
    auto gone = co_await admin.get(one, soon());
    REQUIRE(!gone);
    CHECK(gone.error().code == Errc::not_found);
  });
}

TEST_CASE("a change of what has changed, or is another one by now, is refused") {
  with_space([](Client& admin, std::string space) -> awaitable<void> {
    co_await make_map(admin, space, "m");
    Place place{kinds::config_maps, space, "m"};
    auto first = good(co_await admin.get(place, soon()));
    auto second = first;
    first.as_object()["data"].as_object()["key"] = "two";
    good(co_await admin.replace(place, first, soon()));
    auto late = co_await admin.replace(place, second, soon());
    REQUIRE(!late);
    CHECK(late.error().reason == Reason::conflict);
    CHECK(late.error().code == Errc::refused);
    RemoveTerms other{.uid = "11111111-1111-1111-1111-111111111111"};
    auto kept = co_await admin.remove(place, other, soon());
    REQUIRE(!kept);
    CHECK(kept.error().reason == Reason::conflict);
    RemoveTerms old{.version = std::string(version_of(second))};
    kept = co_await admin.remove(place, old, soon());
    REQUIRE(!kept);
    CHECK(kept.error().reason == Reason::conflict);
    RemoveTerms exact{.uid = std::string(uid_of(second))};
    CHECK(good(co_await admin.remove(place, exact, soon())));
  });
}

TEST_CASE("patches change what they name, and applied fields have an owner") {
  with_space([](Client& admin, std::string space) -> awaitable<void> {
    co_await make_map(admin, space, "m");
    Place place{kinds::config_maps, space, "m"};
    auto merged = good(
        co_await admin.patch(place, PatchKind::merge, object(R"({"data":{"other":"x"}})"), soon()));
    CHECK(text_at(merged, "/data/key") == "one");
    CHECK(text_at(merged, "/data/other") == "x");
    Object steps = json::parse(R"([{"op":"test","path":"/data/key","value":"wrong"},
                                   {"op":"remove","path":"/data/other"}])");
    auto tested = co_await admin.patch(place, PatchKind::json, steps, soon());
    REQUIRE(!tested);
    CHECK(tested.error().code == Errc::invalid);
    ClientTerms terms;
    terms.manager = "somebody";
    auto executor = co_await asio::this_coro::executor;
    Client other(executor, access_of("admin"), terms);
    auto ours = config_map("applied", "ours"), theirs = config_map("applied", "theirs");
    Place applied{kinds::config_maps, space, "applied"};
    good(co_await admin.apply(applied, ours, false, soon()));
    good(co_await admin.apply(applied, ours, false, soon()));
    auto refused = co_await other.apply(applied, theirs, false, soon());
    REQUIRE(!refused);
    CHECK(refused.error().reason == Reason::conflict);
    REQUIRE(!refused.error().causes.empty());
    CHECK(refused.error().causes[0].field == ".data.key");
    CHECK(refused.error().causes[0].message.contains("warren"));
    auto forced = good(co_await other.apply(applied, theirs, true, soon()));
    CHECK(text_at(forced, "/data/key") == "theirs");
    auto wrong = co_await admin.create(
        place,
        object(R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"dada":{}})"),
        soon());
    REQUIRE(!wrong);
    CHECK(wrong.error().code == Errc::invalid);  // a member that there is not
  });
}

TEST_CASE("a watch tells what there is, what changes and what goes, and up to where") {
  with_space([](Client& admin, std::string space) -> awaitable<void> {
    co_await make_map(admin, space, "before");
    Place place{kinds::config_maps, space};
    WatchTerms terms;
    terms.selection.labels = "app=test";
    terms.sends_initial_events = true;
    auto stream = good(co_await admin.watch(place, terms, soon()));
    auto next = [](WatchStream& from) -> awaitable<Change> {
      auto change = good(co_await from.next());
      REQUIRE(change);
      co_return *std::move(change);
    };
    auto seen = co_await next(*stream);
    CHECK(seen.type == Change::added);
    CHECK(name_of(seen.object) == "before");
    seen = co_await next(*stream);
    CHECK(seen.ends_initial());
    std::string version(version_of(seen.object));
    co_await make_map(admin, space, "after");
    seen = co_await next(*stream);
    CHECK(seen.type == Change::added);
    CHECK(name_of(seen.object) == "after");
    Place one{kinds::config_maps, space, "after"};
    good(co_await admin.patch(one, PatchKind::merge, object(R"({"data":{"key":"two"}})"), soon()));
    seen = co_await next(*stream);
    CHECK(seen.type == Change::modified);
    RemoveTerms usual;
    good(co_await admin.remove(one, usual, soon()));
    seen = co_await next(*stream);
    CHECK(seen.type == Change::removed);
    // From the version of the bookmark on everything is told once more, and the end comes in time.
    WatchTerms later;
    later.selection.labels = "app=test";
    later.version = version;
    later.time = 2s;
    auto again = good(co_await admin.watch(place, later, soon()));
    int changes = 0;
    for (;;) {
      auto change = good(co_await again->next());
      if (!change) break;
      if (change->type != Change::bookmark) ++changes;
    }
    CHECK(changes == 3);
  });
}

TEST_CASE("a watch from a version that is too old is refused as expired") {
  with_space([](Client& admin, std::string space) -> awaitable<void> {
    co_await make_map(admin, space, "m");
    Place place{kinds::config_maps, space};
    Place one{kinds::config_maps, space, "m"};
    auto read = good(co_await admin.get(one, soon()));
    good(co_await admin.patch(one, PatchKind::merge, object(R"({"data":{"key":"two"}})"), soon()));
    server().restart();
    WatchTerms terms;
    terms.version = version_of(read);
    terms.time = 10s;
    auto stream = co_await admin.watch(place, terms, soon());
    if (!stream) {
      CHECK(stream.error().reason == Reason::expired);
      co_return;
    }
    auto change = co_await (*stream)->next();
    REQUIRE(!change);
    CHECK(change.error().reason == Reason::expired);
  });
}

TEST_CASE(
    "a copy is right again after its line was cut and the server has forgotten what changed") {
  run(
      []() -> awaitable<void> {
        auto executor = co_await asio::this_coro::executor;
        Client admin(executor, access_of("admin"));
        auto space = co_await new_space(admin);
        co_await make_map(admin, space, "stays");
        co_await make_map(admin, space, "goes");
        FaultyLink link(server().port());
        Client through(executor, access_of("admin", link.port()));
        Place place{kinds::config_maps, space};
        WatchMachineTerms terms;
        terms.backoff.most = 1s;
        Watcher watcher(through, place, {.labels = "app=test"}, terms);
        std::vector<std::string> gone;
        watcher.on_difference([&gone](const Difference& difference) {
          if (!difference.after) gone.emplace_back(name_of(*difference.before));
        });
        auto body = [](TaskGroup& tasks, Client& by, Watcher& copy, std::string& in,
                       FaultyLink& line, std::vector<std::string>& lost) -> awaitable<bool> {
          tasks.start("test.watch", copy.run());
          co_await eventually(60s, "it has all",
                              [&] { return copy.is_synced() && copy.all().size() == 2; });
          CHECK(copy.counters().streamed_lists == 1);
          co_await make_map(by, in, "new");
          co_await eventually(60s, "it hears of a new one",
                              [&] { return copy.find("new").object != nullptr; });
          line.cut();
          Place going{kinds::config_maps, in, "goes"};
          RemoveTerms usual;
          good(co_await by.remove(going, usual, soon()));
          Place staying{kinds::config_maps, in, "stays"};
          good(co_await by.patch(staying, PatchKind::merge, object(R"({"data":{"key":"two"}})"),
                                 soon()));
          server().restart();
          line.heal();
          co_await eventually(120s, "it is right again", [&] {
            auto stays = copy.find("stays").object;
            return !copy.find("goes").object && stays && text_at(*stays, "/data/key") == "two";
          });
          CHECK(lost == std::vector<std::string>{"goes"});
          CHECK(copy.all().size() == 2);
          co_await make_map(by, in, "last");
          co_await eventually(60s, "it hears of changes again",
                              [&] { return copy.find("last").object != nullptr; });
          CHECK(copy.counters().failures > 0);
          co_return true;
        };
        co_await with_group(body, admin, watcher, space, link, gone);
      }(),
      300s);
}

TEST_CASE(
    "of two that look at a lease one has it, and the other one after it was released or left") {
  with_space([](Client& admin, std::string space) -> awaitable<void> {
    Place place{kinds::leases, space, "leader"};
    LeaseTimes times{.duration = 2s, .renew_within = 1s};
    LeaseKeeper one(admin, place, "one", times), two(admin, place, "two", times);
    CHECK(good(co_await one.look(soon())));
    CHECK(one.epoch() == 1);
    CHECK(!good(co_await two.look(soon())));
    CHECK(good(co_await one.look(soon())));
    CHECK(one.epoch() == 1);
    CHECK(good(co_await one.release(soon())));
    CHECK(!one.is_held(Clock::now()));
    CHECK(good(co_await two.look(soon())));
    CHECK(two.epoch() == 2);
    // It is left: nothing changes for its duration.
    auto takes = [](LeaseKeeper& by) -> awaitable<bool> {
      co_return good(co_await by.look(soon()));
    };
    co_await eventually(60s, "the first takes it over", takes, one);
    CHECK(one.epoch() == 3);
    CHECK(!two.is_held(Clock::now()));
  });
}

TEST_CASE("a role that lacks a verb is told before, and refused") {
  with_space([](Client& admin, std::string space) -> awaitable<void> {
    Place sets{kinds::stateful_sets, space};
    good(co_await admin.create(sets, stateful_set("fleet", 2), soon()));
    co_await allow(
        admin, space, "robot",
        R"([{"apiGroups":["apps"],"resources":["statefulsets/scale"],"verbs":["get"]}])");
    auto executor = co_await asio::this_coro::executor;
    Client robot(executor, access_of("robot"));
    Place scale{kinds::stateful_sets, space, "fleet", "scale"};
    std::vector<AccessQuestion> questions{{"get", scale}, {"patch", scale}};
    auto missing = good(co_await missing_rights(robot, questions, soon()));
    REQUIRE(missing.size() == 1);
    CHECK(missing[0] == fmt::format("patch statefulsets/fleet/scale in {}", space));
    auto read = good(co_await robot.get(scale, soon()));
    CHECK(number_at(read, "/spec/replicas", 0) == 2);
    auto change = object(R"({"spec":{"replicas":3}})");
    auto refused = co_await robot.patch(scale, PatchKind::merge, change, soon());
    REQUIRE(!refused);
    CHECK(refused.error().code == Errc::denied);
    CHECK(refused.error().reason == Reason::forbidden);
    auto scaled = good(co_await admin.patch(scale, PatchKind::merge, change, soon()));
    CHECK(number_at(scaled, "/spec/replicas", 0) == 3);
  });
}

TEST_CASE("a token that is rewritten is read again when the server refuses the old one") {
  with_space([](Client&, std::string space) -> awaitable<void> {
    TempFolder folder;
    auto file = folder.path() / "token";
    std::ofstream(file) << "nobody's\n";
    auto access = access_by(server().kubeconfig_with("{tokenFile: " + file.string() + "}"));
    auto executor = co_await asio::this_coro::executor;
    Client client(executor, std::move(access));
    Place place{kinds::namespaces, "", space};
    auto refused = co_await client.get(place, soon());
    REQUIRE(!refused);
    CHECK(refused.error().reason == Reason::unauthorized);
    CHECK(!refused.error().what.contains("nobody"));
    std::ofstream(file) << KubeServer::token_of("admin") << "\n";
    auto is_known = [](Client& by, Place& what) -> awaitable<bool> {
      auto read = co_await by.get(what, soon());
      co_return read.has_value();
    };
    co_await eventually(30s, "it is known", is_known, client, place);
  });
}

TEST_CASE("a certificate of ours says who we are, and one of theirs must be of the right name") {
  with_space([](Client& admin, std::string space) -> awaitable<void> {
    const auto& pair = server().certificates().client();  // of the user "client"
    co_await allow(admin, space, "client",
                   R"([{"apiGroups":[""],"resources":["configmaps"],"verbs":["list"]}])");
    auto access = access_by(
        server().kubeconfig_with(fmt::format("{{client-certificate: {}, client-key: {}}}",
                                             pair.certificate.string(), pair.key.string())));
    access.login.certificate = {contents(pair.certificate)};
    access.login.key = {contents(pair.key)};
    auto executor = co_await asio::this_coro::executor;
    Client client(executor, access);
    Place place{kinds::config_maps, space};
    Selection all;
    CHECK(good(co_await client.list_all(place, all, soon())).items.empty());
    auto denied = co_await client.create(place, config_map("m"), soon());
    REQUIRE(!denied);
    CHECK(denied.error().what.contains("\"client\""));
    access.tls_name = "elsewhere";
    Client misled(executor, access);
    auto unknown = co_await misled.list_all(place, all, soon());
    REQUIRE(!unknown);
    CHECK(unknown.error().code == Errc::denied);
    access.tls_name = "localhost";
    Client named(executor, access);
    CHECK((co_await named.list_all(place, all, soon())).has_value());
  });
}

TEST_CASE("a plugin is run once for as long as what it gave lasts") {
  with_space([](Client&, std::string space) -> awaitable<void> {
    TempFolder folder;
    auto program = folder.path() / "login";
    std::ofstream(program) << fmt::format(
        "#!/bin/sh\necho run >>{0}/runs\necho \"$KUBERNETES_EXEC_INFO\" >{0}/asked\n"
        "cat {0}/answer\n",
        folder.path().string());
    chmod(program.c_str(), 0700);
    auto answer = [&](const std::string& token, const char* expires) {
      std::ofstream(folder.path() / "answer") << fmt::format(
          R"({{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",
              "status":{{"token":"{}","expirationTimestamp":"{}"}}}})",
          token, expires);
    };
    answer(KubeServer::token_of("admin"), "2999-01-01T00:00:00Z");
    auto access = access_by(server().kubeconfig_with(
        fmt::format("{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: {}, "
                    "provideClusterInfo: true}}}}",
                    program.string())));
    auto executor = co_await asio::this_coro::executor;
    Client client(executor, access);
    Place place{kinds::namespaces, "", space};
    for (int i = 0; i < 3; ++i) good(co_await client.get(place, soon()));
    CHECK(contents(folder.path() / "runs") == "run\n");
    auto asked = object(contents(folder.path() / "asked"));
    CHECK(text_at(asked, "/spec/cluster/server") == access.url);
    CHECK(!text_at(asked, "/spec/cluster/certificate-authority-data").empty());
    answer(KubeServer::token_of("admin"), "2001-01-01T00:00:00Z");
    Client hasty(executor, access);
    for (int i = 0; i < 3; ++i) good(co_await hasty.get(place, soon()));
    CHECK(contents(folder.path() / "runs") == "run\nrun\nrun\nrun\n");
    std::ofstream(program) << "#!/bin/sh\necho you shall not pass >&2\nexit 3\n";
    Client refused(executor, access);
    auto why = co_await refused.get(place, soon());
    REQUIRE(!why);
    CHECK(why.error().what.contains("you shall not pass"));
  });
}

TEST_CASE("a server that is silent is given up at the deadline, and asked again") {
  with_space([](Client& admin, std::string space) -> awaitable<void> {
    Place place{kinds::namespaces, "", space};
    server().pause();
    auto late = co_await admin.get(place, Clock::now() + 300ms);
    server().resume();
    REQUIRE(!late);
    CHECK(late.error().code == Errc::timeout);
    good(co_await admin.get(place, soon()));
  });
}

}  // namespace warren::kube
