#include "tests/fleet_real/scene.h"

#include <algorithm>
#include <sstream>

#include "tests/with_etcd_catalog.h"
#include "tests/with_postgres_catalog.h"
#include "tests/with_redis_catalog.h"

namespace warren::fleet {

namespace {

template <class Place>
class PlacedServer : public CatalogServer {
 public:
  std::string name() const override { return Place::name; }
  std::string url() const override {
    if constexpr (std::is_same_v<Place, RedisPlace>)
      return "redis://" + place_.server.address();
    else
      return place_.server.url();
  }
  unsigned short port() const override { return place_.port(); }
  void restart() override { place_.restart(); }
  void pause() override { place_.pause(); }
  void resume() override { place_.resume(); }
  std::uint64_t rows_changed() override { return place_.rows_changed(); }
  bool epochs_are_times() const override { return !std::is_same_v<Place, EtcdPlace>; }

 private:
  Place place_;
};

// The same, at another port of this machine.
std::string at_port(std::string url, unsigned short there, unsigned short here) {
  auto old = fmt::format(":{}", there);
  url.replace(url.rfind(old), old.size(), fmt::format(":{}", here));
  return url;
}

std::string own_path() {
  const char* path = std::getenv("PATH");
  return path ? path : "/usr/local/bin:/usr/bin:/bin";
}

}  // namespace

std::unique_ptr<CatalogServer> CatalogServer::start(const std::string& engine) {
  if (engine == "postgres") return std::make_unique<PlacedServer<PostgresPlace>>();
  if (engine == "etcd") return std::make_unique<PlacedServer<EtcdPlace>>();
  REQUIRE(engine == "redis");
  return std::make_unique<PlacedServer<RedisPlace>>();
}

Scene::Member::Member(std::string called, fs::path logs, const CatalogServer& rows,
                      unsigned short git_port)
    : name(std::move(called)),
      log(std::move(logs)),
      endpoint(port.number()),
      catalog(rows.port()),
      git(git_port) {}

Scene::Scene(const Corpus& corpus, SceneTerms terms)
    : corpus_(corpus), terms_(std::move(terms)), catalog_(CatalogServer::start(terms_.engine)) {
  corpus_.write(git_.repositories().folder() / "repos");
  for (const auto& repo : corpus_.repos()) {
    names_.push_back(url_of(git_.url("open/" + repo.name)).repo_id());
    places_.emplace(names_.back(), places_.size());
  }
}

Scene::~Scene() = default;

std::vector<std::string> Scene::node_words(const std::string& name,
                                           const std::string& mirrors) const {
  std::vector<std::string> words{"fleet",
                                 "node",
                                 "--name",
                                 name,
                                 "--ttl",
                                 fmt::format("{}ms", terms_.ttl.count()),
                                 "--poll",
                                 fmt::format("{}ms", terms_.poll.count()),
                                 "--budget",
                                 std::to_string(terms_.budget_bytes),
                                 "--allow-http",
                                 "--mirrors",
                                 (folder_.path() / mirrors).string()};
  words.insert(words.end(), terms_.node_words.begin(), terms_.node_words.end());
  return words;
}

Scene::Member& Scene::start_node(const std::string& name) {
  auto log = folder_.path() / (name + ".log");
  auto git_port =
      static_cast<unsigned short>(std::stoi(git_.host().substr(git_.host().rfind(':') + 1)));
  auto member = std::make_unique<Member>(name, log, *catalog_, git_port);
  auto bin = folder_.path() / ("bin-" + name);
  fs::create_directories(bin);
  write(bin / "git", fmt::format("#!/bin/sh\nexec env PATH='{}' git "
                                 "-c url.http://127.0.0.1:{}/.insteadOf=http://{}/ \"$@\"\n",
                                 own_path(), member->git.port(), git_.host()));
  fs::permissions(bin / "git", fs::perms::owner_all);
  auto words = node_words(name, "mirrors-" + name);
  for (const auto& word :
       {std::string("--port"), std::to_string(member->port.number()), std::string("--endpoint"),
        fmt::format("http://127.0.0.1:{}", member->endpoint.port())})
    words.push_back(word);
  auto catalog = at_port(catalog_->url(), catalog_->port(), member->catalog.port());
  member->process = std::make_unique<Process>(
      program(std::move(words), log,
              {"FLEET_CATALOG=" + catalog, "PATH=" + bin.string() + ":" + own_path()}));
  return *(members_[name] = std::move(member));
}

Program Scene::apart(const std::string& name, const CatalogPlace& catalog) const {
  auto whole = catalog.prefix + name;
  return program(node_words(name, "mirrors-" + whole), folder_.path() / (whole + ".log"),
                 {"FLEET_CATALOG=" + catalog.url, "FLEET_PREFIX=" + catalog.prefix});
}

void Scene::start_router(std::size_t number) {
  auto& router = routers_[number];
  router.process = std::make_unique<Process>(
      program({"fleet", "router", "--port", std::to_string(router.port.number())},
              folder_.path() / fmt::format("router{}.log", number), {}));
}

std::string Scene::router_url(std::size_t number) const {
  return fmt::format("http://127.0.0.1:{}", routers_.at(number).port.number());
}

std::size_t Scene::lives_of(const std::string& name) const {
  auto log = contents(members_.at(name)->log);
  std::size_t count = 0;
  for (auto at = log.find(" catalog.joined "); at != log.npos;
       at = log.find(" catalog.joined ", at + 1))
    ++count;
  return count;
}

std::vector<std::string> Scene::living() const {
  std::vector<std::string> names;
  for (const auto& [name, member] : members_)
    if (member->process->alive()) names.push_back(name);
  return names;
}

std::uint64_t Scene::bytes_of(const std::set<std::string>& repos) const {
  std::uint64_t sum = 0;
  for (const auto& repo : repos) sum += corpus_.repos()[place_of(repo)].bytes;
  return sum;
}

void Scene::add(const std::set<std::string>& repos) const {
  auto list = folder_.path() / "repos";
  std::ofstream out(list);
  for (const auto& repo : repos)
    out << git_.url("open/" + corpus_.repos()[place_of(repo)].name) << '\n';
  out.close();
  auto said = run({"fleet", "repo", "add", "--from", list.string()});
  REQUIRE_MESSAGE(said.first == 0, said.second);
}

std::pair<int, std::string> Scene::run(const std::vector<std::string>& words) const {
  auto log = folder_.path() / "said";
  fs::remove(log);
  Process process(program(words, log, {}));
  int code = process.wait(120s);
  return {code, contents(log)};
}

Program Scene::program(std::vector<std::string> words, fs::path log,
                       std::vector<std::string> environment) const {
  words.insert(words.begin(), WARREN_BINARY);
  // The first of two equal names counts.
  for (const std::string& variable :
       {"HOME=" + folder_.path().string(), std::string("FLEET_TOKEN=mangrove"),
        "FLEET_CATALOG=" + catalog_->url(), std::string("WARREN_LOG_LEVEL=info,fleet=debug")})
    environment.push_back(variable);
  return {std::move(words), std::move(log), std::move(environment)};
}

std::vector<Scene::Clone> Scene::clones() const {
  std::map<std::string, std::string> by_host;
  for (const auto& [name, member] : members_)
    by_host.emplace(fmt::format("127.0.0.1:{}", member->git.port()), name);
  std::vector<Clone> clones;
  for (const auto& line : git_.requests()) {
    // fetch /open/r3/git-upload-pack 127.0.0.1:20123 -
    std::istringstream in(line);
    std::string kind, path, host;
    in >> kind >> path >> host;
    auto node = by_host.find(host);
    if (kind != "fetch" || node == by_host.end()) continue;
    auto name = path.substr(6, path.find('/', 6) - 6);
    clones.push_back({node->second, names_.at(std::stoul(name.substr(1)))});
  }
  return clones;
}

}  // namespace warren::fleet
