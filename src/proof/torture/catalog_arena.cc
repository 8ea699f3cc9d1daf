#include "proof/torture/catalog_arena.h"

#include <fmt/format.h>

#include "proof/testkit/servers/etcd_server.h"
#include "proof/testkit/servers/postgres_server.h"

namespace warren::torture {

namespace {

// The links of the workers, and faults that any server may have.
template <class Server>
class OneServer : public LinkedPlace {
 public:
  explicit OneServer(const LinkedPlaceOptions& options) : ttl_(options.ttl) {
    for (std::size_t i = 0; i < options.workers; ++i)
      links_.push_back(std::make_unique<FaultyLink>(server_.port()));
  }

 protected:
  unsigned short port(std::size_t worker) const { return links_[worker]->port(); }
  Clock::duration some_time(Random& random) const {
    static const std::vector<double> parts{0.1, 0.5, 0.99, 1.01, 2};
    return std::chrono::duration_cast<Clock::duration>(ttl_ * random.one_of(parts));
  }
  Fault pause(Random& random) {
    server_.pause();
    return {"server paused", some_time(random), [this] { server_.resume(); }};
  }
  Fault kill(Random& random) {
    server_.kill();
    return {"server killed", some_time(random), [this] { server_.restart(); }};
  }
  Fault restart() {
    server_.restart();
    return {"server restarted", 0ms, [] {}};
  }
  Fault any_link(Random& random) {
    auto& link = *links_[random.below(links_.size())];
    return link_fault(link, some_time(random), random);
  }
  void heal_links() {
    for (auto& link : links_) link->heal();
  }

  Server server_;
  Clock::duration ttl_;

 private:
  std::vector<std::unique_ptr<FaultyLink>> links_;
};

class PostgresPlace : public OneServer<PostgresServer> {
 public:
  using OneServer::OneServer;
  std::string name() const override { return "PostgreSQL"; }
  std::string url(std::size_t worker) const override {
    return fmt::format("postgres://warren@127.0.0.1:{}/warren", port(worker));
  }
  Fault begin_fault(Random& random) override {
    switch (random.below(8)) {
      case 0:
        return pause(random);
      case 1:
        return kill(random);
      case 2:
        return restart();
      case 3:
        server_.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'warren'");
        return {"connections killed", 0ms, [] {}};
      case 4:
        return held_lock(random);
      default:
        return any_link(random);
    }
  }
  void settle() override {
    heal_links();
    server_.query("SELECT 1");
  }

 private:
  // A session locks a row for a long time, so a write to it waits, and commits late.
  Fault held_lock(Random& random) {
    auto session = std::make_shared<PostgresSession>(server_.connect());
    auto row = random.below(6);
    auto held = session->try_query(
        fmt::format("BEGIN; SELECT 1 FROM torture_catalog WHERE key = 'r{}' FOR UPDATE", row), 1s);
    return {held ? "row locked" : "row not locked", some_time(random),
            [session]() mutable { session.reset(); }};
  }
};

class EtcdPlace : public OneServer<EtcdServer> {
 public:
  using OneServer::OneServer;
  std::string name() const override { return "etcd"; }
  std::string url(std::size_t worker) const override {
    return fmt::format("etcd://127.0.0.1:{}", port(worker));
  }
  Fault begin_fault(Random& random) override {
    switch (random.below(7)) {
      case 0:
        return pause(random);
      case 1:
        return kill(random);
      case 2:
        return restart();
      case 3:
        return compaction();
      default:
        return any_link(random);
    }
  }
  void settle() override {
    heal_links();
    server_.revision();
  }

 private:
  // A follower of the changes that is behind has to read everything.
  Fault compaction() {
    auto done = server_.try_ctl({"compact", std::to_string(server_.revision())});
    return {done ? "history compacted" : "history not compacted", 0ms, [] {}};
  }
};

}  // namespace

std::optional<CatalogEngine> parse_engine(std::string_view name) {
  if (name == "redis") return CatalogEngine::redis;
  if (name == "postgres") return CatalogEngine::postgres;
  if (name == "etcd") return CatalogEngine::etcd;
  return std::nullopt;
}

std::unique_ptr<LinkedPlace> make_postgres_place(const LinkedPlaceOptions& options) {
  return std::make_unique<PostgresPlace>(options);
}

std::unique_ptr<LinkedPlace> make_etcd_place(const LinkedPlaceOptions& options) {
  return std::make_unique<EtcdPlace>(options);
}

}  // namespace warren::torture
