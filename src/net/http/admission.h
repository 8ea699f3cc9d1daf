#pragma once
// Who may send requests, and how often.
#include <boost/asio/ip/address.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace warren {

// Compares in constant time: timing reveals only the secret's length. An empty secret matches
// nothing.
bool same_secret(std::string_view given, std::string_view secret);
// Returns xyz for "Bearer xyz", and "" for anything else.
std::string_view bearer_token(std::string_view authorization);

struct RateTerms {
  double per_second = 1000;
  double burst = 2000;
  std::size_t most_clients = 1u << 14;
};

// Limits the rate of requests per client, with a burst. A client is an IPv4 address or an IPv6 /64.
// The table has a fixed size: if two clients share a slot, the newer one takes it and starts with a
// full bucket. So a client that uses very many addresses is not limited.
class RateLimit {
 public:
  explicit RateLimit(RateTerms terms = {});
  bool admits(const asio::ip::address& client, Clock::time_point now);
  // Charges an admitted request for its real cost: later requests have that many fewer available.
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
