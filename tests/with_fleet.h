#pragma once
// A small fleet in one process: a catalog on a real Redis, repositories made by git, nodes, a router.
#include <doctest/doctest.h>

#include <deque>
#include <filesystem>
#include <list>

#include "search/source/test_repository.h"
#include "services/fleet/node/node.h"
#include "services/fleet/router/router.h"
#include "tests/with_redis_catalog.h"

namespace warren::fleet {

// Repositories under one folder, each with a few files: r0 has the word apple in three lines, …
struct Orchard {
  explicit Orchard(int count) {
    for (int i = 0; i < count; ++i) {
      auto& repository = repositories.emplace_back();
      for (int k = 0; k < 3; ++k)
        repository.write(fmt::format("src/f{}.c", k),
                         fmt::format("int apple_{0}_{1}(void);\n// tree {0}\nint x{1};\n", i, k));
      repository.commit();
    }
  }
  std::string url(int place) const { return repositories[static_cast<std::size_t>(place)].path; }
  std::vector<std::filesystem::path> folders() const {
    std::vector<std::filesystem::path> all;
    for (const auto& repository : repositories) all.push_back(repository.path);
    return all;
  }
  using Repository = search::Repository;
  std::deque<Repository> repositories;
};

// One that runs until it is stopped.
template <class Part>
struct Running {
  Running(const asio::any_io_executor& executor, std::unique_ptr<Part> what)
      : part(std::move(what)), tasks(executor) {
    tasks.start("test.part", part->run());
  }
  awaitable<void> stop() {
    tasks.stop();
    co_await tasks.join();
  }
  std::unique_ptr<Part> part;
  TaskGroup tasks;
};

struct Fleet {
  Fleet(const asio::any_io_executor& on, Catalog& kept_in, const Orchard& trees)
      : executor(on), catalog(kept_in), orchard(trees) {}

  NodeSettings node_settings(const std::string& name, std::chrono::milliseconds ttl = 5s) const {
    NodeSettings settings;
    settings.lease = {name, ttl};
    settings.rules.folders = orchard.folders();
    settings.fetching.mirrors.folder = mirrors.path() / "mirrors";
    settings.fetching.mirrors.remote.rules = settings.rules;
    settings.shelf.budget_bytes = 256u << 20;
    settings.poll = 500ms;
    settings.look = 100ms;
    settings.with_symbols = false;
    return settings;
  }
  Running<FleetNode>& start_node(NodeSettings settings) {
    auto node = FleetNode::create(executor, catalog, std::move(settings), metrics);
    REQUIRE_MESSAGE(node, (node ? "" : node.error().what));
    return nodes.emplace_back(executor, *std::move(node));
  }
  Router& start_router() {
    RouterSettings settings;
    settings.look = 100ms;
    return start_router(std::move(settings));
  }
  Router& start_router(RouterSettings settings) {
    auto router = Router::create(executor, catalog, std::move(settings), metrics);
    REQUIRE(router);
    routers.emplace_back(executor, *std::move(router));
    return *routers.back().part;
  }
  awaitable<void> add(int first, int last, int replicas = 1) {
    std::vector<Row> rows;
    for (int i = first; i < last; ++i) {
      RepoSpec spec{.url = orchard.url(i)};
      spec.replicas = replicas;
      for (int slot = 0; slot < replicas; ++slot)
        rows.push_back({.key = row_key(name_of(i), slot), .spec = to_json(spec)});
    }
    auto added = co_await catalog.add(std::move(rows), Clock::now() + 20s);
    REQUIRE(added);
  }
  std::string name_of(int place) const { return fmt::format("r{}", place); }
  awaitable<void> stop() {
    for (auto& router : routers) co_await router.stop();
    for (auto& node : nodes) co_await node.stop();
  }

  asio::any_io_executor executor;
  Catalog& catalog;
  const Orchard& orchard;
  TempFolder mirrors;
  Metrics metrics;
  std::list<Running<FleetNode>> nodes;
  std::list<Running<Router>> routers;
};

inline SearchAsk ask_for(std::string query) {
  SearchAsk ask;
  ask.query = std::move(query);
  ask.timeout = 20s;
  return ask;
}

// Everything is answered, and this many files are found.
inline awaitable<Result<>> finds(Router& router, std::string query, std::size_t files) {
  std::vector<Missing> missing;
  auto answer = co_await router.search(ask_for(std::move(query)), missing);
  if (!answer) co_return std::unexpected(answer.error());
  if (!missing.empty())
    co_return fail(Errc::unavailable, "{} is missing: {} {}", missing[0].repo, missing[0].reason,
                   missing[0].detail);
  if (answer->files.size() != files)
    co_return fail(Errc::not_found, "{} files instead of {}", answer->files.size(), files);
  co_return ok;
}

// Runs body(fleet) with a catalog, and stops everything however that ends.
template <class Body>
void with_fleet(const Orchard& orchard, Body body) {
  RedisPlace place;
  run(
      [](RedisPlace& where, const Orchard& trees, Body work) -> awaitable<void> {
        auto catalog = co_await where.open();
        REQUIRE(catalog);
        std::exception_ptr thrown;
        {
          Fleet fleet(co_await asio::this_coro::executor, **catalog, trees);
          try {
            co_await work(fleet, where);
          } catch (...) {
            thrown = std::current_exception();
          }
          co_await fleet.stop();
        }
        co_await (*catalog)->close();
        if (thrown) std::rethrow_exception(thrown);
      }(place, orchard, std::move(body)),
      240s);
}

}  // namespace warren::fleet
