#include "net/http/admission.h"

#include <bit>
#include <random>

#include "net/http/message.h"

namespace warren {

namespace {

// All addresses of one IPv6 /64 belong to one customer.
std::uint64_t name_of(const asio::ip::address& client, std::uint64_t seed) {
  std::uint64_t bits = 0;
  if (client.is_v4()) {
    bits = client.to_v4().to_uint();
  } else {
    auto bytes = client.to_v6().to_bytes();
    for (int i = 0; i < 8; ++i) bits = bits << 8 | bytes[static_cast<std::size_t>(i)];
    bits ^= 0x8000'0000'0000'0000;  // no IPv4 address looks like this
  }
  bits = (bits ^ seed) * 0x9e37'79b9'7f4a'7c15;
  bits = (bits ^ bits >> 32) * 0xbf58'476d'1ce4'e5b9;
  return bits ^ bits >> 29;
}

}  // namespace

bool same_secret(std::string_view given, std::string_view secret) {
  if (secret.empty() || given.size() != secret.size()) return false;
  volatile unsigned char difference = 0;
  for (std::size_t i = 0; i < secret.size(); ++i)
    difference = static_cast<unsigned char>(difference | (given[i] ^ secret[i]));
  return difference == 0;
}

std::string_view bearer_token(std::string_view authorization) {
  constexpr std::string_view scheme = "bearer ";
  if (!same_word(authorization.substr(0, scheme.size()), scheme)) return {};
  return authorization.substr(scheme.size());
}

RateLimit::RateLimit(RateTerms terms)
    : terms_(terms),
      buckets_(std::bit_ceil(std::max<std::size_t>(1, terms.most_clients))),
      seed_(std::random_device{}()) {}

bool RateLimit::admits(const asio::ip::address& client, Clock::time_point now) {
  auto name = name_of(client, seed_);
  auto& bucket = buckets_[name & (buckets_.size() - 1)];
  if (bucket.client != name || bucket.filled_at == Clock::time_point{})
    bucket = {name, now, terms_.burst};
  auto waited = std::chrono::duration<double>(now - bucket.filled_at).count();
  bucket.left = std::min(terms_.burst, bucket.left + waited * terms_.per_second);
  bucket.filled_at = now;
  if (bucket.left < 1) return false;
  bucket.left -= 1;
  return true;
}

void RateLimit::charge(const asio::ip::address& client, double requests) {
  if (requests <= 0) return;
  auto name = name_of(client, seed_);
  auto& bucket = buckets_[name & (buckets_.size() - 1)];
  if (bucket.client == name) bucket.left = std::max(bucket.left - requests, -terms_.burst);
}

}  // namespace warren
