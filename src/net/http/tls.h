#pragma once
// TLS for HTTP servers and clients. Certificates and keys are PEM texts; they may come from a file,
// a Secret or a setting.
#include <string>

#include "redis/connection/tls.h"

namespace warren {

using redis::TlsContext;

struct PemPair {
  std::string certificate;  // ours first, then the issuers'
  std::string key;
};

// Errc::invalid says what is wrong with the texts, without quoting them.
Result<TlsContext> tls_for_server(const PemPair& own);
// Trusts certificates signed by the CA, or, without one, those that this system trusts. The
// server's certificate must be valid for the URL's host. The client may present its own
// certificate.
Result<TlsContext> tls_for_client(const std::string& ca = {}, const PemPair& own = {});

}  // namespace warren
