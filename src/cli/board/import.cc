// warren import: restores the lines of an export to a board.
#include <fmt/format.h>
#include <sys/stat.h>

#include <fstream>
#include <iostream>

#include "base/causes.h"
#include "cli/instance/which.h"
#include "services/board/store/encoding.h"
#include "services/board/store/json_parts.h"
#include "services/board/watch/archive.h"

namespace warren::cli {

using namespace board;

namespace {

constexpr std::size_t at_once = 200;
constexpr std::size_t longest_line = limits::event + (1u << 20);

// Reads the lines twice: first to check all of them, then to write them. Standard input is kept in
// an unnamed file meanwhile.
class Lines {
 public:
  ~Lines() {
    if (file_) std::fclose(file_);
  }
  Lines() = default;
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  Result<> open(const std::string& path) {
    file_ = path == "-" ? std::tmpfile() : std::fopen(path.c_str(), "re");
    if (!file_) return std::unexpected(file_error(path, errno));
    struct stat status{};
    if (::fstat(fileno(file_), &status) == 0 && S_ISDIR(status.st_mode))
      return std::unexpected(file_error(path, EISDIR));
    if (path != "-") return ok;
    std::string bytes(1u << 16, '\0');
    while (auto got = std::fread(bytes.data(), 1, bytes.size(), stdin))
      if (std::fwrite(bytes.data(), 1, got, file_) != got)
        return fail(Errc::unavailable, warren::causes::no_resources, "",
                    "no room for what is read: {}", std::strerror(errno));
    rewind();
    return ok;
  }
  void rewind() {
    std::fseek(file_, 0, SEEK_SET);
    number_ = 0;
  }
  // Returns nullopt after the last line.
  Result<std::optional<watch::ArchiveLine>> next() {
    char* text = nullptr;
    std::size_t room = 0;
    auto length = ::getline(&text, &room, file_);
    std::unique_ptr<char, decltype(&std::free)> owner(text, std::free);
    if (length < 0) return std::nullopt;
    ++number_;
    std::string_view line(text, static_cast<std::size_t>(length));
    if (line.ends_with('\n')) line.remove_suffix(1);
    if (line.size() > longest_line) return at(fail(Errc::invalid, "it is too long").error());
    auto decoded = watch::decode(line);
    if (!decoded) return at(decoded.error());
    return *std::move(decoded);
  }
  std::unexpected<Error> at(const Error& error) const {
    return std::unexpected(within(fmt::format("line {}", number_), error));
  }
  std::size_t number() const { return number_; }

 private:
  std::FILE* file_ = nullptr;
  std::size_t number_ = 0;
};

Result<watch::ArchiveCheck> check_all(Lines& lines) {
  watch::ArchiveCheck check;
  for (;;) {
    auto line = lines.next();
    if (!line) return std::unexpected(line.error());
    auto fits = *line ? check.next(**line) : check.ended();
    if (!fits) return lines.at(fits.error());
    if (!*line) return check;
  }
}

struct Numbered {
  std::size_t line;
  watch::ArchiveLine what;
};

class Importer {
 public:
  explicit Importer(Board& board) : board_(board) {}

  // Other entries on the board would be mixed up with the imported ones.
  Async<> check_nothing_else(const std::string& index,
                             const std::unordered_set<std::string>& known) {
    std::string first = "-";
    for (;;) {
      redis::Command range("ZRANGEBYLEX", index, first, "+", "LIMIT", 0, 1000);
      auto reply = co_await board_.client().ask(std::move(range));
      if (!reply) co_return std::unexpected(reply.error());
      if (reply->items.empty()) co_return ok;
      for (const auto& item : reply->items)
        if (!known.contains(item.text))
          co_return fail(Errc::refused,
                         "the board has {} that is not in the file: import into an "
                         "empty board",
                         item.text);
      first = "(" + reply->items.back().text;
    }
  }

  Async<> write_all(Lines& lines) {
    std::vector<Numbered> some;
    for (;;) {
      auto line = lines.next();
      if (!line) co_return std::unexpected(line.error());
      bool is_last = !line->has_value();
      if (!is_last) some.push_back({lines.number(), std::move(**line)});
      if (!is_last && some.size() < at_once) continue;
      auto written = co_await write(some);
      if (!written) co_return written;
      if (is_last) co_return ok;
      some.clear();
    }
  }
  std::size_t written() const { return written_; }
  const std::vector<Artefact>& unclaimed() const { return unclaimed_; }

 private:
  std::string key_of(const watch::ArchiveLine& line) const {
    if (const auto* claim = std::get_if<watch::ArchivedClaim>(&line))
      return board_.keys().claim(claim->claim.id);
    if (const auto* artefact = std::get_if<Artefact>(&line))
      return board_.keys().artefact(artefact->id);
    return board_.keys().nothing();
  }

  // Reads which of these lines exist, and writes the missing ones. A file lists claims first, so no
  // artefact is visible without its claim.
  Async<> write(const std::vector<Numbered>& some) {
    std::vector<redis::Command> reads, writes;
    for (const auto& [number, line] : some) {
      reads.emplace_back("HGETALL", key_of(line));
      const auto* claim = std::get_if<watch::ArchivedClaim>(&line);
      reads.emplace_back("HGETALL",
                         claim ? board_.keys().bids(claim->claim.id) : board_.keys().nothing());
    }
    auto options = redis::CallOptions().idempotent().within(10s);
    auto there = co_await board_.client().batch(std::move(reads), options);
    for (std::size_t i = 0; i < some.size(); ++i) {
      const auto &hash = there[2 * i], &bids = there[2 * i + 1];
      if (!hash || !bids) co_return std::unexpected(!hash ? hash.error() : bids.error());
      auto decided = std::visit(
          [&](const auto& each) { return decide(each, *hash, bids_from(*bids), writes); },
          some[i].what);
      if (!decided)
        co_return std::unexpected(within(fmt::format("line {}", some[i].line), decided.error()));
    }
    auto done = co_await board_.client().batch(std::move(writes), options);
    for (const auto& each : done)
      if (!each) co_return std::unexpected(each.error());
    co_return ok;
  }

  static redis::Command hset(const std::string& key, const Fields& fields) {
    std::vector<std::string> words{"HSET", key};
    for (const auto& [field, value] : fields) words.insert(words.end(), {field, value});
    return redis::Command(words);
  }

  Result<> decide(const Artefact& artefact, const redis::Reply& hash, const Bids&,
                  std::vector<redis::Command>& writes) {
    auto key = board_.keys().artefact(artefact.id);
    if (hash.items.empty()) {
      writes.push_back(hset(key, to_fields(artefact)));
      ++written_;
      if (needs_claim(artefact.structural_type) && !claimed_.contains(artefact.id))
        unclaimed_.push_back(artefact);
      return ok;
    }
    auto there = artefact_from(key, hash);
    if (there && *there == artefact) return ok;
    return fail(Errc::refused, "artefact {} is on the board, and another one", artefact.id);
  }

  Result<> decide(const watch::ArchivedClaim& archived, const redis::Reply& hash, const Bids& bids,
                  std::vector<redis::Command>& writes) {
    const auto& [claim, created_at, is_current, its_bids] = archived;
    const auto& keys = board_.keys();
    claimed_.insert(claim.artefact_id);
    if (hash.items.empty()) {
      Fields bid_fields;
      for (const auto& [role, bid] : its_bids) bid_fields.emplace_back(role, name(bid));
      if (!bid_fields.empty()) writes.push_back(hset(keys.bids(claim.id), bid_fields));
      writes.emplace_back("ZADD", keys.claims(claim.status), parts::milliseconds(created_at),
                          claim.id);
      if (is_current)
        writes.emplace_back("SET", keys.claim_by_artefact(claim.artefact_id), claim.id);
      writes.push_back(hset(keys.claim(claim.id), to_fields(claim)));
      ++written_;
      return ok;
    }
    auto there = claim_from(keys.claim(claim.id), hash);
    if (there) there->revision.clear();
    if (there && *there == claim && bids == its_bids) return ok;
    return fail(Errc::refused, "claim {} is on the board, and differs", claim.id);
  }

  Result<> decide(const watch::ArchivedQueueing& queued, const redis::Reply&, const Bids&,
                  std::vector<redis::Command>& writes) {
    writes.emplace_back("ZADD", board_.keys().grant_queue(queued.role), "NX",
                        parts::milliseconds(queued.paused_at), queued.claim_id);
    return ok;
  }
  Result<> decide(const watch::ArchiveHead&, const redis::Reply&, const Bids&,
                  std::vector<redis::Command>&) {
    return ok;
  }
  Result<> decide(const watch::ArchiveEnd&, const redis::Reply&, const Bids&,
                  std::vector<redis::Command>&) {
    return ok;
  }

  Board& board_;
  std::size_t written_ = 0;
  std::unordered_set<std::string> claimed_;
  std::vector<Artefact> unclaimed_;
};

// Tells the running instance what waits for a claim, now that it can be read.
Async<> announce(const Board& board, const std::vector<Artefact>& artefacts) {
  for (const auto& artefact : artefacts) {
    redis::Command told("PUBLISH", board.keys().artefact_events(), to_json(artefact));
    auto options = redis::CallOptions().where(board.keys().root());
    auto sent = co_await board.client().ask(std::move(told), options);
    if (!sent) co_return std::unexpected(sent.error());
  }
  co_return ok;
}

Async<Exit> import_board(redis::Client& client, Which which, Lines& lines,
                         const watch::ArchiveCheck& check) {
  Registry registry(client, which.prefix);
  auto instances = co_await registry.list();
  if (!instances) co_return std::unexpected(instances.error());
  auto chosen = choose_instance(*instances, which, workspace_here(), Need::data);
  if (!chosen) co_return std::unexpected(chosen.error());
  auto board = Board::open(client, which.prefix, chosen->name);
  if (!board) co_return std::unexpected(board.error());
  Importer importer(*board);
  auto done = co_await importer.check_nothing_else(board->keys().artefact_ids(), check.artefacts());
  if (done) done = co_await importer.check_nothing_else(board->keys().claim_ids(), check.claims());
  if (done) done = co_await importer.write_all(lines);
  if (!done) co_return std::unexpected(done.error());
  auto indexed = co_await board->reindex();
  if (!indexed) co_return std::unexpected(indexed.error());
  auto told = co_await announce(*board, importer.unclaimed());
  if (!told) co_return std::unexpected(told.error());
  fmt::print(stderr, "Imported into {}: {} of {} artefacts and claims were new\n", chosen->name,
             importer.written(), check.artefacts().size() + check.claims().size());
  if (chosen->state != InstanceState::stale && !check.claims().empty() && importer.written() > 0)
    fmt::print(stderr, "hint: `{0} down --name {1}` and `up` have it go on with the claims\n",
               which.program, chosen->name);
  co_return Exit::ok;
}

}  // namespace

void add_import(CLI::App& root, Action& chosen) {
  auto* app =
      add_command(root, "import", "Bring an export back, to an empty board", "Work and watch");
  set_footer(
      *app,
      "All lines are checked before the first is written. What is there already is left as it is; "
      "what\n"
      "is there and differs is refused. The instance need not run: name it with --name.\n\n"
      "Example\n"
      "  warren import --name copy board.jsonl");
  auto which = add_which(*app);
  auto* file = add_value(*app, "file", "FILE", "where from; -: standard input", nullptr, "-");
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      Lines lines;
      auto opened = lines.open(value_of(*file));
      if (!opened) return std::unexpected(opened.error());
      auto checked = check_all(lines);
      if (!checked) return std::unexpected(checked.error());
      lines.rewind();
      return with_registry(context, which.program, [&](redis::Client& client) {
        return import_board(client, which_of(which), lines, *checked);
      });
    };
  });
}

}  // namespace warren::cli
