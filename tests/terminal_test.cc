// What a person sees of what others wrote: every command that shows it, on a terminal.
#include <fstream>

#include "base/printable.h"
#include "proof/testkit/process.h"
#include "services/board/orchestrator/control.h"
#include "services/instance/registry.h"
#include "with_board.h"

using namespace warren;
using namespace warren::board;
namespace fs = std::filesystem;

namespace {

using Words = std::vector<std::string>;

// Each is a way to do something to a terminal. Where a line may be begun, it looks like one of ours.
const std::string hostile =
    "begin \x1b]0;owned\a \x1b[2J \x1b[8mhidden\x1b[38;5;1m \x1b(0 \b\b \v \f \x7f \xc2\x9b"
    "2J \xc2\x85 \xe2\x80\xae \xe2\x81\xa6 \xe2\x80\x8f \xe2\x80\xa8 \xef\xbb\xbf "
    "\rforged \nforged line\n\tend";
// What is no UTF-8 a board refuses, and a file has.
const std::string broken = hostile +
                           " \x9b"
                           "2J \xff";

// Without what this program itself writes to a terminal, and what the terminal makes of a line end.
std::string without_ours(std::string shown) {
  for (std::string_view ours : {"\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m",
                                "\x1b[35m", "\x1b[36m", "\x1b[1;31m", "\r\x1b[K", "^D\b\b", "\r\n"})
    for (auto at = shown.find(ours); at != shown.npos; at = shown.find(ours, at))
      shown.replace(at, ours.size(), ours == "\r\n" ? "\n" : "");
  return shown;
}

class Terminal {
 public:
  explicit Terminal(Words environment) : environment_(std::move(environment)) {
    environment_.push_back("HOME=" + folder_.path().string());
    environment_.push_back("XDG_STATE_HOME=" + (folder_.path() / "state").string());
    environment_.push_back("XDG_CACHE_HOME=" + (folder_.path() / "cache").string());
    environment_.emplace_back("TERM=xterm");
  }
  const fs::path& folder() const { return folder_.path(); }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_.path() / name).parent_path());
    std::ofstream(folder_.path() / name, std::ios::binary) << text;
  }

  // What the command shows. It does something to the terminal: that fails the test.
  std::string shows(const Words& words) const {
    fs::remove(folder_.path() / "shown");
    auto program = fs::path(WARREN_BINARY).parent_path() / "holt";
    std::string quoted;
    for (const auto& word : words) {
      quoted += " '";
      for (char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
      quoted += '\'';
    }
    write("command", fmt::format("exec {}{}\n", program.string(), quoted));
    Words argv{"env",  "-C", folder_.path(),
               "bash", "-c", "exec script -qec 'bash command' /dev/null >shown 2>&1 </dev/null"};
    Process process(Program{argv, folder_.path() / "log", environment_});
    process.wait(60s);
    std::ifstream in(folder_.path() / "shown", std::ios::binary);
    std::string shown{std::istreambuf_iterator<char>(in), {}};
    check(shown, words);
    return shown;
  }

 private:
  static void check(const std::string& shown, const Words& words) {
    auto text = without_ours(shown);
    std::string command = fmt::format("{}", fmt::join(words, " "));
    CAPTURE(printable(command));
    CAPTURE(printable(text));
    CHECK_FALSE(text.empty());
    for (std::string_view rest = text; !rest.empty();) {
      auto [value, length] = first_code_point(rest);
      bool is_layout = value == '\n' || value == '\t';
      CHECK_FALSE((is_unprintable(value) && !is_layout));
      CHECK_FALSE((value == 0xfffd && length == 1));
      rest.remove_prefix(length);
    }
    CHECK_FALSE(text.contains("\nforged"));
  }

  TempFolder folder_;
  Words environment_;
};

awaitable<void> fill(Board& board) {
  auto goal = artefact_of("GoalDefined", hostile);
  goal.type = hostile;
  goal.produced_by_role = hostile;
  auto made = value_of(co_await board.create_artefact(goal));
  auto claim = value_of(co_await board.create_claim(claim_on(made))).claim;
  value_of(co_await board.set_bid(claim.id, hostile, BidType::exclusive));
  auto second = value_of(co_await board.create_artefact(artefact_of("Code", hostile)));
  auto ended = value_of(co_await board.create_claim(claim_on(second))).claim;
  auto terminated = ended;
  terminated.status = ClaimStatus::terminated;
  terminated.termination_reason = hostile;
  value_of(co_await board.update_claim(ended, terminated));
  auto question = artefact_of("Question", hostile);
  question.structural_type = StructuralType::question;
  question.produced_by_role = hostile;
  value_of(co_await board.create_artefact(question));
  value_of(co_await orchestrator::pause(board, hostile));
  auto last = artefact_of(hostile, hostile);
  last.structural_type = StructuralType::terminal;
  value_of(co_await board.create_artefact(last));
}

}  // namespace

TEST_CASE("whatever is on a board, no command that shows it does anything to a terminal") {
  RedisServer server;
  Terminal terminal({"REDIS_URL=redis://" + server.address()});
  auto body = [](Board& board, RedisServer&, Terminal& on) -> awaitable<void> {
    co_await fill(board);
    board::Listing everything;
    auto page = value_of(co_await board.artefacts(everything));
    auto hoard = on.shows({"hoard", "--name", "demo"});
    CHECK(hoard.contains("artefacts found"));
    CHECK(on.shows({"hoard", "--name", "demo", "-o", "jsonl"}).contains("begin"));
    for (const auto& artefact : page.items) {
      CHECK(on.shows({"hoard", "--name", "demo", artefact.id}).contains("begin"));
      CHECK(on.shows({"explain", "--name", "demo", artefact.id}).contains(artefact.id));
    }
    CHECK(on.shows({"questions", "--name", "demo"}).contains("begin"));
    CHECK(on.shows({"status", "--name", "demo"}).contains("paused"));
    on.shows({"status", "--name", "demo", "--json"});
    for (const char* output : {"default", "jsonl"})
      on.shows({"watch", "--name", "demo", "--since", "1h", "--exit-on-completion", "-o", output});
    on.shows({"export", "--name", "demo", "-"});
    on.shows({"forage", "--name", "demo", "--goal", hostile});
    on.shows({"cancel", "--name", "demo", hostile});
  };
  with_board(settings_for(server), body, server, terminal);
}

TEST_CASE("whatever the registry, a log or a file says, no command does anything to a terminal") {
  RedisServer server;
  Terminal terminal({"REDIS_URL=redis://" + server.address()});
  auto body = [](redis::Client& client, Terminal& on) -> awaitable<void> {
    Registry registry(client, "holt");
    LeaseSession session(client, 60s, registry.room());
    InstanceTerms terms{.name = "demo", .workspace = "/" + hostile, .pid = 1};
    terms.host = hostile;
    terms.user = hostile;
    auto instance = co_await registry.join(session, terms);
    REQUIRE_MESSAGE(instance, (instance ? "" : instance.error().what));
    value_of(co_await instance->announce("http://" + hostile));
    CHECK(on.shows({"list"}).contains("demo"));
    on.shows({"list", "--json"});
    on.shows({"status", "--name", "demo"});
    on.shows({"status", "--name", "demo", "--json"});
    on.shows({"up", "--name", "demo"});
    auto line = broken;
    std::erase(line, '\n');  // a log is lines
    on.write("state/warren/holt-demo.log", "time=now " + line + "\n");
    on.shows({"logs", "--name", "demo"});
    on.write("bad.yml", "version: \"1.0\"\nagents:\n  " + broken + ": 3\n");
    on.shows({"lint", "bad.yml"});
    on.write("warren.toml", "[redis]\nurl = \"redis://127.0.0.1\"\n\"" + broken + "\" = 3\n");
    on.shows({"config", "show"});
    fs::remove(on.folder() / "warren.toml");
    on.write("text/" + std::string("a\x1b[2J\xc2\x9b"
                                   "b\n\xe2\x80\xae.txt"),
             broken + "\n");
    CHECK(on.shows({"search", "text", "forged"}).contains("forged"));
    on.shows({"search", "text", "forged", "--json"});
    on.shows({"search", "text", "-l", "forged"});
    on.shows({"search", "text", "(" + hostile});
    value_of(co_await instance->leave());
    co_await session.close();
  };
  with_client(settings_for(server), body, terminal);
}

TEST_CASE("words that a person copied from somewhere are told back without doing anything") {
  Terminal terminal({"REDIS_URL=redis://127.0.0.1:1"});
  for (const Words& words :
       {Words{hostile}, Words{"--" + hostile}, Words{"list", "--" + hostile},
        Words{"list", hostile}, Words{"redis", "ping", "--timeout", hostile},
        Words{"--redis-url", hostile, "list"}, Words{"--config", hostile, "list"},
        Words{"--log-level", hostile, "list"}, Words{"up", "--name", hostile},
        Words{"lint", hostile}, Words{"search", hostile, "x"},
        Words{"search", "--ref", hostile, "x"}, Words{"fleet", "repo", "add", hostile},
        Words{"session", "show", hostile, "--url", "http://127.0.0.1:1"},
        Words{"nodes", "--url", hostile}, Words{"import", hostile},
        Words{"destroy", "--name", hostile}})
    terminal.shows(words);
}
