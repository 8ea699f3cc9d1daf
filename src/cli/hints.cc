#include "cli/hints.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/causes.h"
#include "base/printable.h"
#include "cli/causes.h"
#include "net/rpc/causes.h"
#include "primitives/catalog/etcd/causes.h"
#include "primitives/lease/causes.h"
#include "redis/causes.h"
#include "search/causes.h"
#include "services/board/store/causes.h"
#include "services/instance/causes.h"

namespace warren::cli {

namespace {

struct Row {
  Cause cause;
  std::string_view hint;          // {} is replaced by the command
  std::optional<Exit> exit = {};  // by default that of the code
};

constexpr std::array table{
    Row{redis::causes::unreachable,
        "start it (redis-server), or say where it is: --redis-url redis://HOST:PORT, or REDIS_URL"},
    Row{redis::causes::silent,
        "the server is stopped, overloaded or behind a firewall; --timeout 10s waits longer"},
    Row{redis::causes::not_redis,
        "check host and port (--redis-url, REDIS_URL); a server with TLS wants rediss://"},
    Row{redis::causes::too_old, ""},
    Row{redis::causes::bad_certificate,
        "name the CA that signed it with --redis-tls-ca FILE, or REDIS_TLS_CA"},
    Row{redis::causes::bad_tls_file,
        "`--help` lists the settings, and the places where they can be given"},
    Row{redis::causes::wrong_password,
        "set REDIS_PASSWORD, or REDIS_PASSWORD_FILE to a file that holds it, and for an ACL user "
        "REDIS_USERNAME"},
    Row{redis::causes::not_permitted,
        "the ACL of this Redis user lacks a key, a channel or a command that this needs: `ACL LOG` "
        "of redis-cli shows which"},
    Row{redis::causes::out_of_memory,
        "Redis has used up its memory: raise maxmemory (redis-cli CONFIG SET maxmemory), or delete "
        "what nobody needs"},
    Row{redis::causes::cannot_persist,
        "Redis cannot write to its disk: free some space there; its log says what is wrong"},
    Row{redis::causes::not_ready,
        "the server is there, but takes no commands yet; --timeout 10s waits longer"},
    Row{redis::causes::is_replica,
        "this server is a replica: say where the primary is with --redis-url or REDIS_URL"},
    Row{redis::causes::moved, ""},
    Row{redis::causes::asked, ""},
    Row{redis::causes::split_keys,
        "the server is there, but takes no commands yet; --timeout 10s waits longer"},
    Row{redis::causes::foreign_key, ""},
    Row{redis::causes::unknown_script, ""},
    Row{redis::causes::id_not_above, ""},
    Row{redis::causes::error_reply, ""},
    Row{rpc::causes::status, ""},
    Row{etcd::causes::compacted, ""},
    Row{etcd::causes::behind, ""},
    Row{etcd::causes::no_space,
        "etcd has used up its quota: compact and defragment it, then disarm its alarm"},
    Row{etcd::causes::busy, ""},
    Row{etcd::causes::not_connected, ""},
    Row{lease::causes::fenced, ""},
    Row{lease::causes::not_replicated,
        "a replica is slow, or went down a moment ago (until most sentinels have noticed, it is "
        "waited "
        "for); with --unreplicated nobody waits for replicas"},
    Row{search::causes::bad_query, ""},
    Row{board::causes::missing, ""},
    Row{board::causes::bad_field, ""},
    Row{board::causes::bad_times, "see `{} --help`"},
    Row{instance::causes::name_taken, ""},
    Row{instance::causes::workspace_taken, ""},
    Row{causes::bad_words, "see `{} --help`"},
    Row{causes::not_ready, "a longer --timeout waits longer"},
    Row{warren::causes::bad_setting,
        "`--help` lists the settings, and the places where they can be given"},
    Row{warren::causes::no_resources, "", Exit::failed},
};

const Row* row_of(const Error& error) {
  auto row = std::ranges::find(table, error.cause, &Row::cause);
  return row == table.end() ? nullptr : row;
}

Exit exit_of(Errc code) {
  switch (code) {
    case Errc::invalid:
      return Exit::usage;
    case Errc::unavailable:
    case Errc::timeout:
      return Exit::unreachable;
    case Errc::denied:
      return Exit::denied;
    case Errc::not_found:
    case Errc::held_elsewhere:
    case Errc::lease_lost:
    case Errc::refused:
    case Errc::overloaded:
    case Errc::unknown_outcome:
    case Errc::protocol:
    case Errc::cancelled:
      return Exit::failed;
  }
  std::abort();
}

}  // namespace

Exit exit_for(const Error& error) {
  const auto* row = row_of(error);
  return row && row->exit ? *row->exit : exit_of(error.code);
}

std::string hint_for(const Error& error, const std::string& command) {
  if (error.code == Errc::unknown_outcome)
    return "it may have been done all the same: look before you repeat it";
  const auto* row = row_of(error);
  return row ? fmt::format(fmt::runtime(row->hint), command) : "";
}

Cause cause_named(std::string_view word) {
  auto row = std::ranges::find(table, word, [](const Row& each) { return each.cause.word(); });
  return row == table.end() ? Cause() : row->cause;
}

// Printable text never contains this separator.
std::string line_of(const Error& error) {
  return fmt::format("{}\x1f{}\x1f{}\x1f{}", static_cast<int>(error.code), error.cause.word(),
                     printable(error.subject), printable(error.what));
}

Error error_in(std::string_view line) {
  std::array<std::string_view, 4> parts;
  for (auto& part : parts) {
    part = line.substr(0, line.find('\x1f'));
    line.remove_prefix(std::min(line.size(), part.size() + 1));
  }
  int code = 0;
  std::from_chars(parts[0].data(), parts[0].data() + parts[0].size(), code);
  return {static_cast<Errc>(code), cause_named(parts[1]), std::string(parts[2]),
          std::string(parts[3])};
}

}  // namespace warren::cli
