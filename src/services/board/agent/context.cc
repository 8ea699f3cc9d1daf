#include "services/board/agent/context.h"

#include <algorithm>
#include <set>

namespace warren::agent {

using namespace board;

namespace {

constexpr int most_levels = 10;
constexpr std::size_t most_artefacts = 4096, most_bytes = 64u << 20;

bool is_context(StructuralType type) {
  return type == StructuralType::standard || type == StructuralType::answer ||
         type == StructuralType::review;
}

// The artefact, or the newest version of it. None when it is not there or cannot be read.
Async<std::optional<Artefact>> newest(const Board& board, std::string id) {
  auto artefact = co_await board.artefact(std::move(id));
  auto is_weather = [](Errc code) { return code != Errc::not_found && code != Errc::protocol; };
  if (!artefact) {
    if (is_weather(artefact.error().code)) co_return std::unexpected(artefact.error());
    co_return std::nullopt;
  }
  auto latest = co_await board.latest(artefact->logical_id);
  if (!latest && is_weather(latest.error().code)) co_return std::unexpected(latest.error());
  if (latest && latest->version > artefact->version) co_return *std::move(latest);
  co_return *std::move(artefact);
}

class Collection {
 public:
  // False when its logical artefact is here already.
  bool add(const Artefact& artefact) {
    if (!seen_.insert(artefact.logical_id).second) return false;
    bytes_ += artefact.payload.size();
    if (is_context(artefact.structural_type)) kept_.push_back(artefact);
    return true;
  }
  bool is_too_large() const { return seen_.size() > most_artefacts || bytes_ > most_bytes; }
  std::vector<Artefact> sorted() && {
    std::ranges::sort(kept_, {}, [](const Artefact& a) { return std::pair(a.created_at, a.id); });
    return std::move(kept_);
  }

 private:
  std::set<std::string> seen_;
  std::size_t bytes_ = 0;
  std::vector<Artefact> kept_;
};

}  // namespace

Async<std::vector<Artefact>> assemble_context(const Board& board, Artefact target,
                                              Words additional) {
  Collection collection;
  std::set<std::string> asked;
  Words level = target.source_artefacts, next;
  level.insert(level.end(), additional.begin(), additional.end());
  for (int depth = 0; depth < most_levels && !level.empty(); ++depth) {
    for (const auto& id : level) {
      if (!asked.insert(id).second) continue;
      auto artefact = co_await newest(board, id);
      if (!artefact) co_return std::unexpected(artefact.error());
      if (!*artefact || !collection.add(**artefact)) continue;
      if (collection.is_too_large())
        co_return fail(Errc::refused, "the context is larger than {} artefacts or {} bytes",
                       most_artefacts, most_bytes);
      next.insert(next.end(), (*artefact)->source_artefacts.begin(),
                  (*artefact)->source_artefacts.end());
    }
    level = std::exchange(next, {});
  }
  co_return std::move(collection).sorted();
}

}  // namespace warren::agent
