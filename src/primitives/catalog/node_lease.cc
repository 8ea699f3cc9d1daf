#include "primitives/catalog/node_lease.h"

#include "base/log.h"

namespace warren {

NodeLease::NodeLease(const asio::any_io_executor& executor, Catalog& catalog, NodeTerms terms,
                     std::function<std::string()> info)
    : catalog_(catalog),
      terms_(std::move(terms)),
      info_(std::move(info)),
      machine_(terms_.ttl),
      changed_(executor),
      woken_(executor) {}

awaitable<void> NodeLease::run() {
  while (!has_left_) {
    auto intent = machine_.next(Clock::now());
    if (intent)
      co_await ask(*intent);
    else
      co_await woken_.wait(machine_.wake_at());
  }
}

awaitable<void> NodeLease::ask(NodeMachine::Intent intent) {
  // A later answer would leave no time to ask again.
  auto deadline = Clock::now() + terms_.ttl / 3;
  auto before = machine_.session();
  auto info = info_();
  if (intent == NodeMachine::Intent::join) {
    auto name = terms_.name;
    auto joined = co_await catalog_.join(std::move(name), std::move(info), terms_.ttl, deadline);
    if (joined)
      log::info("catalog.joined", "session", *joined);
    else
      log::warn("catalog.not_joined", "node", terms_.name, "why", joined.error().what);
    if (joined && has_left_) {  // while the answer was on its way
      auto left = co_await catalog_.leave(*joined, deadline);
      if (!left) log::warn("catalog.not_left", "session", *joined, "why", left.error().what);
      co_return;
    }
    machine_.on_joined(Clock::now(), std::move(joined));
  } else {
    auto session = before;
    auto beaten = co_await beat(std::move(session), std::move(info), deadline);
    if (!beaten) log::warn("catalog.not_renewed", "session", before, "why", beaten.error().what);
    machine_.on_beat(Clock::now(), beaten);
  }
  note_change(before);
}

Async<> NodeLease::beat(NodeSession session, std::string info, Clock::time_point deadline) {
  if (machine_.needs_proof()) {
    auto heard = co_await catalog_.nodes(deadline);
    if (!heard) co_return std::unexpected(heard.error());
  }
  co_return co_await catalog_.beat(std::move(session), std::move(info), deadline);
}

Async<> NodeLease::leave(Clock::time_point deadline) {
  has_left_ = true;
  woken_.notify();
  auto session = machine_.session();
  if (session.empty()) co_return ok;
  on_lost(session);
  co_return co_await catalog_.leave(std::move(session), deadline);
}

void NodeLease::tell() {
  machine_.hurry(Clock::now());
  woken_.notify();
}

void NodeLease::on_lost(const NodeSession& session) {
  auto before = machine_.session();
  machine_.on_lost(Clock::now(), session);
  note_change(before);
  woken_.notify();
}

void NodeLease::note_change(const NodeSession& before) {
  if (before != machine_.session()) changed_.notify();
}

awaitable<void> NodeLease::session_changed(NodeSession from) {
  while (machine_.session() == from) co_await changed_.wait();
}

}  // namespace warren
