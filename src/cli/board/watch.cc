// warren watch: shows what happens on the board of an instance, as it happens.
#include <fmt/format.h>

#include "cli/board/stream.h"

namespace warren::cli {

namespace {

struct WatchOptions {
  watch::WatchTerms terms;
  Output output = Output::lines;
  Paint out, err;
};

Async<Exit> settle_and_run(watch::Watcher& watcher) {
  auto settled = co_await watcher.settle();
  if (!settled) co_return std::unexpected(settled.error());
  auto watched = co_await watch_until_interrupted(watcher);
  if (!watched) co_return std::unexpected(watched.error());
  co_return Exit::ok;
}

Async<Exit> watch_board(Chosen& chosen, WatchOptions options) {
  if (chosen.instance.state == InstanceState::stale)
    fmt::print(stderr, "{} {} is stopped: nothing new happens until it is started again\n",
               options.err.yellow("note:"), chosen.instance.name);
  BoardFeed feed(chosen.board.client(), chosen.board.keys());
  watch::Watcher watcher(
      chosen.board, feed, options.terms,
      [&](const watch::Happening& happening) {
        print(happening, options.output, options.out);
        return true;
      },
      notices(options.err));
  auto watched = co_await settle_and_run(watcher);
  co_await feed.close();
  co_return watched;
}

}  // namespace

void add_watch(CLI::App& root, Action& chosen) {
  auto* app =
      add_command(root, "watch", "What happens on a board, as it happens", "Work and watch");
  set_footer(
      *app,
      "With --since, --until, --type or --agent it begins with what happened before: no gap and "
      "nothing\n"
      "twice between the two. Bids and grants are shown live only. A TIME is a moment "
      "(2026-01-31T23:59:59Z)\n"
      "or how long ago (90s, 1h30m).\n\n"
      "Examples\n"
      "  warren watch --since 1h --type 'Code*'\n"
      "  warren watch --output jsonl --exit-on-completion");
  auto which = add_which(*app);
  auto filter = add_filter(*app);
  auto* output = add_output(*app);
  auto* until_completion = add_switch(*app, "--exit-on-completion",
                                      "end with the first Terminal artefact, be it shown or not");
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      auto wanted = filter_of(filter);
      if (!wanted) return std::unexpected(wanted.error());
      bool with_history = !wanted->is_empty();
      WatchOptions options{{*std::move(wanted), with_history, is_given(*until_completion)},
                           output_of(*output),
                           context.out,
                           context.err};
      return with_board(context, which_of(which), Need::data,
                        [&](Chosen& of) { return watch_board(of, std::move(options)); });
    };
  });
}

}  // namespace warren::cli
