#include "tests/fleet_real/traffic.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "services/fleet/wire/wire.h"

namespace warren::fleet {

namespace {

constexpr auto query_time = 5s;  // after which a router answers with what it has
constexpr auto probe_time = 2s;  // the same, where somebody waits for the first that is whole
constexpr auto client_time = 20s;
constexpr std::size_t most_under_way = 1000;
constexpr std::size_t most_wrong = 100;

HttpPoolTerms pool_terms() {
  HttpPoolTerms terms;
  terms.most_connections = 256;
  terms.most_waiting = most_under_way;
  return terms;
}

}  // namespace

Traffic::Traffic(const asio::any_io_executor& executor, const Corpus& corpus,
                 const std::vector<std::string>& names, TrafficTerms terms)
    : executor_(executor),
      corpus_(corpus),
      names_(names),
      terms_(terms),
      pool_(executor, pool_terms()),
      random_(terms.seed) {
  double sum = 0;
  for (std::size_t i = 0; i < names.size(); ++i)
    sums_.push_back(sum += std::pow(static_cast<double>(i + 1), -terms.zipf));
  ranked_.resize(names.size());
  std::iota(ranked_.begin(), ranked_.end(), std::size_t{0});
  std::ranges::shuffle(ranked_, random_);
}

awaitable<void> Traffic::run() {
  auto body = [](TaskGroup& tasks, Traffic& self) -> awaitable<bool> {
    for (auto next = Clock::now();;) {
      next += std::chrono::duration_cast<Clock::duration>(
          std::chrono::duration<double>(1 / self.terms_.queries_per_second));
      co_await sleep_until(next);
      next = std::max(next, Clock::now() - 1s);  // what could not be asked is not made up for
      if (self.is_paused_ || self.routers_.empty() || self.under_way_ >= most_under_way) continue;
      auto query = self.next_query();
      tasks.start("test.query", self.one(query));
    }
  };
  co_await with_group(body, *this);
}

std::set<std::string> Traffic::excused_since(Clock::time_point begin) const {
  std::set<std::string> all;
  for (std::size_t i = excuses_.size(); i-- > 0;) {
    all.insert(excuses_[i].repos.begin(), excuses_[i].repos.end());
    if (excuses_[i].since <= begin) break;
  }
  return all;
}

Traffic::Counts Traffic::take_counts() { return std::exchange(counts_, {}); }

Traffic::Query Traffic::next_query() {
  std::uniform_real_distribution<double> chance(0, 1);
  Query query{.router = random_()};
  if (chance(random_) < terms_.asks_all) {
    query.word = random_() % corpus_.words().size();
    return query;
  }
  auto at = std::ranges::lower_bound(sums_, chance(random_) * sums_.back());
  auto place =
      std::min<std::size_t>(static_cast<std::size_t>(at - sums_.begin()), ranked_.size() - 1);
  query.repo = ranked_[place];
  const auto& own = corpus_.words_in(*query.repo);
  query.word = own.empty() ? random_() % corpus_.words().size() : own[random_() % own.size()];
  return query;
}

awaitable<void> Traffic::one(Query query) {
  ++under_way_;
  ++asked_;
  ++counts_.asked;
  auto begin = Clock::now();
  auto coming = coming_;
  Result<Judged> judged = fail(Errc::unavailable, "there is no router");
  // Two routers, and one of them may be gone: so one more attempt.
  for (int attempt = 0; attempt < 2 && !judged && !routers_.empty(); ++attempt) {
    if (attempt > 0) ++counts_.again;
    auto router = routers_[(query.router + static_cast<std::size_t>(attempt)) % routers_.size()];
    judged = co_await ask(query, std::move(router), query_time);
  }
  --under_way_;
  if (!judged && judged.error().code == Errc::cancelled) co_return;
  auto excused = excused_since(begin);
  auto wrong = judged ? judged->wrong : judged.error().what;
  bool is_excused = false;
  if (judged) {
    if (query.repo && !judged->missing.empty())
      misses_.push_back({names_[*query.repo], WallClock::now()});
    for (const auto& repo : judged->missing) {
      is_excused = is_excused || excused.contains(repo);
      if (!excused.contains(repo) && wrong.empty()) wrong = repo + " is missing";
    }
    for (const auto& repo : judged->lacking)
      if (!coming.contains(repo) && wrong.empty()) wrong = "lines of " + repo + " are missing";
  }
  auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
  if (is_excused)
    ++counts_.excused;
  else
    counts_.longest_ms = std::max(counts_.longest_ms, static_cast<std::uint64_t>(took.count()));
  if (!wrong.empty() && wrong_.size() < most_wrong)
    wrong_.push_back(fmt::format("{} in {}, after {} ms: {}", corpus_.words()[query.word].text,
                                 query.repo ? names_[*query.repo] : "all", took.count(), wrong));
}

std::string Traffic::body_of(const Query& query, std::chrono::milliseconds timeout) const {
  boost::json::object body{
      {"q", fmt::format("case:yes content:\"{}\"", corpus_.words()[query.word].text)},
      {"limit", 10'000},
      {"lines", 10'000},
      {"matches", 0},
      {"timeout_ms", timeout.count()}};
  if (query.repo) body["repos"] = boost::json::array{names_[*query.repo]};
  return boost::json::serialize(body);
}

Async<Traffic::Judged> Traffic::ask(Query query, std::string router,
                                    std::chrono::milliseconds timeout) {
  HttpAsk ask{"POST", "/v1/search"};
  ask.headers = "Authorization: Bearer mangrove\r\n";
  ask.body = body_of(query, timeout);
  auto url = parse_http_url(router);
  auto reply = co_await pool_.ask(*url, std::move(ask), Clock::now() + client_time);
  if (!reply) co_return std::unexpected(reply.error());
  co_return judge(query, reply->status, reply->body);
}

Traffic::Judged Traffic::judge(const Query& query, int status, std::string_view body) const {
  Judged judged;
  // Nobody serves the one that was asked for.
  if (status == 503 && query.repo) {
    judged.missing.insert(names_[*query.repo]);
    return judged;
  }
  if (status != 200) {
    judged.wrong = fmt::format("it answered {}: {}", status, body.substr(0, 300));
    return judged;
  }
  std::vector<Missing> missing;
  auto answer = parse_answer(body, missing);
  if (!answer) {
    judged.wrong = answer.error().what;
    return judged;
  }
  for (const auto& one : missing) judged.missing.insert(one.repo);
  if (missing.empty() && !answer->is_complete) judged.wrong = "it is not complete";
  std::map<std::string, Hits> found;
  for (const auto& file : answer->files)
    for (const auto& line : file.lines) found[file.repo].emplace(file.path, line.line);
  for (const auto& [place, hits] : corpus_.words()[query.word].hits) {
    const auto& name = names_[place];
    if (query.repo && *query.repo != place) continue;
    auto said = found.find(name);
    bool is_whole = said != found.end() && said->second == hits;
    if (!is_whole && !judged.missing.contains(name)) judged.lacking.insert(name);
    if (said != found.end() && std::ranges::includes(hits, said->second)) found.erase(said);
  }
  // What is left is more than there is, or of a repository that was not asked for.
  if (!found.empty() && judged.wrong.empty())
    judged.wrong = fmt::format("it has lines of {} that are not there", found.begin()->first);
  return judged;
}

Async<> Traffic::ask_all(std::vector<std::string> routers) {
  for (auto& router : routers) {
    Query query{.word = random_() % corpus_.words().size()};
    auto judged = co_await ask(query, std::move(router), probe_time);
    if (!judged) co_return std::unexpected(judged.error());
    if (!judged->wrong.empty()) co_return fail(Errc::invalid, "{}", judged->wrong);
    if (!judged->lacking.empty())
      co_return fail(Errc::invalid, "lines of {} are missing", *judged->lacking.begin());
    if (!judged->missing.empty())
      co_return fail(Errc::unavailable, "{} are missing, {} among them", judged->missing.size(),
                     *judged->missing.begin());
  }
  co_return ok;
}

}  // namespace warren::fleet
