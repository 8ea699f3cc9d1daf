#pragma once
// The connections of an HttpPool, by origin.
#include <list>
#include <map>

#include "net/http/link.h"
#include "net/http/pool.h"

namespace warren {

struct HttpPool::Core : std::enable_shared_from_this<HttpPool::Core> {
  Core(asio::any_io_executor executor, HttpPoolTerms terms);

  // The call gives the link back, or reports that it is gone. With `anew`, the link is a new
  // connection.
  Async<std::unique_ptr<HttpLink>> take(HttpUrl to, HttpPeer peer, bool anew,
                                        Clock::time_point deadline);
  void give_back(const HttpUrl& to, const HttpPeer& peer, std::unique_ptr<HttpLink> link);
  void gone(const HttpUrl& to, const HttpPeer& peer);
  void drop_idle(Clock::time_point used_before);
  void stop();
  Counters counters() const;
  const HttpPoolTerms& terms() const { return terms_; }

 private:
  struct Origin {
    std::list<std::unique_ptr<HttpLink>> idle;  // the most recently used at the end
    std::size_t open = 0;                       // includes the idle ones
    std::list<Event> line;                      // calls that wait
  };
  struct Place;
  struct Slot;

  std::unique_ptr<HttpLink> take_idle(Origin& origin);
  Async<std::unique_ptr<HttpLink>> connect(HttpUrl to, Clock::time_point deadline);
  void free_slot(const std::string& name);
  void sweep_later();

  asio::any_io_executor executor_;
  HttpPoolTerms terms_;
  std::map<std::string, Origin> origins_;
  Timer timer_;
  bool is_sweeping_ = false;
  bool is_stopped_ = false;
  std::uint64_t connected_ = 0, reused_ = 0;
};

}  // namespace warren
