#include "proof/torture/worker.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <boost/asio/io_context.hpp>
#include <charconv>

#include "base/log.h"
#include "proof/torture/catalog_worker.h"
#include "proof/torture/lease_worker.h"
#include "proof/torture/mirror_worker.h"
#include "proof/torture/once_worker.h"
#include "redis/client.h"

namespace warren::torture {

namespace {

template <class T>
bool read_number(const std::string& text, T& into) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc() && end == text.data() + text.size();
}

// Impatient, so that much happens in a few seconds.
redis::Settings settings_for(const WorkerTerms& terms) {
  auto settings = terms.servers;
  settings.command_timeout = terms.ttl;
  settings.connect_timeout = terms.ttl;
  settings.ping_interval = terms.ttl / 2;
  settings.silence_limit = terms.ttl;
  settings.backoff_most = 100ms;
  return settings;
}

int run(const WorkerTerms& terms) {
  log::Options options;
  options.levels = "info";
  if (!log::configure(options)) return 1;
  asio::io_context io(1);
  auto client = redis::Client::create(io.get_executor(), settings_for(terms));
  if (!client) return 1;
  auto work = terms.what == lease_worker    ? run_lease_worker(**client, terms)
              : terms.what == mirror_worker ? run_mirror_worker(**client, terms)
              : terms.what == once_worker   ? run_once_worker(**client, terms)
                                            : run_catalog_worker(**client, terms);
  asio::co_spawn(io, std::move(work),
                 [](std::exception_ptr thrown) { ensure(!thrown, "a worker returns its errors"); });
  io.run();
  return 0;
}

bool is_worker(const std::string& word) {
  return word == lease_worker || word == mirror_worker || word == catalog_worker ||
         word == once_worker;
}

}  // namespace

std::vector<std::string> words_of(const WorkerTerms& terms) {
  std::vector<std::string> addresses;
  for (auto& address : terms.servers.addresses) addresses.push_back(to_string(address));
  return {terms.what,
          std::to_string(static_cast<int>(terms.servers.mode)),
          fmt::format("{}", fmt::join(addresses, ",")),
          terms.servers.master_name.empty() ? "-" : terms.servers.master_name,
          std::to_string(terms.process),
          std::to_string(terms.seed),
          std::to_string(terms.locks),
          std::to_string(terms.log_entries),
          std::to_string(terms.ttl.count()),
          std::to_string(int(terms.replicated)),
          std::to_string(int(terms.is_reckless)),
          terms.catalog.empty() ? "-" : terms.catalog,
          terms.journal.string()};
}

Result<WorkerTerms> worker_from(std::span<const std::string> words) {
  WorkerTerms terms;
  int mode = 0, replicated = 0, reckless = 0;
  std::chrono::milliseconds::rep ttl = 0;
  if (words.size() != 13 || !read_number(words[1], mode) || mode < 0 || mode > 2 ||
      !read_number(words[4], terms.process) || !read_number(words[5], terms.seed) ||
      !read_number(words[6], terms.locks) || !read_number(words[7], terms.log_entries) ||
      !read_number(words[8], ttl) || !read_number(words[9], replicated) ||
      !read_number(words[10], reckless))
    return fail(Errc::invalid, "these are not the words of a worker");
  terms.what = words[0];
  terms.servers.mode = static_cast<redis::Mode>(mode);
  terms.servers.addresses.clear();
  std::string_view rest = words[2];
  while (!rest.empty()) {
    auto end = std::min(rest.find(','), rest.size());
    auto address = redis::parse_address(rest.substr(0, end), 6379);
    if (!address) return std::unexpected(address.error());
    terms.servers.addresses.push_back(*address);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (words[3] != "-") terms.servers.master_name = words[3];
  terms.ttl = std::chrono::milliseconds(ttl);
  terms.replicated = replicated == 1;
  terms.is_reckless = reckless == 1;
  if (words[11] != "-") terms.catalog = words[11];
  terms.journal = words[12];
  return terms;
}

std::optional<int> run_as_worker(std::span<const std::string> words) {
  if (words.empty() || !is_worker(words[0])) return std::nullopt;
  auto terms = worker_from(words);
  return terms ? run(*terms) : 2;
}

}  // namespace warren::torture
