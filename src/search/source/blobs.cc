// Reads texts from a repository's packs, through `git cat-file --batch`.
#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "search/parallel.h"
#include "search/source/git.h"
#include "search/source/repository.h"
#include "search/source/skip.h"

namespace warren::search {

namespace {

constexpr int reader_count = 2;  // one git process unpacks in one thread
constexpr std::size_t small_job = 16u << 20;

// A blob and the entries that refer to it.
struct Job {
  const TreeEntry* entry;
  std::vector<const TreeEntry*> others;
};

class BlobStream {
 public:
  BlobStream(Child child, std::string names)
      : child_(std::move(child)), names_(std::move(names)), input_(names_), buffer_(256u << 10) {}

  Result<> read(const TreeEntry& entry, std::string& text) {
    auto head = line();
    if (!head) return std::unexpected(head.error());
    if (*head != fmt::format("{} blob {}", entry.blob, entry.size))
      return fail(Errc::refused, "the repository is damaged: {} has no text ({})", entry.path,
                  child_.complaint().empty() ? *head : child_.complaint());
    auto got = bytes(entry.size, text);
    if (!got) return got;
    auto end = line();
    if (!end) return std::unexpected(end.error());
    if (end->empty()) return ok;
    return fail(Errc::refused, "the repository is damaged: {} is longer than it says", entry.path);
  }

 private:
  Result<std::size_t> more(char* into, std::size_t size) {
    auto got = child_.exchange(input_, true, into, size);
    if (!got || *got > 0) return got;
    int code = child_.wait();
    auto complaint = child_.complaint();
    return fail(Errc::refused, "the repository is damaged: git ended ({}) before all was read{}{}",
                code, complaint.empty() ? "" : ": ", complaint);
  }
  Result<std::string> line() {
    std::string text;
    for (;;) {
      const auto* begin = buffer_.data() + begin_;
      const auto* end = static_cast<const char*>(std::memchr(begin, '\n', end_ - begin_));
      text.append(begin, end == nullptr ? end_ - begin_ : static_cast<std::size_t>(end - begin));
      if (end != nullptr) {
        begin_ += static_cast<std::size_t>(end - begin) + 1;
        return text;
      }
      if (text.size() > 4096) return fail(Errc::protocol, "git: a line without an end");
      auto got = more(buffer_.data(), buffer_.size());
      if (!got) return std::unexpected(got.error());
      begin_ = 0;
      end_ = *got;
    }
  }
  Result<> bytes(std::size_t size, std::string& text) {
    Result<> result = ok;
    text.resize_and_overwrite(size, [&](char* into, std::size_t) {
      std::size_t have = std::min(size, end_ - begin_);
      std::memcpy(into, buffer_.data() + begin_, have);
      begin_ += have;
      while (have < size) {
        auto got = more(into + have, size - have);
        if (!got) {
          result = std::unexpected(got.error());
          break;
        }
        have += *got;
      }
      return have;
    });
    return result;
  }

  Child child_;
  std::string names_;
  std::string_view input_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // of the buffered data
};

struct Reading {
  const std::string& path;
  std::vector<Skipped>& skipped;
  const Take& take;
  std::vector<Job> jobs = {};
  std::mutex mutex = {};  // documents are taken one at a time
  std::atomic<bool> has_failed = false;

  Result<> deliver(const Job& job, std::string&& text);
  Result<> read(std::span<const Job> part);
};

Result<> Reading::deliver(const Job& job, std::string&& text) {
  bool binary = is_binary(text);
  std::lock_guard lock(mutex);
  auto give = [&](const TreeEntry& entry, std::string&& content) -> Result<> {
    if (!binary) return take({entry.path, std::move(content), entry.blob, entry.branches});
    skipped.push_back({entry.path, "binary", entry.blob});
    return ok;
  };
  for (const auto* entry : job.others) {
    auto given = give(*entry, std::string(text));
    if (!given) return given;
  }
  return give(*job.entry, std::move(text));
}

Result<> Reading::read(std::span<const Job> part) {
  if (part.empty()) return ok;
  std::string names;
  for (const auto& job : part) names += job.entry->blob + '\n';
  auto child = Child::start(git_in(path, {"cat-file", "--batch", "--buffer"}));
  if (!child) return std::unexpected(child.error());
  BlobStream stream(std::move(*child), std::move(names));
  for (const auto& job : part) {
    std::string text;
    auto done = stream.read(*job.entry, text);
    if (done) done = deliver(job, std::move(text));
    if (!done) has_failed = true;
    if (!done || has_failed) return done;
  }
  return ok;
}

std::vector<Job> jobs_of(std::span<const TreeEntry> entries) {
  std::vector<Job> jobs;
  std::unordered_map<std::string_view, std::size_t> places;
  for (const auto& entry : entries) {
    auto [place, is_new] = places.try_emplace(entry.blob, jobs.size());
    if (is_new)
      jobs.push_back({&entry, {}});
    else
      jobs[place->second].others.push_back(&entry);
  }
  return jobs;
}

}  // namespace

Result<> read_entries(const std::string& path, std::span<const TreeEntry> entries,
                      std::vector<Skipped>& skipped, const Take& take) {
  Reading reading{path, skipped, take};
  reading.jobs = jobs_of(entries);
  std::size_t total = 0, before = 0, middle = 0;
  for (const auto& job : reading.jobs) total += job.entry->size;
  std::span<const Job> jobs = reading.jobs;
  if (total < small_job) return reading.read(jobs);
  // Neighbours in the tree are packed as deltas of each other: so split into two runs, not
  // alternately.
  while (middle < jobs.size() && before < total / reader_count)
    before += jobs[middle++].entry->size;
  return in_parallel(reader_count, [&](int place) {
    return reading.read(place == 0 ? jobs.first(middle) : jobs.subspan(middle));
  });
}

}  // namespace warren::search
