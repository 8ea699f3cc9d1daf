// A search on a node: in the rows that a router names, on the threads of the lanes.
#include "base/log.h"
#include "net/http/lines.h"
#include "services/fleet/node/node.h"
#include "services/fleet/node/on_lanes.h"

namespace warren::fleet {

namespace {

// One search; whoever waits is told on the thread of the executor.
struct SearchJob {
  SearchJob(const asio::any_io_executor& executor, search::ParsedQuery parsed)
      : query(std::move(parsed)), changed(executor) {}
  search::ParsedQuery query;
  std::atomic<bool> cancelled = false;
  std::optional<search::Search> search = {};
  std::vector<search::FileMatch> found = {};  // early, and not sent yet
  std::optional<Result<search::Answer>> answer = {};
  Event changed;
};
using SearchJobPtr = std::shared_ptr<SearchJob>;  // owners: whoever waits, and the lanes

// A slice of it. Between two of them the router hears what was found, if it wants to.
bool run_slice(const SearchJobPtr& job, const asio::any_io_executor& executor, bool tells_early,
               Clock::time_point until) {
  if (job->search->run(until)) {
    auto answer = std::make_shared<Result<search::Answer>>(job->search->answer());
    asio::post(executor, [job, answer] {
      job->answer.emplace(std::move(*answer));
      job->changed.notify();
    });
    return true;
  }
  if (!tells_early || job->cancelled) return false;
  auto files = std::make_shared<std::vector<search::FileMatch>>(job->search->take_found());
  if (files->empty()) return false;
  asio::post(executor, [job, files] {
    std::ranges::move(*files, std::back_inserter(job->found));
    job->changed.notify();
  });
  return false;
}

// One more while it lives.
struct Counted {
  explicit Counted(std::uint64_t& in) : number(in) { ++number; }
  ~Counted() { --number; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  std::uint64_t& number;
};

std::string repo_of(const AskedRow& row) {
  auto parts = parse_row_key(row.key);
  return std::string(parts ? parts->repo : row.key);
}

std::int64_t stamp_us(WallClock::time_point time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
}

// For whoever judges a fleet from outside: for which rows this node spoke, under which epochs; when it
// looked whose they are, and when, at the end, that its lease lasts. Both times are from before the
// look, so that a process that stands still behind it is not taken for one that answered late.
void log_answered(const std::vector<AskedRow>& asked, const std::vector<Missing>& missing,
                  WallClock::time_point looked, WallClock::time_point ended) {
  std::string rows;
  for (const auto& row : asked) {
    auto repo = repo_of(row);
    if (std::ranges::find(missing, repo, &Missing::repo) != missing.end()) continue;
    if (!rows.empty()) rows += ' ';
    rows += fmt::format("{}@{}", row.key, to_string(row.epoch));
  }
  if (!rows.empty())
    log::debug("fleet.answered", "rows", rows, "looked_us", stamp_us(looked), "ended_us",
               stamp_us(ended));
}

}  // namespace

awaitable<void> FleetNode::answer_search(const HttpRequest& request, HttpAnswer& answer) {
  auto ask = parse_ask(request.body, most_node_ask_bytes);
  if (!ask) co_return put_error(answer, ask.error());
  Counted counted(running_);
  if (!wants_lines(request)) {
    auto part = co_await search_rows(*std::move(ask), nullptr);
    if (!part) co_return put_error(answer, part.error());
    answer.body = to_json(*part);
    co_return;
  }
  answer.type = "application/x-ndjson";
  HttpLines lines(*request.exchange);
  auto part = co_await search_rows(*std::move(ask), &lines);
  if (!part) {
    // An answer that was begun is cut off, and the router sees that.
    if (!lines.has_begun()) put_error(answer, part.error());
    co_return;
  }
  auto line = part_line(*part);
  auto sent = co_await lines.send(std::move(line));
  if (sent) sent = co_await lines.end();
}

FleetNode::Rows FleetNode::rows_of(const std::vector<AskedRow>& asked, Clock::time_point now) {
  Rows rows;
  rows.segments.reserve(asked.size());
  auto at = WallClock::now();
  for (const auto& row : asked) {
    auto* owned = owned_as(row);
    auto held = owned ? held_.find(owned->repo) : held_.end();
    if (held == held_.end()) {
      auto repo = repo_of(row);
      if (!held_.contains(repo)) shelf_.on_missed(now, repo);
      rows.missing.push_back({std::move(repo), "moved"});
      continue;
    }
    shelf_.on_served(now, owned->repo);
    owned->served_at = served_at_ = at;
    if (auto span = owned->journey.first_answer()) rows.first_answers.push_back(*std::move(span));
    const auto& segments = *held->second.segments;
    rows.segments.insert(rows.segments.end(), segments.begin(), segments.end());
  }
  return rows;
}

FleetNode::Owned* FleetNode::owned_as(const AskedRow& row) const {
  auto owned = owned_.find(row.key);
  // Rows of the life before are there until their tasks have left.
  bool is_ours = owned != owned_.end() && owned->second->claim.epoch == row.epoch &&
                 owned->second->claim.session == lease_->session() && owned->second->is_ready &&
                 !owned->second->is_flipping && lease_->may_serve();
  return is_ours ? owned->second.get() : nullptr;
}

const Held* FleetNode::held_as(const AskedRow& row) const {
  const auto* owned = owned_as(row);
  auto held = owned ? held_.find(owned->repo) : held_.end();
  return held == held_.end() ? nullptr : &held->second;
}

// Where it may take long, among the queries of all.
Async<search::ParsedQuery> FleetNode::read_query(std::string text, std::string client) {
  if (search::parses_quickly(text)) co_return search::parse_query(text);
  std::function<Result<search::ParsedQuery>()> work = [text = std::move(text)] {
    return search::parse_query(text);
  };
  co_return co_await on_lanes(lanes_, std::move(client), std::move(work));
}

Async<Part> FleetNode::search_rows(SearchAsk ask, HttpLines* early) {
  auto query = co_await read_query(ask.query, ask.client);
  if (!query) co_return std::unexpected(query.error());
  auto asked = asked_.read(ask.rows);
  if (!asked) co_return std::unexpected(asked.error());
  auto now = Clock::now();
  if (is_draining_ || !coming_.empty())
    co_await wait_for_flips(**asked, now + std::min<std::chrono::milliseconds>(ask.timeout, 5s));
  auto looked = WallClock::now();
  now = Clock::now();
  auto life = lease_->session();
  // A process that stood still may have another lease by now: its rows were somebody else's meanwhile.
  auto is_same_life = [&] { return lease_->may_serve() && lease_->session() == life; };
  auto rows = rows_of(**asked, now);
  auto terms = terms_of(ask, now);
  terms.is_part = true;
  terms.answer_bytes = 8u << 20;
  auto job = std::make_shared<SearchJob>(executor_, *std::move(query));
  terms.cancelled = &job->cancelled;
  job->search.emplace(std::move(rows.segments), job->query, std::move(terms));
  auto slice = [job, executor = executor_, tells = early != nullptr](Clock::time_point until) {
    return run_slice(job, executor, tells, until);
  };
  auto submitted = lanes_.submit(std::move(slice), ask.client);
  if (!submitted) co_return std::unexpected(submitted.error());
  auto throws = co_await asio::this_coro::throw_if_cancelled();
  co_await asio::this_coro::throw_if_cancelled(false);
  while (!job->answer) {
    auto state = co_await asio::this_coro::cancellation_state;
    Result<> wanted = ok;
    if (is_cancelled(state)) {
      wanted = fail(Errc::cancelled, "nobody waits for the answer");
    } else if (!job->found.empty()) {
      std::string text;
      for (const auto& file : std::exchange(job->found, {})) text += found_line(file);
      if (is_same_life()) wanted = co_await early->send(std::move(text));
    } else {
      co_await job->changed.wait();
    }
    if (wanted) continue;
    job->cancelled = true;
    lanes_.cancel(*submitted);
    co_return std::unexpected(wanted.error());
  }
  co_await asio::this_coro::throw_if_cancelled(throws);
  if (!*job->answer) co_return std::unexpected(job->answer->error());
  Part part{**std::move(job->answer), std::move(rows.missing)};
  auto ended = WallClock::now();
  // Rows of a lease that ended meanwhile may be somebody else's: then this is not the owner's answer.
  if (!is_same_life()) {
    part = {};
    for (const auto& row : **asked) part.missing.push_back({repo_of(row), "moved"});
  }
  if (log::enabled(log::Level::debug, "fleet.answered"))
    log_answered(**asked, part.missing, looked, ended);
  co_return part;
}

}  // namespace warren::fleet
