#include "proof/testkit/certificates.h"

#include <doctest/doctest.h>

#include "proof/testkit/process.h"
#include "proof/testkit/servers/redis_server.h"

using namespace warren;

namespace {

struct Outcome {
  int code;
  std::string text;
};

Outcome run_program(std::vector<std::string> argv) {
  TempFolder folder;
  Process process({.argv = std::move(argv), .log = folder.path() / "log"});
  int code = process.wait(30s);
  return {code, process.log_text()};
}

Outcome verify(const Certificates& certificates, const CertificatePair& pair,
               std::vector<std::string> more = {}) {
  std::vector<std::string> argv = {"openssl", "verify", "-x509_strict", "-CAfile",
                                   certificates.ca()};
  argv.insert(argv.end(), more.begin(), more.end());
  argv.push_back(pair.certificate);
  return run_program(std::move(argv));
}

Outcome tls_ping(const RedisServer& server, const Certificates& trusted,
                 std::vector<std::string> more = {}) {
  std::vector<std::string> argv = {"redis-cli", "-p",       std::to_string(server.tls_port()),
                                   "--tls",     "--cacert", trusted.ca()};
  argv.insert(argv.end(), more.begin(), more.end());
  argv.push_back("PING");
  return run_program(std::move(argv));
}

}  // namespace

TEST_CASE("certificates are good for their names, until they expire, and for their own CA only") {
  Certificates certificates, others;
  CHECK(verify(certificates, certificates.server(), {"-purpose", "sslserver"}).code == 0);
  CHECK(verify(certificates, certificates.server(), {"-verify_hostname", "localhost"}).code == 0);
  CHECK(verify(certificates, certificates.server(), {"-verify_ip", "127.0.0.1"}).code == 0);
  CHECK(verify(certificates, certificates.server(), {"-verify_hostname", "other"}).code != 0);
  CHECK(verify(certificates, certificates.client(), {"-purpose", "sslclient"}).code == 0);
  CHECK(verify(others, certificates.server()).code != 0);

  auto expired = verify(certificates, certificates.expired());
  CHECK(expired.code != 0);
  CHECK(expired.text.find("certificate has expired") != std::string::npos);

  auto other = certificates.issue({.common_name = "x", .names = "DNS:other.example,IP:127.0.0.9"});
  CHECK(verify(certificates, other, {"-verify_hostname", "other.example"}).code == 0);
  CHECK(verify(certificates, other, {"-verify_ip", "127.0.0.9"}).code == 0);
  CHECK(verify(certificates, other, {"-verify_hostname", "localhost"}).code != 0);
}

TEST_CASE("a TLS server answers those who trust its CA, and nobody else") {
  Certificates certificates, others;
  RedisServer server({.tls = &certificates});
  CHECK(tls_ping(server, certificates).text == "PONG\n");
  CHECK(tls_ping(server, others).text.find("certificate verify failed") != std::string::npos);
  CHECK(server.cli({"PING"}) == "PONG");
}

TEST_CASE("a TLS server may ask for a client certificate, and may show an expired one") {
  Certificates certificates;
  RedisServer strict({.tls = &certificates, .needs_client_certificate = true});
  auto& client = certificates.client();
  CHECK(tls_ping(strict, certificates, {"--cert", client.certificate, "--key", client.key}).text ==
        "PONG\n");
  CHECK(tls_ping(strict, certificates).text.find("PONG") == std::string::npos);

  RedisServer stale({.tls = &certificates, .certificate = certificates.expired()});
  CHECK(tls_ping(stale, certificates).text.find("certificate verify failed") != std::string::npos);
}
