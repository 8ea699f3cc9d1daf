#pragma once
// TLS for servers and clients of HTTP. Certificates and keys are PEM texts, wherever they came from:
// a file, a Secret, a setting.
#include <string>

#include "redis/connection/tls.h"

namespace warren {

using redis::TlsContext;

struct PemPair {
  std::string certificate;  // ours first, then those that signed it
  std::string key;
};

// Errc::invalid says what is wrong with the texts, and repeats nothing of them.
Result<TlsContext> tls_for_server(const PemPair& own);
// Trusts whom the CA signed, or, without one, whom this system trusts. The server's certificate must
// be for the host of the URL. A client may have a certificate of its own.
Result<TlsContext> tls_for_client(const std::string& ca = {}, const PemPair& own = {});

}  // namespace warren
