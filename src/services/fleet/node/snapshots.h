#pragma once
// Very large repositories on disk, for a node that starts again: optional, and beside what a node does all
// day. A snapshot is read into memory as a whole before anybody is answered from it.
//
//   FOLDER/github.com+owner+name.snapshot
//     front      one page: what it is, its format, and the length and checksum of the facts
//     facts      of which repository and commits, and how long each segment is; in whole pages
//     segments   as they are streamed (search/store/stream.h), with a checksum for each section
//
//   built ── temporary file ── fsync ── rename ──> there as a whole, or not at all
//
// Whatever is found there that is not whole, not ours, of another format or of another repository is
// Errc::invalid, and the repository is brought as if nothing were there. Checksums find accidents; the
// folder and what is in it are for this user alone, and no link in it is followed.
#include <filesystem>
#include <string>

#include "services/fleet/node/held.h"

namespace warren::fleet {

struct SnapshotTerms {
  std::filesystem::path folder;
  std::uint64_t over_bytes = 1ull << 30;   // of memory: what takes less is quickly built
  std::uint64_t most_bytes = 20ull << 30;  // of all files. The ones not used for longest go
  // A repository is written at most so often. What has new commits since then is brought up to date.
  std::chrono::milliseconds pause = 10min;
};

class Snapshots {
 public:
  // Makes the folder if it is not there. Errc::denied: it is a link, somebody else's, or others may look
  // into it.
  static Result<Snapshots> open(SnapshotTerms terms);
  Snapshots(Snapshots&& other) noexcept;
  Snapshots& operator=(Snapshots&&) = delete;
  ~Snapshots();

  const SnapshotTerms& terms() const { return terms_; }

  // These block, for a thread of a pool.
  //
  // In place of the one before. Errc::overloaded: it is larger than all may be, or the disk is full.
  Result<> save(const std::string& repo, const Held& held) const;
  // What one has, without its segments. Errc::not_found: there is none. Errc::invalid.
  Result<HandOver> facts_of(const std::string& repo) const;
  // Counts as use. Errc::overloaded: it has more bytes than that.
  Result<Held> load(const std::string& repo, std::uint64_t most_bytes) const;
  void remove(const std::string& repo) const;

 private:
  Snapshots(SnapshotTerms terms, int folder) : terms_(std::move(terms)), folder_(folder) {}
  std::unexpected<Error> failure(const std::string& name, int error) const;
  Result<> make_room(const std::string& name, std::uint64_t bytes) const;
  void remove_leftovers() const;

  SnapshotTerms terms_;
  int folder_;  // open, so that it is the one that was looked at
};

}  // namespace warren::fleet
