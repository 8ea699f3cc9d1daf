#include "services/fleet/router/repo_metrics.h"

#include <algorithm>
#include <array>

#include "services/fleet/plan/repo_samples.h"

namespace warren::fleet {

namespace {

struct Sample {
  const std::string* repo;
  int number;
  const Table::Slot* slot;
};

std::vector<Sample> largest(const Table& table, std::size_t most) {
  std::vector<Sample> samples;
  for (const auto& [name, repo] : table.repos())
    for (const auto& [number, slot] : repo.slots) samples.push_back({&name, number, &slot});
  auto count = std::min(most, samples.size());
  auto end = samples.begin() + static_cast<std::ptrdiff_t>(count);
  std::ranges::partial_sort(samples, end, [](const Sample& a, const Sample& b) {
    auto first = a.slot->note.memory_bytes, second = b.slot->note.memory_bytes;
    if (first != second) return first > second;
    return std::tie(*a.repo, a.number) < std::tie(*b.repo, b.number);
  });
  samples.resize(count);
  return samples;
}

struct Family {
  const char *name, *help;
  std::uint64_t (*of)(const Table::Slot&);
};
constexpr std::array families{
    Family{"memory_bytes", "Memory that a repository takes.",
           [](const Table::Slot& slot) { return slot.note.memory_bytes; }},
    Family{"size_bytes", "Text of a repository.",
           [](const Table::Slot& slot) { return slot.note.size_bytes; }},
    Family{"index_time_ms", "How long its index took.",
           [](const Table::Slot& slot) { return slot.note.index_ms; }},
    Family{"fetch_time_ms", "How long it took to fetch.",
           [](const Table::Slot& slot) { return slot.note.fetch_ms; }},
    Family{"claim_latency_ms", "From when its node saw it on offer to the claim.",
           [](const Table::Slot& slot) { return slot.note.claim_ms; }},
    Family{"ready", "1: it is served.",
           [](const Table::Slot& slot) {
             bool is_served =
                 slot.row.state == RowState::ready || slot.row.state == RowState::draining;
             return std::uint64_t{is_served};
           }},
};

}  // namespace

std::string repo_metrics(const Table& table, std::size_t most) {
  auto largest_of_all = largest(table, most);
  std::string text;
  for (const auto& family : families) {
    std::vector<RepoSample> samples;
    for (const auto& sample : largest_of_all)
      samples.push_back({*sample.repo, sample.number, node_name(sample.slot->row.owner),
                         family.of(*sample.slot)});
    text += repo_family(family.name, family.help, samples);
  }
  return text;
}

}  // namespace warren::fleet
