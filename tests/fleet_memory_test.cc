// What changes in a node's memory by itself is noticed, and built anew.
#include <fcntl.h>
#include <unistd.h>

#include <fstream>

#include "tests/with_fleet.h"

namespace warren::fleet {

namespace {

// A word that stands nowhere in this program's memory but in what was read from a repository.
constexpr char mask = 0x15;
std::string masked(std::string text) {
  for (char& c : text) c = static_cast<char>(c ^ mask);
  return text;
}

const std::string& secret() {
  static const std::string word = masked("cassowary_in_the_rain");
  return word;
}

// Flips a bit of the word wherever it stands in memory that belongs to no file; how often it did.
// The heap and the stack have what was read in passing, and nobody's index.
int damage(const std::string& masked_word) {
  int memory = ::open("/proc/self/mem", O_RDWR | O_CLOEXEC);
  REQUIRE(memory >= 0);
  int found = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0, inode = 0;
    char access[8] = {};
    auto fields =
        std::sscanf(line.c_str(), "%lx-%lx %7s %*s %*s %lu", &begin, &end, access, &inode);
    bool is_anonymous = fields == 4 && inode == 0 && line.find('[') == std::string::npos;
    if (!is_anonymous || access[0] != 'r' || end - begin > (256u << 20)) continue;
    std::string bytes(end - begin, '\0');
    auto got = ::pread(memory, bytes.data(), bytes.size(), static_cast<off_t>(begin));
    if (got <= 0) continue;
    bytes.resize(static_cast<std::size_t>(got));
    bytes = masked(std::move(bytes));
    for (auto at = bytes.find(masked_word); at != bytes.npos;
         at = bytes.find(masked_word, at + 1)) {
      char flipped = static_cast<char>(bytes[at] ^ mask ^ 1);
      found += ::pwrite(memory, &flipped, 1, static_cast<off_t>(begin + at)) == 1 ? 1 : 0;
    }
  }
  ::close(memory);
  return found;
}

auto finds_word = [](Router& router, const std::size_t& letters) -> awaitable<Result<>> {
  auto found = co_await finds(router, masked(secret().substr(0, letters)), 1);
  co_return found;
};

}  // namespace

TEST_CASE("a bit that flips in memory is found, the repository built anew, and it is told") {
  Orchard orchard(1);
  orchard.repositories[0].write("bird.txt", masked(secret()) + "\n");
  orchard.repositories[0].commit();
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 1);
    auto& router = fleet.start_router();
    auto settings = fleet.node_settings("n1");
    settings.verify = 200ms;
    fleet.start_node(std::move(settings));
    std::size_t letters = secret().size();
    co_await eventually(60s, "it is served", finds_word, router, letters);
    co_await router.settled();
    REQUIRE(damage(secret()) > 0);
    auto is_told = [](Fleet& all) {
      return all.metrics.exposition().contains("warren_fleet_damaged_total 1");
    };
    co_await eventually(60s, "the damage is found", is_told, fleet);
    // By another query: what a node keeps of the first one was damaged, too.
    letters = 12;
    co_await eventually(60s, "it is found again", finds_word, router, letters);
  });
}

}  // namespace warren::fleet
