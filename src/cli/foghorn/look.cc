// foghorn nodes, streams, artifacts, peers, leader, balance: what a running instance knows.
#include <fmt/format.h>

#include <boost/json.hpp>
#include <charconv>
#include <cmath>

#include "cli/foghorn/foghorn.h"
#include "net/http/target.h"

namespace warren::cli {

namespace json = boost::json;

FoghornOptions add_foghorn_options(CLI::App& app) {
  return {
      add_value(app, "--url", "URL", "of an instance that runs", nullptr, "http://127.0.0.1:18008"),
      add_value(app, "--cluster", "ID", "of several that it serves", nullptr, ""),
      add_value(app, "--timeout", "TIME", "for the answer", duration(), "5s")};
}

namespace {

Async<HttpReply> ask(HttpUrl server, std::string target, std::chrono::milliseconds timeout) {
  HttpClient client(co_await asio::this_coro::executor, std::move(server));
  HttpAsk question{.target = std::move(target)};
  auto reply = co_await client.ask(std::move(question), Clock::now() + timeout);
  if (!reply && reply.error().code == Errc::unavailable)
    co_return fail(Errc::refused, "{} (is a Foghorn running there? `foghorn serve` starts one)",
                   reply.error().what);
  co_return reply;
}

// Not Errc::protocol, which is about Redis.
std::unexpected<Error> no_foghorn() {
  return fail(Errc::refused, "what answers there is no Foghorn");
}

bool is_table(const json::value* value) {
  return value && value->is_array() &&
         std::ranges::all_of(value->get_array(), [](const auto& row) { return row.is_object(); });
}

Result<json::value> understood(const HttpReply& reply) {
  boost::system::error_code error;
  json::parse_options options;
  options.max_depth = 128;  // nodes report arbitrary values, and we show them
  auto value = json::parse(reply.body, error, {}, options);
  if (error) return no_foghorn();
  if (reply.status == 200) return value;
  const auto* says = value.is_object() ? value.get_object().if_contains("message") : nullptr;
  std::string why = says && says->is_string() ? std::string(says->get_string()) : reply.body;
  return fail(reply.status == 404 ? Errc::not_found : Errc::refused, "{}", why);
}

std::string text_of(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  if (!value || value->is_null()) return "-";
  if (value->is_string()) return value->get_string().empty() ? "-" : value->get_string().c_str();
  if (value->is_double()) return fmt::format("{:.1f}", value->get_double());
  if (value->is_array()) return std::to_string(value->get_array().size());
  return json::serialize(*value);
}

struct Column {
  const char* title;
  const char* member;
};

// Each column is as wide as its widest cell.
void print_table(const json::array& rows, const std::vector<Column>& columns, const Paint& paint) {
  std::vector<std::vector<std::string>> cells(1);
  for (const auto& column : columns) cells[0].emplace_back(column.title);
  for (const auto& row : rows) {
    auto& line = cells.emplace_back();
    for (const auto& column : columns)
      line.push_back(printable(text_of(row.as_object(), column.member)));
  }
  std::vector<std::size_t> widths(columns.size());
  for (const auto& line : cells)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  for (std::size_t row = 0; row < cells.size(); ++row) {
    std::string text;
    for (std::size_t i = 0; i < columns.size(); ++i)
      text += i + 1 < columns.size() ? fmt::format("{:<{}}  ", cells[row][i], widths[i])
                                     : cells[row][i];
    fmt::print("{}\n", row == 0 ? paint.bold(text) : text);
  }
}

struct List {
  const char *name, *about, *target;
  std::vector<Column> columns;
};

void add_one_list(CLI::App& root, Action& chosen, const List& list) {
  auto* app = add_command(root, list.name, list.about, "Foghorn");
  auto options = add_foghorn_options(*app);
  auto* in_json = add_json(*app);
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      auto said = ask_foghorn(context, options, list.target);
      if (!said) return std::unexpected(said.error());
      if (!is_table(&*said)) return no_foghorn();
      if (is_given(*in_json))
        fmt::print("{}\n", json::serialize(*said));
      else
        print_table(said->as_array(), list.columns, context.out);
      return Exit::ok;
    };
  });
}

void print_leader(const json::object& says) {
  auto leader = text_of(says, "leader");
  if (leader == "-")
    return fmt::print("nobody leads cluster {}\n", printable(text_of(says, "cluster_id")));
  fmt::print("{} leads cluster {} since {}\n", printable(leader),
             printable(text_of(says, "cluster_id")), printable(text_of(says, "since")));
}

void add_leader(CLI::App& root, Action& chosen) {
  auto* app = add_command(root, "leader", "Who leads the cluster", "Foghorn");
  auto options = add_foghorn_options(*app);
  auto* in_json = add_json(*app);
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      auto said = ask_foghorn(context, options, "/v1/leader");
      if (!said) return std::unexpected(said.error());
      if (!said->is_object()) return no_foghorn();
      if (is_given(*in_json))
        fmt::print("{}\n", json::serialize(*said));
      else
        print_leader(said->as_object());
      return Exit::ok;
    };
  });
}

void print_choice(const json::object& says, bool with_reasons, const Paint& paint) {
  const auto* nodes = says.if_contains("nodes");
  if (with_reasons && nodes)
    print_table(nodes->as_array(),
                {{"NODE", "node_id"},
                 {"SCORE", "score"},
                 {"CPU", "cpu"},
                 {"RAM", "ram"},
                 {"BW", "bw"},
                 {"GEO", "geo"},
                 {"BONUS", "bonus"},
                 {"TAGS", "adjustment"},
                 {"LEFT OUT", "rejected"}},
                paint);
  else if (nodes && !nodes->as_array().empty())
    print_table(nodes->as_array(), {{"NODE", "node_id"}, {"SCORE", "score"}, {"URL", "base_url"}},
                paint);
  if (auto why = text_of(says, "why_none"); why != "-") fmt::print("no node: {}\n", printable(why));
}

Check degrees(double most) {
  return [most](std::string_view text) -> Result<> {
    double value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    bool is_number = error == std::errc() && end == text.data() + text.size();
    if (is_number && std::abs(value) <= most) return ok;
    return fail(Errc::invalid, "use degrees from -{0} to {0}", most);
  };
}

void add_balance(CLI::App& root, Action& chosen) {
  auto* app = add_command(root, "balance", "The best nodes for a viewer", "Foghorn");
  set_footer(*app, "Example\n  foghorn balance demo --lat 52.1 --lon 4.3 --explain");
  auto* stream = add_value(*app, "stream", "STREAM", "its name; without one: any node", nullptr);
  auto* lat = add_value(*app, "--lat", "DEGREES", "where the viewer is", degrees(90), "");
  auto* lon = add_value(*app, "--lon", "DEGREES", "where the viewer is", degrees(180), "");
  auto* source = add_switch(*app, "--source", "a node to pull it from, not one to watch it at");
  auto* cap = add_value(*app, "--cap", "LIST", "what the node must be able to do", nullptr, "");
  auto* explains = add_switch(*app, "--explain", "every node, with all parts of its score");
  auto options = add_foghorn_options(*app);
  auto* in_json = add_json(*app);
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      auto target =
          "/v1/balance?stream=" + percent_encoded(is_given(*stream) ? value_of(*stream) : "");
      for (auto [name, option] : {std::pair{"lat", lat}, {"lon", lon}, {"cap", cap}})
        if (is_given(*option))
          target += fmt::format("&{}={}", name, percent_encoded(value_of(*option)));
      if (is_given(*source)) target += "&source=1";
      if (is_given(*explains)) target += "&explain=1";
      auto said = ask_foghorn(context, options, std::move(target));
      if (!said) return std::unexpected(said.error());
      if (!said->is_object() || !is_table(said->get_object().if_contains("nodes")))
        return no_foghorn();
      if (is_given(*in_json))
        fmt::print("{}\n", json::serialize(*said));
      else
        print_choice(said->as_object(), is_given(*explains), context.out);
      return said->as_object().contains("why_none") ? Exit::failed : Exit::ok;
    };
  });
}

}  // namespace

Result<json::value> ask_foghorn(const Context& context, const FoghornOptions& options,
                                std::string target) {
  auto server = parse_http_url(value_of(*options.url));
  if (!server) return std::unexpected(server.error());
  auto config = load_config(context);
  if (!config) return std::unexpected(config.error());
  if (auto cluster = value_of(*options.cluster); !cluster.empty())
    target = "/clusters/" + percent_encoded(cluster) + target;
  if (server->path.size() > 1) target = server->path + target;
  Result<HttpReply> reply = fail(Errc::cancelled, "");
  auto timeout = *parse_duration(value_of(*options.timeout));
  auto all = [](Async<HttpReply> work, Result<HttpReply>& into) -> awaitable<void> {
    into = co_await std::move(work);
  };
  asio::co_spawn(
      context.io, all(ask(*server, std::move(target), timeout), reply),
      [](std::exception_ptr thrown) { ensure(!thrown, "a command returns its errors"); });
  context.io.run();
  if (!reply) return std::unexpected(reply.error());
  return understood(*reply);
}

void add_foghorn_looks(CLI::App& root, Action& chosen) {
  add_one_list(root, chosen,
               {"nodes",
                "The nodes of a cluster",
                "/v1/nodes?limit=10000",
                {{"NODE", "node_id"},
                 {"ACTIVE", "is_active"},
                 {"MODE", "operational_mode"},
                 {"CPU%", "cpu"},
                 {"UP", "up_speed"},
                 {"LIMIT", "bw_limit"},
                 {"STREAMS", "stream_count"},
                 {"VIEWERS", "active_viewers"},
                 {"URL", "base_url"}}});
  add_one_list(root, chosen,
               {"streams",
                "The streams of a cluster",
                "/v1/streams?limit=10000",
                {{"STREAM", "internal_name"},
                 {"STATUS", "status"},
                 {"BUFFER", "buffer_state"},
                 {"VIEWERS", "viewers"},
                 {"CONNECTIONS", "total_connections"},
                 {"NODES", "instances"},
                 {"ORIGIN", "node_id"},
                 {"TENANT", "tenant_id"}}});
  add_one_list(root, chosen,
               {"artifacts",
                "What nodes of a cluster have stored",
                "/v1/artifacts?limit=10000",
                {{"CONTENT", "content_id"},
                 {"TYPE", "type"},
                 {"SIZE", "size"},
                 {"NODES", "nodes"},
                 {"NODE", "node_id"}}});
  add_one_list(root, chosen,
               {"peers",
                "Other clusters that it knows",
                "/v1/peers",
                {{"CLUSTER", "cluster_id"},
                 {"CONNECTED", "is_connected"},
                 {"STREAMS", "streams"},
                 {"EDGES", "edges"},
                 {"ARTIFACTS", "artifacts"},
                 {"PROBLEM", "problem"}}});
  add_leader(root, chosen);
  add_balance(root, chosen);
}

}  // namespace warren::cli
