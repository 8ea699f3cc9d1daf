// choose() against a model that is obviously right: no index, no mask, no bound, every node looked
// at, everything sorted. And a builder that saw many changes against one that saw only the last.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <utility>

#include "services/foghorn/balance/test_tables.h"

using namespace warren::balance;

namespace {

struct Model {
  std::map<std::string, NodeFacts> nodes;
  std::map<std::string, std::map<std::string, Holding>> holdings;  // stream -> node
  std::map<std::string, std::uint64_t> penalties;
  Weights weights;
};

// Also empty ones.
std::vector<std::string> entries(std::string_view list) {
  std::vector<std::string> all(1);
  for (char letter : list) {
    if (letter == ',')
      all.emplace_back();
    else if (letter != ' ')
      all.back() += letter;
  }
  return all;
}

std::vector<std::string> words(std::string_view list) {
  auto all = entries(list);
  std::erase(all, "");
  return all;
}

bool has(const std::vector<std::string>& list, const std::string& word) {
  return std::ranges::find(list, word) != list.end();
}

bool can(const NodeFacts& node, const std::string& word) {
  if (word == "ingest" && node.cap_ingest) return true;
  if (word == "edge" && node.cap_edge) return true;
  if (word == "storage" && node.cap_storage) return true;
  if (word == "processing" && node.cap_processing) return true;
  return has(node.roles, word);
}

double naive_distance(double lat1, double lon1, double lat2, double lon2) {
  auto radians = [](double degrees) { return degrees / 57.29577951308232087684; };
  double cosine =
      std::sin(radians(lat1)) * std::sin(radians(lat2)) +
      std::cos(radians(lat1)) * std::cos(radians(lat2)) * std::cos(radians(lon1) - radians(lon2));
  return std::acos(std::min(1.0, std::max(-1.0, cosine))) * 0.31830988618379067153;
}

const Holding* holding_of(const Model& model, const Query& query, const std::string& node) {
  auto stream = model.holdings.find(std::string(query.stream));
  if (stream == model.holdings.end()) return nullptr;
  auto found = stream->second.find(node);
  return found == stream->second.end() ? nullptr : &found->second;
}

bool can_be_pulled(const Model& model, const Query& query) {
  for (const auto& [id, node] : model.nodes) {
    const auto* holding = holding_of(model, query, id);
    if (holding && holding->inputs > 0 && node.is_healthy && !node.is_stale &&
        node.mode == NodeMode::normal)
      return true;
  }
  return false;
}

std::int64_t adjustment_of(const NodeFacts& node, const Query& query) {
  std::int64_t sum = 0;
  for (const auto& [expression, amount] : query.adjustments) {
    bool is_inverted = expression.starts_with("-");
    auto tags = entries(is_inverted ? expression.substr(1) : expression);
    bool any = std::ranges::any_of(tags, [&](const auto& tag) { return has(node.tags, tag); });
    if (!expression.empty() && any != is_inverted) sum += amount;
  }
  return sum;
}

std::pair<Rejection, std::uint64_t> rate(const Model& model, const Query& query,
                                         const NodeFacts& node) {
  using enum Rejection;
  bool is_fair = query.policy == Policy::fair;
  bool is_same_host = query.client != BinaryHost{} && query.client == node.host;
  bool wants_stream = !query.stream.empty();
  if (node.mode == NodeMode::maintenance) return {maintenance, 0};
  if (!node.is_healthy || node.is_stale) return {inactive, 0};
  for (const auto& word : words(query.capabilities))
    if (!can(node, word)) return {lacks_capability, 0};
  if (!query.tenant.empty() && !node.tenant.empty() && node.tenant != query.tenant)
    return {other_tenant, 0};
  if (node.mode == NodeMode::draining) return {draining, 0};
  if (wants_stream && is_same_host) return {is_the_client, 0};
  if (node.ram_max == 0 || node.bw_limit == 0) return {no_metrics, 0};
  auto up = static_cast<std::uint64_t>(node.up_speed) + model.penalties.at(node.id);
  auto limit = static_cast<std::uint64_t>(node.bw_limit);
  if (up >= limit) return {out_of_bandwidth, 0};
  const auto* holding = holding_of(model, query, node.id);
  bool is_open = is_fair && !query.for_source && can_be_pulled(model, query);
  if (wants_stream && !is_open) {
    if (!holding) return {stream_missing, 0};
    if (holding->inputs == 0) return {no_inputs, 0};
    if (query.for_source && holding->is_replicated) return {replicated, 0};
  }
  if (wants_stream && !node.config_streams.empty()) {
    bool is_allowed = false;
    std::string stream(query.stream);
    for (const auto& entry : node.config_streams)
      is_allowed = is_allowed || stream == entry || stream.starts_with(entry + "+") ||
                   stream.starts_with(entry + " ");
    if (!is_allowed) return {not_allowed, 0};
  }
  const auto& weights = model.weights;
  std::uint64_t score = 0;
  if (node.cpu_percent <= 100)
    score += weights.cpu - static_cast<std::uint64_t>(node.cpu_percent * 10) * weights.cpu / 1000;
  auto ram = static_cast<std::uint64_t>(node.ram_current);
  auto ram_max = static_cast<std::uint64_t>(node.ram_max);
  score += ram > ram_max ? 0 : weights.ram - ram * weights.ram / ram_max;
  score += weights.bw - up * weights.bw / limit;
  if (is_place(query.latitude, query.longitude) && is_place(node.latitude, node.longitude)) {
    auto far = naive_distance(query.latitude, query.longitude, node.latitude, node.longitude);
    score += weights.geo - static_cast<std::uint64_t>(static_cast<double>(weights.geo) * far);
  } else if (is_fair) {
    score += weights.geo / 2;
  }
  if (wants_stream && holding && holding->inputs > 0) score += weights.bonus;
  auto sum = adjustment_of(node, query);
  if (sum < 0 && static_cast<std::uint64_t>(-sum) >= score) return {score_zero, 0};
  score += static_cast<std::uint64_t>(sum);
  if (is_same_host) score *= 5;
  if (score == 0) return {score_zero, 0};
  return {none, score};
}

class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  int below(int bound) { return std::uniform_int_distribution<>(0, bound - 1)(random_); }
  bool one_in(int many) { return below(many) == 0; }
  double between(double low, double high) {
    return std::uniform_real_distribution<>(low, high)(random_);
  }
  std::string pick(std::initializer_list<const char*> words) {
    return words.begin()[below(static_cast<int>(words.size()))];
  }

 private:
  std::mt19937 random_;
};

BinaryHost random_host(Dice& dice) {
  return dice.one_in(3) ? BinaryHost{} : binary_host("10.0.0." + std::to_string(dice.below(6)));
}

NodeFacts random_node(Dice& dice, std::string id) {
  auto node = an_edge(std::move(id));
  node.is_healthy = !dice.one_in(10);
  node.is_stale = dice.one_in(10);
  if (dice.one_in(6)) node.mode = dice.one_in(2) ? NodeMode::draining : NodeMode::maintenance;
  if (!dice.one_in(4)) {
    node.latitude = dice.one_in(8) ? 95 : std::round(dice.between(-90, 90));
    node.longitude = std::round(dice.between(-180, 180));
  }
  node.host = random_host(dice);
  node.cpu_percent = dice.one_in(3) ? dice.below(3) * 60 : dice.between(0, 105);
  node.ram_max = dice.one_in(10) ? 0 : 32 * gib;
  node.ram_current = dice.between(0, 34) * gib;
  node.bw_limit = dice.one_in(10) ? 0 : 1e8;
  node.up_speed = dice.one_in(8) ? 1e8 : dice.between(0, 1e8);
  node.cap_edge = dice.one_in(2);
  node.cap_storage = dice.one_in(3);
  node.cap_ingest = dice.one_in(3);
  if (dice.one_in(3)) node.roles = {dice.pick({"edge", "gpu", "processing"})};
  for (int i = dice.below(3); i > 0; --i) node.tags.push_back(dice.pick({"a", "b", "c", "dd", ""}));
  if (dice.one_in(4)) node.tenant = dice.pick({"me", "you"});
  if (dice.one_in(6)) node.config_streams = {dice.pick({"s1", "s2", "s"}), "s3"};
  return node;
}

std::string random_stream(Dice& dice) {
  return dice.pick({"s1", "s2", "s3", "s1+x", "s2 y", "s4"});
}

// Changes model and builder alike.
void change(Dice& dice, Model& model, TableBuilder& builder) {
  auto id = "n" + std::to_string(dice.below(150));
  switch (dice.below(8)) {
    case 0:
      builder.erase_node(id);
      model.nodes.erase(id);
      model.penalties.erase(id);
      for (auto& [stream, nodes] : model.holdings) nodes.erase(id);
      break;
    case 1: {
      auto stream = random_stream(dice);
      if (!dice.one_in(5)) break;
      builder.erase_stream(stream);
      model.holdings.erase(stream);
      break;
    }
    case 2: {
      auto stream = random_stream(dice);
      builder.erase_holding(stream, id);
      model.holdings[stream].erase(id);
      break;
    }
    case 3:
    case 4: {
      auto stream = random_stream(dice);
      Holding holding{.inputs = static_cast<std::uint32_t>(dice.below(3)),
                      .is_replicated = dice.one_in(3)};
      builder.put_holding(stream, id, holding);
      model.holdings[stream][id] = holding;
      break;
    }
    default: {
      auto node = random_node(dice, id);
      builder.put_node(node);
      model.nodes[id] = node;
      std::uint64_t penalty =
          dice.one_in(2) ? 0 : static_cast<std::uint64_t>(dice.below(30'000'000));
      model.penalties[id] = penalty;
      builder.penalty(id)->bandwidth = penalty / 2;
      builder.penalty(id)->peer_bandwidth = penalty - penalty / 2;
    }
  }
}

struct Question {
  Query query;
  std::string stream, capabilities, tenant;
  std::vector<TagAdjustment> adjustments;

  explicit Question(Dice& dice) {
    if (!dice.one_in(4)) stream = random_stream(dice);
    if (dice.one_in(4))
      capabilities = dice.pick({"edge", "edge,storage", "gpu", "ingest", " edge , gpu"});
    if (dice.one_in(4)) tenant = dice.pick({"me", "you", "them"});
    for (int i = dice.one_in(3) ? dice.below(4) : 0; i > 0; --i)
      adjustments.push_back({dice.pick({"a", "b, c", "-a", "-dd,b", "", "none", "-", ",", "- a"}),
                             dice.one_in(3) ? -dice.below(4000) : dice.below(300)});
    query.stream = stream;
    query.capabilities = capabilities;
    query.tenant = tenant;
    query.adjustments = adjustments;
    if (!dice.one_in(4)) {
      query.latitude = dice.between(-92, 92);
      query.longitude = dice.between(-180, 180);
    }
    query.client = random_host(dice);
    query.most = 1 + static_cast<std::size_t>(dice.below(18));
    query.for_source = dice.one_in(4);
    query.policy = dice.one_in(2) ? Policy::fair : Policy::compat;
  }
};

// What a decision is, without places.
struct Answer {
  std::vector<std::pair<std::uint64_t, std::string>> best;
  std::array<std::uint32_t, static_cast<std::size_t>(Rejection::count_)> rejected = {};
  bool operator==(const Answer&) const = default;
};

Answer by_model(const Model& model, const Query& query) {
  Answer answer;
  for (const auto& [id, node] : model.nodes) {
    auto [rejection, score] = rate(model, query, node);
    if (rejection == Rejection::none)
      answer.best.emplace_back(score, id);
    else
      ++answer.rejected[static_cast<std::size_t>(rejection)];
  }
  if (!answer.best.empty()) answer.rejected = {};
  std::ranges::sort(answer.best, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  if (answer.best.size() > std::min(query.most, most_choices))
    answer.best.resize(std::min(query.most, most_choices));
  return answer;
}

Answer by_table(const RoutingTable& table, const Query& query) {
  auto decision = choose(table, query);
  Answer answer;
  for (std::size_t i = 0; i < decision.count; ++i)
    answer.best.emplace_back(decision.best[i].total, node_at(table, decision.best[i].node)->id);
  answer.rejected = decision.rejected;
  return answer;
}

bool explains(const RoutingTable& table, const Model& model, const Query& query) {
  auto all = explain(table, query);
  if (all.size() != model.nodes.size()) return false;
  return std::ranges::all_of(all, [&](const Explanation& one) {
    auto [rejection, score] = rate(model, query, model.nodes.at(node_at(table, one.node)->id));
    return one.rejection == rejection && (rejection != Rejection::none || one.score.total == score);
  });
}

std::shared_ptr<const RoutingTable> from_scratch(const Model& model, TableBuilder& builder) {
  builder.set_weights(model.weights);
  for (const auto& [stream, nodes] : model.holdings)
    for (const auto& [node, holding] : nodes) builder.put_holding(stream, node, holding);
  for (const auto& [id, node] : model.nodes) {
    builder.put_node(node);
    builder.penalty(id)->bandwidth = model.penalties.at(id);
  }
  return builder.publish();
}

}  // namespace

TEST_CASE("decisions and explanations are those of the model, through thousands of tables") {
  std::size_t found = 0, none = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    Dice dice(seed);
    Model model;
    TableBuilder builder;
    if (dice.one_in(3)) {
      int most = dice.one_in(2) ? 3000 : 100'000'000;
      auto weight = [&] { return static_cast<std::uint64_t>(dice.below(most)); };
      model.weights = {weight(), weight(), weight(), weight(), weight() / 10};
      builder.set_weights(model.weights);
    }
    for (int round = 0; round < 10; ++round) {
      for (int i = dice.one_in(3) ? 300 : dice.below(40); i > 0; --i) change(dice, model, builder);
      auto table = builder.publish();
      for (int i = 0; i < 12; ++i) {
        Question question(dice);
        auto expected = by_model(model, question.query);
        ++(expected.best.empty() ? none : found);
        CAPTURE(seed);
        CAPTURE(round);
        REQUIRE(by_table(*table, question.query) == expected);
        REQUIRE(explains(*table, model, question.query));
      }
    }
    TableBuilder fresh;
    auto table = from_scratch(model, fresh);
    for (int i = 0; i < 12; ++i) {
      Question question(dice);
      REQUIRE(by_table(*table, question.query) == by_table(*builder.publish(), question.query));
    }
  }
  CHECK(found > 1000);  // or the questions ask for nothing
  CHECK(none > 1000);
}
