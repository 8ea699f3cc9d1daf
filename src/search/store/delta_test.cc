#include "search/store/delta.h"

#include <map>

#include "search/index/test_texts.h"
#include "search/source/test_repository.h"

namespace warren::search {
namespace {

using State = std::multimap<std::string, std::string>;

// The files that a search of the list sees.
State live(const SegmentList& list) {
  State state;
  for (const auto& segment : list)
    for (std::uint32_t file = 0; file < segment->file_count(); ++file)
      if (!segment->is_dead(file)) state.emplace(segment->file(file).path, segment->text(file));
  return state;
}

State fresh(const Repository& repository, std::vector<std::string> refs) {
  auto list = update_repository(repository.path.string(), std::move(refs), nullptr);
  REQUIRE(list);
  return live(**list);
}

SegmentListPtr update(const Repository& repository, SegmentListPtr list,
                      std::vector<std::string> refs, std::size_t delta_from) {
  UpdateTerms terms;
  terms.delta_from = delta_from;
  auto updated = update_repository(repository.path.string(), std::move(refs), list, terms);
  REQUIRE_MESSAGE(updated, (updated ? "" : updated.error().what));
  return *updated;
}

TEST_CASE("after any changes the list shows what the repository has, however it came about") {
  for (unsigned seed = 1; seed <= 2; ++seed) {
    std::mt19937 random(seed);
    Repository repository;
    auto text = [&] {
      return fmt::format("{}\n{}\n", random() % 20, std::string(random() % 3000, 'x'));
    };
    for (int i = 0; i < 120; ++i) repository.write(fmt::format("d{}/f{}.c", i % 7, i), text());
    repository.write("a.png", std::string("\0x", 2));
    repository.commit();
    repository.run({"branch", "other"});
    std::vector<std::string> refs{"main", "other"};
    auto list = update(repository, nullptr, refs, 0);
    CHECK(list->size() == 1);
    std::size_t longest = 0, shortest_later = 99;
    for (int step = 0; step < 14; ++step) {
      for (int i = 0; i < 3; ++i) {
        auto name = fmt::format("d{}/f{}.c", random() % 7, random() % 120);
        if (random() % 4 == 0)
          fs::remove(repository.path / name);
        else
          repository.write(name, text());
      }
      if (step == 5) repository.run({"branch", "-f", "other", "main"});
      repository.commit();
      auto before = list;
      auto state_before = live(*before);
      list = update(repository, list, refs, 0);
      CHECK(live(*list) == fresh(repository, refs));
      CHECK(live(*before) == state_before);  // a reader with the old list sees the old state
      for (const auto& segment : *list) CHECK(segment->version() == (*list)[0]->version());
      REQUIRE((*list)[0]->skipped().size() == 1);
      CHECK((*list)[0]->skipped()[0].path == "a.png");
      longest = std::max(longest, list->size());
      if (step > 3) shortest_later = std::min(shortest_later, list->size());
    }
    CHECK(longest > 2);          // there were deltas,
    CHECK(shortest_later == 1);  // and they were merged
    CHECK(update(repository, list, refs, 0) == list);
  }
}

TEST_CASE("a small repository is built anew, and texts that did not change are not read again") {
  Repository repository;
  std::mt19937 random(6);
  for (int i = 0; i < 20; ++i) {
    std::string text(20'000, ' ');
    for (char& c : text) c = static_cast<char>('a' + random() % 26);
    repository.write(fmt::format("f{}.c", i), text);
  }
  repository.commit();
  auto list = update(repository, nullptr, {}, 50u << 20);
  auto blob = repository.run({"rev-parse", "HEAD:f3.c"});
  repository.write("f1.c", "changed\n");
  repository.commit();
  // From now on, reading this text fails: its size is still right, its end is not.
  auto object = repository.path / ".git/objects" / blob.substr(0, 2) / blob.substr(2, 38);
  fs::permissions(object, fs::perms::all);
  std::fstream(object, std::ios::in | std::ios::out | std::ios::binary)
      .seekp(5000)
      .write("!!!!!!", 6);
  CHECK(!update_repository(repository.path.string(), {}, nullptr));
  auto next = update(repository, list, {}, 50u << 20);
  CHECK(next->size() == 1);
  CHECK(live(*next).find("f1.c")->second == "changed\n");
  CHECK(live(*next).find("f3.c")->second == live(*list).find("f3.c")->second);
}

TEST_CASE("a delta is forecast to take memory for what it changes, and a rebuild for everything") {
  Repository repository;
  for (int i = 0; i < 20; ++i)
    repository.write(fmt::format("f{}.c", i), std::string(1u << 20, static_cast<char>('a' + i)));
  repository.commit();
  auto list = update(repository, nullptr, {"main"}, 0);
  repository.write("f3.c", std::string(1u << 20, '3'));
  repository.commit();
  auto listing = list_repository(repository.path.string(), {"main"}, {});
  REQUIRE(listing);
  UpdateTerms terms;
  terms.delta_from = 1u << 20;
  auto whole = forecast_memory(*listing).peak;
  CHECK(whole > 40u << 20);
  auto delta = forecast_update(*listing, list, terms).peak;
  CHECK(delta > 2u << 20);
  CHECK(delta < 12u << 20);
  CHECK(forecast_update(*listing, nullptr, terms).peak == whole);
  terms.delta_from = 100u << 20;
  CHECK(forecast_update(*listing, list, terms).peak == whole);
}

TEST_CASE("a delta keeps only the changed files and shares the rest") {
  Repository repository;
  for (int i = 0; i < 200; ++i)
    repository.write(fmt::format("f{}.c", i), std::string(2000, 'a') + std::to_string(i));
  repository.commit();
  auto list = update(repository, nullptr, {"main"}, 0);
  repository.write("f7.c", "seven\n");
  repository.run({"mv", "f8.c", "g8.c"});
  repository.commit();
  auto next = update(repository, list, {"main"}, 0);
  REQUIRE(next->size() == 2);
  CHECK((*next)[1]->file_count() == 2);
  CHECK((*next)[0]->arena().data() == (*list)[0]->arena().data());
  std::size_t dead = 0;
  for (std::uint32_t file = 0; file < (*next)[0]->file_count(); ++file)
    if ((*next)[0]->is_dead(file)) ++dead;
  CHECK(dead == 2);
  TempFolder folder;
  auto path = (folder.path() / "base").string();
  REQUIRE((*next)[0]->save(path));
  auto loaded = Segment::load(path);
  REQUIRE(loaded);
  for (std::uint32_t file = 0; file < (*loaded)->file_count(); ++file)
    CHECK((*loaded)->is_dead(file) == (*next)[0]->is_dead(file));
}

TEST_CASE("a file that base and delta both have is shown once") {
  std::vector<Document> documents;
  Listing listing;
  for (int i = 0; i < 40; ++i) {
    documents.push_back({fmt::format("f{}.c", i), "text\n", fmt::format("{:032x}", i), {}});
    listing.entries.push_back({documents.back().path, documents.back().blob, 5, {}});
  }
  listing.source.version = "new";
  auto delta = build({documents[7]});
  auto before = std::make_shared<const SegmentList>(SegmentList{build(documents), delta});
  auto no_need = [](std::span<const TreeEntry> entries, std::vector<Skipped>&, const Take&) {
    CHECK(entries.empty());
    return Result<>(ok);
  };
  UpdateTerms terms;
  terms.delta_from = 0;
  auto after = update_listing(listing, no_need, before, terms);
  REQUIRE(after);
  CHECK(live(**after).size() == 40);
}

}  // namespace
}  // namespace warren::search
