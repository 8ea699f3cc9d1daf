#include "proof/torture/mirror_torture.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <map>

#include "proof/torture/journal.h"
#include "proof/torture/mirror_worker.h"

namespace warren::torture {

namespace {

using history::MirrorHistory;
using history::MirrorJudge;
using history::ProcessId;
using history::Verdict;
using history::Violation;

class MirrorRound : public Round {
 public:
  using Round::Round;

 private:
  std::vector<std::string> words_for(std::size_t slot, ProcessId process) override;
  void calm_down() override;
  Verdict judge() override;
  void note_server(MirrorHistory& history);
  Verdict leaks();
  // Half of the rounds have a log so short that it is trimmed past a reader that was away.
  std::size_t log_entries() const { return options_.seed / 3 % 2 == 0 ? 100'000 : 100; }
};

std::vector<std::string> MirrorRound::words_for(std::size_t slot, ProcessId process) {
  return words_of({.what = mirror_worker,
                   .servers = arena().settings(slot),
                   .process = process,
                   .seed = random_.next(),
                   .log_entries = log_entries(),
                   .ttl = ttl,
                   .journal = journal_of(process)});
}

// All workers write until everything works again, and then read what was written last.
void MirrorRound::calm_down() {
  let_pass(2 * ttl);
  signal_workers(SIGUSR1);
  let_pass(3 * ttl + slack());
}

void MirrorRound::note_server(MirrorHistory& history) {
  auto terms = torture_mirror_terms(log_entries());
  auto now = Clock::now();
  auto& server = arena().owner(terms.log_key());
  // "id stamp of the previous one, changes"
  auto lines = server.cli_words({"EVAL",
                                 "local lines = {} "
                                 "for i, e in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do "
                                 "  lines[i] = e[1] .. ' ' .. e[2][2] .. ' ' .. e[2][6] "
                                 "end return lines",
                                 "1", terms.log_key()});
  ContentsDigest replayed;
  std::map<std::string, std::string, std::less<>> values;
  bool is_whole = true;  // it begins with the first entry of all
  for (auto& line : lines) {
    auto id_end = line.find(' '), before_end = line.find(' ', id_end + 1);
    auto version = parse_version(line.substr(0, id_end));
    auto changes = mirror::unpack(std::string_view(line).substr(before_end + 1));
    if (!version || !changes) continue;
    if (&line == &lines.front())
      is_whole = line.substr(id_end + 1, before_end - id_end - 1) == Position().stamp;
    for (auto& [key, value] : *changes) {
      auto& known = values[std::string(key)];
      if (!known.empty()) replayed.remove(key, known);
      known = value.value_or("");
      if (!known.empty()) replayed.add(key, known);
    }
    history.logged(now, {version->epoch, version->sequence}, is_whole ? replayed.value() : 0);
  }
  ContentsDigest digest;
  for (auto& type : terms.types) {
    auto start = terms.prefix + type.folder;
    for (auto& key : server.cli_words({"KEYS", start + "*"}))
      digest.add(key.substr(terms.prefix.size()), server.cli({"GET", key}));
  }
  history.server_contents(now, digest.value());
}

// What workers may leave behind after an orderly end: the log with its head, and the entities.
Verdict MirrorRound::leaks() {
  auto terms = torture_mirror_terms(log_entries());
  std::vector<history::Level> levels;
  for (auto& key : arena().owner(terms.log_key()).cli_words({"KEYS", terms.prefix + "*"})) {
    bool is_entity = std::ranges::any_of(terms.types, [&](const EntityType& type) {
      return key.starts_with(terms.prefix + type.folder);
    });
    if (!is_entity && key != terms.log_key() && key != terms.head_key())
      levels.push_back({key, 0, 1});
  }
  report_.checked.push_back("I12");
  return history::nothing_leaked(levels);
}

Verdict MirrorRound::judge() {
  MirrorHistory all;
  for (ProcessId process = 1; process <= last_process_; ++process) {
    auto history = load_mirror_history(journal_of(process));
    if (!history) return Violation{"the journals", history.error().what, {}};
    all.add(*history);
  }
  for (auto& window : lossy_) all.data_lost(window.from);
  note_server(all);
  all.sort();
  for (auto& event : all.events()) {
    using Kind = history::MirrorEvent::Kind;
    auto& counts = report_.counts;
    if (event.kind == Kind::acknowledged) ++counts["writes acknowledged"];
    if (event.kind == Kind::read) ++counts["reads"];
    if (event.kind == Kind::session_read) ++counts["reads of own writes"];
    if (event.kind == Kind::history_rewritten) ++counts["history rewritten"];
    if (event.kind == Kind::contents) ++counts["contents compared"];
    if (event.kind == Kind::logged && event.digest != 0) ++counts["entries replayed"];
  }
  MirrorJudge judge(all, {.slack = 0ms, .lost_before = 3s, .lost_after = 5s});
  report_.checked = {"I10", "I11"};
  if (auto found = judge.contents_are_equal()) return found;
  if (auto found = judge.snapshots_are_the_log()) return found;
  if (auto found = judge.reads_are_monotonic()) return found;
  if (auto found = leaks()) return found;
  // If everything was lost the log starts again, with ids that were used before.
  if (forgot_) return std::nullopt;
  report_.checked.push_back("I5");
  report_.counts["writes lost by failovers"] += judge.lost_writes();
  if (auto found = judge.acknowledged_writes_survive()) return found;
  return judge.ages_are_true();
}

}  // namespace

RoundReport torture_mirror(const RoundOptions& options) { return MirrorRound(options).run(); }

}  // namespace warren::torture
