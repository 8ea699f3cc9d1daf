#pragma once
// A fleet of processes that can be hurt: nodes with mirrors of their own, two routers, a catalog, and a
// git server that counts.
//
//   router ── endpoint link ──> node ── catalog link ──> Redis, PostgreSQL or etcd
//                                    ── git link ──────> git server          each can be cut, one way
//
// A node's git is told by its $PATH to go over the node's link, so that the server's record of requests
// says who asked.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "primitives/catalog/open.h"
#include "proof/testkit/faulty_link.h"
#include "tests/fleet_real/corpus.h"
#include "tests/with_git_server.h"

namespace warren::fleet {

// A real server of one engine.
class CatalogServer {
 public:
  virtual ~CatalogServer() = default;
  virtual std::string name() const = 0;
  virtual std::string url() const = 0;
  virtual unsigned short port() const = 0;
  virtual void restart() = 0;
  virtual void pause() = 0;
  virtual void resume() = 0;
  // How often a row was written, by the server's own count.
  virtual std::uint64_t rows_changed() = 0;
  // An epoch has the moment of its grant in it, in microseconds.
  virtual bool epochs_are_times() const { return true; }

  static std::unique_ptr<CatalogServer> start(const std::string& engine);
};

struct SceneTerms {
  std::string engine = "redis";
  std::chrono::milliseconds ttl = 5s;
  std::chrono::milliseconds poll = 5s;
  std::uint64_t budget_bytes = 512u << 20;
  std::vector<std::string> node_words = {};  // more of the command line
};

class Scene {
 public:
  Scene(const Corpus& corpus, SceneTerms terms);
  ~Scene();

  struct Member {
    std::string name;
    fs::path log;
    Port port;
    FaultyLink endpoint, catalog, git;
    std::unique_ptr<Process> process;
    Member(std::string called, fs::path logs, const CatalogServer& rows, unsigned short git_port);
  };
  Member& start_node(const std::string& name);
  Member& member(const std::string& name) { return *members_.at(name); }
  // How often it has joined the catalog, by its log.
  std::size_t lives_of(const std::string& name) const;
  std::vector<std::string> living() const;  // names of nodes whose process is there
  void start_router(std::size_t number);
  Process& router(std::size_t number) { return *routers_.at(number).process; }
  std::string router_url(std::size_t number) const;

  CatalogServer& catalog() { return *catalog_; }
  GitServer& git() { return git_; }
  const Corpus& corpus() const { return corpus_; }
  const SceneTerms& terms() const { return terms_; }
  // As the catalog has them, in the order of the corpus; and back.
  const std::vector<std::string>& names() const { return names_; }
  std::size_t place_of(const std::string& repo) const { return places_.at(repo); }
  std::uint64_t bytes_of(const std::set<std::string>& repos) const;
  // Adds these of the corpus, as a user does.
  void add(const std::set<std::string>& repos) const;
  std::pair<int, std::string> run(const std::vector<std::string>& words) const;

  // Who asked the git server for which repository, since the beginning. Whoever asks without a link of
  // ours is not counted.
  struct Clone {
    std::string node, repo;
  };
  std::vector<Clone> clones() const;
  const std::map<std::string, std::unique_ptr<Member>>& members() const { return members_; }

  // Nodes of another fleet, with a catalog and mirrors of their own, for what is measured alone.
  Program apart(const std::string& name, const CatalogPlace& catalog) const;
  const fs::path& folder() const { return folder_.path(); }

 private:
  struct RouterProcess {
    Port port;
    std::unique_ptr<Process> process = {};
  };
  std::vector<std::string> node_words(const std::string& name, const std::string& mirrors) const;
  Program program(std::vector<std::string> words, fs::path log,
                  std::vector<std::string> environment) const;

  TempFolder folder_;
  const Corpus& corpus_;
  SceneTerms terms_;
  std::unique_ptr<CatalogServer> catalog_;
  GitServer git_;
  std::vector<std::string> names_;
  std::map<std::string, std::size_t> places_;
  std::map<std::string, std::unique_ptr<Member>> members_;
  std::map<std::size_t, RouterProcess> routers_;
};

}  // namespace warren::fleet
