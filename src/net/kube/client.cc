#include "net/kube/client.h"

#include <algorithm>
#include <array>

namespace warren::kube {

namespace {

constexpr int most_tries = 10;
constexpr std::size_t most_refusal = 1u << 20;

bool is_reading(std::string_view method) { return method == "GET"; }

std::string_view word_of(RemoveTerms::Dependents dependents) {
  switch (dependents) {
    case RemoveTerms::Dependents::in_background:
      return "Background";
    case RemoveTerms::Dependents::in_foreground:
      return "Foreground";
    case RemoveTerms::Dependents::orphaned:
      return "Orphan";
  }
  return {};
}

std::string_view type_of(PatchKind kind) {
  switch (kind) {
    case PatchKind::merge:
      return "application/merge-patch+json";
    case PatchKind::strategic_merge:
      return "application/strategic-merge-patch+json";
    case PatchKind::json:
      return "application/json-patch+json";
  }
  return {};
}

Answer<List> list_of(Object object) {
  List list;
  list.version = version_of(object);
  list.next = text_at(object, "/metadata/continue");
  auto* items = object.get_object().if_contains("items");
  // An empty list may have null here.
  if (items && items->is_array())
    for (auto& item : items->get_array()) list.items.push_back(std::move(item));
  return list;
}

}  // namespace

Client::Client(const asio::any_io_executor& executor, Access access, ClientTerms terms)
    : executor_(executor),
      terms_(std::move(terms)),
      credentials_(executor, std::move(access)),
      bucket_(terms_.per_second, terms_.burst) {}

Asked<Object> Client::get(Place place, Clock::time_point deadline) {
  auto target = target_of(place);
  if (!target) co_return std::unexpected(target.error());
  Request request{"GET", *target};
  co_return co_await ask_object(std::move(request), deadline);
}

Asked<List> Client::list(Place place, Selection selection, std::string next,
                         Clock::time_point deadline) {
  QueryWords query{{"limit", std::to_string(terms_.page)},
                   {"continue", std::move(next)},
                   {"labelSelector", selection.labels},
                   {"fieldSelector", selection.fields}};
  auto target = target_of(place, query);
  if (!target) co_return std::unexpected(target.error());
  Request request{"GET", *target};
  request.most = terms_.most_list;
  auto page = co_await ask_object(std::move(request), deadline);
  if (!page) co_return std::unexpected(page.error());
  co_return list_of(*std::move(page));
}

Asked<List> Client::list_all(Place place, Selection selection, Clock::time_point deadline) {
  List all;
  std::string next;
  std::size_t bytes = 0;
  for (int begun = 1;;) {
    auto page = co_await list(place, selection, next, deadline);
    if (!page && page.error().reason == Reason::expired && begun < most_tries) {
      ++begun;
      all = {}, bytes = 0;
      next.clear();
      continue;
    }
    if (!page) co_return std::unexpected(page.error());
    for (auto& item : page->items) {
      bytes += json::serialize(item).size();
      all.items.push_back(std::move(item));
    }
    if (bytes > terms_.most_list)
      co_return fail(Errc::overloaded, "{}: a list is longer than {} MB", text_of(place),
                     terms_.most_list >> 20);
    all.version = page->version;
    next = page->next;
    if (next.empty()) co_return all;
  }
}

Asked<Object> Client::create(Place place, Object object, Clock::time_point deadline) {
  place.name.clear();
  QueryWords query{{"fieldManager", terms_.manager}, {"fieldValidation", "Strict"}};
  co_return co_await change("POST", std::move(place), "application/json", std::move(object),
                            std::move(query), deadline);
}

Asked<Object> Client::replace(Place place, Object object, Clock::time_point deadline) {
  QueryWords query{{"fieldManager", terms_.manager}};
  co_return co_await change("PUT", std::move(place), "application/json", std::move(object),
                            std::move(query), deadline);
}

Asked<Object> Client::patch(Place place, PatchKind kind, Object changed,
                            Clock::time_point deadline) {
  QueryWords query{{"fieldManager", terms_.manager}};
  co_return co_await change("PATCH", std::move(place), std::string(type_of(kind)),
                            std::move(changed), std::move(query), deadline);
}

Asked<Object> Client::apply(Place place, Object object, bool forces, Clock::time_point deadline) {
  QueryWords query{{"fieldManager", terms_.manager}, {"force", forces ? "true" : ""}};
  // JSON is YAML.
  co_return co_await change("PATCH", std::move(place), "application/apply-patch+yaml",
                            std::move(object), std::move(query), deadline);
}

Asked<Object> Client::change(std::string method, Place place, std::string type, Object body,
                             QueryWords query, Clock::time_point deadline) {
  auto target = target_of(place, query);
  if (!target) co_return std::unexpected(target.error());
  Request request{std::move(method), *std::move(target)};
  request.body = json::serialize(body);
  request.type = std::move(type);
  co_return co_await ask_object(std::move(request), deadline);
}

Asked<bool> Client::remove(Place place, RemoveTerms terms, Clock::time_point deadline) {
  auto target = target_of(place);
  if (!target) co_return std::unexpected(target.error());
  json::object options{{"apiVersion", "v1"},
                       {"kind", "DeleteOptions"},
                       {"propagationPolicy", word_of(terms.dependents)}};
  json::object conditions;
  if (!terms.uid.empty()) conditions["uid"] = terms.uid;
  if (!terms.version.empty()) conditions["resourceVersion"] = terms.version;
  if (!conditions.empty()) options["preconditions"] = std::move(conditions);
  if (terms.grace) options["gracePeriodSeconds"] = terms.grace->count();
  Request request{"DELETE", *std::move(target)};
  request.body = json::serialize(options);
  request.type = "application/json";
  auto removed = co_await ask_object(std::move(request), deadline);
  if (!removed && removed.error().reason == Reason::not_found) co_return true;
  if (!removed) co_return std::unexpected(removed.error());
  // A Status means that it is gone; the object itself means that its deletion waits for something.
  co_return text_at(*removed, "/kind") == "Status" || !is_leaving(*removed);
}

Asked<std::string> Client::log(Place pod, std::size_t lines, Clock::time_point deadline) {
  pod.subresource = "log";
  QueryWords query{{"tailLines", std::to_string(lines)},
                   {"limitBytes", std::to_string(terms_.most_object)}};
  auto target = target_of(pod, query);
  if (!target) co_return std::unexpected(target.error());
  Request request{"GET", *std::move(target)};
  co_return co_await ask(std::move(request), deadline);
}

Asked<bool> Client::may(AccessQuestion question, Clock::time_point deadline) {
  const auto& place = question.place;
  json::object what{{"verb", question.verb},
                    {"group", place.kind.group},
                    {"resource", place.kind.plural},
                    {"namespace", place.space}};
  if (!place.name.empty()) what["name"] = place.name;
  if (!place.subresource.empty()) what["subresource"] = place.subresource;
  Object review = json::object{{"apiVersion", "authorization.k8s.io/v1"},
                               {"kind", "SelfSubjectAccessReview"},
                               {"spec", json::object{{"resourceAttributes", std::move(what)}}}};
  Place reviews{kinds::access_reviews};
  auto answered = co_await create(std::move(reviews), std::move(review), deadline);
  if (!answered) co_return std::unexpected(answered.error());
  co_return flag_at(*answered, "/status/allowed");
}

Asked<std::unique_ptr<WatchStream>> Client::watch(Place place, WatchTerms terms,
                                                  Clock::time_point deadline) {
  QueryWords query{{"watch", "true"},
                   {"allowWatchBookmarks", "true"},
                   {"timeoutSeconds", std::to_string(terms.time.count())},
                   {"resourceVersion", terms.version},
                   {"labelSelector", terms.selection.labels},
                   {"fieldSelector", terms.selection.fields}};
  if (terms.sends_initial_events) {
    query.emplace_back("sendInitialEvents", "true");
    query.emplace_back("resourceVersionMatch", "NotOlderThan");
  }
  auto target = target_of(place, query);
  if (!target) co_return std::unexpected(target.error());
  auto opened = co_await open_watch(*target, terms.time, deadline);
  if (!opened && opened.error().reason == Reason::unauthorized && credentials_.on_refused())
    opened = co_await open_watch(*target, terms.time, deadline);
  co_return opened;
}

Asked<std::unique_ptr<WatchStream>> Client::open_watch(std::string target,
                                                       std::chrono::seconds time,
                                                       Clock::time_point deadline) {
  auto wait = bucket_.take(Clock::now(), deadline);
  if (!wait) co_return fail(Errc::overloaded, "too many requests wait for the API server");
  co_await sleep_for(*wait);
  auto through = co_await pools(deadline);
  if (!through) co_return std::unexpected(through.error());
  Request request{"GET", std::move(target)};
  auto to = access().server;
  auto ask = http_ask(request);
  // The server ends the watch when its time is over. A watch that lasts longer is dead.
  auto last = Clock::now() + time + terms_.silence;
  auto call = co_await (*through)->watches.begin(std::move(to), std::move(ask), std::nullopt, last);
  if (!call) co_return std::unexpected(call.error());
  auto answered = co_await with_deadline(deadline, (*call)->answer());
  if (!answered) co_return std::unexpected(answered.error());
  if (answered->status == 200)
    co_return std::make_unique<WatchStream>(*std::move(call), terms_.most_object);
  auto said = co_await (*call)->in().rest(most_refusal);
  if (!said) co_return std::unexpected(said.error());
  co_return std::unexpected(failure_of(answered->status, *said, answered->headers, false));
}

Asked<Object> Client::ask_object(Request request, Clock::time_point deadline) {
  auto body = co_await ask(std::move(request), deadline);
  if (!body) co_return std::unexpected(body.error());
  auto object = parse_object(*body);
  if (!object) co_return std::unexpected(object.error());
  co_return *std::move(object);
}

Asked<std::string> Client::ask(Request request, Clock::time_point deadline) {
  if (request.most == 0) request.most = terms_.most_object;
  bool knows_us_anew = false;
  for (int tries = 1;; ++tries) {
    auto wait = bucket_.take(Clock::now(), deadline);
    if (!wait) co_return fail(Errc::overloaded, "too many requests wait for the API server");
    co_await sleep_for(*wait);
    auto answer = co_await ask_once(request, deadline);
    if (answer || tries == most_tries) co_return answer;
    const auto& why = answer.error();
    if (why.reason == Reason::unauthorized && !knows_us_anew && credentials_.on_refused()) {
      knows_us_anew = true;
      continue;
    }
    bool is_undone = why.status == 429 || (why.status >= 500 && is_reading(request.method));
    if (!is_undone || !why.retry_after) co_return answer;
    if (Clock::now() + *why.retry_after >= deadline) co_return answer;
    co_await sleep_for(*why.retry_after);
  }
}

Asked<std::string> Client::ask_once(const Request& request, Clock::time_point deadline) {
  auto through = co_await pools(deadline);
  if (!through) co_return std::unexpected(through.error());
  auto to = access().server;
  auto ask = http_ask(request);
  auto most = request.most;
  auto reply = co_await (*through)->calls.ask(std::move(to), std::move(ask), deadline, most);
  if (!reply) co_return std::unexpected(reply.error());
  if (reply->status >= 200 && reply->status < 300) co_return std::move(reply->body);
  bool changes = !is_reading(request.method);
  co_return std::unexpected(failure_of(reply->status, reply->body, reply->headers, changes));
}

HttpAsk Client::http_ask(const Request& request) const {
  HttpAsk ask{request.method, access().server.path + request.target};
  ask.headers = "Accept: application/json\r\nUser-Agent: warren\r\n" + credentials_.headers();
  if (!request.type.empty()) ask.headers += "Content-Type: " + request.type + "\r\n";
  ask.body = request.body;
  return ask;
}

Asked<std::shared_ptr<Client::Pools>> Client::pools(Clock::time_point deadline) {
  auto fresh = co_await credentials_.freshen(deadline);
  if (!fresh) co_return std::unexpected(fresh.error());
  if (pools_ && pools_->generation == credentials_.generation()) co_return pools_;
  HttpPoolTerms terms{.most_connections = 16, .piece_time = 30s};
  if (access().server.is_tls) {
    auto context = redis::TlsContext::load(credentials_.tls());
    if (!context) co_return std::unexpected(context.error());
    terms.tls = *context;
  }
  auto watching = terms;
  watching.most_connections = 256;
  watching.piece_time = terms_.silence;
  pools_ = std::shared_ptr<Pools>(new Pools{
      HttpPool(executor_, terms), HttpPool(executor_, watching), credentials_.generation()});
  co_return pools_;
}

}  // namespace warren::kube
