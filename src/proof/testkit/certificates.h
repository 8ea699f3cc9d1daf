#pragma once
// Certificates made on the fly, as PEM files: a CA of the test's own, and what it has signed.
#include <filesystem>
#include <string>

#include "base/clock.h"
#include "proof/testkit/temp_folder.h"

namespace warren::inline testkit {

struct CertificatePair {
  std::filesystem::path certificate, key;
};

struct CertificateTerms {
  std::string common_name;
  std::string names = {};  // of the host, in OpenSSL's format: "DNS:localhost,IP:127.0.0.1"
  std::chrono::seconds starts_in = -1h;
  std::chrono::seconds ends_in = 24h;  // negative: expired
};

class Certificates {
 public:
  Certificates();

  const std::filesystem::path& ca() const { return ca_.certificate; }
  const CertificatePair& server() const { return server_; }  // for localhost and 127.0.0.1
  const CertificatePair& client() const { return client_; }
  const CertificatePair& expired() const { return expired_; }  // a server's, expired an hour ago
  // Issues another certificate, signed by this CA. It is valid for servers and clients.
  CertificatePair issue(const CertificateTerms& terms);

 private:
  TempFolder folder_;
  int count_ = 0;
  CertificatePair ca_, server_, client_, expired_;
};

}  // namespace warren::inline testkit
