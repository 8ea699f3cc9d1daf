#include "services/fleet/fetch/fetcher.h"

#include <boost/asio/bind_cancellation_slot.hpp>

namespace warren::fleet {

namespace {

// Runs until the coroutine is cancelled, and says so to the thread that works for it.
awaitable<void> raise_when_cancelled(const Stop& stop) {
  co_await sleep_until(Clock::time_point::max());
  stop.raise();
}

// Like on_pool, but the coroutine on the pool hears nothing of a cancellation: it is told by a Stop.
template <class T>
awaitable<T> on_pool_to_the_end(asio::thread_pool& pool, awaitable<T> work) {
  auto token = asio::bind_cancellation_slot(asio::cancellation_slot(), asio::use_awaitable);
  co_return co_await asio::co_spawn(pool.get_executor(), std::move(work), token);
}

// Both end before this returns: what they refer to is the caller's.
template <class T>
Async<T> stoppable(asio::thread_pool& pool, const Stop& stop, Async<T> work) {
  using namespace asio::experimental::awaitable_operators;
  auto first = co_await (on_pool_to_the_end(pool, std::move(work)) || raise_when_cancelled(stop));
  if (auto* result = std::get_if<0>(&first)) co_return std::move(*result);
  co_return fail(Errc::cancelled, "nobody waits for the fetch");
}

// On the pool: the credential is looked up as late as that.
Result<FetchRequest> request_of(const Credentials& credentials, FetchOrder order, int stop) {
  auto credential = std::move(order.credential);
  if (!credential) {
    auto found = credentials.find(order.url, order.deadline, stop);
    if (!found) return std::unexpected(found.error());
    credential = std::move(*found);
  }
  RemoteRequest remote{std::move(order.url), std::move(credential), order.deadline, stop};
  return FetchRequest{std::move(remote), std::move(order.refs), order.depth};
}

Async<Resolved> resolve_now(const Mirrors& mirrors, const Credentials& credentials,
                            FetchOrder order, int stop) {
  auto request = request_of(credentials, std::move(order), stop);
  if (!request) co_return std::unexpected(request.error());
  co_return mirrors.resolve(*request);
}

Async<Fetched> fetch_now(const Mirrors& mirrors, const Credentials& credentials, FetchOrder order,
                         int stop) {
  auto request = request_of(credentials, std::move(order), stop);
  if (!request) co_return std::unexpected(request.error());
  co_return mirrors.fetch(*request);
}

Async<Fetched> find_now(const Mirrors& mirrors, RemoteUrl url, std::string commit,
                        Clock::time_point deadline) {
  co_return mirrors.find(url, commit, deadline);
}

awaitable<void> forget_now(const Mirrors& mirrors, RemoteUrl url) {
  mirrors.forget(url);
  co_return;
}

}  // namespace

Result<std::unique_ptr<Fetcher>> Fetcher::open(asio::any_io_executor executor,
                                               FetcherSettings settings) {
  auto mirrors = Mirrors::open(settings.mirrors);
  if (!mirrors) return std::unexpected(mirrors.error());
  return std::unique_ptr<Fetcher>(
      new Fetcher(std::move(executor), std::move(*mirrors), std::move(settings)));
}

// One thread more than slots, for those who look without one.
Fetcher::Fetcher(asio::any_io_executor executor, Mirrors mirrors, FetcherSettings settings)
    : mirrors_(std::move(mirrors)),
      credentials_(std::move(settings.credentials)),
      slots_(std::move(executor), settings.slots),
      resolve_time_(settings.resolve_time),
      pool_(settings.slots.running + 1) {}

Fetcher::~Fetcher() { pool_.join(); }

Async<Slot> Fetcher::wait_for_slot(RemoteUrl url, Clock::time_point deadline) {
  co_return co_await slots_.acquire(url.host(), url.repo_id(), deadline);
}

Async<Resolved> Fetcher::resolve(FetchOrder order, const Slot* slot) {
  std::optional<Slot> own;
  if (!slot) {
    // Polling waits for no fetch of the same repository.
    auto granted =
        co_await slots_.acquire(order.url.host(), "?" + order.url.repo_id(), order.deadline);
    if (!granted) co_return std::unexpected(granted.error());
    own.emplace(*std::move(granted));
  }
  auto stop = Stop::create();
  if (!stop) co_return std::unexpected(stop.error());
  order.deadline = std::min(order.deadline, Clock::now() + resolve_time_);
  auto work = resolve_now(mirrors_, credentials_, std::move(order), stop->descriptor());
  co_return co_await stoppable(pool_, *stop, std::move(work));
}

Async<Fetched> Fetcher::fetch(FetchOrder order, const Slot* slot) {
  std::optional<Slot> own;
  if (!slot) {
    auto granted = co_await wait_for_slot(order.url, order.deadline);
    if (!granted) co_return std::unexpected(granted.error());
    own.emplace(*std::move(granted));
  }
  auto stop = Stop::create();
  if (!stop) co_return std::unexpected(stop.error());
  auto work = fetch_now(mirrors_, credentials_, std::move(order), stop->descriptor());
  co_return co_await stoppable(pool_, *stop, std::move(work));
}

Async<Fetched> Fetcher::find(RemoteUrl url, std::string commit, Clock::time_point deadline) {
  auto work = find_now(mirrors_, std::move(url), std::move(commit), deadline);
  co_return co_await on_pool_to_the_end(pool_, std::move(work));
}

awaitable<void> Fetcher::forget(RemoteUrl url) {
  auto token = asio::bind_cancellation_slot(asio::cancellation_slot(), asio::use_awaitable);
  co_await asio::co_spawn(pool_.get_executor(), forget_now(mirrors_, std::move(url)), token);
}

}  // namespace warren::fleet
