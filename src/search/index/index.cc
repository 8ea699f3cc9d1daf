// Builds the index of a text: (key, block) pairs, distributed into 512 buckets by the upper half of
// the key, so that writes stay in the cache. Each bucket is then sorted by the lower half and
// packed.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>

#include "search/index/keys.h"
#include "search/index/parts.h"
#include "search/index/postings.h"
#include "search/parallel.h"

namespace warren::search {

namespace {

constexpr std::uint32_t low_bits = 9;
constexpr std::size_t bucket_count = key_count >> low_bits;
constexpr std::size_t keys_per_bucket = 1u << low_bits;
// Chunk sizes double, so that a small text uses little memory and a large one needs few chunks.
constexpr std::size_t chunk_pairs(std::size_t chunk) {
  return std::size_t{256} << std::min<std::size_t>(chunk, 6);
}
constexpr std::size_t least_text = 512u << 10;

// The memory that this build may still use.
class Budget {
 public:
  Budget(std::size_t limit, std::size_t used) : limit_(limit), used_(used) {}
  bool take(std::size_t bytes) { return used_.fetch_add(bytes) + bytes <= limit_; }
  void give_back(std::size_t bytes) { used_.fetch_sub(bytes); }
  std::unexpected<Error> exceeded() const {
    return fail(Errc::overloaded, "the index needs more than the {} MB allowed", limit_ >> 20);
  }

 private:
  std::size_t limit_;
  std::atomic<std::size_t> used_;
};

// The pairs of one bucket, two bytes each: the low half of the key, and the distance in blocks from
// the previous pair. With full block numbers, a build would need twice the memory.
class Chain {
 public:
  static constexpr std::uint32_t skip = 127;  // only skips this many blocks

  // Returns false if the budget is exhausted.
  bool append(std::uint32_t key, std::uint32_t block, Budget& budget) {
    for (; block - block_ >= skip; block_ += skip)
      if (!push(skip << low_bits, budget)) return false;
    auto gap = block - block_;
    block_ = block;
    return push(gap << low_bits | (key & (keys_per_bucket - 1)), budget);
  }
  template <class F>
  void each(F&& visit) const {
    std::size_t rest = capacity_ - static_cast<std::size_t>(end_ - next_);
    std::uint32_t block = 0;
    for (std::size_t place = 0; place < chunks_.size(); ++place) {
      const auto* chunk = chunks_[place].get();
      auto count = std::min(rest, chunk_pairs(place));
      rest -= count;
      for (std::size_t i = 0; i < count; ++i) {
        std::uint32_t gap = chunk[i] >> low_bits;
        block += gap;
        if (gap != skip) visit(chunk[i] & (keys_per_bucket - 1), block);
      }
    }
  }
  std::size_t memory() const { return capacity_ * sizeof(std::uint16_t); }

 private:
  bool push(std::uint32_t pair, Budget& budget) {
    if (next_ == end_ && !grow(budget)) return false;
    *next_++ = static_cast<std::uint16_t>(pair);
    return true;
  }
  bool grow(Budget& budget) {
    auto count = chunk_pairs(chunks_.size());
    if (!budget.take(count * sizeof(std::uint16_t))) return false;
    chunks_.push_back(std::make_unique_for_overwrite<std::uint16_t[]>(count));
    capacity_ += count;
    next_ = chunks_.back().get();
    end_ = next_ + count;
    return true;
  }

  std::uint16_t* next_ = nullptr;
  std::uint16_t* end_ = nullptr;
  std::uint32_t block_ = 0;
  std::size_t capacity_ = 0;
  std::vector<std::unique_ptr<std::uint16_t[]>> chunks_;
};
using Chains = std::array<Chain, bucket_count>;

struct Bucket {
  std::vector<std::uint8_t> lists;
  std::array<std::uint32_t, keys_per_bucket>
      entries;  // as in the directory, relative to this bucket's begin
  std::array<bool, keys_per_bucket> has{};
};

struct Build {
  const Segment& segment;
  const BuildTerms& terms;
  int threads;
  Budget budget;
  std::vector<std::unique_ptr<Chains>> chains;  // one per thread
  std::vector<std::unique_ptr<Bucket>> buckets;
  std::atomic<std::size_t> next_bucket = 0;

  // All threads work at about the same pace, so one of them reports for all.
  void tell(int thread, double from, double to, double part) const {
    if (thread == 0 && terms.progress) terms.progress(from + (to - from) * part);
  }
};

Result<> collect_pairs(Build& build, int thread) {
  auto count = std::uint64_t{build.segment.block_count()};
  auto threads = static_cast<std::uint64_t>(build.threads);
  auto place = static_cast<std::uint64_t>(thread);
  auto& chains = *build.chains[place];
  KeyCollector collector;
  auto end = static_cast<std::uint32_t>(count * (place + 1) / threads);
  for (auto block = static_cast<std::uint32_t>(count * place / threads); block < end; ++block) {
    if (block % 256 == 0)
      build.tell(thread, texts_placed, keys_collected, static_cast<double>(block) / end);
    for (auto key : collector.collect(build.segment.block(block).text))
      if (!chains[key >> low_bits].append(key, block, build.budget)) return build.budget.exceeded();
  }
  return ok;
}

// Sorts the pairs of a bucket by key. Threads had ascending ranges of blocks, so the blocks of each
// key stay in order.
Result<> pack_bucket(Build& build, std::size_t place, std::vector<std::uint32_t>& sorted) {
  std::array<std::size_t, keys_per_bucket + 1> begins{};
  for (auto& chains : build.chains)
    (*chains)[place].each([&](std::uint32_t key, std::uint32_t) { ++begins[key + 1]; });
  for (std::size_t key = 0; key < keys_per_bucket; ++key) begins[key + 1] += begins[key];
  std::size_t total = begins[keys_per_bucket];
  if (total > sorted.size()) {
    if (!build.budget.take((total - sorted.size()) * 4)) return build.budget.exceeded();
    sorted.resize(total);
  }
  auto next = begins;
  for (auto& chains : build.chains) {
    auto& chain = (*chains)[place];
    chain.each([&](std::uint32_t key, std::uint32_t block) { sorted[next[key]++] = block; });
    build.budget.give_back(chain.memory());
    chain = {};
  }
  build.buckets[place] = std::make_unique<Bucket>();
  auto& bucket = *build.buckets[place];
  for (std::size_t key = 0; key < keys_per_bucket; ++key) {
    std::span<const std::uint32_t> list(sorted.data() + begins[key], begins[key + 1] - begins[key]);
    if (list.empty()) continue;
    bucket.has[key] = true;
    bucket.entries[key] =
        list.size() == 1 ? only_block | list[0] : static_cast<std::uint32_t>(bucket.lists.size());
    if (list.size() > 1) encode_list(list, build.segment.block_count(), bucket.lists);
  }
  bucket.lists.shrink_to_fit();
  return build.budget.take(bucket.lists.size()) ? Result<>(ok) : build.budget.exceeded();
}

Result<> join(Build& build, Segment::Parts& parts) {
  std::vector<std::uint64_t> present(key_count / 64);
  std::vector<std::uint32_t> entries;
  std::size_t size = 0;
  for (std::size_t place = 0; place < bucket_count; ++place) {
    const auto& bucket = *build.buckets[place];
    for (std::size_t key = 0; key < keys_per_bucket; ++key) {
      if (!bucket.has[key]) continue;
      std::size_t whole = place * keys_per_bucket + key;
      present[whole / 64] |= std::uint64_t{1} << (whole % 64);
      auto entry = bucket.entries[key];
      entries.push_back((entry & only_block) != 0 ? entry
                                                  : entry + static_cast<std::uint32_t>(size));
    }
    size += bucket.lists.size();
  }
  if (size >= only_block) return fail(Errc::overloaded, "the index has more than 2 GB");
  auto directory_size = directory_bytes(entries.size());
  if (!build.budget.take(size + directory_size)) return build.budget.exceeded();
  auto lists = Region::make(size + postings_slack);
  auto directory = Region::make(directory_size);
  if (!lists || !directory) return fail(Errc::overloaded, "the system has no more memory");
  write_directory(present, entries, (*directory)->data());
  auto* out = (*lists)->data();
  for (auto& bucket : build.buckets) {
    if (!bucket->lists.empty()) std::memcpy(out, bucket->lists.data(), bucket->lists.size());
    out += bucket->lists.size();
    bucket.reset();
  }
  parts.at(SectionKind::postings) = Section::whole(std::move(*lists), size + postings_slack);
  parts.at(SectionKind::directory) = Section::whole(std::move(*directory), directory_size);
  return ok;
}

}  // namespace

Result<std::shared_ptr<const Segment>> SegmentBuilder::with_index(const Segment& scannable,
                                                                  const BuildTerms& terms) {
  auto parts = std::make_unique<Segment::Parts>(scannable.parts());
  if (scannable.arena().size() < least_text)
    return std::make_shared<const Segment>(std::move(parts));
  if (scannable.block_count() >= only_block)
    return fail(Errc::overloaded, "{} blocks are more than an index takes",
                scannable.block_count());
  Build build{
      scannable, terms, std::max(1, terms.threads), Budget(terms.memory_bytes, parts->memory()),
      {},        {}};
  for (int thread = 0; thread < build.threads; ++thread)
    build.chains.push_back(std::make_unique<Chains>());
  build.buckets.resize(bucket_count);
  auto collected = in_parallel(build.threads, [&](int i) { return collect_pairs(build, i); });
  if (!collected) return std::unexpected(collected.error());
  auto packed = in_parallel(build.threads, [&](int thread) -> Result<> {
    std::vector<std::uint32_t> sorted;
    for (std::size_t place; (place = build.next_bucket++) < bucket_count;) {
      build.tell(thread, keys_collected, 1, static_cast<double>(place) / bucket_count);
      auto done = pack_bucket(build, place, sorted);
      if (!done) return done;
    }
    build.budget.give_back(sorted.size() * 4);
    return ok;
  });
  if (!packed) return std::unexpected(packed.error());
  auto joined = join(build, *parts);
  if (!joined) return std::unexpected(joined.error());
  return std::make_shared<const Segment>(std::move(parts));
}

}  // namespace warren::search
