#include "search/parallel.h"

#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace warren::search {

Result<> in_parallel(int count, const std::function<Result<>(int)>& work) {
  std::vector<Result<>> results(static_cast<std::size_t>(count), ok);
  auto run = [&](int place) {
    auto& result = results[static_cast<std::size_t>(place)];
    try {
      result = work(place);
    } catch (const std::bad_alloc&) {
      result = fail(Errc::overloaded, "the system has no more memory");
    }
  };
  {
    std::vector<std::jthread> threads;
    threads.reserve(static_cast<std::size_t>(count));
    for (int place = 1; place < count; ++place) {
      try {
        threads.emplace_back(run, place);
      } catch (const std::system_error&) {
        run(place);  // no thread available: run one after the other
      }
    }
    run(0);
  }
  for (auto& result : results)
    if (!result) return result;
  return ok;
}

}  // namespace warren::search
