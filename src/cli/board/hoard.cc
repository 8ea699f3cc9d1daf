// warren hoard: shows what is on the board of an instance.
#include <fmt/format.h>

#include "cli/board/stream.h"
#include "services/board/watch/lines.h"
#include "services/board/watch/text.h"

namespace warren::cli {

namespace {

constexpr std::size_t rows_at_once = 1000;

struct HoardOptions {
  std::string id;
  watch::Filter filter;
  Output output = Output::lines;
  Paint err;
};

Async<Exit> show_one(Board& board, std::string id_begin, Output output) {
  auto id = co_await board.find_artefact(std::move(id_begin));
  if (!id) co_return std::unexpected(id.error());
  auto artefact = co_await board.artefact(*id);
  if (!artefact) co_return std::unexpected(artefact.error());
  fmt::print("{}\n", output == Output::jsonl ? to_json(*artefact) : watch::pretty(*artefact));
  co_return Exit::ok;
}

board::Listing listing_of(const watch::Filter& filter) {
  board::Listing listing;
  listing.order = board::Order::oldest_first;
  listing.limit = rows_at_once;
  if (filter.since) listing.since = *filter.since;
  if (filter.until) listing.until = *filter.until;
  // An exact type has an index of its own. Short forms and patterns do not.
  if (filter.type.find_first_of("*?[\\") == filter.type.npos &&
      watch::long_type(filter.type).empty())
    listing.type = filter.type;
  return listing;
}

// Matches a type by its name, or as the table shows it.
bool fits(const watch::Filter& filter, const board::Artefact& artefact) {
  if (filter.fits(artefact)) return true;
  auto whole = filter;
  whole.type = watch::long_type(filter.type);
  return !whole.type.empty() && whole.fits(artefact);
}

// Prints a page and returns how many of its artefacts were wanted.
std::size_t print_page(const board::Page<board::Artefact>& page, const HoardOptions& options,
                       bool is_first, const std::string& instance) {
  std::size_t count = 0;
  auto now = std::chrono::floor<std::chrono::milliseconds>(WallClock::now());
  for (const auto& error : page.unreadable)
    fmt::print(stderr, "{} skipped: {}\n", options.err.yellow("warning:"),
               watch::shown(error.what));
  for (const auto& artefact : page.items) {
    if (!fits(options.filter, artefact)) continue;
    if (options.output == Output::jsonl) {
      fmt::print("{}\n", to_json(artefact));
    } else {
      if (is_first && count == 0)
        fmt::print("Artefacts for instance '{}':\n\n{}\n", instance, watch::table_head());
      fmt::print("{}\n", watch::table_row(artefact, now));
    }
    ++count;
  }
  return count;
}

Async<Exit> show_all(Board& board, HoardOptions options, std::string instance) {
  auto listing = listing_of(options.filter);
  std::size_t count = 0;
  do {
    auto page = co_await board.artefacts(listing);
    if (!page) co_return std::unexpected(page.error());
    count += print_page(*page, options, count == 0, instance);
    listing.after = page->next;
  } while (listing.after);
  if (options.output == Output::jsonl) co_return Exit::ok;
  if (count == 0)
    fmt::print("No artefacts found for instance '{}'\n", instance);
  else
    fmt::print("\n{} artefact{} found\n", count, count == 1 ? "" : "s");
  co_return Exit::ok;
}

Async<Exit> hoard(Chosen& chosen, HoardOptions options) {
  if (!options.id.empty()) return show_one(chosen.board, std::move(options.id), options.output);
  return show_all(chosen.board, std::move(options), chosen.instance.name);
}

}  // namespace

void add_hoard(CLI::App& root, Action& chosen) {
  auto* app = add_command(root, "hoard", "What is on a board: all of it, or one artefact",
                          "Work and watch");
  set_footer(
      *app,
      "The oldest first. Of an ID its first four characters are enough, as long as only one begins "
      "so.\n"
      "A GLOB is one of the shell over the whole type: *, ?, [a-z], \\.\n\n"
      "Examples\n"
      "  warren hoard --since 1h --type 'Code*'\n"
      "  warren hoard 3f2a");
  auto which = add_which(*app);
  auto* id = add_value(*app, "id", "ID", "one artefact, whole", nullptr);
  auto filter = add_filter(*app);
  auto* output = add_output(*app);
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      auto wanted = filter_of(filter);
      if (!wanted) return std::unexpected(wanted.error());
      HoardOptions options{value_of(*id), *std::move(wanted), output_of(*output), context.err};
      return with_board(context, which_of(which), Need::data,
                        [&](Chosen& of) { return hoard(of, std::move(options)); });
    };
  });
}

}  // namespace warren::cli
