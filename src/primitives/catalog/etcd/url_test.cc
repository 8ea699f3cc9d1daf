#include "primitives/catalog/etcd/url.h"

#include <doctest/doctest.h>

namespace warren::etcd {

TEST_CASE("a URL of etcd names members, a prefix, and files for TLS") {
  auto plain = parse_url("etcd://a:1234,b,[::1]:2380/fleet/one/");
  REQUIRE(plain);
  CHECK(plain->addresses == std::vector<std::string>{"a:1234", "b:2379", "[::1]:2380"});
  CHECK(plain->prefix == "fleet/one");
  CHECK_FALSE(plain->tls.any());
  auto secure = parse_url("etcds://a?ca=/ca.pem&cert=/c.pem&key=/k.pem");
  REQUIRE(secure);
  CHECK(secure->prefix.empty());
  CHECK(secure->tls.authority == "/ca.pem");
  CHECK(secure->tls.certificate == "/c.pem");
  CHECK(secure->tls.key == "/k.pem");
}

TEST_CASE("a URL of etcd that is wrong is refused") {
  for (std::string url :
       {"", "redis://a", "etcd://", "etcd:///fleet", "etcd://a:99999", "etcd://a,,b",
        "etcd://a?ca=/ca.pem", "etcds://a", "etcds://a?cert=/c.pem&key=/k.pem",
        "etcds://a?ca=/ca.pem&cert=/c.pem", "etcds://a?ca=", "etcds://a?c=1"}) {
    CAPTURE(url);
    auto refused = parse_url(url);
    REQUIRE(!refused);
    CHECK(refused.error().code == Errc::invalid);
  }
}

}  // namespace warren::etcd
