#include "proof/testkit/servers/postgres_server.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pwd.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "proof/testkit/failure.h"
#include "proof/testkit/run.h"

namespace warren::inline testkit {

namespace fs = std::filesystem;

namespace {

constexpr auto kit_role = "testkit";
constexpr auto tested_role = "warren";  // also the name of its database
constexpr auto package_user = "postgres";

bool is_root() { return geteuid() == 0; }

// Where Debian keeps the programs of the newest version.
const fs::path& programs() {
  static const fs::path found = [] {
    fs::path newest;
    std::error_code ignored;
    for (auto& version : fs::directory_iterator("/usr/lib/postgresql", ignored))
      if (newest.empty() || std::stoi(version.path().filename()) > std::stoi(newest.filename()))
        newest = version.path();
    if (newest.empty()) fail_test("PostgreSQL is not installed: run scripts/setup");
    return newest / "bin";
  }();
  return found;
}

// A change of user clears the parent-death signal, so it is set again.
std::vector<std::string> as_user(std::vector<std::string> argv) {
  if (!is_root()) return argv;
  auto user = fmt::format("--reuid={}", package_user),
       group = fmt::format("--regid={}", package_user);
  std::vector<std::string> words{"setpriv", user, group, "--init-groups", "--pdeathsig=KILL", "--"};
  words.insert(words.end(), argv.begin(), argv.end());
  return words;
}

// Lets that user into a folder of ours, through folders of ours above it.
void admit_user(const fs::path& folder) {
  if (!is_root()) return;
  auto* user = getpwnam(package_user);
  if (!user) fail_test("there is no user postgres: run scripts/setup");
  if (chown(folder.c_str(), user->pw_uid, user->pw_gid) != 0) fail_test("chown " + folder.string());
  for (auto above = folder.parent_path(); above.has_relative_path(); above = above.parent_path())
    if (above.filename().string().starts_with("warren-"))
      fs::permissions(above, fs::perms::others_exec, fs::perm_options::add);
}

void run_program(const fs::path& folder, std::vector<std::string> argv) {
  Process process({.argv = as_user(std::move(argv)), .log = folder / "prepare.log"});
  if (process.wait(60s) != 0) fail_test(process.log_text());
}

// Every server starts as a copy of this. Made once per test program, since it takes half a second.
const fs::path& empty_cluster() {
  struct Cluster {
    TempFolder folder;
    fs::path data = folder.path() / "data";
    Cluster() {
      admit_user(folder.path());
      run_program(folder.path(),
                  {programs() / "initdb", "-D", data, "-U", kit_role, "-A", "trust", "-E", "UTF8",
                   "--locale=C", "--no-sync", "--no-instructions", "--wal-segsize=1"});
      auto roles = folder.path() / "roles.sql";
      std::ofstream(roles) << fmt::format("CREATE ROLE {0} LOGIN\nCREATE DATABASE {0} OWNER {0}\n",
                                          tested_role);
      run_program(folder.path(), {"sh", "-c", "\"$0\" --single -D \"$1\" -F postgres < \"$2\"",
                                  programs() / "postgres", data, roles});
    }
  };
  static const Cluster cluster;
  return cluster.data;
}

std::vector<pid_t> children_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{0}/task/{0}/children", pid));
  std::vector<pid_t> children;
  for (pid_t child; file >> child;) children.push_back(child);
  return children;
}

// As ps shows it: 'T' is stopped, 'Z' has ended but has not been waited for, ' ': there is none.
char process_state(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text(std::istreambuf_iterator<char>(file), {});
  auto at = text.rfind(") ");
  return at == text.npos ? ' ' : text.at(at + 2);
}

bool has_ended(pid_t pid) {
  auto state = process_state(pid);
  return state == ' ' || state == 'Z' || state == 'X';
}

}  // namespace

PostgresServer::PostgresServer(PostgresOptions options) : options_(std::move(options)) {
  auto& cluster = empty_cluster();
  admit_user(folder_.path());
  run_program(folder_.path(), {"cp", "-a", "--reflink=auto", cluster, folder_.path() / "data"});
  for (int i = 0; i < 10; ++i) {
    write_config();
    launch();
    if (answers()) {
      if (!options_.password.empty())
        query(fmt::format("ALTER ROLE {} PASSWORD '{}'", tested_role, options_.password));
      return;
    }
    fs::remove(folder_.path() / "postgres.log");  // or else it is read as the next one's
    port_ = Port();
  }
  fail_test("ten times in a row a port was taken before postgres had it");
}

PostgresServer::~PostgresServer() {
  if (process_) kill();
}

std::string PostgresServer::url() const {
  auto password = options_.password.empty() ? "" : ":" + options_.password;
  return fmt::format("postgres://{0}{1}@127.0.0.1:{2}/{0}", tested_role, password, port());
}

std::string PostgresServer::kit_url() const {
  return fmt::format("postgres://{}@127.0.0.1:{}/{}", kit_role, port(), tested_role);
}

void PostgresServer::write_config() {
  std::vector<std::string> lines{
      "listen_addresses = '127.0.0.1'",
      fmt::format("port = {}", port()),
      "unix_socket_directories = ''",
      "shared_buffers = 32MB",
      fmt::format("fsync = {}", options_.fsync ? "on" : "off"),
  };
  lines.insert(lines.end(), options_.config.begin(), options_.config.end());
  auto data = folder_.path() / "data";
  std::ofstream(data / "postgresql.conf") << fmt::format("{}\n", fmt::join(lines, "\n"));
  std::ofstream(data / "pg_hba.conf")
      << fmt::format("host all {} 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 {}\n", kit_role,
                     options_.password.empty() ? "trust" : "scram-sha-256");
}

void PostgresServer::launch() {
  process_ = std::make_unique<Process>(
      Program{.argv = as_user({programs() / "postgres", "-D", folder_.path() / "data"}),
              .log = folder_.path() / "postgres.log"});
}

bool PostgresServer::answers() {
  return wait_for(30s, "postgres answers", [&]() -> Result<bool> {
    if (!alive()) {
      auto text = log_text();
      if (text.find("Address already in use") != text.npos) return false;
      fail_test("postgres died at its start:\n" + text);
    }
    auto data = try_query("SHOW data_directory");
    if (!data) return std::unexpected(data.error());  // it is starting up, or recovering
    // On a port that ours did not get, another server could be answering.
    if (*data == folder_.path() / "data") return true;
    return fail(Errc::unavailable, "another server answers on port {}", port());
  });
}

void PostgresServer::pause() {
  process_->pause();  // from here on it starts no other process
  auto children = children_of(pid());
  for (auto child : children) ::kill(child, SIGSTOP);
  for (auto child : children)
    wait_for(60s, "a process of postgres is stopped",
             [&] { return process_state(child) == 'T' || has_ended(child); });
}

void PostgresServer::resume() {
  for (auto child : children_of(pid())) ::kill(child, SIGCONT);
  process_->resume();
}

void PostgresServer::kill() {
  if (!alive()) return;
  if (!is_paused()) process_->pause();
  auto children = children_of(pid());
  for (auto child : children) ::kill(child, SIGKILL);
  process_->kill();
  for (auto child : children)
    wait_for(60s, "a process of postgres has ended", [&] { return has_ended(child); });
}

void PostgresServer::stop() {
  if (is_paused()) resume();
  ::kill(pid(), SIGINT);
  process_->wait(30s);
}

void PostgresServer::restart() {
  if (alive()) stop();
  launch();
  if (!answers()) fail_test("while the server was down somebody took its port:\n" + log_text());
}

std::string PostgresServer::query(const std::string& sql, Clock::duration limit) const {
  return connect().query(sql, limit);
}

Result<std::string> PostgresServer::try_query(const std::string& sql, Clock::duration limit) const {
  auto session = PostgresSession::open(kit_url(), limit);
  if (!session) return std::unexpected(session.error());
  return session->try_query(sql, limit);
}

PostgresSession PostgresServer::connect() const {
  auto session = PostgresSession::open(kit_url());
  if (!session) fail_test(fmt::format("port {}: {}", port(), session.error().what));
  return *std::move(session);
}

std::uint64_t PostgresServer::rows_changed() const {
  auto session = connect();
  auto idle =
      fmt::format("FROM pg_stat_activity WHERE usename = '{}' AND state = 'idle'", tested_role);
  session.query("SELECT pg_terminate_backend(pid) " + idle);
  wait_for(30s, "idle backends have ended",
           [&] { return session.query("SELECT count(*) " + idle) == "0"; });
  return std::stoull(
      session.query("SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)"
                    " FROM pg_stat_user_tables"));
}

}  // namespace warren::inline testkit
