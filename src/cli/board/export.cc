// warren export: writes the board of an instance as lines of JSON.
#include <fmt/format.h>

#include <set>

#include "cli/instance/which.h"
#include "services/board/watch/archive.h"
#include "services/board/watch/text.h"

namespace warren::cli {

namespace {

constexpr std::size_t page_size = 500;

// The destination of the lines: standard output, or a file that appears when it is complete.
class Archive {
 public:
  static Result<Archive> open(std::string path) {
    Archive archive(std::move(path));
    if (archive.path_ == "-") return archive;
    // Removed first: an existing file of this name may be a link from an untrusted repository.
    std::remove(archive.part().c_str());
    archive.file_ = std::fopen(archive.part().c_str(), "wxe");
    if (archive.file_) return archive;
    return std::unexpected(file_error(archive.path_, errno));
  }
  Archive(Archive&& other) noexcept
      : path_(std::move(other.path_)), file_(std::exchange(other.file_, nullptr)) {}
  ~Archive() {
    if (!file_) return;
    std::fclose(file_);
    std::remove(part().c_str());
  }

  void write(const watch::ArchiveLine& line) {
    auto text = watch::encode(line) + "\n";
    std::fwrite(text.data(), 1, text.size(), file_ ? file_ : stdout);
  }
  Result<> finish() {
    if (!file_) return ok;  // main checks standard output for write errors
    bool is_written = std::fflush(file_) == 0 && !std::ferror(file_);
    std::fclose(std::exchange(file_, nullptr));
    if (is_written && std::rename(part().c_str(), path_.c_str()) == 0) return ok;
    auto why = errno;
    std::remove(part().c_str());
    return std::unexpected(file_error(path_, why));
  }

 private:
  explicit Archive(std::string path) : path_(std::move(path)) {}
  std::string part() const { return path_ + ".part"; }

  std::string path_;
  std::FILE* file_ = nullptr;
};

class Exporter {
 public:
  Exporter(Board& board, Archive& archive) : board_(board), archive_(archive) {}

  Async<> run(std::string instance) {
    // Entries written by the Go program are in no index until now.
    auto indexed = co_await board_.reindex();
    if (!indexed) co_return std::unexpected(indexed.error());
    note(indexed->unreadable);
    archive_.write(watch::ArchiveHead{std::move(instance)});
    auto done = co_await claims();
    if (done) done = co_await queues();
    if (done) done = co_await artefacts();
    if (!done) co_return done;
    archive_.write(end_);
    co_return archive_.finish();
  }
  const watch::ArchiveEnd& end() const { return end_; }
  std::size_t skipped() const { return skipped_.size(); }

 private:
  Async<> claims() {
    auto listing = from_the_oldest();
    do {
      auto page = co_await board_.all_claims(listing);
      if (!page) co_return std::unexpected(page.error());
      note(page->unreadable);
      listing.after = page->next;
      auto written = co_await write_claims(std::move(page->items));
      if (!written) co_return written;
    } while (listing.after);
    co_return ok;
  }

  Async<> write_claims(std::vector<board::DatedClaim> claims) {
    std::vector<redis::Command> questions;
    for (const auto& each : claims) {
      questions.emplace_back("GET", board_.keys().claim_by_artefact(each.claim.artefact_id));
      questions.emplace_back("HGETALL", board_.keys().bids(each.claim.id));
    }
    auto options = redis::CallOptions().idempotent();
    auto answers = co_await board_.client().batch(std::move(questions), options);
    for (const auto& answer : answers)
      if (!answer) co_return std::unexpected(answer.error());
    for (std::size_t i = 0; i < claims.size(); ++i) {
      auto& claim = claims[i].claim;
      auto bids = board::bids_from(*answers[2 * i + 1]);
      for (const auto& [role, bid] : bids) roles_.insert(role);
      if (claim.grant_queue) roles_.insert(claim.grant_queue->agent_name);
      claim.revision.clear();
      bool is_current = answers[2 * i]->text == claim.id;
      claims_.insert(claim.id);
      archive_.write(watch::ArchivedClaim{std::move(claim), claims[i].created_at, is_current,
                                          std::move(bids)});
      ++end_.claims;
    }
    co_return ok;
  }

  // For all roles.
  Async<> queues() {
    for (const auto& role : roles_) {
      redis::Command range("ZRANGE", board_.keys().grant_queue(role), 0, -1, "WITHSCORES");
      auto options = redis::CallOptions().idempotent();
      auto reply = co_await board_.client().ask(std::move(range), options);
      if (!reply) co_return std::unexpected(reply.error());
      for (const auto& pair : reply->items) {
        if (pair.items.size() != 2 || !claims_.contains(pair.items[0].text)) continue;
        std::chrono::milliseconds at(static_cast<std::int64_t>(pair.items[1].real()));
        watch::ArchivedQueueing queued{role, pair.items[0].text, board::UnixTime(at)};
        archive_.write(queued);
      }
    }
    co_return ok;
  }

  Async<> artefacts() {
    auto listing = from_the_oldest();
    do {
      auto page = co_await board_.artefacts(listing);
      if (!page) co_return std::unexpected(page.error());
      note(page->unreadable);
      end_.artefacts += page->items.size();
      for (auto& artefact : page->items) archive_.write(std::move(artefact));
      listing.after = page->next;
    } while (listing.after);
    co_return ok;
  }

  static board::Listing from_the_oldest() {
    board::Listing listing;
    listing.order = board::Order::oldest_first;
    listing.limit = page_size;
    return listing;
  }
  void note(const std::vector<Error>& unreadable) {
    for (const auto& error : unreadable)
      if (skipped_.insert(error.what).second)
        fmt::print(stderr, "warning: skipped: {}\n", watch::shown(error.what));
  }

  Board& board_;
  Archive& archive_;
  std::set<std::string> roles_, claims_, skipped_;
  watch::ArchiveEnd end_;
};

Async<Exit> export_board(Chosen& chosen, std::string path) {
  auto archive = Archive::open(std::move(path));
  if (!archive) co_return std::unexpected(archive.error());
  Exporter exporter(chosen.board, *archive);
  auto done = co_await exporter.run(chosen.instance.name);
  if (!done) co_return std::unexpected(done.error());
  fmt::print(stderr, "Exported {}: {} artefacts, {} claims\n", chosen.instance.name,
             exporter.end().artefacts, exporter.end().claims);
  co_return exporter.skipped() == 0 ? Exit::ok : Exit::failed;
}

}  // namespace

void add_export(CLI::App& root, Action& chosen) {
  auto* app = add_command(root, "export", "A board as lines of JSON", "Work and watch");
  set_footer(
      *app,
      "Artefacts, claims, bids and queues; what changes meanwhile may be in it or not. What cannot "
      "be\n"
      "read is named and left out, and the exit code is 1.\n\n"
      "Examples\n"
      "  warren export --name myproject board.jsonl\n"
      "  warren export | zstd >board.jsonl.zst");
  auto which = add_which(*app);
  auto* file = add_value(*app, "file", "FILE", "where to; -: standard output", nullptr, "-");
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      return with_board(context, which_of(which), Need::data,
                        [&](Chosen& of) { return export_board(of, value_of(*file)); });
    };
  });
}

}  // namespace warren::cli
