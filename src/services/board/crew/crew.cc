#include "services/board/crew/crew.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "services/board/crew/environment.h"
#include "services/board/crew/reader.h"

namespace warren {

using namespace crew;
using board::BidType;
using board::StructuralType;

namespace {

using namespace std::string_view_literals;

constexpr std::array bid_types{"review"sv, "claim"sv, "exclusive"sv, "ignore"sv};
constexpr std::array workspace_modes{"ro"sv, "rw"sv, "worktree"sv};
constexpr std::array structural_types{"Standard"sv, "Review"sv,  "Question"sv,
                                      "Answer"sv,   "Failure"sv, "Terminal"sv};
constexpr int most_at_once = 1000, most_retries = 100, many = 1'000'000;

// What is written under `worker:` when the mode is controller.
struct Work {
  std::optional<Words> command;
  std::optional<std::string> image;
  std::optional<WorkspaceMode> workspace;
  std::optional<int> max_concurrent;
};

class CrewReader {
 public:
  CrewReader(std::string file, const Environment& host) : reader_(std::move(file)), host_(host) {}

  CrewReading read(const Yaml& root) {
    Place place(reader_, root, "");
    bool is_map = reader_.map(place, {{"version", [&](auto& at) { read_version(at); }},
                                      {"orchestrator", [&](auto& at) { read_orchestrator(at); }},
                                      {"agents", [&](auto& at) { read_agents(at); }},
                                      {"services", no_effect}});
    if (is_map && !root.find("version")) place.error_in("version", "is missing; it is \"1.0\"");
    if (is_map && !root.find("agents")) place.error_in("agents", "is missing");
    std::ranges::sort(crew_.roles, {}, &Role::name);
    CrewReading reading{{}, reader_.errors(), reader_.warnings()};
    if (reading.errors.empty()) reading.crew = std::move(crew_);
    return reading;
  }

 private:
  static void read_version(const Place& at) {
    if (at.value().kind != Yaml::Kind::text || at.value().text != "1.0") at.error("must be 1.0");
  }

  void read_orchestrator(const Place& at) {
    auto& terms = crew_.orchestrator;
    reader_.map(at, {{"max_review_iterations",
                      [&](auto& each) { terms.max_review_iterations = each.number(0, many); }},
                     {"bid_timeout", [&](auto& each) { terms.bid_timeout = each.time(); }},
                     {"missing_bids",
                      [&](auto& each) {
                        constexpr std::array policies{"ignore"sv, "wait"sv};
                        terms.missing_bids = static_cast<MissingBids>(each.one_of(policies));
                      }},
                     {"limits", [&](auto& each) { read_limits(each); }}});
  }

  void read_limits(const Place& at) {
    auto& limits = crew_.orchestrator.limits;
    reader_.map(at, {{"depth", [&](auto& each) { limits.depth = each.number(1, many); }},
                     {"artefacts", [&](auto& each) { limits.artefacts = each.number(1, many); }},
                     {"time", [&](auto& each) { limits.time = each.time(); }}});
  }

  void read_agents(const Place& at) {
    if (at.value().kind != Yaml::Kind::map || at.value().items.empty())
      return at.error("must be a map with at least one role");
    for (const auto& item : at.value().items) {
      auto each = at.item(item, item.key);
      check_role_name(each);
      read_role(each);
    }
  }

  static void check_role_name(const Place& at) {
    const auto& name = at.value().key;
    auto fits = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
    };
    if (name.empty() || name.size() > 64 || !std::ranges::all_of(name, fits))
      return at.error("a role is 1 to 64 of A-Z, a-z, 0-9 and -");
    if (name == "user" || name == "orchestrator")
      return at.error("is not for a role: others write under this name");
    if (name[0] < 'A' || name[0] > 'Z') at.warn("a role usually begins with a capital letter");
  }

  void read_role(const Place& at) {
    Role role{.name = at.value().key};
    std::optional<Work> worker;
    auto fields = role_fields(role);
    fields.push_back({"worker", [&](auto& each) { worker = read_worker(each); }});
    bool is_of_sett = false;
    fields.push_back({"role", [&](auto& each) {
                        is_of_sett = true;
                        each.text();
                        each.warn("has no effect: a role is called by its key");
                      }});
    if (!reader_.map(at, fields)) return;
    if (is_of_sett) take_as_of_sett(at, role);
    if (worker && !role.is_controller) at.error_in("worker", "only with mode: controller");
    if (!worker && role.is_controller) at.error_in("worker", "is missing, and mode is controller");
    if (!worker && role.command.empty() && !at.value().find("command"))
      at.error_in("command", "is missing");
    if (!role.bidding_strategy && role.bid_script.empty() && !at.value().find("bid_script"))
      at.error("needs a bidding_strategy or a bid_script");
    if (worker && role.is_controller) employ(role, *worker);
    if (role.image.starts_with('-')) at.error_in("image", "must not begin with -");
    // A worktree refers to its repository by a path that a container does not have.
    if (!role.image.empty() && role.workspace == WorkspaceMode::worktree)
      at.error_in("workspace.mode", "worktree is for commands without an image");
    crew_.roles.push_back(std::move(role));
  }

  // Agents bid without being told how, when files had a `role`.
  static void take_as_of_sett(const Place& at, Role& role) {
    if (role.bidding_strategy || !role.bid_script.empty() || at.value().find("bid_script")) return;
    role.bidding_strategy = BidType::exclusive;
    at.warn("has no bidding_strategy, and bids exclusive, as files with `role` mean it");
  }

  std::vector<Field> role_fields(Role& role) {
    return {
        {"image", [&](auto& at) { role.image = at.text(); }},
        {"build", [&](auto& at) { read_build(at, role); }},
        {"command", [&](auto& at) { role.command = at.words(); }},
        {"bidding_strategy",
         [&](auto& at) { role.bidding_strategy = static_cast<BidType>(at.one_of(bid_types)); }},
        {"bid_script", [&](auto& at) { role.bid_script = at.words(); }},
        {"bids_on", [&](auto& at) { read_filter(at, role.bids_on); }},
        {"workspace", [&](auto& at) { role.workspace = read_workspace(at); }},
        {"environment", [&](auto& at) { read_environment(at, role.environment); }},
        {"mode",
         [&](auto& at) {
           constexpr std::array modes{"controller"sv};
           if (at.value().kind == Yaml::Kind::text && at.value().text.empty()) return;
           at.one_of(modes);
           role.is_controller = at.value().text == modes[0];
         }},
        {"max_concurrent", [&](auto& at) { role.max_concurrent = at.number(1, most_at_once); }},
        {"timeout", [&](auto& at) { role.timeout = at.time(); }},
        {"bid_timeout", [&](auto& at) { role.bid_timeout = at.time(); }},
        {"retries", [&](auto& at) { role.retries = at.number(0, most_retries); }},
        {"health_check", [&](auto& at) { read_health_check(at, role); }},
        {"strategy",
         [](auto& at) {
           constexpr std::array strategies{"reuse"sv, "fresh_per_call"sv};
           at.one_of(strategies);
           no_effect(at);
         }},
        {"replicas", no_effect},
        {"resources", no_effect},
        {"prompts", no_effect},
    };
  }

  void read_build(const Place& at, Role& role) {
    reader_.map(at, {{"context", [&](auto& each) { role.build_context = each.text(); }}});
    at.warn("has no effect; build the image yourself");
  }

  void read_filter(const Place& at, BidFilter& filter) {
    reader_.map(at, {{"types", [&](auto& each) { filter.types = each.words(); }},
                     {"roles", [&](auto& each) { filter.roles = each.words(); }},
                     {"structural_types", [&](auto& each) {
                        each.words();
                        for (const auto& item : each.value().items) {
                          Place word(reader_, item, each.path());
                          auto type = word.one_of(structural_types);
                          filter.structural_types.push_back(static_cast<StructuralType>(type));
                        }
                      }}});
  }

  WorkspaceMode read_workspace(const Place& at) {
    auto mode = WorkspaceMode::read_only;
    reader_.map(at, {{"mode", [&](auto& each) {
                        mode = static_cast<WorkspaceMode>(each.one_of(workspace_modes));
                      }}});
    return mode;
  }

  void read_environment(const Place& at, Environment& environment) {
    if (at.value().kind != Yaml::Kind::list)
      return at.error("must be a list of NAME=value or NAME");
    for (std::size_t i = 0; i < at.value().items.size(); ++i) {
      const auto& item = at.value().items[i];
      Place each(reader_, item, fmt::format("{}[{}]", at.path(), i));
      auto variable =
          item.kind == Yaml::Kind::text ? parse_variable(item.text, host_) : std::nullopt;
      if (!variable) {
        each.error("must be NAME=value or NAME");  // not what it is: that may be a secret
        continue;
      }
      for (const auto& name : variable->unset) each.warn(name + " is not set here");
      if (variable->value) environment[variable->name] = *std::move(variable->value);
    }
  }

  void read_health_check(const Place& at, Role& role) {
    auto& check = role.health_check.emplace();
    reader_.map(at, {{"command", [&](auto& each) { check.command = each.words(); }},
                     {"interval", [&](auto& each) { check.interval = each.time(); }},
                     {"timeout", [&](auto& each) { check.timeout = each.time(); }}});
    no_effect(at);
  }

  std::optional<Work> read_worker(const Place& at) {
    Work work;
    reader_.map(at, {{"image", [&](auto& each) { work.image = each.text(); }},
                     {"command", [&](auto& each) { work.command = each.words(); }},
                     {"max_concurrent",
                      [&](auto& each) { work.max_concurrent = each.number(0, most_at_once); }},
                     {"workspace", [&](auto& each) { work.workspace = read_workspace(each); }}});
    if (at.value().kind == Yaml::Kind::map && !at.value().find("command"))
      at.error_in("command", "is missing");
    return work;
  }

  static void employ(Role& role, const Work& worker) {
    role.command = worker.command.value_or(Words());
    role.image = worker.image.value_or("");
    role.workspace = worker.workspace.value_or(role.workspace);
    role.max_concurrent = std::max(worker.max_concurrent.value_or(1), 1);  // 0 is 1, as elsewhere
  }

  Reader reader_;
  const Environment& host_;
  Crew crew_;
};

}  // namespace

bool crew::admits(const Role& role, const board::Artefact& artefact) {
  const auto& filter = role.bids_on;
  auto fits = [&](const std::string& glob) {
    return fnmatch(glob.c_str(), artefact.type.c_str(), FNM_PATHNAME) == 0;
  };
  auto has = [](const auto& list, const auto& one) {
    return std::ranges::find(list, one) != list.end();
  };
  if (!filter.types.empty() && std::ranges::none_of(filter.types, fits)) return false;
  if (!filter.structural_types.empty() && !has(filter.structural_types, artefact.structural_type))
    return false;
  return filter.roles.empty() ? artefact.produced_by_role != role.name
                              : has(filter.roles, artefact.produced_by_role);
}

const Role* Crew::find(std::string_view role) const {
  auto found = std::ranges::find(roles, role, &Role::name);
  return found == roles.end() ? nullptr : &*found;
}

CrewReading parse_crew(std::string_view text, const std::string& file_name,
                       const Environment& host) {
  auto root = parse_yaml(text);
  if (root) return CrewReader(file_name, host).read(*root);
  return {{}, {fmt::format("{}:{}: {}", file_name, root.error().line, root.error().what)}, {}};
}

Result<CrewReading> read_crew(const std::filesystem::path& file, const Environment& host) {
  constexpr std::size_t most = (1u << 20) + 1;  // one more than is accepted
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored))
    return fail(Errc::not_found, "there is no {}", file.string());
  std::ifstream in(file, std::ios::binary);
  std::string text(most, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || !in.is_open() || std::filesystem::is_directory(file, ignored))
    return fail(Errc::invalid, "{} cannot be read", file.string());
  text.resize(static_cast<std::size_t>(in.gcount()));
  return parse_crew(text, file.filename().string(), host);
}

}  // namespace warren
