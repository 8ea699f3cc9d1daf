#pragma once
// Who may come in, and how often.
#include <boost/asio/ip/address.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace warren {

// Compared in a time that tells nothing of the secret but its length. An empty one is nobody's.
bool same_secret(std::string_view given, std::string_view secret);
// Of "Bearer xyz": xyz. Empty when it is something else.
std::string_view bearer_token(std::string_view authorization);

struct RateTerms {
  double per_second = 1000;
  double burst = 2000;
  std::size_t most_clients = 1u << 14;
};

// So many requests a second for each client, and some more at once. A client is an IPv4 address or
// a /64 of IPv6. The table has a fixed size: where two clients meet in one place, the newer one has
// it, and begins with a full bucket. Who spreads over so many addresses is not limited by any one.
class RateLimit {
 public:
  explicit RateLimit(RateTerms terms = {});
  bool admits(const asio::ip::address& client, Clock::time_point now);
  // What was admitted cost as much as so many more: they are missing from what comes next.
  void charge(const asio::ip::address& client, double requests);

 private:
  struct Bucket {
    std::uint64_t client = 0;
    Clock::time_point filled_at = {};
    double left = 0;
  };
  RateTerms terms_;
  std::vector<Bucket> buckets_;
  std::uint64_t seed_;
};

}  // namespace warren
