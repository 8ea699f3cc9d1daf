// warren doctor: checks whether this machine and its Redis are fit for Warren, and says how to fix
// what is not.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <boost/json.hpp>
#include <charconv>
#include <cstdio>

#include "cli/cli.h"
#include "cli/redis/survey.h"
#include "search/source/git.h"

namespace warren::cli {

namespace {

enum class Mark { ok, warn, fail };
const char* name_of(Mark mark) {
  switch (mark) {
    case Mark::ok:
      return "ok";
    case Mark::warn:
      return "warn";
    case Mark::fail:
      return "fail";
  }
  std::abort();
}

struct Finding {
  std::string name;
  Mark mark;
  std::string found;
  std::string mend;  // empty if there is nothing to fix
};
using Findings = std::vector<Finding>;

// The first line that a program prints about itself, or nullopt if it is not installed. A shell may
// run the command, because it is ours, not the user's.
std::optional<std::string> first_line_of(const std::string& command) {
  FILE* pipe = popen(("timeout 5 " + command + " 2>/dev/null").c_str(), "r");
  if (!pipe) return std::nullopt;
  char line[200] = "";
  bool said = std::fgets(line, sizeof line, pipe);
  bool ended_well = pclose(pipe) == 0;
  if (!said || !ended_well) return std::nullopt;
  std::string text = line;
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

void check_installed(Findings& findings) {
  if (auto server = first_line_of("redis-server --version")) {
    auto version = server->substr(server->find("v=") + 2);
    findings.push_back(
        {"redis-server", Mark::ok, "installed, " + version.substr(0, version.find(' ')), ""});
  } else {
    findings.push_back({"redis-server", Mark::warn, "not installed",
                        "apt install redis-server, if a Redis is to run on this machine"});
  }
  auto git = run_child(search::child_of(git::version_command()), "", 1u << 10);
  if (git) {
    auto line = git->substr(0, git->find('\n'));
    findings.push_back({"git", Mark::ok, "installed, " + line.substr(line.rfind(' ') + 1), ""});
  } else {
    findings.push_back({"git", Mark::warn, "not installed", "apt install git"});
  }
}

void check_open_files(Findings& findings) {
  constexpr rlim_t wanted = 4096;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  bool enough = limit.rlim_cur >= wanted;
  auto found = limit.rlim_cur == RLIM_INFINITY ? "no limit" : std::to_string(limit.rlim_cur);
  findings.push_back({"open files", enough ? Mark::ok : Mark::warn, found,
                      enough ? ""
                             : fmt::format("a service with many connections wants {} or more: "
                                           "ulimit -n 65536, or LimitNOFILE= of systemd",
                                           wanted)});
}

// 7.0.15 becomes 700. Returns 0 if it is not a version.
int major_and_minor(const std::string& version) {
  int major = 0, minor = 0;
  auto* end = version.data() + version.size();
  auto [dot, error] = std::from_chars(version.data(), end, major);
  if (error == std::errc() && dot != end) std::from_chars(dot + 1, end, minor);
  return major * 100 + minor;
}

Finding version_of(const Server& server) {
  auto version = server.text("redis_version");
  auto number = major_and_minor(version);
  if (number < 700)
    return {"version", Mark::fail, version,
            "upgrade to Redis 7: leases and mirrors need sharded channels"};
  return {"version", Mark::ok, version, ""};
}

Finding eviction_of(const Server& server) {
  auto policy = server.text("maxmemory_policy");
  if (policy == "noeviction") return {"eviction", Mark::ok, policy, ""};
  return {"eviction", Mark::fail, fmt::format("{}: {}", policy, eviction_harm), eviction_mend};
}

Finding persistence_of(const Server& server) {
  if (server.number("aof_enabled")) return {"persistence", Mark::ok, "append-only file", ""};
  std::string mend = "redis-cli CONFIG SET appendonly yes, and the same in redis.conf";
  if (!server.config)
    return {"persistence", Mark::warn,
            "no append-only file; whether there are snapshots, this user may not ask", mend};
  auto& save = server.config->at("save");
  if (save.empty()) return {"persistence", Mark::warn, "none: a restart forgets everything", mend};
  return {"persistence", Mark::warn,
          fmt::format("snapshots only (save {}): a crash forgets what came after the last", save),
          mend};
}

Finding durability_of(const Server& server) {
  if (!server.config)
    return {"min-replicas-to-write", Mark::warn, "this user may not ask (CONFIG GET)",
            "allow it: redis-cli ACL SETUSER name +config|get"};
  auto& least = server.config->at("min-replicas-to-write");
  if (least != "0") return {"min-replicas-to-write", Mark::ok, least, ""};
  return {"min-replicas-to-write", Mark::warn,
          "0: a primary that is cut off takes writes that a failover discards",
          "redis-cli CONFIG SET min-replicas-to-write 1, and the same in redis.conf"};
}

Finding clock_of(const Server& server) {
  auto ms = [](Clock::duration time) {
    return std::chrono::duration<double, std::milli>(time).count();
  };
  auto found = fmt::format("{:+.2f} ms against ours, give or take {:.2f} ms", ms(server.ahead),
                           ms(server.ahead_error));
  if (std::chrono::abs(server.ahead) - server.ahead_error < 500ms)
    return {"clock", Mark::ok, found, ""};
  return {"clock", Mark::warn, found, "run a time service (chrony, systemd-timesyncd) on both"};
}

// For settings with a single server.
Finding topology_of(const Server& server) {
  if (server.number("cluster_enabled"))
    return {"topology", Mark::fail, "the server is part of a cluster", "set REDIS_MODE=cluster"};
  if (server.role == "primary") return {"topology", Mark::ok, "one server, a primary", ""};
  return {"topology", Mark::fail, "the server is a replica, and takes no writes",
          fmt::format("use its primary: {}:{}", server.text("master_host"),
                      server.text("master_port"))};
}

// With several servers, the finding is the worst one, and names its server.
void add_worst(Findings& findings, const std::vector<Server>& servers,
               Finding (*look)(const Server&)) {
  std::optional<Finding> worst;
  for (auto& server : servers) {
    auto finding = look(server);
    if (servers.size() > 1 && finding.mark != Mark::ok)
      finding.found = fmt::format("{}: {}", to_string(server.address), finding.found);
    if (!worst || finding.mark > worst->mark) worst = finding;
  }
  if (worst) findings.push_back(*worst);
}

// Whether this sentinel and those it knows could agree on a failover.
Async<bool> sees_quorum(redis::Client& client, Node sentinel, Clock::time_point deadline) {
  auto dialer = redis::Dialer::create(client.settings());
  if (!dialer) co_return std::unexpected(dialer.error());
  auto sentinels = dialer->for_sentinels();
  auto conversation = co_await sentinels.dial(sentinel.address, deadline);
  if (!conversation) co_return std::unexpected(conversation.error());
  std::vector<redis::Command> questions;
  questions.emplace_back("SENTINEL", "CKQUORUM", client.settings().master_name);
  auto answers = co_await (*conversation)->exchange(std::move(questions), deadline);
  if (!answers) co_return std::unexpected(answers.error());
  co_return !answers->front().is_error();
}

awaitable<void> check_sentinels(redis::Client& client, std::size_t replicas,
                                Clock::time_point deadline, Findings& findings) {
  std::vector<Node> sentinels;
  for (auto& address : client.settings().addresses)
    sentinels.push_back({address, false, false, ""});
  auto answers = co_await ask_all(client, sentinels, sees_quorum, deadline);
  std::size_t answering = 0, doubting = 0;
  for (auto& answer : answers) {
    if (answer) ++answering;
    if (answer && !*answer) ++doubting;
  }
  auto all = sentinels.size();
  auto found = fmt::format("{} of {} sentinels answer, {} {}", answering, all, replicas,
                           replicas == 1 ? "replica" : "replicas");
  if (answering * 2 <= all)
    findings.push_back({"topology", Mark::fail, found, "start the sentinels that are missing"});
  else if (doubting > 0)
    findings.push_back({"topology", Mark::fail, found + ", but they are too few for a quorum",
                        "start the sentinels that are missing, or lower the quorum"});
  else if (replicas == 0)
    findings.push_back({"topology", Mark::warn, found, "add a replica: nobody can take over"});
  else if (answering < all || all < 3)
    findings.push_back(
        {"topology", Mark::warn, found, "have three sentinels or more, all running"});
  else
    findings.push_back({"topology", Mark::ok, found, ""});
}

// What one node reports about the whole cluster.
Async<bool> serves_all_slots(redis::Client& client, Node node, Clock::time_point deadline) {
  auto conversation = co_await client.dial(node.address, deadline);
  if (!conversation) co_return std::unexpected(conversation.error());
  auto info = co_await (*conversation)->ask(redis::Command("CLUSTER", "INFO"), deadline);
  if (!info) co_return std::unexpected(info.error());
  co_return info->text.contains("cluster_state:ok") &&
      info->text.contains(fmt::format("cluster_slots_ok:{}\r", redis::slot_count));
}

awaitable<void> check_cluster(redis::Client& client, const std::vector<Server>& servers,
                              Clock::time_point deadline, Findings& findings) {
  auto nodes = client.topology().nodes;
  auto opinions = co_await ask_all(client, nodes, serves_all_slots, deadline);
  std::string doubter;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (opinions[i] && !*opinions[i]) doubter = to_string(nodes[i].address);
  auto alone = std::ranges::count_if(servers, [](const Server& server) {
    return server.role == "primary" && server.number("connected_slaves") == 0;
  });
  auto primaries = std::ranges::count(servers, "primary", &Server::role);
  auto found = fmt::format("{} primaries, {} replicas", primaries, std::ssize(servers) - primaries);
  if (!doubter.empty())
    findings.push_back(
        {"topology", Mark::fail,
         fmt::format("{}, but {} says that not all slots are served", found, doubter),
         fmt::format("redis-cli --cluster check {}, then fix", doubter)});
  else if (alone > 0)
    findings.push_back({"topology", Mark::warn,
                        fmt::format("{}; {} of the primaries without one", found, alone),
                        "add a replica to each primary: redis-cli --cluster add-node"});
  else
    findings.push_back({"topology", Mark::ok, found + ", all slots served", ""});
}

// Whether any setting says where Redis is.
bool is_configured(const Config& config) {
  for (auto* name : {"redis.url", "redis.addrs", "redis.host", "redis.mode"})
    if (config.at(name).is_set) return true;
  return false;
}

Finding unreachable(const Config& config, const Error& error) {
  bool is_away = error.code == Errc::unavailable || error.code == Errc::timeout;
  if (is_configured(config) || !is_away) return {"redis", Mark::fail, error.what, hint_for(error)};
  return {"redis", Mark::warn, "none is configured, and none answers on localhost:6379",
          "redis-server --appendonly yes, or say where one is: REDIS_URL=redis://HOST:PORT"};
}

Async<Exit> check_redis(redis::Client& client, const Config& config,
                        std::chrono::milliseconds timeout, Findings& findings) {
  auto deadline = Clock::now() + timeout;
  auto topology = co_await find_servers(client, deadline);
  if (!topology) {
    findings.push_back(unreachable(config, topology.error()));
    co_return Exit::ok;
  }
  deadline = Clock::now() + timeout;
  auto answers = co_await ask_all(client, topology->nodes, examine, deadline);
  std::vector<Server> servers;
  for (auto& answer : answers) {
    if (answer)
      servers.push_back(*answer);
    else
      findings.push_back(unreachable(config, answer.error()));
  }
  if (servers.empty()) co_return Exit::ok;
  auto addresses = servers.size() == 1 ? to_string(servers[0].address)
                                       : fmt::format("{} servers", servers.size());
  findings.push_back(
      {"redis", Mark::ok, fmt::format("{}, {}", cli::name_of(topology->mode), addresses), ""});
  add_worst(findings, servers, version_of);
  deadline = Clock::now() + timeout;
  auto replicas = std::size_t(std::ranges::count(servers, "replica", &Server::role));
  if (topology->mode == redis::Mode::single) findings.push_back(topology_of(servers[0]));
  if (topology->mode == redis::Mode::sentinel)
    co_await check_sentinels(client, replicas, deadline, findings);
  if (topology->mode == redis::Mode::cluster)
    co_await check_cluster(client, servers, deadline, findings);
  add_worst(findings, servers, persistence_of);
  add_worst(findings, servers, eviction_of);
  std::vector<Server> replicated;
  for (auto& server : servers)
    if (server.role == "primary" && server.number("connected_slaves") > 0)
      replicated.push_back(server);
  add_worst(findings, replicated, durability_of);
  add_worst(findings, servers, clock_of);
  co_return Exit::ok;
}

void print(const Findings& findings, const Paint& paint) {
  std::size_t width = 0;
  int counts[3] = {};
  for (auto& finding : findings) width = std::max(width, finding.name.size());
  for (auto& [name, mark, found, mend] : findings) {
    ++counts[int(mark)];
    auto word = fmt::format("{:<4}", name_of(mark));
    auto shown = mark == Mark::ok     ? paint.green(word)
                 : mark == Mark::warn ? paint.yellow(word)
                                      : paint.red(word);
    fmt::print("{}  {:<{}}  {}\n", shown, name, width, printable(found));
    if (!mend.empty()) fmt::print("      {:<{}}  {} {}\n", "", width, paint.dim("mend:"), mend);
  }
  fmt::print("\n{} ok, {} {}, {} failed\n", counts[0], counts[1],
             counts[1] == 1 ? "warning" : "warnings", counts[2]);
}

void print_json(const Findings& findings, bool is_fit) {
  boost::json::array checks;
  for (auto& [name, mark, found, mend] : findings)
    checks.push_back(boost::json::object{
        {"name", name}, {"mark", name_of(mark)}, {"found", found}, {"mend", mend}});
  boost::json::object whole{{"ok", is_fit}, {"checks", std::move(checks)}};
  fmt::print("{}\n", boost::json::serialize(whole));
}

}  // namespace

void add_doctor(CLI::App& root, Action& chosen) {
  auto* app = add_command(root, "doctor", "Check this machine and its Redis, and how to mend them",
                          "This machine");
  set_footer(
      *app,
      "Exits with 0 when nothing failed; warnings are advice. With a failure it exits with 1.\n"
      "That no Redis is configured and none runs here is a warning.\n\n"
      "Example\n"
      "  warren doctor --redis-url redis://redis.example:6379");
  auto* as_json = add_json(*app);
  auto* timeout = add_value(*app, "--timeout", "TIME",
                            "for each step: finding the servers, examining them, the topology",
                            duration(), "2s");
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      auto config = load_config(context);
      if (!config) return std::unexpected(config.error());
      auto limit = *parse_duration(value_of(*timeout));
      Findings findings;
      check_installed(findings);
      check_open_files(findings);
      auto checked = with_client(context, *config, limit, [&](redis::Client& client) {
        return check_redis(client, *config, limit, findings);
      });
      if (!checked) return checked;
      bool is_fit = std::ranges::none_of(
          findings, [](const Finding& finding) { return finding.mark == Mark::fail; });
      if (is_given(*as_json))
        print_json(findings, is_fit);
      else
        print(findings, context.out);
      return is_fit ? Exit::ok : Exit::failed;
    };
  });
}

}  // namespace warren::cli
