// warren init: creates a working crew to start from.
#include <fmt/format.h>

#include "base/host/folder.h"
#include "cli/board/crew_file.h"

namespace warren::cli {

namespace {

namespace fs = std::filesystem;

constexpr auto crew_text = R"(# The agents of this folder. `lint` checks this file.
version: "1.0"

agents:
  Writer: # makes a draft of every goal
    command: [./agents/writer.sh]
    bidding_strategy: exclusive
    bids_on: {types: [GoalDefined]}

  Publisher: # publishes every draft, and so ends the work on its goal
    command: [./agents/publisher.sh]
    bidding_strategy: exclusive
    bids_on: {types: [Draft]}
)";

constexpr auto writer_text = R"(#!/bin/sh
# Reads a goal as JSON, writes a draft as JSON. What goes to standard error is in the log.
set -eu
input=$(cat)
# Of all payloads the target's comes first. It stays as JSON has it, escaped.
goal=${input#*\"payload\":\"}
goal=${goal%%\",\"source_artefacts\":*}

echo "writing" >&2
printf '{"artefact_type":"Draft","artefact_payload":"About: %s","summary":"a draft"}\n' "$goal"
)";

constexpr auto publisher_text = R"(#!/bin/sh
# Reads a draft, writes what is final: a Terminal artefact ends the work on a goal.
set -eu
input=$(cat)
draft=${input#*\"payload\":\"}
draft=${draft%%\",\"source_artefacts\":*}

printf '{"artefact_type":"Page","structural_type":"Terminal","artefact_payload":"%s",' "$draft"
printf '"summary":"published"}\n'
)";

struct NewFile {
  fs::path path;
  const char* text;
  unsigned mode;
};

Result<Exit> init(const std::string& crew_file, const std::string& program, bool is_forced) {
  const NewFile files[] = {{crew_file, crew_text, 0666},
                           {"agents/writer.sh", writer_text, 0777},
                           {"agents/publisher.sh", publisher_text, 0777}};
  std::error_code ignored;
  for (const auto& file : files)
    if (!is_forced && fs::exists(fs::symlink_status(file.path, ignored)))
      return fail(Errc::refused, "{} is here already; --force replaces it", file.path.string());
  // This may be a clone of an untrusted repository, where these names may be links to anywhere.
  auto here = Folder::open(".");
  if (!here) return std::unexpected(here.error());
  auto agents = here->make_folder("agents");
  if (!agents) return std::unexpected(agents.error());
  auto folder_of = [&](const NewFile& file) -> const Folder& {
    return file.path.has_parent_path() ? *agents : *here;
  };
  // Existing files are replaced only if there is space for all of the new ones: the disk may be
  // full.
  std::vector<std::string> prepared;
  for (const auto& file : files) {
    auto written = folder_of(file).prepare(file.path.filename(), file.text, file.mode);
    if (!written) {
      for (std::size_t i = 0; i < prepared.size(); ++i) folder_of(files[i]).discard(prepared[i]);
      return std::unexpected(written.error());
    }
    prepared.push_back(*std::move(written));
  }
  for (std::size_t i = 0; i < prepared.size(); ++i) {
    auto placed = folder_of(files[i]).put_in_place(prepared[i], files[i].path.filename());
    if (!placed) return std::unexpected(placed.error());
    fmt::print("Wrote {}\n", files[i].path.string());
  }
  fmt::print("\nNext:\n  {0} lint\n  {0} up\n  {0} forage --goal \"a page about rabbits\"\n",
             program);
  return Exit::ok;
}

}  // namespace

void add_init(CLI::App& root, Action& chosen) {
  auto* app = add_command(root, "init", "Write an example of agents that work, to begin with",
                          "Agents and their work");
  auto crew_file = crew_file_name(root), program = program_of(root);
  set_footer(*app,
             fmt::format("Writes {}, agents/writer.sh and agents/publisher.sh in this folder.",
                         crew_file));
  auto* force = add_switch(*app, "--force", "replace these files where they exist");
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context&) { return init(crew_file, program, is_given(*force)); };
  });
}

}  // namespace warren::cli
