// warren boards: lists every board, including those whose instances no longer run.
#include "cli/instance/boards.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <set>
#include <tuple>

#include "base/age.h"
#include "cli/instance/servers.h"
#include "cli/instance/which.h"
#include "cli/say.h"

namespace warren::cli {

namespace {

namespace json = boost::json;

constexpr auto boards_within = 30s;

// The name in "holt:NAME:artefact:…", with or without a cluster's braces. Returns "" for other
// keys.
std::string board_of(const std::string& key, const std::string& prefix) {
  auto rest = std::string_view(key);
  if (!rest.starts_with(prefix + ":")) return "";
  rest.remove_prefix(prefix.size() + 1);
  auto name = rest.substr(0, rest.find(':'));
  if (!rest.substr(name.size()).starts_with(":artefact:")) return "";
  if (name.starts_with('{') && name.ends_with('}')) name = name.substr(1, name.size() - 2);
  return std::string(name);
}

// Boards that were started by an older Warren or by another program. Only their keys reveal them.
awaitable<void> add_unlisted(redis::Client& client, const std::string& prefix,
                             std::vector<ListedInstance>& boards) {
  std::set<std::string> names;
  auto note = [&](const std::string& key) {
    auto name = board_of(key, prefix);
    if (board::BoardKeys::create(prefix, name, board::Layout::plain)) names.insert(std::move(name));
  };
  auto scanned = co_await scan_every_server(client, prefix + ":*:artefact:*",
                                            Clock::now() + boards_within, note);
  if (!scanned)
    say("note: there may be more boards than these: {}\n", printable(scanned.error().what));
  for (const auto& board : boards) names.erase(board.name);
  for (const auto& name : names) {
    auto is_run = co_await is_run_elsewhere(client, prefix, name);
    boards.push_back({name, is_run ? InstanceState::unlisted : InstanceState::stale, {}});
  }
}

// So that what other programs wrote is counted too.
awaitable<void> index_unlisted(redis::Client& client, const std::string& prefix,
                               const std::vector<ListedInstance>& boards) {
  for (const auto& each : boards) {
    if (!each.entry.run_id.empty()) continue;
    auto board = Board::open(client, prefix, each.name);
    if (board) (void)co_await board->reindex();
  }
}

std::string state_of(const Overview& board) {
  const auto& instance = board.instance;
  if (instance.state == InstanceState::stale) return "stopped";
  if (instance.entry.run_id.empty()) return "elsewhere";
  return std::string(name(instance.state));
}

void print_boards(const std::vector<Overview>& boards, const std::string& title,
                  const Paint& paint) {
  if (boards.empty()) return fmt::print("No {} boards\n", title);
  fmt::print("{} boards:\n", title);
  std::size_t width = 12, work = 0;
  for (const auto& each : boards) {
    width = std::max(width, each.instance.name.size());
    work = std::max(work, work_on(each).size());
  }
  for (const auto& each : boards) {
    const auto& entry = each.instance.entry;
    auto age = std::chrono::duration_cast<std::chrono::seconds>(age_of(entry.started_at));
    bool is_known = !entry.run_id.empty();
    auto started = is_known ? fmt::format("(started {} ago)", age_text(age)) : std::string("-");
    auto state = fmt::format("{:<9}", state_of(each));
    fmt::print("  {:<{}} {} {:<{}}  {:<18} {}\n", printable(each.instance.name), width,
               each.instance.state == InstanceState::stale ? state : paint.green(state),
               work_on(each), work, started, is_known ? printable(entry.workspace_path) : "-");
  }
}

void print_boards_json(const std::vector<Overview>& boards) {
  json::array list;
  for (const auto& board : boards) {
    auto object = to_object(board);
    object["state"] = state_of(board);
    list.push_back(std::move(object));
  }
  fmt::print("{}\n", json::serialize(list));
}

Async<Exit> show_boards(redis::Client& client, std::string prefix, bool in_json, Paint paint) {
  Registry registry(client, prefix);
  auto boards = co_await registry.boards();
  if (!boards) co_return std::unexpected(boards.error());
  co_await add_unlisted(client, prefix, *boards);
  co_await index_unlisted(client, prefix, *boards);
  auto overview = co_await overview_of(client, prefix, *std::move(boards));
  if (!overview) co_return std::unexpected(overview.error());
  if (in_json)
    print_boards_json(*overview);
  else
    print_boards(*overview, capitalised(prefix), paint);
  co_return Exit::ok;
}

}  // namespace

std::size_t open_work(const Overview& board) {
  return board.open.value_or(0) + board.unclaimed.value_or(0);
}

std::string work_on(const Overview& board) {
  auto artefacts = board.artefacts.value_or(0), untaken = board.untaken.value_or(0);
  auto text =
      fmt::format("{} artefact{}, {} open", artefacts, artefacts == 1 ? "" : "s", open_work(board));
  return untaken > 0 ? fmt::format("{} ({} untaken)", text, untaken) : text;
}

Async<std::vector<Overview>> boards_left_in(redis::Client& client, std::string prefix,
                                            std::string folder) {
  Registry registry(client, prefix);
  auto boards = co_await registry.boards();
  if (!boards) co_return std::unexpected(boards.error());
  std::erase_if(*boards, [&](const ListedInstance& board) {
    bool runs = board.state != InstanceState::stale && !is_known_dead(board.entry);
    return runs || board.entry.workspace_path != folder;
  });
  auto overview = co_await overview_of(client, std::move(prefix), *std::move(boards));
  if (!overview) co_return overview;
  std::ranges::sort(*overview, std::ranges::greater(), [](const Overview& board) {
    return std::tuple(open_work(board) > 0, board.artefacts.value_or(0) > 0,
                      board.instance.entry.started_at);
  });
  co_return overview;
}

void add_boards(CLI::App& root, Action& chosen) {
  auto* app =
      add_command(root, "boards", "Every board, also of instances that run no more", "Instances");
  set_footer(
      *app,
      "A board stays when its instance is stopped or dies. `hoard`, `explain` and `watch` read it, "
      "also\n"
      "while it is stopped; `warren up --resume` in its folder, or `warren up --name`, goes on "
      "with "
      "it;\n"
      "`warren destroy` removes it. Looks at all keys of the server, so that boards of other "
      "programs are\n"
      "found, too.\n\n"
      "Example\n"
      "  warren boards --json");
  auto program = program_of(root);
  auto* prefix = add_prefix(*app);
  auto* in_json = add_json(*app);
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      auto redis = find_instance_redis(context);
      if (!redis) return std::unexpected(redis.error());
      if (!redis->is_there && !redis->embedded.has_data()) {
        if (is_given(*in_json))
          print_boards_json({});
        else
          print_boards({}, capitalised(value_of(*prefix)), context.out);
        return Exit::ok;
      }
      redis->use = EmbeddedRedis::Use(-1);
      return with_registry(context, program, [&](redis::Client& client) {
        return show_boards(client, value_of(*prefix), is_given(*in_json), context.out);
      });
    };
  });
}

}  // namespace warren::cli
