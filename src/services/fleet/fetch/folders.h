#pragma once
// Git repositories in folders of this machine: those below ~/src, or a folder of mirrors.
#include <filesystem>
#include <string>
#include <vector>

namespace warren::fleet {

struct FoundRepository {
  std::filesystem::path path;
  std::string name;  // its path below the folder, without ".git"; of the folder itself: its own
};

// Those at or below the folder, bare ones too, by name; none inside of another, none more than six
// folders below, 10,000 at most, and through no link.
std::vector<FoundRepository> repositories_below(const std::filesystem::path& folder);

// Those that a pattern of a shell names: /srv/mirrors/*/*.git.
std::vector<std::filesystem::path> repositories_matching(const std::string& pattern);

}  // namespace warren::fleet
