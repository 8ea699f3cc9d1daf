#include "services/foghorn/state/viewers.h"

#include <algorithm>
#include <list>
#include <optional>
#include <random>
#include <unordered_map>

namespace warren::foghorn {

namespace {

constexpr auto viewer_patience = 30s;          // for a viewer to come
constexpr int most_at_once = 10'000;           // of a node that are given up in one go
constexpr auto memory = 5min;                  // of one who is gone
constexpr std::size_t most_known = 1'000'000;  // in all; beyond it the oldest are forgotten
// Pending ones of one node, stream and address. More than that come from behind one address rarely,
// and one who only asks must not make a node look busy.
constexpr std::size_t most_waiting = 32;

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};
template <class T>
using ByText = std::unordered_map<std::string, T, TextHash, std::equal_to<>>;

// 8-4-4-4-12 hex digits, the version and the variant where RFC 4122 has them. To guess one is no
// use, so a fast generator will do.
std::string fast_uuid() {
  static thread_local std::mt19937_64 random = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  constexpr std::string_view hex = "0123456789abcdef";
  std::string text(36, '-');
  auto high = (random() & ~0xf000ULL) | 0x4000ULL;
  auto low = (random() & ~(3ULL << 62)) | (2ULL << 62);
  std::size_t at = 0;
  for (int half = 0; half < 2; ++half)
    for (int digit = 15; digit >= 0; --digit) {
      if (at == 8 || at == 13 || at == 18 || at == 23) ++at;
      text[at++] = hex[(half == 0 ? high : low) >> (4 * digit) & 0xf];
    }
  return text;
}

std::uint64_t saturated(std::uint64_t a, std::uint64_t b) {
  return a + b < a ? ~std::uint64_t{0} : a + b;
}

// Node, stream and address of a viewer in one word; none of them has a zero.
std::string meeting(std::string_view node, std::string_view stream, std::string_view ip) {
  std::string key;
  key.reserve(node.size() + stream.size() + ip.size() + 2);
  key.append(node).append(1, '\0').append(stream).append(1, '\0').append(ip);
  return key;
}

}  // namespace

// Each viewer is in one list of its node at a time, the oldest first, and that is the order in
// which they are given up. So nothing is ever searched for, whatever the number of viewers.
struct Viewers::Book {
  struct Node;
  struct Viewer {
    std::string id, place;  // where it was sent, as meeting() has it
    std::string session;
    ViewerState state = ViewerState::pending;
    Clock::time_point since;
    std::uint64_t estimate = 0;
    Node* node = nullptr;
    std::list<std::list<Viewer>::iterator>::iterator in_index;  // of those at the same place
  };
  using List = std::list<Viewer>;
  using Place = List::iterator;
  using Index = ByText<std::list<Place>>;  // by meeting(), the oldest first
  struct Node {
    List pending, active, gone;
    std::uint64_t bandwidth = 0;                // of the pending ones
    bool was_cut_off = false;                   // the sum was at its limit, and is not exact
    std::uint64_t arrived = 0;                  // of those who came since the node's last report
    std::shared_ptr<balance::Penalty> penalty;  // shared with the tables that have the node
  };

  PenaltyOf penalty_of;
  ByText<std::unique_ptr<Node>> nodes;
  std::unordered_map<std::string_view, Place> by_id;  // the names are those of the viewers
  ByText<Place> by_session;
  Index pending_at, active_at;
  std::size_t size = 0;

  Node& node(std::string_view id) {
    auto found = nodes.find(id);
    if (found != nodes.end()) return *found->second;
    auto& made = *nodes.emplace(id, std::make_unique<Node>()).first->second;
    made.penalty = penalty_of(id);
    return made;
  }
  Node* known(std::string_view id) const {
    auto found = nodes.find(id);
    return found == nodes.end() ? nullptr : found->second.get();
  }

  static void show(Node& node) {
    if (!node.penalty) return;
    node.penalty->bandwidth.store(saturated(node.bandwidth, node.arrived),
                                  std::memory_order_relaxed);
    node.penalty->pending.store(static_cast<std::uint32_t>(node.pending.size()),
                                std::memory_order_relaxed);
  }

  static void add(Index& index, Place viewer) {
    auto& same = index[viewer->place];
    viewer->in_index = same.insert(same.end(), viewer);
  }
  static void drop(Index& index, Place viewer) {
    auto found = index.find(viewer->place);
    found->second.erase(viewer->in_index);
    if (found->second.empty()) index.erase(found);
  }

  // It is no longer expected.
  void settle_pending(Place viewer) {
    auto& node = *viewer->node;
    node.bandwidth -= std::min(node.bandwidth, viewer->estimate);
    drop(pending_at, viewer);
  }

  static void move(Place viewer, List& from, List& to, ViewerState state, Clock::time_point now) {
    viewer->state = state;
    viewer->since = now;
    to.splice(to.end(), from, viewer);
  }

  void abandon(Place viewer, Clock::time_point now) {
    auto& node = *viewer->node;
    settle_pending(viewer);
    move(viewer, node.pending, node.gone, ViewerState::abandoned, now);
  }

  // At most so many of each, so that nobody waits for a crowd that is given up.
  void expire(Node& node, Clock::time_point now, int most) {
    for (int i = 0; i < most && !node.pending.empty(); ++i) {
      if (now - node.pending.front().since <= viewer_patience) break;
      abandon(node.pending.begin(), now);
    }
    for (int i = 0; i < most && !node.gone.empty(); ++i) {
      if (now - node.gone.front().since <= memory) break;
      erase(node.gone, node.gone.begin());
    }
    if (!std::exchange(node.was_cut_off, false)) return;
    node.bandwidth = 0;
    for (const auto& viewer : node.pending)
      node.bandwidth = saturated(node.bandwidth, viewer.estimate);
  }

  void erase(List& list, Place viewer) {
    if (viewer->state == ViewerState::pending) settle_pending(viewer);
    if (viewer->state == ViewerState::active) {
      drop(active_at, viewer);
      if (!viewer->session.empty()) by_session.erase(viewer->session);
    }
    by_id.erase(viewer->id);
    list.erase(viewer);
    --size;
  }
};

Viewers::Viewers(PenaltyOf penalty_of) : book_(std::make_unique<Book>()) {
  book_->penalty_of = std::move(penalty_of);
}
Viewers::~Viewers() = default;

std::string Viewers::redirect(Clock::time_point now, std::string_view node_id,
                              std::string_view stream, std::string_view client_ip,
                              std::uint64_t estimate) {
  auto id = fast_uuid();
  auto where = meeting(node_id, stream, client_ip);
  auto waiting = book_->pending_at.find(where);
  if (waiting != book_->pending_at.end() && waiting->second.size() >= most_waiting) return id;
  auto& node = book_->node(node_id);
  if (book_->size == 0) {  // once, or a book that grows stands still while it is sorted anew
    book_->by_id.reserve(most_known);
    book_->pending_at.reserve(most_known);
  }
  book_->expire(node, now, 4);
  if (book_->size >= most_known) {
    auto& oldest = node.gone.empty() ? node.pending : node.gone;
    if (!oldest.empty()) book_->erase(oldest, oldest.begin());
  }
  auto& viewer = node.pending.emplace_back();
  auto place = std::prev(node.pending.end());
  viewer.id = id;
  viewer.place = std::move(where);
  viewer.since = now;
  viewer.estimate = estimate;
  viewer.node = &node;
  node.bandwidth = saturated(node.bandwidth, estimate);
  node.was_cut_off |= node.bandwidth == ~std::uint64_t{0};
  book_->by_id.emplace(viewer.id, place);
  Book::add(book_->pending_at, place);
  ++book_->size;
  Book::show(node);
  return id;
}

bool Viewers::connected(Clock::time_point now, std::string_view node_id, std::string_view stream,
                        const ViewerContact& contact) {
  auto place = meeting(node_id, stream, contact.client_ip);
  std::optional<Book::Place> viewer;
  if (auto found = book_->by_id.find(contact.correlation_id); found != book_->by_id.end()) {
    // One that was matched already, or given up, is nobody else's turn.
    if (found->second->state != ViewerState::pending) return false;
    viewer = found->second;
  } else if (auto waiting = book_->pending_at.find(place); waiting != book_->pending_at.end()) {
    viewer = waiting->second.front();
  }
  if (!viewer) return false;
  auto& node = *(*viewer)->node;
  book_->settle_pending(*viewer);
  Book::move(*viewer, node.pending, node.active, ViewerState::active, now);
  (*viewer)->session = contact.session_id;
  if (!contact.session_id.empty()) book_->by_session[contact.session_id] = *viewer;
  Book::add(book_->active_at, *viewer);
  Book::show(node);
  return true;
}

void Viewers::connected_elsewhere(Clock::time_point now, const std::string& correlation_id) {
  auto found = book_->by_id.find(correlation_id);
  if (found == book_->by_id.end() || found->second->state != ViewerState::pending) return;
  auto& node = *found->second->node;
  book_->abandon(found->second, now);
  Book::show(node);
}

bool Viewers::disconnected(Clock::time_point now, std::string_view node_id, std::string_view stream,
                           const ViewerContact& contact) {
  auto place = meeting(node_id, stream, contact.client_ip);
  std::optional<Book::Place> viewer;
  if (auto found = book_->by_session.find(contact.session_id); found != book_->by_session.end())
    viewer = found->second;
  else if (auto active = book_->active_at.find(place); active != book_->active_at.end())
    viewer = active->second.front();
  if (viewer) {
    auto& node = *(*viewer)->node;
    Book::drop(book_->active_at, *viewer);
    if (!(*viewer)->session.empty()) book_->by_session.erase((*viewer)->session);
    Book::move(*viewer, node.active, node.gone, ViewerState::disconnected, now);
    return true;
  }
  auto waiting = book_->pending_at.find(place);
  if (waiting == book_->pending_at.end()) return false;
  auto given_up = waiting->second.front();
  auto& node = *given_up->node;
  book_->abandon(given_up, now);
  Book::show(node);
  return true;
}

void Viewers::arrived(std::string_view node_id, std::uint64_t estimate) {
  auto& node = book_->node(node_id);
  node.arrived = saturated(node.arrived, estimate);
  Book::show(node);
}

void Viewers::settle(Clock::time_point now, std::string_view node_id) {
  auto* node = book_->known(node_id);
  if (!node) return;
  book_->expire(*node, now, most_at_once);
  node->arrived = 0;
  if (!node->penalty) node->penalty = book_->penalty_of(node_id);
  Book::show(*node);
}

void Viewers::expire(Clock::time_point now) {
  for (const auto& [id, node] : book_->nodes) {
    book_->expire(*node, now, most_at_once);
    Book::show(*node);
  }
}

void Viewers::forget(std::string_view node_id) {
  auto found = book_->nodes.find(node_id);
  if (found == book_->nodes.end()) return;
  auto& node = *found->second;
  for (auto* list : {&node.pending, &node.active, &node.gone})
    while (!list->empty()) book_->erase(*list, list->begin());
  book_->nodes.erase(found);
}

std::uint64_t Viewers::active(std::string_view node) const {
  auto* known = book_->known(node);
  return known ? known->active.size() : 0;
}

std::uint64_t Viewers::pending(std::string_view node) const {
  auto* known = book_->known(node);
  return known ? known->pending.size() : 0;
}

std::uint64_t Viewers::pending_bandwidth(std::string_view node) const {
  auto* known = book_->known(node);
  return known ? known->bandwidth : 0;
}

std::size_t Viewers::size() const { return book_->size; }

std::map<std::string, std::uint64_t> Viewers::pending_sums() const {
  std::map<std::string, std::uint64_t> sums;
  for (const auto& [id, node] : book_->nodes)
    if (auto sum = saturated(node->bandwidth, node->arrived); sum > 0) sums.emplace(id, sum);
  return sums;
}

std::uint64_t viewer_estimate(double up_speed, std::uint64_t connections) {
  constexpr double least = 65536, most = 1048576, unknown = 131072;
  if (up_speed <= 0 || connections == 0) return static_cast<std::uint64_t>(unknown);
  return static_cast<std::uint64_t>(
      std::clamp(up_speed / static_cast<double>(connections), least, most));
}

}  // namespace warren::foghorn
