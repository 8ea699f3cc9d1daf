#include "fleet_processes.h"

#include <unistd.h>

#include <boost/json.hpp>
#include <fstream>

#include "proof/testkit/run.h"
#include "search_command.h"

namespace warren::bench {

namespace {

namespace json = boost::json;

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string_view text_of(const json::value& value) { return value.as_string(); }

}  // namespace

double cpu_seconds(pid_t process) {
  auto text = contents(fmt::format("/proc/{}/stat", process));
  // Skip the name, which may contain anything. After it, fields 12 and 13 are user and system time.
  std::istringstream rest(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string word;
  double ticks = 0;
  for (int i = 1; i <= 13 && rest >> word; ++i)
    if (i >= 12) ticks += std::stod(word);
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::uint64_t memory_of(pid_t process, const std::string& what) {
  std::ifstream file(fmt::format("/proc/{}/status", process));
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(what + ":")) return std::stoull(line.substr(what.size() + 1)) << 10;
  return 0;
}

std::string cut_corpus(const std::string& package, int count) {
  Command command{.argv = {WARREN_SCRIPTS "/corpus-repos", package, std::to_string(count)},
                  .longest = std::chrono::minutes(30)};
  auto done = run_command(command);
  ensure(done.has_value() && done->code == 0, "scripts/corpus-repos cuts the corpus");
  return done->output.substr(0, done->output.find('\n'));
}

Program FleetProcesses::program(std::vector<std::string> words, const std::string& name) const {
  words.insert(words.begin(), {WARREN_BINARY, "fleet"});
  return {std::move(words),
          folder_.path() / (name + ".log"),
          {"HOME=" + folder_.path().string(), "FLEET_CATALOG=redis://" + redis_.address()}};
}

std::string FleetProcesses::log_of(const std::string& name) const {
  return contents(folder_.path() / (name + ".log"));
}

Process& FleetProcesses::start_node(const std::string& name) {
  auto mirrors = folder_.path() / ("mirrors-" + name);
  std::vector<std::string> words{
      "node",           "--name", name,        "--budget",       "8G",           "--poll", "1h",
      "--allow-folder", allowed_, "--mirrors", mirrors.string(), "--drain-time", "120s"};
  auto& node = nodes_.try_emplace(name, program(std::move(words), name)).first->second;
  wait_for(60s, "the node runs", [&] { return log_of(name).contains("catalog.joined"); });
  return node;
}

void FleetProcesses::start_router() {
  router_.emplace(program({"router", "--port", "0"}, "router"));
  wait_for(60s, "the router listens", [&] { return log_of("router").contains("url=http"); });
}

HttpUrl FleetProcesses::url() const {
  auto text = log_of("router");
  auto at = text.find("url=http") + 4;
  return *parse_http_url(text.substr(at, text.find_first_of(" \n", at) - at));
}

void FleetProcesses::add(std::vector<std::string> words) const {
  words.insert(words.begin(), {"repo", "add"});
  Process process(program(std::move(words), "add"));
  int code = process.wait(120s);
  if (code != 0) fail_test(log_of("add"));
}

double FleetProcesses::cpu_seconds() {
  auto seconds = bench::cpu_seconds(router_->pid());
  for (auto& [name, node] : nodes_)
    if (node.alive()) seconds += bench::cpu_seconds(node.pid());
  return seconds;
}

awaitable<HttpReply> reply_of(Asker& server, HttpAsk ask) {
  auto reply = co_await server.ask(std::move(ask), Clock::now() + 120s);
  if (!reply) fail_test(reply.error().what);
  if (reply->status != 200) fail_test(reply->body);
  co_return *std::move(reply);
}

awaitable<std::vector<FleetProcesses::Route>> FleetProcesses::routes_when_settled(
    std::size_t repos) const {
  auto is_settled = [](Asker& router, std::size_t& count) -> awaitable<Result<>> {
    HttpAsk ask{"GET", "/v1/repos"};
    auto reply = co_await router.ask(std::move(ask), Clock::now() + 20s);
    if (!reply) co_return std::unexpected(reply.error());
    if (reply->status != 200) co_return fail(Errc::unavailable, "{}", reply->body);
    std::size_t served = 0;
    auto listing = json::parse(reply->body);
    for (const auto& repo : listing.at("repos").as_array())
      served += text_of(repo.at("slots").at(0).at("phase")) == "serving";
    if (served < count) co_return fail(Errc::unavailable, "{} of {} are served", served, count);
    co_return ok;
  };
  Asker router(co_await asio::this_coro::executor, url());
  co_await eventually(1800s, "all repositories are served", is_settled, router, repos);
  HttpAsk ask{"GET", "/v1/routes"};
  auto reply = co_await reply_of(router, std::move(ask));
  std::vector<Route> routes;
  auto listing = json::parse(reply.body);
  for (const auto& one : listing.at("routes").as_array())
    routes.push_back(
        {std::string(text_of(one.at("repo"))),
         *parse_http_url(text_of(one.at("endpoint"))),
         {std::string(text_of(one.at("key"))), *fleet::parse_epoch(text_of(one.at("epoch")))}});
  co_return routes;
}

}  // namespace warren::bench
