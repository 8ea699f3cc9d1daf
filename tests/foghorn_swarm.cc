#include "foghorn_swarm.h"

#include <random>

#include "net/http/client.h"

namespace warren {

namespace {

enum class Way : unsigned char { play, host, source };

std::string target_of(Way way, std::size_t stream) {
  switch (way) {
    case Way::play:
      return fmt::format("/play/stream-{}/hls", stream);
    case Way::host:
      return fmt::format("/stream-{}?proto=https", stream);
    case Way::source:
      return fmt::format("/?source=stream-{}", stream);
  }
  return "";
}

// An instance that knows of no node answers "localhost", and with a status that is not an error.
bool leads_to_a_node(Way way, const HttpReply& reply) {
  if (way == Way::source) return reply.status == 200 && reply.body.starts_with("dtsc://edge-");
  return reply.status == 307 && reply.header("location").starts_with("https://edge-");
}

}  // namespace

struct Swarm::State {
  SwarmTerms terms;
  std::vector<std::string> urls;
  std::vector<bool> alive = {};
  std::vector<bool> heard = {};
  Counters counters = {};
  bool is_held = false;
  std::mt19937_64 random{42};
  struct Held {
    int stream;
    bool is_replicated;
  };
  std::vector<std::vector<Held>> held = {};  // by node

  // Three nodes have each stream, the first of them as its origin.
  void deal_streams() {
    held.resize(static_cast<std::size_t>(terms.nodes));
    for (int s = 0; s < terms.streams; ++s)
      for (int k = 0; k < 3; ++k) {
        auto node = (7 * s + terms.holder_step * k) % terms.nodes;
        held[static_cast<std::size_t>(node)].push_back({s, k > 0});
      }
  }

  std::string report_of(int node) {
    std::string streams;
    for (const auto& each : held[static_cast<std::size_t>(node)])
      streams +=
          fmt::format(R"({}"stream-{}":{{"total":{},"inputs":1,"replicated":{}}})",
                      streams.empty() ? "" : ",", each.stream, random() % 20, each.is_replicated);
    return fmt::format(
        R"({{"cpu_tenths":{},"ram_max":1000,"ram_current":{},"up_speed":{},"bw_limit":1000000000000,)"
        R"("base_url":"https://edge-{}.example","is_healthy":true,"capabilities":{{"edge":true}},)"
        R"("latitude":{},"longitude":{},"outputs":{{"HLS":"https://HOST/hls/$/index.m3u8"}},)"
        R"("streams":{{{}}}}})",
        random() % 800, random() % 500, random() % 1'000'000, node, 1 + node % 60, 1 + node % 170,
        streams);
  }
};

Swarm::Swarm(SwarmTerms terms, std::vector<std::string> urls) : state_(new State{terms, urls}) {
  state_->alive.assign(urls.size(), true);
  state_->heard.assign(static_cast<std::size_t>(terms.nodes), false);
  state_->deal_streams();
}
Swarm::~Swarm() = default;

void Swarm::set_alive(std::size_t instance, bool is_alive) { state_->alive[instance] = is_alive; }
void Swarm::hold_reports(bool is_held) { state_->is_held = is_held; }
const Swarm::Counters& Swarm::counters() const { return state_->counters; }
bool Swarm::is_complete() const {
  return std::ranges::all_of(state_->heard, [](bool was_heard) { return was_heard; });
}

void Swarm::start_nodes(TaskGroup& tasks) {
  auto node = [](State& state, int id) -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    auto instance = static_cast<std::size_t>(id) % state.urls.size();
    HttpClient client(executor, *parse_http_url(state.urls[instance]));
    // They do not all report at the same moment.
    co_await sleep_for(state.terms.report_interval * id / state.terms.nodes);
    for (;;) {
      while (state.is_held) co_await sleep_for(5ms);
      HttpAsk report{"POST", fmt::format("/v1/nodes/node-{}/report", id), "", state.report_of(id)};
      auto reply = co_await client.ask(std::move(report), Clock::now() + 2s);
      if (reply && reply->status == 200) {
        ++state.counters.reports;
        state.heard[static_cast<std::size_t>(id)] = true;
        co_await sleep_for(state.terms.report_interval);
      } else {
        ++state.counters.failed_reports;
        instance = (instance + 1) % state.urls.size();
        client.close();
        client = HttpClient(executor, *parse_http_url(state.urls[instance]));
        co_await sleep_for(20ms);
      }
    }
  };
  for (int id = 0; id < state_->terms.nodes; ++id) tasks.start("node", node(*state_, id));
}

void Swarm::start_viewers(TaskGroup& tasks) {
  auto viewer = [](State& state) -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    std::vector<std::unique_ptr<HttpClient>> clients;
    for (const auto& url : state.urls)
      clients.push_back(std::make_unique<HttpClient>(executor, *parse_http_url(url)));
    for (;;) {
      auto instance = state.random() % clients.size();
      if (!state.alive[instance]) instance = (instance + 1) % clients.size();
      auto stream = state.random() % static_cast<std::size_t>(state.terms.streams);
      auto way = state.terms.asks_in_all_ways ? Way(state.random() % 3) : Way::play;
      HttpAsk question{"GET", target_of(way, stream)};
      auto asked_at = Clock::now();
      auto reply =
          co_await clients[instance]->ask(std::move(question), asked_at + state.terms.patience);
      auto took = Clock::now() - asked_at;
      auto& counters = state.counters;
      ++counters.statuses[reply ? reply->status : 0];
      if (reply && leads_to_a_node(way, *reply)) {
        ++counters.answered;
        counters.slowest = std::max(counters.slowest, took);
      } else if (state.alive[instance]) {  // it may have died meanwhile
        ++counters.lost;
        auto why = reply ? fmt::format("{} {}", reply->status, reply->body) : reply.error().what;
        if (counters.unanswered.size() < 5)
          counters.unanswered.push_back(
              fmt::format("instance {}, {}: {}", instance, target_of(way, stream), why));
      }
      co_await sleep_for(state.terms.viewer_pause);
    }
  };
  for (int i = 0; i < state_->terms.viewers; ++i) tasks.start("viewer", viewer(*state_));
}

}  // namespace warren
